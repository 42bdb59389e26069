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
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from putifabsent.testing.graph import Actor
from tests.models.storage import (
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

    from putifabsent.testing.graph import Told
    from tests.models.storage import State

Control: TypeAlias = Literal["none", "optimistic", "pessimistic"]
Process: TypeAlias = "Generator[Any, Any, Ended]"

TIMELINE, DATA = "/t/.hoodie", "/t/data"
EPOCH = 20260101000000000
"""Times are small numbers above this one, so that a name looks as Hudi's do."""

_COMPLETED = re.compile(rf"{TIMELINE}/(?P<time>[0-9]+)(?:\.(?P<salt>\w+))?\.commit")


class Ended(NamedTuple):
    """What became of a write."""

    how: Literal["committed", "taken", "conflict", "nothing to delete", "died"]


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


def _write(rules: Rules, write: Write) -> Process:
    time = (yield Next("time")) if write.time is None else write.time
    names = Names(time, write.writer if rules.salted else None)
    ended = yield from _attempt(rules, write, names)
    if rules.control != "none":
        yield Release(write.writer)
    return ended


def _attempt(rules: Rules, write: Write, names: Names) -> Process:
    if not write.requested and (yield Put(names.instant(".commit.requested"), b"")) is not DONE:
        return Ended("taken")
    found = yield LookUp(write.key)
    if found is None and write.value is None:
        return Ended("nothing to delete")
    group = found or write.group
    if rules.control == "pessimistic":
        while not (yield Acquire(f"fg{group}", write.writer)):
            pass
    target = _target(completed((yield Load((TIMELINE,)))), group)
    rows: dict[str, str] = {}
    if target is not None:
        if target.time >= names.time:
            return Ended("conflict")
        rows = json.loads((yield Read(target.slice)))
    if (yield Put(names.instant(".inflight"), b"")) is not DONE:
        return Ended("taken")
    data = _merged(rows, write)
    token = 1
    while (outcome := (yield _put(write, names.slice(group, token), data, token))) is LOST:
        token += 1
    if outcome is not DONE:
        return Ended("taken")
    if rules.control == "optimistic":
        while not (yield Acquire("table", write.writer)):
            pass
    inserts = found is None
    if not (yield Assign(write.key, group, only_if_free=inserts and rules.key_check)):
        return Ended("conflict")
    if rules.control == "optimistic":
        instants = completed((yield Load((TIMELINE,))))
        if any(each.group == group and each.time > (target.time if target else 0) for each in instants):
            return Ended("conflict")
    if write.stops:
        return Ended("died")
    name, body = names.instant(".commit"), _payload(group, names.slice(group, token))
    says = Committed(
        write.writer, write.key, write.value, names.time, ((name, body), (names.slice(group, token), data))
    )
    return Ended("committed" if (yield Put(name, body, says)) is DONE else "taken")


def _put(write: Write, name: str, data: bytes, token: int) -> Put:
    return (ShakyPut if write.shaky and token == 1 else Put)(name, data)


def _merged(rows: Mapping[str, str], write: Write) -> bytes:
    merged = {**rows, write.key: write.value}
    kept = {key: value for key, value in merged.items() if value is not None}
    return json.dumps(kept, sort_keys=True).encode()


def _payload(group: int, slice_: str) -> bytes:
    return json.dumps({"group": group, "slice": slice_}).encode()


def completed(files: Iterable[tuple[str, bytes]]) -> list[Instant]:
    """Return the completed instants of a timeline, in their order."""
    found = []
    for name, data in files:
        if (match := _COMPLETED.fullmatch(name)) is not None:
            said = json.loads(data)
            time, salt = int(match["time"]) - EPOCH, match["salt"] or ""
            found.append(Instant(time, salt, said["group"], said["slice"]))
    return sorted(found)


def _target(instants: Iterable[Instant], group: int) -> Instant | None:
    """Return the newest slice of a file group, to be merged with."""
    return max((each for each in instants if each.group == group), default=None)


def rows_at(files: Mapping[str, bytes], time: int) -> dict[str, set[str]]:
    """Return what a reader finds under each key at a time.

    It takes the newest completed instant of each file group, and, as the specification says, *any* slice of
    that group and time: it does not know write tokens.
    """
    instants = [each for each in completed(files.items()) if each.time <= time]
    found: dict[str, set[str]] = defaultdict(set)
    for instant in instants:
        if any(each.group == instant.group and each.time > instant.time for each in instants):
            continue
        names = Names(instant.time, instant.salt or None)
        pattern = re.escape(names.slice(instant.group, 0)).replace("_0\\-0\\-1_", r"_\d+-0-1_")
        for name, data in files.items():
            if re.fullmatch(pattern, name):
                for key, value in json.loads(data).items():
                    found[key].add(value)
    return found


LOST_WRITE, DUPLICATE, UNCOMMITTED = "lost write", "duplicate rows", "uncommitted rows"


class ConsistentRead:
    """Their invariant: what was committed is read for ever, at its time and later, and nothing else."""

    def judge(self, world: Any, state: State, told: tuple[Told, ...]) -> str | None:
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

    def judge(self, world: Any, state: State, told: tuple[Told, ...]) -> str | None:
        files = dict(state.files)
        for commit in state.log:
            for part, (name, data) in zip(("completed instant", "slice"), commit.files, strict=True):
                if part in self.parts and files.get(name) != data:
                    return f"a {part} of {commit.writer} was overwritten: {name}"
        return None
