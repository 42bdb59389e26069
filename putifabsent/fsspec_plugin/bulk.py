"""Many creations by one call: whoever ends the call ends each of them, and hears what they know.

fsspec runs them as tasks of its own. The end of a call, by the first error, by a cancellation or by an
interrupt (Ctrl-C) of the thread that waits for it, does not reach those: they would go on unseen, and the
tokens of what they may have created would be lost.

Numbered names come in ascending order, each after the one before it has ended: a later number that is there
first would make an earlier one look expired. So do the steps of a timeline, which its ledger takes in order.
What fsspec makes of folders and patterns is known by a rehearsal: it calls the methods that create single
files, which note what they are called for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from putifabsent.backends.interrupt import done_or_undone
from putifabsent.errors import NameExpired, NameTaken, OutcomeUnknown, unknown_of
from putifabsent.fsspec_plugin.turns import turns_held, with_turns
from putifabsent.shim.formats.hudi import step_of
from putifabsent.shim.names import Name, Role

_STATES = ("requested", "inflight", "completed", "base", "log")

T = TypeVar("T")


@dataclass(eq=False)
class Bulk:
    """The creations under way for one call, and what came of them that only a token can tell."""

    caller: asyncio.Task[Any] | None = field(default_factory=asyncio.current_task)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    over: bool = False
    unknown: list[OutcomeUnknown] = field(default_factory=list)
    before: dict[str, str] = field(default_factory=dict)  # which name each of these waits for
    ended: dict[str, asyncio.Event] = field(default_factory=dict)
    failed: dict[str, BaseException] = field(default_factory=dict)

    async def turn_of(self, name: str) -> None:
        """Wait for the name before this one, and fail as that has: without it this would leave a gap."""
        if (before := self.before.get(name)) is not None:
            await self.ended[before].wait()
            if before in self.failed:
                raise self.failed[before]

    def note(self, error: BaseException) -> None:
        """Keep what a creation ended with, if that is unknown."""
        unknown = unknown_of(error)
        if unknown is not None:
            self.unknown.append(unknown)


_bulk: ContextVar[Bulk | None] = ContextVar("_bulk", default=None)


def join() -> Bulk | None:
    """Say, within a creation, that it is under way; return the call that it belongs to, if there is one.

    If that call is over, the creation is cancelled.
    """
    bulk = _bulk.get()
    if bulk is None:
        return None
    task = asyncio.current_task()
    if task is not None and task is not bulk.caller:
        if bulk.over:
            raise asyncio.CancelledError
        bulk.tasks.add(task)
    return bulk


def place_of(name: Name) -> tuple[Any, Any] | None:
    """Return the series that a name belongs to, and its number there; a timeline's steps are one, too."""
    folder = name.path.rpartition("/")[0]
    if name.series is not None and name.guarded:
        return (folder, name.series.pattern), name.series.number
    step = step_of(name.path) if name.role is Role.INSTANT else None
    return step and (folder, (step.instant, _STATES.index(step.state)))


def ascending(
    items: Sequence[T], target_of: Callable[[T], Any], number_of: Callable[[Any], tuple[Any, Any] | None]
) -> tuple[list[T], list[list[Any]]]:
    """Put the numbered names among ``items`` into ascending order; the others keep their places.

    Of each item ``target_of`` says the name; ``number_of`` says a name's series and its number in it, None
    where it has none. Returned are the items, and the names of each series.
    """
    series: dict[Any, list[tuple[Any, int]]] = {}
    for place, item in enumerate(items):
        found = number_of(target_of(item))
        if found is not None:
            series.setdefault(found[0], []).append((found[1], place))
    ordered = list(items)
    for numbers in series.values():
        places = [place for _, place in numbers]
        for place, (_, whence) in zip(places, sorted(numbers), strict=True):
            ordered[place] = items[whence]
    names = [[target_of(items[place]) for _, place in sorted(numbers)] for numbers in series.values()]
    return ordered, names


rehearsed: ContextVar[list[tuple[Any, Any]] | None] = ContextVar("rehearsed", default=None)
"""In a rehearsal, where the arguments of what would create a file are noted; nothing else is done then."""


@contextmanager
def rehearsal() -> Iterator[list[tuple[Any, Any]]]:
    """Note what single files are created for, and create none."""
    noted: list[tuple[Any, Any]] = []
    token = rehearsed.set(noted)
    try:
        yield noted
    finally:
        rehearsed.reset(token)


async def in_turn(args: tuple[Any, ...], target: int, create: Callable[[], Awaitable[T]]) -> T:
    """Await the creation of the name in argument ``target``, after those of its call that come before it."""
    bulk = _bulk.get()
    if bulk is None or len(args) <= target:
        return await create()
    name = args[target]
    try:
        await bulk.turn_of(name)
        return await create()
    except BaseException as error:
        # A number that another holds is there; and a source that is not is the caller's to skip.
        if isinstance(error, NameExpired) or not isinstance(error, (NameTaken, FileNotFoundError)):
            bulk.failed[name] = error
        raise
    finally:
        if name in bulk.ended:
            bulk.ended[name].set()


def in_order(series: Sequence[Sequence[str]]) -> None:
    """Have each of these names of the call under way wait for the one before it."""
    bulk = _bulk.get()
    if bulk is None:
        return
    for names in series:
        known = list(dict.fromkeys(names))
        bulk.before.update(zip(known[1:], known, strict=False))
        bulk.ended.update((name, asyncio.Event()) for name in known)


async def together(many: Awaitable[T]) -> T:
    """Await a call that makes many creations; its error carries the unknown outcomes of all."""
    bulk = Bulk()
    token = _bulk.set(bulk)
    try:
        return await many
    except BaseException as error:
        bulk.over = True
        for task in bulk.tasks:
            task.cancel()
        if bulk.tasks:
            await asyncio.wait(bulk.tasks)
        _hang_on(error, bulk.unknown)
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
