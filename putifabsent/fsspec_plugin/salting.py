"""Mounts with ``salt="slices"``: base files of Hudi are written under salted names, and shown as recorded.

What lies under a recorded name is looked up, for every read: one look at the owner's file where the ledger
says whose the instant is, more only where that is not there. Mounts without the option see salted names.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Holder
from putifabsent.errors import Fenced
from putifabsent.fsspec_plugin.decided import renamed
from putifabsent.fsspec_plugin.options import SALTED
from putifabsent.fsspec_plugin.paths import each_of
from putifabsent.fsspec_plugin.removals import Removes
from putifabsent.fsspec_plugin.steps import Call, Decide
from putifabsent.shim.formats import hudi_salt
from putifabsent.shim.formats.hudi import step_of
from putifabsent.shim.reading import Located

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.listings import Details
    from putifabsent.fsspec_plugin.options import Mount
    from putifabsent.fsspec_plugin.steps import Steps
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import Completion, Opened
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

    Owner = Opened | Completion | None

__all__ = ["Salts"]


class Salts(Removes):
    """Knows which file lies under the recorded name of a base file."""

    _salts: bool

    def _set_up(self, mount: Mount, kind: str) -> None:
        super()._set_up(mount, kind)
        self._salts = mount.salt in SALTED

    def _recorded(self, path: Any) -> Name | None:
        """Return what a path is, if it is a recorded name; None for all others, and in other mounts."""
        if not self._salts or self._is_a_version(path):
            return None
        name = self._policy.classify(self._full_name(path))
        return name if hudi_salt.is_recorded(name) else None

    # Writing

    def _written_as(self, path: Any) -> Any:
        """Return where the wrapped filesystem is to write what nothing guards."""
        name = self._recorded(path)
        return self._own(path) if name is None else hudi_salt.salted(name.path, self.writer_session)

    def _promote(self, path: Any, *, explicit: bool) -> Name | None:
        return self._promoted(super()._promote(path, explicit=explicit))

    async def _promote_async(self, path: Any, *, explicit: bool) -> Name | None:
        return self._promoted(await super()._promote_async(path, explicit=explicit))

    def _promoted(self, name: Name | None) -> Name | None:
        if name is None or self._recorded(name.path) is None:
            return name
        return self._policy.classify(self._written_as(name.path))

    # Reading

    def _reads_plainly(self, path: Any) -> bool:
        return not self._salts and super()._reads_plainly(path)

    def _seek(self, path: str, *, helps: bool) -> Steps[Located | None]:
        name = self._recorded(path)
        if name is None:
            return (yield from super()._seek(path, helps=helps))
        owner = yield from self._owner(name)
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

    def _owner(self, name: Name, *, cached: bool = True) -> Steps[Owner]:
        """Return whose an instant is, by its table's ledger; without one it is nobody's."""
        table, step = (yield from self._table_of(name)), step_of(name.path)
        if table is None or step is None:
            return None

        def looking(ledger: Ledger) -> Protocol[Owner]:
            if not (cached and hudi_salt.is_settled(ledger.state, step.instant, ledger.session)):
                yield from ledger.current(self._looker(table.name))
            return hudi_salt.owner_of(ledger.state, step.instant)

        owner: Owner = yield Decide(self._in_ledger(table.name, looking, writes=False))
        return owner

    def _has(self, path: str) -> Steps[bool]:
        # Not `isfile`, to which any error is an absence.
        try:
            found = yield Call("info", (path,))
        except FileNotFoundError:
            return False
        return bool(found["type"] == "file")

    def _there(self, name: Name) -> Steps[list[str]]:
        """List the files under a recorded name."""
        folder = name.path.rpartition("/")[0]
        found = yield from self._beside(folder, hudi_salt.beginning_of(name.path))
        return hudi_salt.variants(name.path, found)

    def _beside(self, folder: str, beginning: str) -> Steps[list[str]]:
        """List what is in a folder, where a store can: only what begins so."""
        try:
            if self._has_folders:
                found = yield Call("ls", (folder,), {"detail": False})
            else:
                found = yield Call("find", (folder,), {"prefix": beginning})
        except FileNotFoundError:
            return []
        return [self._full_name(each) for each in found]

    # Listing

    def _listing(self, path: str, options: dict[str, Any]) -> Steps[list[Any]]:
        if not self._salts:
            return (yield from super()._listing(path, options))
        listed = yield from super()._listing(path, {**options, "detail": True})
        shown = yield from self._as_recorded({each["name"]: each for each in listed})
        return list(shown.values()) if options["detail"] else list(shown)

    def _finding(self, path: str, *, withdirs: bool) -> Steps[Details]:
        found = yield from super()._finding(path, withdirs=withdirs)
        if self._salts:
            found = yield from self._as_recorded(found)
        return dict(sorted(found.items()))

    def _as_recorded(self, found: Details) -> Steps[Details]:
        """Show each recorded name once, with the details of the file that counts."""
        groups: dict[str, list[str]] = {}
        for each in found:
            groups.setdefault(self._shown_as(each), []).append(each)
        shown: Details = {}
        for path, there in groups.items():
            counting: str | None = there[0]
            if len(there) > 1:
                owner = yield from self._owner(self._policy.classify(self._full_name(path)))
                # Where it can't be known, the name is there; to read it is refused.
                counting = hudi_salt.counting(path, there, owner) or min(there)
            assert counting is not None  # noqa: S101 - for mypy
            shown[path] = found[counting] if counting == path else renamed(found[counting], path)
        return shown

    def _shown_as(self, path: str) -> str:
        path_as_recorded = hudi_salt.recorded(path)
        return path_as_recorded if self._recorded(path_as_recorded) is not None else path

    # Removing

    def _is_removed_plainly(self, path: Any, *, recursive: bool = False) -> bool:
        if any(self._recorded(each) is not None for each in each_of(path)):
            return False
        return super()._is_removed_plainly(path, recursive=recursive)

    def _freed(self, path: str) -> Steps[bool]:
        name = self._recorded(path)
        if name is None:
            return (yield from super()._freed(path))
        # In this order: what an owner writes that comes after the look at the ledger is not listed.
        there = yield from self._there(name)
        if not there:
            return (yield from super()._freed(path))
        owner = yield from self._owner(name, cached=False)
        removable = hudi_salt.removable(name.path, there, owner, self.writer_session)
        if not removable and owner is not None:
            raise Fenced(errno.EPERM, f"its instant belongs to session {owner.session}", name.path)
        for each in removable:
            if not (yield from super()._freed(each)):
                yield Call("rm_file", (each,))
        return True
