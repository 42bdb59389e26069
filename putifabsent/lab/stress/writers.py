"""A writer: what it does, format by format, and the journal of it.

Its workload is the creations that decide a commit, and what it reads. Whatever it does through a path stands
in the journal, with what came of it: flat records, which any SQL engine can judge. A writer notes what it is
about to do, and then what came of it, so that its death hides nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from putifabsent.errors import Fenced, OutcomeUnknown, unknown_of
from putifabsent.shim.clock import instant_of
from putifabsent.shim.formats import delta, hudi, paimon

if TYPE_CHECKING:
    from typing_extensions import Self

    from putifabsent.lab.stress.paths import Path as StorePath

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LONGEST_ERROR = 500

TORN = "torn"  # for bytes that nobody offered
_SIZE = 1024

Action: TypeAlias = Literal["create", "read", "list", "plain", "kill", "pause"]
Purpose: TypeAlias = Literal["commit", "request", "slice"]
Outcome: TypeAlias = Literal["created", "taken", "unknown", "fenced", "failed", "found", "absent"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One creation or read of a name, what is found at the end beside a read, or one fault."""

    action: Action
    """``"list"``: its folder's listing leaves it out; ``"plain"``: the wrapped filesystem finds other bytes
    than were read; ``"kill"`` or ``"pause"``: what was done to the writer."""
    host: str  # the machine's boot, by its id. Times of one host can be compared, those of two can't.
    writer: int
    purpose: Purpose | Literal[""]
    """What the name is to its table: a commit, what announces one (a request), or data. Of a fault empty."""
    folder: str  # the table's
    name: str
    identity: str  # what must be unique; mostly the name
    offered: str | None = None  # of a creation: what tells its bytes from all others'
    saw: str | None = None
    """Of a creation: the commit that its writer took for the table's last one, where the format's rule rests
    on that."""
    begun: int = 0  # nanoseconds of the host's monotonic clock
    ended: int | None = None  # None where the writer did not live to see it
    outcome: Outcome | None = None
    """``"taken"``: another provably has it; ``"fenced"``: the step came too late; ``"failed"``: any other
    error, which promises nothing."""
    seen: str | None = None
    """Of a read that found, and of plain bytes: what whoever created it offered; or :data:`TORN`."""
    closing: bool = False  # whether it is one of the reads after all else has ended
    error: str | None = None


def body(offered: str) -> bytes:
    """Return the bytes of a creation: what it offers, filling, and the digest of both."""
    text = f"{offered}\n".encode().ljust(_SIZE, b".")
    return text + b"\n" + hashlib.sha256(text).hexdigest().encode()


def offered_in(data: bytes) -> str:
    """Return what whoever created this offered; :data:`TORN` if these are not the bytes of one creation."""
    text, _, digest = data.rpartition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return TORN
    return text.split(b"\n", 1)[0].decode()


@cache
def host() -> str:
    """Return what tells this machine, since it was started, from any other."""
    return _BOOT.read_text().strip() if _BOOT.exists() else os.uname().nodename


