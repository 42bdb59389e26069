"""The guarded filesystem: a plain write to a guarded name is a create; all else is the wrapped one's.

===========================  ======================================================
``pipe_file``, ``pipe``      create from bytes
``put_file``, ``put``        create from a local file
``cp_file``, ``copy``        create from another object
``mv``                       create from another object, which goes after a win
``touch``                    create an empty file
``open`` for writing         create when the file is closed
``rm`` and its kin           deleting frees a name
===========================  ======================================================

What becomes of a name is for :mod:`putifabsent.fsspec_plugin.guard` to say; here are fsspec's methods.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from stat import S_ISDIR
from typing import IO, TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from fsspec.asyn import AsyncFileSystem, get_loop
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import isfilelike

from putifabsent.backends.base import InMemory
from putifabsent.backends.streaming_upload import FileBody
from putifabsent.errors import ConfigError, Holder
from putifabsent.fsspec_plugin import files, many, queries
from putifabsent.fsspec_plugin.guard import Guard
from putifabsent.fsspec_plugin.ledgers import Turn
from putifabsent.fsspec_plugin.mount import Deferring, JointTransaction, Mount
from putifabsent.fsspec_plugin.options import (
    CachedToo,
    Options,
    check_options,
    class_has,
    class_to_wrap,
    commits_of,
    made_again,
    made_with,
    skips_cache,
    split,
)
from putifabsent.fsspec_plugin.paths import own
from putifabsent.fsspec_plugin.slots import Slot
from putifabsent.fsspec_plugin.steps import Aside, Call, Steps, in_both_colours
from putifabsent.fsspec_plugin.stores import verdicts_of
from putifabsent.shim.names import states_at

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem
    from typing_extensions import Self

    from putifabsent.backends.base import Store, Verdict
    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.names import Name
    from putifabsent.shim.policy import Policy
    from putifabsent.shim.requests import Protocol

T = TypeVar("T")

_made_again = made_again  # so it is called in what version 0.1.0 has pickled

_EMPTY = InMemory(b"")
_PIECE = 2**20


class GuardedFileSystem(AsyncFileSystem, ChainedFileSystem, metaclass=CachedToo):
    """Wraps a filesystem so that a guarded name is created at most once.

    Parameters
    ----------
    fs
        The filesystem to wrap.
    target_protocol, target_options
        If ``fs`` is not given: what to make it from.
    fo
        Given by fsspec in a chained address; not used, since paths stay the wrapped filesystem's.
    arbiter, formats, guard, writer, writer_session, salt, strict, inspect, deadline
        The mount's own options: see :class:`~putifabsent.fsspec_plugin.options.Options`.
    asynchronous, loop, batch_size, use_listings_cache, listings_expiry_time, max_paths
        As for every fsspec filesystem.

    Examples
    --------
    >>> import fsspec
    >>> fs = fsspec.filesystem("piamemory")
    >>> fs.pipe_file("/t/_delta_log/00000000000000000000.json", b"{}")
    >>> fs.pipe_file("/t/_delta_log/00000000000000000000.json", b"{}")
    Traceback (most recent call last):
    putifabsent.errors.NameTaken: ...
    """

    protocol: ClassVar[str | tuple[str, ...]] = "putifabsent"
    _loop: asyncio.AbstractEventLoop | None
    _pid: int
    mount: Mount  # the wrapped filesystem, its store and its arbiter
    guard: Guard  # what says what becomes of a name
    root_marker = ""
    transaction_type = JointTransaction
    _intrans = Deferring()

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Make one of a kind with what is wrapped: a local disk's is a ``LocalFileSystem``."""
        if cls is GuardedFileSystem and issubclass(class_to_wrap(*args, **options), LocalFileSystem):
            from putifabsent.fsspec_plugin.protocols import GuardedDisk

            return cast("Self", object.__new__(GuardedDisk))
        return object.__new__(cls)

    def __init__(
        self,
        fs: AbstractFileSystem | None = None,
        target_protocol: str | None = None,
        target_options: Mapping[str, Any] | None = None,
        fo: str | None = None,
        asynchronous: bool = False,
        loop: asyncio.AbstractEventLoop | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        del fo
        mounts, others = split(options)
        wrapped = class_to_wrap(fs, target_protocol)
        check_options(others, GuardedFileSystem, "putifabsent")
        target = {**others, **(target_options or {})} if fs is None else made_with(fs)
        self._start(wrapped, target, mounts, fs, asynchronous=asynchronous, loop=loop, batch_size=batch_size)

    def _start(
        self,
        wrapped: type[AbstractFileSystem],
        target: Mapping[str, Any],
        options: Mapping[str, Any],
        fs: AbstractFileSystem | None = None,
        **asyn: Any,
    ) -> None:
        super().__init__(**asyn)
        for each in ("auto_mkdir", "dircache"):  # fsspec's constructors set them: they are the wrapped one's
            self.__dict__.pop(each, None)
        is_foreign = self.asynchronous and wrapped.async_impl
        if wrapped.async_impl and fs is None and asyn.get("loop") is not None:
            target = {"loop": asyn["loop"], **target}  # both work in one
        mount = Mount(
            Options(**options),
            wrapped,
            {**target, "asynchronous": True} if is_foreign else dict(target),
            fs,
            protocols=self._protocols(),
            # An asynchronous client belongs to one loop, so it is not shared behind the caller's back.
            shares=not (skips_cache.get() or self.asynchronous),
        )
        if wrapped.async_impl and mount.fs.asynchronous != self.asynchronous:
            msg = "this filesystem and the one that it wraps must both be asynchronous=True, or neither"
            raise ConfigError(msg)
        self.guard = Guard(mount, lambda: commits_of(self))
        self.mount = mount
        self.root_marker, self.blocksize = wrapped.root_marker, mount.fs.blocksize
        # fsspec calls these on the class as well as on the instance, which alone knows what it wraps.
        self._strip_protocol = mount.paths.strip  # type: ignore[method-assign]
        self._parent = wrapped._parent

    # What is wrapped, in whichever process this is

    @property
    def fs(self) -> AbstractFileSystem:
        return self.mount.fs

    @classmethod
    def clear_instance_cache(cls) -> None:
        """Forget the filesystems that were made, and the wrapped ones."""
        for wrapped in {made.mount.wrapped for made in list(cls._cache.values())}:
            wrapped.clear_instance_cache()
        super().clear_instance_cache()

    @property
    def async_impl(self) -> bool:
        """Whether the wrapped filesystem is asynchronous; of one that is not, the methods go to threads."""
        return bool(self.mount.wrapped.async_impl)

    def __getattr__(self, name: str) -> Any:
        """Return what only the wrapped filesystem has: see :mod:`putifabsent.fsspec_plugin.queries`."""
        if name.startswith("__") or "mount" not in vars(self) or class_has(type(self), name):
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg, name=name, obj=self)
        return queries.delegated(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set what only the wrapped filesystem has there, as it is read there."""
        if "mount" not in vars(self):
            super().__setattr__(name, value)
        elif name in ("guard", "mount"):
            msg = f"{name} can't be set: make another filesystem, with other options"
            raise AttributeError(msg, name=name, obj=self)
        elif queries.is_wrapped_data(self, name):
            setattr(self.fs, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that runs the asynchronous methods, if the caller has none; a fork has one of its own."""
        loop = self._loop if self._pid == os.getpid() else None
        if loop is None:
            loop = None if self.asynchronous else get_loop()
            # In this order: other threads of a fork may look meanwhile.
            self._loop, self._pid = loop, os.getpid()
        return loop

    def __repr__(self) -> str:
        options = self.mount.options
        arbiter = options.arbiter if "@" not in options.arbiter else options.arbiter.partition(":")[0]
        # Its address, too: fsspec takes two for one and the same whose words are the same.
        over = self.mount.wrapped.__name__
        return f"<{type(self).__name__} at {id(self):#x}, over {over}, arbiter {arbiter}>"

    def __reduce__(self) -> Any:
        """Take along for whom it works, and what fsspec's configuration has added here."""
        make, (cls, args, options) = super().__reduce__()
        options = self._with_configuration(options)
        return made_again, (make, cls, args, options, self.writer, self.writer_session)

    def _with_configuration(self, options: dict[str, Any]) -> dict[str, Any]:
        if "fs" in options:
            return options
        target = options.get("target_options") or {}
        added = self._configured(target)
        return {**options, "target_options": {**target, **added}} if added else options

    def _configured(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in self.fs.storage_options.items() if key not in given}

    # For rooms that work on what lies behind it

    @property
    def writer(self) -> str:
        """The application's UUID, kept with every object that it creates."""
        return self.mount.writer

    @property
    def writer_session(self) -> str:
        """One process's life of a writer: what is opened in it, no other completes unawares."""
        return self.mount.session

    @property
    def backend(self) -> Store:
        return self.mount.store

    @property
    def policy(self) -> Policy:
        """What says what a name is."""
        return self.mount.policy

    @property
    def decider(self) -> Arbiter | None:
        """What decides beside the store; None: the store itself does."""
        return self.mount.arbiter

    def explain(self, path: str) -> Name:
        """Say what a name is to its table format, and how it is guarded. Asks no store."""
        return self.guard.explain(path)

    def rely(self, folder: str) -> None:
        """Find out whether the store does what this mount's arbiter rests on, as a creation does.

        A probe may write below ``.putifabsent/`` in ``folder``. ``UnsafeStore``: it does not.
        """
        self.mount.rely(self.explain(f"{folder}/name"), judged=False)

    def refuse_other_arbiters(self, table: str) -> None:
        """Refuse, by ``ConfigError``, a table whose other mounts let another arbiter decide than this one.

        What that has decided is not all to be seen here.
        """
        self.mount.walk(self.mount.looking(states_at(self.mount.paths.full(table)), once=False))

    def verdicts(self, path: str) -> dict[str, Verdict]:
        """Return what a probe finds of the store, or has found; it may write in ``.putifabsent/``."""
        return verdicts_of(self.mount.store, self._strip_protocol(path), self.mount.remade)

    def perform(self, protocol: Protocol[T]) -> T:
        """Run a protocol of the shim on this mount's store, until its deadline."""
        done: T = self.mount.run(protocol)
        return done

    @in_both_colours()
    def resolve(self, path: str, creation_token: str) -> Steps[Holder | None]:
        """Answer an unknown outcome later, by ``OutcomeUnknown.token``.

        The creation itself is returned if it won. None: it does not hold the name now; it may never have
        happened, may have been deleted since, or, within minutes, may still land.

        ``NameTaken``: another creation holds the name now. It is a loss only if that was there before this
        one was sent: the store alone keeps nothing of what was deleted since. ``OutcomeUnknown``: the store
        can't be read; or another creation holds the name, and this one may have before.
        """
        return (yield from self.guard.resolving(path, creation_token))

    def turn(self, table: str, *, lease: float = 60.0, timeout: float | None = None) -> Turn:
        """Return a :class:`~putifabsent.fsspec_plugin.ledgers.Turn`, a lock for ``with``, ``async with``."""
        return Turn(self.guard, self.mount.paths.full(table), lease, timeout)

    def slot(
        self, table: str, *, partitions: Iterable[str] | None = None, timeout: float | None = None
    ) -> Slot:
        """Return a :class:`~putifabsent.fsspec_plugin.slots.Slot`, for ``with``, ``async with``."""
        return Slot(self.guard, self.mount.paths.full(table), partitions, timeout)

    def ledger(self, table: str) -> Ledger:
        """Return a table's ledger, of which nothing is read yet, for somebody who looks after the table.

        A table is named as for a :class:`~putifabsent.fsspec_plugin.ledgers.Turn`.
        """
        ledgers = self.guard.ledgers
        return ledgers.new(self.mount.walk(ledgers.table_for_turns(self.mount.paths.full(table))))

    # Names

    @classmethod
    def _protocols(cls) -> tuple[str, ...]:
        return (cls.protocol,) if isinstance(cls.protocol, str) else cls.protocol

    @classmethod
    def _own(cls, path: Any) -> Any:
        """Return paths without this filesystem's own protocol; the wrapped one does the rest."""
        return own(path, cls._protocols())

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        path = cls._own(path)
        return [one.rstrip("/") for one in path] if isinstance(path, list) else path.rstrip("/")

    def unstrip_protocol(self, name: str) -> str:
        return f"{self._protocols()[0]}::{self.fs.unstrip_protocol(self._own(name))}"

    # What is there

    cat_file, cat, cat_ranges = queries.cat_file, queries.cat, queries.cat_ranges
    exists, isfile, isdir, size = queries.exists, queries.isfile, queries.isdir, queries.size
    info, checksum, ukey = queries.info, queries.checksum, queries.ukey
    created, modified, sign, du = queries.created, queries.modified, queries.sign, queries.du
    ls, find, glob, expand_path = queries.ls, queries.find, queries.glob, queries.expand_path
    invalidate_cache = queries.invalidate_cache

    # Creating one file

    @in_both_colours(like=2)
    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> Steps[Any]:
        """Write bytes. ``mode="create"`` creates on every name."""
        name = yield from self.guard.promoting(path, explicit=_creates(mode))
        if name is None:
            return (yield Call("pipe_file", (self.guard.written_as(path), value), kwargs))
        if self._intrans:
            return (yield Aside(partial(self._defer, path, lambda file: file.write(value), kwargs)))
        return (yield from self.guard.creating(name, InMemory(value), kwargs))

    @in_both_colours(like=2)
    def put_file(
        self, lpath: Any, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **kwargs: Any
    ) -> Steps[Any]:
        """Upload a local file. ``mode="create"`` creates on every name.

        A ``callback`` that fails when the name is there is logged: its error would say that the name is not.
        """
        name = None
        if self.mount.kind == "local":
            lpath = self.fs._strip_protocol(self._own(lpath))
        # A missing file fails before a ledger is consulted, which may take an instant over.
        if not S_ISDIR((yield Aside(Path(lpath).stat)).st_mode):
            name = yield from self.guard.promoting(rpath, explicit=_creates(mode))
        if name is None:
            # Not every filesystem's has one.
            options = kwargs if callback is DEFAULT_CALLBACK else {"callback": callback, **kwargs}
            return (yield Call("put_file", (lpath, self.guard.written_as(rpath)), options))
        kwargs = self.mount.typed(lpath, kwargs)
        with Path(lpath).open("rb") as file:
            body = FileBody(file)
            callback.set_size(body.size)
            if self._intrans:
                # Not the file, which may be one that is read once: by now the body has all of it.
                pieces = (body.read(*each) for each in body.ranges(_PIECE))
                yield Aside(partial(self._defer, rpath, lambda kept: kept.writelines(pieces), kwargs))
            else:
                yield from self.guard.creating(name, body, kwargs)
        many.tell(partial(callback.absolute_update, body.size), rpath)
        return None

    def _defer(self, path: str, write: Callable[[IO[bytes]], object], kwargs: dict[str, Any]) -> None:
        with self.open(path, "xb", **kwargs) as file:
            write(file)

    @in_both_colours(like=2)
    def get_file(self, rpath: str, lpath: Any = None, **kwargs: Any) -> Steps[Any]:
        """Copy a file to local disk; where that is what is guarded, the copy is a write like any other."""
        if self.mount.kind == "local" and lpath is not None and not isfilelike(lpath):
            return (yield from self._copying(rpath, lpath, {}))
        return (yield from self.guard.reads.reading("get_file", rpath, (lpath,), kwargs))

    @in_both_colours(like=2)
    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> Steps[Any]:
        return (yield from self._copying(path1, path2, kwargs))

    def _copying(self, path1: str, path2: str, kwargs: dict[str, Any]) -> Steps[Any]:
        name = yield from self.guard.promoting(path2)
        if name is not None:
            try:
                source = self._source(path1, name)
                return (yield from self.guard.creating_from(source, name, kwargs, keep=True))
            except (FileNotFoundError, IsADirectoryError):
                # An object store's folder may be an object, too: its own copy would put that over the name.
                if not self.mount.has_folders or not (yield Call("isdir", (self._own(path1),))):
                    raise
        target = self.guard.written_as(path2)
        return (yield from self.guard.reads.reading("cp_file", path1, (target,), kwargs))

    def _source(self, path: Any, name: Name) -> str:
        """Return the full name of what ``name`` is to be created from."""
        if self._intrans:
            msg = f"{name.path} is guarded: a transaction defers what is written, but no copies and no moves"
            raise io.UnsupportedOperation(msg)
        return self.guard.source(path, name)

    async def _mv_file(self, path1: str, path2: str, **kwargs: Any) -> Any:
        guard, mount = self.guard, self.mount
        name = await mount.walk_async(guard.promoting(path2))
        if name is not None:
            source = self._source(path1, name)
            return await mount.walk_async(guard.creating_from(source, name, kwargs, keep=False))
        paths = mount.paths
        if not paths.is_a_version(path1) and paths.full(path1) == paths.full(path2):
            await self._info(path1)  # one that is not there is told
            return None
        if mount.arbiter is not None or guard.salts is not None or guard.is_judged(self.explain(path1)):
            await self._cp_file(path1, path2)
            return await self._rm_file(path1)
        if self.fs.async_impl:
            return await self.fs._mv_file(self._own(path1), self._own(path2), **kwargs)
        return await asyncio.to_thread(self.mv, path1, path2, **kwargs)

    @in_both_colours(like=1)
    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> Steps[Any]:
        """Create an empty file, or, with ``truncate=False``, mark one as modified, where a store can.

        Of a guarded name that is there ``NameTaken``, if it is to be emptied; ``io.UnsupportedOperation``, if
        it is to be marked.
        """
        name = yield from self.guard.promoting(path)
        if name is None:
            return (yield Call("touch", (self.guard.written_as(path),), {"truncate": truncate, **kwargs}))
        if not truncate:
            yield from self.guard.refuse_mark(name)
        if self._intrans:
            return (yield Aside(partial(self._defer, path, lambda file: file.write(b""), kwargs)))
        return (yield from self.guard.creating(name, _EMPTY, kwargs))

    open, _open, open_async = files.open, files.open_binary, files.open_async

    # Creating several

    pipe, _pipe = many.pipe, many.pipe_async
    mv = many.mv

    @in_both_colours()
    def put(self, lpath: Any, rpath: Any, *args: Any, **kwargs: Any) -> Steps[Any]:
        return (yield from many.between(self, "put", lpath, self._own(rpath), *args, **kwargs))

    @in_both_colours()
    def get(self, rpath: Any, lpath: Any, *args: Any, **kwargs: Any) -> Steps[Any]:
        return (yield from many.between(self, "get", self._own(rpath), lpath, *args, **kwargs))

    @in_both_colours()
    def copy(self, path1: Any, path2: Any, *args: Any, **kwargs: Any) -> Steps[Any]:
        return (yield from many.between(self, "copy", self._own(path1), self._own(path2), *args, **kwargs))

    # Removing

    @in_both_colours(like=1)
    def rm(
        self, path: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> Steps[Any]:
        removals = self.guard.removals
        if recursive and maxdepth is None and removals.is_a_pattern(path):
            # A table goes with what is hidden in it, as it does by its own name.
            found = yield from queries.expanding(self, path)
            path = found if removals.are_folders(found) else path
        if not removals.is_a_pattern(path) and removals.plainly(path, recursive=recursive):
            yield from removals.before_plainly(path, recursive=recursive, maxdepth=maxdepth)
            options = {"recursive": recursive, "maxdepth": maxdepth, **kwargs}
            return (yield Call("rm", (self._own(path),), options))
        one_by_one = recursive and removals.one_by_one(path, bounded=maxdepth is not None)
        expanding = queries.literally if self.mount.kind == "local" else queries.expanding
        depth = maxdepth if one_by_one else None
        found = yield from expanding(self, path, recursive=one_by_one, maxdepth=depth)
        return (yield from removals.removing(found, below=recursive, one_by_one=one_by_one))

    @in_both_colours()
    def rm_file(self, path: str, **kwargs: Any) -> Steps[Any]:
        yield from self.guard.removals.looking(path)
        if self.guard.removals.plainly(path):
            return (yield Call("rm_file", (self._own(path),), kwargs))
        return (yield from self.guard.removals.removing_file(path, kwargs))

    # Folders: the wrapped filesystem's

    @in_both_colours(like=1)
    def rmdir(self, path: str, **kwargs: Any) -> Steps[Any]:
        return (yield Call("rmdir", (self._own(path),), kwargs))

    @in_both_colours()
    def mkdir(self, path: str, *args: Any, **kwargs: Any) -> Steps[Any]:
        return (yield Call("mkdir", (self._own(path), *args), kwargs))

    def makedir(self, path: str, *args: Any, **kwargs: Any) -> Any:
        return self.fs.makedir(self._own(path), *args, **kwargs)

    @in_both_colours()
    def makedirs(self, path: str, exist_ok: bool = False) -> Steps[Any]:
        return (yield Call("makedirs", (self._own(path),), {"exist_ok": exist_ok}))

    def start_transaction(self) -> JointTransaction:
        """Defer writes, those of the wrapped filesystem, too, until :meth:`end_transaction`."""
        transaction: JointTransaction = super().start_transaction()
        transaction.start()
        return transaction


def _creates(mode: str) -> bool:
    if mode not in ("create", "overwrite"):
        raise ValueError(f"mode must be 'create' or 'overwrite', not {mode!r}")
    return mode == "create"
