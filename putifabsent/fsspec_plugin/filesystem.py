"""The guarded filesystem: a plain write to a guarded name is a create; all else is the wrapped one's."""

from __future__ import annotations

import io
import os
import weakref
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import fsspec
from fsspec.asyn import get_loop
from fsspec.compression import compr
from fsspec.config import apply_config
from fsspec.core import get_compression
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem, _Cached
from fsspec.utils import stringify_path

from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.asked import Asked
from putifabsent.fsspec_plugin.delegation import delegated, is_wrapped_data, refuse_signed_write
from putifabsent.fsspec_plugin.files import CompressedFile, GuardedFile, GuardedText, ReadOnlyBytes
from putifabsent.fsspec_plugin.options import Mount, check_options, made_with, split, this_session
from putifabsent.fsspec_plugin.stores import kind_of
from putifabsent.fsspec_plugin.transactions import JointTransaction

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import Self

    from putifabsent.backends.body import Body
    from putifabsent.backends.streaming_upload import Ahead
    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.names import Name
    from putifabsent.shim.policy import Policy
    from putifabsent.shim.requests import Protocol

T = TypeVar("T")

__all__ = ["GuardedFileSystem", "sharing_clients"]

# By id, for fsspec's filesystems compare equal by their options.
_instances: weakref.WeakValueDictionary[int, GuardedFileSystem] = weakref.WeakValueDictionary()


_from_the_parent: list[object] = []


def _made_again(
    make: Callable[..., GuardedFileSystem],
    cls: type[GuardedFileSystem],
    args: tuple[Any, ...],
    options: dict[str, Any],
    writer: str,
    session: str,
) -> GuardedFileSystem:
    """Make a filesystem that was pickled: in another process, it works for the one that pickled it."""
    if session != this_session():
        options = {**options, "writer": writer, "writer_session": session}
    return make(cls, args, options)


def _class_to_wrap(
    fs: AbstractFileSystem | None = None, target_protocol: str | None = None, *_: Any, **__: Any
) -> type[AbstractFileSystem]:
    if fs is not None:
        return type(fs)
    if target_protocol is None:
        msg = "name a filesystem to guard: fs=..., target_protocol=..., or an address like putifabsent::s3://..."
        raise ConfigError(msg)
    found: type[AbstractFileSystem] = fsspec.get_filesystem_class(target_protocol)
    return found


def _is_mode(mode: str) -> bool:
    letters = {*mode}
    known = len(letters) == len(mode) and letters <= {*"rwxabt+"}
    return known and len(letters & {*"rwxa"}) == 1 and not letters >= {*"bt"}


def _after_fork() -> None:
    for instance in list(_instances.values()):
        instance._forget_process()


os.register_at_fork(after_in_child=_after_fork)


_skips_cache: ContextVar[bool] = ContextVar("_skips_cache", default=False)
_shares: ContextVar[bool] = ContextVar("_shares", default=False)


@contextmanager
def sharing_clients() -> Iterator[None]:
    """Make guarded filesystems anew, over wrapped ones that there are: for many mounts of one store."""
    token = _shares.set(True)
    try:
        yield
    finally:
        _shares.reset(token)


class _CachedToo(_Cached):
    """Hands down ``skip_instance_cache``, which fsspec takes away before the class is asked."""

    def __call__(cls, *args: Any, **options: Any) -> Any:  # noqa: N805 - of a metaclass
        skips = bool(apply_config(cls, options).get("skip_instance_cache"))
        token = _skips_cache.set(skips and not _shares.get())
        try:
            return super().__call__(*args, **options)
        finally:
            _skips_cache.reset(token)


