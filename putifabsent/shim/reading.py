"""Read until the store answers. Reading twice is harmless, so only refusals and the deadline end it."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Absent, Found, Maybe, Refused, TryAgain
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.requests import Delete, Head, Pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.shim.requests import Harmless, Protocol


@dataclass(frozen=True, slots=True)
class Located(Found):
    """The name is there, by an arbiter that is not the store itself."""

    path: str  # the object that holds its bytes; the plain name, where that is all there is


def unanswered(cause: Exception) -> OSError:
    """Return what to raise where no answer has come in time: client libraries' own are not all OSErrors."""
    if isinstance(cause, OSError):
        return cause
    error = OSError(errno.EIO, f"no answer in time: {cause}")
    error.__cause__ = cause
    return error


def read(
    request: Harmless,
    failure: Callable[[Exception], Exception] = unanswered,
    late: Callable[[Exception], Exception] | None = None,
) -> Protocol[Any]:
    """Return the outcome of a ``request`` that does no harm twice, neither a refusal nor a lost answer.

    ``failure`` makes the exception to raise, from the store's own, when it refuses or the deadline comes; by
    default that is the store's own, as an OSError. ``late`` makes another one for the deadline.
    """
    for attempt in count(1):
        answer = yield request
        if not isinstance(answer, (Refused, TryAgain, Maybe)):
            return answer
        cause = answer.error if isinstance(answer, Refused) else answer.cause
        if isinstance(answer, Refused) or not (yield Pause(attempt)):
            make = failure if late is None or isinstance(answer, Refused) else late
            error = make(cause)
            if error is cause:
                raise error  # with a cause of its own
            raise error from cause
    raise AssertionError


def look(path: str, name: str, token: str, why: str) -> Protocol[Found | Absent]:
    """See who holds ``path`` for the sake of a creation of ``name``.

    ``OutcomeUnknown``: the store refuses to say (403), or does not answer until the deadline: that is not
    "absent".
    """
    seen: Found | Absent = yield from read(
        Head(path),
        lambda error: OutcomeUnknown(name, token, f"{why}, and {path} can't be looked at: {error}"),
    )
    return seen


def removed(path: str, version: str | None = None) -> Protocol[None]:
    """Remove an object, until that is certain; with ``version``, only while it is still that one."""
    yield from read(Delete(path, version))
