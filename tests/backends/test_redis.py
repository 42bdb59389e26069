"""Locks in Redis keep what every lock promises, on one server, behind sentinels and in a cluster."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.redis import PREFIX
from putifabsent.backends.registries import Acquired, Free, Held, Maybe, Refused, Released, TryAgain
from putifabsent.backends.registry_urls import open_lock
from putifabsent.testing import LockTests, LostLockTests
from tests.fault_proxy import LATE, LOST_ANSWER, LOST_REQUEST, Fault, FaultProxy
from tests.servers import Valkey
from tests.servers.valkey import SLOTS, ValkeyCluster, ValkeySentinel, valkey_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.backends.registries import Lock

KEY = "s3://bucket/table/snapshot/snapshot-1"
# As the documentation has them.
RIGHTS = ("resetkeys", "~putifabsent:lock:*", "-@all", "+eval", "+set", "+get", "+del")
CLUSTER_RIGHTS = ("+cluster|slots", "+command", "+asking")


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with Valkey() as running:
        yield running


class OnRedis(LockTests):
    """Wherever the URL says."""

    @pytest.fixture(scope="class")
    def url(self, valkey: Valkey) -> str:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    def lock(self, url: str) -> Lock:
        return open_lock(url)


class TestOnAServer(OnRedis, LostLockTests):
    @pytest.fixture(scope="class")
    def url(self, valkey: Valkey) -> str:
        return f"{valkey.endpoint}/0"

    @pytest.fixture
    def unanswered(self, valkey: Valkey) -> Iterator[Lock]:
        with FaultProxy(valkey.address, speech="redis") as proxy:
            proxy.always(LOST_ANSWER, "EVAL")
            yield open_lock(f"redis://{proxy.address}")

    @pytest.fixture
    def unheard(self, valkey: Valkey) -> Iterator[Lock]:
        with FaultProxy(valkey.address, speech="redis") as proxy:
            proxy.always(LOST_REQUEST, "EVAL")
            yield open_lock(f"redis://{proxy.address}")


class TestOnASocket(OnRedis):
    @pytest.fixture(scope="class")
    def url(self, valkey: Valkey) -> str:
        return f"unix://{valkey.socket}?db=1"


class TestBehindSentinels(OnRedis):
    @pytest.fixture(scope="class")
    def url(self, valkey: Valkey) -> Iterator[str]:
        with ValkeySentinel(valkey.address) as sentinel:
            # The first is nobody's: any of them will do.
            yield f"redis+sentinel://127.0.0.1:1,{sentinel.address}/lab/2"


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[ValkeyCluster, ValkeyCluster]]:
    """Two nodes, each with one half of the slots."""
    with valkey_cluster() as pair:
        yield pair


class TestInACluster(OnRedis):
    @pytest.fixture(scope="class")
    def url(self, nodes: tuple[ValkeyCluster, ValkeyCluster]) -> str:
        return f"redis+cluster://{nodes[0].address}"

    def test_a_slot_that_has_moved_is_found(self, nodes: tuple[ValkeyCluster, ValkeyCluster]) -> None:
        """And while it moves, too: whoever has it no more names the other."""
        one, other = nodes
        lock = open_lock(f"redis+cluster://{one.address}")
        key = "moving"
        assert lock.acquire(key, "one", 60) == Acquired()
        assert lock.release(key, "one") == Released()
        slot = _number(one.tell("CLUSTER", "KEYSLOT", f"{PREFIX}{key}"))
        ids = {node: node.tell("CLUSTER", "MYID").split(b"\r\n")[1].decode() for node in nodes}
        source, target = (one, other) if slot < SLOTS // 2 else (other, one)
        assert target.tell("CLUSTER", "SETSLOT", str(slot), "IMPORTING", ids[source]) == b"+OK\r\n"
        assert source.tell("CLUSTER", "SETSLOT", str(slot), "MIGRATING", ids[target]) == b"+OK\r\n"
        assert lock.acquire(key, "one", 60) == Acquired()
        for node in (target, source):
            assert node.tell("CLUSTER", "SETSLOT", str(slot), "NODE", ids[target]) == b"+OK\r\n"
        held = lock.acquire(key, "other", 60)
        assert isinstance(held, Held)
        assert held.by == "one"
        assert lock.release(key, "one") == Released()
        assert lock.release(key, "one") == Free()

    def test_the_rights_that_the_documentation_names_are_enough(
        self, nodes: tuple[ValkeyCluster, ValkeyCluster]
    ) -> None:
        for node in nodes:
            told = node.tell("ACL", "SETUSER", "locker", "reset", "on", ">pass", *RIGHTS, *CLUSTER_RIGHTS)
            assert told == b"+OK\r\n"
        lock = open_lock(f"redis+cluster://locker:pass@{nodes[0].address}")
        keys = [f"rights-{number}" for number in range(8)]
        assert [lock.acquire(key, "one", 60) for key in keys] == [Acquired()] * 8
        assert [lock.release(key, "one") for key in keys] == [Released()] * 8

    def test_a_right_to_look_for_nodes_that_is_lacking_is_refused_as_such(
        self, nodes: tuple[ValkeyCluster, ValkeyCluster]
    ) -> None:
        nodes[0].tell("ACL", "SETUSER", "blind", "reset", "on", ">pass", *RIGHTS)
        outcome = open_lock(f"redis+cluster://blind:pass@{nodes[0].address}").acquire(KEY, "one", 60)
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, PermissionError)


# --- what goes wrong on the way


@pytest.fixture
def proxy(valkey: Valkey) -> Iterator[FaultProxy]:
    with FaultProxy(valkey.address, speech="redis") as running:
        yield running


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return f"{KEY}/{request.node.name}"


@pytest.mark.parametrize("trouble", [LOST_REQUEST, LOST_ANSWER], ids=["before", "after"])
def test_each_call_is_one_command_whatever_becomes_of_it(
    proxy: FaultProxy, valkey: Valkey, key: str, *, trouble: Fault
) -> None:
    """None of the client's layers sends again; and the next call is on a connection of its own."""
    lock = open_lock(f"redis://{proxy.address}")
    proxy.script("EVAL", *[trouble] * 3)
    assert isinstance(lock.acquire(key, "one", 60), Maybe)
    assert isinstance(lock.release(key, "one"), Maybe)
    assert isinstance(asyncio.run(lock.acquire_async(key, "one", 60)), Maybe)
    assert len(proxy.sent("EVAL")) == 3
    applied = trouble is LOST_ANSWER
    assert isinstance(open_lock(valkey.endpoint).release(key, "one"), Released if applied else Free)


