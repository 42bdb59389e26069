"""What the readers of all formats have in common: a timeline, its typed records, and its parts.

What else the files of a record say is decoded on request (:meth:`Timeline.details`). Parts can be read
anywhere and side by side, each by itself. A part says by itself which records are its own: so however many
there are, no two of them give the same one.
"""

from __future__ import annotations

import copy
import heapq
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from putifabsent.errors import ConfigError
from putifabsent.shim.formats.hudi import completed_as
from putifabsent.shim.formats.hudi_steps import State
from putifabsent.timeline.files import Content, Listed, Problems, arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from typing_extensions import Self

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
    # What its ``commitInfo`` says.
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


# Small files, of which each is a request: so many are soon read.
_ENOUGH_FILES = 512
# What it takes to open a file, in bytes; and how many bytes, those included, are soon read.
_OPENING = 2**20
_ENOUGH_BYTES = 2**26

Identity: TypeAlias = "tuple[str, str, str, str | None]"


class Whole(NamedTuple):
    """A timeline in one part: all that is active, all that is archived, or both."""

    active: bool
    history: bool


class Numbered(NamedTuple):
    """The files of some numbers: Paimon's snapshots and changelogs, which outlive these; Delta's commits."""

    active: tuple[tuple[str, int], ...]
    archived: tuple[tuple[str, int], ...] = ()
    follows: bool = False  # whether an active one that has gone meanwhile is looked for among the archived


class HistoryFile(NamedTuple):
    """A file of the history."""

    path: str
    size: int
    # first, last: as its name says. In a part as its instants say: names in an upgraded table may say too
    # little.
    first: str
    last: str
    level: int  # 0: as they were archived; each level above: of that many files of the level below made one


class Stretch(NamedTuple):
    """What was archived of the instants between two times; and in one part of all, what is active.

    ``files`` are those of the history that may have instants from one T on, and before the other, or to
    the end; one may be of several stretches. Instants that are ``known`` are active, and not read here.
    """

    since: str
    until: str | None
    files: tuple[HistoryFile, ...]
    known: frozenset[Identity]
    active: tuple[Listed, ...] = ()

    def has(self, time: str) -> bool:
        """Whether what was requested then is of this stretch."""
        return self.since <= time and (self.until is None or time < self.until)


Part: TypeAlias = "Whole | Numbered | Stretch"
"""One of :meth:`putifabsent.timeline.Timeline.parts`; it can be pickled."""


