"""Committed sets of files: what one record says, and what all records of a dataset come to.

A dataset is a folder::

    _sets/00000000000000000001.json    a record: one committed set
    _files/part-00000-<UUID>.parquet   its files, which nobody can read before a record names them

Records are numbered from 1, and each is a guarded name. Whoever creates record N has read all before it and
found its own valid; so whatever a record promises (a name that is nobody else's, a batch that is added once)
is decided by one create. All but the dataset itself, at the end, is pure.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.errors import ConfigError, Fenced, Holder, NameTaken, OutcomeUnknown
from putifabsent.fsspec_plugin.protocols import guarded
from putifabsent.spark.stores import address_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

SETS, FILES = "_sets", "_files"
CARRY = 64  # every so many records, one carries all that stands before it: nobody reads a long history
_FORMAT = 1
_DIGITS = 20


@dataclass(frozen=True, slots=True)
class File:
    """A file of a set: its path in the dataset, its rows and its bytes."""

    path: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a stream, as the dataset calls that, of a query, by the UUID that its checkpoint keeps."""

    stream: str
    query: str
    number: int


@dataclass(frozen=True, slots=True)
class Offer:
    """What a job wants to commit: a set of files, of a schema as Spark's JSON says it."""

    token: str  # the job's UUID
    writer: str  # its application's
    schema: dict[str, Any]
    files: tuple[File, ...]
    name: str | None = None  # one that no other set of the dataset may have, ever
    batch: Batch | None = None  # what a stream adds
    replaces: int | None = None  # the last record that the job saw as it began to overwrite; None: it appends


class Seen(NamedTuple):
    """The newest record of a dataset, as a job saw it."""

    number: int
    token: str


@dataclass(frozen=True, slots=True)
class State:
    """What the records of a dataset come to."""

    last: int = 0  # the newest record's number; 0: there is none
    replaced: int = 0  # the newest one's that overwrites
    schema: dict[str, Any] | None = None  # of all that can be read
    files: tuple[File, ...] = ()
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # token and writer of each named set
    streams: Mapping[str, Batch] = field(default_factory=dict)  # the newest batch of each stream

    def admits(self, offer: Offer, dataset: str) -> bool:
        """Whether an offer may be the next record; False: it has been committed already.

        ``NameTaken``: another set has the name. ``Fenced``: it comes too late, an overwrite that has not seen
        the newest record, or a stream's batch that another query, or an older checkpoint of this one, would
        add. ``ConfigError``: it has another schema than what can be read.
        """
        if offer.name is not None and offer.name in self.names:
            token, writer = self.names[offer.name]
            raise NameTaken(f"{dataset}, set {offer.name!r}", Holder(token, writer))
        if offer.batch is not None and not self._goes_on(offer.batch, dataset):
            return False
        if offer.replaces is None:
            self._check_schema(offer.schema, dataset)
        elif offer.replaces != self.last:
            raise Fenced(
                f"{dataset} has had {self.last - offer.replaces} more sets committed since this overwrite "
                "began, or has loaded it: nothing is overwritten. Load it again, and run it again"
            )
        return True

    def _goes_on(self, batch: Batch, dataset: str) -> bool:
        newest = self.streams.get(batch.stream)
        if newest is None:
            return True
        if newest.query != batch.query:
            raise Fenced(
                f"the stream {batch.stream!r} of {dataset} is the query {newest.query}'s, and this is the "
                f"query {batch.query}: go on with that one's checkpoint, or give this one a stream of its "
                'own by option("set", ...)'
            )
        if batch.number < newest.number:
            raise Fenced(
                f"the stream {batch.stream!r} of {dataset} is at batch {newest.number} already, and this is "
                f"batch {batch.number}: the query's checkpoint is older than what it has written"
            )
        return batch.number > newest.number

    def _check_schema(self, schema: dict[str, Any], dataset: str) -> None:
        if self.schema is None:
            return
        there, here = columns(self.schema), columns(schema)
        for column in {**there, **here}:
            if there.get(column) != here.get(column):
                raise ConfigError(
                    f"{dataset} has another schema: column {column!r} is {_shown(there.get(column))} there, "
                    f"and {_shown(here.get(column))} here. Append what it has, or overwrite"
                )

    def after(self, record: Record) -> State:
        """Return what it is with one more record."""
        offer = record.offer
        overwrites = offer.replaces is not None
        return State(
            record.number,
            record.number if overwrites else self.replaced,
            offer.schema if overwrites or self.schema is None else self.schema,
            offer.files if overwrites else self.files + offer.files,
            self.names if offer.name is None else {**self.names, offer.name: (offer.token, offer.writer)},
            self.streams if offer.batch is None else {**self.streams, offer.batch.stream: offer.batch},
        )

    @staticmethod
    def of(records: Iterable[Record], upon: State | None = None) -> State:
        """Fold records that follow one another, and what is before: the first may carry that itself."""
        state = upon or State()
        for record in records:
            if record.before is not None and record.before.last > state.last:
                state = record.before
            state = state.after(record)
        return state


