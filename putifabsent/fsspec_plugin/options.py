"""The options of a mount: its own, and those that go on to the wrapped filesystem."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import math
import os
import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem

from putifabsent.backends.registry_urls import ARBITER, SCHEMES
from putifabsent.errors import ConfigError
from putifabsent.shim.arbiter_choice import BY_THE_STORE, validate

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
    """A mount's own options."""

    # Who decides: ``"auto"`` (the store itself, where it is known or found to be able to), ``"native"`` (the
    # store itself, on the user's word), ``"ballot"`` (the bucket alone), or the address of a registry,
    # ``"dynamodb://TABLE?region=..."`` or ``"redis://HOST/0"``. By default what ``PUTIFABSENT_ARBITER`` says,
    # else ``"auto"``. All mounts of a table must say the same.
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
    # ``"slices"``: base files of Hudi are written with the session in their write token, so that no two
    # sessions write one file. ``"keep-both"``: Hudi's instants, too, without an arbiter; all that several
    # sessions create under one name are kept. All mounts of the table must say the same, and its readers must
    # come through one of them.
    salt: str | None = None
    # Refuse what a Hudi timeline has no step for, by ``InvalidTransition``. Each mount says it for itself.
    strict: bool = False
    # ``"commits"``: refuse a commit that would hurt its table, by ``Damaging``: what it names and the table's
    # newest state are read before it is created. Each mount says it for itself.
    inspect: str | None = None
    # Which commits an unmodified Hudi does not begin while another one is under way that writes the same file
    # groups, where the later of them would do its work, and be refused: ``"inserts"``, those that only insert
    # rows; True, all whose rows were not read from the table, and clusterings; False, none.
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
    known = set(Options.__dataclass_fields__) | _FSSPEC | _BY_PROTOCOL.get(protocol, set())
    for cls in wrapped.__mro__:
        if cls in (AbstractFileSystem, AsyncFileSystem, object):
            continue
        known |= _named_parameters(cls)
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
