"""Writing: every way to bring a file into being leads to a creation, or on to the wrapped filesystem.

===========================  ======================================================
``pipe_file``, ``pipe``      create from bytes
``put_file``, ``put``        create from a local file
``cp_file``, ``copy``        create from another object
``mv``                       create from another object, which goes after a win
``touch``                    create an empty file
``open`` for writing         create when the file is closed (``filesystem.py``)
``rm`` and its kin           the wrapped filesystem's: deleting frees a name
===========================  ======================================================
"""

from __future__ import annotations

import asyncio
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem

from putifabsent.backends.body import FileBody, InMemory
from putifabsent.fsspec_plugin.bulk import together, waited_for
from putifabsent.fsspec_plugin.creations import Creations

if TYPE_CHECKING:
    from fsspec.callbacks import Callback

__all__ = ["WritesByName"]

_EMPTY = InMemory(b"")


class WritesByName(Creations):
    """Promotes writes to creates, by name."""

    # One file

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> Any:
        """Write bytes. ``mode="create"`` creates on every name."""
        if (name := self._promote(path, explicit=mode == "create")) is None:
            return self.fs.pipe_file(self._own(path), value, **kwargs)
        if self._intrans:
            with self.open(path, "xb", **kwargs) as file:
                file.write(value)
            return None
        return self._create(name, InMemory(value), kwargs)

    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> Any:
        name = await self._promote_async(path, explicit=mode == "create")
        if name is None:
            return await self._call("pipe_file", self._own(path), value, **kwargs)
        return await self._create_async(name, InMemory(value), kwargs)

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
        if not Path(lpath).is_dir():
            name = self._promote(rpath, explicit=mode == "create")
        if name is None:
            return self.fs.put_file(lpath, self._own(rpath), callback=callback, **kwargs)
        with Path(lpath).open("rb") as file:
            body = FileBody(file)
            callback.set_size(body.size)
            self._create(name, body, kwargs)
        return callback.absolute_update(body.size)

    async def _put_file(
        self,
        lpath: Any,
        rpath: str,
        callback: Callback = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **kwargs: Any,
    ) -> Any:
        name = None
        if not await asyncio.to_thread(Path(lpath).is_dir):
            name = await self._promote_async(rpath, explicit=mode == "create")
        if name is None:
            return await self._call("put_file", lpath, self._own(rpath), callback=callback, **kwargs)
        with Path(lpath).open("rb") as file:  # noqa: ASYNC230 - opening is quick; reading is in threads
            body = FileBody(file)
            callback.set_size(body.size)
            await self._create_async(name, body, kwargs)
        return callback.absolute_update(body.size)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> Any:
        """Copy a file within the store."""
        name = self._promote(path2, explicit=False)
        if name is not None:
            try:
                return self._from(self._full_name(path1), name, kwargs, keep=True)
            except (FileNotFoundError, IsADirectoryError):
                if not self.fs.isdir(self._own(path1)):
                    raise
        return self.fs.cp_file(self._own(path1), self._own(path2), **kwargs)

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> Any:
        name = await self._promote_async(path2, explicit=False)
        if name is not None:
            try:
                return await self._from_async(self._full_name(path1), name, kwargs, keep=True)
            except (FileNotFoundError, IsADirectoryError):
                if not await self._call("isdir", self._own(path1)):
                    raise
        return await self._call("cp_file", self._own(path1), self._own(path2), **kwargs)

    async def _mv_file(self, path1: str, path2: str, **kwargs: Any) -> Any:
        name = await self._promote_async(path2, explicit=False)
        if name is not None:
            return await self._from_async(self._full_name(path1), name, kwargs, keep=False)
        if self.fs.async_impl:
            return await self.fs._mv_file(self._own(path1), self._own(path2), **kwargs)
        return await asyncio.to_thread(self.fs.mv, self._own(path1), self._own(path2), **kwargs)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> Any:
        """Create an empty file, or, with ``truncate=False``, mark one as modified."""
        name = self._promote(path, explicit=False)
        if name is None or (not truncate and self.exists(path)):
            return self.fs.touch(self._own(path), truncate=truncate, **kwargs)
        return self._create(name, _EMPTY, kwargs)

    async def _touch(self, path: str, truncate: bool = True, **kwargs: Any) -> Any:
        name = await self._promote_async(path, explicit=False)
        if name is None or (not truncate and await self._exists(path)):
            return await self._call("touch", self._own(path), truncate=truncate, **kwargs)
        return await self._create_async(name, _EMPTY, kwargs)

    # Many files: fsspec's own ways over the methods above, in the wrapped filesystem's colour

    def pipe(self, path: Any, value: Any = None, **kwargs: Any) -> Any:
        """Write bytes to files."""
        return self._in_bulk("pipe", path, value, **kwargs)

    async def _pipe(self, *args: Any, **kwargs: Any) -> Any:
        return await together(super()._pipe(*args, **kwargs))

    def put(self, lpath: Any, rpath: Any, *args: Any, **kwargs: Any) -> Any:
        """Upload local files and folders."""
        return self._in_bulk("put", lpath, self._own(rpath), *args, **kwargs)

    async def _put(self, *args: Any, **kwargs: Any) -> Any:
        return await together(super()._put(*args, **kwargs))

    def get(self, rpath: Any, lpath: Any, *args: Any, **kwargs: Any) -> Any:
        """Download files and folders."""
        return self._in_bulk("get", self._own(rpath), lpath, *args, **kwargs)

    def copy(self, path1: Any, path2: Any, *args: Any, **kwargs: Any) -> Any:
        """Copy files and folders within the store."""
        return self._in_bulk("copy", self._own(path1), self._own(path2), *args, **kwargs)

    async def _copy(self, *args: Any, **kwargs: Any) -> Any:
        return await together(super()._copy(*args, **kwargs))

    def expand_path(self, path: Any, *args: Any, **kwargs: Any) -> list[str]:
        """Turn patterns and folders into names."""
        names: list[str] = self._in_bulk("expand_path", self._own(path), *args, **kwargs)
        return names

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
        """Rename files; each guarded target is created, then its source goes."""
        path1, path2 = self._own(path1), self._own(path2)
        if isinstance(path1, str) and isinstance(path2, str) and not has_magic(path1):
            inside = f"{path2.rstrip('/')}/{path1.rstrip('/').rpartition('/')[2]}"
            for target in (path2, inside):
                name = self._promote(target, explicit=False)
                if name is not None and (target is path2 or self.fs.isdir(path2)):
                    return self._from(self._full_name(path1), name, kwargs, keep=False)
        if type(self.fs).mv is AbstractFileSystem.mv or not isinstance(path1, str):
            return AbstractFileSystem.mv(self, path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
        return self.fs.mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)

    def _in_bulk(self, method: str, *args: Any, **kwargs: Any) -> Any:
        if self.fs.async_impl:
            return waited_for(self.loop, getattr(self, f"_{method}"), *args, **kwargs)
        return getattr(AbstractFileSystem, method)(self, *args, **kwargs)

    # Folders, and what ends a name: the wrapped filesystem's

    def rm(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Remove files and folders. A removed name is free again."""
        return self.fs.rm(self._own(path), *args, **kwargs)

    async def _rm(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._call("rm", self._own(path), *args, **kwargs)

    def rm_file(self, path: str, **kwargs: Any) -> Any:
        """Remove a file."""
        return self.fs.rm_file(self._own(path), **kwargs)

    async def _rm_file(self, path: str, **kwargs: Any) -> Any:
        return await self._call("rm_file", self._own(path), **kwargs)

    def rmdir(self, path: str, **kwargs: Any) -> Any:
        """Remove an empty folder."""
        return self.fs.rmdir(self._own(path), **kwargs)

    async def _rmdir(self, path: str, **kwargs: Any) -> Any:
        return await self._call("rmdir", self._own(path), **kwargs)

    def mkdir(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Make a folder."""
        return self.fs.mkdir(self._own(path), *args, **kwargs)

    async def _mkdir(self, path: str, *args: Any, **kwargs: Any) -> Any:
        return await self._call("mkdir", self._own(path), *args, **kwargs)

    def makedirs(self, path: str, exist_ok: bool = False) -> Any:
        """Make a folder and its parents."""
        return self.fs.makedirs(self._own(path), exist_ok=exist_ok)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> Any:
        return await self._call("makedirs", self._own(path), exist_ok=exist_ok)