@dataclass(frozen=True, slots=True)
class Record:
    """A committed set: its place among all, and in every :data:`CARRY`-th one, what all before it come to."""

    number: int
    offer: Offer
    before: State | None = None

    @staticmethod
    def next(state: State, offer: Offer) -> Record:
        """Return the record that would commit an offer."""
        number = state.last + 1
        return Record(number, offer, None if number % CARRY else state)

    def encode(self) -> bytes:
        """Return its bytes."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, separators=(",", ":")).encode()

    @staticmethod
    def decode(name: str, data: bytes) -> Record:
        """Read a record; ``ValueError``: it is none; ``ConfigError``: a newer version has written it."""
        try:
            fields = json.loads(data)
            if fields["format"] > _FORMAT:
                raise ConfigError(f"{name} was written by a newer putifabsent: update this one")
            if fields["number"] != number_of(name.rpartition("/")[2]):
                raise ValueError(f"{name} is record {fields['number']}: it is a copy")
            before = None if fields["before"] is None else _state(fields["before"])
            return Record(fields["number"], _offer(fields["offer"]), before)
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{name} is no record of a committed set") from error


def name_of(number: int) -> str:
    """Return the file's name of a record."""
    return f"{number:0{_DIGITS}d}.json"


def number_of(name: str) -> int | None:
    """Return the number of a record by its file's name; None: it is no record."""
    stem, _, suffix = name.partition(".")
    return int(stem) if suffix == "json" and len(stem) == _DIGITS and stem.isdecimal() else None


def carrier_of(last: int) -> int:
    """Return where to begin to read, for all up to a record."""
    return max(1, last - last % CARRY)


