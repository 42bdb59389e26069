"""Imagined stores for the schedule explorer: each request is one atomic step from one state to the next.

Beside a store there may be a registry of claims, or a lock, in one world with it.
"""

from __future__ import annotations

import math
from datetime import datetime, timezone
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from putifabsent.backends import base, registries
from putifabsent.shim.requests import (
    Acquire,
    Complete,
    Create,
    Delete,
    Discard,
    ForgetClaim,
    Get,
    Head,
    List,
    ListClaims,
    Publish,
    Put,
    ReadClaim,
    Release,
    Stage,
    StoreTime,
    Walk,
    WriteClaim,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

__all__ = [
    "LOST",
    "Forget",
    "ImaginedClaims",
    "ImaginedLocks",
    "ImaginedStore",
    "Kind",
    "Owner",
    "Thing",
    "Things",
]

LOST = ConnectionError("the answer was lost")  # one for all: outcomes must compare equal where they are

# No name of anybody's begins like this.
_UPLOADS = "/uploads"
_THEN = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Thing(NamedTuple):
    """An object."""

    token: str
    data: bytes


class _Landing(NamedTuple):
    """The second half of a copy."""

    name: str
    thing: Thing


Things: TypeAlias = "frozenset[tuple[str, Thing]]"


class ImaginedStore:
    """A store without a clock, strongly consistent.

    Parameters
    ----------
    conditions
        Whether it honours "only if the name is not there"; else it says that it does, and overwrites.
    republishes
        Whether it publishes over another object; else it says that the name exists, as local disk does.
    versions
        Whether it deletes by version; else it removes whatever is there.
    slow_copies
        Whether a publication that is late has read its source when it was sent: it lands though the source
        is removed meanwhile.
    """

    def __init__(
        self,
        *,
        conditions: bool = True,
        republishes: bool = True,
        versions: bool = True,
        slow_copies: bool = False,
        things: Iterable[tuple[str, Thing]] = (),
    ) -> None:
        self.conditions = conditions
        self.republishes = republishes
        self.versions = versions
        self.slow_copies = slow_copies
        self.initial: Things = frozenset(things)

    def apply(self, state: Things, request: Any) -> tuple[Things, Any]:
        """Return the state after a request, and its outcome."""
        things = dict(state)
        outcome = self._does[type(request)](self, things, request)
        return frozenset(things.items()), outcome

    def unanswered(self, request: Any) -> Any:
        """Return what a lost answer means: reading twice is harmless, staging too, writing may not be."""
        if isinstance(request, (Discard, StoreTime)):
            return None  # they promise nothing
        return base.Maybe(LOST) if self.changes(request) else base.TryAgain(LOST)

    def changes(self, request: Any) -> bool:
        """Whether it writes."""
        return isinstance(request, (Create, Complete, Delete, Put, Publish))

    def begun(self, state: Things, request: Any) -> Hashable | None:
        """Return what is left of a copy that has read its source."""
        if not (self.slow_copies and isinstance(request, Publish)):
            return None
        source = dict(state).get(request.source)
        return None if source is None else _Landing(request.name, source)

    def _land(self, things: dict[str, Thing], request: _Landing) -> Any:
        things[request.name] = request.thing
        return base.Written(request.thing.token)

    def _create(self, things: dict[str, Thing], request: Create) -> Any:
        if self.conditions and request.name in things:
            return base.Exists()
        things[request.name] = Thing(request.creation.token, request.body.whole())
        return base.Created(request.creation.token)

    def _put(self, things: dict[str, Thing], request: Put) -> Any:
        things[request.name] = Thing(request.creation.token, request.body.whole())
        return base.Written(request.creation.token)

    def _publish(self, things: dict[str, Thing], request: Publish) -> Any:
        source = things.get(request.source)
        if source is None:
            return base.Absent()
        # On a disk, the same object is the same file: published before.
        if not self.republishes and things.get(request.name, source) != source:
            return base.Exists()
        things[request.name] = source
        return base.Written(source.token)

    def _stage(self, things: dict[str, Thing], request: Stage) -> Any:
        token = request.creation.token
        uploads = (f"{_UPLOADS}/{token}.{number}" for number in count())
        upload = next(name for name in uploads if name not in things)
        things[upload] = Thing(token, request.body.whole())
        return base.Staged(request.name, upload)

    def _complete(self, things: dict[str, Thing], request: Complete) -> Any:
        name, upload = request.staged.name, request.staged.upload
        if upload not in things:
            return base.Gone()
        if self.conditions and name in things:
            return base.Exists()
        things[name] = things.pop(upload)
        return base.Created(things[name].token)

    def _discard(self, things: dict[str, Thing], request: Discard) -> Any:
        things.pop(request.staged.upload, None)

    def _head(self, things: dict[str, Thing], request: Head) -> Any:
        thing = things.get(request.name)
        if thing is None:
            return base.Absent()
        return base.Found(base.Holder(thing.token, None, _THEN, len(thing.data), thing.token))

    def _get(self, things: dict[str, Thing], request: Get) -> Any:
        thing = things.get(request.name)
        return base.Absent() if thing is None else base.Got(thing.data)

    def _list(self, things: dict[str, Thing], request: List) -> Any:
        return self._listed(things, (name for name in things if name.rpartition("/")[0] == request.folder))

    def _walk(self, things: dict[str, Thing], request: Walk) -> Any:
        return self._listed(things, (name for name in things if name.startswith(f"{request.folder}/")))

    def _listed(self, things: dict[str, Thing], names: Iterable[str]) -> base.Listed:
        return base.Listed(tuple(base.Entry(name, _THEN, things[name].token) for name in sorted(names)))

    def _time(self, _: dict[str, Thing], __: StoreTime) -> None:
        """It has no clock."""

    def _delete(self, things: dict[str, Thing], request: Delete) -> Any:
        thing = things.get(request.name)
        if thing is not None and (not self.versions or request.version in (None, thing.token)):
            del things[request.name]
        return base.Deleted()

    _does: ClassVar[dict[type, Callable[[Any, dict[str, Thing], Any], Any]]] = {
        Create: _create,
        Put: _put,
        Publish: _publish,
        _Landing: _land,
        Stage: _stage,
        Complete: _complete,
        Discard: _discard,
        Head: _head,
        Get: _get,
        List: _list,
        Walk: _walk,
        Delete: _delete,
        StoreTime: _time,
    }


World: TypeAlias = "frozenset[tuple[str, Thing | registries.Claim | Owner]]"


class _Beside:
    """A store, and something beside it whose keys are no names of its objects."""

    reads: ClassVar[tuple[type, ...]] = ()
    writes: ClassVar[tuple[type, ...]]  # the requests that are not the store's

    def __init__(self, store: ImaginedStore) -> None:
        self.store = store
        self.initial: World = frozenset(store.initial)

    def begun(self, state: Any, request: Any) -> Hashable | None:
        """Return what is left of a copy that has read its source."""
        return self.store.begun(state, request)

    def unanswered(self, request: Any) -> Any:
        """Return what a lost answer means."""
        if isinstance(request, Forget):
            return None
        if isinstance(request, self.writes):
            return base.Maybe(LOST)
        return base.TryAgain(LOST) if isinstance(request, self.reads) else self.store.unanswered(request)

    def changes(self, request: Any) -> bool:
        """Whether it writes."""
        return isinstance(request, self.writes) or self.store.changes(request)


class ImaginedClaims(_Beside):
    """A store, and a registry that knows its names by other identities than these names themselves.

    If it ``forgets`` dead claims, it is as one with a time to live would be.
    """

    reads = (ReadClaim, ListClaims)
    writes = (WriteClaim, ForgetClaim)

    def __init__(self, store: ImaginedStore, *, forgets: bool = False) -> None:
        super().__init__(store)
        self.forgets = forgets

    def apply(self, state: Any, request: Any) -> tuple[World, Any]:
        """Return the state after a request, and its outcome."""
        if isinstance(request, ListClaims):
            names = sorted(name for name, _ in state if name.rpartition("/")[0] == request.folder)
            claims = dict(state)
            entries = (registries.ClaimEntry(name, claims[name]) for name in names)
            return state, registries.ClaimPage(tuple(entries))
        if not isinstance(request, (ReadClaim, WriteClaim, ForgetClaim)):
            return self.store.apply(state, request)
        there = dict(state).get(request.identity)
        if isinstance(request, ReadClaim):
            return state, base.Absent() if there is None else registries.FoundClaim(there)
        if (there and there.mark) != (request.expected and request.expected.mark):
            return state, registries.NotAsExpected(there)
        others = state - {(request.identity, there)}
        if isinstance(request, ForgetClaim):
            return others, registries.Forgotten()
        if self.forgets and not request.claim.live:
            return others, registries.Claimed()
        return others | {(request.identity, request.claim)}, registries.Claimed()


Kind: TypeAlias = Literal["honest", "generous", "busy", "refusing"]

_REFUSED = PermissionError("the lock refuses")


class Owner(NamedTuple):
    """Who holds a lock."""

    owner: str


class Forget(NamedTuple):
    """All locks are lost: their leases end, or their server fails over. No protocol asks for this."""


class ImaginedLocks(_Beside):
    """A store, and locks whose keys are no names of its objects.

    Of these kinds: ``honest``, one holder at a time, until it is released or a :class:`Forget` comes;
    ``generous``, all are granted it; ``busy``, nobody ever; ``refusing``, it answers nothing else.
    """

    writes = (Acquire, Release, Forget)

    def __init__(self, store: ImaginedStore, kind: Kind = "honest") -> None:
        super().__init__(store)
        self.kind = kind

    def apply(self, state: Any, request: Any) -> tuple[World, Any]:
        """Return the state after a request, and its outcome."""
        if isinstance(request, Forget):
            return frozenset(each for each in state if not isinstance(each[1], Owner)), None
        if not isinstance(request, (Acquire, Release)):
            return self.store.apply(state, request)
        if self.kind == "refusing":
            return state, registries.Refused(_REFUSED)
        holder = dict(state).get(request.key)
        if self.kind == "busy":
            holder = Owner("somebody")
        elif self.kind == "generous":
            holder = None if isinstance(request, Acquire) else Owner(request.owner)
        return self._decided(state, request, holder)

    def _decided(self, state: Any, request: Acquire | Release, holder: Owner | None) -> tuple[World, Any]:
        mine = (request.key, Owner(request.owner))
        if isinstance(request, Acquire):
            if holder is not None:
                return state, registries.Held(holder.owner, math.inf)
            return (state | {mine} if self.kind == "honest" else state), registries.Acquired()
        if holder is None:
            return state, registries.Free()
        if holder != mine[1]:
            return state, registries.Held(holder.owner, math.inf)
        return state - {mine}, registries.Released()
