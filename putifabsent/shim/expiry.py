"""Does a win count? After a win, expired numbers and aliases are checked: no store decides those by itself.

Numbered names expire. A writer paused past the expiry of ``snapshot-5`` would create it again, be
acknowledged, and never be read. So a winner looks whether the entry before its own is still there. If it is
not, or its own is the first, the listing tells. Numbers expire in ascending order: with later ones there, and
the next one gone, mine had been there before, and is removed again; no clock is needed. With the next one
there, the store's own times tell, where they lie clearly apart. Where they don't, a first number counts, for
others go on with a new table at once.

Aliases are other names of one identity (``v3.metadata.json``, ``v3.gz.metadata.json``). The store decides
each name by itself; so a winner looks for the others, and the one that comes first in the order that all
writers share counts.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from putifabsent.backends.base import Absent, Deleted, DeleteOutcome, Found, Listed, Refused
from putifabsent.errors import NameExpired, NameTaken, OutcomeUnknown
from putifabsent.shim.requests import Delete, List, Pause, Protocol, look, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.shim.names import Name, Series

CLEARLY = timedelta(minutes=5)
"""How far apart two of the store's own times must lie to say which creation came first."""

_CREATED = "it was created"
_REMOVED = "it was created, and removed before it was looked at again"


class Made(NamedTuple):
    """When a creation came into being, by the store's own time."""

    # earliest, latest: not before, and not after; None where that is not known.
    earliest: datetime | None
    latest: datetime | None


def check_win(
    name: Name, token: str, *, lost: bool, made: Made | None = None, may_withdraw: bool = True
) -> Protocol[None]:
    """Return if the win of ``name`` by ``token`` counts; ``lost`` and ``made`` as for :func:`check_number`.

    Without ``may_withdraw`` a creation that does not count is not removed: who only asks may not.

    ``NameTaken``: another creation had the identity before, or the number has expired; mine has been removed
    again. ``OutcomeUnknown``: it can't be known; nothing has been removed.
    """
    may_withdraw = may_withdraw and not lost
    for alias in name.aliases[: name.rank]:
        seen = yield from look(alias, name.path, token, _CREATED)
        if isinstance(seen, Found):
            if not may_withdraw:
                raise _beside(name, alias, token)
            yield from _withdraw(name, token, NameTaken(name.path, seen.holder))
    for alias in name.aliases[name.rank :]:
        yield from _outlast(name, alias, token, may_withdraw=may_withdraw)
    yield from check_number(name, token, lost=lost, made=made)


def check_number(
    name: Name,
    token: str,
    *,
    lost: bool = False,
    made: Made | None = None,
    put_at: Callable[[], Protocol[datetime | None]] | None = None,
    withdraw: Callable[[], Protocol[NoReturn]] | None = None,
) -> Protocol[None]:
    """Return if the number of ``name`` had not expired before; otherwise as :func:`check_win`.

    Where an answer to it was ``lost``, what looks like a second creation of an expired number may be this one
    itself, sent once more. ``made`` is when it was made; None: when the listing says, as of what came in one
    put. ``put_at`` is for what is decided elsewhere and only published under the name: when its bytes were
    put (None: they are gone). A listing shows publications: they may be later, and one that is missing proves
    nothing. ``withdraw`` removes the creation, and raises NameExpired, where that is more than to remove the
    plain name.
    """
    series = name.series
    if series is None:
        return
    for predecessor in series.predecessors:
        if isinstance((yield from look(predecessor, name.path, token, _CREATED)), Found):
            return
    mine, later = yield from _list(name, series, token)
    if series.is_at_first and not later:
        return
    earliest = mine if put_at is None else (yield from put_at())
    if earliest is None:
        raise OutcomeUnknown(name.path, token, _REMOVED)
    made = made or Made(earliest, mine)
    if _is_skipped(series, later):
        # Names are listed one after the other: the next number may have come when its place was passed, and
        # those after it before theirs. A second listing shows it, if it is still there.
        _, later = yield from _list(name, series, token)
    expired = _has_expired(series, later, made, shows_all=put_at is None)
    if expired and not lost:
        yield from withdraw() if withdraw is not None else _withdraw(name, token, NameExpired(name.path))
    if expired or expired is None:
        reason = (
            f"{_CREATED}, no entry is just before it, and later ones are there: number {series.number} "
            "may have expired before"
        )
        raise OutcomeUnknown(name.path, token, reason)


