"""Reading where an arbiter beside the store decides: it says whether a guarded name is there, and where.

Each costs a look-up. A name that nothing guards is read as it is; only where it is not there the arbiter is
asked, for it may have been created explicitly, and not be published yet. So is the ledger of a table, whoever
decides: about a completed instant that is not there.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from fsspec.asyn import AsyncFileSystem

from putifabsent.backends.base import Absent
from putifabsent.errors import OutcomeUnknown
from putifabsent.fsspec_plugin.creations import Creations
from putifabsent.fsspec_plugin.fast_reads import UNANSWERED, fast_read, fast_read_async
from putifabsent.fsspec_plugin.paths import each_of
from putifabsent.fsspec_plugin.reads import is_state
from putifabsent.fsspec_plugin.steps import Call, Decide
from putifabsent.shim.formats.hudi_ledger import may_show_instants

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.steps import Steps
    from putifabsent.shim.names import Name
    from putifabsent.shim.reading import Located

__all__ = ["ReadsDecided", "renamed"]


def renamed(detail: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the details of an object under its plain name."""
    return {**detail, **{key: name for key in ("name", "Key") if key in detail}}


class ReadsDecided(Creations):
    """Resolves guarded names by the mount's arbiter, if it is not the store itself."""

    def _read(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        if self._reads_plainly(path):
            if (answer := fast_read(self, method, path, args, kwargs)) is not UNANSWERED:
                return answer
            return super()._read(method, path, *args, **kwargs)
        return self._walk_steps(self._reading(method, path, args, kwargs))

    async def _read_async(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        if self._reads_plainly(path):
            if (answer := await fast_read_async(self, method, path, args, kwargs)) is not UNANSWERED:
                return answer
            return await super()._read_async(method, path, *args, **kwargs)
        return await self._walk_steps_async(self._reading(method, path, args, kwargs))

    def _reads_plainly(self, path: Any) -> bool:
        """Whether what the store shows under a path, or under several, is all that there is to know."""
        return self._arbiter is None and not any(may_show_instants(str(each)) for each in each_of(path))

    def _reading(self, method: str, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Any]:
        located = yield from self._seek(path, helps=False)
        key = self._own(path) if located is None else located.path
        try:
            found = yield Call(method, (key, *args), kwargs)
        except FileNotFoundError:
            # It was deleted meanwhile; or it is there, and nobody has published it.
            located = yield from self._seek_again(path, located)
            if located is None:
                raise
            found = yield Call(method, (located.path, *args), kwargs)
        if method != "info" or located is None:
            return found
        return renamed(found, self._strip_protocol(self._own(path)))

    async def _key_of(self, path: str) -> str:
        """Return where to read a name."""
        located = await self._walk_steps_async(self._seek(path, helps=True))
        return path if located is None else located.path

    def _existing(self, path: str) -> Steps[bool]:
        try:
            located = yield from self._seek(path, helps=True)
            if located is None:
                yield from self._reading("info", path, (), {})
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether a name is there; a guarded one that is not published yet is published by the way.

        Raises
        ------
        OSError
            It can't be known: an error is no absence.
        """
        if self._reads_plainly(path):
            return super().exists(path, **kwargs)
        found: bool = self._walk_steps(self._existing(path))
        return found

    async def _exists(self, path: str, **kwargs: Any) -> bool:
        if self._reads_plainly(path):
            return await super()._exists(path, **kwargs)
        found: bool = await self._walk_steps_async(self._existing(path))
        return found

    def _being_a_file(self, path: str) -> Steps[bool]:
        try:
            found = yield from self._reading("info", path, (), {})
        except (FileNotFoundError, NotADirectoryError):
            return False
        return bool(found["type"] == "file")

    def isfile(self, path: str) -> bool:
        """Whether it is a file."""
        if self._reads_plainly(path):
            return super().isfile(path)
        return self._walk_steps(self._being_a_file(path))

    async def _isfile(self, path: str) -> bool:
        if self._reads_plainly(path):
            return await super()._isfile(path)
        return await self._walk_steps_async(self._being_a_file(path))

    def _seek(self, path: str, *, helps: bool) -> Steps[Located | None]:
        """Return where a guarded name's bytes lie; None for a name that nothing guards, and for a folder.

        Raises
        ------
        FileNotFoundError
            It is guarded, and not there.
        OutcomeUnknown
            It can't be known.
        """
        if self._arbiter is None:
            return None
        name = yield from self._guarded(path)
        if name is None:
            return None
        located = yield from self._located(name, helps=helps)
        if located is None:
            located = yield from self._unpublished(name)
        if located is None and not (yield Call("isdir", (self._own(path),))):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name.path)
        return located

    def _seek_again(self, path: str, before: Located | None) -> Steps[Located | None]:
        """Look once more for what was not where it should be; None: that it is not there is certain."""
        if before is not None:
            located = yield from self._seek(path, helps=True)
            return located
        full = self._full_name(path)
        if "/" not in full.strip("/") or is_state(full) or self._is_a_version(path):
            return None
        name = yield from self._known_as(full)
        located = yield from self._unpublished(name)
        if located is None and self._arbiter is not None:
            located = yield from self._located(name, helps=True)
        return located

    def _guarded(self, path: str) -> Steps[Name | None]:
        """Return what a path is, if it is guarded; a version is the wrapped filesystem's."""
        if self._is_a_version(path):
            return None
        name = self._policy.classify(self._full_name(path))
        if not name.guarded:
            return None
        found = yield from self._with_evidence(name)
        return name if found else None

    def _located(self, name: Name, *, helps: bool) -> Steps[Located | None]:
        arbiter = self._arbiter
        assert arbiter is not None  # noqa: S101 - who has none reads as the wrapped filesystem does
        try:
            found = yield Decide(arbiter.find(name, self._looker(name), helps=helps))
        except OutcomeUnknown as error:
            # A folder has the name, or a file is where its folder would be.
            if isinstance(error.__cause__, (IsADirectoryError, NotADirectoryError)):
                return None
            raise
        if isinstance(found, Absent):
            return None
        located: Located = found
        self._forget_listed(located.path)
        return located

    # Many files: fsspec's own ways over the methods above

    def cat(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Read files."""
        if self._reads_plainly(path):
            return super().cat(path, *args, **kwargs)
        return self._in_bulk("cat", self._own(path), *args, **kwargs)

    async def _cat(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        if self._reads_plainly(path):
            return await super()._cat(path, *args, **kwargs)
        return await AsyncFileSystem._cat(self, path, *args, **kwargs)

    def cat_ranges(self, paths: list[str], *args: Any, **kwargs: Any) -> list[Any]:
        """Read ranges of files."""
        if self._reads_plainly(paths):
            return super().cat_ranges(paths, *args, **kwargs)
        found: list[Any] = self._in_bulk("cat_ranges", self._own(paths), *args, **kwargs)
        return found

    async def _cat_ranges(self, paths: list[str], *args: Any, **kwargs: Any) -> list[Any]:
        if self._reads_plainly(paths):
            return await super()._cat_ranges(paths, *args, **kwargs)
        found: list[Any] = await AsyncFileSystem._cat_ranges(self, paths, *args, **kwargs)
        return found
