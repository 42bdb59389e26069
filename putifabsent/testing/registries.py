"""How the suites for registries ask: in both colours, from many threads at once."""

from __future__ import annotations

import asyncio
import threading
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pytest

from putifabsent.backends.registries import Claim, ClaimEntry, ClaimPage
from putifabsent.testing.stores import COLOURS

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.counters import Counter
    from putifabsent.backends.registries import Claims, Lock

__all__ = ["Asked", "InBothColours", "all_pages", "first_claim", "together"]

T = TypeVar("T")

_SECONDS = 120


class Asked:
    """A registry whose methods are called by their asynchronous twins, each on a loop of its own.

    ``sync`` calls the methods themselves.
    """

    def __init__(self, registry: Claims | Counter | Lock, colour: Literal["sync", "async"]) -> None:
        self._registry = registry
        self._colour = colour

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if self._colour == "sync":
            asked: Callable[..., Any] = getattr(self._registry, method)
            return asked
        return partial(self._on_a_loop, getattr(self._registry, f"{method}_async"))

    def of(self, registry: Claims | Counter | Lock) -> Asked:
        """Return the same, of another registry."""
        return Asked(registry, self._colour)

    @staticmethod
    def _on_a_loop(twin: Callable[..., Any], *arguments: Any) -> Any:
        return asyncio.run(twin(*arguments))


class InBothColours:
    """Has every test run by the methods, and by their asynchronous twins."""

    @pytest.fixture(params=COLOURS)
    def colour(self, request: pytest.FixtureRequest) -> Literal["sync", "async"]:
        """Return how the registry is asked."""
        colour: Literal["sync", "async"] = request.param
        return colour


def first_claim(identity: str) -> Claim:
    """Return a claim of the first incarnation, by a creation of its own."""
    token = str(uuid.uuid4())
    return Claim(1, live=True, key=f"{identity}~1~{token}.0", token=token, writer=str(uuid.uuid4()))


def all_pages(page: Callable[..., Any], place: str) -> list[ClaimEntry]:
    """Return what all pages of a listing have, as often as they have it."""
    found: list[ClaimEntry] = []
    got = page(place)
    assert isinstance(got, ClaimPage), got
    found += got.entries
    while got.more is not None:
        got = page(place, got.more)
        assert isinstance(got, ClaimPage), got
        found += got.entries
    return found


def together(writers: int, work: Callable[[int], T]) -> list[T]:
    """Return what ``work`` returns in so many threads that begin it together."""
    gate = threading.Barrier(writers)
    told: list[T] = []

    def write(number: int) -> None:
        gate.wait(_SECONDS)
        told.append(work(number))

    threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_SECONDS)
    assert len(told) == writers, "somebody was not answered"
    return told
