"""A lock says who goes first, the ballot who wins: progress from the one, safety from the other.

Writers who meet in a ballot cost each other rounds. So a creation asks for a lock first, and whoever finds it
held waits a while. But a lock can be lost, unnoticed: its lease ends while its holder is paused, its server
fails over and has never heard of it, its answer goes astray. So nothing is ever concluded from it: with the
lock, without it, or with a lock that somebody else believes to hold as well, the same ballot decides
(:mod:`putifabsent.shim.ballot`). What a bad lock costs is time.

Only creations ask for it. Readers and deletions use the ballot's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from putifabsent.backends.registries import Acquired, Held, Lock, Maybe
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim import ballot
from putifabsent.shim.requests import Acquire, Pause, Protocol, Release

if TYPE_CHECKING:
    from putifabsent.backends.base import Created, Creation
    from putifabsent.backends.body import Body
    from putifabsent.shim.names import Name

LEASE = 5.0
"""Seconds: many times what a ballot takes. A holder that dies is waited for no longer."""

PATIENCE = 1 / 3
"""The share of the time until the deadline for which a busy lock is waited for; the ballot has the rest."""


def create(
    name: Name, body: Body, creation: Creation, *, lock: Lock, place: str, lease: float = LEASE
) -> Protocol[Created]:
    """Bring ``name`` into being with these bytes, at most once; as :func:`putifabsent.shim.ballot.create`.

    Eight requests where nobody else is there: the lock, the six of the ballot, the lock again. Nothing is
    relied on of the lock: it may be lost, or grant everybody all at once; no fault of it is an error.
    ``place`` is the store's canonical address, up to where its names begin (``s3://``): one lock serves many.
    After ``lease`` seconds it is free again, should this writer die.
    """
    turn = _Turn(lock, f"{place}{name.canonical}", creation.token, lease)
    failed: BaseException | None = None
    try:
        yield from _wait(turn, name, creation)
        created = yield from ballot.create(name, body, creation)
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised below
        failed = error
    try:
        if turn.may_be_mine:
            yield Release(lock, turn.key, turn.owner)
    except GeneratorExit:
        raise
    except Exception:  # noqa: BLE001, S110 - the lease ends by itself
        pass
    except BaseException as stop:
        if failed is None:
            reason = f"it was created, and then there was {type(stop).__name__}"
            failed = OutcomeUnknown(name.path, creation.token, reason)
        # Of two interruptions the first one counts.
        if isinstance(failed, Exception):
            raise stop from failed
    if failed is not None:
        try:
            raise failed
        finally:
            del failed  # it refers to this frame, and so to the bytes
    return created


@dataclass(slots=True)
class _Turn:
    """A lock that one creation asks for, and whether it may have been granted."""

    lock: Lock
    key: str
    owner: str
    lease: float
    may_be_mine: bool = False


def _wait(turn: _Turn, name: Name, creation: Creation) -> Protocol[None]:
    """Wait for the lock, but not for long.

    ``NameTaken``: somebody has created the name meanwhile: most who wait hear this, and need no lock for it.
    """
    for attempt in count(1):
        # An interruption may come when it was just granted.
        turn.may_be_mine = True
        outcome = yield Acquire(turn.lock, turn.key, turn.owner, turn.lease)
        busy = isinstance(outcome, Held) and outcome.by != turn.owner
        turn.may_be_mine = isinstance(outcome, (Acquired, Held, Maybe)) and not busy
        if not busy or not (yield Pause(attempt, PATIENCE)):
            return
        yield from ballot.glance(name, creation)
