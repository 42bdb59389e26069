"""What a registry is asked about: an identity, in its parts, or refused before anything is sent."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from putifabsent.backends.base import Refused
from putifabsent.backends.refusals import caused

if TYPE_CHECKING:
    from typing import Literal

__all__ = ["bad_identity", "split"]


def split(identity: str) -> tuple[str, str]:
    """Part an identity into its folder and the name in it."""
    folder, _, name = identity.rpartition("/")
    return folder, name


def bad_identity(
    identity: str, what: Literal["identity", "folder", "key", "name"] = "identity"
) -> Refused | None:
    """Return why ``identity`` can't be kept in any registry, or None."""
    if "\0" in identity:
        return Refused(OSError(errno.EINVAL, f"the {what} has a NUL in it", identity))
    if not identity or (what == "identity" and "/" not in identity):
        return Refused(OSError(errno.EINVAL, f"the {what} names no folder of a store", identity))
    try:
        identity.encode()
    except UnicodeEncodeError as error:
        why = OSError(errno.EILSEQ, f"the {what} is not valid Unicode, so it has no UTF-8 form", identity)
        return Refused(caused(why, error))
    return None
