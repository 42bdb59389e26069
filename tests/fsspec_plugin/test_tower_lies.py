"""Whatever the tower answers, and whatever becomes of its queue, no commit is lost and none is made twice."""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.fsspec_plugin.grounds import ground_of
from tests.fsspec_plugin.tower_drivers import COMMIT, NEAR, Driver, F, stats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.shim.requests import Protocol
    from tests.fsspec_plugin.grounds import Ground


@pytest.fixture(params=NEAR)
def ground(request: pytest.FixtureRequest) -> Ground:
    return ground_of(request)


@dataclass
class Story:
    """What several drivers of a table do, by a seed."""

    draw: random.Random
    instants: Iterator[int]
    # By instant, which commit it was made upon, of those that were acknowledged.
    acknowledged: dict[str, str] = field(default_factory=dict)

    def lives(self, driver: Driver) -> Iterator[None]:
        """Have a driver begin commits of one file group, and complete those that nobody came before."""
        while True:
            begun = driver.asks(COMMIT)
            yield
            if begun.turn is None:
                continue
            instant, base = str(next(self.instants)), last_of(driver)
            driver.beats(instant)
            driver.writer.fs.pipe_file(driver.writer.requested(instant), b"")
            driver.remote.release_turn(driver.root, begun.turn)
            yield
            driver.writer.fs.pipe_file(driver.writer.inflight(instant), stats((F,), 0))
            yield
            while (turn := driver.asks(None).turn) is None:
                yield
            yield
            if last_of(driver) == base:
                with driver.remote.in_turn(driver.writer.completed(instant), turn):
                    driver.writer.completes(instant, stats((F,), 1, base or "null"))
                self.acknowledged[instant] = base
            yield
            driver.remote.release_turn(driver.root, turn)
            if self.draw.random() < 0.8:  # or its heartbeat stays
                driver.gives_up(instant)
            yield

    def lie(self, driver: Driver) -> None:
        """Have a driver's tower answer anything."""

        def anything(*_: Any, **__: Any) -> Protocol[list[str]]:
            yield from ()
            if self.draw.random() < 0.2:
                raise OSError(errno.EIO, "the tower is down")
            return self.draw.choice([[], [], ["somebody"]])

        driver.writer.fs.guard.rules.tower._in_the_way = anything

    def spoil(self, ground: Ground, queue: str) -> None:
        """Have entries of the queue be lost, or be anything."""
        for each in ground.around.find(queue):
            if self.draw.random() < 0.5:
                ground.around.rm_file(each)
        if self.draw.random() < 0.5:
            ground.around.makedirs(queue, exist_ok=True)
            whose = self.draw.choice([f"{self.draw.getrandbits(128):032x}", "torn"])
            said = self.draw.choice([b"", b"{", b'{"session": "x", "thread": "", "wants": null}'])
            ground.write(f"{queue}/{self.draw.randrange(100):010}~{whose}", said)


def last_of(driver: Driver) -> str:
    """Return the last commit of the table that is shown."""
    made = [name for name in driver.writer.timeline() if name.endswith(".commit")]
    return max((name.partition("_")[0] for name in made), key=int, default="")


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_tower_answers_each_commit_is_upon_the_last(
    drivers: list[Driver], ground: Ground, seed: int
) -> None:
    draw = random.Random(seed)
    story = Story(draw, iter(range(100, 1000)))
    lives = [story.lives(driver) for driver in drivers]
    for driver in drivers[: seed % 4]:
        story.lie(driver)
    for _ in range(150):
        next(draw.choice(lives))
        drivers[0].clock.now += draw.choice([0, 1, 30])
        if draw.random() < 0.1:
            story.spoil(ground, f"{drivers[0].root}/.hoodie/.putifabsent/slots")
    made = [name.partition("_")[0] for name in drivers[0].writer.timeline() if name.endswith(".commit")]
    assert sorted(story.acknowledged) == sorted(made)
    assert list(story.acknowledged.values()) == ["", *list(story.acknowledged)[:-1]]
    assert len(made) >= 3
