"""Instants: as Hudi writes them, each given once, in the order of time, and none before its time has come."""

from __future__ import annotations

from contextlib import suppress
from datetime import timezone
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.backends.base import Refused
from putifabsent.backends.registries import Advanced, Maybe, TryAgain
from putifabsent.errors import ConfigError
from putifabsent.shim.clock import RegistryTime, instant_of, take
from putifabsent.shim.requests import Advance, Now, Pause, Sleep, perform
from tests.shim.clock_worlds import (
    LOST,
    NO_STORE,
    START,
    Process,
    Server,
    World,
    in_order,
    millis_of,
    play,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = (timezone.utc, BERLIN, ZoneInfo("America/St_Johns"), ZoneInfo("Asia/Kathmandu"))
# 2026-10-25, two o'clock for the first and for the second time.
FIRST_TWO, SECOND_TWO = 1_792_886_400_000, 1_792_890_000_000
LAST = 253_402_300_799_999
SKEW = 0.2
ME = "11111111-1111-4111-8111-111111111111"


# --- how they are written


def test_an_instant_is_written_as_hudi_writes_it() -> None:
    assert instant_of(START + 7) == "20270115080000007"
    assert instant_of(START + 7, BERLIN) == "20270115090000007"
    assert instant_of(0) == "19700101000000000"
    assert instant_of(LAST) == "99991231235959999"


@given(millis=st.integers(0, LAST - 86_400_000), zone=st.sampled_from(ZONES))
def test_what_is_written_is_read_as_it_was(millis: int, zone: timezone) -> None:
    """But where it was refused, for it was there an hour before."""
    try:
        instant = instant_of(millis, zone)
    except ValueError:
        assert millis_of(instant_of(millis - 3_600_000, zone), zone) == millis - 3_600_000
    else:
        assert len(instant) == 17
        assert millis_of(instant, zone) == millis


@given(st.lists(st.integers(FIRST_TWO - 10_000_000, SECOND_TWO + 10_000_000), min_size=2, unique=True))
def test_later_times_have_higher_instants_though_clocks_are_set_back(times: list[int]) -> None:
    """Those that would not are refused."""
    written = []
    for millis in sorted(times):
        try:
            written.append(instant_of(millis, BERLIN))
        except ValueError:
            assert SECOND_TWO <= millis < SECOND_TWO + 3_600_000
    assert written == sorted(set(written))


def test_an_hour_that_comes_twice_is_written_once() -> None:
    assert instant_of(FIRST_TWO, BERLIN) == "20261025020000000"
    with pytest.raises(ValueError, match=r"comes twice in this zone.*use UTC"):
        instant_of(SECOND_TWO, BERLIN)
    assert millis_of("20261025020000000", BERLIN) == FIRST_TWO
    assert instant_of(SECOND_TWO) == "20261025010000000"


@pytest.mark.parametrize("millis", [LAST + 1, -(10**15), 10**30])
def test_years_of_other_than_four_digits_are_refused(millis: int) -> None:
    with pytest.raises(ValueError, match="in no year"):
        instant_of(millis)


# --- by a counter, in any interleaving

SEEDS = st.integers(0, 2**32)


@given(seed=SEEDS, processes=st.integers(1, 5), most=st.sampled_from([1, 3, 40]))
def test_processes_that_count_never_collide_and_keep_the_order_of_time(
    seed: int, processes: int, most: int
) -> None:
    """Whatever answers are lost."""
    draw, world = Random(seed), World()
    server = Server(world, draw)

    def process(number: int) -> Process:
        # A steady clock began somewhere.
        known, steady = RegistryTime(), lambda: world.now + 1000 * number
        return Process(world, lambda: take(server, "t", draw.randint(1, most), known, steady), 4)

    taken = play(world, [process(number) for number in range(processes)], draw)
    numbers = [number for each in taken for number in each.numbers]
    assert len(set(numbers)) == len(numbers)
    assert in_order(taken)
    assert all(each.numbers[-1] <= START + each.at * 1000 + 1e-3 for each in taken), "in the future"
    assert min(numbers) >= START - 1


@given(seed=SEEDS, behind=st.integers(0, 400))
def test_a_server_that_forgets_gives_none_again_unless_its_clock_goes_back(seed: int, behind: int) -> None:
    """What takes over knows nothing, and is a little behind, by less than it took to take over."""
    draw, world = Random(seed), World()
    server = Server(world)
    known = [RegistryTime(), RegistryTime()]

    def some() -> list[Sequence[int]]:
        processes = [
            Process(world, partial(take, server, "t", draw.randint(1, 20), each, lambda: world.now), 2)
            for each in known
        ]
        return [each.numbers for each in play(world, processes, draw)]

    before = some()
    world.now += 0.5
    server.last, server.behind = 0, behind
    known[draw.randint(0, 1)] = RegistryTime()
    numbers = [number for each in (*before, *some()) for number in each]
    assert len(set(numbers)) == len(numbers)


class Forgetful(Server):
    """A server that may forget."""

    forgets = True


@given(seed=SEEDS, processes=st.integers(1, 4), most=st.sampled_from([1, 3]))
def test_of_a_server_that_may_forget_processes_never_collide_and_keep_the_order_of_time(
    seed: int, processes: int, most: int
) -> None:
    draw, world = Random(seed), World()
    server = Forgetful(world, draw)

    def process() -> Process:
        known = RegistryTime()
        return Process(world, lambda: take(server, "t", draw.randint(1, most), known, lambda: world.now), 3)

    taken = play(world, [process() for _ in range(processes)], draw)
    numbers = [number for each in taken for number in each.numbers]
    assert len(set(numbers)) == len(numbers)
    assert in_order(taken)


def test_what_a_server_forgets_while_it_is_waited_for_is_given_once() -> None:
    """It is back before the time of what it had counted ahead."""
    world = World()
    server = Forgetful(world)

    def process(count: int) -> Process:
        known = RegistryTime((START, 0.0))
        return Process(world, lambda: take(server, "t", count, known, lambda: world.now), 1)

    first, second = process(300), process(1)
    for number in range(8):
        first.step(number)
    server.last = 0
    world.now += 0.2
    taken = play(world, [second, first], Random(0))
    numbers = [number for each in taken for number in each.numbers]
    assert len(set(numbers)) == len(numbers) == 301


# --- by a counter, step by step


def asked_at(steps: Any, seconds: float) -> Advance:
    """Return what it asks of the counter, once it has looked at its clock."""
    request = steps.send(seconds)
    assert isinstance(request, Advance)
    return request


def test_whoever_knows_nothing_asks_for_the_time_first() -> None:
    """And counts from there on: the floor is nobody's clock but the registry's."""
    known = RegistryTime()
    steps = take(Server(World()), "t", 3, known, lambda: 0.0)
    assert isinstance(next(steps), Now)
    assert asked_at(steps, 50.0)[2:] == (0, 1)
    assert isinstance(steps.send(Advanced(1, START)), Now)
    assert isinstance(steps.send(50.25), Now)
    assert asked_at(steps, 50.5)[2:] == (START + 249, 3)
    steps.send(Advanced(START + 252, START + 260))
    with pytest.raises(StopIteration) as end:
        steps.send(50.5)
    assert end.value.value == range(START + 250, START + 253)
    again = take(Server(World()), "t", 1, known, lambda: 0.0)
    next(again)
    assert asked_at(again, 51.5)[2:] == (START + 1259, 1)


def test_a_time_that_was_heard_long_ago_is_asked_for_anew() -> None:
    steps = take(Server(World()), "t", 3, RegistryTime((START, 50.0)), lambda: 0.0)
    next(steps)
    assert asked_at(steps, 110.0)[2:] == (0, 1)


def test_instants_that_are_ahead_of_the_registry_s_clock_are_waited_for() -> None:
    steps = take(Server(World()), "t", 3, RegistryTime((START, 50.0)), lambda: 0.0)
    next(steps)
    asked_at(steps, 50.0)
    steps.send(Advanced(START + 40, START + 1))
    assert steps.send(50.01) == Sleep(0.039)
    with pytest.raises(StopIteration) as end:
        steps.send(True)
    assert end.value.value == range(START + 38, START + 41)


def test_what_a_server_that_may_forget_has_counted_ahead_of_its_clock_is_thrown_away() -> None:
    """It may forget while that is waited for, and give it to others."""
    steps = take(Forgetful(World()), "t", 1, RegistryTime((START, 50.0)), lambda: 0.0)
    next(steps)
    asked_at(steps, 50.0)
    steps.send(Advanced(START + 400, START + 1))
    assert steps.send(50.0) == Pause(1)
    assert isinstance(steps.send(True), Now)
    assert steps.send(50.25) == Sleep(0.149)
    assert isinstance(steps.send(True), Now)
    assert asked_at(steps, 50.5)[2:] == (START + 500, 1)
    steps.send(Advanced(START + 501, START + 503))
    with pytest.raises(StopIteration) as end:
        steps.send(50.5)
    assert list(end.value.value) == [START + 501]


def test_others_who_are_faster_until_the_deadline_are_the_reason() -> None:
    steps = take(Forgetful(World()), "t", 1, RegistryTime((START, 50.0)), lambda: 0.0)
    next(steps)
    asked_at(steps, 50.0)
    steps.send(Advanced(START + 40, START + 1))
    steps.send(50.0)
    with pytest.raises(TimeoutError, match="others were faster"):
        steps.send(False)


def test_instants_too_far_ahead_to_wait_for_are_not_given() -> None:
    """The clock of the registry was set back: it says by how much."""
    steps = take(Server(World()), "t", 1, RegistryTime((START, 50.0)), lambda: 0.0)
    next(steps)
    asked_at(steps, 50.0)
    steps.send(Advanced(START, START - 600_000))
    assert steps.send(50.0) == Sleep(600.0)
    with pytest.raises(TimeoutError, match=r"600.000 s away.*clock there was set back"):
        steps.send(False)


def test_while_others_instants_are_far_ahead_none_are_taken_from_them() -> None:
    steps = take(Server(World()), "t", 3, RegistryTime((START, 50.0), START + 5_000), lambda: 0.0)
    next(steps)
    assert steps.send(50.0) == Sleep(5.0)
    assert isinstance(steps.send(True), Now)
    assert asked_at(steps, 55.0)[2:] == (START + 5_000, 3)


def taken_by(server: Server, known: RegistryTime) -> Sequence[int]:
    world = server.world
    process = Process(world, lambda: take(server, "t", 3, known, lambda: world.now), 1)
    return play(world, [process], Random(0))[0].numbers


@pytest.mark.parametrize("heard", [START + 400, START + 5_000])
def test_a_process_goes_on_above_what_it_has_heard_of_a_counter_that_was_made_anew(heard: int) -> None:
    """It may have given that within the last moment, or be waiting for it in another thread."""
    world = World()
    server, known = Server(world), RegistryTime((START, 0.0))
    server.last = heard - 3
    assert taken_by(server, known)[-1] == heard
    server.last, server.behind = 0, int(world.now * 1000) - 100
    known.last = (server.clock(), world.now)
    assert taken_by(server, known)[0] == heard + 1


def test_answers_to_threads_that_come_out_of_order_are_heard_in_order() -> None:
    known = RegistryTime((START, 50.0))
    calls: list[Any] = [take(Server(World()), "t", 1, known, lambda: 0.0) for _ in range(2)]
    for steps in calls:
        next(steps)
        asked_at(steps, 50.0)
    for steps, last in zip(calls, (START + 2, START + 1), strict=True):
        steps.send(Advanced(last, START + 2))
        with suppress(StopIteration):
            steps.send(50.0)
    assert known.reached == START + 2


def test_what_was_heard_long_ago_does_not_lift_a_counter() -> None:
    """Somebody has put it right, after a wrong clock had driven it away."""
    server = Server(World(now=61.0))
    assert taken_by(server, RegistryTime((START, 0.0), START + 600_000))[-1] < START + 62_000


def test_whoever_is_refused_again_and_again_does_not_drive_the_counter_away() -> None:
    world = World()
    server, known = Server(world), RegistryTime()
    for behind in (0, *[40_000] * 100):
        server.behind = behind
        steps: Any = take(server, "t", 100, known, lambda: world.now)
        request: Any = next(steps)
        with suppress(StopIteration, TimeoutError):
            while True:
                enough = not isinstance(request, Sleep) or request.seconds < 30
                request = steps.send(perform(request, NO_STORE) if not isinstance(request, Sleep) else enough)
    assert server.last - START < 1_000


def test_a_machine_that_was_asleep_does_not_go_on_with_the_time_before() -> None:
    """Its steady clock stood still, and the counter was not moved meanwhile."""
    steps = take(Server(World()), "t", 1, RegistryTime((START, 50.0)), lambda: 0.0)
    next(steps)
    asked_at(steps, 50.0)
    steps.send(Advanced(START, START + 7_200_000))
    assert isinstance(steps.send(50.1), Now)
    assert asked_at(steps, 50.1)[2] == START + 7_199_999


def test_a_slow_answer_is_as_good_as_a_fast_one() -> None:
    steps = take(Server(World()), "t", 1, RegistryTime((START, 50.0)), lambda: 0.0)
    next(steps)
    asked_at(steps, 50.0)
    steps.send(Advanced(START, START + 8_000))
    with pytest.raises(StopIteration):
        steps.send(58.0)


def test_a_registry_that_does_not_answer_is_given_up_at_the_deadline() -> None:
    steps = take(Server(World()), "t", 1, RegistryTime(), lambda: 0.0)
    next(steps)
    for outcome, then in ((Maybe(LOST), Now), (TryAgain(LOST), Now), (Maybe(LOST), Pause)):
        asked_at(steps, 1.0)
        steps.send(outcome)
        assert isinstance(steps.send(1.0), then)
    with pytest.raises(TimeoutError, match="no instant was given: the answer was lost") as error:
        steps.send(False)
    assert error.value.__cause__ is LOST


def test_a_refusal_is_raised() -> None:
    steps = take(Server(World()), "t", 1, RegistryTime(), lambda: 0.0)
    next(steps)
    asked_at(steps, 1.0)
    steps.send(Refused(PermissionError("no right")))
    with pytest.raises(PermissionError, match="no right"):
        steps.send(1.0)


def test_a_registry_that_tells_no_time_is_no_clock() -> None:
    steps = take(Server(World()), "t", 1, RegistryTime(), lambda: 0.0)
    next(steps)
    asked_at(steps, 1.0)
    steps.send(Advanced(1))
    with pytest.raises(ConfigError, match="a server tells no time"):
        steps.send(1.0)
