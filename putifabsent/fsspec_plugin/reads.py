"""Reading: the wrapped filesystem's own methods, in both colours. Only the shim's own folder is hidden."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem
from fsspec.utils import isfilelike

from putifabsent.backends.base import STATE_FOLDER
from putifabsent.fsspec_plugin.bulk import one_of_many, one_of_many_async, waited_for
from putifabsent.fsspec_plugin.delegation import called_as_wrapped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

__all__ = ["ReadsThrough", "hide", "is_state"]

_INSIDE = f"/{STATE_FOLDER}/"
_ITSELF = f"/{STATE_FOLDER}"


def hide(found: Any, path: str) -> Any:
    """Drop the shim's own names from a listing of ``path``, unless it is them that were asked for.

    Parameters
    ----------
    found
        What the wrapped filesystem listed: names, details, or details by name.
    path
        The folder or pattern that was listed.
    """
    if STATE_FOLDER in path:
        return found
    if isinstance(found, dict):
        return {name: detail for name, detail in found.items() if not is_state(name)}
    return [one for one in found if not is_state(one if isinstance(one, str) else one["name"])]


def is_state(name: str) -> bool:
    """Whether a full name is the shim's own."""
    return _ITSELF in name and (name.endswith(_ITSELF) or _INSIDE in name)


