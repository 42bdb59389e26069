"""``putifabsent.clock``: one interface, whatever the instants come from."""

from __future__ import annotations

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

import putifabsent
from putifabsent.backends.registries import Advanced
from putifabsent.backends.registry_urls import open_counter, open_lock
from putifabsent.clocks import NAME, Clock, Counted, LocalCounter, TrueTime, clock
from putifabsent.errors import ConfigError
from putifabsent.shim.clock import instant_of
from putifabsent.shim.drive import asleep_too
from putifabsent.testing.asking import forked
from tests.clocks.takers import Taking, taken_by
from tests.fault_proxy import LOST_ANSWER, LOST_REQUEST, FaultProxy
from tests.servers import Valkey
from tests.shim.clock_worlds import Server, World, millis_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from putifabsent.clocks import Source

NOON = 1_800_000_000_000
# In Berlin it is two o'clock in the night for the second time.
SECOND_TWO = 1_792_890_000_000


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with Valkey() as running:
        yield running


@pytest.fixture
def proxy(valkey: Valkey) -> Iterator[FaultProxy]:
    valkey.tell("FLUSHALL")
    with FaultProxy(valkey.address, speech="redis") as running:
        yield running


@pytest.fixture(params=["local", "redis", "truetime"])
def make(request: pytest.FixtureRequest, proxy: FaultProxy) -> Callable[..., Clock]:
    """Return what makes a clock of each source."""
    sources: dict[str, tuple[str, dict[str, Any]]] = {
        "local": ("local", {}),
        "redis": (f"redis://{proxy.address}", {}),
        "truetime": (f"truetime+redis://{proxy.address}", {"skew": 0.002}),
    }
    source, options = sources[request.param]
    return lambda **more: clock(source, **options, **more)


def test_it_is_at_the_front_door() -> None:
    assert putifabsent.clock is clock


def test_instants_are_of_now_and_each_above_the_one_before(make: Callable[..., Clock]) -> None:
    clock, before = make(), time.time_ns() // 10**6
    given = [clock.instant(), *clock.instants(5), clock.instant()]
    after = time.time_ns() // 10**6
    assert given == sorted(set(given))
    # Its server, or what it shares with other tests, has this machine's clock.
    assert [before <= millis_of(each) <= after for each in given] == [True] * 7


def test_it_can_be_awaited(make: Callable[..., Clock]) -> None:
    clock = make()

    async def some() -> list[str]:
        return [await clock.instant_async(), *await clock.instants_async(3), await clock.instant_async()]

    given = asyncio.run(some())
    assert given == sorted(set(given))
    assert len(given) == 5


@pytest.mark.parametrize("lease", [1, 7])
def test_threads_share_a_clock(make: Callable[..., Clock], lease: int) -> None:
    """And two clocks of one source share that."""
    clocks = [make(lease=lease), make(lease=lease)]
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda number: clocks[number % 2].instant(), range(40)))
    assert len(set(given)) == 40


def test_processes_never_collide_and_keep_the_order_of_time(proxy: FaultProxy) -> None:
    """Each call is recorded with the moments it began after and ended before, by one clock of the machine."""
    taken = taken_by(2, f"redis://{proxy.address}", Taking(calls=40, at_once=5))
    instants = [instant for each in taken for instant in each.instants]
    assert len(set(instants)) == len(instants) == 400
    highest, ended = "", sorted(taken, key=lambda each: each.ended)
    for each in sorted(taken, key=lambda each: each.begun):
        while ended and ended[0].ended < each.begun:
            highest = max(highest, ended.pop(0).instants[-1])
        assert each.instants[0] > highest, "a later call has a lower instant"


def test_an_instant_costs_one_command_and_the_first_one_two(proxy: FaultProxy) -> None:
    clock = putifabsent.clock(f"redis://{proxy.address}")
    clock.instant()
    assert len(proxy.sent("EVAL")) == 2
    # Redis may forget what it has counted ahead of its time.
    clock.instants(3)
    assert len(proxy.sent("EVAL")) == 5


def test_a_lost_answer_gives_no_instant_twice(proxy: FaultProxy) -> None:
    clock = putifabsent.clock(f"redis://{proxy.address}")
    given = [clock.instant()]
    for trouble in (LOST_ANSWER, LOST_REQUEST):
        proxy.script("EVAL", trouble)
        given.append(clock.instant())
    assert given == sorted(set(given))


def test_a_server_that_is_not_there_is_waited_for_and_then_named() -> None:
    clock = putifabsent.clock("redis://127.0.0.1:1", timeout=0.01)
    with pytest.raises(TimeoutError, match=r"no instant was given.*127\.0\.0\.1:1") as error:
        clock.instant()
    assert error.value.__cause__ is not None


