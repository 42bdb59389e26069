"""Counters in a real ZooKeeper keep what every counter promises, also when it is killed, or says no."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from putifabsent.backends.registries import Advanced, Refused, TryAgain
from putifabsent.backends.registry_urls import open_counter
from putifabsent.backends.zookeeper import FOLDER, ZooKeeperCounter, zookeeper_settings
from putifabsent.testing import CounterTests, LostCounterTests
from tests.fault_proxy import LOST_ANSWER, LOST_REQUEST, Fault, FaultProxy
from tests.faults.failover import until
from tests.servers import ZooKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from putifabsent.backends.registries import Counter

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as running:
        yield running


@pytest.fixture
def counter(zookeeper: ZooKeeper) -> Counter:
    return open_counter(zookeeper.endpoint)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"s3://bucket/{request.node.name}"


class TestOnAServer(CounterTests, LostCounterTests):
    @pytest.fixture
    def make_counter(self, zookeeper: ZooKeeper) -> Callable[[], Counter]:
        return partial(open_counter, zookeeper.endpoint)

    @pytest.fixture
    def unanswered(self, zookeeper: ZooKeeper) -> Iterator[Counter]:
        yield from _losing(zookeeper, LOST_ANSWER)

    @pytest.fixture
    def unheard(self, zookeeper: ZooKeeper) -> Iterator[Counter]:
        yield from _losing(zookeeper, LOST_REQUEST)


def _losing(zookeeper: ZooKeeper, fault: Fault) -> Iterator[Counter]:
    with FaultProxy(zookeeper.address, speech="zookeeper") as proxy:
        proxy.always(fault, "setData")
        # On a busy machine the session itself may come late.
        yield open_counter(f"zookeeper://{proxy.address}?timeout=60")


def test_it_tells_the_leader_s_own_time(zookeeper: ZooKeeper, counter: Counter, name: str) -> None:
    begun = _now(zookeeper)
    moved = _moved(counter, name)
    assert moved.now is not None
    assert begun <= moved.now <= _now(zookeeper)


def test_what_was_acknowledged_survives_the_server_s_death(
    zookeeper: ZooKeeper, counter: Counter, name: str
) -> None:
    assert _moved(counter, name, 1000, 5) == Advanced(1005)
    zookeeper.kill()
    zookeeper.start_again()
    # A step that was under way may have been made, and nobody has its number.
    assert 1005 < _moved(counter, name).last <= 1007


def test_a_node_that_was_made_anew_and_has_the_same_version_is_read_first(
    zookeeper: ZooKeeper, counter: Counter, name: str
) -> None:
    for _ in range(3):
        _moved(counter, name)
    with _connected(zookeeper) as client:
        client.delete(f"{FOLDER}/c-{quote(name, safe='')}", recursive=True)
    other = open_counter(zookeeper.endpoint)
    assert [_moved(other, name, count=10).last for _ in range(3)] == [10, 20, 30]
    assert isinstance(counter.advance(name, 0, 10), TryAgain)
    assert _moved(counter, name, count=10) == Advanced(40)


def test_a_session_without_a_connection_sends_nothing(
    zookeeper: ZooKeeper, counter: Counter, name: str
) -> None:
    moved = _moved(counter, name)
    zookeeper.kill()
    try:
        outcomes = [counter.advance(name, 0) for _ in range(3)]
    finally:
        zookeeper.start_again()
    assert isinstance(outcomes[-1], TryAgain)
    assert moved.last < _moved(counter, name).last <= moved.last + 2


def test_a_session_ends_with_the_counter_that_had_it(zookeeper: ZooKeeper, name: str) -> None:
    counter = ZooKeeperCounter(zookeeper_settings(zookeeper.endpoint))
    _moved(counter, name)
    client = counter._nodes()._client
    assert client.connected
    del counter
    gc.collect()
    until(lambda: not client.connected)


@pytest.mark.parametrize("who", ["me:wrong@", "somebody:else@", ""])
def test_who_has_no_right_to_a_folder_is_told_so(zookeeper: ZooKeeper, name: str, who: str) -> None:
    with _connected(zookeeper) as client:
        client.add_auth("digest", "me:secret")
        client.ensure_path("/mine", acl=[make_digest_acl("me", "secret", all=True)])
    _moved(open_counter(f"zookeeper://me:secret@{zookeeper.address}/mine"), name)
    counter = open_counter(f"zookeeper://{who}{zookeeper.address}/mine")
    refused = counter.advance(name, 0)
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, PermissionError)
    assert "ZooKeeper refuses: NoAuthError" in str(refused.error)


def test_what_is_made_with_credentials_is_theirs_alone(zookeeper: ZooKeeper, name: str) -> None:
    with _connected(zookeeper) as client:
        client.ensure_path("/open")
    _moved(open_counter(f"zookeeper://me:secret@{zookeeper.address}/open"), name)
    refused = open_counter(f"zookeeper://somebody:else@{zookeeper.address}/open").advance(name, 0)
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, PermissionError)


def _moved(counter: Counter, name: str, floor: int = 0, count: int = 1) -> Advanced:
    outcomes: list[Advanced] = []

    def is_moved() -> bool:
        outcome = counter.advance(name, floor, count)
        assert not isinstance(outcome, Refused), outcome
        outcomes.extend([outcome] if isinstance(outcome, Advanced) else [])
        return bool(outcomes)

    until(is_moved)
    return outcomes[0]


@contextmanager
def _connected(zookeeper: ZooKeeper) -> Iterator[Any]:
    client = KazooClient(zookeeper.address)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def _now(zookeeper: ZooKeeper) -> int:
    """Return the leader's time, by a change."""
    with _connected(zookeeper) as client:
        client.ensure_path("/now")
        return int(client.set("/now", b"").mtime)
