"""Many creations by one call: whoever ends the call ends each of them, and hears what they know.

fsspec runs them as tasks of its own. The end of a call, by the first error, by a cancellation or by an
interrupt (Ctrl-C) of the thread that waits for it, does not reach those: they would go on unseen, and the
tokens of what they may have created would be lost.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast

from putifabsent.backends.waiting import done_or_undone
from putifabsent.errors import OutcomeUnknown, unknown_of
from putifabsent.fsspec_plugin.turns import turns_held, with_turns

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
        unknown = unknown_of(error)
        if unknown is not None:
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
    ends: list[BaseException] = []
    held = turns_held()

    async def watched() -> Any:
        with_turns(held)
        try:
            return await method(*args, **kwargs)
        except BaseException as error:
            # Whoever asks the task later may get a cancellation that was made anew, without a cause.
            ends.append(error)
            raise

    async def nothing(_: Any) -> None:
        """What was created stays."""

    try:
        return done_or_undone(cast("asyncio.AbstractEventLoop", loop), nothing, watched, patience=None)
    except BaseException as error:
        _hang_on(error, [found for each in ends if each is not error and (found := _first_unknown(each))])
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
