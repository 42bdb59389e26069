"""How the suites ask a store or a registry: in both colours, from many threads, and from a forked child.

And how they look at a store's bytes without asking it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from multiprocessing.pool import ThreadPool
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pytest
from fsspec.asyn import get_loop, sync

from putifabsent.backends.base import Created, Creation, Found, Got, Holder, InMemory, Staged, Store, Written
from putifabsent.backends.registries import Claim, ClaimEntry, ClaimPage, Claims, Lock, TryAgain
from putifabsent.shim.requests import Create, Head, Request, Stage, perform, perform_async
from putifabsent.testing.races import creation_of

if TYPE_CHECKING:
    from putifabsent.backends.registries import Counter

T = TypeVar("T")

COLOURS: tuple[Literal["sync", "async"], ...] = ("sync", "async")
_FORK_SECONDS = 60
_SECONDS = 120
_TIMES = 1000


class InBothColours:
    """Has every test run by the methods, and by their asynchronous twins."""

    @pytest.fixture(params=COLOURS)
    def colour(self, request: pytest.FixtureRequest) -> Literal["sync", "async"]:
        """Return how the store, or the registry, is called."""
        colour: Literal["sync", "async"] = request.param
        return colour


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
        got = self._store.get(name)
        return got.data if isinstance(got, Got) else None

    def write(self, name: str, data: bytes) -> None:
        outcome = self._store.put(name, InMemory(data), creation_of(name))
        assert isinstance(outcome, Written), outcome


@dataclass(frozen=True)
class Ask:
    """Performs requests on a store, in one of its two colours.

    Asynchronous ones run in fsspec's own loop, as the filesystems' do.
    """

    store: Store  # which store is called
    colour: Literal["sync", "async"]  # whether by its methods or by their asynchronous twins

    def __call__(self, request: Request) -> Any:
        """Return the outcome of ``request``."""
        if self.colour == "sync":
            return perform(request, self.store)
        return sync(get_loop(), perform_async, request, self.store)

    def of(self, store: Store) -> Ask:
        """Return the same, of another store."""
        return replace(self, store=store)


def held(ask: Ask, name: str) -> Holder:
    """Return who holds ``name``."""
    seen = ask(Head(name))
    assert isinstance(seen, Found), f"{name!r}: {seen}"
    return seen.holder


def created(ask: Ask, name: str, body: bytes = b"x") -> Creation:
    """Have a name created; return by what creation."""
    creation = creation_of(name)
    outcome = ask(Create(name, InMemory(body), creation))
    assert isinstance(outcome, Created), outcome
    return creation


def staged(ask: Ask, name: str, body: bytes, creation: Creation | None = None) -> Staged:
    """Have bytes staged for a name, of a creation of their own if none is given."""
    outcome = ask(Stage(name, InMemory(body), creation or creation_of(name)))
    assert isinstance(outcome, Staged), outcome
    return outcome


def created_and_held(ask: Ask, name: str) -> bool:
    """Whether a creation succeeds, and is found."""
    creation = created(ask, name)
    return held(ask, name).token == creation.token


async def cancelled(work: Awaitable[object], turns: int) -> None:
    """Begin something, and cancel it after so many turns of its loop."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# --- registries


class Registry:
    """A registry whose methods are called by their asynchronous twins, each on a loop of its own.

    ``sync`` calls the methods themselves.
    """

    def __init__(self, registry: Claims | Counter | Lock, colour: Literal["sync", "async"]) -> None:
        self._registry = registry
        self._colour = colour

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if self._colour == "sync":
            called: Callable[..., Any] = getattr(self._registry, method)
            return called
        twin = getattr(self._registry, f"{method}_async")
        return lambda *arguments: asyncio.run(twin(*arguments))

    def of(self, registry: Claims | Counter | Lock) -> Registry:
        """Return the same, of another registry."""
        return Registry(registry, self._colour)


def first_claim(identity: str) -> Claim:
    """Return a claim of the first incarnation, by a creation of its own."""
    token = str(uuid.uuid4())
    return Claim(1, live=True, key=f"{identity}~1~{token}.0", token=token, writer=str(uuid.uuid4()))


def all_pages(page: Callable[..., Any], place: str) -> list[ClaimEntry]:
    """Return what all pages of a listing have, as often as they have it."""
    found: list[ClaimEntry] = []
    where: tuple[Any, ...] = (place,)
    while True:
        got = page(*where)
        assert isinstance(got, ClaimPage), got
        found += got.entries
        if got.more is None:
            return found
        where = place, got.more


def together(writers: int, work: Callable[[int], T]) -> list[T]:
    """Return what ``work`` returns in so many threads that begin it together."""
    gate = threading.Barrier(writers)

    def write(number: int) -> T:
        gate.wait(_SECONDS)
        return work(number)

    with ThreadPool(writers) as pool:
        return pool.map_async(write, range(writers), chunksize=1).get(_SECONDS)


def answered(ask: Callable[[], Any]) -> Any:
    """Return what a server answers that may throttle for a while; whoever never answers is found out."""
    outcomes = (ask() for _ in range(_TIMES))
    return next((each for each in outcomes if not isinstance(each, TryAgain)), "it was never answered")


# --- other processes


def forked(succeeds: Callable[[], bool]) -> int:
    """Return how a forked child ended that ran ``succeeds``: 0 if it returned True; a signal if it hung."""
    child = os.fork()
    if child == 0:
        # A child that hangs is ended by its own alarm, whatever holds its locks.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_FORK_SECONDS)
        code = 1
        try:
            code = 0 if succeeds() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
