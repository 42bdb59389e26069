"""What a protocol may ask for: one small class a request.

A protocol is a generator that yields these and is sent their outcomes. It never performs them itself, so
one text of it runs synchronously, asynchronously, and under the schedule explorer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from putifabsent.backends.base import ConditionalCopy, Refused

if TYPE_CHECKING:
    from datetime import datetime

    from putifabsent.backends.base import (
        CompleteOutcome,
        CreateOutcome,
        Creation,
        DeleteOutcome,
        GetOutcome,
        HeadOutcome,
        ListOutcome,
        PublishOutcome,
        PutOutcome,
        Staged,
        StageOutcome,
        Store,
    )
    from putifabsent.backends.body import Body
    from putifabsent.backends.counters import AdvanceOutcome, Counter
    from putifabsent.backends.registries import (
        AcquireOutcome,
        Claim,
        ClaimOutcome,
        Claims,
        ForgetOutcome,
        Lock,
        PageOutcome,
        ReadOutcome,
        ReleaseOutcome,
    )

__all__ = [
    "Acquire",
    "Advance",
    "Both",
    "Complete",
    "Copy",
    "Create",
    "Delete",
    "Discard",
    "ForgetClaim",
    "Get",
    "Head",
    "List",
    "ListClaims",
    "Now",
    "Pause",
    "Protocol",
    "Publish",
    "Put",
    "ReadClaim",
    "Release",
    "Request",
    "Since",
    "Sleep",
    "Stage",
    "StageCopy",
    "StoreTime",
    "SweepClaims",
    "Walk",
    "WriteClaim",
]


class Create(NamedTuple):
    """Write the body under the name, only if it is not there."""

    name: str
    body: Body
    creation: Creation

    def perform(self, store: Store) -> CreateOutcome:
        """Ask ``store``."""
        return store.create(self.name, self.body, self.creation)

    async def perform_async(self, store: Store) -> CreateOutcome:
        """Ask ``store``, asynchronously."""
        return await store.create_async(self.name, self.body, self.creation)


class Copy(NamedTuple):
    """Create the name from another object in one request, where the store is known to honour that."""

    source: str
    name: str
    creation: Creation

    def perform(self, store: Store) -> CreateOutcome:
        """Ask ``store``."""
        if not isinstance(store, ConditionalCopy):
            return Refused(TypeError(f"the {store.kind} store has no conditional copy"))
        return store.copy(self.source, self.name, self.creation)

    async def perform_async(self, store: Store) -> CreateOutcome:
        """Ask ``store``, asynchronously."""
        if not isinstance(store, ConditionalCopy):
            return Refused(TypeError(f"the {store.kind} store has no conditional copy"))
        return await store.copy_async(self.source, self.name, self.creation)


class Stage(NamedTuple):
    """Give the store a large body; nothing is readable under the name yet."""

    name: str
    body: Body
    creation: Creation

    def perform(self, store: Store) -> StageOutcome:
        """Ask ``store``."""
        return store.stage(self.name, self.body, self.creation)

    async def perform_async(self, store: Store) -> StageOutcome:
        """Ask ``store``, asynchronously."""
        return await store.stage_async(self.name, self.body, self.creation)


class StageCopy(NamedTuple):
    """Stage another object's bytes."""

    source: str
    size: int
    version: str | None
    name: str
    creation: Creation

    def perform(self, store: Store) -> StageOutcome:
        """Ask ``store``."""
        return store.stage_copy(*self)

    async def perform_async(self, store: Store) -> StageOutcome:
        """Ask ``store``, asynchronously."""
        return await store.stage_copy_async(*self)


class Complete(NamedTuple):
    """Publish what was staged, only if the name is not there."""

    staged: Staged

    def perform(self, store: Store) -> CompleteOutcome:
        """Ask ``store``."""
        return store.complete(self.staged)

    async def perform_async(self, store: Store) -> CompleteOutcome:
        """Ask ``store``, asynchronously."""
        return await store.complete_async(self.staged)


class Discard(NamedTuple):
    """Remove what was staged."""

    staged: Staged

    def perform(self, store: Store) -> None:
        """Ask ``store``."""
        store.discard(self.staged)

    async def perform_async(self, store: Store) -> None:
        """Ask ``store``, asynchronously."""
        await store.discard_async(self.staged)


