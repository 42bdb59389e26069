"""What a mount has: its options, the filesystem that it wraps, its store, its arbiter; how protocols run.

A mount has no opinion of names: that is the guard's. What it knows of its store and of the other mounts of a
table it has found out once: whether the store can be relied on, and whether all let the same arbiter decide.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mimetypes
import os
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from fsspec.asyn import _get_batch_size
from fsspec.transaction import Transaction

from putifabsent.backends.base import Absent, Creation, Found, Store
from putifabsent.backends.concurrency import AT_ONCE, PerProcess, in_thread
from putifabsent.backends.probe import BESIDE, NEEDED
from putifabsent.fsspec_plugin import stores
from putifabsent.fsspec_plugin.files import GuardedFile
from putifabsent.fsspec_plugin.options import (
    Options,
    lender,
    made_with,
    per_process,
    this_session,
    this_writer,
)
from putifabsent.fsspec_plugin.paths import Paths
from putifabsent.fsspec_plugin.steps import Aside, Call, Decide, Either, Step, Steps, Together, looked
from putifabsent.fsspec_plugin.telemetry import METRICS, log, observe
from putifabsent.shim.arbiter_choice import BY_THE_STORE, NATIVE, Terms, agree, look_for_others
from putifabsent.shim.drive import run, run_async, walk, walk_async
from putifabsent.shim.policy import Policy
from putifabsent.shim.requests import Head, List, read, tried

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    from putifabsent.backends.registries import Claims, Lock
    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol, Request

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_from_the_parent: list[object] = []
# So many protocols that don't wait for each other are run at once.
_TOGETHER = 16
MOST_KNOWN = 10_000
"""Of so many tables, and of so many keys that were lost, it is remembered that they were looked at."""
# So often another thread may remove what this one is about to remove.
_RACES = 16
# How s3fs and gcsfs call the type of a file that they put.
_TYPES = {"s3": "ContentType", "gcs": "content_type"}
_aside = PerProcess(lambda: ThreadPoolExecutor(AT_ONCE, "putifabsent-aside"))


class Cache(OrderedDict[K, V]):
    """What is known by name, up to so many: what was kept longest ago is forgotten."""

    def __init__(self, most: int = 1024) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: K, value: V) -> V:
        self[key] = value
        with contextlib.suppress(KeyError):  # another thread has made room for the next
            self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
        return value


class Mount:
    """One mount, in whichever process this is.

    ``wrapped`` is the class of the filesystem that it wraps, and ``target`` what that is made with, unless
    ``fs`` is there already. ``protocols`` are those of the guarded filesystem. With ``shares`` another
    filesystem of the same class and options may be had from fsspec's cache.
    """

    def __init__(
        self,
        options: Options,
        wrapped: type[AbstractFileSystem],
        target: Mapping[str, Any],
        fs: AbstractFileSystem | None,
        *,
        protocols: tuple[str, ...],
        shares: bool,
    ) -> None:
        self.wrapped = wrapped
        self._target = target
        self._shares = shares
        self._lender = lender.get()
        self.transaction: JointTransaction | None = None
        self.beginning = threading.Lock()  # of a transaction, and its end
        self._fs = fs or self._made()
        self.options = options
        self.kind = stores.kind_of(self._fs)
        self.has_folders = self.kind in ("local", "memory")  # more than the beginnings of names
        self.policy = Policy(options.formats, options.guard)
        self.writer = options.writer or this_writer()
        self.session = options.writer_session or this_session()
        self.paths = Paths(self, protocols)
        self.by_the_store = options.arbiter in BY_THE_STORE
        self._store: Store | None = None
        self._alike: Store | None = None
        self._making = threading.Lock()
        self._registry: Claims | Lock | None = (
            stores.registry_of(options.arbiter) if self._lender is None else self._lender.mount._registry
        )
        self._arbiter: Arbiter | None = None
        # What a bucket can be relied on for: some stores honour no conditions where versions are kept.
        self.relied: Cache[str, set[str]] = Cache()
        # Of tables whose other mounts were looked at, whether this one has agreed with them, too.
        self._agreed: Cache[str, bool] = Cache(MOST_KNOWN)
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        # A turn may hold on to it when nobody has its filesystem any more.
        per_process.add(self)

    # What it has

    @property
    def fs(self) -> AbstractFileSystem:
        under_way = self.transaction
        if under_way is not None and under_way.is_here and under_way.deferring is not None:
            deferring: AbstractFileSystem = under_way.deferring
            return deferring
        return self._undeferred

    @property
    def _undeferred(self) -> AbstractFileSystem:
        """The same, outside of transactions."""
        if self._fs is None:
            self._fs = self._made()
        return self._fs

    def _made(self) -> AbstractFileSystem:
        if self._lender is not None:
            return self._lender.mount._undeferred
        return self.wrapped(**self._target, skip_instance_cache=not self._shares)

    @property
    def store(self) -> Store:
        if self._store is None and self._lender is not None:
            self._store = self._lender.mount.store
        if self._store is None:
            with self._making:  # or those that borrow it at the same time have one each
                if self._store is None:
                    self._store = stores.store_of(self.fs, made_with(self.fs), self.options.deadline)
        return self._store

    @property
    def blocking_store(self) -> Store:
        """The store, or its like for who waits: an asynchronous client answers in its caller's loop alone."""
        if not getattr(self.fs, "asynchronous", False):
            return self.store
        with self._making:
            if self._alike is None:
                self._alike = stores.store_like(self.remade)
            return self._alike

    @property
    def arbiter(self) -> Arbiter | None:
        """What decides beside the store; None: the store itself does."""
        if self._arbiter is None and not self.by_the_store:
            self._arbiter = stores.arbiter_of(self.options.arbiter, self._registry, self.store)
        return self._arbiter

    @property
    def place(self) -> str:
        """What registries, and this process's turns, know the store by."""
        return stores.place_of(self.store)

    def forget_process(self) -> None:
        """In a forked child: no client, loop or thread of the parent works here."""
        # Kept for ever: collected here, the parent's client would close what the parent is using.
        _from_the_parent.append((self._fs, self._store, self._alike))
        self._fs = self._store = self._alike = None
        if (under_way := self.transaction) is not None:
            _from_the_parent.append((under_way.files, under_way.deferring))
            under_way.leave_to_parent()
        self._making, self.beginning = threading.Lock(), threading.Lock()

    def forget_listed(self, path: str) -> None:
        """Forget what the wrapped filesystem keeps of a listing with this name in it.

        Raises nothing: this comes after a decision, which an error of a cache would contradict.
        """
        try:
            if self.fs.dircache:
                for each in (path, self.fs._parent(path)):  # adlfs does not forget the folder
                    self._forget(each)
        except Exception:  # noqa: BLE001 - whatever it is, it changes no decision
            with contextlib.suppress(Exception):  # of somebody's log
                log.warning("a listing with %r in it may be an old one", path, exc_info=True)

    def _forget(self, path: str) -> None:
        # No lock helps: the client's own threads take none. Where another has removed an entry first, what is
        # above that is still to be forgotten.
        for _ in range(_RACES):
            with contextlib.suppress(KeyError):
                self.fs.invalidate_cache(path)
                return
        self.fs.invalidate_cache(path)

    def typed(self, file: Any, extra: dict[str, Any]) -> dict[str, Any]:
        """Return what goes with a put of a local file: its type, too, where others would say it."""
        key = _TYPES.get(self.kind)
        found = key and mimetypes.guess_type(file)[0]
        return {key: found, **extra} if key and found else extra

    def looker(self, name: Name) -> Creation:
        """Return a creation for one who only looks: what it finishes on the way goes under its token."""
        return Creation(new_token(), self.writer, name.state)

    def under(self, token: str, name: Name) -> Creation:
        """Return a creation under a token of somebody's, who may be using it elsewhere at the same time."""
        return self.looker(name)._replace(token=token, first_try=int.from_bytes(os.urandom(4), "big"))

    def is_there(self, path: str) -> Steps[bool]:
        """Say whether a file or a folder is there; no error is an absence, as to `exists` and `isdir`.

        Of a store that has no folders its own client says it: to the wrapped filesystem a page is an answer
        that some proxy gives in the store's place.
        """
        if not self.has_folders:
            seen: Found | Absent = yield Decide(read(Head(path)))
            return isinstance(seen, Found) or bool((yield Decide(_is_listed(path))))
        try:
            yield Call("info", (path,))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def beside(self, folder: str, beginning: str) -> Steps[list[str]]:
        """List what is in a folder, where a store can: only what begins so."""
        try:
            if self.has_folders:
                found = yield from looked(Call("ls", (folder,), {"detail": False}))
            else:
                found = yield from looked(Call("find", (folder,), {"prefix": beginning}))
        except FileNotFoundError:
            return []
        return [self.paths.full(each) for each in found]

    # Running

    def walk(self, steps: Steps[T]) -> T:
        try:
            return walk(steps, self._perform)
        finally:
            steps.close()  # an interrupt between two of them ends what they have begun, too

    async def walk_async(self, steps: Steps[T]) -> T:
        try:
            return await walk_async(steps, self._perform_async)
        finally:
            steps.close()

    def _perform(self, step: Step) -> Any:
        if isinstance(step, Decide):
            return self.run(*step)
        if isinstance(step, Together):
            return self._together(step.decisions)
        if isinstance(step, Aside):
            return step.work()
        if isinstance(step, Either):
            return step.called()
        return getattr(self.fs, step.method)(*step.args, **step.kwargs)

    async def _perform_async(self, step: Step) -> Any:
        if isinstance(step, Decide):
            return await self.run_async(*step)
        if isinstance(step, Together):
            return await self._together_async(step.decisions)
        # Not in the loop's own threads: what is done here may wait for a client that needs one of them.
        if isinstance(step, Aside):
            if not step.once:
                return await in_thread(step.work, _aside())
            async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                return await in_thread(step.work, _aside())
        if isinstance(step, Either):
            return await step.awaited()
        if self.fs.async_impl:
            return await getattr(self.fs, f"_{step.method}")(*step.args, **step.kwargs)
        return await asyncio.to_thread(getattr(self.fs, step.method), *step.args, **step.kwargs)

    def _together(self, decisions: list[Decide]) -> None:
        most = min(_TOGETHER, _get_batch_size(), len(decisions))
        if most <= 1 or self.store.endpoint() is None:  # there is nothing to wait for
            for each in decisions:
                self.run(*each)
            return
        with ThreadPoolExecutor(most, "putifabsent-together") as threads:
            for _ in threads.map(lambda each: self.run(*each), decisions):
                pass

    async def _together_async(self, decisions: list[Decide]) -> None:
        most = min(_TOGETHER, _get_batch_size())
        for first in range(0, len(decisions), most):
            running = (self.run_async(*each) for each in decisions[first : first + most])
            for ended in await asyncio.gather(*running, return_exceptions=True):
                if isinstance(ended, BaseException):
                    raise ended

    def run(
        self,
        protocol: Protocol[Any],
        name: Name | None = None,
        deadline: float | None = None,
        creates: bool = False,
    ) -> Any:
        """Run a protocol on the store, until the deadline; the parameters are :class:`Decide`'s."""
        store = self.blocking_store
        requests: list[Request] = []
        deadline = self.options.deadline if deadline is None else deadline
        began = perf_counter()
        try:
            value = run(protocol, store, deadline, requests.append)
        except BaseException as error:
            self._ended(requests, began, name, error, creates=creates)
            raise
        self._ended(requests, began, name, creates=creates)
        return value

    async def run_async(
        self,
        protocol: Protocol[Any],
        name: Name | None = None,
        deadline: float | None = None,
        creates: bool = False,
    ) -> Any:
        requests: list[Request] = []
        deadline = self.options.deadline if deadline is None else deadline
        began = perf_counter()
        try:
            value = await run_async(protocol, self.store, deadline, requests.append)
        except BaseException as error:
            self._ended(requests, began, name, error, creates=creates)
            raise
        self._ended(requests, began, name, creates=creates)
        return value

    def _ended(
        self,
        requests: list[Request],
        began: float,
        name: Name | None,
        error: BaseException | None = None,
        *,
        creates: bool,
    ) -> None:
        """See to what follows a protocol, however it has ended."""
        try:
            # Asked here, and not there: mostly nobody does, and that is a call less for each creation.
            listens = METRICS in sys.modules or log.isEnabledFor(logging.INFO)
            if listens or error is not None:
                observe(self.arbiter, requests, began, name if creates else None, error, listens=listens)
        finally:
            if name is not None:
                self.forget_listed(name.path)

    # Whether the store, and the other mounts of a table, can be relied on

    def relying(self, name: Name, *, judged: bool = False) -> Steps[None]:
        """Find out, once a bucket, before a name is decided about, whether store and mounts can be relied on.

        It is ``judged`` where more than the name decides, so that the store must be able to do more.
        """
        if self._needs(name, judged=judged):
            yield Aside(partial(self.rely, name, judged=judged), once=True)
        if not self._agreed.get(name.state):
            yield Decide(self.agreement(name, (yield from self._terms(name.state))))
            self._agreed.keep(name.state, True)

    def looking(self, states: Iterable[str], *, once: bool) -> Steps[None]:
        """Refuse where other mounts let another arbiter decide, before something of these tables is removed.

        Those would go on as if it were there; and with their records gone, two arbiters could decide. With
        ``once`` it is enough to have looked before.
        """
        for state in states:
            if once and state in self._agreed:
                continue
            yield Decide(look_for_others(state, (yield from self._terms(state))))
            if once:
                self._agreed.keep(state, self._agreed.get(state, False))  # another may have agreed

    def forget_below(self, folder: str) -> None:
        """Forget who decides about the tables in a folder that is removed: the next ones may have another."""
        for state in list(self._agreed):
            if state.startswith(f"{folder}/"):
                self._agreed.pop(state, None)

    def _terms(self, state: str) -> Steps[Terms]:
        terms: Terms = NATIVE
        if self.arbiter is not None:
            terms = yield Aside(partial(stores.terms_of, self.arbiter, state), once=True)
        return terms

    def rely(self, name: Name, *, judged: bool) -> None:
        if (judged or not self.by_the_store) and not self.store.lists_in_order(name.path):
            raise stores.unordered(self.options.arbiter, name.path)
        if needs := self._needs(name, judged=judged):
            folder, bucket = name.state.rpartition("/")[0], _bucket_of(name)
            stores.rely_on(self.options.arbiter, needs, self.store, folder, self.remade)
            self.relied.keep(bucket, {*self.relied.get(bucket, ()), *needs})

    def _needs(self, name: Name, *, judged: bool) -> list[str]:
        """Return what is to be found out of a name's bucket before it can be relied on."""
        wanted = NEEDED if self.arbiter is None else self.arbiter.needs
        relied = self.relied.get(_bucket_of(name), ())
        return [each for each in dict.fromkeys((*wanted, *(BESIDE if judged else ()))) if each not in relied]

    def agreement(self, name: Name, terms: Terms | None = None) -> Protocol[None]:
        """Find out whether all mounts of a table let the same arbiter decide."""
        if self.arbiter is None:
            return look_for_others(name.state, NATIVE)
        return agree(name.state, terms or stores.terms_of(self.arbiter, name.state), self.looker(name))

    @property
    def remade(self) -> stores.Remade:
        return type(self.fs), made_with(self.fs), self.options.deadline