def test_nobody_s_wall_clock_moves_a_registry_s(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose clock is ten minutes fast gets the same instants as any other."""
    right = clock(f"redis://{proxy.address}").instant()
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 600)
    monkeypatch.setattr(time, "time_ns", lambda: int((wall() + 600) * 10**9))
    fast = clock(f"redis://{proxy.address}").instant()
    assert 0 < millis_of(fast) - millis_of(right) < 60_000


# --- leases


def test_a_lease_is_taken_at_once_and_given_one_by_one() -> None:
    server = Server(World())
    leased = clock(Counted(server, steady=lambda: 0.0), lease=20)
    given = [leased.instant() for _ in range(20)]
    assert given == sorted(set(given))
    assert len(server.asked) == 2


def test_what_comes_after_a_lease_is_above_all_of_it(proxy: FaultProxy) -> None:
    """What was left of that is thrown away, so that a clock never goes back."""
    clock = putifabsent.clock(f"redis://{proxy.address}", lease=20)
    given = [clock.instant(), *clock.instants(3), clock.instant()]
    assert given == sorted(given)


def test_what_is_left_of_a_lease_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instant of a second ago is none of now, nor is one from before the machine slept."""
    server = Server(World())
    leased = clock(Counted(server, steady=lambda: 0.0), lease=20)
    leased.instant()
    passed = asleep_too() + 1.1
    monkeypatch.setattr(time, "clock_gettime", lambda _: passed)
    leased.instant()
    assert len(server.asked) == 3


def test_a_forked_child_has_a_lease_of_its_own(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    # However long it takes to fork.
    monkeypatch.setattr("putifabsent.clocks._LEASE_SECONDS", 3600.0)
    clock = putifabsent.clock(f"redis://{proxy.address}", lease=20)
    first = clock.instant()
    left = clock._lease().left
    assert forked(lambda: millis_of(clock.instant()) > left[-1]) == 0
    assert millis_of(clock.instant()) == left[0] > millis_of(first)


# --- zones


def at(millis: int) -> Source:
    """Return a source whose server says that it is so late."""
    server = Server(World(now=(millis - NOON) / 1000))
    return Counted(server, steady=lambda: 0.0)


def test_instants_are_written_in_the_table_s_zone() -> None:
    assert clock(at(NOON)).instant() == "20270115080000000"
    assert clock(at(NOON), zone="Europe/Berlin").instant() == "20270115090000000"
    assert clock(at(NOON), zone=ZoneInfo("Asia/Kathmandu")).instant() == "20270115134500000"


def test_a_machine_s_own_zone_is_a_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert clock(at(NOON), zone="LOCAL").instant() == "20270115170000000"
        assert millis_of("20270115170000000", None) == NOON
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_zone_that_may_write_two_hours_alike_is_refused() -> None:
    """As those of pytz do: they never say which of two equal hours it is."""
    unaware: Any = tzinfo
    zone = unaware()
    with pytest.raises(ConfigError, match=r"a datetime\.timezone or a ZoneInfo, not .*tzinfo object"):
        clock("local", zone=zone)
    with pytest.raises(ConfigError, match="for the second time"):
        instant_of(NOON, zone)
    assert clock("local", zone=timezone(timedelta(hours=1))).zone == timezone(timedelta(hours=1))


def test_an_hour_that_comes_twice_is_without_instants() -> None:
    with pytest.raises(ConfigError, match="comes twice in this zone"):
        clock(at(SECOND_TWO), zone="Europe/Berlin").instant()
    assert instant_of(SECOND_TWO, timezone.utc) == clock(at(SECOND_TWO)).instant()


# --- what is wrong


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        ("", {}, "this names no clock"),
        ("rediss//h", {}, "this names no clock"),
        ("rediz://user:hush@host", {}, "did you mean redis://"),
        ("truetime+dynamodb://table", {}, "dynamodb:// has no locks"),
        ("truetime+redis://host", {"skew": -1}, "skew must be"),
        ("redis://host", {"skew": 0.2}, "skew is of truetime"),
        ("local", {"zone": "Europe/Atlantis"}, "zone is UTC, LOCAL or a name"),
        ("local", {"lease": 0}, "lease must be"),
        ("local", {"timeout": 0}, "timeout must be"),
    ],
)
def test_what_is_wrong_in_a_clock_is_said(source: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)) as error:
        clock(source, **options)  # type: ignore[arg-type]
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_an_odd_number_of_instants_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 10000"):
        clock("local").instants(count)


def test_a_clock_says_what_it_is_without_credentials() -> None:
    said = repr(clock("truetime+redis://:hush@host"))
    assert "TrueTime <RedisLock redis://host:6379/0>, 0.2 s" in said
    assert "hush" not in said


def test_the_counter_is_one_for_all_tables(proxy: FaultProxy) -> None:
    """However their addresses are spelled."""
    given = clock(f"redis://{proxy.address}").instant()
    assert open_counter(f"redis://{proxy.address}").advance(NAME, 0) == Advanced(millis_of(given) + 1)


def test_a_lock_of_true_time_is_its_own_way_to_be_made(proxy: FaultProxy) -> None:
    made = TrueTime(open_lock(f"redis://{proxy.address}"), skew=0.001)
    assert clock(made).instant() < clock(made).instant()


def test_true_time_measures_anew_when_a_fast_host_was_mended(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = time.time
    with monkeypatch.context() as fast:
        fast.setattr(time, "time", lambda: wall() + 600)
        counter = LocalCounter(wall=lambda: time.time_ns() + 600 * 10**9)
        made = clock(TrueTime(open_lock(f"redis://{proxy.address}"), skew=0.001, counter=counter))
    before = wall()
    assert before * 1000 <= millis_of(made.instant()) <= wall() * 1000
