"""Creations through the filesystem: what a name is, and the protocols run for it, in both colours."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from putifabsent.backends.base import Creation, Found, Refused
from putifabsent.backends.local_files import obstacle
from putifabsent.backends.probe import BESIDE, NEEDED
from putifabsent.backends.streaming_upload import FileBody, StagesAhead
from putifabsent.errors import NameTaken
from putifabsent.fsspec_plugin.ledgers import Ledgers
from putifabsent.fsspec_plugin.mounted import new_token
from putifabsent.fsspec_plugin.steps import Ask, Decide
from putifabsent.fsspec_plugin.stores import copies_safely, rely_on, terms_of, verdicts_of
from putifabsent.shim.agreement import agree, look_for_others
from putifabsent.shim.create import create, resolve
from putifabsent.shim.formats.whole import check_whole
from putifabsent.shim.reading import Located

if TYPE_CHECKING:
    from collections.abc import Mapping

    from putifabsent.backends.base import Created
    from putifabsent.backends.body import Body
    from putifabsent.backends.probe import Verdict
    from putifabsent.backends.streaming_upload import Ahead
    from putifabsent.errors import Holder
    from putifabsent.fsspec_plugin.steps import Steps
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

__all__ = ["Creations"]

_AT_ONCE = 2**17
"""Bytes; to look at more takes a millisecond and longer, for which a loop is not held up."""


class Creations(Ledgers):
    """Creates guarded names."""

    def resolve(self, path: str, creation_token: str) -> Holder | None:
        """Answer an unknown outcome later.

        Parameters
        ----------
        path
            The name.
        creation_token
            ``OutcomeUnknown.token``.

        Returns
        -------
        Holder or None
            The creation itself: it won. None: nobody holds the name now; the creation may never have
            happened, may have been deleted since, or, within minutes, may still land.

        Raises
        ------
        NameTaken
            Another creation holds the name.
        OutcomeUnknown
            The store can't be read.
        """
        holder: Holder | None = self._walk_steps(self._resolving(path, creation_token))
        return holder

    async def _resolve(self, path: str, creation_token: str) -> Holder | None:
        holder: Holder | None = await self._walk_steps_async(self._resolving(path, creation_token))
        return holder

    def _resolving(self, path: str, token: str) -> Steps[Holder | None]:
        name = yield from self._known_as(self._full_name(path))
        creation, arbiter = Creation(token, self.writer, name.state), self._arbiter

        def by_name() -> Protocol[Holder | None]:
            return resolve(name, token) if arbiter is None else arbiter.resolve(name, creation)

        holder: Holder | None = yield Decide(self._resolving_in_ledger(name, creation, by_name))
        return holder

    def verdicts(self, path: str) -> dict[str, Verdict]:
        """Return what a probe finds of the store's operations, or has found lately.

        Parameters
        ----------
        path
            A folder in which the probe may write, below ``.putifabsent/``.
        """
        return verdicts_of(self.backend, self._strip_protocol(path), self._remade())

    def _rests_on(self, name: Name) -> tuple[str, ...]:
        """Return the operations that a creation rests on; some of them may be there twice."""
        needs = NEEDED if self._arbiter is None else self._arbiter.needs
        return (*needs, *BESIDE) if self._is_judged(name) else needs

    def _rely(self, name: Name) -> None:
        """Find out, once, whether the store can be relied on."""
        if needs := [each for each in dict.fromkeys(self._rests_on(name)) if each not in self._relied]:
            folder = name.state.rpartition("/")[0]
            rely_on(self._mount.arbiter, needs, self.backend, folder, self._remade())
            self._relied.update(needs)

    def _relying(self, name: Name) -> Steps[None]:
        """Find out, before a name is decided about, whether store and mounts can be relied on."""
        if not self._relied.issuperset(self._rests_on(name)):
            yield Ask(partial(self._rely, name))
        yield from self._agreeing(name)

    def _has_agreed(self, name: Name) -> bool:
        # What the store decides by itself, of a name that nothing guards, is nobody else's.
        return (self._by_the_store and not name.guarded) or name.state in self._agreed

    def _agreeing(self, name: Name) -> Steps[None]:
        """Find out, once a table, whether its mounts let the same arbiter decide."""
        if self._has_agreed(name):
            return
        if self._arbiter is not None:
            self._terms[name.state] = yield Ask(partial(terms_of, self._arbiter, name.state))
        yield Decide(self._agreement(name))
        self._agreed.add(name.state)

    def _agreement(self, name: Name) -> Protocol[None]:
        terms = self._terms.get(name.state)
        return look_for_others(name.state) if terms is None else agree(name.state, terms, self._looker(name))

    def _relying_on_copies(self, name: Name) -> Steps[bool]:
        """Find out, once and only when something is copied, whether its copies can be relied on, too."""
        if self._copies is None:
            folder = name.state.rpartition("/")[0]
            self._copies = yield Ask(
                partial(copies_safely, self._mount.arbiter, self.backend, folder, self._remade())
            )
        return bool(self._copies)

    def _create(self, name: Name, body: Body, extra: Mapping[str, Any], token: str | None = None) -> None:
        check_whole(name, body)
        self._refuse_folder(name)
        if not self._is_reliable(name):
            self._walk_steps(self._relying(name))
        ahead = body.ahead if isinstance(body, FileBody) else None
        creation = ahead.creation if ahead is not None else self._creation(name, extra, token)
        self._run(self._creating(name, body, creation), name, creates=True)

    def _is_reliable(self, name: Name) -> bool:
        return self._has_agreed(name) and self._relied.issuperset(self._rests_on(name))

    def _by_name(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        if self._arbiter is None:
            return create(name, body, creation, largest_put=self.backend.largest_put)
        return self._arbiter.create(name, body, creation)

    def _refuse_folder(self, name: Name) -> None:
        """Refuse a folder's name, and one in no folder, before anything is left beside it for its sake."""
        if self._has_folders and self._arbiter is not None:
            self._make_folder(name)
            seen = self.backend.head(name.path)
            if isinstance(seen, Refused):
                raise seen.error
            if self._kind == "local" and (why := obstacle(self.fs._parent(name.path), name.path)) is not None:
                raise why

    def _stage_ahead(self, name: Name, file: IO[bytes], extra: Mapping[str, Any]) -> Ahead | None:
        """Begin to send a large file that is still being written, where the store can."""
        # The bytes of another arbiter, and of a ledger, lie elsewhere.
        if self._arbiter is not None or self._is_judged(name) or not isinstance(self.backend, StagesAhead):
            return None
        self._rely(name)
        return self.backend.ahead(name.path, file, self._creation(name, extra))

    async def _create_async(self, name: Name, body: Body, extra: Mapping[str, Any]) -> None:
        if body.size <= _AT_ONCE:
            check_whole(name, body)
        else:
            await asyncio.to_thread(check_whole, name, body)
        self._refuse_folder(name)
        if not self._is_reliable(name):
            await self._walk_steps_async(self._relying(name))
        protocol = self._creating(name, body, self._creation(name, extra))
        await self._run_async(protocol, name, creates=True)

    def _look_early(self, name: Name) -> None:
        """Say early that a name is taken, where that is known; at close it is decided."""
        seen: object
        if self._arbiter is None:
            seen = self.backend.head(name.path)
            if isinstance(seen, Refused) and isinstance(seen.error, (IsADirectoryError, NotADirectoryError)):
                raise seen.error
        else:
            self._refuse_folder(name)
            seen = self._run(self._arbiter.find(name, self._looker(name), helps=False))
            if isinstance(seen, Located) and isinstance(more := self.backend.head(seen.path), Found):
                seen = Found(replace(more.holder, token=seen.holder.token))
        if isinstance(seen, Found):
            self._forget(name)  # a listing may still say that it is not there
            raise NameTaken(name.path, seen.holder)

    def _make_folder(self, name: Name) -> None:
        if self._kind == "local" and getattr(self.fs, "auto_mkdir", False):
            folder = self.fs._parent(name.path)
            try:
                self.fs.makedirs(folder, exist_ok=True)
            except FileExistsError as error:  # which is no loss: nobody holds the name
                raise NotADirectoryError(
                    errno.ENOTDIR, "a file is in the place of its folder", folder
                ) from error

    def _creation(self, name: Name, extra: Mapping[str, Any], token: str | None = None) -> Creation:
        self._make_folder(name)
        return Creation(token or new_token(), self.writer, name.state, extra)
