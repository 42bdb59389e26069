"""Many files by one call: fsspec's own ways, with numbered names in ascending order; folders that move.

What fsspec makes of folders, lists and patterns is known by a rehearsal: it calls a stand-in's methods for
single files, which note what they are called for. The creations are tasks of this module's own: whoever ends
a call, by the first error, by a cancellation or by an interrupt (Ctrl-C) of the thread that waits for it,
ends each of them, and hears what they know. Tasks of fsspec's would go on unseen, and the tokens of what they
may have created would be lost.

Numbered names come in ascending order, each after the one before it has ended: a later number that is there
first would make an earlier one look expired. So do the steps of a timeline, which its ledger takes in order.
What is not numbered comes before, but for each series' first name: a commit's data are there before it.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from glob import has_magic
from inspect import signature
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fsspec.asyn import AsyncFileSystem, _get_batch_size
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.spec import AbstractFileSystem
from fsspec.utils import other_paths

from putifabsent.backends.interrupt import done_or_undone
from putifabsent.errors import OutcomeUnknown, unknown_of
from putifabsent.fsspec_plugin.paths import refuse_pattern
from putifabsent.fsspec_plugin.steps import Either, Steps
from putifabsent.fsspec_plugin.telemetry import log
from putifabsent.shim.formats.hudi import step_of
from putifabsent.shim.names import Name, Role

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem

_STATES = ("requested", "inflight", "completed", "base", "log")

T = TypeVar("T")

# --- methods of the guarded filesystem's class


def pipe(fs: GuardedFileSystem, path: Any, value: Any = None, **kwargs: Any) -> Any:
    """Write bytes to files."""
    if fs._intrans or not fs.fs.async_impl:
        if isinstance(path, dict):
            others, series = _parted(fs, path)
            path = dict([*others, *chain(*series)])
        return AbstractFileSystem.pipe(fs, path, value, **kwargs)
    return waited_for(fs.loop, fs._pipe, path, value, **kwargs)


async def pipe_async(
    fs: GuardedFileSystem, path: Any, value: Any = None, batch_size: int | None = None, **kwargs: Any
) -> list[Any]:
    """:func:`pipe`, asynchronously."""
    at_once = batch_size or fs.batch_size or _get_batch_size(nofiles=True)

    async def piped(*items: tuple[Any, Any]) -> list[Any]:
        return [await fs._pipe_file(*each, **kwargs) for each in items]

    others, series = _parted(fs, {path: value} if isinstance(path, str) else path)
    done: list[Any] = []
    for part in ([[each] for each in others], series):
        done += chain(*await together([partial(piped, *each) for each in part], at_once))
    return done


def between(fs: GuardedFileSystem, method: str, *args: Any, **kwargs: Any) -> Steps[Any]:
    """Go fsspec's own way from many names to many (``put``, ``get``, ``copy``), those here in their order."""

    def called() -> Any:
        if fs.fs.async_impl and not (fs._intrans and method == "put"):
            return waited_for(fs.loop, awaited)
        many = _Many(fs, method, getattr(AbstractFileSystem, method), args, kwargs)
        done = many.rehearse()
        for pair in many.heard.wrap(list(chain(*chain(*many.parts())))):
            many.create(*pair)
        return done

    async def awaited() -> Any:
        way = getattr(AsyncFileSystem, f"_{method}")
        if method == "get" and fs.mount.kind != "local":  # what is there is nobody's name here
            return await way(fs, *args, **kwargs)
        many = _Many(fs, method, way, args, kwargs)
        done = await many.rehearse()
        for part in many.parts():
            creations = [partial(many.create_async, *pairs) for pairs in part]
            await together(creations, many.at_once, goes_on=many.is_copy)
        return done

    return (yield Either(called, awaited))


