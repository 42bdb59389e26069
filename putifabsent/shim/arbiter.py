"""The arbiters that are not the store itself: each is the same few protocols, under the same names."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from putifabsent.backends.base import Absent, Created, Creation, Holder, Listed
from putifabsent.shim import ballot, claims, listing_overlay, locked, state_keys
from putifabsent.shim.ballot_state import LONGEST_KEY, folder_of
from putifabsent.shim.leftovers import Leftover, in_ballots, in_claims, mend_ballots, mend_claims
from putifabsent.shim.reading import Located, read
from putifabsent.shim.requests import List, Protocol, ReadClaim, SweepClaims, Walk
from putifabsent.shim.state_keys import shelf_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from putifabsent.backends.body import Body
    from putifabsent.backends.registries import Claim, Claims, Lock
    from putifabsent.shim.listing_overlay import Classify, Sighting
    from putifabsent.shim.names import Name


class Arbiter(ABC):
    """Decides who creates a name, where the store can't."""

    keys: ClassVar[str]  # what its folder in a table's state is called
    # What a probe must find of the store: operations, by their names.
    needs: ClassVar[tuple[str, ...]] = ("list", "publish")

    @property
    @abstractmethod
    def kind(self) -> str:
        """What it is called where it is counted: ``ballot``, ``redis``, ``dynamodb``."""

    @abstractmethod
    def create(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        """Bring ``name`` into being; as :func:`putifabsent.shim.create.create`."""

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
        """Say what is known of the names directly in some folders, as :meth:`sightings`, whose keys it lists.

        ``state`` is where the shim keeps what it knows of names in them. One request a folder, or page.
        """
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

    keys: ClassVar[str] = "ballot"
    largest_publish: int  # more bytes than this the store can't copy

    # Where one listing is enough, it does not look at the bytes.
    find = staticmethod(ballot.find)
    resolve = staticmethod(ballot.resolve)
    delete = staticmethod(ballot.delete)
    forget = staticmethod(ballot.forget)
    leftovers = staticmethod(in_ballots)
    mend = staticmethod(mend_ballots)
    folder = staticmethod(folder_of)

    @property
    def kind(self) -> str:
        return "ballot"

    def create(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        _refuse_larger(name, body, self.largest_publish)
        return ballot.create(name, body, creation)

    def knows(self, name: Name) -> Protocol[bool]:
        listed: Listed = yield from read(List(folder_of(name)))
        return bool(listed.entries)

    def sightings(
        self, classify: Classify, folders: Iterable[str], keys: Iterable[str], shown: Iterable[str]
    ) -> Protocol[list[Sighting]]:
        del folders
        yield from ()
        return listing_overlay.in_ballots(keys, shown, classify)

    def shelf(self, state: str, folder: str) -> str | None:
        return shelf_for(state, folder, self.keys, LONGEST_KEY)


@dataclass(frozen=True, slots=True)
class Locking(Balloting):
    """The bucket decides, and a lock says who goes first: :mod:`putifabsent.shim.locked`."""

    lock: Lock
    place: str  # the store's canonical address, up to where its names begin

    @property
    def kind(self) -> str:
        """As the contract says, whichever server it is."""
        return "redis"

    def create(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        _refuse_larger(name, body, self.largest_publish)
        return locked.create(name, body, creation, lock=self.lock, place=self.place)


@dataclass(frozen=True, slots=True)
class Claiming(Arbiter):
    """A registry decides: :mod:`putifabsent.shim.claims`."""

    keys: ClassVar[str] = "claims"
    claims: Claims
    place: str  # the store's canonical address, up to where its names begin
    largest_publish: int  # more bytes than this the store can't copy

    folder = staticmethod(state_keys.folder_of)

    @property
    def kind(self) -> str:
        return self.claims.kind

    def create(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        _refuse_larger(name, body, self.largest_publish)
        return claims.create(name, body, creation, claims=self.claims, place=self.place)

    def find(
        self, name: Name, creation: Creation, *, helps: bool = True, is_decided: bool = False
    ) -> Protocol[Located | Absent]:
        """As the contract says. The registry tells it anyway."""
        del is_decided
        return claims.find(name, creation, claims=self.claims, place=self.place, helps=helps)

    def resolve(self, name: Name, creation: Creation) -> Protocol[Holder | None]:
        return claims.resolve(name, creation, claims=self.claims, place=self.place)

    def delete(self, name: Name, creation: Creation, *, last: bool = False) -> Protocol[bool]:
        return claims.delete(name, creation, claims=self.claims, place=self.place, last=last)

    def forget(self, name: Name, creation: Creation) -> Protocol[None]:
        return claims.forget(name, creation, claims=self.claims, place=self.place)

    def knows(self, name: Name) -> Protocol[bool]:
        request = ReadClaim(self.claims, state_keys.identity_of(name, self.place))
        found = yield from read(request)
        return not isinstance(found, Absent)

    def sightings(
        self, classify: Classify, folders: Iterable[str], keys: Iterable[str], shown: Iterable[str]
    ) -> Protocol[list[Sighting]]:
        del keys, shown
        found: list[Sighting] = []
        for folder in folders:
            found += yield from listing_overlay.in_claims(self.claims, self.place, folder, classify)
        return found

    def leftovers(self, name: Name, creation: Creation) -> Protocol[list[Leftover]]:
        return in_claims(name, creation, claims=self.claims, place=self.place)

    def mend(self, name: Name, creation: Creation, *, free_lost: bool) -> Protocol[None]:
        return mend_claims(name, creation, claims=self.claims, place=self.place, free_lost=free_lost)

    def remembered(self, place: str) -> Protocol[dict[str, Claim]]:
        request = SweepClaims(self.claims, f"{self.place}{place}")
        entries = yield from listing_overlay.all_pages(request)
        return {identity.removeprefix(self.place): claim for identity, claim in entries}


def _refuse_larger(name: Name, body: Body, largest_publish: int) -> None:
    if body.size > largest_publish:
        reason = f"the store copies no more than {largest_publish} bytes, and these are {body.size}"
        raise OSError(errno.EFBIG, reason, name.path)
