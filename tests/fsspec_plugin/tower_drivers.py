"""Drivers of unmodified Hudi that begin commits, whose mounts have a tower with a clock of ours."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.fsspec_plugin.remote import Remote, Taken
from putifabsent.fsspec_plugin.tower import Begins, Tower
from tests.fsspec_plugin.grounds import GROUNDS
from tests.fsspec_plugin.hudi_tables import Writer

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground

F, G = "8eda0d68-09c5-4fc1-b9b9-bef42c59d745-0", "b5ded05a-804e-414f-81fb-bd930e4c469c-0"

COMMIT, INSERT = Begins(), Begins(inserts=True)

NEAR = ("memory-native", "local-native")
"""Who has to wait is judged by what was read, from wherever."""

ON_EACH = pytest.mark.parametrize("ground", GROUNDS, indirect=True)
"""For what rests on a listing's order, on times and on removals."""


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Driver:
    """A driver of unmodified Hudi, whose mount has a tower with a clock of ours."""

    ground: Ground
    root: str
    session: str
    clock: Clock

    def __post_init__(self) -> None:
        self.writer = Writer(self.ground.mount(writer_session=self.session, tower=True), self.root)
        self.writer.fs.guard.rules.tower = Tower(self.clock)
        self.remote = Remote(self.writer.fs)

    def asks(self, begins: Begins | None = COMMIT) -> Taken:
        """Ask once for the turn in which a commit is begun, or something else."""
        token = str(uuid.uuid4())
        return self.remote.take_turn(self.root, token, thread="main", lease=600.0, begins=begins)

    def begins(self, instant: str, groups: tuple[str, ...] = (), inserts: int = 0) -> None:
        """Begin a commit in a turn, and declare what it writes."""
        taken = self.asks()
        assert taken.turn is not None, taken.behind
        self.beats(instant)
        self.writer.fs.pipe_file(self.writer.requested(instant), b"")
        self.remote.release_turn(self.root, taken.turn)
        self.writer.fs.pipe_file(self.writer.inflight(instant), stats(groups, inserts))

    def beats(self, instant: str) -> None:
        """Give Hudi's sign of life; one of a minute later has another time, where ours has other bytes."""
        self.ground.write(f"{self.root}/.hoodie/.heartbeat/{instant}", repr(self.clock.now).encode())

    def completes(self, instant: str, groups: tuple[str, ...] = (), inserts: int = 0, upon: str = "") -> None:
        """Complete a commit."""
        self.writer.completes(instant, stats(groups, inserts, upon))
        self.gives_up(instant)

    def meets_another(self, instant: str) -> None:
        """Find, in the turn in which a commit would be completed, that another was, of the same."""
        turn = self.asks(None).turn
        assert turn is not None
        self.remote.release_turn(self.root, turn)
        self.gives_up(instant)

    def gives_up(self, instant: str) -> None:
        """Leave a commit as Hudi does when it has failed."""
        self.ground.around.rm(f"{self.root}/.hoodie/.heartbeat/{instant}")

    def commits(self, instant: str, groups: tuple[str, ...]) -> None:
        """Begin a commit that goes on with file groups, and complete it."""
        self.begins(instant, groups)
        self.completes(instant, groups, upon="1")


def stats(groups: tuple[str, ...], inserts: int, upon: str = "") -> bytes:
    said: list[dict[str, Any]] = [
        {"fileId": each, "prevCommit": upon or "null", "numInserts": inserts} for each in groups
    ]
    said += [] if groups else [{"fileId": "", "prevCommit": "null", "numInserts": inserts}]
    return json.dumps({"operationType": "UPSERT", "partitionToWriteStats": {"dt=1": said}}).encode()


def plan_of_clustering(group: str) -> bytes:
    slices = [{"partitionPath": "dt=1", "fileId": group}]
    return json.dumps({"clusteringPlan": {"inputGroups": [{"slices": slices}]}}).encode()


def known(a: Driver, b: Driver, of_a: str = F, of_b: str = G) -> None:
    """Let each have written a file group, so that it is expected to write that."""
    a.commits("100", (of_a,))
    b.commits("200", (of_b,))


def another_replica(*of: Driver) -> None:
    """Let the next calls go to another replica of the service, or to one that was started again."""
    for driver in of:
        driver.writer.fs.guard.rules.tower = Tower(driver.clock)
