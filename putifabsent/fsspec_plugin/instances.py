"""How guarded filesystems come to be: made, shared, pickled, forked."""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.config import apply_config
from fsspec.spec import AbstractFileSystem, _Cached
from fsspec.utils import tokenize

from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.options import made_with, this_session

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
    from putifabsent.fsspec_plugin.mount import Mount
    from putifabsent.inspection.inspecting import Commits

_known: weakref.WeakSet[Mount | Commits] = weakref.WeakSet()
# Those of other processes, by all their options but for whom they work.
_alike: weakref.WeakValueDictionary[str, GuardedFileSystem] = weakref.WeakValueDictionary()
# fsspec keeps what it has made; of those it keeps these, by their tokens there, the oldest first.
_kept: OrderedDict[str, type[GuardedFileSystem]] = OrderedDict()
MOST_KEPT = 1024


def made_again(
    make: Callable[..., GuardedFileSystem],
    cls: type[GuardedFileSystem],
    args: tuple[Any, ...],
    options: dict[str, Any],
    writer: str,
    session: str,
) -> GuardedFileSystem:
    """Make a filesystem that was pickled: in another process, it works for the one that pickled it.

    A process that lives long may work for very many. Those whose options are the same share their clients,
    and those that have not come for the longest time are forgotten.
    """
    if session == this_session():
        return make(cls, args, options)
    own: dict[str, Any] = {"writer": writer, "writer_session": session}
    key = None
    if options.keys().isdisjoint(("fs", "asynchronous")):  # else their clients are another's, or of one loop
        others = {each: value for each, value in options.items() if each not in own}
        key = tokenize(cls, *args, **apply_config(cls, others))
    with borrowing(None if key is None else _alike.get(key)):
        made = make(cls, args, options | own)
    if key is not None:
        _alike.setdefault(key, made)
    _keep(made)
    return made


def _keep(made: GuardedFileSystem) -> None:
    token = str(made._fs_token_)
    _kept.pop(token, None)
    _kept[token] = type(made)
    if len(_kept) > MOST_KEPT:
        oldest, cls = _kept.popitem(last=False)
        cls._cache.pop(oldest, None)


def class_to_wrap(
    fs: AbstractFileSystem | None = None, target_protocol: str | None = None, *_: Any, **__: Any
) -> type[AbstractFileSystem]:
    """Return the class that the arguments of a guarded filesystem name, or raise ``ConfigError``."""
    if fs is not None:
        return type(fs)
    if target_protocol is None:
        msg = "name a filesystem to guard: fs=..., target_protocol=..., or an address like putifabsent::s3://..."
        raise ConfigError(msg)
    found: type[AbstractFileSystem] = fsspec.get_filesystem_class(target_protocol)
    return found


def commits_of(fs: GuardedFileSystem) -> Commits:
    """Return what judges commits upon the tables in a guarded filesystem."""
    from putifabsent.inspection.inspecting import Commits

    lends = lender()
    # A table is the same for all, but where each session has files of its own under one name.
    if lends is not None and lends.guard.commits is not None and lends.guard.salts is None:
        return lends.guard.commits
    # It is a part of the filesystem, and is not to keep it.
    proxy: Any = weakref.proxy(fs)
    commits = Commits(partial(_for_threads, proxy))
    remember(commits)
    return commits


def _for_threads(fs: GuardedFileSystem) -> GuardedFileSystem:
    """Return a filesystem, or its like: who waits for an asynchronous one keeps its loop from answering."""
    if not fs.asynchronous:
        return fs
    own: dict[str, Any] = {"asynchronous": False, "skip_instance_cache": True}
    options = {**fs.storage_options, **own, "inspect": None}
    if "fs" in options:
        options["fs"] = type(fs.fs)(**{**made_with(fs.fs), **own})
    options.pop("loop", None)
    return fs.__class__(*fs.storage_args, **options)


def class_has(cls: type, name: str) -> bool:
    """Whether a class or one of its bases has a name itself, and not by its metaclass."""
    return any(name in vars(base) for base in cls.__mro__)


def _after_fork() -> None:
    for instance in list(_known):
        instance.forget_process()


os.register_at_fork(after_in_child=_after_fork)


_skips_cache: ContextVar[bool] = ContextVar("_skips_cache", default=False)
_lender: ContextVar[GuardedFileSystem | None] = ContextVar("_lender", default=None)


@contextmanager
def borrowing(fs: GuardedFileSystem | None) -> Iterator[None]:
    """Make filesystems that use another's clients, and keep it; its options are theirs but for the writer."""
    token = _lender.set(fs)
    try:
        yield
    finally:
        _lender.reset(token)


def lender() -> GuardedFileSystem | None:
    """Return whose clients the filesystem that is being made uses, if it has none of its own."""
    return _lender.get()


class CachedToo(_Cached):
    """Hands down ``skip_instance_cache``, which fsspec takes away before the class is called."""

    def __call__(cls, *args: Any, **options: Any) -> Any:  # noqa: N805 - of a metaclass
        skips = not cls.cachable or bool(apply_config(cls, options).get("skip_instance_cache"))
        token = _skips_cache.set(skips)
        try:
            return super().__call__(*args, **options)
        finally:
            _skips_cache.reset(token)


def remember(made: Mount | Commits) -> None:
    """Have it forget what works in one process alone, in each forked child, as long as anybody has it."""
    _known.add(made)


def is_shared() -> bool:
    """Whether the filesystem that is being made wraps one that others have, too."""
    return not _skips_cache.get()
