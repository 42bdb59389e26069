"""Mounts with ``salt="keep-both"``: nobody decides about Hudi's instants, so all of them are kept.

For stores that honour no condition, where no arbiter can be had. There is no ledger, and no name is unique;
each session writes instants and base files of its own, and every reader sees all of them in one order.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Holder
from putifabsent.fsspec_plugin.decided import renamed
from putifabsent.fsspec_plugin.paths import each_of
from putifabsent.fsspec_plugin.salting import Salts
from putifabsent.fsspec_plugin.steps import Call
from putifabsent.shim.formats import hudi_salt
from putifabsent.shim.ledger.facts import Opened
from putifabsent.shim.reading import Located

if TYPE_CHECKING:
    from putifabsent.backends.base import Created, Creation
    from putifabsent.backends.body import Body
    from putifabsent.fsspec_plugin.ledgers import Table
    from putifabsent.fsspec_plugin.listings import Details
    from putifabsent.fsspec_plugin.options import Mount
    from putifabsent.fsspec_plugin.salting import Owner
    from putifabsent.fsspec_plugin.steps import Steps
    from putifabsent.shim.ledger.calls import View
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

__all__ = ["Keeps"]

_log = logging.getLogger(__name__)


class Keeps(Salts):
    """Keeps each session's instants beside those of all others."""

    _keeps: bool

    def _set_up(self, mount: Mount, kind: str) -> None:
        super()._set_up(mount, kind)
        self._keeps = mount.salt == "keep-both"
        if self._keeps:
            _log.warning(
                "salt='keep-both': Hudi's instants are not unique in this mount. Where several sessions "
                "create one, all are kept, and only who reads through such a mount sees them"
            )

    def _instant(self, path: Any) -> Name | None:
        """Return what a path is, if it is the recorded name of an instant; None in other mounts."""
        if not self._keeps or self._is_a_version(path):
            return None
        name = self._policy.classify(self._full_name(path))
        return name if hudi_salt.is_instant(name) else None

    def _own_instant(self, name: Name) -> Name:
        path = hudi_salt.kept_as(name.path, self.writer_session)
        return name._replace(path=path, identity=path, guarded=True)

    def _is_kept(self, name: Name) -> bool:
        """Whether a name is where an instant of some session lies."""
        kept = hudi_salt.parsed(self._policy.classify, name.path)
        return kept is not None and kept.salt != ""

    # No ledger has a word

    def _table_of(self, name: Name) -> Steps[Table | None]:
        if self._keeps:
            return None
        return (yield from super()._table_of(name))

    def _timeline(self, folder: str) -> Steps[View | None]:
        if self._keeps:
            return None
        return (yield from super()._timeline(folder))

    def _owner(self, name: Name, *, cached: bool = True) -> Steps[Owner]:
        if self._keeps:
            return Opened(self.writer_session, "")  # to itself, each session owns what it writes
        return (yield from super()._owner(name, cached=cached))

    # Creating

    def _written_as(self, path: Any) -> Any:
        name = self._instant(path)
        return super()._written_as(path) if name is None else self._own_instant(name).path

    def _promote(self, path: Any, *, explicit: bool) -> Name | None:
        name = self._instant(path)
        if name is None:
            return super()._promote(path, explicit=explicit)
        self._classify(path, explicit=explicit)
        return self._own_instant(name) if name.guarded or explicit else None

    async def _promote_async(self, path: Any, *, explicit: bool) -> Name | None:
        if self._instant(path) is None:
            return await super()._promote_async(path, explicit=explicit)
        return self._promote(path, explicit=explicit)

    def _known_as(self, path: str) -> Steps[Name]:
        name = self._instant(path)
        return self._own_instant(name) if name is not None else (yield from super()._known_as(path))

    def _by_name(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        if self._keeps and self._is_kept(name):
            return hudi_salt.keep(name, body, creation)
        return super()._by_name(name, body, creation)

    def _is_judged(self, name: Name) -> bool:
        return (self._keeps and self._is_kept(name)) or super()._is_judged(name)

    def _is_reliable(self, name: Name) -> bool:
        return (self._keeps and self._is_kept(name)) or super()._is_reliable(name)

    def _relying(self, name: Name) -> Steps[None]:
        if not (self._keeps and self._is_kept(name)):
            yield from super()._relying(name)

    # Reading, listing, removing

    def _seek(self, path: str, *, helps: bool) -> Steps[Located | None]:
        name = self._instant(path)
        if name is None:
            return (yield from super()._seek(path, helps=helps))
        own = self._own_instant(name).path
        if (yield from self._has(own)):
            return Located(Holder(None), own)
        folder, _, last = name.path.rpartition("/")
        found = yield from self._beside(folder, last)
        there = [each for each in self._ordered(found) if each.recorded == name.path]
        if len(there) > 1:
            reason = f"{len(there)} sessions have created it: each is read under its salted name"
            raise OSError(errno.EIO, reason, name.path)
        return Located(Holder(None), there[0].path) if there else None

    def _ordered(self, found: list[str]) -> list[hudi_salt.Kept]:
        return hudi_salt.ordered(self._policy.classify, found)

    def _listing(self, path: str, options: dict[str, Any]) -> Steps[list[Any]]:
        if not self._keeps or self._instant(path) is not None:
            return (yield from super()._listing(path, options))
        listed = yield from super()._listing(path, {**options, "detail": True})
        shown = self._in_order({each["name"]: each for each in listed})
        return list(shown.values()) if options["detail"] else list(shown)

    def _finding(self, path: str, *, withdirs: bool) -> Steps[Details]:
        found = yield from super()._finding(path, withdirs=withdirs)
        if self._keeps and self._instant(path) is None:
            found = dict(sorted(self._in_order(found).items()))
        return found

    def _in_order(self, found: Details) -> Details:
        """Show instants behind all else, in their order; each with its ``salt``."""
        instants = hudi_salt.shown(self._ordered(list(found)), self.writer_session)
        paths = {each.path for each in instants.values()}
        others = {name: detail for name, detail in found.items() if name not in paths}
        return others | {
            name: {**renamed(found[each.path], name), "salt": each.salt} for name, each in instants.items()
        }

    def _is_removed_plainly(self, path: Any, *, recursive: bool = False) -> bool:
        if any(self._instant(each) is not None for each in each_of(path)):
            return False
        return super()._is_removed_plainly(path, recursive=recursive)

    def _freed(self, path: str) -> Steps[bool]:
        if self._instant(path) is None and not (self._keeps and self._recorded(path) is not None):
            return (yield from super()._freed(path))
        # What is read under a name is what is removed by it: nobody says whose the rest is.
        located = yield from self._seek(path, helps=False)
        if located is None:
            return False
        yield Call("rm_file", (located.path,))
        return True
