"""Many creations by one call: whoever ends the call ends each of them, and hears what they know.

fsspec runs them as tasks of its own. Neither a cancellation of the call nor an interrupt (Ctrl-C) of the
thread that waits for it reaches those: they would go on unseen, and their tokens would be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from fsspec.asyn import sync

from putifabsent.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

__all__ = ["join", "together", "waited_for"]

T = TypeVar("T")


class _Bulk:
    """The creations under way for one call."""

    def __init__(self) -> None:
        self.caller = asyncio.current_task()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.over = False


_bulk: ContextVar[_Bulk | None] = ContextVar("_bulk", default=None)


def join() -> None:
    """Say, within a creation, that it is under way.

    Raises
    ------
    asyncio.CancelledError
        The call that it belongs to is over.
    """
    bulk, task = _bulk.get(), asyncio.current_task()
    if bulk is None or task is None or task is bulk.caller:
        return
    if bulk.over:
        raise asyncio.CancelledError
    bulk.tasks.add(task)


async def together(many: Awaitable[T]) -> T:
    """Await a call that makes many creations; a cancellation of it carries the unknown outcomes of all."""
    bulk = _Bulk()
    token = _bulk.set(bulk)
    try:
        return await many
    except asyncio.CancelledError as error:
        bulk.over = True
        _hang_on(error, await _cancelled(*bulk.tasks))
        raise
    finally:
        _bulk.reset(token)


def waited_for(
    loop: asyncio.AbstractEventLoop | None, method: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Run an asynchronous method on a loop of another thread; an interrupt here cancels it there."""
    tasks: list[asyncio.Task[Any]] = []

    async def begun() -> Any:
        task = asyncio.current_task()
        tasks.extend([task] if task else [])
        return await method(*args, **kwargs)

    try:
        return sync(loop, begun)
    except BaseException as error:
        _hang_on(error, sync(loop, _cancelled, *tasks))
        raise


async def _cancelled(*tasks: asyncio.Task[Any]) -> list[BaseException]:
    """Cancel tasks, and return what their cancellations carry."""
    found: list[BaseException] = []
    for task in tasks:
        task.cancel()
    for task in tasks:
        try:
            with contextlib.suppress(Exception):
                await task
        except asyncio.CancelledError as error:
            found.extend(each for each in _behind(error) if isinstance(each, OutcomeUnknown))
    return found


def _behind(error: BaseException) -> Iterator[BaseException]:
    # Python 3.10 raises a task's cancellation as a new one, and keeps the first as its context only.
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__


def _hang_on(error: BaseException, causes: list[BaseException]) -> None:
    for cause in causes:
        while error.__cause__ is not None:
            error = error.__cause__
        error.__cause__ = cause
