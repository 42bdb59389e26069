"""Many files by one call: fsspec's own ways, with numbered names in ascending order; folders that move.

fsspec runs the creations as tasks of its own. The end of a call, by the first error, by a cancellation or by
an interrupt (Ctrl-C) of the thread that waits for it, does not reach those: they would go on unseen, and the
tokens of what they may have created would be lost. So whoever ends a call here ends each of them, and hears
what they know.

Numbered names come in ascending order, each after the one before it has ended: a later number that is there
first would make an earlier one look expired. So do the steps of a timeline, which its ledger takes in order.
What is not numbered comes before, but for each series' first name: a commit's data are there before it.
What fsspec makes of folders and patterns is known by a rehearsal: it calls the methods that create single
files, which note what they are called for.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from glob import has_magic
from inspect import signature
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fsspec.asyn import AsyncFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.spec import AbstractFileSystem
from fsspec.utils import other_paths

from putifabsent.backends.interrupt import done_or_undone
from putifabsent.errors import OutcomeUnknown, unknown_of
from putifabsent.fsspec_plugin.paths import refuse_pattern
from putifabsent.fsspec_plugin.steps import Either, Steps
from putifabsent.shim.drive import walk, walk_async
from putifabsent.shim.formats.hudi import step_of
from putifabsent.shim.names import Name, Role

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem

_STATES = ("requested", "inflight", "completed", "base", "log")

T = TypeVar("T")

# --- methods of the guarded filesystem's class


def pipe(fs: GuardedFileSystem, path: Any, value: Any = None, **kwargs: Any) -> Any:
    """Write bytes to files."""
    if fs._intrans or not fs.fs.async_impl:  # one after the other, in the order of writing
        return AbstractFileSystem.pipe(fs, _values_in_order(fs, path)[0], value, **kwargs)
    return waited_for(fs.loop, fs._pipe, path, value, **kwargs)


async def pipe_async(fs: GuardedFileSystem, path: Any, *args: Any, **kwargs: Any) -> Any:
    """:func:`pipe`, asynchronously."""

    async def piped() -> Any:
        values, series = _values_in_order(fs, path)
        in_order(series)
        return await AsyncFileSystem._pipe(fs, values, *args, **kwargs)

    return await together(piped())


def between(fs: GuardedFileSystem, method: str, *args: Any, **kwargs: Any) -> Steps[Any]:
    """Go fsspec's own way from many names to many (``put``, ``get``, ``copy``), those here in their order."""

    def called() -> Any:
        if fs.fs.async_impl and not (fs._intrans and method == "put"):
            return waited_for(fs.loop, awaited)
        own = {key: value for key, value in kwargs.items() if key != "batch_size"}
        way = partial(getattr(AbstractFileSystem, method), fs)
        return walk(_calls_in_order(fs, way, *args, **own), lambda options: way(**options))

    async def awaited() -> Any:
        way = partial(getattr(AsyncFileSystem, f"_{method}"), fs)
        if method == "get" and fs.mount.kind != "local":  # what is there is nobody's name here
            return await way(*args, **kwargs)
        calls = _calls_in_order(fs, way, *args, **kwargs)
        return await together(walk_async(calls, lambda options: way(**options)))

    return (yield Either(called, awaited))


