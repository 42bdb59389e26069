"""Imagined stores for the schedule explorer: each request is one atomic step from one state to the next.

Beside a store there may be a registry of claims, or a lock, in one world with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from datetime import datetime, timezone
from itertools import count
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from putifabsent.backends import base, registries
from putifabsent.shim import requests

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

    Without ``conditions`` it says that it honours "only if the name is not there", and overwrites. If it
    ``republishes``, it publishes over another object; else it says that the name exists, as local disk does.
    Without ``versions`` it removes whatever is there. With ``slow_copies`` a late publication has read its
    source when it was sent: it lands though that is removed meanwhile.
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
        if isinstance(request, (requests.Discard, requests.StoreTime)):
            return None  # they promise nothing
        return base.Maybe(LOST) if self.changes(request) else base.TryAgain(LOST)

    def changes(self, request: Any) -> bool:
        """Whether it writes."""
        return isinstance(request, self._writes)

    def begun(self, state: Things, request: Any) -> Hashable | None:
        """Return what is left of a copy that has read its source."""
        if not (self.slow_copies and isinstance(request, requests.Publish)):
            return None
        source = dict(state).get(request.source)
        return None if source is None else _Landing(request.name, source)

    def _land(self, things: dict[str, Thing], request: _Landing) -> Any:
        things[request.name] = request.thing
        return base.Written(request.thing.token)

    def _create(self, things: dict[str, Thing], request: requests.Create) -> Any:
        if self.conditions and request.name in things:
            return base.Exists()
        things[request.name] = Thing(request.creation.token, request.body.whole())
        return base.Created(request.creation.token)

    def _put(self, things: dict[str, Thing], request: requests.Put) -> Any:
        things[request.name] = Thing(request.creation.token, request.body.whole())
        return base.Written(request.creation.token)

    def _publish(self, things: dict[str, Thing], request: requests.Publish) -> Any:
        source = things.get(request.source)
        if source is None:
            return base.Absent()
        # On a disk, the same object is the same file: published before.
        if not self.republishes and things.get(request.name, source) != source:
            return base.Exists()
        things[request.name] = source
        return base.Written(source.token)

    def _stage(self, things: dict[str, Thing], request: requests.Stage) -> Any:
        token = request.creation.token
        uploads = (f"{_UPLOADS}/{token}.{number}" for number in count())
        upload = next(name for name in uploads if name not in things)
        things[upload] = Thing(token, request.body.whole())
        return base.Staged(request.name, upload)

    def _complete(self, things: dict[str, Thing], request: requests.Complete) -> Any:
        name, upload = request.staged.name, request.staged.upload
        if upload not in things:
            return base.Gone()
        if self.conditions and name in things:
            return base.Exists()
        things[name] = things.pop(upload)
        return base.Created(things[name].token)

    def _discard(self, things: dict[str, Thing], request: requests.Discard) -> Any:
        things.pop(request.staged.upload, None)

    def _head(self, things: dict[str, Thing], request: requests.Head) -> Any:
        thing = things.get(request.name)
        if thing is None:
            return base.Absent()
        return base.Found(base.Holder(thing.token, None, _THEN, len(thing.data), thing.token))

    def _get(self, things: dict[str, Thing], request: requests.Get) -> Any:
        thing = things.get(request.name)
        return base.Absent() if thing is None else base.Got(thing.data)

    def _list(self, things: dict[str, Thing], request: requests.List) -> Any:
        return self._listed(things, (name for name in things if name.rpartition("/")[0] == request.folder))

    def _walk(self, things: dict[str, Thing], request: requests.Walk) -> Any:
        return self._listed(things, (name for name in things if name.startswith(f"{request.folder}/")))

    def _listed(self, things: dict[str, Thing], names: Iterable[str]) -> base.Listed:
        return base.Listed(tuple(base.Entry(name, _THEN, things[name].token) for name in sorted(names)))

    def _time(self, _: dict[str, Thing], __: requests.StoreTime) -> None:
        """It has no clock."""

    def _delete(self, things: dict[str, Thing], request: requests.Delete) -> Any:
        thing = things.get(request.name)
        if thing is not None and (not self.versions or request.version in (None, thing.token)):
            del things[request.name]
        return base.Deleted()

    _writes = (requests.Create, requests.Complete, requests.Delete, requests.Put, requests.Publish)
    _does: ClassVar[dict[type, Callable[[Any, dict[str, Thing], Any], Any]]] = {
        requests.Create: _create,
        requests.Put: _put,
        requests.Publish: _publish,
        _Landing: _land,
        requests.Stage: _stage,
        requests.Complete: _complete,
        requests.Discard: _discard,
        requests.Head: _head,
        requests.Get: _get,
        requests.List: _list,
        requests.Walk: _walk,
        requests.Delete: _delete,
        requests.StoreTime: _time,
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
        return self.store.begun(state, request)

    def unanswered(self, request: Any) -> Any:
        if isinstance(request, Forget):
            return None
        if isinstance(request, self.writes):
            return base.Maybe(LOST)
        return base.TryAgain(LOST) if isinstance(request, self.reads) else self.store.unanswered(request)

    def changes(self, request: Any) -> bool:
        return isinstance(request, self.writes) or self.store.changes(request)


class ImaginedClaims(_Beside):
    """A store, and a registry that knows its names by other identities than these names themselves.

    If it ``forgets`` dead claims, it is as one with a time to live would be.
    """

    reads = (requests.ReadClaim, requests.ListClaims)
    writes = (requests.WriteClaim, requests.ForgetClaim)

    def __init__(self, store: ImaginedStore, *, forgets: bool = False) -> None:
        super().__init__(store)
        self.forgets = forgets

    def apply(self, state: Any, request: Any) -> tuple[World, Any]:
        """Return the state after a request, and its outcome."""
        if isinstance(request, requests.ListClaims):
            names = sorted(name for name, _ in state if name.rpartition("/")[0] == request.folder)
            claims = dict(state)
            entries = (registries.ClaimEntry(name, claims[name]) for name in names)
            return state, registries.ClaimPage(tuple(entries))
        if not isinstance(request, (requests.ReadClaim, requests.WriteClaim, requests.ForgetClaim)):
            return self.store.apply(state, request)
        there = dict(state).get(request.identity)
        if isinstance(request, requests.ReadClaim):
            return state, base.Absent() if there is None else registries.FoundClaim(there)
        if (there and there.mark) != (request.expected and request.expected.mark):
            return state, registries.NotAsExpected(there)
        others = state - {(request.identity, there)}
        if isinstance(request, requests.ForgetClaim):
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

    writes = (requests.Acquire, requests.Release, Forget)

    def __init__(self, store: ImaginedStore, kind: Kind = "honest") -> None:
        super().__init__(store)
        self.kind = kind

    def apply(self, state: Any, request: Any) -> tuple[World, Any]:
        """Return the state after a request, and its outcome."""
        if isinstance(request, Forget):
            return frozenset(each for each in state if not isinstance(each[1], Owner)), None
        if not isinstance(request, (requests.Acquire, requests.Release)):
            return self.store.apply(state, request)
        if self.kind == "refusing":
            return state, registries.Refused(_REFUSED)
        holder = dict(state).get(request.key)
        if self.kind == "busy":
            holder = Owner("somebody")
        elif self.kind == "generous":
            holder = None if isinstance(request, requests.Acquire) else Owner(request.owner)
        return self._decided(state, request, holder)

    def _decided(self, state: Any, request: Any, holder: Owner | None) -> tuple[World, Any]:
        mine = (request.key, Owner(request.owner))
        if isinstance(request, requests.Acquire):
            if holder is not None:
                return state, registries.Held(holder.owner, math.inf)
            return (state | {mine} if self.kind == "honest" else state), registries.Acquired()
        if holder is None:
            return state, registries.Free()
        if holder != mine[1]:
            return state, registries.Held(holder.owner, math.inf)
        return state - {mine}, registries.Released()
