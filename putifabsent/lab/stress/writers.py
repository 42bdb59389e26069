"""A writer: what it does, format by format, and the journal of it.

Its workload is the creations that decide a commit, and what it reads. Whatever it does through a path stands
in the journal, with what came of it.
"""

from __future__ import annotations

import random
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from putifabsent.errors import Fenced, OutcomeUnknown, unknown_of
from putifabsent.lab.stress.journal import Journal, Operation, Outcome, Purpose, body, host, offered_in
from putifabsent.shim.clock import instant_of, millis_of
from putifabsent.shim.formats import hudi

if TYPE_CHECKING:
    from putifabsent.lab.stress.paths import Path

_TRIES = 4
_REST_SECONDS = 1.0
_LOOKS_BACK = 0.3  # how often a writer reads an old commit again


@dataclass(frozen=True)
class Writer:
    """What a workload works with: a path to the store, and the journal of what it does there.

    Nobody's number is -1. ``holds`` is called with 1 when it has its table's turn, and with 0 at its end.
    """

    path: Path
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


class Workload(Protocol):
    """One table, as one writer sees it."""

    def lay(self, path: Path) -> None:
        """Make the table."""

    def commit(self, writer: Writer) -> bool:
        """Try to commit once; return whether it was acknowledged."""


class _Numbered:
    """Commits are counted: who creates the next number has the next commit.

    A writer begins with the last commit that it finds in the folder, reads on to the last that is there, and
    creates the one behind it.
    """

    first: ClassVar[int]
    form: ClassVar[str]
    numbered: ClassVar[re.Pattern[str]]
    laid: ClassVar[str] = ""  # what the table has from its beginning

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._next = -1

    def lay(self, path: Path) -> None:
        if self.laid:
            path.create(f"{self._folder}/{self.laid}", b"{}")

    def commit(self, writer: Writer) -> bool:
        if self._next < 0:
            there = writer.path.names(self._name(self.first).rpartition("/")[0])
            numbers = [int(match[1]) for name in there if (match := self.numbered.search(name))]
            self._next = max(numbers, default=self.first)
        if self._next > self.first and random.random() < _LOOKS_BACK:  # noqa: S311
            writer.read("commit", self._folder, self._name(random.randrange(self.first, self._next)))  # noqa: S311
        while writer.read("commit", self._folder, self._name(self._next)):
            self._next += 1
        outcome = writer.create("commit", self._folder, self._name(self._next))
        if outcome in ("created", "taken"):
            self._next += 1
        return outcome == "created"

    def _name(self, number: int) -> str:
        return f"{self._folder}/{self.form.format(number)}"


class Paimon(_Numbered):
    """Snapshots, below a schema."""

    first = 1
    form = "snapshot/snapshot-{}"
    numbered = re.compile(r"/snapshot-(\d+)$")
    laid = "schema/schema-0"


class Delta(_Numbered):
    """Entries of the log."""

    first = 0
    form = "_delta_log/{:020d}.json"
    numbered = re.compile(r"/(\d{20})\.json$")


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

    def lay(self, path: Path) -> None:
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
        completion = max(time.time_ns() // 10**6, millis_of(last) + 1)
        name = f"{self._timeline}/{instant}_{instant_of(completion)}.{action}"
        identity = f"{self._timeline}/{instant} completed"
        return name, writer.create("commit", self._folder, name, identity, saw)


WORKLOADS: dict[str, Callable[[str], Workload]] = {"hudi": Hudi, "paimon": Paimon, "delta": Delta}
