"""What a store refuses: bad keys and parameters, unreadable bodies; and conditions that nobody asked for."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, TypeVar

from putifabsent.backends.base import Absent, Created, Exists, Gone, Maybe, Refused, TryAgain, Written
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from putifabsent.backends.base import PutOutcome
    from putifabsent.backends.body import Body

__all__ = ["bad_key", "caused", "read_whole", "require_answer", "unconditional", "unsupported"]

LONGEST_KEY = 1024
"""Bytes of UTF-8: the limit of S3, GCS and Azure alike."""

_SURELY_SHORT = 255

E = TypeVar("E", bound=Exception)


def caused(error: E, cause: BaseException | None) -> E:
    """Return ``error`` with what it is made of: a client library's own exception stays as the cause."""
    error.__cause__ = cause
    return error


def bad_key(name: str, key: str) -> Refused | None:
    """Return why ``key`` can't be a key of an object store, or None."""
    if key and len(key) <= _SURELY_SHORT and key.isascii():
        return None
    try:
        length = len(key.encode())
    except UnicodeEncodeError as error:
        why = OSError(errno.EILSEQ, "the key is not valid Unicode, so it has no UTF-8 form", name)
        return Refused(caused(why, error))
    if not key:
        return Refused(OSError(errno.EINVAL, "it names a bucket, and no object in it", name))
    if length > LONGEST_KEY:
        return Refused(
            OSError(errno.ENAMETOOLONG, f"the key has {length} bytes, more than {LONGEST_KEY}", name)
        )
    return None


def read_whole(body: Body) -> bytes | Refused:
    """Return all bytes of ``body``, or why they can't be read.

    Apart from the request that sends them: an OSError of the one is a lost answer, of the other it is not.
    """
    try:
        return body.whole()
    except OSError as error:
        return Refused(error)


def require_answer(outcome: object, who: str, where: str) -> None:
    """Pass if a registry has answered, and refused nothing; else raise what a check raises.

    Raises
    ------
    OSError
        It refuses; or ``who``, for people, did not answer.
    """
    if isinstance(outcome, Refused):
        raise outcome.error
    if isinstance(outcome, (TryAgain, Maybe)):
        why = f"{who} did not answer, or not now: {outcome.cause}"
        raise ConnectionError(errno.EIO, why, where) from outcome.cause


def unsupported(kind: str, keys: Iterable[str]) -> ConfigError:
    """Return the error for parameters ``keys`` that a guarded put on a ``kind`` store can't carry."""
    names = ", ".join(sorted(keys))
    return ConfigError(f"a guarded put on {kind} can't carry {names}: leave it out of this call")


def unconditional(
    outcome: Created | Exists | Absent | Gone | TryAgain | Refused | Maybe,
    name: str,
    cause: BaseException | None = None,
) -> PutOutcome:
    """Say what the outcome of a create, or of a step of it, means where no condition was asked for."""
    if isinstance(outcome, Created):
        return Written(outcome.version)
    if isinstance(outcome, (TryAgain, Refused, Maybe)):
        return outcome
    if isinstance(outcome, Exists):
        return Refused(caused(PermissionError(errno.EPERM, "the store keeps what is there", name), cause))
    gone = OSError(errno.EIO, "what was to be written is not with the store any more", name)
    return Maybe(caused(gone, cause))