class Head(NamedTuple):
    """Look who holds the name."""

    name: str

    def perform(self, store: Store) -> HeadOutcome:
        """Ask ``store``."""
        return store.head(self.name)

    async def perform_async(self, store: Store) -> HeadOutcome:
        """Ask ``store``, asynchronously."""
        return await store.head_async(self.name)


class Get(NamedTuple):
    """Read a small object whole."""

    name: str

    def perform(self, store: Store) -> GetOutcome:
        """Ask ``store``."""
        return store.get(self.name)

    async def perform_async(self, store: Store) -> GetOutcome:
        """Ask ``store``, asynchronously."""
        return await store.get_async(self.name)


class List(NamedTuple):
    """List the files directly in a folder."""

    folder: str

    def perform(self, store: Store) -> ListOutcome:
        """Ask ``store``."""
        return store.list(self.folder)

    async def perform_async(self, store: Store) -> ListOutcome:
        """Ask ``store``, asynchronously."""
        return await store.list_async(self.folder)


class Walk(NamedTuple):
    """List all files below a folder."""

    folder: str

    def perform(self, store: Store) -> ListOutcome:
        """Ask ``store``."""
        return store.walk(self.folder)

    async def perform_async(self, store: Store) -> ListOutcome:
        """Ask ``store``, asynchronously."""
        return await store.walk_async(self.folder)


class Delete(NamedTuple):
    """Remove the name; with a version, only while it is still that object."""

    name: str
    version: str | None = None

    def perform(self, store: Store) -> DeleteOutcome:
        """Ask ``store``."""
        return store.delete(self.name, self.version)

    async def perform_async(self, store: Store) -> DeleteOutcome:
        """Ask ``store``, asynchronously."""
        return await store.delete_async(self.name, self.version)


class Put(NamedTuple):
    """Write the body under a name of the shim's own, whatever is there."""

    name: str
    body: Body
    creation: Creation

    def perform(self, store: Store) -> PutOutcome:
        """Ask ``store``."""
        return store.put(self.name, self.body, self.creation)

    async def perform_async(self, store: Store) -> PutOutcome:
        """Ask ``store``, asynchronously."""
        return await store.put_async(self.name, self.body, self.creation)


class Publish(NamedTuple):
    """Copy what was put to the plain name, by the store itself."""

    source: str
    name: str
    creation: Creation

    def perform(self, store: Store) -> PublishOutcome:
        """Ask ``store``."""
        return store.publish(self.source, self.name, self.creation)

    async def perform_async(self, store: Store) -> PublishOutcome:
        """Ask ``store``, asynchronously."""
        return await store.publish_async(self.source, self.name, self.creation)


class ReadClaim(NamedTuple):
    """Read an identity's claim."""

    claims: Claims
    identity: str

    def perform(self, _: Store) -> ReadOutcome:
        """Ask the registry."""
        return self.claims.read(self.identity)

    async def perform_async(self, _: Store) -> ReadOutcome:
        """Ask the registry, asynchronously."""
        return await self.claims.read_async(self.identity)


class WriteClaim(NamedTuple):
    """Write an identity's claim, only if what is there is what is expected."""

    claims: Claims
    identity: str
    claim: Claim
    expected: Claim | None

    def perform(self, _: Store) -> ClaimOutcome:
        """Ask the registry."""
        return self.claims.write(self.identity, self.claim, self.expected)

    async def perform_async(self, _: Store) -> ClaimOutcome:
        """Ask the registry, asynchronously."""
        return await self.claims.write_async(self.identity, self.claim, self.expected)


class ForgetClaim(NamedTuple):
    """Remove an identity's claim, only if it is what is expected."""

    claims: Claims
    identity: str
    expected: Claim

    def perform(self, _: Store) -> ForgetOutcome:
        """Ask the registry."""
        return self.claims.forget(self.identity, self.expected)

    async def perform_async(self, _: Store) -> ForgetOutcome:
        """Ask the registry, asynchronously."""
        return await self.claims.forget_async(self.identity, self.expected)


