"""Does a win stand? What a store can't decide name by name: series, and names with aliases.

Numbered names expire. A writer paused past the expiry of ``snapshot-5`` would create it again, be
acknowledged, and never be read. So a winner looks whether the entry before its own is still there.

Aliases are other names of one identity (``v3.metadata.json``, ``v3.gz.metadata.json``). The store decides
each name by itself; so a winner looks for the others, and the one that comes first in the order that all
writers share stands.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, NoReturn

from putifabsent.backends.base import Absent, Deleted, Found, Refused
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim.reading import look, read
from putifabsent.shim.requests import Delete, List, Pause

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from putifabsent.backends.base import DeleteOutcome, Listed
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

__all__ = ["CLEARLY_OLDER", "stand", "stand_in_series"]

CLEARLY_OLDER = timedelta(minutes=5)
"""By how much, in the store's own time, another creation must be older to have been there before mine."""

_CREATED = "it was created"
_REMOVED = "it was created, and removed before it was looked at again"


def stand(name: Name, token: str, *, lost: bool, may_withdraw: bool = True) -> Protocol[None]:
    """Return if the win of ``name`` by ``token`` stands.

    Parameters
    ----------
    name, token
        Which creation of which name.
    lost
        Whether an answer to it was lost. Then what looks like a second creation of an expired number may
        be this one itself, which had been there before, and was sent once more.
    may_withdraw
        Whether a creation that does not stand may be removed: not by one who only asks.

    Raises
    ------
    NameTaken
        Another creation had the identity before; mine has been removed again.
    OutcomeUnknown
        It can't be told; nothing has been removed.
    """
    if name.aliases:
        yield from _stand_among_aliases(name, token, may_withdraw=may_withdraw)
    yield from stand_in_series(name, token, lost=lost)


def stand_in_series(
    name: Name,
    token: str,
    *,
    lost: bool = False,
    made: Callable[[], Protocol[datetime | None]] | None = None,
    withdraw: Callable[[], Protocol[NoReturn]] | None = None,
) -> Protocol[None]:
    """Return if the number of ``name`` had not expired before; otherwise as :func:`stand`.

    Parameters
    ----------
    name, token, lost
        As for :func:`stand`.
    made
        Says when the creation was made (None: it is gone), where that isn't when the plain name was.
    withdraw
        Removes the creation, and raises NameTaken, where that is more than to remove the plain name.
    """
    series = name.series
    if series is None or not series.predecessors:
        return
    for predecessor in series.predecessors:
        if isinstance((yield from look(predecessor, name.path, token, _CREATED)), Found):
            return
    folder = name.path.rpartition("/")[0]
    listed: Listed = yield from read(
        List(folder),
        lambda error: OutcomeUnknown(name.path, token, f"{_CREATED}, and {folder} can't be listed: {error}"),
    )
    if made is None:
        mine = [entry.created for entry in listed.entries if entry.name == name.path]
    else:
        at = yield from made()
        mine = [] if at is None else [at]
    if not mine:
        raise OutcomeUnknown(name.path, token, _REMOVED)
    later = [
        entry.created
        for entry in listed.entries
        if (number := series.number_of(entry.name)) is not None and number > series.number
    ]
    if any(_was_before(created, mine[0]) for created in later) and not lost:
        yield from withdraw() if withdraw is not None else _withdraw(name, token)
    if not all(created > mine[0] for created in later):
        reason = (
            f"{_CREATED}, the entry before it is gone, and later ones are as old or older: number "
            f"{series.number} may have expired before"
        )
        raise OutcomeUnknown(name.path, token, reason)


def _stand_among_aliases(name: Name, token: str, *, may_withdraw: bool) -> Protocol[None]:
    for alias in name.aliases[: name.rank]:
        seen = yield from look(alias, name.path, token, _CREATED)
        if isinstance(seen, Found):
            if not may_withdraw:
                raise _beside(name, alias, token)
            yield from _withdraw(name, token, seen)
    for alias in name.aliases[name.rank :]:
        yield from _outlast(name, alias, token, may_withdraw=may_withdraw)


def _beside(name: Name, alias: str, token: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        name.path, token, f"{_CREATED}, and {alias}, which stands for the same, is there, too"
    )


def _outlast(name: Name, alias: str, token: str, *, may_withdraw: bool) -> Protocol[None]:
    """Wait until a later alias has withdrawn; one that was clearly there before has won."""
    for attempt in count(1):
        other = yield from look(alias, name.path, token, _CREATED)
        if isinstance(other, Absent):
            return
        mine = yield from look(name.path, name.path, token, _CREATED)
        if isinstance(mine, Absent):
            raise OutcomeUnknown(name.path, token, _REMOVED)
        before, after = other.holder.created, mine.holder.created
        if may_withdraw and before is not None and after is not None and _was_before(before, after):
            yield from _withdraw(name, token, other)
        if not (yield Pause(attempt)):
            raise _beside(name, alias, token)


def _withdraw(name: Name, token: str, winner: Found | None = None) -> Protocol[NoReturn]:
    """Remove my creation, and call it lost only once it is gone: readers would take it for what it says."""
    taken = NameTaken(name.path, winner.holder if winner else None)
    for attempt in count(1):
        mine = yield from look(name.path, name.path, token, _CREATED)
        if isinstance(mine, Absent) or mine.holder.token != token:
            if attempt > 1:
                raise taken
            # Somebody else removed it. So what was seen under the name may have been another's.
            raise OutcomeUnknown(name.path, token, _REMOVED)
        outcome: DeleteOutcome = yield Delete(name.path, mine.holder.version)
        if isinstance(outcome, Deleted):
            raise taken
        if isinstance(outcome, Refused) or not (yield Pause(attempt)):
            cause = outcome.error if isinstance(outcome, Refused) else outcome.cause
            reason = f"{_CREATED}, another was there before, and it can't be removed again: {cause}"
            raise OutcomeUnknown(name.path, token, reason) from cause
    raise AssertionError


def _was_before(other: datetime, mine: datetime) -> bool:
    return mine - other > CLEARLY_OLDER
