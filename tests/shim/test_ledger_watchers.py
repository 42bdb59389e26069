"""A watcher may stand still: that breaks no turn of who lives, and a dead holder's is broken nevertheless."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.base import Refused
from putifabsent.shim.ledger import turns
from putifabsent.shim.ledger.facts import TurnName
from putifabsent.shim.ledger.records import Open
from tests.shim.ledger_runs import Run, creation, kinds
from tests.shim.ledger_tables import LIFE, no_clock
from tests.shim.ledgers import Mutant

if TYPE_CHECKING:
    from collections.abc import Iterable


LEASE = 12.0
EACH = LEASE / 3
"""So often who holds a turn gives a sign of life."""
HOLDERS = TurnName(LIFE, 2)
BEAT = f"get beats/{LIFE}.0000000002"
NO_TIME = 0.001


class Watching(Run):
    """A table whose turn one session has, and others want."""

    def __init__(self, *, takes: Any = turns.take, watchers: int = 1) -> None:
        super().__init__(Open("1", "A", "o1"), takes=takes)
        self.holder = self.session("A")
        self.takes(self.holder, "t", lease=LEASE)
        self.watchers = [self.session(f"B{number}") for number in range(watchers)]

    def looks(self, at: float, watcher: int = 0) -> bool:
        """Have a watcher ask once; return whether it has the turn."""
        self.time = at
        return self.takes(self.watchers[watcher], f"u{watcher}") is not None

    def beats(self, at: float) -> bool:
        self.time = at
        return bool(self.play(turns.beat(self.holder, HOLDERS, creation("b"), clock=no_clock)))

    def until(self, looks: Iterable[float]) -> tuple[int, float]:
        """Have a watcher look until it has the turn; return how often it has looked, and when at last."""
        for number, at in enumerate(looks, 1):
            if self.looks(at):
                return number, at
        raise AssertionError("it was never broken")


def stands_still(takes: Any, *, asleep_at: float, looks_each: float = 1.0, watchers: int = 1) -> Watching:
    """Let all signs of life go through who watches, and that stand still for long; then watchers ask first.

    The next sign of life comes as late as it may: a third of a lease after it went on.
    """
    run, woke = Watching(takes=takes, watchers=watchers), asleep_at + 10 * LEASE
    looks = [*every(looks_each, 0.0, asleep_at), *every(looks_each, woke, woke + LEASE)]
    beats = [*every(EACH, 0.0, asleep_at), *every(EACH, woke, woke + LEASE)[1:]]
    for at, is_beat in sorted([*((at, False) for at in looks), *((at, True) for at in beats)]):
        if is_beat:
            run.beats(at)
        for watcher in range(0 if is_beat else watchers):
            run.looks(at, watcher)
    return run


def every(seconds: float, begins: float, ends: float) -> list[float]:
    return [begins + number * seconds for number in range(int((ends - begins) / seconds) + 1)]


@pytest.mark.parametrize("looks_each", [0.1, 0.75, 1.0, 3.0, 4.0, 5.0])
@pytest.mark.parametrize("asleep_at", [0.0, 1.0, 3.9, 4.1, 7.9, 11.9])
def test_a_living_holder_keeps_its_turn_when_all_that_it_shows_is_held_up_with_its_watcher(
    asleep_at: float, looks_each: float
) -> None:
    run = stands_still(turns.take, asleep_at=asleep_at, looks_each=looks_each)
    assert kinds(run) == ["OPEN", "TURN"]


def test_none_of_several_watchers_that_stood_still_breaks_a_living_holder_s_turn() -> None:
    assert kinds(stands_still(turns.take, asleep_at=7.9, watchers=4)) == ["OPEN", "TURN"]


def test_a_watcher_who_counts_all_the_time_that_it_did_not_look_is_found_out() -> None:
    mutant = Mutant(
        "what a watcher slept through counts",
        "ledger/turns",
        "min(now - watched.looked, held.lease / _LEAST_LOOKS)",
        "now - watched.looked",
        "the tests above",
    )
    assert "BREAK" in kinds(stands_still(mutant.protocols().take, asleep_at=7.9))


def test_a_watcher_that_stands_still_again_and_again_hears_the_signs_of_life_between() -> None:
    run, now = Watching(), 0.0
    for _ in range(10):
        assert not run.looks(now)
        assert run.beats(now + 1.0)
        assert not run.looks(now + 2.0)
        now += 100.0
    assert kinds(run) == ["OPEN", "TURN"]


@pytest.mark.parametrize("sleeps_in", [0, 1, 2])
def test_a_watcher_that_stands_still_in_one_of_its_looks_breaks_no_living_holder_s_turn(
    sleeps_in: int,
) -> None:
    run, now = Watching(), 0.0

    def sleeps() -> None:
        run.time += 100.0

    for number in range(3):
        if number == sleeps_in:
            run.fails(BEAT, None, first=sleeps)
        assert not run.looks(now)
        now = run.time + 1.0
    for _ in range(3):
        assert not run.looks(now)
        now += 1.0
    assert run.beats(now)


def test_a_living_holder_keeps_its_turn_while_the_store_answers_nobody() -> None:
    run = Watching()
    run.looks(0.0)
    for at in range(1, 100):
        run.fails(BEAT, Refused(ConnectionResetError("the store is away")))
        with pytest.raises(ConnectionResetError):
            run.looks(float(at))
    assert not run.looks(100.0)
    assert run.beats(101.0)
    assert not run.looks(102.0)


@pytest.mark.parametrize("looks_each", [0.75, 1.0, 1.4, 1.5])
def test_a_dead_holder_s_turn_is_broken_within_its_lease_and_a_pause_by_who_looks_each_eighth_of_it(
    looks_each: float,
) -> None:
    run = Watching()
    _, at = run.until(number * looks_each for number in range(100))
    assert LEASE < at <= LEASE + looks_each + NO_TIME


@pytest.mark.parametrize("looks_each", [1.501, 5.0, 12.0, 100.0, 86_400.0])
def test_a_dead_holder_s_turn_is_broken_at_the_tenth_look_however_rarely_one_looks(looks_each: float) -> None:
    assert Watching().until(number * looks_each for number in range(100))[0] == 10


@pytest.mark.parametrize("sleeps_in", [0, 1, 2, 3])
def test_a_dead_holder_s_turn_is_broken_within_a_lease_more_after_its_watcher_stood_still_in_a_look(
    sleeps_in: int,
) -> None:
    run = Watching()

    def sleeps() -> None:
        run.time += 100.0

    for at in range(sleeps_in):
        run.looks(float(at))
    run.fails(BEAT, None, first=sleeps)
    run.looks(float(sleeps_in))
    woke = run.time
    _, broken = run.until(woke + number for number in range(1, 100))
    assert broken <= woke + LEASE + 1.0


def test_who_comes_back_long_after_its_patience_ended_watches_for_the_rest_of_the_lease() -> None:
    run = Watching()
    for at in (0.0, 1.5, 3.0, 4.5, 6.0):
        assert not run.looks(at)
    _, at = run.until(3600.0 + number for number in range(100))
    assert at == 3605.0  # six seconds before, one and a half for the hour, and more than four and a half then


def test_each_watcher_counts_what_it_has_watched_itself() -> None:
    run = Watching(watchers=2)
    run.looks(0.0, 0)
    for at in range(20, 32):
        assert not run.looks(float(at), 1)
    assert run.looks(32.5, 1)
