"""What arbiters know of the names in a folder, for listings: read off in passing, without deciding anything.

A listing of the store shows plain names. Some of them have ended, and nobody has cleaned up yet; others live,
and nobody has published them yet.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.backends.base import Entry
from putifabsent.shim.ballot_state import Prepare, Scene, folder_of, rank_of, written
from putifabsent.shim.reading import read
from putifabsent.shim.requests import ListClaims, Protocol, SweepClaims
from putifabsent.shim.state_keys import parsed, placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from putifabsent.backends.registries import ClaimEntry, ClaimPage, Claims
    from putifabsent.shim.names import Name

    Classify = Callable[[str], Name]

_AT_SOME_TIME = datetime.fromtimestamp(0, timezone.utc)


class Sighting(NamedTuple):
    """What is known of a name."""

    name: str
    # Where its bytes lie, if it lives. None: it has ended, or it was never decided, unless it is open.
    key: str | None
    open: bool = False  # whether it may be decided, and only its ballots can tell


def in_ballots(keys: Iterable[str], shown: Iterable[str], classify: Classify) -> list[Sighting]:
    """Read ballots; a key that is no ballot's is left aside.

    ``shown`` are the plain names in the folders that the ballots are about: a name that is too long for a
    key, and so is hashed, is only known if it is among them.
    """
    folders: defaultdict[str, list[str]] = defaultdict(list)
    names: dict[str, str | None] = {}
    for key in keys:
        found = placed(key)
        if found is not None and found.arbiter == "ballot":
            folders[found.folder].append(key)
            names[found.folder] = found.name
    if None in names.values():
        names |= {folder_of(name): name.canonical for name in map(classify, shown)}
    sightings: list[Sighting] = []
    for folder, inside in folders.items():
        name = names[folder]
        if name is not None:
            living, source, is_open = _living(folder, tuple(inside))
            for rank, each in enumerate(classify(name).all_names):
                sightings.append(Sighting(each, source) if rank == living else Sighting(each, None, is_open))
    return sightings


@lru_cache(maxsize=4096)  # most names were decided long ago, and are listed again and again
def _living(folder: str, keys: tuple[str, ...]) -> tuple[int | None, str | None, bool]:
    """Return the rank of the name that lives, where its bytes lie, and whether the name may be decided."""
    scene = Scene.of(Entry(key, _AT_SOME_TIME) for key in keys)
    incarnation = scene.incarnation
    value = scene.decided(incarnation)
    if value is None:
        return None, None, scene.highest(incarnation) is not None
    return rank_of(value), f"{folder}/{written(Prepare(incarnation, 0, value))}", False


def in_claims(claims: Claims, place: str, folder: str, classify: Classify) -> Protocol[list[Sighting]]:
    """Read the claims of all names directly in ``folder``, page by page.

    ``OSError``: the registry refuses, or does not answer.
    """
    sightings: list[Sighting] = []
    for identity, claim in (yield from all_pages(ListClaims(claims, f"{place}{folder}"))):
        salted = parsed(claim.key)
        lives = None if salted is None or not claim.live else salted.rank
        for rank, each in enumerate(classify(identity.removeprefix(place)).all_names):
            sightings.append(Sighting(each, claim.key if rank == lives else None))
    return sightings


def all_pages(request: ListClaims | SweepClaims) -> Protocol[list[ClaimEntry]]:
    """Read page after page, from the one that is requested; errors as for :func:`in_claims`."""
    entries: list[ClaimEntry] = []
    while True:
        page: ClaimPage = yield from read(request)
        entries += page.entries
        if page.more is None:
            return entries
        request = request._replace(start=page.more)
