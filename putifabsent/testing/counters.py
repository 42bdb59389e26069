"""The suite for any counter: what ``putifabsent.backends.registries`` promises."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import pytest

from putifabsent.backends.registries import LARGEST, Advanced, Counter, Maybe, Refused
from putifabsent.testing.asking import InBothColours, Registry, answered, forked, together

_NOW = 1_800_000_000_000
_RIGHT = 5 * 60 * 1000
_THREADS = 32
_ADVANCES = 10


class CounterTests(InBothColours):
    """What every counter promises. Subclass it, and give it the fixture ``make_counter``, perhaps ``name``.

    ``make_counter`` makes one more registry on the same counters, that knows nothing of the others.
    """

    @pytest.fixture
    def counter(self, make_counter: Callable[[], Counter]) -> Counter:
        return make_counter()

    @pytest.fixture
    def name(self) -> str:
        """Return a counter that nobody has moved; by default a new one."""
        return f"test://{uuid.uuid4()}/table"

    @pytest.fixture
    def ask(self, counter: Counter, colour: Literal["sync", "async"]) -> Registry:
        return Registry(counter, colour)

    # --- where it goes

    def test_a_counter_begins_after_zero(self, ask: Registry, name: str) -> None:
        assert [_last(ask, name, 0) for _ in range(3)] == [1, 2, 3]

    def test_numbers_are_taken_several_at_a_time(self, ask: Registry, name: str) -> None:
        assert _last(ask, name, 0, 10) == 10
        assert _last(ask, name, 0) == 11
        assert _last(ask, name, 0, 100) == 111

    def test_a_counter_is_lifted_above_the_floor(self, ask: Registry, name: str) -> None:
        assert _last(ask, name, _NOW, 5) == _NOW + 5
        assert _last(ask, name, _NOW + 1000) == _NOW + 1001

    @pytest.mark.parametrize("bits", [15, 31, 40])
    def test_a_floor_is_as_high_as_requested(self, ask: Registry, name: str, bits: int) -> None:
        """Whatever small integers a registry has beside its large ones."""
        assert _last(ask, name, 2**bits - 1) == 2**bits
        assert _last(ask, name, 2**bits - 1, 5) == 2**bits + 5

    def test_a_floor_below_it_is_no_step_back(self, ask: Registry, name: str) -> None:
        """A clock that is behind gets numbers above those of one that is ahead."""
        assert _last(ask, name, _NOW, 5) == _NOW + 5
        assert _last(ask, name, 0, 2) == _NOW + 7
        assert _last(ask, name, _NOW + 7) == _NOW + 8

    def test_another_registry_on_it_goes_on_where_it_is(
        self, ask: Registry, make_counter: Callable[[], Counter], name: str
    ) -> None:
        others = [ask.of(make_counter()) for _ in range(2)]
        assert _last(ask, name, _NOW) == _NOW + 1
        assert _last(others[0], name, 0) == _NOW + 2
        assert _last(others[1], name, _NOW + 2) == _NOW + 3
        assert _last(ask, name, _NOW + 1) == _NOW + 4
        assert _last(others[1], name, _NOW + 100) == _NOW + 101
        assert _last(others[0], name, _NOW + 50) == _NOW + 102

    def test_the_time_that_it_tells_is_in_milliseconds_and_right(self, ask: Registry, name: str) -> None:
        """Within five minutes of this machine's; it need not tell any."""
        outcome = _answered(ask, name, 0)
        assert isinstance(outcome, Advanced), outcome
        assert outcome.now is None or abs(outcome.now - time.time() * 1000) < _RIGHT

    def test_each_name_is_a_counter_of_its_own(self, ask: Registry, name: str) -> None:
        odd = ("", " ", "~", "#", "{a}", "{a}b", "a b", "A", "a", "\U0001f600", "x" * 5000, "x" * 5001)
        for number, more in enumerate(odd):
            assert _last(ask, f"{name}{more}", number) == number + 1, repr(more)
        assert _last(ask, "#", 0) != _last(ask, "##", _NOW)

    @pytest.mark.parametrize("bad", ["", "a\0b", "\ud800"], ids=ascii)
    def test_a_name_that_cannot_be_kept_is_refused(self, ask: Registry, bad: str) -> None:
        assert isinstance(ask.advance(bad, 0), Refused)

    @pytest.mark.parametrize(("floor", "count"), [(0, 0), (0, -1), (-1, 1), (LARGEST, 1), (1, LARGEST)])
    def test_a_step_that_is_none_moves_nothing(
        self, ask: Registry, name: str, floor: int, count: int
    ) -> None:
        with pytest.raises(ValueError, match="a counter moves"):
            ask.advance(name, floor, count)
        assert _last(ask, name, 0) == 1

    def test_a_counter_at_its_end_is_refused(self, ask: Registry, name: str) -> None:
        """It never begins anew, nor gives a number twice."""
        assert _last(ask, name, LARGEST - 3) == LARGEST - 2
        assert isinstance(_answered(ask, name, 0, 3), Refused)
        assert _last(ask, name, 0, 2) == LARGEST
        assert isinstance(_answered(ask, name, 0), Refused)
        assert isinstance(_answered(ask, name, LARGEST - 1), Refused)

    # --- racing, and other processes

    def test_of_many_threads_no_two_have_a_number(
        self, make_counter: Callable[[], Counter], name: str
    ) -> None:
        """32 of them, by 4 registries, with floors here and there: no number twice, and none too late."""
        counters = [make_counter() for _ in range(4)]
        moments = itertools.count()
        outcomes = together(
            _THREADS, lambda number: list(_moves(counters[number % 4], name, number, moments))
        )
        moves = [move for each in outcomes for move in each]
        assert len(moves) == _THREADS * _ADVANCES
        numbers = [number for move in moves for number in move.numbers]
        assert len(set(numbers)) == len(numbers), "a number was given twice"
        assert all(move.numbers.start > move.floor for move in moves)
        highest, ended = 0, sorted(moves, key=lambda move: move.ended)
        for move in sorted(moves, key=lambda move: move.begun):
            while ended and ended[0].ended < move.begun:
                highest = max(highest, ended.pop(0).numbers[-1])
            assert move.numbers.start > highest, "a later call has a lower number"

    def test_a_forked_child_can_count_and_so_can_its_parent(self, ask: Registry, name: str) -> None:
        assert _last(ask, name, 0) == 1
        assert forked(lambda: _last(ask, name, 0) == 2) == 0
        assert _last(ask, name, 0) == 3


