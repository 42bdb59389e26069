"""What a store refuses before anything is sent: bad keys and parameters, unreadable bodies."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from putifabsent.backends.base import Refused
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from putifabsent.backends.body import Body

__all__ = ["bad_key", "read_whole", "unsupported"]

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
        refused = OSError(errno.EILSEQ, "the key is not valid Unicode, so it has no UTF-8 form", name)
        refused.__cause__ = error
        return Refused(refused)
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


def unsupported(kind: str, keys: Iterable[str]) -> ConfigError:
    """Return the error for parameters ``keys`` that a guarded put on a ``kind`` store can't carry."""
    names = ", ".join(sorted(keys))
    return ConfigError(f"a guarded put on {kind} can't carry {names}: leave it out of this call")
