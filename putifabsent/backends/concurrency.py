"""Threads, event loops and forks: how blocking calls run beside a loop, and what must not be left half done.

What a cancellation leaves behind is undone first. What has sockets, locks or threads, a forked child makes
anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class PerProcess(Generic[T]):
    """Something with sockets and locks: a forked child makes its own.

    Two threads may make one at the same time; either is as good.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: tuple[int, T] | None = None
        self._parents: list[T] = []

    def __call__(self) -> T:
        """Return this process's own."""
        made = self._made
        if made is None or made[0] != os.getpid():
            if made is not None:
                # Dropped here, the parent's would be closed here; and as parent and child share the kernel's
                # list of what an event loop waits for (epoll), the parent would wait for ever.
                self._parents.append(made[1])
            made = self._made = (os.getpid(), self._make())
        return made[1]


AT_ONCE = 64  # calls at the same time. A loop has only a few threads of its own: 6 on two cores.

_threads = PerProcess(lambda: ThreadPoolExecutor(AT_ONCE, "putifabsent-store"))

_PATIENCE = 2.0


class StoppedError(Exception):
    """Nobody waits for this work any more, and it was not gone on with."""


class Stop(threading.Event):
    """Is set when nobody waits any more for what a thread does."""

    def heed(self) -> None:
        """Raise :class:`StoppedError` if it is set."""
        if self.is_set():
            raise StoppedError


_stop: contextvars.ContextVar[Stop] = contextvars.ContextVar("_stop")


def stop_here() -> Stop:
    """Return what stops the work that this thread does; one that nobody else has, where nobody could."""
    return _stop.get(None) or Stop()


def in_thread(work: Callable[[], T], pool: ThreadPoolExecutor | None = None) -> asyncio.Future[T]:
    """Begin ``work`` in a thread of a pool, or of the stores', which has :data:`AT_ONCE`.

    What this returns is no task, as ``asyncio.to_thread`` would be: a loop that ends cancels all its tasks,
    and nobody would hear any more what the thread has made.
    """
    context = contextvars.copy_context()
    return asyncio.get_running_loop().run_in_executor(pool or _threads(), context.run, work)


