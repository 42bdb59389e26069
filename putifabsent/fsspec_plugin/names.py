"""Which paths are guarded names: what the policy says, and where it wants it, evidence beside them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from putifabsent.fsspec_plugin.mounted import Mounted
from putifabsent.fsspec_plugin.paths import check_path, spelled_out
from putifabsent.fsspec_plugin.steps import Call
from putifabsent.shim.names import Role, ordinary

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.steps import Steps
    from putifabsent.shim.names import Name

__all__ = ["JUDGED", "Names"]

JUDGED = (Role.INSTANT, Role.SLICE)
"""What a table's ledger may have a word in, though its name is not guarded."""


class Names(Mounted):
    """Knows what a path is."""

    def explain(self, path: str) -> Name:
        """Say what a name is to its table format, and how it is guarded. Asks no store."""
        return self._policy.classify(self._full_name(path))

    def _full_name(self, path: Any) -> str:
        return spelled_out(self._strip_protocol(path), self._kind)

    def _promote(self, path: Any, *, explicit: bool) -> Name | None:
        """Return what ``path`` is, if writing it is a create, or None if it is the wrapped filesystem's."""
        name = self._classify(path, explicit=explicit)
        if not name.guarded:
            if name.role in JUDGED:
                self._walk_steps(self._permitting(name, explicit=explicit))
            return name if explicit else None
        if self._is_evident(name) or self._walk_steps(self._with_evidence(name)):
            return name
        return ordinary(name.path) if explicit else None

    async def _promote_async(self, path: Any, *, explicit: bool) -> Name | None:
        name = self._classify(path, explicit=explicit)
        if not name.guarded:
            if name.role in JUDGED:
                await self._walk_steps_async(self._permitting(name, explicit=explicit))
            return name if explicit else None
        if self._is_evident(name) or await self._walk_steps_async(self._with_evidence(name)):
            return name
        return ordinary(name.path) if explicit else None

    def _permitting(self, name: Name, *, explicit: bool) -> Steps[None]:
        """Ask whether a name that nothing guards may be written."""
        raise NotImplementedError

    def _known_as(self, path: str) -> Steps[Name]:
        """Return what an explicit creation of ``path`` would be of."""
        name = self._policy.classify(path)
        found = yield from self._with_evidence(name)
        return name if found else ordinary(path)

    def _with_evidence(self, name: Name) -> Steps[bool]:
        """Say whether what a name wants beside it is there, so that it is its format's."""
        if self._is_evident(name):
            return True
        # Who may not see what speaks against a name is not kept from creating it.
        if (yield from self._any(name.unless, PermissionError)):
            return False
        if name.evidence and not (yield from self._any(name.evidence)):
            return False
        self._evident.add(_beside(name))
        return True

    def _any(self, siblings: tuple[str, ...], *absences: type[OSError]) -> Steps[bool]:
        """Say whether one of several files or folders is there."""
        for sibling in siblings:
            # A listing from before the table was made would leave its names unguarded.
            self.fs.invalidate_cache(sibling)
            # Not `exists`, to which any error is an absence: the name would be left unguarded.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, *absences):
                yield Call("info", (sibling,))
                return True
        return False

    def _is_evident(self, name: Name) -> bool:
        return not name.depends or _beside(name) in self._evident

    def _classify(self, path: Any, *, explicit: bool) -> Name:
        stripped = self._strip_protocol(path)
        name = self._policy.classify(spelled_out(stripped, self._kind))
        if explicit or name.guarded:
            self._check_path(path, stripped)
        return name

    @staticmethod
    def _check_path(path: Any, stripped: str) -> None:
        check_path(path if isinstance(path, str) else stripped, stripped)

    def _is_a_version(self, path: Any) -> bool:
        """Whether a path names one version of an object."""
        raise NotImplementedError


def _beside(name: Name) -> tuple[str, ...]:
    """Return what is looked for beside a name: what speaks for it, nothing, and what speaks against it."""
    return (*name.evidence, "", *name.unless)
