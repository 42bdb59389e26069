"""``format("putifabsent-timeline")``: what has happened to a table, read by as many tasks as that takes.

====================  =================================================================================
``path``              where the table is
``format``            ``hudi``, ``paimon``, ``delta``, ``iceberg``; by default the table shows it
``history``           ``true`` (the default): all; ``false`` or ``active``: what is active alone;
                      ``archived``: what is archived alone
``problems``          ``false`` (the default): what can't be read fails the job; ``true``: it is a row
``partitions``        so many tasks may read it; by default as many as it takes
``storage_options``   options of the filesystem and its mount, as JSON; fsspec's configuration holds, too
====================  =================================================================================

The rows are those of :meth:`putifabsent.timeline.Timeline.table`, in no order, as those of any DataFrame.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.protocols import guarded
from putifabsent.spark.source import Place, api, arrow_schema, place_of
from putifabsent.spark.stores import address_of
from putifabsent.timeline import Problem, Problems, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from putifabsent.timeline import Part, Timeline

_OWN = ("path", "format", "history", "problems", "partitions", "storage_options")
# Whether what is active is read, and what is archived.
_HISTORY = {
    "true": (True, True),
    "false": (True, False),
    "active": (True, False),
    "archived": (False, True),
}
_PROBLEM = "problem"
_TYPES = {"string": "string", "int64": "long", "bool": "boolean", "utc": "timestamp"}
_ROWS = 10_000


def register(spark: SparkSession) -> None:
    """Make ``format("putifabsent-timeline")`` known to a session; ``mount`` has done so."""
    spark.dataSource.register(TimelineSource)


class Query(NamedTuple):
    """What is to be read, by the options."""

    active: bool
    history: bool
    problems: bool
    partitions: int | None

    @staticmethod
    def of(options: Mapping[str, str]) -> Query:
        """Read options; ``ConfigError``: one has a value that is not known."""
        partitions = options.get("partitions")
        if partitions is not None and not (partitions.isdecimal() and int(partitions)):
            raise ConfigError(f"partitions must be a number, 1 or more, not {partitions!r}")
        active, history = _chosen(options, "history", "true", _HISTORY)
        problems = _chosen(options, "problems", "false", {"true": True, "false": False})
        return Query(active, history, problems, None if partitions is None else int(partitions))


def _chosen(options: Mapping[str, str], option: str, default: str, known: Mapping[str, Any]) -> Any:
    value = options.get(option, default).lower()
    if value not in known:
        raise ConfigError(f"{option} must be one of {', '.join(known)}, not {value!r}")
    return known[value]


class TimelineSource(api.DataSource):
    """The data source."""

    @classmethod
    def name(cls) -> str:
        return "putifabsent-timeline"

    def schema(self) -> StructType:
        return _schema(self._timeline(self._place()), Query.of(self.options))

    def reader(self, schema: StructType) -> TimelineReader:
        """Read the timeline as it is when Spark plans the read."""
        query = Query.of(self.options)
        place = self._place()
        timeline = self._timeline(place)
        _check(schema, _schema(timeline, query), query)
        # Credentials stay where they are: each process opens the filesystem by its own.
        return TimelineReader(place, timeline.through(None), query, schema)

    def _place(self) -> Place:
        return place_of(self.options, self.name(), _OWN, "say where the table is: load(path)")

    def _timeline(self, place: Place) -> Timeline[Any]:
        fs, root = _opened(place)
        return read(root, fs=fs, format=self.options.get("format"))


class TimelineReader(api.DataSourceReader):
    """Reads a timeline, a part a task."""

    def __init__(self, place: Place, timeline: Timeline[Any], query: Query, schema: StructType) -> None:
        self._place = place
        self._timeline = timeline
        self._query = query
        self._schema = schema

    def partitions(self) -> Sequence[api.InputPartition]:
        """Return a part for each task; what is active is in the first one, with the problems met so far."""
        problems: Problems | None = [] if self._query.problems else None
        parts: Sequence[Part | None] = self._through_own().parts(
            self._query.partitions, active=self._query.active, history=self._query.history, problems=problems
        )
        # Some of Spark's versions make a partition of their own of none, and others fail.
        first, *rest = parts or [None]
        return [api.InputPartition(each) for each in ((first, problems), *((part, None) for part in rest))]

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = arrow_schema(self._schema)
        rows = self._rows(*partition.value)
        while some := list(islice(rows, _ROWS)):
            yield pa.RecordBatch.from_pylist(some, schema)

    def _rows(self, part: Part | None, met: Iterable[Problem] | None) -> Iterator[dict[str, Any]]:
        problems: Problems | None = list(met or ()) if self._query.problems else None
        if part is not None:
            for each in self._through_own().records_in(part, problems=problems):
                yield each.row()
        for path, trouble, reason in problems or ():
            yield {"path": path, _PROBLEM: {"trouble": trouble.value, "reason": reason}}

    def _through_own(self) -> Timeline[Any]:
        return self._timeline.through(_opened(self._place)[0])


def _opened(place: Place) -> tuple[Any, str]:
    return guarded(address_of(place.url), **place.options)


def _schema(timeline: Timeline[Any], query: Query) -> StructType:
    from pyspark.sql.types import StructType

    schema = StructType()
    for name, kind in timeline.COLUMNS:
        schema.add(name, _TYPES[kind])
    if query.problems:
        schema.add(_PROBLEM, StructType().add("trouble", "string").add("reason", "string"))
    return schema


def _check(wanted: StructType, there: StructType, query: Query) -> None:
    """Refuse columns that are not there, and a schema without the problems that were requested."""
    known = {field.name: field.dataType for field in there}
    for field in wanted:
        if known.get(field.name) != field.dataType:
            kind = field.dataType.simpleString()
            raise ConfigError(
                f"a timeline has no column {field.name!r} of type {kind}: it has {there.simpleString()}"
            )
    if query.problems and _PROBLEM not in wanted.fieldNames():
        raise ConfigError(f"problems=true, and the schema has no column {_PROBLEM!r} for them")
