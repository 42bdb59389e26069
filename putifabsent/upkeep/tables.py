"""What lies below a folder: plain names, what the shim keeps, and which identities that is about."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.backends.base import STATE_FOLDER, Creation
from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.mount import new_token
from putifabsent.fsspec_plugin.stores import terms_of
from putifabsent.shim.arbiter_choice import NATIVE, Terms, look_for_others
from putifabsent.shim.formats.hudi_ledger import timeline_in
from putifabsent.shim.ledger.book import HalfRemoved, Lane, Ledger, Native, record_at
from putifabsent.shim.names import Name, ordinary
from putifabsent.shim.state_keys import placed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.fsspec_plugin import GuardedFileSystem

_BELOW = f"/{STATE_FOLDER}/"


class Identities(NamedTuple):
    """What an arbiter keeps something of: one name of each identity, and folders of keys of unknown names."""

    names: list[Name]
    strange: list[str]


def refuse_a_part(fs: GuardedFileSystem, root: str) -> None:
    """Refuse a folder within a table, whose state lies above."""
    for state in fs.policy.states(root):
        if fs.exists(state):
            table = state.removesuffix(f"/{STATE_FOLDER}")
            raise ConfigError(f"{root} is a part of a table: name the table itself, {table}")


def terms_with(fs: GuardedFileSystem, state: str) -> Terms:
    """Return what a mount says that all mounts of this state must."""
    return NATIVE if fs.decider is None else terms_of(fs.decider, state)


class Table:
    """All that lies below a folder: a table, or what has tables in it.

    ``shown`` are names, ``kept`` is what is the shim's own, with its details, and ``states`` the folders in
    which that lies. ``half_removed`` are the folders of those ledgers that were looked at and that somebody
    has removed half.

    ``ConfigError``: nothing is there; or ``path`` is a file, or within a table, whose state lies above; or
    another arbiter decides than the mount, or one of those that must have ``agreed``, says.
    """

    def __init__(
        self, fs: GuardedFileSystem, path: str, *agreed: GuardedFileSystem, may_be_gone: bool = False
    ) -> None:
        self.fs = fs
        self.root: str = fs.explain(path).path
        refuse_a_part(fs, self.root)
        self.shown: set[str] = set()
        self.kept: dict[str, dict[str, Any]] = {}
        self.half_removed: list[str] = []
        self.walk()
        # A registry may remember that there was one.
        if not (may_be_gone or self.shown or self.kept) and (
            fs.decider is None or not fs.perform(fs.decider.remembered(self.root))
        ):
            raise ConfigError(f"there is no table at {self.root!r}: nothing is there")
        if self.root in self.shown:
            raise ConfigError(f"{self.root!r} is a file: give the folder of its table")
        self.states = sorted({name.rpartition(_BELOW)[0] + _BELOW[:-1] for name in self.kept})
        for state in self.states:
            fs.perform(look_for_others(state, *(terms_with(each, state) for each in (fs, *agreed))))

    def walk(self) -> None:
        """See once more what is there."""
        self.fs.invalidate_cache()
        try:
            found: dict[str, dict[str, Any]] = self.fs.fs.find(self.root, detail=True)
        except FileNotFoundError:
            found = {}
        self.kept = {name: detail for name, detail in found.items() if _BELOW in name}
        self.shown = found.keys() - self.kept.keys()

    def states_of_all(self) -> list[str]:
        """Return the state folders that are there, and those of tables of which nothing is kept yet."""
        guarded = (name for name in map(self.fs.policy.classify, self.shown) if name.guarded)
        of_each = {(name.state, name.evidence, name.unless): name for name in guarded}
        of_tables = (
            each for each in of_each.values() if self.fs.mount.walk(self.fs.guard.with_evidence(each))
        )
        return sorted({*self.states, *(name.state for name in of_tables)})

    def creation(self, state: str) -> Creation:
        """Return a creation for one that creates no name; what it puts goes with this state."""
        return Creation(new_token(), self.fs.writer, state)

    def ledgers(self) -> list[Ledger]:
        """Return the ledgers of the Hudi tables, without those that are half removed."""
        self.half_removed = []
        decides = self.fs.decider or Native(self.fs.backend.largest_put)
        folders = (state.removesuffix(_BELOW[:-1]) for state in self.states)
        names = (timeline_in(self.fs.policy.classify, folder) for folder in folders)
        found = []
        for name in names:
            if name is not None and f"{name.state}/ledger/-life" in self.kept:
                ledger = Ledger(name, new_token(), decides, Lane(new_token()))
                try:
                    self.fs.perform(ledger.current(self.creation(name.state)))
                    found.append(ledger)
                except HalfRemoved:
                    self.half_removed.append(ledger.folder)
        return found

    def identities(self) -> Identities:
        """Find out what the mount's arbiter keeps something of."""
        arbiter = self.fs.decider
        if arbiter is None:
            return Identities([], [])
        claims = self.fs.perform(arbiter.remembered(self.root))
        folders: dict[str, str | None] = {}
        for key in self.kept:
            found = placed(key)
            if found is not None and found.arbiter == arbiter.keys:
                folders[found.folder] = found.name
        # A hashed name tells nothing; but whoever has the name can tell where its keys lie.
        hashed = {folder for folder, name in folders.items() if name is None}
        names: dict[str, Name] = {}
        for canonical in sorted({*filter(None, folders.values()), *claims, *(self.shown if hashed else ())}):
            claim = claims.get(canonical)
            claimed = None if claim is None else claim.key.rpartition("/")[0]
            has_ended = claim is not None and not claim.live
            for name in self.meant(canonical):
                folder = arbiter.folder(name)
                # Most claims are of names that have expired: of these there is nothing else.
                is_gone = has_ended and self.shown.isdisjoint(name.all_names)
                if folder in folders or (folder == claimed and not is_gone):
                    names.setdefault(folder, name)
                    break
        strange = sorted(folders.keys() - names.keys())
        return Identities([names[folder] for folder in sorted(names)], strange)

    def meant(self, path: str) -> Iterator[Name]:
        """Return what a name may be; what version 0.1.0 keeps of it without its evidence lies beside it."""
        record = record_at(path)
        if record is not None:
            yield record
        name = self.fs.policy.classify(path)
        if not self.fs.mount.walk(self.fs.guard.with_evidence(name)):
            name = name.unproven()
        yield from dict.fromkeys((name, ordinary(path)))

    def folders(self, *arbiters: str) -> dict[str, list[str]]:
        """Return what is kept by these arbiters, by its state."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in sorted(self.kept):
            state, _, inside = path.rpartition(_BELOW)
            if inside.partition("/")[0] in arbiters:
                found[state + _BELOW[:-1]].append(path)
        return found

    def is_there(self, state: str) -> bool:
        """Whether more than its state is there of the table that has it."""
        folder = state.rpartition("/")[0]
        return any(name.startswith(f"{folder}/") for name in self.shown)

    def remove(self, paths: list[str]) -> int:
        """Remove what is the shim's own, and the folders that are empty then; return how many that were."""
        for path in paths:
            self.fs.fs.rm_file(path)
        if self.fs.backend.kind == "local":
            above = {path[: match.start()] for path in paths for match in re.finditer("/", path)}
            for folder in sorted((each for each in above if _BELOW in f"{each}/"), key=len, reverse=True):
                # Another file may be in it.
                with contextlib.suppress(OSError):
                    self.fs.fs.rmdir(folder)
        return len(paths)
