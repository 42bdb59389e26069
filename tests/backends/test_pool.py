"""Blocking calls for event loops: each is answered on its loop, none waits for another, none is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pytest

from putifabsent.backends.concurrency import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
MANY = 8


@pytest.fixture
def pool() -> Pool:
    return Pool(MANY, "test-pool")


async def done(pool: Pool, call: Callable[[], T]) -> T:
    begun = pool.begin(call)
    assert begun is not None
    return await begun


def test_each_call_is_answered_with_its_own_result(pool: Pool) -> None:
    async def run() -> list[object]:
        results: list[object] = []
        for start in range(0, 2000, MANY):
            results += await asyncio.gather(
                *(done(pool, partial(int, i)) for i in range(start, start + MANY))
            )
        return results

    assert asyncio.run(run()) == list(range(2000))


def test_an_error_is_raised_where_it_is_awaited(pool: Pool) -> None:
    async def run() -> None:
        with pytest.raises(ZeroDivisionError):
            await done(pool, lambda: 1 / 0)
        assert await done(pool, lambda: 1) == 1, "the thread goes on"

    asyncio.run(run())


def test_an_error_that_no_future_takes_is_told_by_another(pool: Pool) -> None:
    async def run() -> None:
        begun = [pool.begin(partial(next, iter(()))), pool.begin(partial(int, 1))]
        told = await asyncio.gather(*(each for each in begun if each is not None), return_exceptions=True)
        assert isinstance(told[0], RuntimeError)
        assert isinstance(told[0].__cause__, StopIteration)
        assert told[1] == 1

    asyncio.run(run())


def test_a_thread_that_could_not_be_started_is_not_counted(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor has taken the work all the same, and its next thread finds it."""

    async def run() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", _none_left)
            assert pool.begin(lambda: 1) is None
        begun = [pool.begin(lambda: 1) for _ in range(MANY)]
        assert [await each for each in begun if each is not None] == [1] * MANY

    asyncio.run(run())
    pool._executor.shutdown()


def _none_left(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_what_fails_to_begin_is_not_waited_for(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "create_future", _no_room)
            with pytest.raises(MemoryError):
                pool.begin(lambda: 1)
        assert await done(pool, lambda: 1) == 1

    asyncio.run(run())
    pool._executor.shutdown()


def _no_room() -> None:
    raise MemoryError


def test_as_many_run_at_the_same_time_as_it_says_and_no_more(pool: Pool) -> None:
    async def run() -> None:
        together = threading.Barrier(MANY + 1)
        begun = [pool.begin(together.wait) for _ in range(MANY)]
        assert None not in begun
        assert pool.begin(lambda: None) is None
        await asyncio.to_thread(together.wait)
        await asyncio.gather(*(each for each in begun if each is not None))
        assert await done(pool, lambda: 1) == 1, "there is room again"

    asyncio.run(run())


def test_a_cancelled_call_ends_unheard_and_leaves_its_thread(pool: Pool) -> None:
    async def run() -> None:
        going, ended = threading.Event(), threading.Event()

        def call() -> None:
            going.wait()
            ended.set()

        begun = [pool.begin(call) for _ in range(MANY)]
        for each in begun:
            assert each is not None
            each.cancel()
        assert pool.begin(call) is None, "they are still under way"
        going.set()
        await asyncio.to_thread(ended.wait)
        while (again := pool.begin(lambda: 1)) is None:  # noqa: ASYNC110 - a thread says nothing of its end
            await asyncio.sleep(0)
        assert await again == 1

    asyncio.run(run())


def test_loops_hear_of_their_own_calls_only(pool: Pool) -> None:
    def loop(number: int, results: list[object]) -> None:
        async def run() -> None:
            results.extend([await done(pool, partial(divmod, i, number)) for i in range(200)])

        asyncio.run(run())

    found: list[list[object]] = [[] for _ in range(MANY)]
    threads = [threading.Thread(target=loop, args=each) for each in enumerate(found, start=1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[divmod(i, number) for i in range(200)] for number in range(1, MANY + 1)]


def test_a_loop_that_is_closed_meanwhile_harms_no_other(pool: Pool) -> None:
    going, ended = threading.Event(), threading.Event()

    def call() -> None:
        going.wait()
        ended.set()

    async def leave() -> None:
        assert pool.begin(call) is not None

    asyncio.run(leave())
    going.set()
    ended.wait()
    for _ in range(MANY):
        assert asyncio.run(done(pool, lambda: 1)) == 1


def test_a_loop_is_not_kept(pool: Pool, collect: Callable[[], int]) -> None:
    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(done(pool, lambda: 1)) == 1
    loop.close()
    gone = weakref.ref(loop)
    del loop
    asyncio.run(done(pool, lambda: 2))
    collect()
    assert gone() is None


ENDING = """
import asyncio, atexit, time
from putifabsent.backends.concurrency import Pool
pool = Pool(4, "ending")
def call():
    time.sleep(0.3)
    print("ended")
async def main():
    assert pool.begin(call) is not None
asyncio.run(main())
async def late():
    print(pool.begin(call))
atexit.register(lambda: asyncio.run(late()))
"""


def test_a_process_that_ends_waits_for_what_it_has_begun_and_begins_no_more() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDING], check=True, capture_output=True, text=True, timeout=60
    )
    assert ended.stdout.split() == ["ended", "None"]
    assert not ended.stderr
