"""A mount's options, and how guarded filesystems come to be: made, shared, pickled, forked."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import math
import os
import uuid
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.asyn import AsyncFileSystem
from fsspec.config import apply_config
from fsspec.spec import AbstractFileSystem, _Cached
from fsspec.utils import tokenize

from putifabsent.backends.registry_urls import ARBITER, SCHEMES
from putifabsent.errors import ConfigError
from putifabsent.shim.arbiter_choice import BY_THE_STORE, validate

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
    from putifabsent.fsspec_plugin.mount import Mount
    from putifabsent.inspection.inspecting import Commits

_FSSPEC = {
    "skip_instance_cache", "use_listings_cache", "listings_expiry_time", "max_paths",
    "asynchronous", "loop", "batch_size",
}  # fmt: skip
SALTED = ("slices", "keep-both")  # with these, Hudi's files have the session in their names
_FLAGS = {"true": True, "false": False}
_BY_PROTOCOL = {"s3": {"profile"}}


def this_writer() -> str:
    """Return the writer's UUID: ``PUTIFABSENT_WRITER``, or one made once a process."""
    return os.environ.get("PUTIFABSENT_WRITER") or _MADE_ONCE


# Made at once, for two threads must not make two.
_MADE_ONCE, _SESSION = str(uuid.uuid4()), str(uuid.uuid4())


def this_session() -> str:
    """Return this process's own session: its forks work for it, and a restart is another one."""
    return _SESSION


@dataclass(frozen=True)
class Options:
    """A mount's own options: ``docs/reference/options.md`` says what each means to who sets it."""

    # ``"auto"``, ``"native"``, ``"ballot"`` or a registry's address: the same in all mounts of a table.
    arbiter: str = field(default_factory=lambda: os.environ.get(ARBITER) or "auto")
    # ``"auto"``: every format's names; those that other programs use as well need evidence beside them. A
    # list of formats: only theirs, without evidence.
    formats: str | Sequence[str] = "auto"
    # Globs of more names to guard (``*`` stays within a folder, ``**`` does not).
    guard: str | Sequence[str] = ()
    writer: str | None = None  # the application's UUID; by default :func:`this_writer`
    # The UUID of the process for which this one works, as an executor does for its driver: a filesystem that
    # is pickled takes it along. By default :func:`this_session`.
    writer_session: str | None = None
    salt: str | None = None  # one of :data:`SALTED`, in all mounts of the table, its readers' too
    strict: bool = False  # refuse what a Hudi timeline has no step for
    inspect: str | None = None  # ``"commits"``: refuse a commit that would hurt its table
    # Which of Hudi's commits wait for others that write the same file groups: ``"inserts"``, those that only
    # insert rows; True, all whose rows were not read from the table, and clusterings; False, none.
    tower: bool | str = "inserts"
    deadline: float = 30.0  # seconds after which an unanswered creation is ``OutcomeUnknown``

    def __post_init__(self) -> None:
        """Refuse what can't be meant."""
        validate(self.arbiter, SCHEMES)
        if self.salt not in (None, "off", *SALTED):
            raise ConfigError(f"salt must be one of 'off', {', '.join(map(repr, SALTED))}, not {self.salt!r}")
        if self.salt == "keep-both" and self.arbiter not in BY_THE_STORE:
            msg = f"salt='keep-both' is for where no arbiter can be had: without it, {self.arbiter!r} decides"
            raise ConfigError(msg)
        # Options come from catalogs and configuration files, too: their types are not to be trusted.
        object.__setattr__(self, "strict", _flag("strict", self.strict))
        if self.tower != "inserts":
            object.__setattr__(self, "tower", _flag("tower", self.tower, "True, False or 'inserts'"))
        if self.strict and self.salt == "keep-both":
            msg = "strict=True is for instants that are unique: salt='keep-both' keeps several under one name"
            raise ConfigError(msg)
        if self.inspect not in (None, "off", "commits"):
            raise ConfigError(f"inspect must be 'commits' or 'off', not {self.inspect!r}")
        object.__setattr__(self, "deadline", _seconds("deadline", self.deadline))
        for option in ("writer", "writer_session"):
            value: Any = getattr(self, option)
            if value is not None and not (isinstance(value, str) and value.isascii() and value.isprintable()):
                msg = f"{option} must be printable ASCII, such as a UUID, not {value!r}: it becomes a header"
                raise ConfigError(msg)