def twin(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the asynchronous twin of a method: it runs in a thread. Cancelled, its outcome is unknown."""
    name = method.__name__

    async def run(self: S, /, *arguments: P.args, **options: P.kwargs) -> T:
        # By its name, for a subclass may have another.
        outcome: T = await in_thread(lambda: getattr(self, name)(*arguments, **options))
        return outcome

    run.__name__ = f"{name}_async"
    run.__doc__ = f":meth:`{name}`, asynchronously."
    return run


async def or_undone(
    work: Awaitable[T],
    undo: Callable[[T], Awaitable[object]],
    patience: float | None = None,
    stop: Stop | None = None,
) -> T:
    """Await ``work``. A cancellation lets it end, undoes what came of it, and then stays a cancellation.

    It sets ``stop``, for work that heeds it, and waits ``patience`` seconds; after them, this goes on without
    anyone who waits for it.
    """
    future = asyncio.ensure_future(work)
    try:
        await asyncio.wait([future])
    except asyncio.CancelledError:
        if stop is not None:
            stop.set()
        # A task of its own, for a second cancellation must not leave it half done either.
        await asyncio.wait([asyncio.ensure_future(_undo(future, undo))], timeout=patience)
        raise
    return future.result()


async def stopped_or_undone(work: Callable[[], T], undo: Callable[[T], Awaitable[object]]) -> T:
    """Run ``work`` in a thread; as :func:`or_undone`, but a cancellation has it begin nothing more.

    It heeds :func:`stop_here`, and leaves nothing behind then. A slow request of its own is not waited for.
    """
    stop = Stop()

    def begin() -> T:
        _stop.set(stop)
        stop.heed()
        return work()

    return await or_undone(in_thread(begin), undo, _PATIENCE, stop)


async def _undo(future: asyncio.Future[T], undo: Callable[[T], Awaitable[object]]) -> None:
    with contextlib.suppress(Exception):
        await undo(await future)


# --- a pool that hands results over many at a time

_Call: TypeAlias = "tuple[asyncio.AbstractEventLoop, _Inbox, asyncio.Future[Any], Callable[[], Any]]"
_Done: TypeAlias = "tuple[asyncio.Future[Any], Any, BaseException | None]"

_IDLE = 0.05  # seconds that a thread waits for its next call


class Pool:
    """Runs blocking calls for event loops, in at most ``most`` threads, which come and go with the calls.

    A ThreadPoolExecutor does the same call by call: a future with a lock each, and each result wakes its loop
    by a system call. Where a call takes some dozens of microseconds, that is most of it. The threads are an
    executor's, so that a process that ends waits for calls under way as it does for all others.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._executor = ThreadPoolExecutor(most, name)
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._inboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Inbox] = WeakKeyDictionary()
        # There is a thread for each call, always: none waits for another's end.
        self._lock = threading.Lock()
        self._unfinished = 0
        self._threads = 0

    def begin(self, call: Callable[[], T]) -> asyncio.Future[T] | None:
        """Run ``call`` in a thread; None where all are busy, or the interpreter is about to end.

        The future is of the running loop. Cancelled, it leaves the call to end unheard.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._unfinished == self._most:
                return None
            self._unfinished += 1
            alone = self._unfinished > self._threads
            self._threads += alone
        try:
            if alone and not self._start():
                self._none_begun()
                return None
            future: asyncio.Future[T] = loop.create_future()
            inbox = self._inboxes.get(loop) or self._inboxes.setdefault(loop, _Inbox())
            self._calls.put((loop, inbox, future, call))
        except BaseException:
            # Else its thread would wait for it for ever, and the end of the process for the thread.
            self._none_begun()
            raise
        return future

    def _none_begun(self) -> None:
        with self._lock:
            self._unfinished -= 1

    def _start(self) -> bool:
        """Start a thread that is counted already; where there is none to be had, it is counted no more."""
        ticket = [None]
        try:
            self._executor.submit(self._run, ticket)
        except BaseException as error:
            # The executor keeps what it could start no thread for, and another of its threads may take it.
            with contextlib.suppress(IndexError):
                ticket.pop()
                with self._lock:
                    self._threads -= 1
                if isinstance(error, RuntimeError):
                    return False
            if not isinstance(error, RuntimeError):
                raise
        return True

    def _run(self, ticket: list[None]) -> None:
        try:
            ticket.pop()
        except IndexError:
            return
        while True:
            try:
                loop, inbox, future, call = self._calls.get(timeout=_IDLE)
            except Empty:
                with self._lock:
                    if self._threads > self._unfinished:
                        self._threads -= 1
                        return
                continue
            value, error = None, None
            try:
                value = call()
            except BaseException as raised:  # noqa: BLE001 - raised where it is awaited
                error = raised
            with self._lock:
                self._unfinished -= 1
            inbox.add(loop, (future, value, error))
            del loop, inbox, future, call, value, error  # nothing is held while it waits for the next


class _Inbox:
    """What has come of one loop's calls, and has not been handed over yet."""

    def __init__(self) -> None:
        self._done: deque[_Done] = deque()
        self._woken = False

    def add(self, loop: asyncio.AbstractEventLoop, done: _Done) -> None:
        """Keep one, and wake the loop, unless it is about to look."""
        self._done.append(done)
        if not self._woken:
            self._woken = True
            try:
                loop.call_soon_threadsafe(self._hand_over)
            except RuntimeError:  # the loop is closed, and nobody waits
                self._done.clear()

    def _hand_over(self) -> None:
        self._woken = False  # before it looks: what comes from now on wakes it again
        while self._done:
            future, value, error = self._done.popleft()
            if future.done():
                continue
            if error is None:
                future.set_result(value)
            elif isinstance(error, StopIteration):
                # No future takes one, and before Python 3.12 it says so here.
                wrapped = RuntimeError(f"the call raised {error!r}")
                wrapped.__cause__ = error
                future.set_exception(wrapped)
            else:
                future.set_exception(error)
