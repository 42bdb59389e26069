"""The arbiters that are not the store itself: each is the same few protocols, under the same names."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from putifabsent.backends.base import Absent, Created, Creation, Entry, Holder, Listed
from putifabsent.shim import ballot, state_keys
from putifabsent.shim import claims as claimed
from putifabsent.shim.ballot_state import LONGEST_KEY, Prepare, Scene, folder_of, rank_of, written
from putifabsent.shim.leftovers import Leftover, in_ballots, in_claims, mend_ballots, mend_claims
from putifabsent.shim.requests import List, ListClaims, Located, Protocol, ReadClaim, SweepClaims, Walk, read
from putifabsent.shim.state_keys import parsed, placed, shelf_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from putifabsent.backends.base import Body
    from putifabsent.backends.registries import Claim, ClaimEntry, ClaimPage, Claims, Lock
    from putifabsent.shim.names import Name

    Classify = Callable[[str], Name]

_AT_SOME_TIME = datetime.fromtimestamp(0, timezone.utc)


class Sighting(NamedTuple):
    """What is known of a name, for listings: read off in passing, without deciding anything.

    A listing of the store shows plain names. Some of them have ended, and nobody has cleaned up yet; others
    live, and nobody has published them yet.
    """

    name: str
    # Where its bytes lie, if it lives. None: it has ended, or it was never decided, unless it is open.
    key: str | None
    open: bool = False  # whether it may be decided, and only its ballots can tell


class Arbiter(ABC):
    """Decides who creates a name, where the store can't."""

    largest_publish: int  # more bytes than this the store can't copy
    keys: ClassVar[str]  # what its folder in a table's state is called
    # What a probe must find of the store: operations, by their names.
    needs: ClassVar[tuple[str, ...]] = ("list", "publish")

    @property
    @abstractmethod
    def kind(self) -> str:
        """What it is called where it is counted: ``ballot``, ``redis``, ``dynamodb``."""

    def create(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        """Bring ``name`` into being; as :func:`putifabsent.shim.create.create`."""
        if body.size > self.largest_publish:
            reason = f"the store copies no more than {self.largest_publish} bytes, and these are {body.size}"
            raise OSError(errno.EFBIG, reason, name.path)
        return self._create(name, body, creation)

    @abstractmethod
    def _create(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]: ...

    @abstractmethod
    def find(
        self, name: Name, creation: Creation, *, helps: bool = True, is_decided: bool = False
    ) -> Protocol[Located | Absent]:
        """Say who holds ``name``, and where its bytes lie.

        What it has to finish on the way goes under the creation's token. With ``helps`` it looks at the
        bytes, and publishes them where nothing shows them, if that takes more. ``is_decided``: it is known
        from elsewhere that the name has been created, and not deleted since; then who holds it is known to a
        reader without the right to write, too.
        """

    @abstractmethod
    def resolve(self, name: Name, creation: Creation) -> Protocol[Holder | None]:
        """Answer an unknown outcome later; as :func:`putifabsent.shim.create.resolve`."""

    @abstractmethod
    def delete(self, name: Name, creation: Creation, *, last: bool = False) -> Protocol[bool]:
        """Free ``name``; say whether it was the last time, and nothing is kept of the identity.

        ``last``: its format creates it no more, as a number that has expired. Then no end mark need stay: who
        creates it all the same finds out afterwards, as where the store decides.
        """

    @abstractmethod
    def forget(self, name: Name, creation: Creation) -> Protocol[None]:
        """Remove all that is kept of an identity, its end marks included, and its plain names.

        After :meth:`delete` an end mark stays, by which requests that come late, and creators who were paused
        meanwhile, know that their incarnation is over. Without it they begin the identity anew, and win, each
        for itself: two of them may. So it is for identities of which nobody can be harmed by that: whoever
        wins one finds out afterwards, from elsewhere, whether that still counts, and readers look elsewhere.
        It can be called again after a failure, as long as a plain name is there to tell of the identity.
        """

    @abstractmethod
    def knows(self, name: Name) -> Protocol[bool]:
        """Say whether the name was ever put to this arbiter. One request."""

    @abstractmethod
    def sightings(
        self, classify: Classify, folders: Iterable[str], keys: Iterable[str], shown: Iterable[str]
    ) -> Protocol[list[Sighting]]:
        """Say what is known of the names directly in some folders.

        ``keys`` are the full names of all that lies on each one's :meth:`shelf`, ``shown`` the plain names in
        them.
        """

    def survey(self, classify: Classify, state: str, folders: Sequence[str]) -> Protocol[list[Sighting]]:
        """Say the same as :meth:`sightings`, whose keys it lists in ``state``. One request each or page."""
        keys: list[str] = []
        for shelf in (self.shelf(state, folder) for folder in folders):
            if shelf is not None:
                listed: Listed = yield from read(Walk(shelf))
                keys += (entry.name for entry in listed.entries)
        return (yield from self.sightings(classify, folders, keys, ()))

    @abstractmethod
    def leftovers(self, name: Name, creation: Creation) -> Protocol[list[Leftover]]:
        """Say what is left of an identity, and broken: see :mod:`putifabsent.shim.leftovers`."""

    @abstractmethod
    def mend(self, name: Name, creation: Creation, *, free_lost: bool) -> Protocol[None]:
        """Finish and clean up what is left of an identity; with ``free_lost`` free it, if its bytes are gone.

        The creation's token must be one that creates nothing.
        """

    @abstractmethod
    def folder(self, name: Name) -> str:
        """Return where the keys of an identity lie."""

    def remembered(self, place: str) -> Protocol[dict[str, Claim]]:
        """Return what a registry, if any, says of names in ``place`` and below it, by canonical names."""
        del place
        yield from ()
        return {}

    def shelf(self, state: str, folder: str) -> str | None:
        """Return what must be listed to tell which names in ``folder`` live; None: nothing of the store.

        ``state`` is where the shim may keep something of names in it.
        """
        del state, folder
        return None


@dataclass(frozen=True, slots=True)
class Balloting(Arbiter):
    """The bucket alone decides: :mod:`putifabsent.shim.ballot`."""

    kind = "ballot"
    keys: ClassVar[str] = "ballot"
    largest_publish: int

    _create = staticmethod(ballot.create)
    # Where one listing is enough, it does not look at the bytes.
    find = staticmethod(ballot.find)
    resolve = staticmethod(ballot.resolve)
    delete = staticmethod(ballot.delete)
    forget = staticmethod(ballot.forget)
    leftovers = staticmethod(in_ballots)
    mend = staticmethod(mend_ballots)
    folder = staticmethod(folder_of)

    def knows(self, name: Name) -> Protocol[bool]:
        listed: Listed = yield from read(List(folder_of(name)))
        return bool(listed.entries)

    def sightings(
        self, classify: Classify, folders: Iterable[str], keys: Iterable[str], shown: Iterable[str]
    ) -> Protocol[list[Sighting]]:
        """Read ballots: a name that is too long for a key, and so is hashed, is known only if it is shown."""
        del folders
        yield from ()
        by_folder: defaultdict[str, list[str]] = defaultdict(list)
        names: dict[str, str | None] = {}
        for key in keys:
            found = placed(key)
            if found is not None and found.arbiter == self.keys:
                by_folder[found.folder].append(key)
                names[found.folder] = found.name
        if None in names.values():
            names |= {folder_of(name): name.canonical for name in map(classify, shown)}
        seen: list[Sighting] = []
        for folder, inside in by_folder.items():
            name = names[folder]
            if name is not None:
                living, source, is_open = _living(folder, tuple(inside))
                for rank, each in enumerate(classify(name).all_names):
                    seen.append(Sighting(each, source) if rank == living else Sighting(each, None, is_open))
        return seen

    def shelf(self, state: str, folder: str) -> str | None:
        return shelf_for(state, folder, self.keys, LONGEST_KEY)


@dataclass(frozen=True, slots=True)
class Locking(Balloting):
    """The bucket decides, and a lock says who goes first."""

    kind = "redis"  # as the contract says, whichever server it is
    lock: Lock
    place: str  # the store's canonical address, up to where its names begin

    def _create(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        return ballot.create_in_turn(name, body, creation, lock=self.lock, place=self.place)


@dataclass(frozen=True, slots=True)
class Claiming(Arbiter):
    """A registry decides: :mod:`putifabsent.shim.claims`."""

    keys: ClassVar[str] = "claims"
    claims: Claims
    place: str  # the store's canonical address, up to where its names begin: one registry serves many
    largest_publish: int

    _create = claimed.create
    find = claimed.find
    resolve = claimed.resolve
    delete = claimed.delete
    forget = claimed.forget
    leftovers = in_claims
    mend = mend_claims
    folder = staticmethod(state_keys.folder_of)

    @property
    def kind(self) -> str:
        return self.claims.kind

    def knows(self, name: Name) -> Protocol[bool]:
        request = ReadClaim(self.claims, state_keys.identity_of(name, self.place))
        found = yield from read(request)
        return not isinstance(found, Absent)

    def sightings(
        self, classify: Classify, folders: Iterable[str], keys: Iterable[str], shown: Iterable[str]
    ) -> Protocol[list[Sighting]]:
        del keys, shown
        seen: list[Sighting] = []
        for folder in folders:
            for identity, claim in (yield from _all(ListClaims(self.claims, f"{self.place}{folder}"))):
                salted = parsed(claim.key)
                lives = None if salted is None or not claim.live else salted.rank
                for rank, each in enumerate(classify(identity.removeprefix(self.place)).all_names):
                    seen.append(Sighting(each, claim.key if rank == lives else None))
        return seen

    def remembered(self, place: str) -> Protocol[dict[str, Claim]]:
        entries = yield from _all(SweepClaims(self.claims, f"{self.place}{place}"))
        return {identity.removeprefix(self.place): claim for identity, claim in entries}


@lru_cache(maxsize=4096)  # most names were decided long ago, and are listed again and again
def _living(folder: str, keys: tuple[str, ...]) -> tuple[int | None, str | None, bool]:
    """Return the rank of the name that lives, where its bytes lie, and whether the name may be decided."""
    scene = Scene.of(Entry(key, _AT_SOME_TIME) for key in keys)
    incarnation = scene.incarnation
    value = scene.decided(incarnation)
    if value is None:
        return None, None, scene.highest(incarnation) is not None
    return rank_of(value), f"{folder}/{written(Prepare(incarnation, 0, value))}", False


def _all(request: ListClaims | SweepClaims) -> Protocol[list[ClaimEntry]]:
    """Read page after page of claims."""
    entries: list[ClaimEntry] = []
    while True:
        page: ClaimPage = yield from read(request)
        entries += page.entries
        if page.more is None:
            return entries
        request = request._replace(start=page.more)
