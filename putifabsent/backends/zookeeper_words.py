"""What ZooKeeper's errors mean, by its protocol's codes. Source: ZooKeeper's ``KeeperException.Code``."""

from __future__ import annotations

import errno

from putifabsent.backends.refusals import caused
from putifabsent.backends.registries import Maybe, Refused, TryAgain

__all__ = ["BAD_VERSION", "NODE_EXISTS", "NO_NODE", "NotSentError", "code_of", "meaning"]

NO_NODE = -101
BAD_VERSION = -103
NODE_EXISTS = -110

_CONNECTION_LOSS = -4
_OPERATION_TIMEOUT = -7
_SESSION_EXPIRED = -112
_SESSION_MOVED = -118
_READ_ONLY = -119
_LOST = (_CONNECTION_LOSS, _OPERATION_TIMEOUT, _SESSION_EXPIRED, _SESSION_MOVED)
# No right, an access list that is none, credentials that are wrong.
_FORBIDDEN = (-102, -114, -115)


class NotSentError(ConnectionError):
    """There is no connection now, so nothing was sent."""


def code_of(error: Exception) -> int | None:
    """Return the server's code; None: it has said nothing."""
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else None


def meaning(error: Exception, where: str) -> TryAgain | Refused | Maybe:
    """Say what a request's failure means; whatever has no code, a time-out too, says nothing of it."""
    code = code_of(error)
    said = f"ZooKeeper refuses: {type(error).__name__}"
    if code in _FORBIDDEN:
        return Refused(caused(PermissionError(errno.EACCES, said, where), error))
    if code == _READ_ONLY or isinstance(error, NotSentError):
        return TryAgain(error)
    if code is None or code in _LOST:
        return Maybe(error)
    return Refused(caused(OSError(errno.EINVAL, said, where), error))
