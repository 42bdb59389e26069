"""Removing: a removed name is free again, and who decides about it must hear of it: an arbiter, or rules.

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

from putifabsent.fsspec_plugin.paths import each_of, is_state
from putifabsent.fsspec_plugin.steps import Call, Decide, Steps, Together
from putifabsent.shim.arbiter_choice import state_of_record
from putifabsent.shim.expiry import goes_for_good
from putifabsent.shim.ledger.book import is_marker, record_at
from putifabsent.shim.names import Name, Role, states_at
from putifabsent.shim.requests import Walk, read, removed

if TYPE_CHECKING:
    from putifabsent.backends.base import Listed
    from putifabsent.fsspec_plugin.guard import Guard
    from putifabsent.fsspec_plugin.mount import Mount
    from putifabsent.shim.arbiter import Arbiter


class Removals:
    """Removes by a mount's arbiter what that knows, and all else as the wrapped filesystem."""

    def __init__(self, mount: Mount, guard: Guard) -> None:
        self._mount = mount
        self._guard = guard

    def is_a_pattern(self, path: Any) -> bool:
        """Whether what a path stands for must be found before it can be judged; on local disk it need not."""
        if self._mount.arbiter is not None or self._mount.kind == "local":
            return False
        return any(map(has_magic, self._mount.paths.all_full(path)))

    def looking(self, path: Any, *, recursive: bool = False) -> Steps[None]:
        """Refuse to remove a guarded name, or a folder, of a table that another arbiter decides about.

        Of a folder that the store removes the table is looked at that it is, or is a part of, and none below
        it; an arbiter's mount finds all of them when it lists what it removes. A format's own marks, which go
        with each commit, are no table. ``ConfigError`` names both.
        """
        policy = self._mount.policy
        for full in self._mount.paths.all_full(path):
            if is_state(full):
                continue
            name = policy.classify(full)
            if name.guarded:
                yield from self._mount.looking([name.state], once=True)
            elif recursive:
                yield from self._mount.looking(policy.states(full), once=True)
            is_a_mark = name.role is Role.MARKER and not name.guarded
            if recursive and self._mount.arbiter is None and not is_a_mark:  # a table may have a guarded name
                yield from self._mount.looking(states_at(full), once=False)

    def plainly(self, path: Any, *, recursive: bool = False) -> bool:
        """Whether nobody need hear of it that a path, or several, are removed.

        The shim's own is nobody's; and where the store decides, only a format's rules have a word, in single
        names. A folder that is removed with all that is in it takes what they keep along; not every one does.
        """
        paths, salts = self._mount.paths.all_full(path), self._guard.salts
        if salts is not None and any(salts.name_of(each) is not None for each in each_of(path)):
            return False
        if self._mount.arbiter is not None:
            return bool(paths) and all(is_state(each) for each in paths)
        if any(self._guard.is_judged(self._mount.policy.classify(each)) for each in paths):
            return False
        return not (recursive and self._loses_state(path))

    def one_by_one(self, path: Any, *, bounded: bool) -> bool:
        """Whether a folder's names are removed each by itself, and not by what the arbiter knows of them."""
        return bounded or self._mount.arbiter is None or self._loses_state(path)

    def _loses_state(self, path: Any) -> bool:
        rules = self._guard.rules
        return rules is not None and any(map(rules.loses_instants, self._mount.paths.all_full(path)))

    def are_folders(self, found: list[str]) -> bool:
        """Whether each of what a pattern has found may be removed as a path is, with all that is in it."""
        return all(not has_magic(each) and self.plainly(each, recursive=True) for each in found)

    def before_plainly(self, path: Any, *, recursive: bool, maxdepth: int | None = None) -> Steps[None]:
        """Do what comes before the wrapped filesystem removes: look, and end the ledgers in a folder."""
        yield from self.looking(path, recursive=recursive)
        for folder in self._mount.paths.all_full(path) if recursive else ():
            yield from self._guard.ledgers.ending_lives(folder, maxdepth)
            self._guard.forget_below(folder)

    def _removing_plainly(self, paths: list[str]) -> Steps[None]:
        # What several are removed by takes a pattern for one, and these are names.
        for path in paths:
            if has_magic(path):
                yield Call("rm_file", (path,))
        if literal := [path for path in paths if not has_magic(path)]:
            yield Call("rm", (literal,))

    def removing_file(self, path: str, kwargs: dict[str, Any], *, last: bool = False) -> Steps[None]:
        """Remove a file; the ``last`` time, if nothing need be remembered of it."""
        if not (yield from self._freed(path, last=last)):
            yield Call("rm_file", (self._mount.paths.own(path),), kwargs)

    def _freed(self, path: str, *, last: bool = False) -> Steps[bool]:
        """Free a name by its format's rules, or by the arbiter, if that knows it."""
        salts = self._guard.salts
        if salts is not None and (name := salts.name_of(path)) is not None:
            return (yield from salts.freed(name))
        return (yield from self.freed(path, last=last))

    def freed(self, path: str, *, last: bool = False) -> Steps[bool]:
        """Free what lies under this very name; ``last`` as for :meth:`removing_file`.

        ``FileNotFoundError``: it is not there, and the store is one that says so. ``Fenced``: its format's
        rules say that it is not this session's to remove.
        """
        arbiter = self._mount.arbiter
        full = self._mount.paths.full(path)
        if self._mount.paths.is_a_version(path) or "/" not in full.strip("/"):
            return False
        name = yield from self._guard.known_as(full)
        rules = self._guard.rules_for(name)
        if rules is not None and (yield from rules.ending(name)):
            return True
        if arbiter is None:
            return False
        if not name.guarded and not (yield Decide(arbiter.knows(name))):
            return False
        if self._mount.has_folders and (yield from self._guard.reads.located(name, helps=False)) is None:
            if (yield Call("isdir", (full,))):
                return False
            # Else somebody has died who was removing it, or who published it is slow.
            if not (yield Call("isfile", (full,))):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), full)
        last = last or (yield Decide(goes_for_good(name)))
        if (yield Decide(arbiter.delete(name, self._mount.looker(name), last=last), name)):
            yield from self._forgetting_before(name, arbiter)
        return True

    def _forgetting_before(self, name: Name, arbiter: Arbiter) -> Steps[None]:
        """Have the arbiter forget the numbers before one that it has forgotten: they may have gone later."""
        is_forgotten = True
        while is_forgotten and name.series is not None and name.series.predecessors:
            # They are one identity's: what is kept of the first is all that is kept of the others.
            name = yield from self._guard.known_as(name.series.predecessors[0])
            if not (yield Decide(arbiter.knows(name))):
                return
            if (yield from self._guard.reads.located(name, helps=False)) is not None:
                return
            is_forgotten = yield Decide(arbiter.delete(name, self._mount.looker(name), last=True), name)

    def removing(self, paths: list[str], *, below: bool, one_by_one: bool) -> Steps[None]:
        """Remove files, and with ``below`` folders, too: with all that is in them, or ``one_by_one``."""
        plain: list[str] = []
        folders: list[str] = []
        for path in paths:
            is_folder = below and (yield Call("isdir", (self._mount.paths.own(path),)))
            yield from self.looking(path, recursive=is_folder)
            if is_folder:
                if one_by_one:
                    folders.append(self._mount.paths.own(path))
                else:
                    yield from self._removing_folder(path)
            elif not (yield from self._freed(path)):
                plain.append(self._mount.paths.own(path))
        yield from self._removing_plainly(plain)
        for each in sorted(folders, key=len, reverse=True) if self._mount.has_folders else ():
            with contextlib.suppress(FileNotFoundError):
                yield Call("rmdir", (each,))

    def _removing_folder(self, path: str) -> Steps[None]:
        arbiter = self._mount.arbiter
        assert arbiter is not None  # noqa: S101 - who has none removes as the wrapped filesystem does
        shown, sightings = yield from self._guard.reads.below(path, withdirs=False)
        listed = yield Call("find", (self._mount.paths.own(path),))
        objects = {self._mount.paths.full(each) for each in listed}
        yield from self._mount.looking(sorted(filter(None, map(state_of_record, objects))), once=True)
        yield from self._removing_ledgers(path, arbiter, objects, {each.name for each in sightings})
        # What lives and is not shown has lost its bytes: each listing would ask for them again.
        known = {
            each.name
            for each in sightings
            if each.name in shown or not (each.key is None or is_state(each.name))
        }
        ended = {sighting.name for sighting in sightings if sighting.key is None and not sighting.open}
        rules = self._guard.rules
        dies = {each for each in known | ended if rules is not None and rules.dies_with_its_table(each)}
        # Who removed a name before may not have come to its object, which is shown to nobody.
        deletions = []
        for each in sorted(known | dies | (ended & objects)):
            name = yield from self._guard.known_as(each)
            deletions.append(Decide(arbiter.delete(name, self._mount.looker(name), last=each in dies), name))
        yield Together(deletions)
        yield from self._removing_plainly([each for each in shown if each not in known])
        if self._mount.has_folders:
            yield from self._removing_empty(self._mount.paths.full(path))
        else:
            yield from self.removing_markers(self._mount.paths.full(path))

    def removing_markers(self, folder: str) -> Steps[None]:
        """Remove the objects by which other clients (Hadoop's S3A) tell that there is a folder."""
        listed: Listed = yield Decide(read(Walk(folder)))
        for entry in listed.entries:
            if entry.name.endswith("/") and not is_state(entry.name.rstrip("/")):
                yield Decide(removed(entry.name))

    def _removing_ledgers(
        self, path: str, arbiter: Arbiter, objects: set[str], known: set[str]
    ) -> Steps[None]:
        """Remove the ledgers of tables that are gone: what they say must not come back with the next ones."""
        root = self._mount.paths.full(path)
        self._guard.forget_below(root)
        records = [name for each in sorted(objects | known) if (name := record_at(each)) is not None]
        # Of each ledger its marker goes first; after that nobody reads the others any more.
        markers = [name for name in records if is_marker(name.path)]
        yield Together([Decide(arbiter.delete(name, self._mount.looker(name))) for name in markers])
        others = [name for name in records if not is_marker(name.path)]
        yield Together([Decide(arbiter.forget(name, self._mount.looker(name))) for name in others])
        kept = {f"{name.state}/{part}" for name in records for part in ("bodies", "beats")}
        yield from self._removing_plainly(sorted(each for each in objects if each.rpartition("/")[0] in kept))

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
