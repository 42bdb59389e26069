"""Writers of a Hudi copy-on-write table, after Vanlightly's analysis of the v5 specification (April 2024).

Part 1, "A simple logical model of the write path", gives the steps; the TLA+ specification beside it gives
what the text leaves open. A write is of one key. Names are those of table version 6. A salt stands where no
release of Hudi has one.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from putifabsent.testing.explore import Actor
from tests.models.requests import (
    DONE,
    LOST,
    Acquire,
    Assign,
    Load,
    LookUp,
    Next,
    Put,
    Read,
    Release,
    ShakyPut,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping
    from typing import TypeVar

    T = TypeVar("T")
    Process: TypeAlias = Generator[Any, Any, T]

    from putifabsent.testing.explore import ActorRun
    from tests.models.storage import State

Control: TypeAlias = Literal["none", "optimistic", "pessimistic"]
How: TypeAlias = Literal["committed", "taken", "conflict", "nothing to delete", "died"]

TIMELINE, DATA = "/t/.hoodie", "/t/data"
EPOCH = 20260101000000000
"""Times are small numbers above this one, so that a name looks as Hudi's do."""

_SLICE = re.compile(rf"{DATA}/fg(?P<group>\d+)_\d+-0-1_(?P<time>\d+)(?:\.(?P<salt>\w+))?\.parquet")
_COMPLETED = re.compile(rf"{TIMELINE}/(?P<time>[0-9]+)(?:\.(?P<salt>\w+))?\.commit")


class Ended(NamedTuple):
    """What became of a write."""

    how: How


class Committed(NamedTuple):
    """What a writer has committed: what it wrote, and the files that say so."""

    writer: str
    key: str
    value: str | None
    time: int
    files: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Rules:
    """How writers work.

    Attributes
    ----------
    control
        Of concurrency.
    salted
        Whether each name carries a salt of the writer's own.
    key_check
        Whether a key that another writer has mapped to another file group meanwhile is a conflict.
    """

    control: Control
    salted: bool = False
    key_check: bool = True


@dataclass(frozen=True)
class Write:
    """One write.

    Attributes
    ----------
    writer, key, value
        Who puts what under which key; None deletes it.
    group
        The file group that a new key is given.
    time
        What the writer's own clock says; None: it asks a service, which never says the same time twice.
    stops
        Whether the writer fails before its last step. Its locks are given back then.
    shaky
        Whether its connection breaks while it writes its slice. It tries again with the next write token.
    requested
        Whether its requested instant is there already, and it takes that for its own: so does a process that
        goes on with another's instant, or one that put it before the shim was mounted.
    """

    writer: str
    key: str
    value: str | None
    group: int
    time: int | None = None
    stops: bool = False
    shaky: bool = False
    requested: bool = False

    def actor(self, rules: Rules) -> Actor:
        """Return the process."""
        return Actor(self.writer, "write", lambda: _write(rules, self))


class Names(NamedTuple):
    """The files of one instant."""

    time: int
    salt: str | None

    def instant(self, state: str) -> str:
        return f"{TIMELINE}/{EPOCH + self.time}{f'.{self.salt}' if self.salt else ''}{state}"

    def slice(self, group: int, token: int) -> str:
        salt = f".{self.salt}" if self.salt else ""
        return f"{DATA}/fg{group}_{token}-0-1_{EPOCH + self.time}{salt}.parquet"


class Instant(NamedTuple):
    """A completed one, and the slice that it brought."""

    time: int
    salt: str
    group: int
    slice: str


class _Stop(Exception):
    """The write goes no further."""

    def __init__(self, how: How) -> None:
        super().__init__(how)
        self.ended = Ended(how)


def _write(rules: Rules, write: Write) -> Process[Ended]:
    time = (yield Next("time")) if write.time is None else write.time
    names = Names(time, write.writer if rules.salted else None)
    try:
        ended = yield from _steps(rules, write, names)
    except _Stop as stop:
        ended = stop.ended
    if rules.control != "none":
        yield Release(write.writer)
    return ended


def _steps(rules: Rules, write: Write, names: Names) -> Process[Ended]:
    if not write.requested:
        yield from _create(Put(names.instant(".commit.requested"), b""))
    found = yield LookUp(write.key)
    if found is None and write.value is None:
        raise _Stop("nothing to delete")
    group = found or write.group
    if rules.control == "pessimistic":
        yield from _locked(f"fg{group}", write)
    target, rows = yield from _merge_target(group, names)
    yield from _create(Put(names.instant(".inflight"), b""))
    data = _merged(rows, write)
    token = yield from _slice_written(write, names, group, data)
    if rules.control == "optimistic":
        yield from _locked("table", write)
    if not (yield Assign(write.key, group, only_if_free=found is None and rules.key_check)):
        raise _Stop("conflict")
    if rules.control == "optimistic":
        yield from _checked(group, target.time if target else 0)
    if write.stops:
        raise _Stop("died")
    slice_ = names.slice(group, token)
    name, body = names.instant(".commit"), json.dumps({"group": group, "slice": slice_}).encode()
    files = ((name, body), (slice_, data))
    yield from _create(Put(name, body, Committed(write.writer, write.key, write.value, names.time, files)))
    return Ended("committed")