class ReadsThrough(AsyncFileSystem):
    """Delegates every read to ``self.fs``."""

    _kind: str

    @property
    def fs(self) -> AbstractFileSystem:
        """The wrapped filesystem."""
        raise NotImplementedError

    def _own(self, path: Any) -> Any:
        """Return paths without this filesystem's own protocol; the wrapped one does the rest."""
        raise NotImplementedError

    def _in_bulk(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run fsspec's own way over this filesystem's methods, in the wrapped one's colour."""
        if self.fs.async_impl:
            return waited_for(self.loop, getattr(self, f"_{method}"), *args, **kwargs)
        return getattr(AbstractFileSystem, method)(self, *args, **kwargs)

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Await a method of the wrapped filesystem, which may have only a synchronous one."""
        if self.fs.async_impl:
            return await getattr(self.fs, f"_{method}")(*args, **kwargs)
        return await asyncio.to_thread(getattr(self.fs, method), *args, **kwargs)

    # Listings

    def ls(self, path: str, *args: Any, **kwargs: Any) -> list[Any]:
        """List a folder: in detail or not, as the wrapped filesystem has it where nothing is said."""
        path = self._own(path)
        return cast("list[Any]", hide(self.fs.ls(path, *args, **kwargs), path))

    async def _ls(self, path: str, *args: Any, **kwargs: Any) -> list[Any]:
        path = self._own(path)
        return cast("list[Any]", hide(await self._call("ls", path, *args, **kwargs), path))

    def find(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """List all files below a folder."""
        path = self._own(path)
        return hide(self.fs.find(path, *args, **kwargs), path)

    async def _find(self, path: str, *args: Any, **kwargs: Any) -> Any:
        path = self._own(path)
        return hide(await self._call("find", path, *args, **kwargs), path)

    def glob(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """List what matches a pattern."""
        path = self._own(path)
        return hide(self.fs.glob(path, *args, **kwargs), path)

    async def _glob(self, path: str, *args: Any, **kwargs: Any) -> Any:
        path = self._own(path)
        return hide(await self._call("glob", path, *args, **kwargs), path)

    def walk(self, path: str, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any, Any]]:
        """Go through all folders below a folder."""
        path = self._own(path)
        for root, folders, files in self.fs.walk(path, *args, **kwargs):
            if self._shows(root, folders, path):
                yield root, folders, files

    async def _walk(self, path: str, *args: Any, **kwargs: Any) -> AsyncIterator[tuple[str, Any, Any]]:
        path = self._own(path)
        if not self.fs.async_impl:
            for found in await asyncio.to_thread(lambda: list(self.walk(path, *args, **kwargs))):
                yield found
            return
        async for root, folders, files in self.fs._walk(path, *args, **kwargs):
            if self._shows(root, folders, path):
                yield root, folders, files

    @staticmethod
    def _shows(root: str, folders: Any, path: str) -> bool:
        if STATE_FOLDER in path:
            return True
        if STATE_FOLDER in folders:
            # In place, so that the wrapped walk does not go there either.
            folders.pop(STATE_FOLDER) if isinstance(folders, dict) else folders.remove(STATE_FOLDER)
        return not is_state(root)

    # Contents

    def _read(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the wrapped filesystem that reads one file."""
        return getattr(self.fs, method)(self._own(path), *args, **kwargs)

    async def _read_async(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        return await self._call(method, self._own(path), *args, **kwargs)

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> bytes:
        """Read a file, or a range of it."""
        return cast("bytes", self._read("cat_file", path, *args, **kwargs))

    async def _cat_file(self, path: str, *args: Any, **kwargs: Any) -> bytes:
        return cast("bytes", await self._read_async("cat_file", path, *args, **kwargs))

    def cat(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Read files."""
        path = self._own(path)
        found = self.fs.cat(path, *args, **kwargs)
        return hide(found, str(path)) if isinstance(found, dict) else found

    async def _cat(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        path = self._own(path)
        found = await self._call("cat", path, *args, **kwargs)
        return hide(found, str(path)) if isinstance(found, dict) else found

    def cat_ranges(self, paths: list[str], *args: Any, **kwargs: Any) -> list[Any]:
        """Read ranges of files."""
        return cast("list[Any]", self.fs.cat_ranges(self._own(paths), *args, **kwargs))

    async def _cat_ranges(self, paths: list[str], *args: Any, **kwargs: Any) -> list[Any]:
        return cast("list[Any]", await self._call("cat_ranges", self._own(paths), *args, **kwargs))

    @called_as_wrapped(2)
    @one_of_many
    def get_file(self, rpath: str, lpath: Any = None, **kwargs: Any) -> Any:
        """Copy a file to local disk; where that is what is guarded, the copy is a write like any other."""
        if self._kind == "local" and lpath is not None and not isfilelike(lpath):
            return self.cp_file(rpath, lpath)
        return self._read("get_file", rpath, lpath, **kwargs)

    @called_as_wrapped(2)
    @one_of_many_async(1)
    async def _get_file(self, rpath: str, lpath: Any = None, **kwargs: Any) -> Any:
        if self._kind == "local" and lpath is not None and not isfilelike(lpath):
            return await self._cp_file(rpath, lpath)
        return await self._read_async("get_file", rpath, lpath, **kwargs)

    # Facts

    @called_as_wrapped(1)
    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Say what a name is."""
        return cast("dict[str, Any]", self._read("info", path, **kwargs))

    @called_as_wrapped(1)
    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        return cast("dict[str, Any]", await self._read_async("info", path, **kwargs))

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether a name is there."""
        return cast("bool", self._read("exists", path, **kwargs))

    async def _exists(self, path: str, **kwargs: Any) -> bool:
        return cast("bool", await self._read_async("exists", path, **kwargs))

    def isfile(self, path: str) -> bool:
        """Whether it is a file."""
        return cast("bool", self._read("isfile", path))

    async def _isfile(self, path: str) -> bool:
        return cast("bool", await self._read_async("isfile", path))

    def isdir(self, path: str) -> bool:
        """Whether it is a folder."""
        return cast("bool", self.fs.isdir(self._own(path)))

    async def _isdir(self, path: str) -> bool:
        return cast("bool", await self._call("isdir", self._own(path)))

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""
        return cast("int", self._read("size", path))

    async def _size(self, path: str) -> int:
        return cast("int", await self._read_async("size", path))

    def checksum(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Return what changes when the bytes change."""
        return self._read("checksum", path, *args, **kwargs)

    def ukey(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Return a hash of the file's properties."""
        return self._read("ukey", path, *args, **kwargs)

    def created(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Return when it was created."""
        return self._read("created", path, *args, **kwargs)

    def modified(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Return when it was modified."""
        return self._read("modified", path, *args, **kwargs)

    def sign(self, path: str, *args: Any, **kwargs: Any) -> str:
        """Return a signed address."""
        return cast("str", self._read("sign", path, *args, **kwargs))

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget what was listed."""
        self.fs.invalidate_cache(None if path is None else self._own(path))