def starts(costs: Sequence[int], most: int | None, enough: int) -> list[int]:
    """Return where groups of neighbours begin that cost about the same.

    There may be ``most`` of them; None: as many as there are with ``enough`` in each. No group is a
    ``ConfigError``.
    """
    if most is not None and most < 1:
        raise ConfigError(f"a timeline has 1 part or more, not {most}")
    total = sum(costs)
    groups = max(1, -(-total // enough)) if most is None else most
    found: list[int] = []
    newest, before = -1, 0
    for place, cost in enumerate(costs):
        # By its middle, so that what is a little larger than its share is no two groups'.
        group = (2 * before + cost) * groups // (2 * total)
        if group != newest:
            found.append(place)
        newest, before = group, before + cost
    return found


def numbered_parts(
    active: dict[str, int], archived: dict[str, int], most: int | None, *, follows: bool = False
) -> list[Numbered]:
    """Return files, which come with their numbers, in parts; whatever is of one number is in one part."""
    numbers = sorted({*active.values(), *archived.values()})
    first = [numbers[place] for place in starts([1] * len(numbers), most, _ENOUGH_FILES)]
    here: list[tuple[list[tuple[str, int]], ...]] = [([], []) for _ in first]
    for kind, files in enumerate((active, archived)):
        for path, number in files.items():
            here[bisect_right(first, number) - 1][kind].append((path, number))
    return [Numbered(tuple(there), tuple(gone), follows) for there, gone in here]


def stretches(
    files: Sequence[HistoryFile], most: int | None, active: Sequence[Listed], known: frozenset[Identity]
) -> list[Stretch]:
    """Return stretches that have about as many bytes to read, the oldest one first; at least one."""
    by_time = sorted(files, key=lambda file: file.first)
    begins = starts([file.size + _OPENING for file in by_time], most, _ENOUGH_BYTES)
    # Two files may begin with one T: its instants are one stretch's.
    edges = sorted({by_time[place].first for place in begins})
    found: list[Stretch] = []
    for since, until in zip(["", *edges[1:]], [*edges[1:], None], strict=True):
        empty = Stretch(since, until, (), frozenset(), () if found else tuple(active))
        # In the order of the manifest, as all of them are read in one go.
        inside = tuple(f for f in files if f.last >= since and (until is None or f.first < until))
        own = frozenset(each for each in known if empty.has(each[0]))
        found.append(empty._replace(files=inside, known=own))
    return found


R = TypeVar("R", bound=Record)


class Timeline(ABC, Generic[R]):
    """What has happened to a table. It is read anew by every call, and never written to.

    Where a file can't be read, or a record of it, nothing is guessed: a call that is given a list adds it to
    ``problems``, and goes on with what can be; one that is given none raises it as an :class:`OSError`.
    """

    format: ClassVar[str]
    COLUMNS: ClassVar[tuple[tuple[str, str], ...]]
    """What :meth:`table` has: names, and pyarrow's names of types; ``utc``: a time, in milliseconds."""

    _written_as: ClassVar[str] = ""  # what :meth:`details` has, as its format calls that

    def __init__(self, fs: Any, root: str) -> None:
        self.fs = fs
        self.root = root

    @abstractmethod
    def active(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[R]:
        """Return what the table's own readers look at first: all that is not archived.

        In the ``order`` in which they were requested (those of one time by their salt), or completed.
        ``OSError``: something can't be read, and there are no ``problems``; or the store refuses.
        """

    def history(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[R]:
        """Return what is archived, in formats that keep it; arguments and errors as for :meth:`active`."""
        return iter(())

    def details(self, record: R, problems: Problems | None = None) -> Details:
        """Return all that is written about a record; arguments and errors as for :meth:`active`."""
        content = getattr(record, "content", None)
        return Details(None, Content(self._written_as, content) if content else None)

    def records(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[R]:
        """Return all, in one order; what is archived and still active once; as for :meth:`active`."""
        # In this order: what is archived in between is in both.
        active = list(self.active(order=order, problems=problems))
        there = {each.identity for each in active}
        archived = (
            each for each in self.history(order=order, problems=problems) if each.identity not in there
        )
        yield from heapq.merge(archived, active, key=lambda each: each.key(order))

    def parts(
        self,
        most: int | None = None,
        *,
        active: bool = True,
        history: bool = True,
        problems: Problems | None = None,
    ) -> Sequence[Part]:
        """Cut it into parts, for who reads many of them side by side: together they have each record once.

        What is active is looked up now, as is which files the history consists of; most of these are read
        with their part. There may be ``most`` parts, 1 or more (``ConfigError``); None: as many as it takes
        for none to take long. ``active``, ``history``: whether to read what is active, and what is archived.
        """
        starts([], most, 1)
        return self._cut(Whole(active, history), most, problems)

    def _cut(self, whole: Whole, most: int | None, problems: Problems | None) -> Sequence[Part]:
        """Cut what is wanted into parts, where the format can be cut."""
        del most, problems
        return [whole]

    def records_in(self, part: Part, *, problems: Problems | None = None) -> Iterator[R]:
        """Return the records of a part, in no order; arguments and errors as for :meth:`active`."""
        if not isinstance(part, Whole):
            raise TypeError(f"{type(part).__name__} is no part of a timeline of {self.format}")
        read = self.records if part.active and part.history else self.active if part.active else self.history
        return read(problems=problems)

    def through(self, fs: Any) -> Self:
        """Return the same timeline, read through another filesystem of the same store."""
        other = copy.copy(self)
        other.fs = fs
        return other

    def table(
        self, *, history: bool = True, order: Order = "requested", problems: Problems | None = None
    ) -> pa.Table:
        """Return the same as a pyarrow table: :meth:`records`, or without ``history`` :meth:`active`."""
        read = self.records if history else self.active
        pa = arrow()
        utc = pa.timestamp("ms", "UTC")
        kinds = {name: utc if kind == "utc" else pa.type_for_alias(kind) for name, kind in self.COLUMNS}
        schema = pa.schema(list(kinds.items()))
        return pa.Table.from_pylist([each.row() for each in read(order=order, problems=problems)], schema)
