"""Many creations by one call: whoever ends the call ends each of them, and hears what they know.

fsspec runs them as tasks of its own. The end of a call, by the first error, by a cancellation or by an
interrupt (Ctrl-C) of the thread that waits for it, does not reach those: they would go on unseen, and the
tokens of what they may have created would be lost.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from fsspec.asyn import sync

from putifabsent.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Bulk", "join", "together", "waited_for"]

T = TypeVar("T")


class Bulk:
    """The creations under way for one call, and what came of them that only a token can tell."""

    def __init__(self) -> None:
        self._caller = asyncio.current_task()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._over = False
        self._unknown: list[OutcomeUnknown] = []

    def join(self) -> None:
        """Take part; a creation that begins after the end of the call is cancelled instead."""
        task = asyncio.current_task()
        if task is None or task is self._caller:
            return
        if self._over:
            raise asyncio.CancelledError
        self._tasks.add(task)

    def note(self, error: BaseException) -> None:
        """Keep what a creation ended with, if that is unknown."""
        unknown = error if isinstance(error, OutcomeUnknown) else error.__cause__
        if isinstance(unknown, OutcomeUnknown):
            self._unknown.append(unknown)

    async def end(self, error: BaseException) -> None:
        """Cancel what is still under way, and hang on ``error`` all that is unknown."""
        self._over = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        _hang_on(error, self._unknown)


_bulk: ContextVar[Bulk | None] = ContextVar("_bulk", default=None)


def join() -> Bulk | None:
    """Say, within a creation, that it is under way; return the call that it belongs to, if there is one.

    Raises
    ------
    asyncio.CancelledError
        That call is over.
    """
    bulk = _bulk.get()
    if bulk is not None:
        bulk.join()
    return bulk


async def together(many: Awaitable[T]) -> T:
    """Await a call that makes many creations; its error carries the unknown outcomes of all."""
    bulk = Bulk()
    token = _bulk.set(bulk)
    try:
        return await many
    except BaseException as error:
        await bulk.end(error)
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

    async def ended() -> list[OutcomeUnknown]:
        unknown = None
        for task in tasks:
            task.cancel()
            try:  # not by `gather`, which makes a new cancellation without a cause
                await task
            except BaseException as error:  # noqa: BLE001 - what matters of it is carried on
                unknown = _first_unknown(error)
        return [unknown] if unknown else []

    try:
        return sync(loop, begun)
    except BaseException as error:
        # What has not begun yet has when this runs: a loop begins things in the order of their coming.
        if not tasks or not all(task.done() for task in tasks):
            _hang_on(error, sync(loop, ended))
        raise


def _first_unknown(error: object) -> OutcomeUnknown | None:
    # Python 3.10 raises a task's cancellation as a new one, and keeps the first as its context only.
    seen: set[int] = set()
    while isinstance(error, BaseException) and id(error) not in seen:
        if isinstance(error, OutcomeUnknown):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _hang_on(error: BaseException, unknown: list[OutcomeUnknown]) -> None:
    """Make the first of them the cause of ``error``, and the rest its companions."""
    rest = [each for each in unknown if each is not error]
    if not rest:
        return
    if isinstance(error, OutcomeUnknown):
        error.others = (*error.others, *rest)
        return
    first = rest[0]
    first.others = (*first.others, *rest[1:])
    error.__cause__ = first