def _is_listed(path: str) -> Protocol[bool]:
    """Say by listings whether a folder is there; or a file, where who has answered may not be the store."""
    inside, tries = yield from tried(List(path))
    if tries == 1:
        return bool(inside.entries)
    beside = yield from read(List(path.rpartition("/")[0]))
    return bool(inside.entries) or any(each.name == path for each in beside.entries)


def _bucket_of(name: Name) -> str:
    return name.path.partition("/")[0]


def new_token() -> str:
    """Return a token for a creation."""
    # A UUID of version 4, as uuid.uuid4() makes it in three times the time. From the kernel each time: what a
    # process draws in advance, its fork or a restored snapshot of its machine would draw once more.
    drawn = os.urandom(16).hex()
    return f"{drawn[:8]}-{drawn[8:12]}-4{drawn[13:16]}-a{drawn[17:20]}-{drawn[20:]}"


# --- transactions


class Deferring:
    """``_intrans``, which fsspec has: whether what is written here and now waits for a transaction's end."""

    def __get__(self, fs: Any, _: object = None) -> bool:
        """Ask the mount's transaction, if there is one."""
        under_way = None if fs is None or "mount" not in vars(fs) else fs.mount.transaction
        return under_way is not None and under_way.is_here

    def __set__(self, fs: Any, deferring: bool) -> None:
        """Take what fsspec sets, for all threads; it is not what counts."""


