"""The three ways in which a store can create a name, each made ready up to the request that decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from putifabsent.backends.base import Absent, ConditionalCopy, Created, Refused, Staged
from putifabsent.backends.body import InMemory
from putifabsent.backends.probe_ground import content

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import CompleteOutcome, Store
    from putifabsent.backends.probe_ground import Ground

    Decision: TypeAlias = CompleteOutcome | Absent
    Prepare: TypeAlias = Callable[[Ground, str, int, int], "Attempt"]

__all__ = ["Attempt", "Decision", "Prepare", "operations_of"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One create of a name, ready.

    Attributes
    ----------
    token
        The creation's.
    mark, size
        What its bytes are made of, and how many they are.
    decide
        Sends the request that decides.
    discard
        Removes what the attempt leaves beside the name.
    """

    token: str
    mark: str
    size: int
    decide: Callable[[], Decision]
    discard: Callable[[], None]

    def is_in(self, token: str | None, data: bytes | None) -> bool:
        """Whether a token and bytes that were read are this attempt's."""
        return token == self.token and data == content(self.mark, self.size)


def operations_of(store: Store) -> dict[str, Prepare]:
    """Return what the store offers, by name.

    Each prepares an attempt from the probe's ground, a name, a number of bytes and the attempt's place
    among those that are raced together.
    """
    offered: dict[str, Prepare] = {"put": _put, "complete": _complete}
    if isinstance(store, ConditionalCopy):
        offered["copy"] = _copy
    return offered


def _put(ground: Ground, name: str, size: int, place: int) -> Attempt:
    del place
    creation = ground.creation()
    body = InMemory(content(creation.token, size))
    return Attempt(
        creation.token, creation.token, size, lambda: ground.store.create(name, body, creation), _nothing
    )


def _complete(ground: Ground, name: str, size: int, place: int) -> Attempt:
    del place
    creation = ground.creation()
    token = creation.token
    staged = ground.stage(name, content(token, size), creation)
    if not isinstance(staged, Staged):
        failed = staged
        return Attempt(token, token, size, lambda: failed, _nothing)
    upload = staged
    return Attempt(token, token, size, lambda: ground.complete(upload), lambda: ground.discard(upload))


def _copy(ground: Ground, name: str, size: int, place: int) -> Attempt:
    creation = ground.creation()
    source, made = ground.source(place, size)
    store = ground.store

    def decide() -> Decision:
        if not isinstance(made, Created):
            return made
        if not isinstance(store, ConditionalCopy):
            return Refused(TypeError(f"the {store.kind} store has no conditional copy"))
        return store.copy(source, name, creation)

    return Attempt(creation.token, source, size, decide, _nothing)


def _nothing() -> None:
    """A put or a copy leaves nothing beside the name."""
