"""TrueTime: whoever has a right clock gives what nobody with one gave; a mended clock is right at once."""

from __future__ import annotations

import itertools
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import putifabsent.shim
from putifabsent.backends.registries import Acquired, Advanced, Free, Held, Maybe, Released
from putifabsent.shim import clock as real
from putifabsent.shim.requests import Acquire, Now, Pause, Release, Sleep, perform
from tests.mutation import Change
from tests.shim.clock_worlds import (
    LOST,
    NO_STORE,
    START,
    Host,
    OneLock,
    Process,
    Server,
    Taken,
    World,
    in_order,
    play,
    unique,
)

if TYPE_CHECKING:
    from putifabsent.shim.requests import Protocol

SKEW = 0.2
ME = "11111111-1111-4111-8111-111111111111"
SEEDS = st.integers(0, 2**32)
MOST = 600
"""Seeds: several times as many as the last mutant needs."""


# --- in any interleaving, on any hosts


def played(seed: int, shim: Any = real, *, mended: bool) -> list[list[Taken]]:
    """Return what each process took; with ``mended``, some hosts are wrong at first, to either side."""
    draw, world = Random(seed), World()
    lock, owners = OneLock(draw), itertools.count()

    def process() -> Process:
        until = sorted(draw.uniform(0, 2) for _ in range(draw.randint(0, 2) if mended else 0))
        host = Host(
            world, draw.uniform(0, SKEW), tuple((each, draw.choice((-2, -0.3, 0.3, 2))) for each in until)
        )
        counter = host.counter()

        def call() -> Protocol[range]:
            count = draw.choice((1, 20, 500))
            owner = str(next(owners))
            return shim.true_time(lock, counter, "t", count, owner=owner, skew=SKEW, wall=host.wall)  # type: ignore[no-any-return]

        return Process(world, call, 4, host)

    processes = [process() for _ in range(draw.randint(1, 4))]
    play(world, processes, draw)
    return [each.taken for each in processes]


def holds(taken: list[list[Taken]]) -> bool:
    """Whether right clocks gave each number once, in the order of time, and each process none again.

    And each when it was past, by whatever right clock: none is behind the true time here.
    """
    by_right = [each for process in taken for each in process if each.right]
    past = all(each.numbers[-1] <= START + each.at * 1000 for each in by_right)
    return past and unique(by_right) and in_order(by_right) and all(map(unique, taken))


@given(seed=SEEDS)
def test_clocks_that_differ_by_less_than_the_skew_never_collide(seed: int) -> None:
    """Whatever becomes of the lock: what was read while it was lost is not used."""
    taken = played(seed, mended=False)
    assert all(each.right for process in taken for each in process)
    assert holds(taken)


@given(seed=SEEDS)
def test_a_host_that_is_mended_is_right_at_once(seed: int) -> None:
    """What its processes gave, or others by right clocks, they do not give."""
    assert holds(played(seed, mended=True))


def test_a_process_whose_host_was_fast_when_it_started_does_not_stay_fast() -> None:
    world = World()
    host = Host(world, wrong=((1.0, 2.0),))
    counter = host.counter()
    world.now = 10.0
    process = Process(
        world,
        lambda: real.true_time(
            OneLock(Random(0), loses=False), counter, "t", 1, owner=ME, skew=SKEW, wall=host.wall
        ),
        1,
        host,
    )
    [taken] = play(world, [process], Random(0))
    assert START + 10_000 - SKEW * 1000 <= taken.numbers[0] <= START + taken.at * 1000 - SKEW * 1000


# --- step by step


def locked(count: int = 2, wait: float | None = None) -> Any:
    """Begin, and go on until the clock is looked at."""
    steps = real.true_time(
        OneLock(Random(0)), Server(World()), "t", count, owner=ME, skew=SKEW, wall=lambda: 0.0
    )
    assert isinstance(next(steps), Acquire)
    assert steps.send(Acquired()) == Sleep(SKEW + (count + 1) / 1000 if wait is None else wait)
    assert isinstance(steps.send(True), Now)
    return steps


def test_what_is_past_by_every_clock_is_given_after_one_look() -> None:
    steps = locked()
    now = START / 1000 + 5.0005
    # 0.2 seconds before: the skew.
    assert steps.send(now)[2:] == (START + 4_798, 2)
    assert isinstance(steps.send(Advanced(START + 4_800)), Release)
    with pytest.raises(StopIteration) as end:
        steps.send(Released())
    assert end.value.value == range(START + 4_799, START + 4_801)


def test_what_this_process_gave_by_a_fast_clock_is_waited_for_and_taken_anew() -> None:
    steps = locked()
    steps.send(START / 1000 + 5.0005)
    assert steps.send(Advanced(START + 6_000)) == Sleep(1.202)
    assert isinstance(steps.send(True), Now)
    assert steps.send(START / 1000 + 6.2025)[2:] == (START + 6_000, 2)
    assert isinstance(steps.send(Advanced(START + 6_002)), Release)


