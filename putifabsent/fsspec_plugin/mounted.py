"""What a mount is made of: its options, its store, its arbiter; and how protocols run on them."""

from __future__ import annotations

import asyncio
import os
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from putifabsent.backends.base import Creation
from putifabsent.fsspec_plugin.bulk import join
from putifabsent.fsspec_plugin.options import Mount, made_with, this_session, this_writer
from putifabsent.fsspec_plugin.reads import ReadsThrough
from putifabsent.fsspec_plugin.steps import Ask, Decide
from putifabsent.fsspec_plugin.stores import arbiter_of, registry_of, store_of
from putifabsent.fsspec_plugin.telemetry import is_observed, observe
from putifabsent.shim.drive import run, run_async, walk, walk_async
from putifabsent.shim.policy import Policy
from putifabsent.shim.probe_policy import BY_THE_STORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Store
    from putifabsent.backends.registries import Claims, Lock
    from putifabsent.fsspec_plugin.steps import Step, Steps
    from putifabsent.fsspec_plugin.stores import Remade
    from putifabsent.shim.agreement import Terms
    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol, Request

__all__ = ["Mounted", "new_token"]

T = TypeVar("T")


class Mounted(ReadsThrough):
    """Has a mount's options, and runs protocols on its store.

    Attributes
    ----------
    writer
        The application's UUID, kept with every object that it creates.
    """

    writer: str
    _mount: Mount
    _policy: Policy
    _store: Store | None
    _registry: Claims | Lock | None
    _decider: Arbiter | None
    _relied: set[str]
    _agreed: set[str]
    _terms: dict[str, Terms]
    _by_the_store: bool
    _copies: bool | None
    _evident: set[tuple[str, ...]]
    _locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
    _kind: str
    _has_folders: bool

    def _set_up(self, mount: Mount, kind: str) -> None:
        self._mount = mount
        self._kind = kind
        self._has_folders = kind in ("local", "memory")
        self._policy = Policy(mount.formats, mount.guard)
        self.writer = mount.writer or this_writer()
        self._store = None
        self._by_the_store = mount.arbiter in BY_THE_STORE
        self._registry = registry_of(mount.arbiter)
        self._decider = None
        self._relied = set()
        self._agreed = set()
        self._terms = {}
        self._copies = None
        self._evident = set()
        self._locks = WeakKeyDictionary()
        self._set_up_ledgers(mount.writer_session or this_session())

    @property
    def backend(self) -> Store:
        """The store behind the wrapped filesystem."""
        if self._store is None:
            self._store = store_of(self.fs, made_with(self.fs), self._mount.deadline)
        return self._store

    @property
    def _arbiter(self) -> Arbiter | None:
        """What decides beside the store; None: the store itself does."""
        if self._decider is None and not self._by_the_store:
            self._decider = arbiter_of(self._mount.arbiter, self._registry, self.backend)
        return self._decider

    def _remade(self) -> Remade:
        return type(self.fs), made_with(self.fs), self._mount.deadline

    def _looker(self, name: Name) -> Creation:
        """Return a creation for one who only looks: what it finishes on the way goes under its token."""
        return Creation(new_token(), self.writer, name.state)

    def _forget_listed(self, path: str) -> None:
        if self.fs.dircache:
            self.fs.invalidate_cache(path)

    def _forget(self, name: Name | None) -> None:
        if name is not None:
            self._forget_listed(name.path)

    def _walk_steps(self, steps: Steps[T]) -> T:
        def perform(step: Step) -> Any:
            if isinstance(step, Decide):
                return self._run(*step)
            if isinstance(step, Ask):
                return step.question()
            return getattr(self.fs, step.method)(*step.args, **step.kwargs)

        return walk(steps, perform)

    async def _walk_steps_async(self, steps: Steps[T]) -> T:
        async def perform(step: Step) -> Any:
            if isinstance(step, Decide):
                return await self._run_async(*step)
            if isinstance(step, Ask):
                return await self._asked(step.question)
            return await self._call(step.method, *step.args, **step.kwargs)

        return await walk_async(steps, perform)

    async def _asked(self, question: Callable[[], Any]) -> Any:
        # One at a time: a probe needs threads of the executor that the others would fill, waiting for it.
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            return await asyncio.to_thread(question)

    def _set_up_ledgers(self, session: str) -> None:
        raise NotImplementedError

    def _run(
        self,
        protocol: Protocol[Any],
        name: Name | None = None,
        deadline: float | None = None,
        creates: bool = False,
    ) -> Any:
        requests: list[Request] = []
        began = perf_counter()
        try:
            value = run(
                protocol,
                self.backend,
                self._mount.deadline if deadline is None else deadline,
                requests.append,
            )
        except BaseException as error:
            observe(self._arbiter, requests, began, name if creates else None, error)
            raise
        finally:
            self._forget(name)
        if is_observed():
            observe(self._arbiter, requests, began, name if creates else None)
        return value

    async def _run_async(
        self,
        protocol: Protocol[Any],
        name: Name | None = None,
        deadline: float | None = None,
        creates: bool = False,
    ) -> Any:
        bulk = join()
        requests: list[Request] = []
        began = perf_counter()
        try:
            value = await run_async(
                protocol,
                self.backend,
                self._mount.deadline if deadline is None else deadline,
                requests.append,
            )
        except BaseException as error:
            if bulk is not None:
                bulk.note(error)
            observe(self._arbiter, requests, began, name if creates else None, error)
            raise
        finally:
            self._forget(name)
        if is_observed():
            observe(self._arbiter, requests, began, name if creates else None)
        return value


def new_token() -> str:
    """Return a token for a creation."""
    # A UUID of version 4, as uuid.uuid4() makes it in three times the time. From the kernel each time: what a
    # process draws in advance, its fork or a restored snapshot of its machine would draw once more.
    drawn = os.urandom(16).hex()
    return f"{drawn[:8]}-{drawn[8:12]}-4{drawn[13:16]}-a{drawn[17:20]}-{drawn[20:]}"