def mv(
    fs: GuardedFileSystem,
    path1: Any,
    path2: Any,
    recursive: bool = False,
    maxdepth: int | None = None,
    **kwargs: Any,
) -> Any:
    """Rename files; each guarded target is created, then its source goes.

    A folder on local disk is renamed as a whole, which never replaces anything.
    """
    path1, path2 = fs._own(path1), fs._own(path2)
    guard, mount = fs.guard, fs.mount
    # Where an arbiter knows names by their place, or a session by its salt, no folder moves as a whole.
    both_plain = isinstance(path1, str) and isinstance(path2, str)
    on_disk = mount.kind == "local" and mount.arbiter is None and guard.salts is None
    if both_plain and on_disk:
        on_disk = not guard.is_judged(guard.explain(path1))  # its ledger must hear of it
    if both_plain and (on_disk or not has_magic(path1)):
        name = _moved_to(fs, path1, path2)
        # A link to a folder is no folder: it would replace a file.
        if name is not None and not (on_disk and mount.fs.isdir(path1) and not mount.fs.islink(path1)):
            return mount.walk(guard.creating_from(fs._source(path1, name), name, kwargs, keep=False))
        if on_disk:
            return mount.fs.mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
    if both_plain and mount.kind == "local" and has_magic(path1):
        if fs.isdir(path1):
            refuse_pattern(path1)
        fs.cp_file(path1, path2)
        return fs.rm_file(path1)
    if both_plain and _stays(fs, path1, path2):
        return None
    if recursive and maxdepth is not None:  # fsspec's own copies what is not deeper, and then removes all
        raise ValueError("a move to a depth would lose what is deeper: copy, and remove what was copied")
    # fsspec's own fails on the folders of a store that has none.
    moves_folders = not mount.has_folders or type(mount.fs).mv is not AbstractFileSystem.mv
    if both_plain and recursive and moves_folders:
        return _move_folder(fs, path1, path2)
    return AbstractFileSystem.mv(fs, path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)


def _values_in_order(fs: GuardedFileSystem, path: Any) -> tuple[Any, list[list[str]]]:
    """Put what is to be piped into order: a dictionary of bytes by names; a single name is as it is."""
    if not isinstance(path, dict):
        return path, []
    items, series = ascending(list(path.items()), lambda item: item[0], lambda name: _number_of(fs, name))
    return dict(items), series


def _calls_in_order(
    fs: GuardedFileSystem, way: Callable[..., Any], one: Any, other: Any, *args: Any, **kwargs: Any
) -> Generator[Mapping[str, Any], Any, Any]:
    """Yield the calls of ``way``, fsspec's from many names to many, that come to the same in order."""
    options = signature(way).bind(one, other, *args, **kwargs).arguments
    options |= options.pop("kwargs", {})
    source, target = list(options)[:2]
    lists = isinstance(one, list) and isinstance(other, list)
    alone = not options.get("recursive") and isinstance(one, (str, os.PathLike)) and not has_magic(str(one))
    if alone and not lists:
        return (yield options)
    pairs = list(zip(one, other, strict=False)) if lists else []
    heard = options.get("callback")
    if not lists:
        with rehearsal() as pairs:
            nothing = yield options if heard is None else {**options, "callback": DEFAULT_CALLBACK}
        if not pairs:
            return nothing
    ordered, series = ascending(pairs, lambda pair: pair[1], lambda name: _number_of(fs, name))
    in_order(series)
    is_copy = "on_error" in signature(way).parameters
    if is_copy and options.get("on_error") is None:
        options["on_error"] = "ignore" if options.get("recursive") else "raise"
    expanded = {key: each for key, each in options.items() if key not in {"recursive", "maxdepth"}}
    if heard is not None:
        heard.set_size(len(pairs))
        expanded["callback"] = _OfPart(heard)
    done: list[Any] = []
    for part in _in_parts(fs, ordered, series):
        some = {source: [pair[0] for pair in part], target: [pair[1] for pair in part]}
        done += (yield {**expanded, **some}) or []
    return done or None


def _number_of(fs: GuardedFileSystem, path: Any) -> tuple[Any, Any] | None:
    try:
        return place_of(fs.explain(path))
    except (TypeError, ValueError):
        return None  # it is refused when it is written


def _in_parts(
    fs: GuardedFileSystem, pairs: list[tuple[str, str]], series: list[list[str]]
) -> list[list[tuple[str, str]]]:
    """Part what is to be there first: a disk's folders, or files are skipped; then each series' first name.

    In a table that is there that is taken, and nothing is written over that nobody guards. The rest of the
    series comes last: a commit after its data, which a ledger would not take for one that is completed.
    """
    parents = {target.rstrip("/").rpartition("/")[0] for _, target in pairs}
    firsts = {names[0] for names in series}
    numbered = set(chain(*series))

    def part_of(target: str) -> int:
        if fs.mount.kind == "local" and target.rstrip("/") in parents:
            return 0
        if target in firsts:
            return 1
        return 3 if target in numbered else 2

    parts: list[list[tuple[str, str]]] = [[], [], [], []]
    for pair in pairs:
        parts[part_of(pair[1])].append(pair)
    return [part for part in parts if part] or [pairs]


