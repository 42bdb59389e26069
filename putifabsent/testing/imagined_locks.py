"""An imagined lock beside an imagined store: as good as a lock can be, or as bad."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from putifabsent.backends.registries import Acquired, Free, Held, Maybe, Refused, Released
from putifabsent.shim.requests import Acquire, Release
from putifabsent.testing.imagined import LOST

if TYPE_CHECKING:
    from collections.abc import Hashable

    from putifabsent.testing.imagined import ImaginedStore, Thing

__all__ = ["Forget", "ImaginedLocks", "Kind", "Owner"]

Kind: TypeAlias = Literal["honest", "generous", "busy", "refusing"]

_REFUSED = PermissionError("the lock refuses")


class Owner(NamedTuple):
    """Who holds a lock."""

    owner: str


class Forget(NamedTuple):
    """All locks are lost: their leases end, or their server fails over. No protocol asks for this."""


State: TypeAlias = "frozenset[tuple[str, Thing | Owner]]"


class ImaginedLocks:
    """A store, and locks whose keys are no names of its objects.

    Parameters
    ----------
    store
        What objects lie in.
    kind
        ``honest``: one holder at a time, until it is released or a :class:`Forget` comes; ``generous``: all
        are granted it; ``busy``: nobody ever; ``refusing``: it answers nothing else.
    """

    def __init__(self, store: ImaginedStore, kind: Kind = "honest") -> None:
        self.store = store
        self.kind = kind
        self.initial: State = frozenset(store.initial)

    def apply(self, state: Any, request: Any) -> tuple[State, Any]:
        """Return the state after a request, and its outcome."""
        if isinstance(request, Forget):
            return frozenset(each for each in state if not isinstance(each[1], Owner)), None
        if not isinstance(request, (Acquire, Release)):
            return self.store.apply(state, request)
        if self.kind == "refusing":
            return state, Refused(_REFUSED)
        holder = dict(state).get(request.key)
        if self.kind == "busy":
            holder = Owner("somebody")
        elif self.kind == "generous":
            holder = None if isinstance(request, Acquire) else Owner(request.owner)
        return self._asked(state, request, holder)

    def _asked(self, state: Any, request: Acquire | Release, holder: Owner | None) -> tuple[State, Any]:
        mine = (request.key, Owner(request.owner))
        if isinstance(request, Acquire):
            if holder is not None:
                return state, Held(holder.owner, math.inf)
            return (state | {mine} if self.kind == "honest" else state), Acquired()
        if holder is None:
            return state, Free()
        if holder != mine[1]:
            return state, Held(holder.owner, math.inf)
        return state - {mine}, Released()

    def unanswered(self, request: Any) -> Any:
        """Return what a lost answer means."""
        if isinstance(request, Forget):
            return None
        return Maybe(LOST) if isinstance(request, (Acquire, Release)) else self.store.unanswered(request)

    def changes(self, request: Any) -> bool:
        """Whether it writes."""
        return isinstance(request, (Acquire, Release, Forget)) or self.store.changes(request)

    def begun(self, state: Any, request: Any) -> Hashable | None:
        """Return what is left of a copy that has read its source."""
        return self.store.begun(state, request)