class _Many:
    """A call from many names to many, as fsspec's own ``way`` understands its arguments."""

    def __init__(
        self, fs: GuardedFileSystem, method: str, way: Callable[..., Any], args: Any, kwargs: Any
    ) -> None:
        self._fs, self.is_copy = fs, method == "copy"
        self._file = "cp_file" if self.is_copy else f"{method}_file"
        pairs: list[tuple[Any, Any]] = []

        def note(source: Any, target: Any, **_: Any) -> None:
            pairs.append((source, target))

        async def note_async(source: Any, target: Any, **_: Any) -> None:
            note(source, target)

        stand_in = object.__new__(type(fs))
        stand_in.__dict__.update(vars(fs), **{self._file: note, f"_{self._file}": note_async})
        self._pairs = pairs
        named = signature(way).bind(stand_in, *args, **kwargs).arguments
        self._more: dict[str, Any] = named.pop("kwargs", {})  # what each file's own method is told
        at_once = named.get("batch_size") or self._more.pop("batch_size", None) or fs.batch_size
        self.at_once: int = at_once or _get_batch_size(nofiles=self.is_copy)
        self.heard: Callback = named.pop("callback", DEFAULT_CALLBACK)
        self.rehearse = partial(way, **named, **self._more)
        on_error = named.get("on_error") or ("ignore" if named.get("recursive") else "raise")
        skips = on_error != "raise" if way is AbstractFileSystem.copy else on_error == "ignore"
        self._skips = (FileNotFoundError,) if self.is_copy and skips else ()

    def parts(self) -> tuple[list[list[tuple[Any, Any]]], ...]:
        """Part what is to be there first: a disk's folders, or files are skipped; then series' first names.

        A part has lists of what is created one after the other.

        In a table that is there those are taken, and nothing is written over that nobody guards. The rest of
        the series comes last: a commit after its data, or a ledger takes that for one that is completed.
        """
        pairs = self._pairs
        self.heard.set_size(len(pairs))
        is_disk = self._fs.mount.kind == "local"
        targets = [str(target).rstrip("/") for _, target in pairs]  # that may be a path, or an open file
        parents = {each.rpartition("/")[0] for each in targets} if is_disk else set()
        folders = [pair for pair, target in zip(pairs, targets, strict=True) if target in parents]
        files = [pair for pair, target in zip(pairs, targets, strict=True) if target not in parents]
        others, series = ascending(files, lambda pair: _number_of(self._fs, pair[1]))
        firsts, rests = [each[:1] for each in series], [each[1:] for each in series]
        return [[each] for each in folders], firsts, [[each] for each in others], rests

    def create(self, source: Any, target: Any) -> None:
        with self._options(source, target) as options:
            getattr(self._fs, self._file)(source, target, **options)

    async def create_async(self, *pairs: tuple[Any, Any]) -> None:
        for pair in pairs:
            try:
                with self._options(*pair) as options:
                    await getattr(self._fs, f"_{self._file}")(*pair, **options)
            finally:
                tell(self.heard.relative_update, pair[1])

    @contextmanager
    def _options(self, source: Any, target: Any) -> Iterator[dict[str, Any]]:
        """Give what goes with the creation of one file; of a copy, a source may be missing."""
        with suppress(*self._skips):
            if self.is_copy:
                yield self._more
            else:
                with self.heard.branched(source, target, **self._more) as child:
                    yield {**self._more, "callback": child}


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
    if both_plain and (mount.kind == "local" or not has_magic(path1)):  # where no path is a pattern
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


def _parted(fs: GuardedFileSystem, values: dict[Any, Any]) -> tuple[list[Any], list[list[Any]]]:
    return ascending(list(values.items()), lambda item: _number_of(fs, item[0]))


