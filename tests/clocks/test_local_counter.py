"""The counter of a process keeps what every counter promises, in that process; its time never goes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.backends.registries import Advanced, Refused
from putifabsent.clocks import LocalCounter, counter_of_process
from putifabsent.testing import CounterTests
from putifabsent.testing.asking import forked

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.registries import AdvanceOutcome, Counter

SECOND = 10**9
NOON = 1_800_000_000 * SECOND


class TestInAProcess(CounterTests):
    # A child is another process: see below.
    test_a_forked_child_can_count_and_so_can_its_parent = None  # type: ignore[assignment]

    @pytest.fixture
    def make_counter(self) -> Callable[[], Counter]:
        counter = LocalCounter()
        return lambda: counter


class Clocks:
    """A wall clock that is set, and a steady one."""

    def __init__(self) -> None:
        self.wall = NOON
        self.steady = 50 * SECOND

    def counter(self) -> LocalCounter:
        return LocalCounter(lambda: self.wall, lambda: self.steady)

    def passes(self, nanoseconds: int) -> None:
        self.wall += nanoseconds
        self.steady += nanoseconds


def now(outcome: AdvanceOutcome) -> int:
    assert isinstance(outcome, Advanced)
    assert outcome.now is not None
    return outcome.now


def test_its_time_is_the_wall_clock_s() -> None:
    clocks = Clocks()
    counter = clocks.counter()
    assert now(counter.advance("t", 0)) == NOON // 10**6
    clocks.passes(SECOND)
    assert now(counter.advance("t", 0)) == NOON // 10**6 + 1000


def test_a_wall_clock_that_is_set_back_is_not_followed() -> None:
    """Time goes on, and nobody waits until the wall clock is there again."""
    clocks = Clocks()
    counter = clocks.counter()
    clocks.wall -= 600 * SECOND
    clocks.passes(SECOND)
    assert now(counter.advance("t", 0)) == NOON // 10**6 + 1000


def test_a_wall_clock_that_is_set_forward_is_followed() -> None:
    """A machine that was asleep has a steady clock that was, too."""
    clocks = Clocks()
    counter = clocks.counter()
    clocks.wall += 3600 * SECOND
    assert now(counter.advance("t", 0)) == NOON // 10**6 + 3_600_000


@given(st.lists(st.tuples(st.integers(-(10**12), 10**12), st.integers(0, 10**10)), max_size=50))
def test_its_time_only_goes_on_at_least_as_fast_as_the_steady_clock(steps: list[tuple[int, int]]) -> None:
    """However the wall clock is set."""
    clocks = Clocks()
    counter = clocks.counter()
    told, passed = now(counter.advance("t", 0)), 0
    for jump, passes in steps:
        clocks.wall += jump
        clocks.passes(passes)
        passed += passes
        before, told = told, now(counter.advance("t", 0))
        assert told >= before
        assert told >= (NOON + passed) // 10**6


def test_what_a_process_counts_a_forked_child_does_not() -> None:
    """It would give what its parent gives."""
    counter = LocalCounter()
    assert counter.advance("t", 0) == Advanced(1)
    assert forked(lambda: isinstance(counter.advance("t", 0), Refused)) == 0
    assert counter.advance("t", 0) == Advanced(2)


def test_a_process_has_one_counter_and_a_forked_child_its_own() -> None:
    mine = counter_of_process()
    assert counter_of_process() is mine
    assert forked(lambda: isinstance(counter_of_process().advance("a child's", 0), Advanced)) == 0


def test_it_forgets_with_its_callers_alone() -> None:
    assert not LocalCounter.forgets


def test_a_stall_between_its_two_clocks_does_not_make_it_fast() -> None:
    clocks = Clocks()
    stalls = [300 * 10**6]

    def steady() -> int:
        # Time goes by when it has been read, whichever of the two comes second.
        before = clocks.steady
        clocks.passes(stalls.pop() if stalls else 0)
        return before

    def wall() -> int:
        before = clocks.wall
        clocks.passes(stalls.pop() if stalls else 0)
        return before

    counter = LocalCounter(wall, steady)
    stalls.append(300 * 10**6)
    counter.advance("t", 0)
    assert now(counter.advance("t", 0)) == clocks.wall // 10**6
