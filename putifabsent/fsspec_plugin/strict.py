"""Mounts with ``strict=True``: what a Hudi timeline has no step for is refused before anything is written.

An instant's name costs one listing of the instant more. All that it shows is judged by :mod:`hudi_steps`.
What seems to be wrong is looked at again as a reader would see it, for a plain listing may lack what is
decided and show what has ended. And whatever is refused without the option is refused in the same words:
the name that is taken, the ledger's instant that is another's.

It is a look, and then a creation. Who of two comes first is decided as ever: by the name, and the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from putifabsent.errors import InvalidTransition
from putifabsent.fsspec_plugin.transfers import Transfers
from putifabsent.shim.formats import hudi, hudi_steps
from putifabsent.shim.formats.hudi_layout import other_layout
from putifabsent.shim.names import Role

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

    from putifabsent.backends.body import Body
    from putifabsent.backends.streaming_upload import Ahead
    from putifabsent.fsspec_plugin.options import Mount
    from putifabsent.fsspec_plugin.steps import Steps
    from putifabsent.shim.names import Name

__all__ = ["Strict"]


class Strict(Transfers):
    """Asks of each instant's name whether its instant may go there."""

    _is_strict: bool

    def _set_up(self, mount: Mount, kind: str) -> None:
        super()._set_up(mount, kind)
        self._is_strict = mount.strict

    def _is_a_step(self, name: Name) -> bool:
        return self._is_strict and name.role is Role.INSTANT and name.format == hudi.FORMAT

    # Every way in which a name of an instant comes to be

    def _permitting(self, name: Name, *, explicit: bool) -> Steps[None]:
        if self._is_a_step(name):
            yield from self._stepping(name, creates=explicit)
        yield from super()._permitting(name, explicit=explicit)

    def _create(self, name: Name, body: Body, extra: Mapping[str, Any], token: str | None = None) -> None:
        if name.guarded and self._is_a_step(name):
            self._walk_steps(self._stepping(name))
        super()._create(name, body, extra, token)

    async def _create_async(self, name: Name, body: Body, extra: Mapping[str, Any]) -> None:
        if name.guarded and self._is_a_step(name):
            await self._walk_steps_async(self._stepping(name))
        await super()._create_async(name, body, extra)

    def _transferring(
        self, source: str, name: Name, extra: Mapping[str, Any], *, keep: bool, token: str | None = None
    ) -> Steps[None]:
        if name.guarded and self._is_a_step(name):
            yield from self._stepping(name)
        yield from super()._transferring(source, name, extra, keep=keep, token=token)

    def _stage_ahead(self, name: Name, file: IO[bytes], extra: Mapping[str, Any]) -> Ahead | None:
        # It may be refused at its end.
        return None if self._is_a_step(name) else super()._stage_ahead(name, file, extra)

    # The question

    def _stepping(self, name: Name, *, creates: bool = True) -> Steps[None]:
        """Ask whether an instant may get this name now.

        Parameters
        ----------
        name
            Of an instant.
        creates
            Whether it is not written over: then it is not asked about where it is there already, which its
            creation says.

        Raises
        ------
        InvalidTransition
            It may not.
        Fenced, NameTaken
            Its table's ledger says so.
        """
        folder, _, last = name.path.rpartition("/")
        step = hudi.instant_in(last)
        assert step is not None  # noqa: S101 - for mypy
        finding = None
        for look in (self._beside(folder, step.instant), self._shown_in(folder)):
            there = yield from look
            if creates and name.path in there:
                return
            finding = hudi_steps.finding_beside(map(_last, there), last)
            if finding is None:
                return
        elsewhere = yield from self._beside(other_layout(folder), step.instant)
        if hudi_steps.is_moved(map(_last, elsewhere), last):
            return
        yield from self._refusing(name)
        raise InvalidTransition(name.path, str(finding))

    def _shown_in(self, folder: str) -> Steps[list[str]]:
        """List a folder as readers see it: by what arbiters and ledgers say."""
        self._forget_listed(folder)
        try:
            found = yield from self._listing(folder, {"detail": False})
        except FileNotFoundError:
            return []
        return [self._full_name(each) for each in found]


def _last(path: str) -> str:
    return path.rpartition("/")[2]