class LostCounterTests:
    """A lost answer may skip numbers, and gives none twice; goes with ``CounterTests``."""

    def test_a_step_without_an_answer_may_have_been_made(
        self, ask: Registry, unanswered: Counter, name: str
    ) -> None:
        assert isinstance(ask.of(unanswered).advance(name, 0, 10), Maybe)
        assert _last(ask, name, 0) == 11

    def test_a_step_that_never_arrived_may_have_been_made(
        self, ask: Registry, unheard: Counter, name: str
    ) -> None:
        """Its sender can't tell it from one that did."""
        assert isinstance(ask.of(unheard).advance(name, 0, 10), Maybe)
        assert _last(ask, name, 0) == 1


class _Move(NamedTuple):
    """One answered call: the moments it began after and ended before, and what it got."""

    begun: int
    ended: int
    floor: int
    numbers: range


def _moves(counter: Counter, name: str, thread: int, moments: Iterator[int]) -> Iterator[_Move]:
    for turn in range(_ADVANCES):
        floor, count = (thread * turn) % 100, 1 + (thread + turn) % 3
        begun = next(moments)
        last = _last(counter, name, floor, count)
        yield _Move(begun, next(moments), floor, range(last - count + 1, last + 1))


def _last(ask: Registry | Counter, name: str, floor: int, count: int = 1) -> int:
    outcome = _answered(ask, name, floor, count)
    assert isinstance(outcome, Advanced), outcome
    return outcome.last


def _answered(ask: Registry | Counter, name: str, floor: int, count: int = 1) -> Any:
    return answered(lambda: ask.advance(name, floor, count))
