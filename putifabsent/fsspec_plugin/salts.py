"""Hudi's files under salted names: each session writes its own, and which of them counts is looked up.

``salt="slices"``: base files are written with the session in their names, and shown as they were recorded.
For every read one look at the owner's file, where the ledger says whose the instant is; more only where that
is not there. Mounts without the option see salted names.

``salt="keep-both"``: nobody decides about Hudi's instants, so all of them are kept. For stores that honour no
condition, where no arbiter can be had. There is no ledger, and no name is unique; each session writes
instants and base files of its own, and every reader sees all of them in one order.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Holder
from putifabsent.errors import Fenced
from putifabsent.fsspec_plugin.paths import renamed
from putifabsent.fsspec_plugin.steps import Call, Decide, Steps
from putifabsent.shim.formats import hudi_salt
from putifabsent.shim.formats.hudi import step_of
from putifabsent.shim.ledger.facts import Completion, Opened
from putifabsent.shim.requests import Located

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.guard import Guard
    from putifabsent.fsspec_plugin.hudi import Hudi
    from putifabsent.fsspec_plugin.mount import Mount
    from putifabsent.fsspec_plugin.reads import Details
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

    Owner = Opened | Completion | None

_log = logging.getLogger(__name__)


class Salts:
    """Knows which file lies under a recorded name."""

    def __init__(self, mount: Mount, guard: Guard, rules: Hudi) -> None:
        self._mount = mount
        self._guard = guard
        self._rules = rules
        self.keeps = mount.options.salt == "keep-both"  # instants have salts, too
        if self.keeps:
            _log.warning(
                "salt='keep-both': Hudi's instants are not unique in this mount. Where several sessions "
                "create one, all are kept, and only who reads through such a mount sees them"
            )

    # Which names

    def name_of(self, path: Any) -> Name | None:
        """Return what a path is, if it is the recorded name of what lies under another."""
        name = self._classified(path)
        is_one = name is not None and (hudi_salt.is_recorded(name) or self._is_instant(name))
        return name if is_one else None

    def recorded(self, path: Any) -> Name | None:
        """Return what a path is, if it is the recorded name of a base file."""
        name = self._classified(path)
        return name if name is not None and hudi_salt.is_recorded(name) else None

    def is_kept(self, name: Name) -> bool:
        """Whether a name is where an instant of some session lies."""
        kept = hudi_salt.parsed(self._mount.policy.classify, name.path) if self.keeps else None
        return kept is not None and kept.salt != ""

    def own_instant(self, name: Name) -> Name | None:
        """Return where this session keeps an instant; None: the name is none."""
        if not self._is_instant(name):
            return None
        path = hudi_salt.kept_as(name.path, self._mount.session)
        return name._replace(path=path, identity=path, guarded=True)

    def promoted(self, name: Name) -> Name:
        if self.recorded(name.path) is None:
            return name
        return self._mount.policy.classify(self.written_as(name.path))

    def written_as(self, path: Any) -> Any:
        """Return where the wrapped filesystem is to write what nothing guards."""
        name = self.name_of(path)
        if name is None:
            return self._mount.paths.own(path)
        if self._is_instant(name):
            return hudi_salt.kept_as(name.path, self._mount.session)
        return hudi_salt.salted(name.path, self._mount.session)

    def _classified(self, path: Any) -> Name | None:
        return None if self._mount.paths.is_a_version(path) else self._guard.explain(path)

    def _is_instant(self, name: Name) -> bool:
        return self.keeps and hudi_salt.is_instant(name)

    # Reading

    def seek(self, name: Name) -> Steps[Located | None]:
        """Return where the bytes of a recorded name lie; None: under no other name."""
        if self._is_instant(name):
            return (yield from self._seek_instant(name))
        owner = yield from self.owner(name)
        for each in hudi_salt.likeliest(name.path, owner):
            if (yield from self._has(each)):
                return Located(Holder(None), each)
        there = yield from self._there(name)
        if not there:
            return None
        counting = hudi_salt.counting(name.path, there, owner)
        if counting is None:
            reason = f"{len(there)} sessions have written it, and no ledger says whose file counts"
            raise OSError(errno.EIO, reason, name.path)
        return Located(Holder(None), counting)

    def _seek_instant(self, name: Name) -> Steps[Located | None]:
        own = hudi_salt.kept_as(name.path, self._mount.session)
        if (yield from self._has(own)):
            return Located(Holder(None), own)
        folder, _, last = name.path.rpartition("/")
        found = yield from self._mount.beside(folder, last)
        there = [each for each in self._ordered(found) if each.recorded == name.path]
        if len(there) > 1:
            reason = f"{len(there)} sessions have created it: each is read under its salted name"
            raise OSError(errno.EIO, reason, name.path)
        return Located(Holder(None), there[0].path) if there else None

    def owner(self, name: Name, *, cached: bool = True) -> Steps[Owner]:
        """Return whose an instant is, by its table's ledger; without one it is nobody's."""
        if self.keeps:
            return Opened(self._mount.session, "")  # to itself, each session owns what it writes
        table, step = (yield from self._rules.table_of(name)), step_of(name.path)
        if table is None or step is None:
            return None

        def looking(ledger: Ledger) -> Protocol[Owner]:
            if not (cached and hudi_salt.is_settled(ledger.state, step.instant, ledger.session)):
                yield from ledger.current(self._mount.looker(table.name))
            return hudi_salt.owner_of(ledger.state, step.instant)

        owner: Owner = yield Decide(self._guard.ledgers.using(table.name, looking, writes=False))
        return owner

    def _has(self, path: str) -> Steps[bool]:
        # Not `isfile`, to which any error is an absence.
        try:
            found = yield Call("info", (path,))
        except FileNotFoundError:
            return False
        return bool(found["type"] == "file")

    def _there(self, name: Name) -> Steps[list[str]]:
        folder = name.path.rpartition("/")[0]
        found = yield from self._mount.beside(folder, hudi_salt.beginning_of(name.path))
        return hudi_salt.variants(name.path, found)

    def _ordered(self, found: list[str]) -> list[hudi_salt.Kept]:
        return hudi_salt.ordered(self._mount.policy.classify, found)

    # Listing

    def shown(self, path: str, found: Details) -> Steps[Details]:
        """Show each recorded name found below ``path`` once, with the details of the file that counts.

        Instants come behind the others.
        """
        groups: dict[str, list[str]] = {}
        for each in found:
            recorded = hudi_salt.recorded(each)
            groups.setdefault(each if self.recorded(recorded) is None else recorded, []).append(each)
        shown: Details = {}
        for recorded, there in groups.items():
            counting: str | None = there[0]
            if len(there) > 1:
                owner = yield from self.owner(self._guard.explain(recorded))
                # Where it can't be known, the name is there; to read it is refused.
                counting = hudi_salt.counting(recorded, there, owner) or min(there)
            assert counting is not None  # noqa: S101 - for mypy
            shown[recorded] = found[counting] if counting == recorded else renamed(found[counting], recorded)
        name = self.name_of(path)
        return shown if not self.keeps or (name and self._is_instant(name)) else self._in_order(shown)

    def _in_order(self, found: Details) -> Details:
        """Show instants behind all else, in their order; each with its ``salt``."""
        instants = hudi_salt.shown(self._ordered(list(found)), self._mount.session)
        paths = {each.path for each in instants.values()}
        others = {name: detail for name, detail in found.items() if name not in paths}
        return others | {
            name: {**renamed(found[each.path], name), "salt": each.salt} for name, each in instants.items()
        }

    # Removing

    def freed(self, name: Name) -> Steps[bool]:
        """Free a recorded name: remove what this session may remove of what lies under it.

        ``Fenced``: it is another session's.
        """
        if self.keeps:
            # What is read under a name is what is removed by it: nobody says whose the rest is.
            located = yield from self.seek(name)
            if located is None:
                return False
            yield Call("rm_file", (located.path,))
            return True
        # In this order: what an owner writes that comes after the look at the ledger is not listed.
        there = yield from self._there(name)
        if not there:
            return (yield from self._guard.removals.freed(name.path))
        owner = yield from self.owner(name, cached=False)
        removable = hudi_salt.removable(name.path, there, owner, self._mount.session)
        if not removable and owner is not None:
            raise Fenced(errno.EPERM, f"its instant belongs to session {owner.session}", name.path)
        for each in removable:
            if not (yield from self._guard.removals.freed(each)):
                yield Call("rm_file", (each,))
        return True
