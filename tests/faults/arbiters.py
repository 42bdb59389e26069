"""What is put to real faults: each arbiter over each store, opened anew in whatever process it comes to."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import fsspec

# Imported here, so that a writer who is forked need not: it lives for a few requests only.
import putifabsent.backends.dynamodb
import putifabsent.backends.redis
import putifabsent.backends.s3
import putifabsent.backends.s3_obstore  # noqa: F401
from putifabsent.backends.base import Absent, Creation, Found, Got, InMemory
from putifabsent.backends.redis import RestingLock
from putifabsent.backends.registry_urls import open_claims, open_lock
from putifabsent.fsspec_plugin.stores import store_of
from putifabsent.shim import ballot, claims
from putifabsent.shim.arbiter import Claiming
from putifabsent.shim.drive import run
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import Located

if TYPE_CHECKING:
    from putifabsent.backends.base import Store
    from putifabsent.backends.registries import Claims, Lock
    from putifabsent.shim.requests import Protocol
    from putifabsent.testing.races import Attempt, Contender

DEADLINE = 120.0
PLACE = "test://"
WRITER = str(uuid.UUID(int=1))


@cache
def lock_at(url: str) -> Lock:
    return RestingLock(open_lock(url))


@cache
def claims_at(url: str) -> Claims:
    return open_claims(url)


@dataclass(frozen=True)
class Arbiter:
    """One way to decide; it pickles.

    Attributes
    ----------
    kind
        Which.
    url
        Of its lock, or of its registry.
    lease
        Of its lock, in seconds.
    """

    kind: Literal["ballot", "redis", "dynamodb"]
    url: str = ""
    lease: float = ballot.LEASE

    def create(self, name: str, token: str, data: bytes) -> Protocol[Any]:
        body, what, creation = InMemory(data), ordinary(name), creation_of(name, token)
        if self.kind == "ballot":
            return ballot.create(what, body, creation)
        if self.kind == "redis":
            lock = lock_at(self.url)
            return ballot.create_in_turn(what, body, creation, lock=lock, place=PLACE, lease=self.lease)
        return claims.create(self._registry(), what, body, creation)

    def delete(self, name: str) -> Protocol[bool]:
        what, creation = ordinary(name), creation_of(name)
        if self.kind == "dynamodb":
            return claims.delete(self._registry(), what, creation)
        return ballot.delete(what, creation)

    def find(self, name: str) -> Protocol[Located | Absent]:
        what, creation = ordinary(name), creation_of(name)
        if self.kind == "dynamodb":
            return claims.find(self._registry(), what, creation)
        return ballot.find(what, creation)

    def _registry(self) -> Claiming:
        return Claiming(claims_at(self.url), PLACE, 2**30)

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True)
class Place:
    """A folder of a store; it pickles.

    Attributes
    ----------
    protocol, options
        Of the plain filesystem.
    folder
        Where names are made.
    """

    protocol: str
    options: dict[str, Any]
    folder: str

    def store(self) -> Store:
        """Make the store."""
        return store_of(fsspec.filesystem(self.protocol, **self.options), self.options, DEADLINE)

    def name(self, word: object) -> str:
        return f"{self.folder}/{word}"


def creation_of(name: str, token: str | None = None) -> Creation:
    return Creation(token or str(uuid.uuid4()), WRITER, ordinary(name).state)


@dataclass
class Table:
    """The names of a place, as one process writes and reads them."""

    arbiter: Arbiter
    place: Place

    def __post_init__(self) -> None:
        self.store = self.place.store()

    def create(self, name: str, token: str, data: bytes = b"") -> Any:
        made = self.arbiter.create(self.place.name(name), token, data or token.encode())
        return run(made, self.store, DEADLINE)

    def delete(self, name: str) -> None:
        run(self.arbiter.delete(self.place.name(name)), self.store, DEADLINE)

    def holder(self, name: str) -> str | None:
        """Return who holds a name, as a reader hears it, after looking at its bytes."""
        found = run(self.arbiter.find(self.place.name(name)), self.store, DEADLINE)
        if isinstance(found, Absent):
            return None
        token = str(found.holder.token)
        assert self.bytes_at(found.path) == token.encode()
        return token

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a full name, as a reader through the shim finds them."""
        found = run(self.arbiter.find(path), self.store, DEADLINE)
        return self.bytes_at(found.path) if isinstance(found, Located) else None

    def bytes_at(self, path: str) -> bytes:
        got = self.store.get(path)
        assert isinstance(got, Got), got
        return got.data

    def shown(self, name: str) -> str | None:
        """Return whose bytes a reader without the shim finds."""
        path = self.place.name(name)
        return self.bytes_at(path).decode() if isinstance(self.store.head(path), Found) else None


def contender(arbiter: Arbiter, place: Place) -> Contender:
    """Take part in a race, through a store of this process's own."""
    store = place.store()

    def prepare(name: str, data: bytes) -> Attempt:
        token = str(uuid.uuid4())

        def attempt() -> None:
            run(arbiter.create(name, token, data), store, DEADLINE)

        return attempt

    return prepare