def goes_for_good(name: Name) -> Protocol[bool]:
    """Whether a number that is removed expires: later ones are there, and the one before it is not.

    Numbers expire in ascending order. So its format creates it no more, unless its table is removed and made
    again. Lower ones may be left, as metadata are that Iceberg's log has dropped; but where a format takes
    numbers back (Paimon rolls back), or leaves some out, there may be none.
    """
    series = name.series
    if series is None:
        return False
    listed: Listed = yield from read(List(name.path.rpartition("/")[0]))
    numbers = {n for entry in listed.entries if (n := series.number_of(entry.name)) is not None}
    before = {n for n in numbers if n < series.number}
    if not (name.replaced or series.has_gaps):
        before &= {series.number - 1}
    return not before and max(numbers, default=0) > series.number


def _has_expired(series: Series, later: dict[int, datetime], made: Made, *, shows_all: bool) -> bool | None:
    """Whether a number had been there before it was made now; None: it can't be known.

    ``later`` are the later numbers that a listing shows, and when they were made; of uploads, when they were
    begun: not before their predecessor was there. ``shows_all``: what the listing does not show is not there.
    """
    skipped, following = _is_skipped(series, later), later.get(series.number + 1)
    if skipped and shows_all:
        return True
    if skipped:
        following = min(later.values())
    if following is not None and made.earliest is not None and _is_clearly_before(following, made.earliest):
        return True
    nearest = later.values() if following is None else (following,)
    if not skipped and all(_is_clearly_before(made.latest, created) for created in nearest):
        return False
    return False if series.is_at_first and series.number + 1 in later else None


def _list(name: Name, series: Series, token: str) -> Protocol[tuple[datetime | None, dict[int, datetime]]]:
    """Return when the listing says that ``name`` was made (None: it is not there), and all later numbers."""
    folder = name.path.rpartition("/")[0]
    listed: Listed = yield from read(
        List(folder),
        lambda error: OutcomeUnknown(name.path, token, f"{_CREATED}, and {folder} can't be listed: {error}"),
    )
    mine: datetime | None = None
    later: dict[int, datetime] = {}
    for entry in listed.entries:
        if entry.name == name.path:
            mine = entry.created
        number = series.number_of(entry.name)
        if number is not None and number > series.number:
            later[number] = min(entry.created, later.get(number, entry.created))
    return mine, later


def _is_skipped(series: Series, later: dict[int, datetime]) -> bool:
    """Whether the next number has been there, and has expired: so this one had, before."""
    return bool(later) and not series.has_gaps and series.number + 1 not in later


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
        if may_withdraw and after is not None and _is_clearly_before(before, after):
            yield from _withdraw(name, token, NameTaken(name.path, other.holder))
        if not (yield Pause(attempt)):
            raise _beside(name, alias, token)


def _withdraw(name: Name, token: str, loss: NameTaken) -> Protocol[NoReturn]:
    """Remove my creation, and call it lost only once it is gone: readers would take it for what it says."""
    for attempt in count(1):
        mine = yield from look(name.path, name.path, token, _CREATED)
        if isinstance(mine, Absent) or mine.holder.token != token:
            if attempt > 1:
                raise loss
            # Somebody else removed it. So what was seen under the name may have been another's.
            raise OutcomeUnknown(name.path, token, _REMOVED)
        outcome: DeleteOutcome = yield Delete(name.path, mine.holder.version)
        if isinstance(outcome, Deleted):
            raise loss
        if isinstance(outcome, Refused) or not (yield Pause(attempt)):
            cause = outcome.error if isinstance(outcome, Refused) else outcome.cause
            reason = f"{_CREATED}, it does not count, and it can't be removed again: {cause}"
            raise OutcomeUnknown(name.path, token, reason) from cause
    raise AssertionError


def _is_clearly_before(one: datetime | None, other: datetime) -> bool:
    return one is not None and other - one > CLEARLY
