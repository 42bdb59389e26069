"""Creations through the filesystem: what a name is, and the protocols run for it, in both colours."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import IO, TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from putifabsent.backends.base import Creation, Found, Refused, StagesAhead
from putifabsent.backends.body import FileBody
from putifabsent.errors import NameTaken
from putifabsent.fsspec_plugin.bulk import join
from putifabsent.fsspec_plugin.options import Mount, made_with, this_writer
from putifabsent.fsspec_plugin.paths import check_path, spelled_out
from putifabsent.fsspec_plugin.reads import ReadsThrough
from putifabsent.fsspec_plugin.reliance import copies_safely, rely_on, verdicts_of
from putifabsent.fsspec_plugin.stores import store_of
from putifabsent.shim.create import copy, create, rename, resolve
from putifabsent.shim.drive import run, run_async
from putifabsent.shim.names import ordinary
from putifabsent.shim.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from putifabsent.backends.ahead import Ahead
    from putifabsent.backends.base import Store
    from putifabsent.backends.body import Body
    from putifabsent.backends.probe import Verdict
    from putifabsent.errors import Holder
    from putifabsent.fsspec_plugin.reliance import Remade
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

__all__ = ["Creations"]


class Creations(ReadsThrough):
    """Knows which names are guarded, and creates them.

    Attributes
    ----------
    writer
        The application's UUID, kept with every object that it creates.
    """

    writer: str
    _mount: Mount
    _policy: Policy
    _store: Store | None
    _relied: bool
    _copies: bool | None
    _evident: set[tuple[str, ...]]
    _locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
    _kind: str

    def _set_up(self, mount: Mount, kind: str) -> None:
        self._mount = mount
        self._kind = kind
        self._policy = Policy(mount.formats, mount.guard)
        self.writer = mount.writer or this_writer()
        self._store = None
        self._relied = False
        self._copies = None
        self._evident = set()
        self._locks = WeakKeyDictionary()

    @property
    def store(self) -> Store:
        """The store behind the wrapped filesystem."""
        if self._store is None:
            self._store = store_of(self.fs, made_with(self.fs), self._mount.deadline)
        return self._store

    def explain(self, path: str) -> Name:
        """Say what a name is to its table format, and how it is guarded. Asks no store."""
        return self._policy.classify(self._full_name(path))

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
        name = self._promote(path, explicit=True) or self.explain(path)
        holder: Holder | None = self._run(resolve(name, creation_token))
        return holder

    async def _resolve(self, path: str, creation_token: str) -> Holder | None:
        name = await self._promote_async(path, explicit=True) or self.explain(path)
        holder: Holder | None = await self._run_async(resolve(name, creation_token))
        return holder

    def _promote(self, path: Any, *, explicit: bool) -> Name | None:
        """Return what ``path`` is, if writing it is a create, or None if it is the wrapped filesystem's."""
        name = self._classify(path, explicit=explicit)
        if name is None or self._is_evident(name):
            return name
        for sibling in name.evidence:
            # A listing from before the table was made would leave its names unguarded.
            self.fs.invalidate_cache(sibling)
            # Not `exists`, to which any error is an absence: the name would be left unguarded.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                self.fs.info(sibling)
                self._evident.add(name.evidence)
                return name
        return ordinary(name.path) if explicit else None

    async def _promote_async(self, path: Any, *, explicit: bool) -> Name | None:
        name = self._classify(path, explicit=explicit)
        if name is None or self._is_evident(name):
            return name
        for sibling in name.evidence:
            self.fs.invalidate_cache(sibling)
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                await self._call("info", sibling)
                self._evident.add(name.evidence)
                return name
        return ordinary(name.path) if explicit else None

    def _classify(self, path: Any, *, explicit: bool) -> Name | None:
        stripped = self._strip_protocol(path)
        name = self._policy.classify(spelled_out(stripped, self._kind))
        if not (explicit or name.guarded):
            return None
        self._check_path(path, stripped)
        return name

    @staticmethod
    def _check_path(path: Any, stripped: str) -> None:
        check_path(path if isinstance(path, str) else stripped, stripped)

    def _full_name(self, path: Any) -> str:
        return spelled_out(self._strip_protocol(path), self._kind)

    def _is_evident(self, name: Name) -> bool:
        return not name.evidence or name.evidence in self._evident

    def verdicts(self, path: str) -> dict[str, Verdict]:
        """Return what a probe finds of the store's operations, or has found lately.

        Parameters
        ----------
        path
            A folder in which the probe may write, below ``.putifabsent/``.
        """
        return verdicts_of(self.store, self._strip_protocol(path), self._remade())

    def _rely(self, name: Name) -> None:
        """Find out, once, whether the store can be relied on."""
        if not self._relied:
            rely_on(self._mount.arbiter, self.store, name.state.rpartition("/")[0], self._remade())
            self._relied = True

    def _rely_on_copies(self, name: Name) -> None:
        """Find out, once and only when something is copied, whether its copies can be relied on, too."""
        self._rely(name)
        if self._copies is None:
            folder = name.state.rpartition("/")[0]
            self._copies = copies_safely(self._mount.arbiter, self.store, folder, self._remade())

    def _remade(self) -> Remade:
        return type(self.fs), made_with(self.fs), self._mount.deadline

    def _create(self, name: Name, body: Body, extra: Mapping[str, Any]) -> None:
        self._rely(name)
        ahead = body.ahead if isinstance(body, FileBody) else None
        creation = ahead.creation if ahead is not None else self._creation(name, extra)
        self._run(create(name, body, creation, largest_put=self.store.largest_put), name)

    def _stage_ahead(self, name: Name, file: IO[bytes], extra: Mapping[str, Any]) -> Ahead | None:
        """Begin to send a large file that is still being written, where the store can."""
        if not isinstance(self.store, StagesAhead):
            return None
        self._rely(name)
        return self.store.ahead(name.path, file, self._creation(name, extra))

    async def _rely_async(self, name: Name, rely: Callable[[Name], None]) -> None:
        # One at a time: a probe needs threads of the executor that the others would fill, waiting for it.
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            await asyncio.to_thread(rely, name)

    async def _create_async(self, name: Name, body: Body, extra: Mapping[str, Any]) -> None:
        if not self._relied:
            await self._rely_async(name, self._rely)
        protocol = create(name, body, self._creation(name, extra), largest_put=self.store.largest_put)
        await self._run_async(protocol, name)

    def _from(self, source: str, name: Name, extra: Mapping[str, Any], *, keep: bool) -> None:
        self._rely_on_copies(name)
        self._run(self._transfer(source, name, extra, keep=keep), name)
        if not keep:
            self.fs.invalidate_cache(source)

    async def _from_async(self, source: str, name: Name, extra: Mapping[str, Any], *, keep: bool) -> None:
        if self._copies is None:
            await self._rely_async(name, self._rely_on_copies)
        await self._run_async(self._transfer(source, name, extra, keep=keep), name)
        if not keep:
            self.fs.invalidate_cache(source)

    def _transfer(self, source: str, name: Name, extra: Mapping[str, Any], *, keep: bool) -> Protocol[None]:
        protocol = copy if keep else rename
        # Not a parameter of the put: the `mv` of fsspec 2025 hands it down by mistake.
        extra = {key: value for key, value in extra.items() if key != "onerror"}
        creation, most = self._creation(name, extra), self.store.largest_put
        return protocol(source, name, creation, largest_put=most, copies=bool(self._copies))

    def _look_early(self, name: Name) -> None:
        """Say early that a name is taken, where that is known; at close it is decided."""
        seen = self.store.head(name.path)
        if isinstance(seen, Found):
            self._forget(name)  # a listing may still say that it is not there
            raise NameTaken(name.path, seen.holder)
        if isinstance(seen, Refused) and isinstance(seen.error, (IsADirectoryError, NotADirectoryError)):
            raise seen.error

    def _creation(self, name: Name, extra: Mapping[str, Any]) -> Creation:
        if self._kind == "local" and getattr(self.fs, "auto_mkdir", False):
            self.fs.makedirs(self.fs._parent(name.path), exist_ok=True)
        return Creation(_new_token(), self.writer, name.state, extra)

    def _forget(self, name: Name | None) -> None:
        if name is not None and self.fs.dircache:
            self.fs.invalidate_cache(name.path)

    def _run(self, protocol: Protocol[Any], name: Name | None = None) -> Any:
        try:
            return run(protocol, self.store, self._mount.deadline)
        finally:
            self._forget(name)

    async def _run_async(self, protocol: Protocol[Any], name: Name | None = None) -> Any:
        bulk = join()
        try:
            return await run_async(protocol, self.store, self._mount.deadline)
        except BaseException as error:
            if bulk is not None:
                bulk.note(error)
            raise
        finally:
            self._forget(name)


def _new_token() -> str:
    # A UUID of version 4, as uuid.uuid4() makes it in three times the time. From the kernel each time: what a
    # process draws in advance, its fork or a restored snapshot of its machine would draw once more.
    drawn = os.urandom(16).hex()
    return f"{drawn[:8]}-{drawn[8:12]}-4{drawn[13:16]}-a{drawn[17:20]}-{drawn[20:]}"
