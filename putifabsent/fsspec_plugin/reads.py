"""What is there, where more than the store's own names says so: read, and listed.

Where an arbiter beside the store decides, it says whether a guarded name is there, and where: each costs a
look-up. A name that nothing guards is read as it is; only where it is absent the arbiter is queried, for it
may have been created explicitly, and not be published yet. So are the rules of a format, whoever decides.

A listing shows what an arbiter says, too: without what has ended, with what is not published yet. A folder in
which no format has names of its own, and with no ``.putifabsent/``, costs nothing more. Others cost one
listing of the ballots about the folder's names, or one look at the registry's claims of them; and what a
format's rules show otherwise costs what they look at.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from putifabsent.backends.base import STATE_FOLDER, Absent, Described, Describes, Found, Got
from putifabsent.errors import OutcomeUnknown
from putifabsent.fsspec_plugin.mount import MOST_KNOWN, Cache, Mount
from putifabsent.fsspec_plugin.paths import each_of, hide, is_state, renamed
from putifabsent.fsspec_plugin.steps import Call, Decide, Either, Steps
from putifabsent.shim.state_keys import placed

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.guard import Guard
    from putifabsent.shim.arbiter import Arbiter, Sighting
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Located

Details: TypeAlias = dict[str, dict[str, Any]]
_REQUESTS = {"cat_file": "get", "exists": "head", "info": "describe", "isfile": "head"}
"""What the store's own client sends for these: one request where the wrapped filesystem sends two."""
_UNANSWERED = object()
_GONE_FOR = 600.0
"""Seconds for which nobody asks again for a key that was gone: each listing of a folder would."""


