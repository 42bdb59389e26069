"""Where arbiters keep what they know of a name: one folder an identity, a function of the name alone."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from putifabsent.shim.names import Name

__all__ = ["folder_for"]

_LONGEST_COMPONENT = 200
_LONGEST_NAME = 1024
# A name that has no UTF-8 form is the store's to refuse.
_ANY = "surrogatepass"


def folder_for(name: Name, arbiter: str, longest_key: int) -> str:
    """Return the folder of an identity's keys.

    Components are at most 200 bytes, and a whole key at most 1024, where its table's root leaves room for one
    at all: what is longer is hashed.

    Parameters
    ----------
    name
        Any name of the identity.
    arbiter
        Whose keys they are: each has a folder of its own.
    longest_key
        Bytes of the longest key in it, with its slash.
    """
    folder = f"{name.state}/{arbiter}/"
    below = name.canonical.removeprefix(name.state.rpartition("/")[0]).lstrip("/")
    within = quote(below, safe="", errors=_ANY)
    room = _LONGEST_NAME - len(folder.encode(errors=_ANY)) - longest_key
    if len(within) > min(_LONGEST_COMPONENT, room):
        # `quote` never makes an equals sign, so that no other name is written like this.
        within = f"sha256={hashlib.sha256(name.canonical.encode(errors=_ANY)).hexdigest()}"
    return f"{folder}{within}"
