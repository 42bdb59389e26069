"""What a timeline is made of, as typed records: Hudi's instants, Paimon's snapshots, Delta's commits.

What else their files say is decoded on request (:meth:`putifabsent.timeline.reading.Timeline.details`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from putifabsent.shim.formats.hudi import completed_as
from putifabsent.shim.formats.hudi_steps import State

Order: TypeAlias = Literal["requested", "completed"]
"""By when they began, or by when they were completed; what isn't completed comes last then."""

_EPOCH = datetime.fromtimestamp(0, timezone.utc)
_TO_SECONDS, _TO_MILLISECONDS = 14, 17
_KINDS = {
    **dict.fromkeys(("id", "identifier", "number", "parent", "read", "schema"), "int64"),
    **dict.fromkeys(("archived", "current", "stamped"), "bool"),
    "committed": "utc",
}


def _columns(*names: str) -> tuple[tuple[str, str], ...]:
    """Return columns with what is in them: of all others, text."""
    return tuple((name, _KINDS.get(name, "string")) for name in names)


class StateFile(NamedTuple):
    """A file of a Hudi instant that is there: one state of it; its ``action`` is ``commit`` if unnamed."""

    state: State
    action: str
    path: str
    size: int


class Raw(NamedTuple):
    """What the history keeps of an instant, as :class:`Details` has it, not decoded; None: nothing."""

    plan: bytes | None
    metadata: bytes | None


class Content(NamedTuple):
    """What a file, or a field of the history, says."""

    kind: str  # the name of its Avro schema (``HoodieCommitMetadata``); of JSON empty
    value: Mapping[str, Any]


class Details(NamedTuple):
    """What is known of an instant beside its name; None: it was not written down, or can't be read."""

    plan: Content | None  # what was requested: of a compaction, a clustering, a clean
    metadata: Content | None  # what was completed


@dataclass(frozen=True, slots=True)
class Instant:
    """An instant of a Hudi timeline, in the newest of its states.

    Two that were completed under one ``T`` are two.
    """

    COLUMNS = _columns(
        "time", "salt", "action", "began", "state", "completion", "stamped", "archived", "path"
    )

    time: str  # ``T``: when it was requested
    action: str  # as it is called in this state: what began as a ``compaction`` is completed as a ``commit``
    state: State  # how far it has come; what is in the history is completed
    completion: str | None = None  # ``C``: when it was completed, of a state before that None
    salt: str = ""  # whose it is, in a table where each session keeps its own; else empty
    began: str = ""  # as it was called when it was requested; empty where nothing is left that says so
    # Whether ``completion`` is only when the store says that the file was written: in table version 6, whose
    # names don't tell.
    stamped: bool = False
    files: tuple[StateFile, ...] = ()  # of an active instant: its states that are there, the first one first
    source: str = ""  # of one in the history: the file that it is in
    # What the same file says about it, where that was requested: table version 6 keeps it decoded.
    raw: Raw | Details | None = field(default=None, repr=False, compare=False)

    @property
    def archived(self) -> bool:
        """Whether it is in the history, and no longer active."""
        return bool(self.source)

    @property
    def path(self) -> str:
        """The file that shows it in its state."""
        return self.source or self.files[-1].path

    @property
    def identity(self) -> tuple[str, str, str, str | None]:
        """What tells it from all others of its table, in whatever state, active or archived."""
        completion = None if self.stamped else self.completion
        return self.time, self.salt, completed_as(self.action), completion

    @property
    def begun_at(self) -> datetime | None:
        """When it was requested, in the zone of the table's instants; None of a T that is no time."""
        return _moment(self.time)

    @property
    def ended_at(self) -> datetime | None:
        """When it was completed, in the same zone; None while it isn't."""
        return None if self.completion is None else _moment(self.completion)

    def key(self, order: Order) -> tuple[bool, str, str, str, str, str]:
        """By what it is sorted."""
        is_last = order == "completed" and self.state is not State.COMPLETED
        ended = self.completion or ""
        first = (ended or self.time) if order == "completed" else self.time
        return is_last, first, self.time, self.salt, self.action, ended

    def row(self) -> dict[str, Any]:
        """Itself as a row of a table."""
        return {name: getattr(self, name) for name, _ in self.COLUMNS} | {"state": self.state.value}