class _OfPart(Callback):
    """What a callback hears of one part of a call, whose size as a whole it knows."""

    def __init__(self, whole: Callback) -> None:
        super().__init__()
        self._whole = whole

    def relative_update(self, inc: int = 1) -> None:
        self._whole.relative_update(inc)

    def branched(self, path_1: str, path_2: str, **kwargs: Any) -> Callback:
        return self._whole.branched(path_1, path_2, **kwargs)


def _stays(fs: GuardedFileSystem, path1: str, path2: str) -> bool:
    """Whether a name is moved to itself, or into the folder that it is in.

    fsspec's own compares how both are spelled, and would remove what it has copied onto itself.
    """
    paths = fs.mount.paths
    here = paths.full(path1)
    if paths.is_a_version(path1) or paths.full(path2) not in (here, here.rpartition("/")[0]):
        return False
    if not has_magic(path1):
        fs.info(path1)  # one that is not there is told
    return True


def _moved_to(fs: GuardedFileSystem, path1: str, path2: str) -> Name | None:
    """Return the guarded name that a file moved to ``path2`` would get, or None for another."""
    name: Name | None = fs.mount.walk(fs.guard.promoting(path2))
    if name is not None:
        return name
    inside = f"{path2.rstrip('/')}/{path1.rstrip('/').rpartition('/')[2]}"
    is_ours = fs.guard.has_a_word(fs.guard.classify(inside, explicit=False))
    return fs.mount.walk(fs.guard.promoting(inside)) if is_ours and fs.mount.fs.isdir(path2) else None


def _move_folder(fs: GuardedFileSystem, path1: str, path2: str) -> None:
    """Move all below a folder of a store that has none: most folders are no objects to be copied."""
    here, there = fs.mount.paths.full(path1), fs.mount.paths.full(path2)
    if there.startswith(f"{here}/"):
        raise OSError(errno.EINVAL, "a folder can't be moved into itself", there)
    names = fs.expand_path(path1, recursive=True)
    into = path2.endswith("/") or fs.isdir(path2)
    alone = len(names) == 1 if has_magic(path1) else into and not path1.endswith("/")
    moves = list(zip(names, other_paths(names, path2, exists=alone), strict=True))
    folders = {name[:end] for name in names for end, letter in enumerate(name) if letter == "/"}
    # A disk wants the folders first.
    order = ((False, "raise"), (True, "ignore"))
    for are_folders, on_error in reversed(order) if fs.mount.kind == "local" else order:
        chosen = [move for move in moves if (move[0].rstrip("/") in folders) is are_folders]
        if chosen:
            fs.copy([source for source, _ in chosen], [target for _, target in chosen], on_error=on_error)
    fs.rm(path1, recursive=True)


# --- a call, and the creations under way for it


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
    """Put the numbered names among ``items`` into ascending order, behind all others, which are their data.

    Of each item ``target_of`` says the name; ``number_of`` says a name's series and its number in it, None
    where it has none. Returned are the items, and the names of each series.
    """
    series: dict[Any, list[tuple[Any, int]]] = {}
    others = []
    for place, item in enumerate(items):
        found = number_of(target_of(item))
        if found is None:
            others.append(item)
        else:
            series.setdefault(found[0], []).append((found[1], place))
    ordered = [[items[place] for _, place in sorted(numbers)] for numbers in series.values()]
    return [*others, *chain(*ordered)], [list(map(target_of, each)) for each in ordered]


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
        # What is to follow a number of another's would go on with that one's table; and a source that is not
        # there is the caller's to skip.
        if not isinstance(error, FileNotFoundError):
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

    async def watched() -> Any:
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