@pytest.mark.parametrize("lost", [Free(), Held("another"), Maybe(LOST)], ids=["free", "held", "unheard"])
def test_what_was_read_while_the_lock_was_lost_is_not_used(lost: object) -> None:
    steps = locked()
    steps.send(START / 1000 + 5.0005)
    steps.send(Advanced(START + 4_800))
    request = steps.send(lost)
    if isinstance(request, Pause):
        request = steps.send(True)
    assert isinstance(request, Acquire)


def test_a_wait_that_is_too_long_gives_the_lock_back() -> None:
    """It was set back by more than can be waited for."""
    steps = locked()
    steps.send(START / 1000)
    assert steps.send(Advanced(START + 90_000)) == Sleep(90.202)
    assert isinstance(steps.send(False), Release)
    with pytest.raises(TimeoutError, match=r"90.202 s away"):
        steps.send(Released())


def test_a_clock_that_was_set_back_far_does_not_drive_the_counter_away() -> None:
    """However often it is asked, and for how many."""
    world = World()
    host = Host(world)
    counter = host.counter()
    counter.advance("t", START + 600_000)
    for _ in range(50):
        steps: Any = real.true_time(
            OneLock(Random(0), loses=False), counter, "t", 100, owner=ME, skew=SKEW, wall=host.wall
        )
        request: Any = next(steps)
        with suppress(StopIteration, TimeoutError):
            while True:
                if isinstance(request, Sleep):
                    short = request.seconds < 30
                    world.now += request.seconds * short
                    request = steps.send(short)
                else:
                    request = steps.send(perform(request, NO_STORE))
    moved = counter.advance("t", 0)
    assert isinstance(moved, Advanced)
    assert moved.last - START - 600_000 <= world.now * 1000


def test_a_lock_that_others_keep_is_given_up_at_the_deadline() -> None:
    steps = real.true_time(OneLock(Random(0)), Server(World()), "t", 1, owner=ME, skew=SKEW, wall=lambda: 0.0)
    next(steps)
    assert isinstance(steps.send(Held("another")), Pause)
    with pytest.raises(TimeoutError, match="held by another"):
        steps.send(False)


def test_a_lock_whose_answer_was_lost_is_found_to_be_held() -> None:
    steps = real.true_time(OneLock(Random(0)), Server(World()), "t", 1, owner=ME, skew=SKEW, wall=lambda: 0.0)
    next(steps)
    assert isinstance(steps.send(Maybe(LOST)), Acquire)
    assert isinstance(steps.send(Held(ME)), Sleep)


# --- mutants


_WAIT = "        yield from _waited(wait, counter.identity())\n        now: float = yield Now(wall)\n"
_ENOUGH = "        if taken.last <= past:\n"
MUTANTS = (
    Change(
        "the distance between the clocks is kept for ever",
        "clock",
        "now: float = yield Now(wall)\n",
        "now = (yield Advance(counter, 'its time', 0, 1)).now / 1000\n",
    ),
    Change("no wait", "clock", "wait = skew + (count + 1) / _SECOND", "wait = 0.0"),
    Change("no wait for the skew", "clock", "wait = skew + (", "wait = ("),
    Change("no wait for as many as are taken", "clock", "wait = skew + (count + 1) / _SECOND", "wait = skew"),
    Change(
        "a look before the wait",
        "clock",
        _WAIT,
        "        now: float = yield Now(wall)\n        yield from _waited(wait, counter.identity())\n"
        "        now += wait\n",
    ),
    Change("the time as it is", "clock", "int((now - skew) * _SECOND)", "int(now * _SECOND)"),
    Change("what is later than the clock is given", "clock", _ENOUGH, "        if taken:\n"),
    Change(
        "what is later than the clock is waited for, and kept",
        "clock",
        _ENOUGH,
        "        if taken.last > past:\n"
        "            yield from _waited((taken.last - past) / _SECOND, counter.identity())\n"
        "        if taken:\n",
    ),
    Change(
        "what this process gave is forgotten",
        "clock",
        "            return range(taken.last - count + 1, taken.last + 1)\n        #",
        "            pass\n        return range(past - count + 1, past + 1)\n        #",
    ),
    Change("a lost lock is no reason", "clock", "if isinstance(released, Released)", "if released"),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_found_out(mutant: Change) -> None:
    [shim] = mutant.modules(putifabsent.shim, ["clock"]).values()
    assert any(not holds(played(seed, shim, mended=True)) for seed in range(MOST))


def test_the_names_of_mutants_differ() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
