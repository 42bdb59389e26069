"""How a thread waits for what runs on a loop, where an interruption (Ctrl-C) must end that, too."""

from __future__ import annotations

import asyncio
import contextlib
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from fsspec.asyn import sync
from fsspec.exceptions import FSTimeoutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any


class _OnALoop(Protocol):
    @property
    def _loop(self) -> asyncio.AbstractEventLoop: ...


P = ParamSpec("P")
S = TypeVar("S", bound=_OnALoop)
T = TypeVar("T")


def blocking_twin(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], T]:
    """Return the blocking twin of an asynchronous method: it waits for that one on the object's own loop."""
    name = method.__name__

    @wraps(method)
    def run(self: S, /, *arguments: P.args, **options: P.kwargs) -> T:
        # By its name, for a subclass may have another.
        outcome: T = sync(self._loop, getattr(self, name), *arguments, **options)
        return outcome

    run.__name__ = name.removesuffix("_async").lstrip("_")
    run.__qualname__ = method.__qualname__.removesuffix(name) + run.__name__
    return run


def done_or_undone(
    loop: asyncio.AbstractEventLoop,
    undo: Callable[[T], Awaitable[object]],
    work: Callable[..., Coroutine[Any, Any, T]],
    *arguments: Any,
    patience: float | None,
) -> T:
    """Run ``work(*arguments)`` on ``loop``, and wait for it.

    ``sync`` alone would leave the work to go on, with nobody to hear of its end. Here an interruption cancels
    it, waits until it has ended, undoes what has come of it nevertheless, and is passed on then; or after
    ``patience`` seconds, where the store does not answer: the work goes on to end itself.
    """
    begun: list[asyncio.Task[T]] = []

    async def begin() -> T:
        begun.append(asyncio.ensure_future(work(*arguments)))
        return await begun[0]

    async def end() -> None:
        # Whatever a loop is given from outside it begins in that order: what could begin has begun by now.
        for task in begun:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                await undo(task.result())

    try:
        outcome: T = sync(loop, begin)
    except BaseException:
        with contextlib.suppress(FSTimeoutError):
            sync(loop, end, timeout=patience)
        raise
    return outcome
