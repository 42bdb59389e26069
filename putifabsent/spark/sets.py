"""Committed sets of files: what one record says, and what all records of a dataset come to.

A dataset is a folder::

    _sets/00000000000000000001.json    a record: one committed set
    _files/part-00000-<UUID>.parquet   its files, which nobody can read before a record names them

Records are numbered from 1, and each is a guarded name. Whoever creates record N has read all before it and
found its own valid; so whatever a record promises (a name that is nobody else's, a batch that is added once)
is decided by one create. What is here is pure.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.errors import ConfigError, Fenced, Holder, NameTaken

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

    @property
    def name(self) -> str:
        """Its file's name."""
        return name_of(self.number)

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
