"""Where arbiters keep what they know of a name: one folder an identity, a function of the name alone.

::

    <state>/<arbiter>/<the folder, from where the state lies>/<the name>/<key>

A slash in the folder is ``%2F``, and ``=`` stands for no folder at all. So one listing shows all that an
arbiter keeps of the names that lie in one folder.

Of the arbiters that claim names, every creation puts its bytes under a key of its own before it claims the
name, so that no two ever write one object::

    <state>/claims/<the name's folder>/<the name>/<rank>~<incarnation>~<token>.<try>

The rank says which of the identity's names it is (:attr:`putifabsent.shim.names.Name.rank`). The object has
``<token>.<try>~<incarnation>`` for its token, and so has its copy under the plain name: whoever finds that
can tell what an incarnation that has ended left there.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from putifabsent.backends.base import STATE_FOLDER

if TYPE_CHECKING:
    from putifabsent.shim.names import Name

_LONGEST_COMPONENT = 200
_LONGEST_NAME = 1024
# A name that has no UTF-8 form is the store's to refuse.
_ANY = "surrogatepass"
# `quote` never makes an equals sign, so that no other component is written like these.
_HERE = "="
_HASHED = "sha256="
_LENGTH_OF_HASH = len(_HASHED) + 64

_KEY = re.compile(
    rf"(?P<base>.*)/{re.escape(STATE_FOLDER)}/(?P<arbiter>[^/]+)/(?P<shelf>[^/]+)/(?P<last>[^/]+)/[^/]+",
    re.DOTALL,
)


class Placed(NamedTuple):
    """Of what a key tells."""

    arbiter: str  # whose key it is
    folder: str  # all that is known of the identity: where the key lies
    name: str | None  # the identity's canonical name; None where a part of it was too long, and is hashed


def folder_for(name: Name, arbiter: str, longest_key: int) -> str:
    """Return the folder of an identity's keys for an arbiter: each has a folder of its own.

    Components are at most 200 bytes, and a whole key at most 1024, where its table's root leaves room for one
    at all: what is longer is hashed. ``longest_key`` are the bytes of the longest key in it, with its slash.
    """
    folder, _, last = name.canonical.rpartition("/")
    shelf = shelf_for(name.state, folder, arbiter, longest_key)
    return f"{shelf}/{_component(last, _room(shelf, longest_key))}"


def shelf_for(state: str, folder: str, arbiter: str, longest_key: int) -> str:
    """Return what has the folders of all names that lie in ``folder`` and have this state in it."""
    place = f"{state}/{arbiter}"
    below = folder.removeprefix(state.rpartition("/")[0]).lstrip("/")
    room = _room(place, longest_key) - _LENGTH_OF_HASH - 1
    return f"{place}/{_component(below, room) or _HERE}"


@lru_cache(maxsize=4096)  # the same ones are listed again and again
def placed(path: str) -> Placed | None:
    """Return of what a key tells; None for what is no arbiter's key."""
    match = _KEY.fullmatch(path)
    if match is None:
        return None
    base, arbiter, shelf, last = match.groups()
    folder = f"{base}/{STATE_FOLDER}/{arbiter}/{shelf}/{last}"
    if shelf.startswith(_HASHED) or last.startswith(_HASHED):
        return Placed(arbiter, folder, None)
    below = "" if shelf == _HERE else f"/{unquote(shelf, errors=_ANY)}"
    return Placed(arbiter, folder, f"{base}{below}/{unquote(last, errors=_ANY)}")


def _room(place: str, longest_key: int) -> int:
    return _LONGEST_NAME - len(place.encode(errors=_ANY)) - 1 - longest_key


def _component(text: str, room: int) -> str:
    quoted = quote(text, safe="", errors=_ANY)
    if len(quoted) <= min(_LONGEST_COMPONENT, room):
        return quoted
    return f"{_HASHED}{hashlib.sha256(text.encode(errors=_ANY)).hexdigest()}"


def creation_of(token: str) -> str:
    """Return a creation's token, from itself, or from what an arbiter has made of it to keep with bytes."""
    return token.partition(".")[0]


# --- the keys of claimed names

_SALTED = re.compile(r"(?P<rank>[0-9]+)~(?P<inc>[0-9]+)~(?P<token>[^~]+)\.(?P<attempt>[0-9]+)")
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
    match = _SALTED.fullmatch(key.rpartition("/")[2])
    return match and Salted(int(match["rank"]), int(match["inc"]), match["token"], int(match["attempt"]))


def marked(token: str | None) -> int | None:
    """Return the incarnation that an object's token speaks of; None for a name older than the shim."""
    match = _MARK.fullmatch(token or "")
    return match and int(match["inc"])


def folder_of(name: Name) -> str:
    return folder_for(name, "claims", _LONGEST_KEY)


def identity_of(name: Name, place: str) -> str:
    """Return what registries know the name by: all names of one identity share one claim.

    ``place`` is the store's canonical address, up to where its names begin: ``s3://``, ``file://host``.
    """
    return f"{place}{name.canonical}"
