"""An imagined registry of claims beside an imagined store, in one world for the schedule explorer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from putifabsent.backends.registries import (
    Absent,
    Claim,
    Claimed,
    ClaimEntry,
    ClaimPage,
    Forgotten,
    FoundClaim,
    Maybe,
    NotAsExpected,
    TryAgain,
)
from putifabsent.shim.requests import ForgetClaim, ListClaims, ReadClaim, WriteClaim
from putifabsent.testing.imagined import LOST

if TYPE_CHECKING:
    from collections.abc import Hashable

    from putifabsent.testing.imagined import ImaginedStore, Thing

__all__ = ["ImaginedClaims"]

State: TypeAlias = "frozenset[tuple[str, Thing | Claim]]"


class ImaginedClaims:
    """A store, and a registry that knows its names by other identities than these names themselves.

    Parameters
    ----------
    store
        What objects lie in.
    forgets
        Whether the registry forgets dead claims, as one with a time to live would.
    """

    def __init__(self, store: ImaginedStore, *, forgets: bool = False) -> None:
        self.store = store
        self.forgets = forgets
        self.initial: State = frozenset(store.initial)

    def apply(self, state: Any, request: Any) -> tuple[State, Any]:
        """Return the state after a request, and its outcome."""
        if isinstance(request, ListClaims):
            names = sorted(name for name, _ in state if name.rpartition("/")[0] == request.folder)
            claims = dict(state)
            return state, ClaimPage(tuple(ClaimEntry(name, claims[name]) for name in names))
        if not isinstance(request, (ReadClaim, WriteClaim, ForgetClaim)):
            return self.store.apply(state, request)
        there = dict(state).get(request.identity)
        if isinstance(request, ReadClaim):
            return state, Absent() if there is None else FoundClaim(there)
        if (there and there.mark) != (request.expected and request.expected.mark):
            return state, NotAsExpected(there)
        others = state - {(request.identity, there)}
        if isinstance(request, ForgetClaim):
            return others, Forgotten()
        if self.forgets and not request.claim.live:
            return others, Claimed()
        return others | {(request.identity, request.claim)}, Claimed()

    def unanswered(self, request: Any) -> Any:
        """Return what a lost answer means."""
        if isinstance(request, (ReadClaim, WriteClaim, ForgetClaim, ListClaims)):
            return Maybe(LOST) if self.changes(request) else TryAgain(LOST)
        return self.store.unanswered(request)

    def changes(self, request: Any) -> bool:
        """Whether it writes."""
        return isinstance(request, (WriteClaim, ForgetClaim)) or self.store.changes(request)

    def begun(self, state: Any, request: Any) -> Hashable | None:
        """Return what is left of a copy that has read its source."""
        return self.store.begun(state, request)
