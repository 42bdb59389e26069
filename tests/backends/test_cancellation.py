"""A cancelled staging leaves nothing in the store, whoever has to wait for its end."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends import azure, concurrency, gcs
from putifabsent.backends.azure import AzureStore
from putifabsent.backends.base import Absent, InMemory, Staged
from putifabsent.backends.concurrency import AT_ONCE, Stop, in_thread, or_undone
from putifabsent.backends.gcs import GCSStore
from putifabsent.backends.local import LocalStore
from putifabsent.backends.redis import RedisLock
from putifabsent.testing.races import creation_of
from tests.backends import azure_stores
from tests.backends.azure_stores import BLOCK
from tests.backends.gcs_stores import CHUNK, NAME, store_at
from tests.backends.on_stub import Watched
from tests.fsspec_plugin.children import in_a_child
from tests.stub import Fault, FaultStub, Op, Step

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

BODY = InMemory(b"x" * 3 * CHUNK)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultStub]:
    monkeypatch.setattr(gcs, "_CHUNK", CHUNK)
    monkeypatch.setattr(azure, "_BLOCK", BLOCK)
    with FaultStub() as stub:
        yield stub


@pytest.fixture
def store(stub: FaultStub) -> GCSStore:
    return store_at(stub.url("gcs"))


@pytest.fixture
def on_azure(stub: FaultStub) -> AzureStore:
    return azure_stores.store_at(stub.url("azure"))


async def cancelled_at(stub: FaultStub, op: Op, work: Coroutine[Any, Any, Any]) -> None:
    """Cancel ``work`` when its request has arrived; the request is answered only then."""
    task = asyncio.ensure_future(work)
    await asyncio.to_thread(stub.wait_for, op)
    task.cancel()
    await asyncio.sleep(0)
    stub.release()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_staging_leaves_no_session(stub: FaultStub, store: GCSStore) -> None:
    stub.script(Op.PART, Fault.TIMEOUT_AFTER_APPLY)
    asyncio.run(cancelled_at(stub, Op.PART, store.stage_async(NAME, BODY, creation_of(NAME))))
    assert stub.ops[-1] is Op.ABORT
    assert stub.uploads == {}


def test_a_cancelled_staging_of_a_copy_leaves_no_session(stub: FaultStub, store: GCSStore) -> None:
    source = stub.put("bucket", "t/source", BODY.data)
    stub.script(Op.GET, Fault.TIMEOUT_AFTER_APPLY)
    asked = ("bucket/t/source", BODY.size, str(source.generation), NAME, creation_of(NAME))
    asyncio.run(cancelled_at(stub, Op.GET, store.stage_copy_async(*asked)))
    assert stub.uploads == {}


def test_a_staging_that_ends_with_its_loop_leaves_no_session(stub: FaultStub, store: GCSStore) -> None:
    """``asyncio.run`` cancels all tasks that are left: the one that stages, and any that it waits for."""
    left: list[asyncio.Future[Any]] = []

    async def answer_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stub.release()

    async def leave() -> None:
        left.append(asyncio.ensure_future(store.stage_async(NAME, BODY, creation_of(NAME))))
        left.append(asyncio.ensure_future(answer_when_cancelled()))
        await asyncio.to_thread(stub.wait_for, Op.PART)

    stub.script(Op.PART, Fault.TIMEOUT_AFTER_APPLY)
    asyncio.run(leave())
    assert left[0].cancelled()
    assert stub.uploads == {}


async def cancelled_without_an_answer(stub: FaultStub, parts: int, work: Coroutine[Any, Any, Any]) -> None:
    """Cancel ``work`` when so many parts have arrived; they are answered only when its end has been seen."""
    task = asyncio.ensure_future(work)
    await asyncio.to_thread(stub.wait_for, Op.PART, parts)
    task.cancel()
    await asyncio.wait([task], timeout=10)
    has_ended = task.cancelled()
    stub.release()
    assert has_ended


def wait_for_blocks(stub: FaultStub) -> None:
    """Wait until every block that was begun has been answered, also one that came after the others were."""
    for thread in threading.enumerate():
        while thread.name.startswith("putifabsent-block") and thread.is_alive():
            stub.release()
            thread.join(0.05)


def test_a_cancelled_staging_does_not_wait_for_the_answer_to_a_part(
    stub: FaultStub, store: GCSStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "_PATIENCE", 0.1)
    stub.script(Op.PART, Fault.TIMEOUT_AFTER_APPLY)
    asyncio.run(cancelled_without_an_answer(stub, 1, store.stage_async(NAME, BODY, creation_of(NAME))))
    stub.wait_for(Op.ABORT)
    assert stub.ops == [Op.CREATE_UPLOAD, Op.PART, Op.ABORT]
    assert stub.uploads == {}


def test_a_cancelled_staging_begins_no_block_more(
    stub: FaultStub, on_azure: AzureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "_PATIENCE", 0.1)
    stub.script(Op.PART, Fault.TIMEOUT_AFTER_APPLY, forever=True)
    body = InMemory(b"x" * 12 * BLOCK)
    asyncio.run(cancelled_without_an_answer(stub, 4, on_azure.stage_async(NAME, body, creation_of(NAME))))
    wait_for_blocks(stub)
    assert stub.ops == [Op.PART] * 4


def test_an_interrupted_staging_waits_for_no_block(stub: FaultStub, on_azure: AzureStore) -> None:
    class Interrupted(Watched):
        def read(self, start: int, stop: int) -> bytes:
            if start:
                return super().read(start, stop)
            stub.wait_for(Op.PART, 3)
            raise KeyboardInterrupt

    stub.script(Op.PART, Fault.TIMEOUT_AFTER_APPLY, forever=True)
    body = Interrupted(b"x" * 12 * BLOCK)
    with ThreadPoolExecutor(1) as pool:
        staging = pool.submit(on_azure.stage, NAME, body, creation_of(NAME))
        ended, _ = wait([staging], timeout=10)
        stub.release()
    assert ended
    assert isinstance(staging.exception(), KeyboardInterrupt)
    wait_for_blocks(stub)
    # The thread that was interrupted here may have begun another one.
    assert stub.ops.count(Op.PART) <= 4


@pytest.mark.parametrize("kind", ["store", "on_azure"])
def test_a_cancelled_staging_sends_no_part_again(
    stub: FaultStub, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = request.getfixturevalue(kind)
    staging: list[asyncio.Task[Any]] = []
    told = threading.Event()

    class Told(Stop):
        def set(self) -> None:
            super().set()
            told.set()

    def cancel(_: object) -> None:
        staging[0].get_loop().call_soon_threadsafe(staging[0].cancel)
        assert told.wait(10)

    async def stage() -> None:
        staging.append(asyncio.ensure_future(store.stage_async(NAME, BODY, creation_of(NAME))))
        with pytest.raises(asyncio.CancelledError):
            await staging[0]

    monkeypatch.setattr(concurrency, "Stop", Told)
    monkeypatch.setattr(azure, "_AT_ONCE", 1)
    stub.script(Op.PART, Step(Fault.DROP_AFTER_APPLY, after=cancel))
    asyncio.run(stage())
    wait_for_blocks(stub)
    assert stub.ops.count(Op.PART) == 1


class Undoing:
    """What was undone, by work that ends when it is told to."""

    def __init__(self) -> None:
        self.ends = asyncio.Event()
        self.undone: list[str] = []

    async def work(self) -> str:
        await self.ends.wait()
        return "made"

    async def undo(self, made: str) -> None:
        await asyncio.sleep(0)
        self.undone.append(made)


async def test_what_is_not_cancelled_is_not_undone() -> None:
    undoing = Undoing()
    undoing.ends.set()
    assert await or_undone(undoing.work(), undoing.undo) == "made"
    assert undoing.undone == []


async def test_a_failure_is_passed_on() -> None:
    undoing = Undoing()

    async def fails() -> str:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await or_undone(fails(), undoing.undo)


async def test_a_second_cancellation_leaves_nothing_half_done() -> None:
    undoing = Undoing()
    task = asyncio.ensure_future(or_undone(undoing.work(), undoing.undo))
    for _ in range(2):
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    undoing.ends.set()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others)
    assert undoing.undone == ["made"]


async def test_a_cancellation_waits_no_longer_than_it_is_told_to() -> None:
    undoing = Undoing()
    task = asyncio.ensure_future(or_undone(undoing.work(), undoing.undo, patience=0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert undoing.undone == []
    undoing.ends.set()
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
    assert undoing.undone == ["made"]


async def test_a_thread_keeps_its_context() -> None:
    word = contextvars.ContextVar("word", default="nothing")
    word.set("said")
    assert await in_thread(word.get) == "said"


CALLS: dict[str, tuple[Any, ...]] = {
    "create": ("b/name", InMemory(b""), creation_of("b/name")),
    "head": ("b/name",),
    "get": ("b/name",),
    "list": ("b",),
    "delete": ("b/name",),
    "put": ("b/name", InMemory(b""), creation_of("b/name")),
    "publish": ("b/name~salt", "b/name", creation_of("b/name")),
    "stage": ("b/name", InMemory(b""), creation_of("b/name")),
    "stage_copy": ("b/other", 1, None, "b/name", creation_of("b/name")),
    "complete": (Staged("b/name", []),),
    "discard": (Staged("b/name", []),),
}


OF_A_LOCK: dict[str, tuple[Any, ...]] = {
    "acquire": ("key", "owner", 1.0),
    "release": ("key", "owner"),
}


@pytest.mark.parametrize(
    ("kind", "call"),
    [*product((GCSStore, AzureStore, LocalStore), CALLS), *product((RedisLock,), OF_A_LOCK)],
)
async def test_as_many_calls_run_at_the_same_time_as_a_client_has_connections(
    monkeypatch: pytest.MonkeyPatch, kind: type[Any], call: str
) -> None:
    """Not as few as a loop has threads of its own on a small machine."""
    together = threading.Barrier(AT_ONCE)
    arrived: list[int] = []
    monkeypatch.setattr(kind, call, lambda *_: arrived.append(together.wait(10)))
    store = object.__new__(kind)
    arguments = {**CALLS, **OF_A_LOCK}[call]
    calls = [getattr(store, f"{call}_async")(*arguments) for _ in range(AT_ONCE)]
    await asyncio.gather(*calls)
    assert sorted(arrived) == list(range(AT_ONCE))


def looked_at() -> bool:
    return isinstance(asyncio.run(LocalStore().head_async("/nowhere")), Absent)


def test_a_forked_process_has_threads_of_its_own() -> None:
    assert looked_at()
    assert in_a_child("fork", looked_at) is True
    assert looked_at()
