"""Listing where an arbiter beside the store decides: without what has ended, with what is not published yet.

A folder in which no format has names of its own, and with no ``.putifabsent/``, costs nothing more. Others
cost one listing of the ballots about the folder's names, or one look at the registry's claims of them. A
timeline of Hudi's is shown as its ledger has it, whoever decides; that costs a listing of the ledger.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any, cast

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem

from putifabsent.backends.base import STATE_FOLDER
from putifabsent.fsspec_plugin.decided import ReadsDecided, renamed
from putifabsent.fsspec_plugin.delegation import called_as_wrapped
from putifabsent.fsspec_plugin.reads import hide, is_state
from putifabsent.fsspec_plugin.steps import Call, Decide
from putifabsent.shim.formats.hudi_ledger import may_show_instants
from putifabsent.shim.state_keys import placed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from putifabsent.fsspec_plugin.steps import Steps
    from putifabsent.shim.ledger.calls import View
    from putifabsent.shim.listing_overlay import Sighting

    Details = dict[str, dict[str, Any]]

__all__ = ["ListsDecided"]


class ListsDecided(ReadsDecided):
    """Lists what the mount's arbiter says, if it is not the store itself."""

    # One folder

    def ls(self, path: str, *args: Any, **kwargs: Any) -> list[Any]:
        """List a folder: in detail or not, as the wrapped filesystem has it where nothing is said."""
        if self._lists_as_it_is(path, kwargs):
            return super().ls(path, *args, **kwargs)
        return self._walk_steps(self._listing(path, self._ls_options(args, kwargs)))

    async def _ls(self, path: str, *args: Any, **kwargs: Any) -> list[Any]:
        if self._lists_as_it_is(path, kwargs):
            return await super()._ls(path, *args, **kwargs)
        return await self._walk_steps_async(self._listing(path, self._ls_options(args, kwargs)))

    def _lists_as_it_is(self, path: str, options: dict[str, Any]) -> bool:
        return self._reads_plainly(path) or is_state(self._full_name(path)) or bool(options.get("versions"))

    def _ls_options(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        said = inspect.signature(self.fs.ls).bind_partial("", *args, **kwargs)
        said.apply_defaults()
        options = {**said.arguments, **said.arguments.get("kwargs", {})}
        return {key: value for key, value in options.items() if key not in ("path", "kwargs")}

    def _listing(self, path: str, options: dict[str, Any]) -> Steps[list[Any]]:
        own, root = self._own(path), self._full_name(path)
        located = yield from self._seek(path, helps=False)
        if located is not None:
            details = [renamed((yield Call("info", (located.path,))), root)]
            return details if options["detail"] else [root]
        view = yield from self._timeline(root)
        if view is not None:
            self._forget_listed(own)
        missing: FileNotFoundError | None = None
        listed: list[dict[str, Any]] = []
        try:
            listed = yield Call("ls", (own,), {**options, "detail": True})
        except FileNotFoundError as error:
            missing = error
        details_of = {self._full_name(each["name"]): each for each in listed}
        has_state = f"{root}/{STATE_FOLDER}" in details_of
        shown = dict(hide(details_of, root))
        if self._arbiter is not None:
            shown, _ = yield from self._merged(root, shown, None, {root: has_state})
        if view is not None:
            yield from self._viewed(view, shown)
        if missing is not None and not shown:
            raise missing
        return list(shown.values()) if options["detail"] else [each["name"] for each in shown.values()]

    def _viewed(self, view: View, shown: Details) -> Steps[None]:
        """Show what a ledger says of a timeline, as it was read before the timeline was listed."""
        for name in view.hidden(shown):
            del shown[name]
        for name in view.late.keys() - shown.keys():
            key = yield from self._late(view, name)
            if key is not None:
                with contextlib.suppress(FileNotFoundError):  # undone meanwhile, and removed
                    shown[name] = renamed((yield Call("info", (key,))), name)

    # All below a folder

    @called_as_wrapped(1)
    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        """List all files below a folder."""
        if self._lists_as_it_is(path, kwargs):
            found = super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
            return self._walk_steps(self._found(found, detail=detail))
        prefix = kwargs.pop("prefix", "")
        if maxdepth is not None or kwargs:
            found = AbstractFileSystem.find(self, path, maxdepth, withdirs, detail=True, **kwargs)
        else:
            found = self._walk_steps(self._finding(path, withdirs=withdirs))
        found = self._beginning_with(prefix, path, found)
        return found if detail else list(found)

    @called_as_wrapped(1)
    async def _find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        if self._lists_as_it_is(path, kwargs):
            found = await super()._find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
            return await self._walk_steps_async(self._found(found, detail=detail))
        prefix = kwargs.pop("prefix", "")
        if maxdepth is not None or kwargs:
            found = await AsyncFileSystem._find(self, path, maxdepth, withdirs, detail=True, **kwargs)
        else:
            found = await self._walk_steps_async(self._finding(path, withdirs=withdirs))
        found = self._beginning_with(prefix, path, found)
        return found if detail else list(found)

    def _beginning_with(self, prefix: str, path: str, found: Details) -> Details:
        """Keep what ``path`` and ``prefix`` begin: fsspec's patterns ask object stores for that."""
        if not prefix:
            return found
        start = f"{self._full_name(path).rstrip('/')}/{prefix}"
        return {name: detail for name, detail in found.items() if name.startswith(start)}

    def _finding(self, path: str, *, withdirs: bool) -> Steps[Details]:
        shown, _ = yield from self._below(path, withdirs=withdirs)
        shown = yield from self._with_timelines(shown)
        return dict(sorted(shown.items()))

    def _found(self, found: Any, *, detail: bool) -> Steps[Any]:
        """Return what the wrapped filesystem has found, with what ledgers say of timelines among it."""
        if not any(map(may_show_instants, found)):
            return found
        shown = yield from self._with_timelines(_by_name(found))
        return dict(sorted(shown.items())) if detail else sorted(shown)

    def _with_timelines(self, found: Details) -> Steps[Details]:
        """Show what ledgers say of the timelines that were found."""
        for folder in sorted({name.rpartition("/")[0] for name in found if may_show_instants(name)}):
            view = yield from self._timeline(folder)
            if view is None or not (view.late.keys() - found.keys() or view.hidden(found)):
                continue
            # Once more, for these were listed before the ledger was read.
            listed = yield from self._listing(folder, {"detail": True})
            files = {self._full_name(each["name"]): each for each in listed if each["type"] == "file"}
            gone = view.hidden(found) - files.keys()
            found = {name: each for name, each in found.items() if name not in gone} | files
        return found

    def _below(self, path: str, *, withdirs: bool) -> Steps[tuple[Details, list[Sighting]]]:
        """Return what is below a folder, with its details, and what the arbiter knows of names there."""
        own, root = self._own(path), self._full_name(path)
        try:
            located = yield from self._seek(path, helps=False)
        except FileNotFoundError:
            return {}, []
        if located is not None:
            return {root: renamed((yield Call("info", (located.path,))), root)}, []
        listed = yield Call("find", (own,), {"withdirs": withdirs, "detail": True})
        found: Details = {self._full_name(name): detail for name, detail in listed.items()}
        keys = {name: detail for name, detail in found.items() if is_state(name)}
        self._forget_keys(keys)
        shown = hide(found, root)
        if self._arbiter is None:
            return dict(shown), []
        has_state = {name.rpartition(f"/{STATE_FOLDER}/")[0] for name in keys}
        names = [*shown, *(of.name for of in map(placed, keys) if of is not None and of.name is not None)]
        folders = {name.rpartition("/")[0] for name in names if name.startswith(f"{root.rstrip('/')}/")}
        folders |= has_state | {root}
        return (
            yield from self._merged(root, shown, keys, {each: each in has_state for each in sorted(folders)})
        )

    # What both have in common

    def _merged(
        self, root: str, shown: Details, below: Details | None, folders: dict[str, bool]
    ) -> Steps[tuple[Details, list[Sighting]]]:
        """Return what is shown, without what has ended, and with what lives; and what the arbiter knows.

        Parameters
        ----------
        root
            What was listed.
        shown
            The plain names.
        below
            The arbiter's keys below the root, if they were listed, too.
        folders
            Those in which the names lie, and whether each has a state folder in it.
        """
        arbiter = self._arbiter
        assert arbiter is not None  # noqa: S101 - who has none lists as the wrapped filesystem does
        keys: Details = dict(below or {})
        asked: list[str] = []
        for folder, has_state in folders.items():
            states = list(self._policy.states(folder))
            if has_state:
                states.append(f"{folder}/{STATE_FOLDER}")
            if states:
                asked.append(folder)
            for state in states:
                shelf = arbiter.shelf(state, folder)
                if shelf is None or (below is not None and shelf.startswith(f"{root.rstrip('/')}/")):
                    continue
                try:
                    found = yield Call("find", (shelf,), {"detail": True})
                except FileNotFoundError:
                    continue
                more = {self._full_name(name): detail for name, detail in found.items()}
                self._forget_keys(more)
                keys |= more
        if not asked:
            return shown, []
        shown = dict(shown)
        sightings = yield Decide(arbiter.sightings(self._policy.classify, asked, keys, shown))
        below_root = f"{root.rstrip('/')}/"
        for sighting in sightings:
            is_below = sighting.name == root or sighting.name.startswith(below_root)
            # A ledger's records are names that an arbiter decides about, too.
            if is_below and not is_state(sighting.name):
                yield from self._apply(sighting, shown, keys)
        return shown, sightings

    def _apply(self, sighting: Sighting, shown: Details, keys: Details) -> Steps[None]:
        name, key = sighting.name, sighting.key
        if key is None and (sighting.open or name in shown):
            located = yield from self._located((yield from self._known_as(name)), helps=False)
            if located is None:
                shown.pop(name, None)
                return
            key = located.path
        if key is None or key == name:
            return
        detail = keys.get(key)
        if name in shown:
            # It may be an earlier incarnation's still; or, of a name that nothing guards, written over.
            if detail is None or detail["size"] == shown[name]["size"]:
                return
            if (yield from self._guarded(name)) is None:
                return
        if detail is None:
            try:
                detail = yield Call("info", (key,))
            except FileNotFoundError:
                return  # deleted meanwhile
        shown[name] = renamed(cast("dict[str, Any]", detail), name)

    def _forget_keys(self, keys: Details) -> None:
        # What the wrapped filesystem keeps of a listing would hide what others add.
        if self.fs.dircache:
            for folder in {name.rpartition("/")[0] for name in keys}:
                self.fs.invalidate_cache(folder)

    # fsspec's own ways over these

    def glob(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """List what matches a pattern."""
        if self._lists_as_it_is(path, {}):
            found = super().glob(path, *args, **kwargs)
            if not any(map(may_show_instants, found)):
                return found
        return self._in_bulk("glob", self._own(path), *args, **kwargs)

    async def _glob(self, path: str, *args: Any, **kwargs: Any) -> Any:
        if self._lists_as_it_is(path, {}):
            found = await super()._glob(path, *args, **kwargs)
            if not any(map(may_show_instants, found)):
                return found
        return await AsyncFileSystem._glob(self, self._own(path), *args, **kwargs)

    def walk(self, path: str, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any, Any]]:
        """Go through all folders below a folder."""
        if not self._reads_plainly(path):
            yield from AbstractFileSystem.walk(self, path, *args, **kwargs)
            return
        for root, folders, files in super().walk(path, *args, **kwargs):
            if self._is_timeline(root):
                files = _files(self.ls(root, detail=True), files)  # noqa: PLW2901 - what is shown of it
            yield root, folders, files

    async def _walk(self, path: str, *args: Any, **kwargs: Any) -> AsyncIterator[tuple[str, Any, Any]]:
        if not self._reads_plainly(path):
            async for each in AsyncFileSystem._walk(self, path, *args, **kwargs):
                yield each
            return
        async for root, folders, files in super()._walk(path, *args, **kwargs):
            if self._is_timeline(root):
                files = _files(await self._ls(root, detail=True), files)  # noqa: PLW2901 - as above
            yield root, folders, files


def _by_name(found: Any) -> Details:
    """Return what was found, by name; of names alone, nothing more is known."""
    return dict(found) if isinstance(found, dict) else {name: {} for name in found}


def _files(listed: list[dict[str, Any]], like: Any) -> Any:
    """Return the files that were listed in a folder, as a walk has them: names, or details by name."""
    files = {each["name"].rpartition("/")[2]: each for each in listed if each["type"] != "directory"}
    return files if isinstance(like, dict) else list(files)
