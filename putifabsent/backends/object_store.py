"""What a store refuses: bad keys and parameters, unreadable bodies; and conditions that nobody asked for."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tenacity import retry_if_exception, stop_after_attempt, wait_random_exponential

from putifabsent.backends.base import Absent, Created, Exists, Gone, Maybe, Refused, TryAgain, Written, caused

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import PutOutcome

__all__ = ["SENDS", "are_texts", "bad_key", "schedule", "unconditional"]

LONGEST_KEY = 1024
"""Bytes of UTF-8: the limit of S3, GCS and Azure alike."""

_SURELY_SHORT = 255


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


SENDS = 5


def schedule(outcome_of: Callable[[Exception, str], object], sends: int = SENDS) -> dict[str, Any]:
    """Return tenacity's options: so many sends, while an error means that the answer was lost, or try again.

    Parameters
    ----------
    outcome_of
        Says what a client's exception means.
    sends
        At most.
    """

    def passes(error: BaseException) -> bool:
        return isinstance(error, Exception) and isinstance(outcome_of(error, ""), (Maybe, TryAgain))

    return {
        "retry": retry_if_exception(passes),
        "stop": stop_after_attempt(sends),
        "wait": wait_random_exponential(multiplier=0.05, max=2),
        "reraise": True,
    }


def are_texts(told: object) -> bool:
    """Whether ``told`` maps strings to strings, as all that goes into headers must."""
    if not isinstance(told, Mapping):
        return False
    return all(isinstance(text, str) for pair in told.items() for text in pair)