def _create(put: Put) -> Process[None]:
    if (yield put) is not DONE:
        raise _Stop("taken")


def _locked(lock: str, write: Write) -> Process[None]:
    while not (yield Acquire(lock, write.writer)):
        pass


def _merge_target(group: int, names: Names) -> Process[tuple[Instant | None, dict[str, str]]]:
    """Return the newest slice of the file group, if it has one, and what is in it."""
    instants = completed((yield Load(TIMELINE)).files)
    target = max((each for each in instants if each.group == group), default=None)
    if target is None:
        return None, {}
    if target.time >= names.time:
        raise _Stop("conflict")
    return target, json.loads((yield Read(target.slice)))


def _slice_written(write: Write, names: Names, group: int, data: bytes) -> Process[int]:
    """Write the slice, with the next write token each time the connection breaks; return the token."""
    token = 1
    while True:
        put = (ShakyPut if write.shaky and token == 1 else Put)(names.slice(group, token), data)
        outcome = yield put
        if outcome is DONE:
            return token
        if outcome is not LOST:
            raise _Stop("taken")
        token += 1


def _checked(group: int, since: int) -> Process[None]:
    """Go on only if no instant of the file group is newer than the slice that was merged with."""
    instants = completed((yield Load(TIMELINE)).files)
    if any(each.group == group and each.time > since for each in instants):
        raise _Stop("conflict")


def _merged(rows: Mapping[str, str], write: Write) -> bytes:
    merged = {**rows, write.key: write.value}
    kept = {key: value for key, value in merged.items() if value is not None}
    return json.dumps(kept, sort_keys=True).encode()


def completed(files: Iterable[tuple[str, bytes]]) -> list[Instant]:
    """Return the completed instants of a timeline, in their order."""
    return sorted(found for name, data in files if (found := _instant(name, data)) is not None)


@cache
def _instant(name: str, data: bytes) -> Instant | None:
    match = _COMPLETED.fullmatch(name)
    if match is None:
        return None
    said = json.loads(data)
    return Instant(int(match["time"]) - EPOCH, match["salt"] or "", said["group"], said["slice"])


@cache
def _slice(name: str, data: bytes) -> tuple[tuple[int, str, int], dict[str, str]] | None:
    match = _SLICE.fullmatch(name)
    if match is None:
        return None
    return (int(match["time"]) - EPOCH, match["salt"] or "", int(match["group"])), json.loads(data)


def rows_at(files: Mapping[str, bytes], time: int) -> dict[str, set[str]]:
    """Return what a reader finds under each key at a time.

    It takes the newest completed instant of each file group, and, as the specification says, *any* slice of
    that group and time: it does not know write tokens.
    """
    instants = [each for each in completed(files.items()) if each.time <= time]
    newest = {each.group: each.time for each in instants}
    current = {each[:3] for each in instants if each.time == newest[each.group]}
    found: dict[str, set[str]] = defaultdict(set)
    for name, data in files.items():
        part = _slice(name, data)
        if part is not None and part[0] in current:
            for key, value in part[1].items():
                found[key].add(value)
    return found


LOST_WRITE, DUPLICATE, UNCOMMITTED = "lost write", "duplicate rows", "uncommitted rows"


class ConsistentRead:
    """Their invariant: what was committed is read for ever, at its time and later, and nothing else."""

    def judge(self, world: Any, state: State, runs: tuple[ActorRun, ...]) -> str | None:
        files = dict(state.files)
        times = sorted({each.time for each in state.log})
        for time in times:
            read = rows_at(files, time)
            expected = {each.key: each.value for each in state.log if each.time <= time}
            for key in {*read, *expected}:
                broken = self._broken(expected.get(key), read.get(key, set()))
                if broken is not None:
                    return f"{broken}: {key} at time {time}"
        return None

    @staticmethod
    def _broken(expected: str | None, found: set[str]) -> str | None:
        if expected is None:
            return UNCOMMITTED if found else None
        if expected not in found:
            return LOST_WRITE
        return DUPLICATE if len(found) > 1 else None


class BytesKept:
    """What a commit is made of keeps its bytes.

    Parameters
    ----------
    parts
        The completed instant, the slices that it was written for, or both.
    """

    def __init__(self, parts: tuple[str, ...] = ("completed instant", "slice")) -> None:
        self.parts = parts

    def judge(self, world: Any, state: State, runs: tuple[ActorRun, ...]) -> str | None:
        files = dict(state.files)
        for commit in state.log:
            for part, (name, data) in zip(("completed instant", "slice"), commit.files, strict=True):
                if part in self.parts and files.get(name) != data:
                    return f"a {part} of {commit.writer} was overwritten: {name}"
        return None
