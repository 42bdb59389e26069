"""Two requests of which neither waits for the other; and those that ask a registry, not the store."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from putifabsent.backends.base import Absent, Found, Written
from putifabsent.backends.memory import MemoryStore
from putifabsent.backends.registries import Claim
from putifabsent.shim import drive
from putifabsent.shim.requests import Both, Head, Put, ReadClaim, WriteClaim
from putifabsent.testing.explore import Actor, Faults, explore
from putifabsent.testing.imagined import ImaginedStore
from tests.shim.scripted import BODY, MINE

if TYPE_CHECKING:
    from putifabsent.shim.requests import Protocol

SECONDS = 30
BOTH = Both(Put("bucket/salted", BODY, MINE), Head("bucket/name"))


def asking(request: Any) -> Protocol[Any]:
    answer = yield request
    return answer


def run_sync(protocol: Protocol[Any], store: Any) -> Any:
    return drive.run(protocol, store, SECONDS)


def run_async(protocol: Protocol[Any], store: Any) -> Any:
    return asyncio.run(drive.run_async(protocol, store, SECONDS))


@pytest.fixture(params=[run_sync, run_async], ids=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Any:
    return request.param


class Meeting:
    """A store behind a network, where put and look each wait until the other has begun."""

    kind = "meeting"

    def __init__(self, failure: BaseException | None = None) -> None:
        self._gate = threading.Barrier(2)
        self._failure = failure

    def endpoint(self) -> str:
        return "https://store"

    def put(self, *_: Any) -> Any:
        self._gate.wait(SECONDS)
        return Written("v1")

    def head(self, _: str) -> Any:
        self._gate.wait(SECONDS)
        if self._failure is not None:
            raise self._failure
        return Absent()

    async def put_async(self, *arguments: Any) -> Any:
        return await asyncio.to_thread(self.put, *arguments)

    async def head_async(self, name: str) -> Any:
        return await asyncio.to_thread(self.head, name)


def test_both_requests_are_under_way_at_the_same_time(run: Any) -> None:
    assert run(asking(BOTH), Meeting()) == (Written("v1"), Absent())


def test_an_error_of_the_second_is_the_protocol_s_to_judge(run: Any) -> None:
    bug = RuntimeError("a bug of the client")
    with pytest.raises(RuntimeError) as raised:
        run(asking(BOTH), Meeting(bug))
    assert raised.value is bug


class Interrupted(Meeting):
    """A store whose put is interrupted while the look is under way, which would take for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()

    def put(self, *_: Any) -> Any:
        self._gate.wait(SECONDS)
        raise KeyboardInterrupt

    def head(self, _: str) -> Any:
        self._gate.wait(SECONDS)
        self.over.wait(SECONDS)
        return Absent()

    async def put_async(self, *_: Any) -> Any:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    async def head_async(self, _: str) -> Any:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("run", "kind"),
    [(run_sync, KeyboardInterrupt), (run_async, asyncio.CancelledError)],
    ids=["sync", "async"],
)
def test_an_interruption_does_not_wait_for_the_look(run: Any, kind: type[BaseException]) -> None:
    store = Interrupted()
    with pytest.raises(kind):
        run(asking(BOTH), store)
    assert not store.over.is_set()
    store.over.set()


class OneThread(Meeting):
    """A store that notes which threads ask it."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def put(self, *_: Any) -> Any:
        self.threads.add(threading.get_ident())
        return Written()

    def head(self, _: str) -> Any:
        self.threads.add(threading.get_ident())
        return Absent()


def test_where_there_is_no_network_to_wait_for_one_comes_after_the_other() -> None:
    class Near(OneThread):
        def endpoint(self) -> Any:
            return None

    store = Near()
    assert run_sync(asking(BOTH), store) == (Written(), Absent())
    assert store.threads == {threading.get_ident()}
    filesystem = MemoryFileSystem()
    filesystem.store.clear()
    assert isinstance(run_sync(asking(BOTH), MemoryStore(filesystem))[0], Written)


def test_where_no_thread_can_be_had_one_comes_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    store = OneThread()
    assert run_sync(asking(BOTH), store) == (Written(), Absent())
    assert store.threads == {threading.get_ident()}


class Registry:
    """Answers with what it was asked."""

    def __getattr__(self, method: str) -> Any:
        def answer(*arguments: Any) -> Any:
            return method.removesuffix("_async"), *arguments

        async def answer_async(*arguments: Any) -> Any:
            return answer(*arguments)

        return answer_async if method.endswith("_async") else answer


def test_a_registry_is_asked_whatever_the_store_is(run: Any) -> None:
    registry: Any = Registry()
    claim = Claim(1, live=True, key="key", token="token", writer="writer")
    assert run(asking(ReadClaim(registry, "s3://name")), None) == ("read", "s3://name")
    write = WriteClaim(registry, "s3://name", claim, None)
    assert run(asking(write), None) == ("write", "s3://name", claim, None)


# --- under the explorer


class Noting:
    """Promises nothing, and notes what everybody was told at last."""

    def __init__(self) -> None:
        self.told: set[Any] = set()

    def judge(self, _: Any, __: Any, told: Any) -> None:
        self.told.add(tuple(each.ended and tuple(type(it) for it in each.ended[1]) for each in told))


def test_the_explorer_applies_them_in_either_order() -> None:
    def crossing(put: str, look: str) -> Actor:
        return Actor(put, "other", lambda: asking(Both(Put(put, BODY, MINE), Head(look))))

    noting = Noting()
    found = explore([crossing("a", "b"), crossing("b", "a")], ImaginedStore(), noting, Faults())
    assert found.complete
    sees, misses = (Written, Found), (Written, Absent)
    ended = {told for told in noting.told if None not in told}
    assert ended == {(sees, sees), (sees, misses), (misses, sees), (misses, misses)}


def test_the_explorer_loses_the_answer_of_either() -> None:
    noting = Noting()
    actor = Actor("a", "other", lambda: asking(Both(Put("a", BODY, MINE), Head("a"))))
    explore([actor], ImaginedStore(), noting, Faults(lost=1, late=1))
    names = {tuple(kind.__name__ for kind in told) for (told,) in noting.told if told is not None}
    assert {("Maybe", "Absent"), ("Maybe", "Found"), ("Written", "TryAgain"), ("Maybe", "TryAgain")} <= names
