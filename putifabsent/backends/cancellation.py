"""Asynchronous work that must not be left half done: what a cancellation leaves behind is undone first."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from putifabsent.backends.per_process import PerProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

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
