"""What Redis' failures mean for whatever was asked of it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from putifabsent.backends.redis_servers import NotSentError
from putifabsent.backends.refusals import caused
from putifabsent.backends.registries import Maybe, Refused, TryAgain

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["meaning"]

_FORBIDDEN = (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    AuthorizationError,
    NoPermissionError,
)
_PASSES = (BusyLoadingError, ClusterDownError, OutOfMemoryError, ReadOnlyError, TryAgainError)
# Older versions of redis-py know some of these only of a cluster.
_PASSING_CODES = ("BUSY ", "CLUSTERDOWN ", "MASTERDOWN ", "NOREPLICAS ", "TRYAGAIN ", "UNKILLABLE ")


def meaning(error: Exception, where: str) -> TryAgain | Refused | Maybe:
    """Say what one failed command means."""
    # What looks for a cluster's nodes keeps to itself why it found none.
    denied = next((link for link in _links(error) if isinstance(link, _FORBIDDEN)), None)
    if denied is not None:
        return Refused(caused(PermissionError(errno.EACCES, f"Redis refuses: {denied}", where), denied))
    if isinstance(error, NotSentError):
        return TryAgain(error)
    # A sentinel's connection words a primary that has become a replica in its own way.
    if isinstance(error, _PASSES) or isinstance(error.__context__, ReadOnlyError):
        return TryAgain(error)
    if isinstance(error, ResponseError):
        if str(error).startswith(_PASSING_CODES):
            return TryAgain(error)
        return Refused(caused(OSError(errno.EINVAL, f"Redis refuses: {error}", where), error))
    return Maybe(error)


def _links(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