class Journal:
    """One process's journal, in the folder of a run's; its threads may share it.

    Each line is written by one call of the system, unbuffered: what a killed process has written is there.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._numbers = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def begin(self, operation: Operation) -> int:
        """Note what is about to be done, and return the number by which its end is noted."""
        number = next(self._numbers)
        fields = {name: getattr(operation, name) for name in Operation.__slots__}
        fields["begun"] = time.monotonic_ns()
        self._write([number, fields])
        return number

    def end(self, number: int, **result: Any) -> None:
        """Note what came of it."""
        ended = time.monotonic_ns()
        if result.get("error"):
            result["error"] = result["error"][:_LONGEST_ERROR]
        self._write([number, result | {"ended": ended}])

    def _write(self, line: list[Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def kept(folder: Path) -> Iterator[Operation]:
    """Give all operations in the journals of a folder, those that have no end included."""
    for file in sorted(folder.glob("*.jsonl")):
        begun: dict[int, Operation] = {}
        # What stands behind the last end of a line was not written to its end.
        for line in file.read_bytes().split(b"\n")[:-1]:
            number, fields = json.loads(line)
            begun[number] = replace(begun[number], **fields) if number in begun else Operation(**fields)
        yield from begun.values()


# --- what a writer does

_TRIES = 4
_REST_SECONDS = 1.0
_LOOKS_BACK = 0.3  # how often a writer reads an old commit again


@dataclass(frozen=True)
class Writer:
    """What a workload works with: a path to the store, and the journal of what it does there.

    Nobody's number is -1. ``holds`` is called with 1 when it has its table's turn, and with 0 at its end.
    """

    path: StorePath
    journal: Journal
    number: int
    closing: bool = False
    holds: Callable[[int], None] = lambda _: None

    @contextmanager
    def turn(self, folder: str) -> Iterator[None]:
        """Have a table's turn, where the path knows how."""
        with self.path.turn(folder):
            self.holds(1)
            try:
                yield
            finally:
                self.holds(0)

    def create(
        self, purpose: Purpose, folder: str, name: str, identity: str | None = None, saw: str | None = None
    ) -> Outcome:
        """Create a name with bytes like no others, and return what came of it."""
        offered = uuid.uuid4().hex
        began = self.journal.begin(
            Operation("create", host(), self.number, purpose, folder, name, identity or name, offered, saw)
        )
        outcome: Outcome = "created"
        message = None
        try:
            self.path.create(name, body(offered))
        except Exception as error:  # noqa: BLE001 - whatever a client raises is what its writer sees
            outcome, message = _outcome(error), f"{type(error).__name__}: {error}"
        self.journal.end(began, outcome=outcome, error=message)
        return outcome

    def read(self, purpose: Purpose, folder: str, name: str) -> str | None:
        """Return what is offered under a name; None: nothing is there, or it could not be read.

        A closing read that fails is tried again: its last outcome is held against the path.
        """
        began = self.journal.begin(
            Operation("read", host(), self.number, purpose, folder, name, name, closing=self.closing)
        )
        outcome: Outcome = "found"
        seen = message = None
        for tries_left in reversed(range(_TRIES if self.closing else 1)):
            try:
                seen = offered_in(self.path.read(name))
            except FileNotFoundError:
                outcome = "absent"
            except Exception as error:  # noqa: BLE001 - as above
                if tries_left:
                    time.sleep(_REST_SECONDS)
                    continue
                outcome, message = "failed", f"{type(error).__name__}: {error}"
            break
        self.journal.end(began, outcome=outcome, seen=seen, error=message)
        return seen

    def listed(self, table: str, folder: str, own: str) -> list[str]:
        """Return the names in a folder; where ``own`` is not among them, which is there, note that.

        A listing that lacks it may lack commits as well, and they would be blamed on whoever acts on it.
        """
        names = self.path.names(folder)
        if not any(name.endswith(own) for name in names):
            began = self.journal.begin(Operation("read", host(), self.number, "request", table, own, own))
            self.journal.end(began, outcome="absent", error=f"a listing shows {len(names)} names without it")
        return names


def failed(journal: Journal, writer: int, folder: str, error: Exception) -> None:
    """Note that a writer's step between its creations and reads has failed."""
    began = journal.begin(Operation("read", host(), writer, "", folder, folder, folder))
    journal.end(began, outcome="failed", error=f"{type(error).__name__}: {error}")


def _outcome(error: Exception) -> Outcome:
    if isinstance(error, FileExistsError):
        return "taken"
    if isinstance(unknown_of(error), OutcomeUnknown):
        return "unknown"
    return "fenced" if isinstance(error, Fenced) else "failed"


