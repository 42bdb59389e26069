"""How a thread waits for what it has begun on a loop, where an interruption (Ctrl-C) must end that, too."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeVar

from fsspec.asyn import sync
from fsspec.exceptions import FSTimeoutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

__all__ = ["done_or_undone"]

T = TypeVar("T")


def done_or_undone(
    loop: asyncio.AbstractEventLoop,
    undo: Callable[[T], Awaitable[object]],
    work: Callable[..., Coroutine[Any, Any, T]],
    *arguments: Any,
    patience: float | None,
) -> T:
    """Run ``work(*arguments)`` on ``loop``, and wait for it.

    ``sync`` alone would leave the work to go on, with nobody to hear of its end. Here an interruption cancels
    it, waits until it has ended, undoes what has come of it nevertheless, and is passed on then; or earlier,
    where the store does not answer: the work goes on to end itself.

    Parameters
    ----------
    loop, undo, work, arguments
        Where, what undoes the result, and what is run.
    patience
        Seconds that an interruption waits for the end; None waits as long as it takes.
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