def test_each_call_that_is_answered_is_one_command(proxy: FaultProxy, key: str) -> None:
    lock = open_lock(f"redis://{proxy.address}")
    lock.acquire(key, "one", 60)
    lock.acquire(key, "other", 60)
    lock.release(key, "other")
    lock.release(key, "one")
    assert len(proxy.sent("EVAL")) == 4
    assert set(proxy.sent()) <= {"EVAL", "CLIENT", "SELECT"}


def test_an_answer_that_does_not_come_in_time_is_lost(proxy: FaultProxy, valkey: Valkey, key: str) -> None:
    """And is not taken for the answer to the next command."""
    lock = open_lock(f"redis://{proxy.address}?timeout=0.2")
    proxy.script("EVAL", LATE)
    assert isinstance(lock.acquire(key, "one", 60), Maybe)
    held = lock.acquire(key, "other", 60)
    assert isinstance(held, Held)
    assert held.by == "one"
    assert len(proxy.sent("EVAL")) == 2


BEFORE_7 = "ERR Error running script (call to f_f3): @user_script:2: @user_script: 2: -"
PASSING = (
    "LOADING Redis is loading the dataset in memory",
    "READONLY You can't write against a read only replica.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "BUSY Redis is busy running a script.",
    "NOREPLICAS Not enough good replicas to write.",
    "CLUSTERDOWN The cluster is down",
    "MASTERDOWN Link with MASTER is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    f"{BEFORE_7}READONLY You can't write against a read only replica.",
    f"{BEFORE_7}OOM command not allowed when used memory > 'maxmemory'.",
)
FORBIDDEN = (
    "NOPERM User default has no permissions to run the 'eval' command",
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
)


@pytest.mark.parametrize("error", PASSING, ids=lambda one: one.split()[0])
def test_what_passes_has_changed_nothing(proxy: FaultProxy, key: str, error: str) -> None:
    lock = open_lock(f"redis://{proxy.address}")
    proxy.script("EVAL", *[answers(error)] * 2)
    assert isinstance(lock.acquire(key, "one", 60), TryAgain)
    assert isinstance(lock.release(key, "one"), TryAgain)
    assert lock.acquire(key, "one", 60) == Acquired()
    assert len(proxy.sent("EVAL")) == 3


@pytest.mark.parametrize("error", FORBIDDEN, ids=lambda one: one.split()[0])
def test_a_missing_right_is_refused_as_such(proxy: FaultProxy, key: str, error: str) -> None:
    lock = open_lock(f"redis://{proxy.address}")
    proxy.script("EVAL", answers(error))
    refused = lock.acquire(key, "one", 60)
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, PermissionError)
    proxy.script("EVAL", answers(error))
    with pytest.raises(PermissionError):
        lock.check()


def test_another_error_of_the_server_stays(proxy: FaultProxy, valkey: Valkey, key: str) -> None:
    """Here: the key is something else's."""
    valkey.tell("LPUSH", f"{PREFIX}{key}", "somebody's list")
    outcome = open_lock(f"redis://{proxy.address}").acquire(key, "one", 60)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, OSError)
    assert "WRONGTYPE" in str(outcome.error)


def test_a_server_that_nobody_runs_has_changed_nothing() -> None:
    for url in (
        "redis://127.0.0.1:1",
        "unix:///no/such/socket",
        "redis+sentinel://127.0.0.1:1/lab",
        "redis+cluster://127.0.0.1:1",
    ):
        lock = open_lock(url)
        assert isinstance(lock.acquire(KEY, "one", 60), TryAgain), url
        with pytest.raises(ConnectionError, match="Redis did not answer"):
            lock.check()


