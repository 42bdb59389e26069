"""Removing: a removed name is free again, and who decides about it must hear of it: an arbiter, a ledger.

What an arbiter keeps of removed names stays, for it says which incarnation of each comes next. A ledger goes
with its table.
"""

from __future__ import annotations

import contextlib
import errno
import os
from glob import has_magic
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from putifabsent.fsspec_plugin.delegation import called_as_wrapped
from putifabsent.fsspec_plugin.listings import ListsDecided
from putifabsent.fsspec_plugin.paths import each_of
from putifabsent.fsspec_plugin.reads import is_state
from putifabsent.fsspec_plugin.steps import Call, Decide
from putifabsent.shim.expiry import is_lowest
from putifabsent.shim.formats import hudi_over
from putifabsent.shim.formats.hudi_ledger import holds_state
from putifabsent.shim.ledger.book import is_marker, record_at
from putifabsent.shim.reading import removed

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.steps import Steps

__all__ = ["Removes"]


class Removes(ListsDecided):
    """Removes by the mount's arbiter what that knows, and all else as the wrapped filesystem."""

    @called_as_wrapped(1)
    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> Any:
        """Remove files and folders. A removed name is free again."""
        if not self._is_a_pattern(path) and self._is_removed_plainly(path, recursive=recursive):
            if recursive:
                self._walk_steps(self._ending_lives(path))
            return self.fs.rm(self._own(path), recursive=recursive, maxdepth=maxdepth, **kwargs)
        one_by_one = recursive and (
            maxdepth is not None or self._arbiter is None or self._loses_instants(path)
        )
        found = self.expand_path(path, recursive=one_by_one, maxdepth=maxdepth if one_by_one else None)
        return self._walk_steps(self._removing(found, below=recursive, one_by_one=one_by_one))

    @called_as_wrapped(1)
    async def _rm(
        self, path: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> Any:
        if not self._is_a_pattern(path) and self._is_removed_plainly(path, recursive=recursive):
            if recursive:
                await self._walk_steps_async(self._ending_lives(path))
            return await self._call("rm", self._own(path), recursive=recursive, maxdepth=maxdepth, **kwargs)
        one_by_one = recursive and (
            maxdepth is not None or self._arbiter is None or self._loses_instants(path)
        )
        found = await self._expand_path(
            self._own(path), recursive=one_by_one, maxdepth=maxdepth if one_by_one else None
        )
        return await self._walk_steps_async(self._removing(found, below=recursive, one_by_one=one_by_one))

    def rm_file(self, path: str, **kwargs: Any) -> Any:
        """Remove a file."""
        if self._is_removed_plainly(path):
            return self.fs.rm_file(self._own(path), **kwargs)
        return self._walk_steps(self._removing_file(path, kwargs))

    async def _rm_file(self, path: str, **kwargs: Any) -> Any:
        if self._is_removed_plainly(path):
            return await self._call("rm_file", self._own(path), **kwargs)
        return await self._walk_steps_async(self._removing_file(path, kwargs))

    def _is_a_pattern(self, path: Any) -> bool:
        """Whether what a path stands for must be found before it can be judged."""
        return self._arbiter is None and any(map(has_magic, self._full_names(path)))

    def _is_removed_plainly(self, path: Any, *, recursive: bool = False) -> bool:
        """Whether nobody need hear of it that a path, or several, are removed.

        The shim's own is nobody's; and where the store decides, only ledgers have a word, in single names.
        A folder that is removed with all that is in it takes its tables' ledgers along; a timeline does not.
        """
        paths = self._full_names(path)
        if self._arbiter is not None:
            return bool(paths) and all(is_state(each) for each in paths)
        if any(self._is_judged(self._policy.classify(each)) for each in paths):
            return False
        return not (recursive and self._loses_instants(path))

    def _full_names(self, path: Any) -> list[str]:
        return [self._full_name(each) for each in each_of(path)]

    def _loses_instants(self, path: Any) -> bool:
        """Whether a folder of instants is among what is removed, and the ledger that knows them stays."""
        return any(self._is_timeline(each) and not holds_state(each) for each in self._full_names(path))

    def _ending_lives(self, path: Any) -> Steps[None]:
        """End the ledgers that this mount knows of, in a folder that is removed, before all else in it.

        Of others their markers are the first of their folders to go.
        """
        for folder in self._full_names(path):
            for book in self._ledgers_below(folder):
                yield Decide(removed(book.marker_path))
            self._forget_ledgers(folder)

    def _removing_plainly(self, paths: list[str]) -> Steps[None]:
        # What several are removed by takes a pattern for one, and these are names.
        for path in paths:
            if has_magic(path):
                yield Call("rm_file", (path,))
        if literal := [path for path in paths if not has_magic(path)]:
            yield Call("rm", (literal,))

    def _removing_file(self, path: str, kwargs: dict[str, Any]) -> Steps[None]:
        if not (yield from self._freed(path)):
            yield Call("rm_file", (self._own(path),), kwargs)

    def _freed(self, path: str) -> Steps[bool]:
        """Free a name by its table's ledger, or by the arbiter, if that knows it.

        Raises
        ------
        FileNotFoundError
            It is not there, and the store is one that says so.
        Fenced
            A ledger says that it is not this session's to remove.
        """
        arbiter = self._arbiter
        full = self._full_name(path)
        if self._is_a_version(path) or "/" not in full.strip("/"):
            return False
        name = yield from self._known_as(full)
        if (yield from self._ending(name)):
            return True
        if arbiter is None:
            return False
        if not name.guarded and not (yield Decide(arbiter.knows(name))):
            return False
        if self._has_folders and (yield from self._located(name, helps=False)) is None:
            if (yield Call("isdir", (full,))):
                return False
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), full)
        last = yield Decide(is_lowest(name))
        yield Decide(arbiter.delete(name, self._looker(name), last=last), name)
        if last and name.series is not None:
            yield from self._forgetting(name.series.predecessors)
        return True

    def _forgetting(self, expired: tuple[str, ...]) -> Steps[None]:
        """Have the arbiter forget the number before, and those before it: they may have gone later."""
        arbiter = self._arbiter
        assert arbiter is not None  # noqa: S101 - who has none keeps nothing of what is removed
        for path in expired:
            name = yield from self._known_as(path)
            if not (yield Decide(arbiter.knows(name))):
                continue
            if (yield from self._located(name, helps=False)) is None:
                yield Decide(arbiter.delete(name, self._looker(name), last=True), name)
                if name.series is not None:
                    yield from self._forgetting(name.series.predecessors)

    def _removing(self, paths: list[str], *, below: bool, one_by_one: bool) -> Steps[None]:
        """Remove files, and with ``below`` folders, too: with all that is in them, or ``one_by_one``."""
        plain: list[str] = []
        folders: list[str] = []
        for path in paths:
            if below and (yield Call("isdir", (self._own(path),))):
                if one_by_one:
                    folders.append(self._own(path))
                else:
                    yield from self._removing_folder(path)
            elif not (yield from self._freed(path)):
                plain.append(self._own(path))
        yield from self._removing_plainly(plain)
        for each in sorted(folders, key=len, reverse=True) if self._has_folders else ():
            with contextlib.suppress(FileNotFoundError):
                yield Call("rmdir", (each,))

    def _removing_folder(self, path: str) -> Steps[None]:
        arbiter = self._arbiter
        assert arbiter is not None  # noqa: S101 - who has none removes as the wrapped filesystem does
        shown, sightings = yield from self._below(path, withdirs=False)
        yield from self._removing_ledgers(path, {each.name for each in sightings})
        known = {sighting.name for sighting in sightings} & set(shown)
        ended = {sighting.name for sighting in sightings if sighting.key is None and not sighting.open}
        for each in sorted(known | set(filter(hudi_over.instant_of, ended))):
            name = yield from self._known_as(each)
            last = hudi_over.instant_of(each) is not None
            yield Decide(arbiter.delete(name, self._looker(name), last=last), name)
        yield from self._removing_plainly([each for each in shown if each not in known])
        if self._has_folders:
            yield from self._removing_empty(self._full_name(path))

    def _removing_ledgers(self, path: str, known: set[str]) -> Steps[None]:
        """Remove the ledgers of tables that are gone: what they say must not come back with the next ones."""
        arbiter = self._arbiter
        assert arbiter is not None  # noqa: S101 - who has none removes as the wrapped filesystem does
        root = self._full_name(path)
        self._forget_ledgers(root)
        listed = yield Call("find", (self._own(path),))
        names = {self._full_name(each) for each in listed}
        records = [name for each in sorted(names | known) if (name := record_at(each)) is not None]
        for name in records:  # of each ledger its marker first; after that nobody reads the others any more
            end = arbiter.delete if is_marker(name.path) else arbiter.forget
            yield Decide(end(name, self._looker(name)))
        kept = {f"{name.state}/{part}" for name in records for part in ("bodies", "beats")}
        yield from self._removing_plainly(sorted(each for each in names if each.rpartition("/")[0] in kept))

    def _removing_empty(self, folder: str) -> Steps[None]:
        """Remove the folders below ``folder``, and itself, that hold no file of the shim's either."""
        left = yield Call("find", (folder,), {"withdirs": True, "detail": True})
        kept: set[str] = set()
        for name, detail in left.items():
            if detail["type"] != "directory":
                kept.update(str(above) for above in PurePosixPath(name).parents)
        folders = {name.rstrip("/") for name, detail in left.items() if detail["type"] == "directory"}
        for each in sorted({*folders, folder} - kept, key=len, reverse=True):
            # Where folders are nothing but their files, it may have gone with them.
            with contextlib.suppress(FileNotFoundError):
                yield Call("rmdir", (each,))
