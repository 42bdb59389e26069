"""Threads that run blocking calls for event loops, and hand the results over many at a time.

A ThreadPoolExecutor does the same call by call: a future with a lock each, and each result wakes its loop by
a system call. Where a call takes some dozens of microseconds, that is most of it. The threads are an
executor's, so that a process that ends waits for calls under way as it does for all others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_Call: TypeAlias = "tuple[asyncio.AbstractEventLoop, _Inbox, asyncio.Future[Any], Callable[[], Any]]"
_Done: TypeAlias = "tuple[asyncio.Future[Any], Any, BaseException | None]"

# Seconds that a thread waits for its next call.
_IDLE = 0.05


class Pool:
    """Runs calls in at most ``most`` threads, which come and go with the calls."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._executor = ThreadPoolExecutor(most, name)
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._inboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Inbox] = WeakKeyDictionary()
        # There is a thread for each call, always: none waits for another's end.
        self._lock = Lock()
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
