"""Many files by one call: fsspec's own ways, with numbered names in ascending order; folders that move.

Each of the first functions is a method of the guarded filesystem's class.
What fsspec makes of folders and patterns is known by a rehearsal: see :mod:`putifabsent.fsspec_plugin.bulk`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Mapping
from functools import partial
from glob import has_magic
from inspect import signature
from typing import TYPE_CHECKING, Any

from fsspec.asyn import AsyncFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem
from fsspec.utils import other_paths

from putifabsent.fsspec_plugin.bulk import ascending, in_order, place_of, rehearsal, together, waited_for
from putifabsent.fsspec_plugin.paths import refuse_pattern
from putifabsent.shim.drive import walk, walk_async

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
    from putifabsent.shim.names import Name


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


def _called(fs: GuardedFileSystem, method: str, *args: Any, **kwargs: Any) -> Any:
    if fs.fs.async_impl and not (fs._intrans and method == "put"):
        return waited_for(fs.loop, getattr(fs, f"_{method}"), *args, **kwargs)
    way = partial(getattr(AbstractFileSystem, method), fs)
    return walk(_calls_in_order(fs, way, *args, **kwargs), lambda options: way(**options))


async def _awaited(fs: GuardedFileSystem, method: str, *args: Any, **kwargs: Any) -> Any:
    way = partial(getattr(AsyncFileSystem, f"_{method}"), fs)
    return await together(
        walk_async(_calls_in_order(fs, way, *args, **kwargs), lambda options: way(**options))
    )


def put(fs: GuardedFileSystem, lpath: Any, rpath: Any, *args: Any, **kwargs: Any) -> Any:
    """Upload local files and folders."""
    if fs._intrans:
        kwargs.pop("batch_size", None)
    return _called(fs, "put", lpath, fs._own(rpath), *args, **kwargs)


async def put_async(fs: GuardedFileSystem, *args: Any, **kwargs: Any) -> Any:
    """:func:`put`, asynchronously."""
    return await _awaited(fs, "put", *args, **kwargs)


def get(fs: GuardedFileSystem, rpath: Any, lpath: Any, *args: Any, **kwargs: Any) -> Any:
    """Download files and folders."""
    return _called(fs, "get", fs._own(rpath), lpath, *args, **kwargs)


async def get_async(fs: GuardedFileSystem, *args: Any, **kwargs: Any) -> Any:
    """:func:`get`, asynchronously."""
    if fs.mount.kind != "local":  # what is there is nobody's name here
        return await AsyncFileSystem._get(fs, *args, **kwargs)
    return await _awaited(fs, "get", *args, **kwargs)


def copy(fs: GuardedFileSystem, path1: Any, path2: Any, *args: Any, **kwargs: Any) -> Any:
    """Copy files and folders within the store."""
    return _called(fs, "copy", fs._own(path1), fs._own(path2), *args, **kwargs)


async def copy_async(fs: GuardedFileSystem, *args: Any, **kwargs: Any) -> Any:
    """:func:`copy`, asynchronously."""
    return await _awaited(fs, "copy", *args, **kwargs)


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
    # fsspec's own fails on the folders of a store that has none.
    moves_folders = not mount.has_folders or type(mount.fs).mv is not AbstractFileSystem.mv
    if both_plain and recursive and maxdepth is None and moves_folders:
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
    if not lists:
        with rehearsal() as pairs:
            nothing = yield {**options, **({"callback": DEFAULT_CALLBACK} if "callback" in options else {})}
        if not pairs:
            return nothing
    ordered, series = ascending(pairs, lambda pair: pair[1], lambda name: _number_of(fs, name))
    in_order(series)
    is_copy = "on_error" in signature(way).parameters
    if is_copy and options.get("on_error") is None:
        options["on_error"] = "ignore" if options.get("recursive") else "raise"
    expanded = {key: each for key, each in options.items() if key not in {"recursive", "maxdepth"}}
    done = None
    for part in _folders_first(fs, ordered) if is_copy and not lists else [ordered]:
        done = yield {**expanded, source: [pair[0] for pair in part], target: [pair[1] for pair in part]}
    return done


def _number_of(fs: GuardedFileSystem, path: Any) -> tuple[Any, Any] | None:
    try:
        return place_of(fs.explain(path))
    except (TypeError, ValueError):
        return None  # it is refused when it is written


def _folders_first(fs: GuardedFileSystem, pairs: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Part what a disk wants to be there before its files: without a folder, those would be skipped."""
    parents = {target.rstrip("/").rpartition("/")[0] for _, target in pairs}
    folders: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for pair in pairs:
        is_folder = fs.mount.kind == "local" and pair[1].rstrip("/") in parents
        (folders if is_folder else others).append(pair)
    return [part for part in (folders, others) if part]


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