def _flag(option: str, given: Any, allowed: str = "True or False") -> bool:
    found = _FLAGS.get(given.lower()) if isinstance(given, str) else given
    if not isinstance(found, bool):
        raise ConfigError(f"{option} must be {allowed}, not {given!r}")
    return found


def _seconds(option: str, given: Any) -> float:
    found = given
    if isinstance(given, str):
        with contextlib.suppress(ValueError):
            found = float(given)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 < found < math.inf:
        raise ConfigError(f"{option} must be a positive number of seconds, not {given!r}")
    return found


def check_options(given: Iterable[str], wrapped: type[AbstractFileSystem], protocol: str) -> None:
    """Refuse an option that neither this package nor the wrapped filesystem knows.

    ``ConfigError`` names it, and the nearest known one.
    """
    its_own = set(wrapped.__mro__) - {AbstractFileSystem, AsyncFileSystem, object}
    known = {*Options.__dataclass_fields__, *_FSSPEC, *_BY_PROTOCOL.get(protocol, ())}
    known = known.union(*map(_named_parameters, its_own))
    for option in given:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"unknown option {option!r} for {protocol}{hint}")


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part options into the mount's own and the wrapped filesystem's.

    ``session``, as ``writer_session`` was called, is ours where it is text: a client's is an object.
    """
    if isinstance(options.get("session"), str):
        message = "the option session is called writer_session now; session is the wrapped filesystem's"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        options = {"writer_session": options["session"], **options}
        del options["session"]
    own = {key: value for key, value in options.items() if key in Options.__dataclass_fields__}
    return own, {key: value for key, value in options.items() if key not in own}


def _named_parameters(cls: type) -> set[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    # The class itself has the signature of fsspec's caching metaclass.
    initialise = vars(cls).get("__init__")
    parameters = inspect.signature(initialise).parameters.values() if initialise else ()
    return {p.name for p in parameters if p.kind in kinds} - {"self"}


def made_with(fs: AbstractFileSystem) -> dict[str, Any]:
    """Return the options that a filesystem was made with; those given by position have their names, too.

    They are more than the caller's: fsspec's own configuration adds to them.
    """
    return named(type(fs), fs.storage_args, fs.storage_options)


def named(
    cls: type[AbstractFileSystem], by_position: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a class that is called so."""
    bound = inspect.signature(cls.__init__).bind_partial(None, *by_position).arguments if by_position else {}
    return {**dict(list(bound.items())[1:]), **options}


# --- made, shared, pickled, forked

per_process: weakref.WeakSet[Mount | Commits] = weakref.WeakSet()
"""What forgets in each forked child, as long as anybody has it, whatever works in one process alone."""
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

    lends = lender.get()
    # A table is the same for all, but where each session has files of its own under one name.
    if lends is not None and lends.guard.commits is not None and lends.guard.salts is None:
        return lends.guard.commits
    # It is a part of the filesystem, and is not to keep it.
    proxy: Any = weakref.proxy(fs)
    commits = Commits(partial(_for_threads, proxy))
    per_process.add(commits)
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
    for instance in list(per_process):
        instance.forget_process()


os.register_at_fork(after_in_child=_after_fork)


skips_cache: ContextVar[bool] = ContextVar("skips_cache", default=False)
"""Whether the filesystem that is being made is to wrap one that nobody else has."""
lender: ContextVar[GuardedFileSystem | None] = ContextVar("lender", default=None)
"""Whose clients the filesystem that is being made uses, if it has none of its own."""


@contextlib.contextmanager
def borrowing(fs: GuardedFileSystem | None) -> Iterator[None]:
    """Make filesystems that use another's clients, and keep it; its options are theirs but for the writer."""
    token = lender.set(fs)
    try:
        yield
    finally:
        lender.reset(token)


class CachedToo(_Cached):
    """Hands down ``skip_instance_cache``, which fsspec takes away before the class is called."""

    def __call__(cls, *args: Any, **options: Any) -> Any:  # noqa: N805 - of a metaclass
        skips = not cls.cachable or bool(apply_config(cls, options).get("skip_instance_cache"))
        token = skips_cache.set(skips)
        try:
            return super().__call__(*args, **options)
        finally:
            skips_cache.reset(token)
