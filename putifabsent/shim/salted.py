"""Where the bytes of a claimed name lie, and what each object says of itself: functions of names alone.

Every creation puts its bytes under a key of its own before it claims the name, so that no two ever write one
object. All keys of one identity lie in one folder, which no format lists and which one listing shows::

    <state>/claims/<the name's folder>/<the name>/<rank>~<incarnation>~<token>.<try>

The rank says which of the identity's names it is (:attr:`putifabsent.shim.names.Name.rank`). The object has
``<token>.<try>~<incarnation>`` for its token, and so has its copy under the plain name: whoever finds that
can tell what an incarnation that has ended left there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.shim.places import folder_for

if TYPE_CHECKING:
    from putifabsent.shim.names import Name

__all__ = ["Salted", "folder_of", "identity_of", "marked", "parsed"]

_KEY = re.compile(r"(?P<rank>[0-9]+)~(?P<inc>[0-9]+)~(?P<token>[^~]+)\.(?P<attempt>[0-9]+)")
_MARK = re.compile(r"[^~]+\.[0-9]+~(?P<inc>[0-9]+)")
# A slash, two numbers, a UUID, and the number of a try.
_LONGEST_KEY = 64


class Salted(NamedTuple):
    """A salted key's last component, part by part."""

    rank: int
    incarnation: int
    token: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.rank}~{self.incarnation}~{self.token}.{self.attempt}"

    @property
    def mark(self) -> str:
        """The token that is kept with the object, and with its copy under the plain name."""
        return f"{self.token}.{self.attempt}~{self.incarnation}"


def parsed(key: str) -> Salted | None:
    """Return the parts of a key; None for what is none."""
    match = _KEY.fullmatch(key.rpartition("/")[2])
    return match and Salted(int(match["rank"]), int(match["inc"]), match["token"], int(match["attempt"]))


def marked(token: str | None) -> int | None:
    """Return the incarnation that an object's token speaks of; None for a name older than the shim."""
    match = _MARK.fullmatch(token or "")
    return match and int(match["inc"])


def folder_of(name: Name) -> str:
    """Return the folder of an identity's salted keys."""
    return folder_for(name, "claims", _LONGEST_KEY)


def identity_of(name: Name, place: str) -> str:
    """Return what registries know the name by: all names of one identity share one claim.

    Parameters
    ----------
    name
        What the policy says of it.
    place
        The store's canonical address, up to where its names begin: ``s3://``, ``file://host``.
    """
    return f"{place}{name.canonical}"
