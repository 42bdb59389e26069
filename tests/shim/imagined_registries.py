"""Imagined registries, of claims or of locks, in one world with an imagined store of the explorer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from putifabsent.backends import base, registries
from putifabsent.shim import requests
from putifabsent.testing.imagined import LOST, ImaginedStore, Thing

if TYPE_CHECKING:
    from collections.abc import Hashable

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
                return state, registries.Held(holder.owner)
            return (state | {mine} if self.kind == "honest" else state), registries.Acquired()
        if holder is None:
            return state, registries.Free()
        if holder != mine[1]:
            return state, registries.Held(holder.owner)
        return state - {mine}, registries.Released()
