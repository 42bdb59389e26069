"""``format("putifabsent")``: plain Parquet files, committed as a set by one guarded create.

====================  =================================================================================
``path``              where the dataset is
``set``               a name that no other set may have; of a stream, the stream's name
``storage_options``   options of the filesystem and its mount, as JSON; fsspec's configuration holds, too
====================  =================================================================================

What ``format("putifabsent-timeline")`` has in common with it stands at the end.
"""

from __future__ import annotations

import difflib
import errno
import json
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyspark

from putifabsent.errors import ConfigError, Fenced
from putifabsent.spark.sets import Batch, Dataset, File, Offer, Seen, columns, nullable

try:
    from pyspark.sql import datasource as api
except ImportError as error:
    raise ImportError(
        'format("putifabsent") needs PySpark 4.0 or newer, whose API of Python data sources it uses, and so '
        f'does format("putifabsent-timeline"); this is PySpark {pyspark.__version__}'
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Place", "SetSource", "api", "arrow_schema", "place_of", "register"]

_OWN = ("path", "set", "storage_options")
_QUERY = "sql.streaming.queryId"
_STREAM = "stream"
_LOADED = "putifabsent: loaded from "
"""Of a column's metadata: the newest record when it was loaded, by the dataset's address."""
# PySpark 4.0 gives the rows of a stream one by one.
_StreamWriter = getattr(api, "DataSourceStreamArrowWriter", api.DataSourceStreamWriter)


def register(spark: SparkSession) -> None:
    """Make ``format("putifabsent")`` known to a session.

    Spark finds the data source that a job writes to by the *thread's* session: every other thread that writes
    calls this, too.
    """
    spark.dataSource.register(SetSource)
    spark.createDataFrame([], "nothing int")  # makes the session this thread's


class SetSource(api.DataSource):
    """The data source."""

    @classmethod
    def name(cls) -> str:
        return "putifabsent"

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        place = self._place()
        dataset = _open(place)
        schema = dataset.state().schema
        if schema is None or dataset.seen is None:
            raise FileNotFoundError(errno.ENOENT, "nothing has been committed yet", place.url)
        found = StructType.fromJson(schema)
        for column in found:
            # Spark reads all that it shuffles before it asks for a writer, which hears from the columns what
            # was there then.
            column.metadata = {_LOADED + dataset.address: dataset.seen._asdict()}
        return found

    def reader(self, schema: StructType) -> SetReader:
        """Read all sets that stand."""
        return SetReader(self._place(), schema)

    def streamReader(self, schema: StructType) -> SetStreamReader:
        """Read sets as they are committed."""
        return SetStreamReader(self._place(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> SetWriter:
        """Commit a set, which with ``overwrite`` takes the place of all that its job has seen."""
        place = self._place()
        dataset = _open(place)
        dataset.state()
        seen = (_loaded(schema, dataset) if overwrite else None) or dataset.seen
        replaces = (seen.number if seen else 0) if overwrite else None
        offer = Offer(str(uuid.uuid4()), "", _plain(schema), (), self.options.get("set"), None, replaces)
        # What can be refused before anything is written is.
        dataset.admits(offer, seen)
        return SetWriter(place, offer, seen)

    def streamWriter(self, schema: StructType, overwrite: bool) -> SetStreamWriter:
        """Commit a set a batch."""
        if overwrite:
            raise ConfigError('a stream appends: outputMode("complete") is not known here')
        return SetStreamWriter(self._place(), schema, self.options.get("set") or _STREAM)

    def _place(self) -> Place:
        return place_of(
            self.options,
            self.name(),
            _OWN,
            "say where the dataset is: save(path), load(path), or start(path)",
        )


def _open(place: Place) -> Dataset:
    return Dataset(place.url, place.options)


def _loaded(schema: StructType, dataset: Dataset) -> Seen | None:
    """Return the newest record of a dataset when columns were first loaded from it; None: none was."""
    key = _LOADED + dataset.address
    return min((Seen(**each.metadata[key]) for each in schema if key in each.metadata), default=None)


# --- writing


@dataclass(frozen=True)
class Written(api.WriterCommitMessage):
    """What a task has written, and for which query."""

    file: File | None
    query: str | None


def _write(place: Place, batches: Iterable[pa.RecordBatch]) -> Written:
    from pyspark import TaskContext

    task = TaskContext.get()
    file = _open(place).write(batches, task.partitionId())
    return Written(file, task.getLocalProperty(_QUERY))


def _files(messages: Iterable[Written | None]) -> tuple[File, ...]:
    return tuple(message.file for message in messages if message is not None and message.file is not None)


def _abort(place: Place, messages: Sequence[Written | None]) -> None:
    # Spark aborts after a commit that failed, too: what was offered then may have been committed. Only where
    # a task has no message, nobody can have offered anything.
    if None in messages:
        _open(place).discard(_files(messages))


def _plain(schema: StructType) -> dict[str, Any]:
    plain: dict[str, Any] = nullable(schema.jsonValue())
    if len(columns(plain)) < len(plain["fields"]):
        raise ConfigError(f"two columns have one name: {', '.join(schema.fieldNames())}")
    return plain


class SetWriter(api.DataSourceArrowWriter):
    """Commits what a job writes as one set."""

    def __init__(self, place: Place, offer: Offer, seen: Seen | None) -> None:
        self._place = place
        self._offer = offer
        self._seen = seen

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self._place, iterator)

    def commit(self, messages: Sequence[Written | None]) -> None:
        dataset = _open(self._place)
        offer = replace(self._offer, writer=dataset.fs.writer, files=_files(messages))
        dataset.commit(offer, seen=self._seen)

    def abort(self, messages: Sequence[Written | None]) -> None:
        _abort(self._place, messages)


class SetStreamWriter(_StreamWriter):  # type: ignore[misc,valid-type]
    """Commits what a stream writes in a batch as one set."""

    def __init__(self, place: Place, schema: StructType, stream: str) -> None:
        self._place = place
        self._schema = schema
        self._stream = stream

    def write(self, iterator: Iterator[Any]) -> Written:
        arrow = _StreamWriter is not api.DataSourceStreamWriter
        return _write(self._place, iterator if arrow else _converted(iterator, self._schema))

    def commit(self, messages: Sequence[Written | None], batchId: int) -> None:
        """Commit the batch, if there is anything in it and it was not committed before."""
        files = _files(messages)
        if not files:
            return
        (query,) = {message.query for message in messages if message is not None}
        if query is None:
            raise ConfigError("Spark does not say which query this is")
        dataset = _open(self._place)
        batch = Batch(self._stream, query, batchId)
        dataset.commit(Offer(str(uuid.uuid4()), dataset.fs.writer, _plain(self._schema), files, None, batch))

    def abort(self, messages: Sequence[Written | None], batchId: int) -> None:
        _abort(self._place, messages)


def _converted(rows: Iterator[Any], schema: StructType) -> Iterator[pa.RecordBatch]:
    from itertools import islice

    from pyspark.sql.conversion import LocalDataToArrowConversion

    while some := list(islice(rows, 10_000)):
        yield from LocalDataToArrowConversion.convert(some, schema, use_large_var_types=False).to_batches()


# --- reading


class _Reading:
    """What a task does that reads."""

    def __init__(self, place: Place, schema: StructType) -> None:
        self._place = place
        self._schema = schema

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:
            yield from _open(self._place).read(partition.value, arrow_schema(self._schema))

    def _check(self, schema: dict[str, Any]) -> None:
        there = columns(schema)
        for column, kind in columns(_plain(self._schema)).items():
            if there.get(column) != kind:
                raise ConfigError(
                    f"{self._place.url} has no column {column!r} of type {kind}: it has {there}"
                )


class SetReader(_Reading, api.DataSourceReader):
    """Reads all sets that stood when the query was planned; a part is a file."""

    def partitions(self) -> list[api.InputPartition]:
        state = _open(self._place).state()
        if state.schema is not None:
            self._check(state.schema)
        # Some of Spark's versions make a part of their own of none, and others fail.
        return [api.InputPartition(file.path) for file in state.files] or [api.InputPartition(None)]


class SetStreamReader(_Reading, api.DataSourceStreamReader):
    """Reads sets in the order in which they were committed.

    An offset is the number of the last record that was read, its token, and the number of the overwrite that
    it builds on.
    """

    def __init__(self, place: Place, schema: StructType) -> None:
        super().__init__(place, schema)
        self._dataset = _open(place)

    def initialOffset(self) -> dict[str, Any]:
        """Begin with what the newest overwrite has left."""
        replaced = self._dataset.state().replaced
        return {"set": max(0, replaced - 1), "overwrite": replaced}

    def latestOffset(self) -> dict[str, Any]:
        state, newest = self._dataset.state(), self._dataset.newest
        token = {} if newest is None else {"token": newest.offer.token}
        return {"set": state.last, "overwrite": state.replaced, **token}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[api.InputPartition]:
        # A batch that runs again is what it was planned with: its sink may have it, and take no other for it.
        if end["set"] < start["set"] or not (self._is_as_read(start) and self._is_as_read(end)):
            raise Fenced(
                f"{self._place.url} was removed and made again, and is not what this stream has read of it: "
                "begin again, with another checkpoint"
            )
        if start["overwrite"] != end["overwrite"]:
            raise Fenced(
                f"{self._place.url} was overwritten by set {end['overwrite']}, and a stream can't take back "
                "what it has read: begin again, with another checkpoint"
            )
        records = self._dataset.records(start["set"] + 1, end["set"])
        for record in records:
            self._check(record.offer.schema)
        return [api.InputPartition(file.path) for record in records for file in record.offer.files]

    def _is_as_read(self, offset: dict[str, Any]) -> bool:
        token, last = offset.get("token"), offset["set"]
        return token is None or self._dataset.records(last, last)[0].offer.token == token


# --- what both data sources go by

# What Spark hands on of its own.
_SPARKS = ("checkpointlocation", "queryname")


@dataclass(frozen=True)
class Place:
    """What Spark's processes hand one another of a dataset or a table: its address, its mount's options."""

    url: str
    options: dict[str, Any]


def place_of(options: Mapping[str, str], name: str, known: Sequence[str], how: str) -> Place:
    """Return the place that the options of ``format(name)`` say.

    ``ConfigError``: one is not ``known``, there is no path (``how`` to say it), or ``storage_options`` is no
    JSON.
    """
    for option in options:
        if option not in (*known, *_SPARKS):
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise ConfigError(f'format("{name}") has no option {option!r}: {hint}')
    if "path" not in options:
        raise ConfigError(how)
    try:
        own = json.loads(options.get("storage_options", "{}"))
    except ValueError as error:
        raise ConfigError("storage_options must be JSON") from error
    return Place(options["path"], own)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return what Spark expects of what is read."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # PySpark 4.0 means UTC
        return to_arrow_schema(schema)