class Reads:
    """Finds what is there in a mount."""

    def __init__(self, mount: Mount, guard: Guard) -> None:
        self._mount = mount
        self._guard = guard
        self._gone: Cache[str, float] = Cache(MOST_KNOWN)  # and when it was asked for

    def plainly(self, path: Any) -> bool:
        """Whether what the store shows under a path, or under several, is all that there is to know."""
        if self._mount.arbiter is not None:
            return False
        rules = self._guard.rules
        return rules is None or not any(map(rules.shows_more, map(str, each_of(path))))

    def shows_instants(self, found: Iterable[str]) -> bool:
        """Whether among names that were found is one that a format's rules may show otherwise."""
        rules = self._guard.rules
        return rules is not None and any(map(rules.may_be_an_instant, found))

    # One name

    def reading(self, method: str, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Any]:
        """Call a method of the wrapped filesystem that reads one file, where its bytes lie."""
        if self.plainly(path):
            return (yield from self._plain(method, path, args, kwargs))
        own = self._mount.paths.own
        located = yield from self.seek(path, helps=False)
        missed: str | None = None
        while True:
            key = own(path) if located is None else located.path
            try:
                found = yield Call(method, (key, *args), kwargs)
                break
            except FileNotFoundError:
                if key == missed:
                    raise
                # It was deleted meanwhile; or it is there, and was published by nobody, or just now.
                missed = key
                located = yield from self._seek_again(path, located)
                if located is None:
                    raise
        if method == "info" and located is None and found["type"] == "directory":
            full = self._mount.paths.full(path)
            if (yield from self._is_gone(full)):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), full)
        if method != "info" or located is None:
            return found
        return renamed(found, self._mount.paths.strip(own(path)))

    def _plain(self, method: str, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps[Any]:
        """Read what the store shows, by its own client or the wrapped filesystem."""
        if self._mount.kind == "s3" and method in _REQUESTS and not (args or kwargs):
            answer = yield from self._answered(method, path)
            if answer is not _UNANSWERED:
                return answer
        return (yield Call(method, (self._mount.paths.own(path), *args), kwargs))

    def existing(self, path: str, kwargs: dict[str, Any]) -> Steps[bool]:
        """Say whether a name is there; a guarded one that is not published yet is published by the way."""
        if self.plainly(path):
            return bool((yield from self._plain("exists", path, (), kwargs)))
        try:
            located = yield from self.seek(path, helps=True)
            if located is None:
                yield from self.reading("info", path, (), {})
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def being_a_file(self, path: str) -> Steps[bool]:
        if self.plainly(path):
            return bool((yield from self._plain("isfile", path, (), {})))
        try:
            found = yield from self.reading("info", path, (), {})
        except (FileNotFoundError, NotADirectoryError):
            return False
        return bool(found["type"] == "file")

    def being_a_folder(self, path: str) -> Steps[bool]:
        is_there = bool((yield Call("isdir", (self._mount.paths.own(path),))))
        return is_there and not (yield from self._is_gone(self._mount.paths.full(path)))

    def _is_gone(self, folder: str) -> Steps[bool]:
        """Whether a folder is none, of a store that has none: what is moved to it would lie one deeper."""
        return not self._mount.has_folders and (yield from self.is_left(folder))

    def is_left(self, folder: str) -> Steps[bool]:
        """Whether below a folder is nothing but what an arbiter keeps of what was removed.

        Of a store that has folders it stays, and so does the one above.
        """
        if self._mount.arbiter is None or is_state(folder) or "/" not in folder:
            return False
        try:
            listed = yield Call("ls", (folder,), {"detail": True})
        except FileNotFoundError:
            return True
        is_kept = False
        for each in listed:
            name = self._mount.paths.full(each["name"])
            if not is_state(name):
                is_below = each["type"] == "directory" and name != folder and not self._mount.has_folders
                if not is_below or not (yield from self.is_left(name)):
                    return False
            is_kept = True
        if not is_kept:
            return False
        shown, _ = yield from self.below(folder, withdirs=False)  # it may live, and be published by nobody
        return not shown

    def seek(self, path: str, *, helps: bool) -> Steps[Located | None]:
        """Return where a guarded name's bytes lie; None for a name that nothing guards, and for a folder.

        ``FileNotFoundError``: it is guarded, and not there; ``OutcomeUnknown``: it can't be known.
        """
        salts = self._guard.salts
        if salts is not None and (salted := salts.name_of(path)) is not None:
            return (yield from salts.seek(salted))
        if self._mount.arbiter is None:
            return None
        name = yield from self._guard.guarded(path)
        if name is None:
            return None
        located = yield from self.located(name, helps=helps)
        if located is None:
            located = yield from self._unpublished(name)
        if located is None and not (yield Call("isdir", (self._mount.paths.own(path),))):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name.path)
        return located

    def _seek_again(self, path: str, before: Located | None) -> Steps[Located | None]:
        """Look once more for what was not where it should be; None: that it is not there is certain."""
        if before is not None and self._mount.arbiter is not None:
            return (yield from self.seek(path, helps=True))
        full = self._mount.paths.full(path)
        if "/" not in full.strip("/") or is_state(full) or self._mount.paths.is_a_version(path):
            return None
        name = yield from self._guard.known_as(full)
        located = yield from self._unpublished(name)
        if located is None and self._mount.arbiter is not None:
            located = yield from self.located(name, helps=True)
        return located

    def _unpublished(self, name: Name) -> Steps[Located | None]:
        rules = self._guard.rules_for(name)
        return None if rules is None else (yield from rules.unpublished(name))

    def located(self, name: Name, *, helps: bool) -> Steps[Located | None]:
        """Return where the bytes of a guarded name lie by the arbiter; None: it is not there."""
        arbiter = self._mount.arbiter
        assert arbiter is not None  # noqa: S101 - who has none reads as the wrapped filesystem does
        try:
            found = yield Decide(arbiter.find(name, self._mount.looker(name), helps=helps))
        except OutcomeUnknown as error:
            # A folder has the name, or a file is where its folder would be.
            if isinstance(error.__cause__, (IsADirectoryError, NotADirectoryError)):
                return None
            raise
        if isinstance(found, Absent):
            return None
        located: Located = found
        self._mount.forget_listed(located.path)
        return located

    # Small files, by the store's own client

    def _answered(self, method: str, path: Any) -> Steps[Any]:
        """Ask the store itself about one guarded file.

        It only ever says what is there, and that nothing is. Whatever else it meets is left to the wrapped
        filesystem, which asks again, with its own retries and its own errors. So is all that a caller or a
        mount asks for beside the file: ranges, versions, keys, who pays; and what is remembered of a listing.
        """
        name = self._of_the_store(path)
        if name is None:
            return _UNANSWERED
        request = _REQUESTS[method]
        ask, ask_async = getattr(self._mount.store, request), getattr(self._mount.store, f"{request}_async")
        outcome = yield Either(partial(ask, name.path), partial(ask_async, name.path))
        if isinstance(outcome, Got):
            return outcome.data
        if isinstance(outcome, Described):
            return outcome.info
        if isinstance(outcome, Found):
            return True
        # What a format calls a file is no folder; a pattern may match one, which only a listing shows.
        if isinstance(outcome, Absent) and name.format is not None and self._guard.is_evident(name):
            if request == "head":
                return False
            raise FileNotFoundError(name.path)
        return _UNANSWERED

    def _of_the_store(self, path: Any) -> Name | None:
        """Return the name under a path, if the store may answer for the wrapped filesystem about it."""
        paths, fs = self._mount.paths, self._mount.fs
        if type(path) is not str or paths.is_a_version(path):
            return None
        name = self._guard.explain(path)
        # Not of one that it would read as another, by slashes or a version in it.
        if not name.guarded or fs._strip_protocol(paths.own(path)) != name.path:
            return None
        store = self._mount.store
        is_known = isinstance(store, Describes) and store.answers_for(name.path)
        return name if is_known and not self._is_listed(name.path) else None

    def _is_listed(self, path: str) -> bool:
        """Whether a remembered listing says what is there."""
        if not self._mount.fs.dircache:
            return False
        try:
            return self._mount.fs._ls_from_cache(path) is not None
        except FileNotFoundError:
            return True

    # One folder

    def as_it_is(self, path: str, options: dict[str, Any]) -> bool:
        """Whether a listing of a path shows what the store does."""
        return self.plainly(path) or is_state(self._mount.paths.full(path)) or bool(options.get("versions"))

    def listing(self, path: str, options: dict[str, Any]) -> Steps[list[Any]]:
        """List a folder; the options are the wrapped filesystem's, none left out."""
        salts = self._guard.salts
        if salts is None:
            return (yield from self._listing(path, options))
        listed = yield from self._listing(path, {**options, "detail": True})
        shown = yield from salts.shown(path, {each["name"]: each for each in listed})
        return list(shown.values()) if options["detail"] else list(shown)

    def _listing(self, path: str, options: dict[str, Any]) -> Steps[list[Any]]:
        own, root = self._mount.paths.own(path), self._mount.paths.full(path)
        located = yield from self.seek(path, helps=False)
        if located is not None:
            details = [renamed((yield Call("info", (located.path,))), root)]
            return details if options["detail"] else [root]
        rules = self._guard.rules
        view = None if rules is None else (yield from rules.timeline(root))
        if view is not None:
            self._mount.forget_listed(own)
        missing: FileNotFoundError | None = None
        listed: list[dict[str, Any]] = []
        try:
            listed = yield Call("ls", (own,), {**options, "detail": True})
        except FileNotFoundError as error:
            missing = error
        details_of = {self._mount.paths.full(each["name"]): each for each in listed}
        has_state = f"{root}/{STATE_FOLDER}" in details_of
        shown = dict(hide(details_of, root))
        if (arbiter := self._mount.arbiter) is not None:
            shown, _ = yield from self._merged(root, arbiter, shown, None, {root: has_state})
        if rules is not None and view is not None:
            yield from rules.viewed(view, shown)
        if missing is not None and not shown:
            raise missing
        return list(shown.values()) if options["detail"] else [each["name"] for each in shown.values()]

    # All below a folder

    def finding(self, path: str, *, withdirs: bool) -> Steps[Details]:
        shown, _ = yield from self.below(path, withdirs=withdirs)
        rules = self._guard.rules
        if rules is not None:
            shown = yield from rules.with_timelines(shown)
            if rules.salts is not None:
                shown = yield from rules.salts.shown(path, dict(sorted(shown.items())))
        return dict(sorted(shown.items()))

    def found(self, found: Any, *, detail: bool) -> Steps[Any]:
        """Return what the wrapped filesystem has found, with what a format's rules say of it."""
        rules = self._guard.rules
        if rules is None or not self.shows_instants(found):
            return found
        details = dict(found) if isinstance(found, dict) else {name: {} for name in found}
        shown = yield from rules.with_timelines(details)
        return dict(sorted(shown.items())) if detail else sorted(shown)

    def below(self, path: str, *, withdirs: bool) -> Steps[tuple[Details, list[Sighting]]]:
        """Return what is below a folder, with its details, and what the arbiter knows of names there."""
        full = self._mount.paths.full
        own, root = self._mount.paths.own(path), full(path)
        try:
            located = yield from self.seek(path, helps=False)
        except FileNotFoundError:
            return {}, []
        if located is not None:
            return {root: renamed((yield Call("info", (located.path,))), root)}, []
        listed = yield Call("find", (own,), {"withdirs": withdirs, "detail": True})
        found: Details = {full(name): detail for name, detail in listed.items()}
        keys = {name: detail for name, detail in found.items() if is_state(name)}
        self._forget_keys(keys)
        shown = hide(found, root)
        if (arbiter := self._mount.arbiter) is None:
            return dict(shown), []
        has_state = {name.rpartition(f"/{STATE_FOLDER}/")[0] for name in keys}
        names = [*shown, *(of.name for of in map(placed, keys) if of is not None and of.name is not None)]
        folders = {name.rpartition("/")[0] for name in names if name.startswith(f"{root.rstrip('/')}/")}
        folders |= has_state | {root}
        searched = {each: each in has_state for each in sorted(folders)}
        return (yield from self._merged(root, arbiter, shown, keys, searched))

    # What both have in common

    def _merged(
        self, root: str, arbiter: Arbiter, shown: Details, below: Details | None, folders: dict[str, bool]
    ) -> Steps[tuple[Details, list[Sighting]]]:
        """Return what is shown, without what has ended, and with what lives; and what the arbiter knows.

        ``shown`` are the plain names in what was listed, ``root``; ``below`` the arbiter's keys there, if
        they were listed, too. ``folders`` are those of the names, and whether each has a state folder in it.
        """
        keys: Details = dict(below or {})
        searched: list[str] = []
        for folder, has_state in folders.items():
            states = list(self._mount.policy.states(folder))
            if has_state:
                states.append(f"{folder}/{STATE_FOLDER}")
            if states:
                searched.append(folder)
            for state in states:
                shelf = arbiter.shelf(state, folder)
                if shelf is None or (below is not None and shelf.startswith(f"{root.rstrip('/')}/")):
                    continue
                try:
                    found = yield Call("find", (shelf,), {"detail": True})
                except FileNotFoundError:
                    continue
                more = {self._mount.paths.full(name): detail for name, detail in found.items()}
                self._forget_keys(more)
                keys |= more
        if not searched:
            return shown, []
        shown = dict(shown)
        sightings = yield Decide(arbiter.sightings(self._mount.policy.classify, searched, keys, shown))
        below_root = f"{root.rstrip('/')}/"
        for sighting in sightings:
            is_below = sighting.name == root or sighting.name.startswith(below_root)
            # What rules keep records of are names that an arbiter decides about, too.
            if is_below and not is_state(sighting.name):
                yield from self._apply(sighting, shown, keys)
        return shown, sightings

    def _apply(self, sighting: Sighting, shown: Details, keys: Details) -> Steps[None]:
        name, key = sighting.name, sighting.key
        if key is None and (sighting.open or name in shown):
            located = yield from self.located((yield from self._guard.known_as(name)), helps=False)
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
            if (yield from self._guard.guarded(name)) is None:
                return
        if detail is None:
            detail = yield from self._detail(key)
        if detail is not None:
            shown[name] = renamed(detail, name)

    def _detail(self, key: str) -> Steps[dict[str, Any] | None]:
        """Ask for one of the arbiter's keys; None: it was deleted, and comes only if it is put back."""
        since = self._gone.get(key)
        if since is not None and time.monotonic() - since < _GONE_FOR:
            return None
        try:
            return cast("dict[str, Any]", (yield Call("info", (key,))))
        except FileNotFoundError:
            self._gone.keep(key, time.monotonic())
            return None

    def _forget_keys(self, keys: Details) -> None:
        # What the wrapped filesystem keeps of a listing would hide what others add.
        if self._mount.fs.dircache:
            for folder in {name.rpartition("/")[0] for name in keys}:
                self._mount.fs.invalidate_cache(folder)
