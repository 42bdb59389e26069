"""Contenders: what takes part in a race, made ready up to the one step that decides."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from putifabsent.backends.base import (
    STATE_FOLDER,
    Created,
    Creation,
    Exists,
    Refused,
    Staged,
    Store,
    TryAgain,
)
from putifabsent.backends.body import InMemory

if TYPE_CHECKING:
    from putifabsent.backends.base import CompleteOutcome

__all__ = [
    "Attempt",
    "Contender",
    "creation_of",
    "through_filesystem",
    "through_made_store",
    "through_store",
]

StoreOperation: TypeAlias = Literal["create", "complete", "mixed"]

Attempt: TypeAlias = Callable[[], None]
"""The step that decides: it returns for a win, and raises FileExistsError for a loss."""

Contender: TypeAlias = Callable[[str, bytes], Attempt]
"""Prepares one creation of a name from these bytes, and returns what is left to do."""

_SENDS = 20


def creation_of(name: str, **extra: Any) -> Creation:
    """Return a fresh creation of ``name``, with the state folder beside it."""
    return Creation(str(uuid.uuid4()), str(uuid.uuid4()), f"{name.rpartition('/')[0]}/{STATE_FOLDER}", extra)


def through_store(store: Store, operation: StoreOperation = "create") -> Contender:
    """Return a contender that asks a store itself, with no protocol above it.

    Parameters
    ----------
    store
        Which.
    operation
        What decides: one create, the completion of a staged upload, or by turns one and the other.
    """
    if operation == "mixed":
        turns = cycle((_creates, _completes))
        # `next` on a cycle is one step, whatever threads there are.
        return lambda name, data: next(turns)(store, name, data)
    return partial({"create": _creates, "complete": _completes}[operation], store)


def through_made_store(make: Callable[[], Store], operation: StoreOperation = "create") -> Contender:
    """:func:`through_store`, for other processes: ``race(partial(through_made_store, make), ...)``."""
    return through_store(make(), operation)


def through_filesystem(fs: Any, operation: Literal["create", "rename"] = "create") -> Contender:
    """Return a contender that writes through an fsspec filesystem, guarded or not.

    Parameters
    ----------
    fs
        Which.
    operation
        What decides: ``pipe_file(..., mode="create")``, or ``mv`` of a file written before.
    """
    return partial({"create": _pipes, "rename": _renames}[operation], fs)


def _creates(store: Store, name: str, data: bytes) -> Attempt:
    body, creation = InMemory(data), creation_of(name)

    def attempt() -> None:
        for _ in range(_SENDS):
            outcome = store.create(name, body, creation)
            if not isinstance(outcome, TryAgain):
                break
        _tell(name, outcome)

    return attempt


def _completes(store: Store, name: str, data: bytes) -> Attempt:
    body, creation = InMemory(data), creation_of(name)

    def stage() -> Staged:
        staged = store.stage(name, body, creation)
        return staged if isinstance(staged, Staged) else _fail(name, staged)

    first = stage()

    def attempt() -> None:
        staged = first
        for _ in range(_SENDS):
            outcome = store.complete(staged)
            if not isinstance(outcome, Created):
                store.discard(staged)
            if not isinstance(outcome, TryAgain):
                break
            staged = stage()
        _tell(name, outcome)

    return attempt


def _pipes(fs: Any, name: str, data: bytes) -> Attempt:
    return partial(fs.pipe_file, name, data, mode="create")


def _renames(fs: Any, name: str, data: bytes) -> Attempt:
    source = f"{name}.{uuid.uuid4()}"
    fs.pipe_file(source, data)

    def attempt() -> None:
        try:
            fs.mv(source, name)
        except FileExistsError:
            fs.rm_file(source)
            raise

    return attempt


def _tell(name: str, outcome: CompleteOutcome) -> None:
    if isinstance(outcome, Exists):
        raise FileExistsError(name)
    if not isinstance(outcome, Created):
        _fail(name, outcome)


def _fail(name: str, outcome: object) -> NoReturn:
    cause = outcome.error if isinstance(outcome, Refused) else getattr(outcome, "cause", None)
    raise RuntimeError(f"{type(outcome).__name__} for {name}: {cause}") from cause