class _Created:
    """A record that is requested and completed by one create; its class says which columns it has."""

    __slots__ = ()
    COLUMNS: ClassVar[tuple[tuple[str, str], ...]]
    number: int
    millis: int | None

    @property
    def archived(self) -> bool:
        """Whether it outlives its expiry: most formats forget what has expired."""
        return False

    @property
    def begun_at(self) -> datetime | None:
        """When it was committed; nothing says when it began."""
        return self.ended_at

    @property
    def ended_at(self) -> datetime | None:
        """When it was committed; None: it doesn't say, or that is past what any calendar here has."""
        try:
            return None if self.millis is None else _EPOCH + timedelta(milliseconds=self.millis)
        except OverflowError:
            return None

    @property
    def identity(self) -> int:
        """What tells it from all others of its table."""
        return self.number

    def key(self, _: Order) -> tuple[int, ...]:
        """By what it is sorted, whatever the order."""
        return (self.number,)

    def row(self) -> dict[str, Any]:
        """Itself as a row of a table."""
        return {
            name: self.ended_at if name == "committed" else getattr(self, name) for name, _ in self.COLUMNS
        }


@dataclass(frozen=True, slots=True)
class Snapshot(_Created):
    """A snapshot of a Paimon table, or what is left of one: a changelog that outlives it."""

    COLUMNS = _columns("number", "action", "user", "identifier", "committed", "schema", "archived", "path")

    number: int
    action: str  # what made it: ``APPEND``, ``COMPACT``, ``OVERWRITE``, ``ANALYZE``
    # user, identifier: whose commit, and which of that user's.
    user: str
    identifier: int
    millis: int  # when, in milliseconds since 1970, by the writer's clock
    schema: int  # the number of its schema
    path: str
    archived: bool = False  # whether it is a changelog
    content: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Commit(_Created):
    """A commit of a Delta log; what it doesn't say is None, or empty."""

    COLUMNS = _columns("number", "action", "committed", "read", "transaction", "path")

    number: int
    action: str  # the operation
    # When, in milliseconds since 1970: the commit's own time where it has one, else the writer's.
    millis: int | None
    read: int | None  # the version that the writer had read
    transaction: str  # its id
    path: str
    # How many actions of each kind are in it, and what its ``commitInfo`` says.
    counts: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    content: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class IcebergSnapshot(_Created):
    """A snapshot of an Iceberg table."""

    COLUMNS = _columns("number", "id", "parent", "action", "committed", "current", "path")

    id: int
    parent: int | None  # the id of the one that it came upon; None: it came upon none
    # Its sequence number; where one of those listed has none, as of format version 1, its place among them.
    number: int
    action: str  # the operation; empty where the snapshot doesn't say
    millis: int  # when, in milliseconds since 1970, by the writer's clock
    current: bool  # whether it is what readers see
    path: str  # the address of its manifest list
    # All that the metadata say of it.
    content: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def identity(self) -> int:
        """What tells it from all others of its table."""
        return self.id

    def key(self, _: Order) -> tuple[int, ...]:
        """By what it is sorted, whatever the order."""
        return self.number, self.millis, self.id


Record: TypeAlias = Instant | Snapshot | Commit | IcebergSnapshot
"""One of a timeline, of whatever format."""


def _moment(text: str) -> datetime | None:
    """Return the time that 17 or 14 digits, or more, tell; None for other numbers."""
    milliseconds = text[_TO_SECONDS:_TO_MILLISECONDS] or "0"
    try:
        seconds = datetime.strptime(text[:_TO_SECONDS], "%Y%m%d%H%M%S")  # noqa: DTZ007 - the table's zone
    except ValueError:
        return None
    return seconds + timedelta(milliseconds=int(milliseconds))
