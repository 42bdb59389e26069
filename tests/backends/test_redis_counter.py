"""Counters in Redis keep what every counter promises, as long as the server keeps what it acknowledged."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.redis import RedisCounter
from putifabsent.backends.registries import Advanced, Maybe, Refused, TryAgain
from putifabsent.backends.registry_urls import open_counter
from putifabsent.testing import CounterTests, LostCounterTests
from tests.fault_proxy import LATE, LOST_ANSWER, LOST_REQUEST, Fault, FaultProxy
from tests.servers import Valkey
from tests.servers.valkey import valkey_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from putifabsent.backends.registries import Counter

NOW = 1_800_000_000_000


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with Valkey() as running:
        yield running


class TestOnAServer(CounterTests, LostCounterTests):
    @pytest.fixture
    def make_counter(self, valkey: Valkey) -> Callable[[], Counter]:
        return partial(open_counter, f"{valkey.endpoint}/0")

    @pytest.fixture
    def unanswered(self, valkey: Valkey) -> Iterator[Counter]:
        with FaultProxy(valkey.address, speech="redis") as proxy:
            proxy.always(LOST_ANSWER, "EVAL")
            yield open_counter(f"redis://{proxy.address}")

    @pytest.fixture
    def unheard(self, valkey: Valkey) -> Iterator[Counter]:
        with FaultProxy(valkey.address, speech="redis") as proxy:
            proxy.always(LOST_REQUEST, "EVAL")
            yield open_counter(f"redis://{proxy.address}")


class TestInACluster(CounterTests):
    @pytest.fixture(scope="class")
    def make_counter(self) -> Iterator[Callable[[], Counter]]:
        with valkey_cluster() as (node, _):
            yield partial(open_counter, f"redis+cluster://{node.address}")


@pytest.fixture
def proxy(valkey: Valkey) -> Iterator[FaultProxy]:
    with FaultProxy(valkey.address, speech="redis") as running:
        yield running


@pytest.fixture
def counter(proxy: FaultProxy) -> Counter:
    return open_counter(f"redis://{proxy.address}")


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"s3://bucket/{request.node.name}"


def test_each_call_is_one_command(proxy: FaultProxy, counter: Counter, name: str) -> None:
    """Read and written in one step, whatever the floor is."""
    for floor in (0, 0, NOW, 0):
        assert isinstance(counter.advance(name, floor, 3), Advanced)
    asyncio.run(counter.advance_async(name, 0))
    assert len(proxy.sent("EVAL")) == 5
    assert set(proxy.sent()) <= {"EVAL", "CLIENT"}


def test_a_lost_answer_is_not_asked_for_again(proxy: FaultProxy, counter: Counter, name: str) -> None:
    proxy.script("EVAL", LOST_REQUEST, LOST_ANSWER)
    for _ in range(2):
        assert isinstance(counter.advance(name, 0), Maybe)
    assert len(proxy.sent("EVAL")) == 2
    assert counter.advance(name, 0) == Advanced(2)


def test_a_late_answer_is_not_taken_for_the_next(proxy: FaultProxy, name: str) -> None:
    counter = open_counter(f"redis://{proxy.address}?timeout=0.2")
    proxy.script("EVAL", LATE)
    assert isinstance(counter.advance(name, 0), Maybe)
    assert counter.advance(name, 0) == Advanced(2)


def test_what_the_server_refuses_has_moved_nothing(proxy: FaultProxy, counter: Counter, name: str) -> None:
    proxy.script(
        "EVAL", Fault(applies=False, says=b"-READONLY You can't write against a read only replica.\r\n")
    )
    assert isinstance(counter.advance(name, 0), TryAgain)
    proxy.script("EVAL", Fault(applies=False, says=b"-NOPERM no permissions\r\n"))
    refused = counter.advance(name, 0)
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, PermissionError)
    assert counter.advance(name, 0) == Advanced(1)


def test_what_is_no_counter_is_refused(valkey: Valkey, counter: Counter, name: str) -> None:
    """And stays what it is."""
    valkey.tell("SET", f"putifabsent:counter:{name}", "somebody's")
    assert isinstance(counter.advance(name, 0), Refused)
    assert valkey.tell("GET", f"putifabsent:counter:{name}") == b"$10\r\nsomebody's\r\n"


def test_a_server_that_nobody_runs_has_moved_nothing(name: str) -> None:
    counter = open_counter("redis://127.0.0.1:1")
    assert isinstance(counter.advance(name, 0), TryAgain)


def test_a_server_that_forgets_gives_numbers_again_unless_the_floor_has_passed_them(
    valkey: Valkey, counter: Counter, name: str
) -> None:
    """So it says of itself that it forgets."""
    assert RedisCounter.forgets
    assert counter.advance(name, NOW, 5) == Advanced(NOW + 5)
    valkey.tell("DEL", f"putifabsent:counter:{name}")
    assert counter.advance(name, NOW, 5) == Advanced(NOW + 5)
    valkey.tell("DEL", f"putifabsent:counter:{name}")
    assert counter.advance(name, NOW + 5) == Advanced(NOW + 6)


def test_it_is_kept_as_digits_and_never_expires(valkey: Valkey, counter: Counter, name: str) -> None:
    counter.advance(name, 2**53 - 3)
    assert valkey.tell("GET", f"putifabsent:counter:{name}") == b"$16\r\n9007199254740990\r\n"
    assert valkey.tell("PTTL", f"putifabsent:counter:{name}") == b":-1\r\n"


def test_it_tells_the_server_s_own_time(valkey: Valkey, counter: Counter, name: str) -> None:
    """As the server says it, to the millisecond."""

    def told() -> int:
        seconds, micros = valkey.tell("TIME").split(b"\r\n")[2::2][:2]
        return int(seconds) * 1000 + int(micros) // 1000

    before, moved, after = told(), counter.advance(name, 0), told()
    assert isinstance(moved, Advanced)
    assert moved.now is not None
    assert before <= moved.now <= after


def test_the_rights_that_the_documentation_names_are_enough(valkey: Valkey, name: str) -> None:
    rights = ("resetkeys", "~putifabsent:counter:*", "-@all", "+eval", "+get", "+set", "+time")
    assert valkey.tell("ACL", "SETUSER", "clock", "reset", "on", ">pass", *rights) == b"+OK\r\n"
    counter = open_counter(f"redis://clock:pass@{valkey.address}")
    assert counter.advance(name, 0) == Advanced(1)


def test_no_credentials_are_shown(valkey: Valkey, name: str) -> None:
    counter = open_counter(f"redis://user:very-secret@{valkey.address}/0")
    refused = counter.advance(name, 0)
    assert isinstance(refused, Refused)
    assert "very-secret" not in f"{counter!r} {counter.identity()} {refused!r} {refused.error.__cause__!r}"