def test_a_server_that_comes_back_is_used_again(valkey: Valkey, key: str) -> None:
    """Its old connections are not trusted, and nothing is sent twice."""
    lock = open_lock(valkey.endpoint)
    lock.acquire(key, "one", 60)
    valkey.tell("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert lock.release(key, "one") == Released()


def test_a_sentinel_that_does_not_know_the_service_is_asked_again(valkey: Valkey) -> None:
    with ValkeySentinel(valkey.address) as sentinel:
        lock = open_lock(f"redis+sentinel://{sentinel.address}/another")
        assert isinstance(lock.acquire(KEY, "one", 60), TryAgain)


def test_a_primary_that_became_a_replica_has_changed_nothing(valkey: Valkey, key: str) -> None:
    with Valkey() as other, ValkeySentinel(other.address) as sentinel:
        lock = open_lock(f"redis+sentinel://{sentinel.address}/lab")
        assert lock.acquire(key, "one", 60) == Acquired()
        host, _, port = valkey.address.partition(":")
        other.tell("REPLICAOF", host, port)
        assert isinstance(lock.acquire(f"{key}2", "one", 60), TryAgain)


def test_an_address_that_goes_over_to_another_server_is_followed(valkey: Valkey, key: str) -> None:
    """The old primary, a replica now, closes no connection."""
    host, _, port = valkey.address.partition(":")
    with Valkey() as other, FaultProxy(other.address, speech="redis") as proxy:
        lock = open_lock(f"redis://{proxy.address}")
        assert lock.acquire(key, "one", 60) == Acquired()
        other.tell("REPLICAOF", host, port)
        proxy._upstream = (host, int(port))
        assert isinstance(lock.acquire(f"{key}2", "one", 60), TryAgain)
        assert lock.acquire(f"{key}2", "one", 60) == Acquired()


def test_a_replica_that_says_so_of_a_command_in_a_script_is_left_as_well(valkey: Valkey, key: str) -> None:
    with Valkey() as other, FaultProxy(other.address, speech="redis") as proxy:
        lock = open_lock(f"redis://{proxy.address}")
        assert lock.acquire(key, "one", 60) == Acquired()
        host, _, port = valkey.address.partition(":")
        proxy._upstream = (host, int(port))
        proxy.script("EVAL", answers(f"{BEFORE_7}READONLY You can't write against a read only replica."))
        assert isinstance(lock.acquire(key, "one", 60), TryAgain)
        assert lock.acquire(key, "another", 60) == Acquired()


# --- credentials


@pytest.fixture(scope="module")
def closed() -> Iterator[Valkey]:
    with Valkey("--requirepass", "pass/word:1") as running:
        yield running


def test_credentials_come_from_the_url(closed: Valkey, key: str) -> None:
    lock = open_lock(f"redis://default:pass%2Fword%3A1@{closed.address}")
    assert lock.acquire(key, "one", 60) == Acquired()
    lock.check()


def test_credentials_come_from_the_environment(
    closed: Valkey, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUTIFABSENT_REDIS_PASSWORD", "pass/word:1")
    assert open_lock(closed.endpoint).acquire(key, "one", 60) == Acquired()


@pytest.mark.parametrize("login", ["", ":wrong-word@"])
def test_wrong_credentials_are_refused_as_such(closed: Valkey, login: str) -> None:
    lock = open_lock(f"redis://{login}{closed.address}")
    outcome = lock.acquire(KEY, "one", 60)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)
    with pytest.raises(PermissionError):
        lock.check()


def test_no_credentials_are_shown(closed: Valkey, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for login in ("user:very-secret@", ":very-secret@"):
        lock = open_lock(f"redis://{login}{closed.address}/0")
        refused = lock.acquire(KEY, "one", 60)
        assert isinstance(refused, Refused)
        shown = f"{lock!r} {lock.identity()} {refused!r} {refused.error.__cause__!r} {caplog.text}"
        assert "very-secret" not in shown
        assert lock.identity() == f"{closed.endpoint}/0"


def test_its_keys_are_its_own(valkey: Valkey, key: str) -> None:
    """A Redis may serve other programs, too: an administrator can tell them, and grant them."""
    open_lock(valkey.endpoint).acquire(key, "the owner", 60)
    assert valkey.tell("GET", f"putifabsent:lock:{key}") == b"$9\r\nthe owner\r\n"


def test_the_rights_that_the_documentation_names_are_enough(valkey: Valkey, key: str) -> None:
    assert valkey.tell("ACL", "SETUSER", "locker", "on", ">pass", *RIGHTS) == b"+OK\r\n"
    lock = open_lock(f"redis://locker:pass@{valkey.address}")
    assert lock.acquire(key, "one", 60) == Acquired()
    assert isinstance(lock.acquire(key, "other", 60), Held)
    assert lock.release(key, "one") == Released()
    lock.check()


def answers(error: str) -> Fault:
    """Return the fault that an error of the server's is: it did nothing."""
    return Fault(applies=False, says=f"-{error}\r\n".encode())


def _number(answer: bytes) -> int:
    return int(answer[1:].split(b"\r\n")[0])
