"""Writing: every way to bring a file into being leads to a creation, or on to the wrapped filesystem.

===========================  ======================================================
``pipe_file``, ``pipe``      create from bytes
``put_file``, ``put``        create from a local file
``cp_file``, ``copy``        create from another object
``mv``                       create from another object, which goes after a win
``touch``                    create an empty file
``open`` for writing         create when the file is closed (``filesystem.py``)
``rm`` and its kin           deleting frees a name (``removals.py``)
===========================  ======================================================
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import shutil
from functools import partial
from glob import has_magic
from inspect import signature
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem
from fsspec.utils import other_paths

from putifabsent.backends.base import Found
from putifabsent.backends.body import InMemory
from putifabsent.backends.streaming_upload import FileBody
from putifabsent.fsspec_plugin.bulk import (
    ascending,
    in_order,
    one_of_many,
    one_of_many_async,
    place_of,
    rehearsal,
    together,
)
from putifabsent.fsspec_plugin.delegation import called_as_wrapped
from putifabsent.fsspec_plugin.names import JUDGED
from putifabsent.fsspec_plugin.paths import each_of
from putifabsent.fsspec_plugin.reads import hide
from putifabsent.fsspec_plugin.strict import Strict
from putifabsent.shim.drive import walk, walk_async
from putifabsent.shim.formats.hudi_ledger import may_show_instants

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from fsspec.callbacks import Callback

    from putifabsent.shim.names import Name

__all__ = ["WritesByName"]

_EMPTY = InMemory(b"")


class WritesByName(Strict):
    """Promotes writes to creates, by name."""

    # Names

    def _classify(self, path: Any, *, explicit: bool) -> Name:
        plain = self._without_version(path)
        name = super()._classify(plain, explicit=explicit)
        if plain is not path and (explicit or name.guarded or name.role in JUDGED):
            msg = f"{path!s} names one version of {plain}: a version can't be written. Say the name alone"
            raise ValueError(msg)
        return name

    def _full_name(self, path: Any) -> str:
        return super()._full_name(self._without_version(path))

    def _is_a_version(self, path: Any) -> bool:
        return self._without_version(path) is not path

    def _without_version(self, path: Any) -> Any:
        """Return ``path`` itself, unless the wrapped filesystem writes another name: what it cuts is gone."""
        said = path if isinstance(path, str) else str(path)
        if not ("?" in said or "#" in said) or self._has_folders:
            return path
        stripped = self._strip_protocol(path).lstrip("/")
        bucket, key, _ = self.fs.split_path(stripped)
        plain = stripped[: len(bucket) + 1 + len(key)]
        return path if plain == stripped or not key else plain

    def _source(self, path: Any, name: Name) -> str:
        """Return the full name of what ``name`` is to be created from."""
        if self._intrans:
            msg = f"{name.path} is guarded: a transaction defers what is written, but no copies and no moves"
            raise io.UnsupportedOperation(msg)
        if not self._has_folders:
            if self._is_a_version(path):
                msg = f"{path!s} names one version: read it and write the bytes to {name.path}"
                raise ValueError(msg)
            self._check_path(path, self._strip_protocol(path))
        return self._full_name(path)

    # One file

    @called_as_wrapped(2)
    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> Any:
        """Write bytes. ``mode="create"`` creates on every name."""
        if (name := self._promote(path, explicit=_creates(mode))) is None:
            return self.fs.pipe_file(self._written_as(path), value, **kwargs)
        if self._intrans:
            with self.open(path, "xb", **kwargs) as file:
                file.write(value)
            return None
        return self._create(name, InMemory(value), kwargs)

    @called_as_wrapped(2)
    @one_of_many_async(0)
    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> Any:
        name = await self._promote_async(path, explicit=_creates(mode))
        if name is None:
            return await self._call("pipe_file", self._written_as(path), value, **kwargs)
        if self._intrans:
            return await asyncio.to_thread(self.pipe_file, path, value, mode=mode, **kwargs)
        return await self._create_async(name, InMemory(value), kwargs)

    @called_as_wrapped(2)
    @one_of_many
    def put_file(
        self,
        lpath: Any,
        rpath: str,
        callback: Callback = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **kwargs: Any,
    ) -> Any:
        """Upload a local file. ``mode="create"`` creates on every name."""
        name = None
        # What is not there is told before a ledger is asked, which may take an instant over.
        if not S_ISDIR(Path(lpath).stat().st_mode):
            name = self._promote(rpath, explicit=_creates(mode))
        if name is None:
            return self.fs.put_file(lpath, self._written_as(rpath), callback=callback, **kwargs)
        with Path(lpath).open("rb") as file:
            body = FileBody(file)
            callback.set_size(body.size)
            if self._intrans:
                with self.open(rpath, "xb", **kwargs) as deferred:
                    shutil.copyfileobj(file, deferred)
            else:
                self._create(name, body, kwargs)
        return callback.absolute_update(body.size)

    @called_as_wrapped(2)
    @one_of_many_async(1)
    async def _put_file(
        self,
        lpath: Any,
        rpath: str,
        callback: Callback = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **kwargs: Any,
    ) -> Any:
        name = None
        if not S_ISDIR((await asyncio.to_thread(Path(lpath).stat)).st_mode):
            name = await self._promote_async(rpath, explicit=_creates(mode))
        if name is None:
            return await self._call("put_file", lpath, self._written_as(rpath), callback=callback, **kwargs)
        if self._intrans:
            return await asyncio.to_thread(
                self.put_file, lpath, rpath, callback=callback, mode=mode, **kwargs
            )
        with Path(lpath).open("rb") as file:  # noqa: ASYNC230 - opening is quick; reading is in threads
            body = FileBody(file)
            callback.set_size(body.size)
            await self._create_async(name, body, kwargs)
        return callback.absolute_update(body.size)

    @called_as_wrapped(2)
    @one_of_many
    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> Any:
        """Copy a file within the store."""
        name = self._promote(path2, explicit=False)
        if name is not None:
            try:
                return self._from(self._source(path1, name), name, kwargs, keep=True)
            except (FileNotFoundError, IsADirectoryError):
                # An object store's folder may be an object, too: its own copy would put that over the name.
                if not self._has_folders or not self.fs.isdir(self._own(path1)):
                    raise
        return self._read("cp_file", path1, self._written_as(path2), **kwargs)

    @called_as_wrapped(2)
    @one_of_many_async(1)
    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> Any:
        name = await self._promote_async(path2, explicit=False)
        if name is not None:
            try:
                return await self._from_async(self._source(path1, name), name, kwargs, keep=True)
            except (FileNotFoundError, IsADirectoryError):
                if not self._has_folders or not await self._call("isdir", self._own(path1)):
                    raise
        return await self._read_async("cp_file", path1, self._written_as(path2), **kwargs)

    async def _mv_file(self, path1: str, path2: str, **kwargs: Any) -> Any:
        name = await self._promote_async(path2, explicit=False)
        if name is not None:
            return await self._from_async(self._source(path1, name), name, kwargs, keep=False)
        if self._arbiter is not None or self._salts or self._is_judged(self.explain(path1)):
            await self._cp_file(path1, path2)
            return await self._rm_file(path1)
        if self.fs.async_impl:
            return await self.fs._mv_file(self._own(path1), self._own(path2), **kwargs)
        return await asyncio.to_thread(self.mv, path1, path2, **kwargs)

    @called_as_wrapped(1)
    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> Any:
        """Create an empty file, or, with ``truncate=False``, mark one as modified, where a store can.

        Raises
        ------
        NameTaken
            The name is guarded and there, and ``truncate`` asks to empty it.
        io.UnsupportedOperation
            It is guarded and there, and to mark it as modified the store would want it written again.
        """
        name = self._promote(path, explicit=False)
        if name is None:
            return self.fs.touch(self._written_as(path), truncate=truncate, **kwargs)
        if not truncate and self._marked(name):
            return None
        if self._intrans:
            return self.pipe_file(path, b"", **kwargs)
        return self._create(name, _EMPTY, kwargs)

    @called_as_wrapped(1)
    async def _touch(self, path: str, truncate: bool = True, **kwargs: Any) -> Any:
        name = await self._promote_async(path, explicit=False)
        if name is None:
            return await self._call("touch", self._written_as(path), truncate=truncate, **kwargs)
        if not truncate and await asyncio.to_thread(self._marked, name):
            return None
        return await self._pipe_file(path, b"", **kwargs)

    def _marked(self, name: Name) -> bool:
        """Mark a guarded name as modified; False where it is not there."""
        if self._arbiter is not None and not self.exists(name.path):
            return False
        if self._kind == "local":
            try:
                os.utime(name.path)
            except FileNotFoundError:
                return False
            return True
        if self._arbiter is not None or isinstance(self.backend.head(name.path), Found):
            msg = f"{name.path} is guarded: to mark it as modified, {self._kind} wants it written again"
            raise io.UnsupportedOperation(msg)
        return False

    # Many files: fsspec's own ways over the methods above, in the wrapped filesystem's colour

    @called_as_wrapped(1)
    def pipe(self, path: Any, value: Any = None, **kwargs: Any) -> Any:
        """Write bytes to files."""
        if self._intrans:  # one after the other: they are created in the order of writing
            return AbstractFileSystem.pipe(self, self._sorted(path)[0], value, **kwargs)
        if not self.fs.async_impl:
            path, _ = self._sorted(path)
        return self._in_bulk("pipe", path, value, **kwargs)

    async def _pipe(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        whole = super()._pipe

        async def piped() -> Any:
            values, series = self._sorted(path)
            in_order(series)
            return await whole(values, *args, **kwargs)

        return await together(piped())

    def _sorted(self, path: Any) -> tuple[Any, list[list[str]]]:
        """Put what is to be piped into order: a dictionary of bytes by names; a single name is as it is."""
        if not isinstance(path, dict):
            return path, []
        items, series = ascending(list(path.items()), lambda item: item[0], self._number_of)
        return dict(items), series

    def _number_of(self, path: Any) -> tuple[Any, Any] | None:
        try:
            return place_of(self.explain(path))
        except (TypeError, ValueError):
            return None  # it is refused when it is written

    def _calls_in_order(
        self, way: Callable[..., Any], one: Any, other: Any, *args: Any, **kwargs: Any
    ) -> Generator[Mapping[str, Any], Any, Any]:
        """Yield the calls of ``way``, fsspec's from many names to many, that come to the same in order."""
        options = signature(way).bind(one, other, *args, **kwargs).arguments
        options |= options.pop("kwargs", {})
        source, target = list(options)[:2]
        lists = isinstance(one, list) and isinstance(other, list)
        alone = (
            not options.get("recursive") and isinstance(one, (str, os.PathLike)) and not has_magic(str(one))
        )
        if alone and not lists:
            return (yield options)
        pairs = list(zip(one, other, strict=False)) if lists else []
        if not lists:
            with rehearsal() as pairs:
                nothing = yield {
                    **options,
                    **({"callback": DEFAULT_CALLBACK} if "callback" in options else {}),
                }
            if not pairs:
                return nothing
        ordered, series = ascending(pairs, lambda pair: pair[1], self._number_of)
        in_order(series)
        is_copy = "on_error" in signature(way).parameters
        if is_copy and options.get("on_error") is None:
            options["on_error"] = "ignore" if options.get("recursive") else "raise"
        expanded = {key: each for key, each in options.items() if key not in {"recursive", "maxdepth"}}
        done = None
        for part in self._folders_first(ordered) if is_copy and not lists else [ordered]:
            done = yield {**expanded, source: [pair[0] for pair in part], target: [pair[1] for pair in part]}
        return done

    def _folders_first(self, pairs: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
        """Part what a disk wants to be there before its files: without a folder, those would be skipped."""
        parents = {target.rstrip("/").rpartition("/")[0] for _, target in pairs}
        folders: list[tuple[str, str]] = []
        others: list[tuple[str, str]] = []
        for pair in pairs:
            is_folder = self._kind == "local" and pair[1].rstrip("/") in parents
            (folders if is_folder else others).append(pair)
        return [part for part in (folders, others) if part]

    def _walk_in_order(self, method: str, *args: Any, **kwargs: Any) -> Any:
        way = partial(getattr(AbstractFileSystem, method), self)
        return walk(self._calls_in_order(way, *args, **kwargs), lambda options: way(**options))

    async def _walk_in_order_async(self, way: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await together(
            walk_async(self._calls_in_order(way, *args, **kwargs), lambda options: way(**options))
        )

    def _many(self, method: str, *args: Any, **kwargs: Any) -> Any:
        if self.fs.async_impl:
            return self._in_bulk(method, *args, **kwargs)
        return self._walk_in_order(method, *args, **kwargs)

    def put(self, lpath: Any, rpath: Any, *args: Any, **kwargs: Any) -> Any:
        """Upload local files and folders."""
        if self._intrans:
            kwargs.pop("batch_size", None)
            return self._walk_in_order("put", lpath, self._own(rpath), *args, **kwargs)
        return self._many("put", lpath, self._own(rpath), *args, **kwargs)

    async def _put(self, *args: Any, **kwargs: Any) -> Any:
        return await self._walk_in_order_async(super()._put, *args, **kwargs)

    def get(self, rpath: Any, lpath: Any, *args: Any, **kwargs: Any) -> Any:
        """Download files and folders."""
        return self._many("get", self._own(rpath), lpath, *args, **kwargs)

    async def _get(self, *args: Any, **kwargs: Any) -> Any:
        if self._kind != "local":  # what is there is nobody's name here
            return await super()._get(*args, **kwargs)
        return await self._walk_in_order_async(super()._get, *args, **kwargs)

    def copy(self, path1: Any, path2: Any, *args: Any, **kwargs: Any) -> Any:
        """Copy files and folders within the store."""
        return self._many("copy", self._own(path1), self._own(path2), *args, **kwargs)

    async def _copy(self, *args: Any, **kwargs: Any) -> Any:
        return await self._walk_in_order_async(super()._copy, *args, **kwargs)

    def expand_path(self, path: Any, *args: Any, **kwargs: Any) -> list[str]:
        """Turn patterns and folders into names."""
        path = self._own(path)
        names: list[str]
        if self._expands_plainly(path):
            names = hide(self.fs.expand_path(path, *args, **kwargs), str(path))
            if not any(map(may_show_instants, names)):
                return names
        names = self._in_bulk("expand_path", path, *args, **kwargs)
        return names

    async def _expand_path(self, path: Any, *args: Any, **kwargs: Any) -> list[str]:
        path = self._own(path)
        names: list[str]
        if self._expands_plainly(path):
            names = hide(await self._call("expand_path", path, *args, **kwargs), str(path))
            if not any(map(may_show_instants, names)):
                return names
        names = await super()._expand_path(path, *args, **kwargs)
        return names

    def _expands_plainly(self, path: Any) -> bool:
        # A version is cut from its name by some, and what is found is the newest one.
        return self._reads_plainly(path) and not any(map(self._is_a_version, each_of(path)))

    def du(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Return the size of all files below a folder, in bytes."""
        return self._in_bulk("du", self._own(path), *args, **kwargs)

    def mv(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Rename files; each guarded target is created, then its source goes.

        A folder on local disk is renamed as a whole, which never replaces anything.
        """
        path1, path2 = self._own(path1), self._own(path2)
        # Where an arbiter knows names by their place, or a session by its salt, no folder moves as a whole.
        both_plain = isinstance(path1, str) and isinstance(path2, str)
        on_disk = self._kind == "local" and self._arbiter is None and not self._salts
        if both_plain and on_disk:
            on_disk = not self._is_judged(self.explain(path1))  # its ledger must hear of it
        if both_plain and (on_disk or not has_magic(path1)):
            name = self._moved_to(path1, path2)
            # A link to a folder is no folder: it would replace a file.
            if name is not None and not (on_disk and self.fs.isdir(path1) and not self.fs.islink(path1)):
                return self._from(self._source(path1, name), name, kwargs, keep=False)
            if on_disk:
                return self.fs.mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
        # fsspec's own fails on the folders of a store that has none.
        moves_folders = not self._has_folders or type(self.fs).mv is not AbstractFileSystem.mv
        if both_plain and recursive and maxdepth is None and moves_folders:
            return self._move_folder(path1, path2)
        return AbstractFileSystem.mv(self, path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)

    def _moved_to(self, path1: str, path2: str) -> Name | None:
        """Return the guarded name that a file moved to ``path2`` would get, or None for another."""
        if (name := self._promote(path2, explicit=False)) is not None:
            return name
        inside = f"{path2.rstrip('/')}/{path1.rstrip('/').rpartition('/')[2]}"
        name = self._classify(inside, explicit=False)
        if not (name.guarded or name.role in JUDGED) or not self.fs.isdir(path2):
            return None
        return self._promote(inside, explicit=False)

    def _move_folder(self, path1: str, path2: str) -> None:
        """Move all below a folder of a store that has none: most folders are no objects to be copied."""
        here, there = self._full_name(path1), self._full_name(path2)
        if there == here:
            return
        if there.startswith(f"{here}/"):
            raise OSError(errno.EINVAL, "a folder can't be moved into itself", there)
        names = self.expand_path(path1, recursive=True)
        into = path2.endswith("/") or self.isdir(path2)
        alone = len(names) == 1 if has_magic(path1) else into and not path1.endswith("/")
        moves = list(zip(names, other_paths(names, path2, exists=alone), strict=True))
        folders = {name[:end] for name in names for end, letter in enumerate(name) if letter == "/"}
        # A disk wants the folders first.
        order = ((False, "raise"), (True, "ignore"))
        for are_folders, on_error in reversed(order) if self._kind == "local" else order:
            chosen = [move for move in moves if (move[0].rstrip("/") in folders) is are_folders]
            if chosen:
                self.copy(
                    [source for source, _ in chosen], [target for _, target in chosen], on_error=on_error
                )
        self.rm(path1, recursive=True)

    # Folders: the wrapped filesystem's

    @called_as_wrapped(1)
    def rmdir(self, path: str, **kwargs: Any) -> Any:
        """Remove an empty folder."""
        return self.fs.rmdir(self._own(path), **kwargs)

    @called_as_wrapped(1)
    async def _rmdir(self, path: str, **kwargs: Any) -> Any:
        return await self._call("rmdir", self._own(path), **kwargs)

    def mkdir(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Make a folder."""
        return self.fs.mkdir(self._own(path), *args, **kwargs)

    async def _mkdir(self, path: str, *args: Any, **kwargs: Any) -> Any:
        return await self._call("mkdir", self._own(path), *args, **kwargs)

    def makedir(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Make a folder, as the wrapped filesystem has it."""
        return self.fs.makedir(self._own(path), *args, **kwargs)

    def makedirs(self, path: str, exist_ok: bool = False) -> Any:
        """Make a folder and its parents."""
        return self.fs.makedirs(self._own(path), exist_ok=exist_ok)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> Any:
        return await self._call("makedirs", self._own(path), exist_ok=exist_ok)


def _creates(mode: str) -> bool:
    if mode not in ("create", "overwrite"):
        msg = f"mode must be 'create' or 'overwrite', not {mode!r}"
        raise ValueError(msg)
    return mode == "create"