@dataclass
class Numbered:
    """A table as one writer sees it whose commits are counted: who creates the next number has the next one.

    A writer begins with the last commit that it finds in the folder, reads on to the last that is there, and
    creates the one behind it.
    """

    folder: str
    first: int
    form: str  # of a commit's name
    number_in: Callable[[str], int | None]  # by its last component
    laid: str = ""  # what the table has from its beginning
    next: int = -1

    def lay(self, path: StorePath) -> None:
        if self.laid:
            path.create(f"{self.folder}/{self.laid}", b"{}")

    def commit(self, writer: Writer) -> bool:
        """Try to commit once; return whether it was acknowledged."""
        if self.next < 0:
            there = writer.path.names(self._name(self.first).rpartition("/")[0])
            numbers = (self.number_in(name.rpartition("/")[2]) for name in there)
            self.next = max((each for each in numbers if each is not None), default=self.first)
        if self.next > self.first and random.random() < _LOOKS_BACK:  # noqa: S311
            writer.read("commit", self.folder, self._name(random.randrange(self.first, self.next)))  # noqa: S311
        while writer.read("commit", self.folder, self._name(self.next)):
            self.next += 1
        outcome = writer.create("commit", self.folder, self._name(self.next))
        if outcome in ("created", "taken"):
            self.next += 1
        return outcome == "created"

    def _name(self, number: int) -> str:
        return f"{self.folder}/{self.form.format(number)}"


class Hudi:
    """Instants and slices: an instant is requested, goes inflight, writes data, and is completed in a turn.

    Several writers take the same instant, since their clocks are coarse. The completed name has the time of
    completion in it, so two conflicting commits never share a name: in its turn a writer looks which commit
    is the last, and its own follows on that one.
    """

    _GRAIN = 50  # milliseconds from one instant of a clock to its next

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._timeline = f"{folder}/.hoodie/timeline"
        self._last = 0

    def lay(self, path: StorePath) -> None:
        path.create(f"{self._folder}/.hoodie/hoodie.properties", b"hoodie.table.version=8\n")

    def commit(self, writer: Writer) -> bool:
        self._last = max(self._last + self._GRAIN, time.time_ns() // 10**6 // self._GRAIN * self._GRAIN)
        instant = instant_of(self._last)
        action = random.choice(("commit", "deltacommit"))  # noqa: S311
        requested = f"{self._timeline}/{instant}.{action}.requested"
        outcome = writer.create("request", self._folder, requested, f"{self._timeline}/{instant} requested")
        if outcome != "created":
            writer.read("request", self._folder, requested)
            return False
        inflight = f"{self._timeline}/{instant}.{action}.inflight"
        if writer.create("request", self._folder, inflight) != "created":
            return False
        data = f"{self._folder}/{uuid.uuid4()}-0_0-1-1_{instant}.parquet"
        if writer.create("slice", self._folder, data) != "created":
            return False
        with writer.turn(self._folder):
            name, outcome = self._complete(writer, instant, action)
        writer.read("commit", self._folder, name)
        return outcome == "created"

    def _complete(self, writer: Writer, instant: str, action: str) -> tuple[str, Outcome]:
        own = f"{self._timeline}/{instant}.{action}.requested"
        completed = sorted(
            (step.completion, step.instant)
            for name in writer.listed(self._folder, self._timeline, own)
            if (step := hudi.step_of(f"/{name}")) and step.completion
        )
        last, saw = completed[-1] if completed else (instant_of(0), "nothing")
        completion = time.time_ns() // 10**6
        while instant_of(completion) <= last:
            completion += 1
        name = f"{self._timeline}/{instant}_{instant_of(completion)}.{action}"
        identity = f"{self._timeline}/{instant} completed"
        return name, writer.create("commit", self._folder, name, identity, saw)


WORKLOADS: dict[str, Callable[[str], Hudi | Numbered]] = {
    "hudi": Hudi,
    "paimon": partial(
        Numbered,
        first=1,
        form="snapshot/snapshot-{}",
        number_in=partial(paimon.number_in, "snapshot"),
        laid="schema/schema-0",
    ),
    "delta": partial(Numbered, first=0, form="_delta_log/{:020d}.json", number_in=delta.number_in),
}