class ListClaims(NamedTuple):
    """Read a page of the claims of the names directly in a folder."""

    claims: Claims
    folder: str
    start: tuple[str, ...] | None = None

    def perform(self, _: Store) -> PageOutcome:
        """Ask the registry."""
        return self.claims.list(self.folder, self.start)

    async def perform_async(self, _: Store) -> PageOutcome:
        """Ask the registry, asynchronously."""
        return await self.claims.list_async(self.folder, self.start)


class SweepClaims(NamedTuple):
    """Read a page of the claims of all names in a place and below it."""

    claims: Claims
    place: str
    start: tuple[str, ...] | None = None

    def perform(self, _: Store) -> PageOutcome:
        """Ask the registry."""
        return self.claims.sweep(self.place, self.start)

    async def perform_async(self, _: Store) -> PageOutcome:
        """Ask the registry, asynchronously."""
        return await self.claims.sweep_async(self.place, self.start)


class Acquire(NamedTuple):
    """Take a lock, if nobody holds it."""

    lock: Lock
    key: str
    owner: str
    lease: float

    def perform(self, _: Store) -> AcquireOutcome:
        """Ask the lock."""
        return self.lock.acquire(self.key, self.owner, self.lease)

    async def perform_async(self, _: Store) -> AcquireOutcome:
        """Ask the lock, asynchronously."""
        return await self.lock.acquire_async(self.key, self.owner, self.lease)


class Release(NamedTuple):
    """End the owner's lock."""

    lock: Lock
    key: str
    owner: str

    def perform(self, _: Store) -> ReleaseOutcome:
        """Ask the lock."""
        return self.lock.release(self.key, self.owner)

    async def perform_async(self, _: Store) -> ReleaseOutcome:
        """Ask the lock, asynchronously."""
        return await self.lock.release_async(self.key, self.owner)


class Advance(NamedTuple):
    """Move a counter."""

    counter: Counter
    name: str
    floor: int
    wanted: int

    def perform(self, _: Store) -> AdvanceOutcome:
        """Ask the counter."""
        return self.counter.advance(self.name, self.floor, self.wanted)

    async def perform_async(self, _: Store) -> AdvanceOutcome:
        """Ask the counter, asynchronously."""
        return await self.counter.advance_async(self.name, self.floor, self.wanted)


class Both(NamedTuple):
    """Two requests of which neither waits for the other. The outcome: both of theirs.

    The second only looks: whoever is interrupted may leave it behind.
    """

    first: Put | Head
    second: Head


class Now(NamedTuple):
    """Look at the caller's own clock, which only goes on. The outcome: seconds."""

    clock: Callable[[], float]

    def perform(self, _: Store) -> float:
        """Look at it."""
        return self.clock()

    async def perform_async(self, _: Store) -> float:
        """Look at it."""
        return self.clock()


class StoreTime(NamedTuple):
    """Ask for the store's own time. The outcome: that, or None where the store does not say it."""

    name: str

    def perform(self, store: Store) -> datetime | None:
        """Ask ``store``."""
        return store.time(self.name)

    async def perform_async(self, store: Store) -> datetime | None:
        """Ask ``store``, asynchronously."""
        return await store.time_async(self.name)


class Since(NamedTuple):
    """How long ago the first request that decides was sent. The outcome: seconds, not too few."""


class Pause(NamedTuple):
    """Back off before the attempt after ``attempt`` (from 1). The outcome: True, or False at the deadline.

    With a ``share`` below 1, False as soon as that share of the time until the deadline is over.
    """

    attempt: int
    share: float = 1.0


class Sleep(NamedTuple):
    """Wait for so many seconds. The outcome: True; or, at once, False where the deadline comes first."""

    seconds: float


Request: TypeAlias = (
    Create
    | Copy
    | Stage
    | StageCopy
    | Complete
    | Discard
    | Head
    | Get
    | List
    | Walk
    | Delete
    | Put
    | Publish
    | ReadClaim
    | WriteClaim
    | ForgetClaim
    | ListClaims
    | SweepClaims
    | Acquire
    | Release
    | Advance
    | Both
    | Now
    | StoreTime
    | Since
    | Pause
    | Sleep
)

T = TypeVar("T")
Protocol: TypeAlias = Generator[Request, Any, T]
