"""How the suites ask a store, in both colours, and how they look at its bytes without asking it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from fsspec.asyn import get_loop, sync

from putifabsent.backends.base import Created, Exists, Found, Got, Staged, Written
from putifabsent.backends.body import InMemory
from putifabsent.shim.requests import Complete, Create, Discard, Head, Stage
from putifabsent.testing.contenders import creation_of

if TYPE_CHECKING:
    from putifabsent.backends.base import Holder, Store
    from putifabsent.shim.requests import Request
    from putifabsent.testing.contenders import Attempt

__all__ = [
    "Around",
    "Ask",
    "ThroughTheStore",
    "completing",
    "created_and_held",
    "creating",
    "held",
    "won",
]


class Around(ABC):
    """A way to a store's bytes that does not go through the code under test."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return the bytes under ``name``, or None where there is nothing, or can't be."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Put bytes under ``name``, and make its folder where the store has folders."""


class ThroughTheStore(Around):
    """The store itself, for want of another way: then it vouches for its own bytes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, name: str) -> bytes | None:
        """:meth:`~putifabsent.backends.base.Store.get`."""
        got = self._store.get(name)
        return got.data if isinstance(got, Got) else None

    def write(self, name: str, data: bytes) -> None:
        """:meth:`~putifabsent.backends.base.Store.put`, as another creation."""
        outcome = self._store.put(name, InMemory(data), creation_of(name))
        assert isinstance(outcome, Written), outcome


@dataclass(frozen=True)
class Ask:
    """Performs requests on a store, in one of its two colours.

    Asynchronous ones run in fsspec's own loop, as the filesystems' do.

    Attributes
    ----------
    store
        Which store is asked.
    colour
        Whether by its methods or by their asynchronous twins.
    """

    store: Store
    colour: Literal["sync", "async"]

    def __call__(self, request: Request) -> Any:
        """Return the outcome of ``request``."""
        if self.colour == "sync":
            return request.perform(self.store)  # type: ignore[union-attr]
        return sync(get_loop(), request.perform_async, self.store)  # type: ignore[union-attr]

    def of(self, store: Store) -> Ask:
        """Return the same, of another store."""
        return replace(self, store=store)


def held(ask: Ask, name: str) -> Holder:
    """Return who holds ``name``."""
    seen = ask(Head(name))
    assert isinstance(seen, Found), f"{name!r}: {seen}"
    return seen.holder


def creating(ask: Ask, name: str, body: bytes) -> Attempt:
    """Be a contender of a race: one create decides."""
    request = Create(name, InMemory(body), creation_of(name))
    return lambda: won(name, ask(request))


def completing(ask: Ask, name: str, body: bytes) -> Attempt:
    """Be a contender of a race: a completion decides."""
    staged = ask(Stage(name, InMemory(body), creation_of(name)))
    assert isinstance(staged, Staged), staged

    def complete() -> None:
        outcome = ask(Complete(staged))
        if isinstance(outcome, Exists):
            ask(Discard(staged))
        won(name, outcome)

    return complete


def won(name: str, outcome: Any) -> None:
    """Tell a race what an outcome means: anything but a win and a loss is an error."""
    if isinstance(outcome, Exists):
        raise FileExistsError(name)
    assert isinstance(outcome, Created), outcome


def created_and_held(ask: Ask, name: str) -> bool:
    """Whether a creation succeeds, and is found."""
    creation = creation_of(name)
    created = ask(Create(name, InMemory(b"x"), creation))
    return isinstance(created, Created) and held(ask, name).token == creation.token