_begun: ContextVar[tuple[JointTransaction, ...]] = ContextVar("_begun", default=())


class JointTransaction(Transaction):
    """One transaction of the guarded and the wrapped filesystem, which ends whatever its files do.

    It is of the thread, or the task, that has begun it, and of what those begin: fsspec keeps filesystems for
    all of a process, and nobody else knows that what they write is deferred.

    fsspec 2025 leaves a transaction open where a commit fails, and a name that is taken is such a
    failure: every later write would be deferred, and never be committed.
    """

    fs: Any
    files: deque[Any]
    deferring: Any = None

    @property
    def is_here(self) -> bool:
        """Whether who asks has begun it."""
        return self in _begun.get()

    def start(self) -> None:
        """Defer what either filesystem opens here from now on, and nothing that others open.

        ``ValueError``: another is under way, and what that has deferred would be forgotten.
        """
        if (fs := self.fs) is None:
            raise ValueError("this transaction has ended: begin another, by `with fs.transaction`")
        mount = fs.mount
        with mount.beginning:
            if mount.transaction is not None or self.fs is None:
                fs._transaction = mount.transaction
                msg = (
                    "a transaction of this filesystem is under way: before the next one call "
                    "end_transaction(), which commits it, or transaction.complete(commit=False)"
                )
                raise ValueError(msg)
            super().start()
            shared = mount.fs
            self.deferring = object.__new__(type(shared))
            self.deferring.__dict__.update(shared.__dict__, _intrans=True, _transaction=self)
            _begun.set((*_begun.get(), self))
            mount.transaction = self

    def complete(self, commit: bool = True) -> None:
        """Commit all files in order, or discard them; after one that fails, discard the rest."""
        try:
            while self.files:
                file: Any = self.files[0]
                file.commit() if commit else _discard(file)
                self.files.popleft()
        finally:
            try:
                for file in self.files:
                    with contextlib.suppress(Exception):
                        _discard(file)
            finally:  # a second interrupt, too, leaves nobody deferring
                self._end()

    def _end(self) -> None:
        self.files.clear()
        fs = self.fs
        with fs.mount.beginning:
            if fs.mount.transaction in (self, None):  # of one that has not begun, another may be under way
                fs._transaction = fs.mount.transaction = None
            self.fs = None
        if self.deferring is not None:  # somebody may have kept it, as `fs.fs`
            self.deferring._intrans, self.deferring._transaction = False, None
            self.deferring = None
        _begun.set(tuple(each for each in _begun.get() if each is not self))

    def leave_to_parent(self) -> None:
        """In a forked child: who has begun it ends it, with its files; what is written here is not of it."""
        self.files, self.deferring = deque(), None
        self.fs._transaction = self.fs.mount.transaction = None


def _discard(file: Any) -> None:
    if isinstance(file, GuardedFile):
        file.outlived()
    file.discard()