def _number_of(fs: GuardedFileSystem, path: Any) -> tuple[Any, Any] | None:
    try:
        return place_of(fs.explain(path))
    except (TypeError, ValueError):
        return None  # it is refused when it is written


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
    # On a disk the folder of a table that was removed stays: an arbiter keeps something in it.
    is_gone = fs.mount.has_folders and fs.mount.walk(fs.guard.reads.is_left(there))
    into = path2.endswith("/") or (fs.isdir(path2) and not is_gone)
    alone = len(names) == 1 if has_magic(path1) else into and not path1.endswith("/")
    moved: set[str] = set()
    # What others create there meanwhile goes along: what is removed at the end is all that is there.
    while not moved.issuperset(names):
        targets = other_paths(names, path2, exists=alone)
        _copy_below(fs, [move for move in zip(names, targets, strict=True) if move[0] not in moved])
        moved.update(names)
        if not has_magic(path1):  # of which others that match would change where each goes
            names = fs.expand_path(path1, recursive=True)
    fs.rm(path1, recursive=True)


def _copy_below(fs: GuardedFileSystem, moves: list[tuple[str, str]]) -> None:
    folders = {name[:end] for name, _ in moves for end, letter in enumerate(name) if letter == "/"}
    # A disk wants the folders first.
    order = ((False, "raise"), (True, "ignore"))
    for are_folders, on_error in reversed(order) if fs.mount.kind == "local" else order:
        chosen = [move for move in moves if (move[0].rstrip("/") in folders) is are_folders]
        if chosen:
            fs.copy([source for source, _ in chosen], [target for _, target in chosen], on_error=on_error)


# --- a call, and the creations under way for it


def tell(callback: Callable[[], object], path: Any) -> None:
    """Tell a callback what has become of a file; one that fails is logged, for it changes no decision."""
    try:
        callback()
    except Exception:  # noqa: BLE001 - whatever it is
        with suppress(Exception):  # of somebody's log
            log.warning("what has become of %r is decided, and then the callback failed", path, exc_info=True)


def place_of(name: Name) -> tuple[Any, Any] | None:
    """Return the series that a name belongs to, and its number there; a timeline's steps are one, too."""
    folder = name.path.rpartition("/")[0]
    if name.series is not None and name.guarded:
        return (folder, name.series.pattern), name.series.number
    step = step_of(name.path) if name.role is Role.INSTANT else None
    return step and (folder, (step.instant, _STATES.index(step.state)))


def ascending(
    items: Sequence[T], place_in: Callable[[T], tuple[Any, Any] | None]
) -> tuple[list[T], list[list[T]]]:
    """Return those of ``items`` that have no number; and each series of the others, in its order.

    ``place_in`` says an item's series and its number there; None: it has none.
    """
    series: dict[Any, list[tuple[Any, int]]] = {}
    others = list[T]()
    for index, item in enumerate(items):
        found = place_in(item)
        if found is None:
            others.append(item)
        else:
            series.setdefault(found[0], []).append((found[1], index))
    return others, [[items[index] for _, index in sorted(numbers)] for numbers in series.values()]


async def together(
    creations: Sequence[Callable[[], Awaitable[T]]], most: int, *, goes_on: bool = False
) -> list[T]:
    """Await creations, so many at a time (-1: all); their error carries the unknown outcomes of all.

    The first one that fails ends the others, unless it ``goes_on``: then each is tried.
    """
    unknown: list[OutcomeUnknown] = []
    done: dict[int, T] = {}
    failed: dict[int, Exception] = {}
    todo = enumerate(creations)

    async def create() -> None:
        for place, each in todo:
            try:
                done[place] = await each()
            except BaseException as error:
                unknown.extend(filter(None, [unknown_of(error)]))
                if not (goes_on and isinstance(error, Exception)):
                    raise
                failed[place] = error

    count = len(creations)
    tasks = [asyncio.ensure_future(create()) for _ in range(count if most == -1 else min(most, count))]
    try:
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for ended in filter(asyncio.Future.done, tasks):
            ended.result()
    except BaseException as error:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        _hang_on(error, unknown)
        raise
    if failed:
        first = failed[min(failed)]
        _hang_on(first, unknown)
        raise first
    return [done[place] for place in sorted(done)]


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
