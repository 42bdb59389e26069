"""What writers do, format by format: the creations that decide a commit, and what they read."""

from __future__ import annotations

import random
import re
import time
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, ClassVar, Protocol

from putifabsent.shim.formats import hudi

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.lab.stress.hands import Hands
    from putifabsent.lab.stress.paths import Path
    from putifabsent.lab.stress.records import Outcome

__all__ = ["WORKLOADS", "Workload"]

_LOOKS_BACK = 0.3
"""How often a writer reads an old commit again."""


class Workload(Protocol):
    """One table, as one writer sees it."""

    def lay(self, path: Path) -> None:
        """Make the table."""

    def commit(self, hands: Hands) -> bool:
        """Try to commit once; return whether it was acknowledged."""


class _Numbered:
    """Commits are counted: who creates the next number has the next commit.

    A writer begins with the last commit that it finds in the folder, reads on to the last that is there, and
    creates the one behind it.
    """

    first: ClassVar[int]
    numbered: ClassVar[re.Pattern[str]]

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._next = -1

    def lay(self, path: Path) -> None:
        raise NotImplementedError

    def commit(self, hands: Hands) -> bool:
        if self._next < 0:
            there = hands.path.names(self._name(self.first).rpartition("/")[0])
            numbers = [int(match[1]) for name in there if (match := self.numbered.search(name))]
            self._next = max(numbers, default=self.first)
        if self._next > self.first and random.random() < _LOOKS_BACK:  # noqa: S311
            hands.read("commit", self._folder, self._name(random.randrange(self.first, self._next)))  # noqa: S311
        while hands.read("commit", self._folder, self._name(self._next)):
            self._next += 1
        outcome = hands.create("commit", self._folder, self._name(self._next))
        if outcome in ("created", "taken"):
            self._next += 1
        return outcome == "created"

    def _name(self, number: int) -> str:
        raise NotImplementedError


class Paimon(_Numbered):
    """Snapshots, below the schema that the table has from its beginning."""

    first = 1
    numbered = re.compile(r"/snapshot-(\d+)$")

    def lay(self, path: Path) -> None:
        path.create(f"{self._folder}/schema/schema-0", b"{}")

    def _name(self, number: int) -> str:
        return f"{self._folder}/snapshot/snapshot-{number}"


class Delta(_Numbered):
    """Entries of the log."""

    first = 0
    numbered = re.compile(r"/(\d{20})\.json$")

    def lay(self, path: Path) -> None:
        """Nothing is there before the first entry."""

    def _name(self, number: int) -> str:
        return f"{self._folder}/_delta_log/{number:020d}.json"


class Hudi:
    """Instants and slices: an instant is requested, goes inflight, writes data, and is completed in a turn.

    Several writers take the same instant, since their clocks are coarse. The completed name has the time of
    completion in it, so two conflicting commits never share a name: in its turn a writer looks which commit
    is the last, and its own follows on that one.
    """

    _GRAIN = 50
    """Milliseconds from one instant of a clock to its next."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._timeline = f"{folder}/.hoodie/timeline"
        self._last = 0

    def lay(self, path: Path) -> None:
        path.create(f"{self._folder}/.hoodie/hoodie.properties", b"hoodie.table.version=8\n")

    def commit(self, hands: Hands) -> bool:
        self._last = max(self._last + self._GRAIN, time.time_ns() // 10**6 // self._GRAIN * self._GRAIN)
        instant = _instant(self._last)
        action = random.choice(("commit", "deltacommit"))  # noqa: S311
        requested = f"{self._timeline}/{instant}.{action}.requested"
        told = hands.create("request", self._folder, requested, f"{self._timeline}/{instant} requested")
        if told != "created":
            hands.read("request", self._folder, requested)
            return False
        inflight = f"{self._timeline}/{instant}.{action}.inflight"
        if hands.create("request", self._folder, inflight) != "created":
            return False
        data = f"{self._folder}/{uuid.uuid4()}-0_0-1-1_{instant}.parquet"
        if hands.create("slice", self._folder, data) != "created":
            return False
        with hands.turn(self._folder):
            name, told = self._complete(hands, instant, action)
        hands.read("commit", self._folder, name)
        return told == "created"

    def _complete(self, hands: Hands, instant: str, action: str) -> tuple[str, Outcome]:
        completed = sorted(
            (step.completion, step.instant)
            for name in hands.path.names(self._timeline)
            if (step := hudi.step_of(f"/{name}")) and step.completion
        )
        saw = completed[-1] if completed else ("0", "nothing")
        completion = max(time.time_ns() // 10**6, _millis(saw[0]) + 1)
        name = f"{self._timeline}/{instant}_{_instant(completion)}.{action}"
        identity = f"{self._timeline}/{instant} completed"
        return name, hands.create("commit", self._folder, name, identity, saw[1])


def _instant(millis: int) -> str:
    when = datetime.fromtimestamp(millis / 1000, timezone.utc)
    return f"{when:%Y%m%d%H%M%S}{millis % 1000:03d}"


def _millis(instant: str) -> int:
    if len(instant) < len("yyyyMMddHHmmssSSS"):
        return 0
    when = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    return round(when.timestamp()) * 1000 + int(instant[14:])


WORKLOADS: dict[str, Callable[[str], Workload]] = {"hudi": Hudi, "paimon": Paimon, "delta": Delta}