class GuardedFileSystem(Asked, ChainedFileSystem, metaclass=_CachedToo):
    """Wraps a filesystem so that a guarded name is created at most once.

    Parameters
    ----------
    fs
        The filesystem to wrap.
    target_protocol, target_options
        If ``fs`` is not given: what to make it from.
    fo
        Given by fsspec in a chained address; not used, since paths stay the wrapped filesystem's.
    arbiter, formats, guard, writer, writer_session, salt, deadline
        The mount's own options: see :class:`~putifabsent.fsspec_plugin.options.Mount`.
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
    root_marker = ""
    transaction_type = JointTransaction

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Make one of a kind with what is wrapped: a local disk's is a ``LocalFileSystem``."""
        if cls is GuardedFileSystem and issubclass(_class_to_wrap(*args, **options), LocalFileSystem):
            from putifabsent.fsspec_plugin.disk import GuardedDisk

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
        own, others = split(options)
        wrapped = _class_to_wrap(fs, target_protocol)
        target = dict(target_options or {}) if fs is None else made_with(fs)
        check_options(others, GuardedFileSystem, "putifabsent")
        self._start(wrapped, target, own, fs, asynchronous=asynchronous, loop=loop, batch_size=batch_size)

    def _start(
        self,
        wrapped: type[AbstractFileSystem],
        target: Mapping[str, Any],
        own: Mapping[str, Any],
        fs: AbstractFileSystem | None = None,
        **asyn: Any,
    ) -> None:
        super().__init__(**asyn)
        self._wrapped_class = wrapped
        self._skips_cache = _skips_cache.get()
        self._target = dict(target)
        if self.asynchronous and wrapped.async_impl:
            self._target["asynchronous"] = True
        self._fs: AbstractFileSystem | None = fs or self._wrap()
        if wrapped.async_impl and self._fs.asynchronous != self.asynchronous:
            msg = "this filesystem and the one that it wraps must both be asynchronous=True, or neither"
            raise ConfigError(msg)
        self._set_up(Mount(**own), kind_of(self._fs))
        self.root_marker, self.blocksize = wrapped.root_marker, self._fs.blocksize
        plain = getattr(AbstractFileSystem._strip_protocol, "__func__", None)
        self._strips_plainly = getattr(wrapped._strip_protocol, "__func__", None) is plain
        # fsspec calls these on the class as well as on the instance, which alone knows what it wraps.
        self._strip_protocol = self._strip_as_wrapped  # type: ignore[method-assign]
        self._parent = wrapped._parent
        _instances[id(self)] = self

    # What is wrapped, in whichever process this is

    @property
    def fs(self) -> AbstractFileSystem:
        """The wrapped filesystem."""
        if self._fs is None:
            self._fs = self._wrap()
        return self._fs

    def _wrap(self) -> AbstractFileSystem:
        # An asynchronous client belongs to one loop, so it is not shared behind the caller's back.
        skips = self.asynchronous or self._skips_cache
        return self._wrapped_class(**self._target, skip_instance_cache=skips)

    @classmethod
    def clear_instance_cache(cls) -> None:
        """Forget the filesystems that were made, and the wrapped ones."""
        for wrapped in {made._wrapped_class for made in cls._cache.values()}:
            wrapped.clear_instance_cache()
        super().clear_instance_cache()

    @property
    def async_impl(self) -> bool:
        """Whether the wrapped filesystem is asynchronous; of one that is not, the methods go to threads."""
        return bool(self._wrapped_class.async_impl)

    @property
    def dircache(self) -> Any:
        """What the wrapped filesystem remembers of listings."""
        return self.fs.dircache

    @dircache.setter
    def dircache(self, value: Any) -> None:
        # fsspec's own constructor gives each filesystem one, before anything is wrapped.
        if "_fs" in vars(self):
            self.fs.dircache = value

    def __getattr__(self, name: str) -> Any:
        """Return what only the wrapped filesystem has: see :mod:`putifabsent.fsspec_plugin.delegation`."""
        if name.startswith("__") or "_fs" not in vars(self) or hasattr(type(self), name):
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg, name=name, obj=self)
        return delegated(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set what only the wrapped filesystem has there, as it is read there."""
        if "_fs" in vars(self) and is_wrapped_data(self, name):
            setattr(self.fs, name, value)
        else:
            super().__setattr__(name, value)

    # For rooms that work on what lies behind it

    @property
    def policy(self) -> Policy:
        """What says what a name is."""
        return self._policy

    @property
    def decider(self) -> Arbiter | None:
        """What decides beside the store; None: the store itself does."""
        return self._arbiter

    def rely(self, folder: str) -> None:
        """Find out whether the store does what this mount's arbiter rests on, as a creation does.

        Parameters
        ----------
        folder
            One in which a probe may write, below ``.putifabsent/``.

        Raises
        ------
        UnsafeStore
            It does not.
        """
        self._rely(self.explain(f"{folder}/name"))

    def perform(self, protocol: Protocol[T]) -> T:
        """Run a protocol of the shim on this mount's store, until its deadline."""
        done: T = self._run(protocol)
        return done

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that runs the asynchronous methods, if the caller has none."""
        if self._loop is None and not self.asynchronous:
            self._loop = get_loop()
        return self._loop

    def __reduce__(self) -> Any:
        """Take along for whom it works, and what fsspec's configuration has added here."""
        make, (cls, args, options) = super().__reduce__()
        return _made_again, (
            make,
            cls,
            args,
            self._with_configuration(options),
            self.writer,
            self.writer_session,
        )

    def _with_configuration(self, options: dict[str, Any]) -> dict[str, Any]:
        if "fs" in options:
            return options
        target = options.get("target_options") or {}
        added = self._configured(target)
        return {**options, "target_options": {**target, **added}} if added else options

    def _configured(self, said: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in self.fs.storage_options.items() if key not in said}

    def _forget_process(self) -> None:
        """In a forked child: no client, loop or thread of the parent works here."""
        # Kept for ever: collected here, the parent's client would close what the parent is using.
        _from_the_parent.append((self._fs, self._store))
        self._pid = os.getpid()
        self._fs = self._store = self._loop = None

    # Names

    @classmethod
    def _protocols(cls) -> tuple[str, ...]:
        return (cls.protocol,) if isinstance(cls.protocol, str) else cls.protocol

    @classmethod
    def _own(cls, path: Any) -> Any:
        if isinstance(path, str):
            for protocol in cls._protocols():
                if path.startswith(f"{protocol}://"):
                    return path[len(protocol) + 3 :]
            return path
        if isinstance(path, dict):
            return {cls._own(key): value for key, value in path.items()}
        if isinstance(path, (list, tuple, set)):
            return [cls._own(one) for one in path]
        if path is None:
            return ""
        plain = stringify_path(path)
        if not isinstance(plain, str):
            msg = f"a path must be a str or an os.PathLike of one, not {path!r}"
            raise TypeError(msg)
        return cls._own(plain)

    @classmethod
    def _own_if_address(cls, value: Any) -> Any:
        return cls._own(value) if isinstance(value, (str, list)) else value

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        path = cls._own(path)
        return [one.rstrip("/") for one in path] if isinstance(path, list) else path.rstrip("/")

    def _strip_as_wrapped(self, path: Any) -> Any:
        # Nearly every path, many times each: there is nothing to strip from it.
        if self._strips_plainly and type(path) is str and ":" not in path and path[-1:] not in ("", "/"):
            return path
        return self._wrapped_class._strip_protocol(self._own(path))

    def unstrip_protocol(self, name: str) -> str:
        """Return the address of a name."""
        return f"{self._protocols()[0]}::{self.fs.unstrip_protocol(self._own(name))}"

    def sign(self, path: str, *args: Any, **kwargs: Any) -> str:
        """Return a signed address; of a guarded name, only to read it."""
        refuse_signed_write(self, "sign", path, kwargs)
        return super().sign(path, *args, **kwargs)

    # Files

    def open(
        self,
        path: Any,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Open a file; for writing, a guarded name is created, complete, when it is closed.

        Raises
        ------
        NameTaken
            At once, where the name is seen to be taken, and for certain when the file is closed.
        io.UnsupportedOperation
            To append to a guarded name, or to change it: its bytes don't change.
        """
        common = {"block_size": block_size, "cache_options": cache_options, **kwargs}
        name = self._name_to_write(path, mode)
        if name is None:
            if self._would_give_itself(path, mode):
                return AbstractFileSystem.open(self, path, mode, compression=compression, **common)
            if "r" in mode:
                return self._read("open", path, mode, compression=compression, **common)
            return self.fs.open(self._written_as(path), mode, compression=compression, **common)
        text = {key: common.pop(key) for key in ("encoding", "errors", "newline") if key in common}
        file: Any = self._open_guarded(name, mode.replace("t", "").replace("b", "") + "b", **common)
        if compression is not None:
            compressor = compr[get_compression(name.path, compression)](file, mode="w")
            file = CompressedFile(compressor, file)
        return file if "b" in mode else GuardedText(file, **text)

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        """Open in binary mode; other wrapping filesystems call this one."""
        name = self._name_to_write(path, mode)
        if name is None:
            file = (
                self._read("_open", path, mode, **kwargs)
                if "r" in mode
                else self.fs._open(self._written_as(path), mode, **kwargs)
            )
            return ReadOnlyBytes(file.path, file.getvalue()) if self._would_give_itself(path, mode) else file
        return self._open_guarded(name, mode, **kwargs)

    async def open_async(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        """Open asynchronously; guarded names are written with ``_pipe_file`` or ``_put_file`` instead."""
        if "r" not in mode or "+" in mode:
            name = await self._promote_async(path, explicit="x" in mode)
            if name is not None:
                msg = f"{name.path} is guarded: write it whole, by _pipe_file or _put_file"
                raise io.UnsupportedOperation(msg)
            path = self._written_as(path)
        elif not self._reads_plainly(path):
            path = await self._key_of(path)
        return await self.fs.open_async(self._own(path), mode, **kwargs)

    def _would_give_itself(self, path: Any, mode: str) -> bool:
        # What memory hands out for reading is the object itself, and can be written.
        return self._kind == "memory" and "r" in mode and self.explain(path).guarded

    def _name_to_write(self, path: Any, mode: str) -> Name | None:
        if "r" in mode and "+" not in mode:
            return None
        name = self._promote(path, explicit="x" in mode)
        if name is None:
            return None
        if not _is_mode(mode):
            msg = f"invalid mode: {mode!r}"
            raise ValueError(msg)
        if "a" in mode or "r" in mode:
            msg = f"{name.path} is guarded: its bytes don't change, so it can't be opened with mode {mode!r}"
            raise io.UnsupportedOperation(msg)
        return name

    def _open_guarded(
        self,
        name: Name,
        mode: str,
        autocommit: bool | None = None,
        block_size: int | None = None,
        cache_type: str | None = None,
        cache_options: dict[str, Any] | None = None,
        **extra: Any,
    ) -> GuardedFile:
        del block_size, cache_type, cache_options

        def create(body: Body) -> None:
            self._create(name, body, extra)

        def ahead(file: IO[bytes]) -> Ahead | None:
            return self._stage_ahead(name, file, extra)

        self._look_early(name)
        commits = not self._intrans if autocommit is None else autocommit
        file = GuardedFile(name.path, mode, create, autocommit=commits, ahead=ahead)
        if not commits:
            self.transaction.files.append(file)
        return file

    def start_transaction(self) -> JointTransaction:
        """Defer writes, those of the wrapped filesystem, too, until :meth:`end_transaction`."""
        transaction: JointTransaction = super().start_transaction()
        transaction.start()
        return transaction
