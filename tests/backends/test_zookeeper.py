"""What is done with ZooKeeper's answers. The server is imagined; a real one: `test_zookeeper_server.py`."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from functools import partial
from socketserver import StreamRequestHandler, ThreadingTCPServer
from struct import pack, unpack
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.registries import Advanced, Maybe, Refused, TryAgain
from putifabsent.backends.registry_urls import Servers, open_counter
from putifabsent.backends.zookeeper import (
    FOLDER,
    NotSentError,
    ZooKeeperCounter,
    parameters_of,
    zookeeper_settings,
)
from putifabsent.errors import ConfigError
from putifabsent.testing import CounterTests, LostCounterTests
from tests.backends.imagined_servers import Fault, KazooError, Stat, ZooKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from putifabsent.backends.registries import Counter

WHERE = Servers("zookeeper://host:2181", (("host", 2181),))
LOST = KazooError(-4)
TIMED_OUT = TimeoutError("nobody answered")


@pytest.fixture
def server() -> ZooKeeper:
    return ZooKeeper()


@pytest.fixture
def counter(server: ZooKeeper) -> Counter:
    return ZooKeeperCounter(WHERE, lambda: server)


class TestOnAnImaginedServer(CounterTests, LostCounterTests):
    # Its memory is not shared.
    test_a_forked_child_can_count_and_so_can_its_parent = None  # type: ignore[assignment]

    @pytest.fixture
    def make_counter(self, server: ZooKeeper) -> Callable[[], Counter]:
        return partial(ZooKeeperCounter, WHERE, lambda: server)

    @pytest.fixture
    def unanswered(self, server: ZooKeeper) -> Counter:
        return _losing(server, Fault(LOST, done=True))

    @pytest.fixture
    def unheard(self, server: ZooKeeper) -> Counter:
        return _losing(server, Fault(TIMED_OUT))


def _losing(server: ZooKeeper, fault: Fault) -> Counter:
    losing = ZooKeeper(server.nodes)
    losing.always = fault
    return ZooKeeperCounter(WHERE, lambda: losing)


def test_whoever_counts_alone_sets_it_once_a_call(server: ZooKeeper, counter: Counter) -> None:
    """It makes it first."""
    assert [counter.advance("t", 0) for _ in range(3)] == [Advanced(1), Advanced(2), Advanced(3)]
    assert server.asked == 3


def test_whoever_is_behind_others_reads_it_first(server: ZooKeeper, counter: Counter) -> None:
    assert counter.advance("t", 0) == Advanced(1)
    other = ZooKeeperCounter(WHERE, lambda: server)
    assert other.advance("t", 0) == Advanced(2)
    assert isinstance(counter.advance("t", 0), TryAgain)
    assert counter.advance("t", 0) == Advanced(3)


@pytest.mark.parametrize("error", [LOST, TIMED_OUT, KazooError(-7), KazooError(-112), KazooError(-118)])
def test_a_lost_answer_says_nothing_of_the_step(
    server: ZooKeeper, counter: Counter, error: Exception
) -> None:
    counter.advance("t", 0)
    server.faults.append(Fault(error, done=True))
    assert isinstance(counter.advance("t", 0), Maybe)
    assert counter.advance("t", 0) == Advanced(3)


@pytest.mark.parametrize(("code", "error"), [(-102, PermissionError), (-115, PermissionError), (-8, OSError)])
def test_a_refusal_is_one(server: ZooKeeper, counter: Counter, code: int, error: type[Exception]) -> None:
    counter.advance("t", 0)
    server.always = Fault(KazooError(code))
    refused = counter.advance("t", 0)
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, error)
    assert "ZooKeeper refuses" in str(refused.error)


def test_a_server_that_only_reads_has_moved_nothing(server: ZooKeeper, counter: Counter) -> None:
    counter.advance("t", 0)
    server.faults.append(Fault(KazooError(-119)))
    assert isinstance(counter.advance("t", 0), TryAgain)


def test_who_has_no_session_has_sent_nothing() -> None:
    def refused() -> ZooKeeper:
        raise TIMED_OUT

    counter = ZooKeeperCounter(WHERE, refused)
    assert isinstance(counter.advance("t", 0), TryAgain)


@contextmanager
def denying() -> Iterator[tuple[int, list[int]]]:
    """A server that takes no credentials: its port, and how often it was asked."""
    asked: list[int] = []

    class Session(StreamRequestHandler):
        def handle(self) -> None:
            self._read()
            self._answer(pack("!iiq", 0, 10_000, 1) + pack("!i16s", 16, b""))
            self._read()
            asked.append(1)
            self._answer(pack("!iqi", -4, 0, -115))

        def _read(self) -> None:
            self.rfile.read(unpack("!i", self.rfile.read(4))[0])

        def _answer(self, answer: bytes) -> None:
            self.wfile.write(pack("!i", len(answer)) + answer)

    with ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1], asked
        server.shutdown()


def test_credentials_that_are_refused_are_no_connection_that_may_come() -> None:
    with denying() as (port, asked):
        counter = open_counter(f"zookeeper://me:wrong@127.0.0.1:{port}?timeout=1")
        for sessions in (1, 2):  # they may be right the next time
            ends = time.monotonic() + 10
            while isinstance(outcome := counter.advance("t", 0), TryAgain) and time.monotonic() < ends:
                time.sleep(0.01)
            assert isinstance(outcome, Refused)
            assert isinstance(outcome.error, PermissionError)
            assert len(asked) >= sessions


def test_after_credentials_were_refused_a_new_session_is_begun() -> None:
    denied, server = ZooKeeper(), ZooKeeper()
    sessions = [denied, server]
    counter = ZooKeeperCounter(WHERE, lambda: sessions.pop(0))
    assert counter.advance("t", 0) == Advanced(1)
    denied.is_denied = True
    denied.always = Fault(NotSentError("it is being connected to"))
    assert isinstance(counter.advance("t", 1), TryAgain)  # it learns of its node first
    assert counter.advance("t", 1) == Advanced(2)
    assert sessions == []


def test_what_was_not_sent_has_moved_nothing(server: ZooKeeper, counter: Counter) -> None:
    counter.advance("t", 0)
    server.faults.append(Fault(NotSentError("it is being connected to")))
    assert isinstance(counter.advance("t", 0), TryAgain)


def test_a_node_that_was_made_anew_and_has_the_same_version_is_read_first(
    server: ZooKeeper, counter: Counter
) -> None:
    """It is never set back, though its version is the one that was seen."""
    for _ in range(3):
        counter.advance("t", 0)
    server.remove(f"{FOLDER}/c-t")
    other = ZooKeeperCounter(WHERE, lambda: server)
    assert [other.advance("t", 0, 10) for _ in range(3)] == [Advanced(10), Advanced(20), Advanced(30)]
    assert isinstance(counter.advance("t", 0, 10), TryAgain)
    assert counter.advance("t", 0, 10) == Advanced(40)


def test_a_node_without_its_life_is_given_it(server: ZooKeeper, counter: Counter) -> None:
    """Whoever made the node may have died right after."""
    counter.advance("t", 0)
    server.remove(f"{FOLDER}/c-t/life-{server.nodes[f'{FOLDER}/c-t'][1].czxid:x}")
    assert isinstance(counter.advance("t", 0), TryAgain)
    assert counter.advance("t", 0) == Advanced(2)


def test_a_node_that_was_removed_is_made_anew(server: ZooKeeper, counter: Counter) -> None:
    counter.advance("t", 0)
    server.remove(f"{FOLDER}/c-t")
    assert isinstance(counter.advance("t", 7), TryAgain)
    assert counter.advance("t", 7) == Advanced(8)


def test_a_version_that_stands_for_any_is_not_counted_on_from(server: ZooKeeper, counter: Counter) -> None:
    path = f"{FOLDER}/c-t"
    server.nodes[path] = (b"5", Stat(-2, 0))
    server.mark(f"{path}/life-0")
    assert counter.advance("t", 0) == Advanced(6)
    server.nodes[path] = (b"6", Stat(-1, 0))
    refused = [ZooKeeperCounter(WHERE, lambda: server).advance("t", 0), counter.advance("t", 0)]
    assert [isinstance(each, Refused) and "set it to 6" in str(each.error) for each in refused] == [True] * 2
    server.nodes[path] = (b"6", Stat(0, 0))
    assert counter.advance("t", 0) == Advanced(7)


def test_what_is_no_counter_is_refused(server: ZooKeeper, counter: Counter) -> None:
    server.nodes[f"{FOLDER}/c-t"] = (b"somebody's", Stat(0, 0))
    refused = counter.advance("t", 0)
    assert isinstance(refused, Refused)
    assert "other than digits" in str(refused.error)


def test_a_name_is_one_node(server: ZooKeeper, counter: Counter) -> None:
    for name in ("a/b", ".", ".."):
        counter.advance(name, 0)
    nodes = {node for node in server.nodes if "/life-" not in node}
    assert nodes == {f"{FOLDER}/{node}" for node in ("c-a%2Fb", "c-.", "c-..")}


def test_it_tells_the_leader_s_own_time(server: ZooKeeper, counter: Counter) -> None:
    counter.advance("t", 0)
    moved = counter.advance("t", 0)
    assert isinstance(moved, Advanced)
    assert moved.now == server.nodes[f"{FOLDER}/c-t"][1].mtime


def test_an_address_of_several_parts_is_one_folder(server: ZooKeeper) -> None:
    counter = ZooKeeperCounter(zookeeper_settings("zookeeper://a/teams/lake"), lambda: server)
    assert isinstance(counter.advance("t", 0), Advanced)
    assert min(server.nodes) == f"/teams/lake{FOLDER}/c-t"


def test_a_url_is_kazoo_s_parameters() -> None:
    settings = zookeeper_settings("zookeeper://me:se%2Fcret@a,b:2182/lake?timeout=3")
    assert settings.shown == "zookeeper://a:2181,b:2182/lake"
    assert parameters_of(settings) == {
        "hosts": "a:2181,b:2182",
        "timeout": 3.0,
        "command_retry": {"max_tries": 0},
        "auth_data": [("digest", "me:se/cret")],
    }
    assert "se/cret" not in f"{settings!r}{ZooKeeperCounter(settings)!r}"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("zookeeper://", "names its host"),
        ("zookeeper://a?timeot=1", "did you mean 'timeout'"),
        ("zookeper://a", "did you mean zookeeper://"),
    ],
)
def test_what_is_wrong_in_a_url_is_said(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        zookeeper_settings(url)


def test_a_missing_client_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo", None)
    with pytest.raises(ConfigError, match=r"pip install 'putifabsent\[zookeeper\]'"):
        open_counter("zookeeper://host")