def columns(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema's columns and their types, by name."""
    return {column["name"]: column["type"] for column in schema["fields"]}


def nullable(schema: Any) -> Any:
    """Return a schema, or a part of it, in which everything may be null, and which carries no remarks.

    Whether a column may be null depends on how it was made, even for the same table: no reason to refuse it.
    """
    if isinstance(schema, list):
        return [nullable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    always = {"nullable": True, "containsNull": True, "valueContainsNull": True, "metadata": {}}
    return {key: always.get(key, nullable(value)) for key, value in schema.items()}


def _shown(kind: Any) -> str:
    return "not" if kind is None else kind if isinstance(kind, str) else json.dumps(kind)


def _files(files: list[dict[str, Any]]) -> tuple[File, ...]:
    return tuple(File(**each) for each in files)


def _offer(fields: dict[str, Any]) -> Offer:
    batch = None if fields["batch"] is None else Batch(**fields["batch"])
    return Offer(**{**fields, "files": _files(fields["files"]), "batch": batch})


def _state(fields: dict[str, Any]) -> State:
    names = {name: (token, writer) for name, (token, writer) in fields["names"].items()}
    streams = {name: Batch(**batch) for name, batch in fields["streams"].items()}
    return State(**{**fields, "files": _files(fields["files"]), "names": names, "streams": streams})


# --- in a guarded filesystem

_ROUNDS = 100  # so often another may be faster; in every round somebody commits


class Dataset:
    """A folder of committed sets, ``root``, in a guarded filesystem, ``fs``; ``newest`` is its last record.

    Its address is a guarded one, or a plain one that means its guarded kind, as Hadoop spells it too
    (``s3a://...``, ``file:/...``); the options are of the filesystem and of its mount.
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        own = dict(options or {})
        address = address_of(url)
        if address.startswith(("file:", "local:", "piafile:")):
            own.setdefault("auto_mkdir", True)
        guard = own.get("guard", ())
        # For readers, too: where a registry decides, a record may be committed and not yet published.
        own["guard"] = [*([guard] if isinstance(guard, str) else guard), f"**/{SETS}/*.json"]
        self.fs, self.root = guarded(address, **{"formats": "none", **own})
        self._url = url
        self._state = State()
        self.newest: Record | None = None

    def state(self) -> State:
        """Return what all records come to, now."""
        last = self._last()
        if last < self._state.last:
            self._state, self.newest = State(), None  # somebody has removed them, and begun again
        if last > self._state.last:
            first = carrier_of(last)
            upon = self._state if self._state.last >= first else State()
            records = self.records(max(first, upon.last + 1), last)
            self._state, self.newest = State.of(records, upon), records[-1]
        return self._state

    def records(self, first: int, last: int) -> list[Record]:
        """Return records by their numbers, both ends included; ``FileNotFoundError``: one was removed."""
        names = [f"{self.root}/{SETS}/{name_of(number)}" for number in range(first, last + 1)]
        # By their names: `cat` would take one for a pattern.
        found = self.fs.cat_ranges(names, None, None)
        if error := next((each for each in found if isinstance(each, Exception)), None):
            raise error
        return [Record.decode(name, content) for name, content in zip(names, found, strict=True)]

    def _last(self) -> int:
        folder = f"{self.root}/{SETS}"
        self.fs.fs.invalidate_cache(folder)  # others' records must be seen
        try:
            listed = self.fs.ls(folder, detail=False)
        except FileNotFoundError:
            return 0
        return max((number_of(name.rpartition("/")[2]) or 0 for name in listed), default=0)

    @property
    def seen(self) -> Seen | None:
        """The newest record, when it was looked for last; None: there was none."""
        return None if self.newest is None else Seen(self.newest.number, self.newest.offer.token)

    @property
    def address(self) -> str:
        """Its guarded address, however it was spelt."""
        return str(self.fs.unstrip_protocol(self.root))

    def commit(self, offer: Offer, *, seen: Seen | None = None) -> int | None:
        """Commit a set by one create, and return the record's number.

        ``seen`` is the newest record, as the job saw it that offers the set.

        None: this batch of the stream was committed before, and nothing is added. ``NameTaken``, ``Fenced``,
        ``ConfigError``: it was not committed, certainly; its files are removed. ``OutcomeUnknown``: it can't
        be known; nothing is removed.
        """
        try:
            number = self._commit(offer, seen)
        except (NameTaken, Fenced, ConfigError):
            self.discard(offer.files)
            raise
        if number is None:
            committed = {file.path for file in self._state.files}
            self.discard(file for file in offer.files if file.path not in committed)
        return number

    def admits(self, offer: Offer, seen: Seen | None) -> bool:
        """Whether a set may be committed to what was there last; see :meth:`State.admits` for the errors."""
        if seen is not None and not self._has(seen):
            raise Fenced(
                f"{self._url} was removed, or made again, since this job began, or has loaded it: nothing is "
                "committed. Run it again"
            )
        return self._state.admits(offer, self._url)

    def _has(self, seen: Seen) -> bool:
        if seen.number >= self._state.last:
            return self.seen == seen
        try:
            (record,) = self.records(seen.number, seen.number)
        except FileNotFoundError:
            return False
        return record.offer.token == seen.token

    def _commit(self, offer: Offer, seen: Seen | None) -> int | None:
        taken: NameTaken | None = None
        for _ in range(_ROUNDS):
            self.state()
            if not self.admits(offer, seen):
                return None
            if seen is None:
                self._refuse_lost(offer)
            record = Record.next(self._state, offer)
            try:
                self._create(record)
            except NameTaken as error:
                taken = error
            else:
                return record.number
        raise Fenced(
            f"others have committed to {self._url} {_ROUNDS} times in the meantime: run it again"
        ) from taken

    def _refuse_lost(self, offer: Offer) -> None:
        """Refuse a set whose files have gone with the dataset that they were written to.

        A stream, and who saw no record, can't tell that dataset from the one that is there.
        """
        looks = self.fs.cat_ranges([f"{self.root}/{file.path}" for file in offer.files], 0, 1)
        for error in (each for each in looks if isinstance(each, Exception)):
            if not isinstance(error, FileNotFoundError):
                raise error
            raise Fenced(f"{self._url} was removed since this was written: nothing is committed") from error

    def _create(self, record: Record) -> None:
        name = f"{self.root}/{SETS}/{name_of(record.number)}"
        try:
            self.fs.pipe_file(name, record.encode(), mode="create")
        except OutcomeUnknown as unknown:
            if self.fs.resolve(name, unknown.token) is None:
                raise

    def write(self, batches: Iterable[pa.RecordBatch], part: int) -> File | None:
        """Write a file, with the task's number in its name, that no set names yet; None: it has no rows."""
        import pyarrow.parquet as pq

        rest = (batch for batch in batches if batch.num_rows)
        first = next(rest, None)
        if first is None:
            return None
        rows = 0
        path = f"{FILES}/part-{part:05d}-{uuid.uuid4()}.parquet"
        try:
            with self.fs.open(f"{self.root}/{path}", "wb") as file:
                with pq.ParquetWriter(file, first.schema) as writer:
                    for batch in (first, *rest):
                        writer.write_batch(batch)
                        rows += batch.num_rows
                size = file.tell()
        except BaseException:
            self.discard([File(path, 0, 0)])
            raise
        return File(path, rows, size)

    def read(self, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read columns of a file."""
        import pyarrow.parquet as pq

        with self.fs.open(f"{self.root}/{path}", "rb") as file, pq.ParquetFile(file) as parquet:
            wanted = None if set(schema.names) == set(parquet.schema_arrow.names) else schema.names
            for batch in parquet.iter_batches(columns=wanted):
                yield batch.select(schema.names).cast(schema)

    def discard(self, files: Iterable[File]) -> None:
        """Remove files that no set names, as far as that can be done: what is left of them is harmless."""
        for file in files:
            with contextlib.suppress(Exception):
                self.fs.rm_file(f"{self.root}/{file.path}")
