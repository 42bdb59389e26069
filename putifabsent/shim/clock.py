"""Instants that can't collide: how they are written, and how numbers become them.

An instant is a millisecond, as Hudi writes it: ``yyyyMMddHHmmssSSS``. Whoever gives each millisecond once
gives each instant once. So a clock is a counter (:mod:`putifabsent.backends.registries`) whose floor is the
time, and that waits where it is ahead of it: a thousand instants a second are all that the format has.

Whose time? Not the caller's: one whose clock is ten minutes fast would have everybody else wait for so long.
A counter tells its registry's own time with every answer, and the floor of the next step is that, and what
the caller's *steady* clock says has passed since. Nor is it below what this process has last heard of the
counter, which may have been removed, evicted or restored from a backup. Another process can't know that.

An instant is handed out only when its time has come, by the registry's clock. A registry that forgets, as
Redis can, may do so while that is waited for, and then begins below. So of such a one no number is waited
for: it is given if its time had come when it was counted, and else thrown away. Then none is given again, as
long as the clock of what takes over is not further behind than it took to take over, less a request; what
forgets in no time, by an eviction say, may repeat those of its last milliseconds.

TrueTime wants no registry that counts, but a lock, and clocks that differ by less than is waited for
(:func:`true_time`). It measures the time anew for each call: a wrong clock does no harm after it is mended.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import count as counting
from typing import TYPE_CHECKING, NoReturn, TypeAlias
from zoneinfo import ZoneInfo

from putifabsent.backends.registries import (
    Acquired,
    Advanced,
    AdvanceOutcome,
    Counter,
    Held,
    Refused,
    Released,
)
from putifabsent.errors import ConfigError
from putifabsent.shim.requests import Acquire, Advance, Now, Pause, Protocol, Release, Sleep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from putifabsent.backends.registries import AcquireOutcome, Lock, ReleaseOutcome

Zone: TypeAlias = timezone | ZoneInfo
"""Zones that tell which of two equal hours it is, by ``fold``: others, as pytz's, may not."""

MOST = 10_000
"""So many instants can be taken at once: they take ten seconds to become past."""

_SECOND = 1000
_FRESH = 60.0
"""Seconds for which a registry's time is gone on with: by then a steady clock is wrong by milliseconds."""

_UNWAITED = 3
_LONGEST_WAIT = 4
"""Pauses grow up to this attempt's, and stay there."""

_SPARE = 5.0
"""Seconds that a lock's lease is longer than what is done under it."""


def refuse_zone(zone: Zone | None) -> None:
    """Pass if instants can be written in the zone; ``ConfigError``: it may write two hours alike."""
    if zone is not None and not isinstance(zone, Zone):
        raise ConfigError(
            "zone is UTC, LOCAL, a name such as Europe/Berlin, a datetime.timezone or a ZoneInfo, not "
            f"{zone!r}: others may not say that an hour comes for the second time"
        )


def instant_of(millis: int, zone: Zone | None = timezone.utc) -> str:
    """Write a time, in milliseconds since 1970, as an instant; a zone that is None is this machine's.

    That is Hudi's default (``hoodie.table.timeline.timezone``). ``ValueError``: this instant was there
    before, for in the zone clocks have been set back. Or it is before the year 1, or after 9999; or the zone
    is refused.
    """
    refuse_zone(zone)
    seconds, rest = divmod(millis, _SECOND)
    try:
        at = datetime.fromtimestamp(seconds, zone)
    except (OverflowError, OSError, ValueError) as error:
        raise ValueError(f"{millis} ms since 1970 are in no year from 1 to 9999") from error
    if at.fold:
        raise ValueError(
            f"{at:%Y-%m-%d %H:%M:%S} comes twice in this zone, and this is the second time: use UTC"
        )
    return f"{at.year:04d}{at:%m%d%H%M%S}{rest:03d}"


@dataclass(slots=True)
class RegistryTime:
    """The last time that a registry's answer had."""

    # Milliseconds since 1970, and the seconds of the caller's steady clock then; None: no answer yet.
    last: tuple[int, float] | None = None
    reached: int = 0  # how far its counter was seen: what is above its time is not given yet

    def by(self, steady: float) -> int | None:
        """Return the registry's time now, or a little before; None: query it."""
        # Other threads write it.
        last = self.last
        if last is None or not 0 <= steady - last[1] < _FRESH:
            return None
        return last[0] + int((steady - last[1]) * _SECOND)


def take(
    counter: Counter, name: str, count: int, known: RegistryTime, steady: Callable[[], float]
) -> Protocol[Sequence[int]]:
    """Take so many instants, one after the other, none of which is in the future any more.

    One request, and one more where the registry's time is not known yet. A lost answer skips some. Of a
    counter that forgets, one request for each, and more where others take some in the same millisecond.
    ``count`` is from 1 to :data:`MOST`; ``steady`` are seconds that only go on, by the caller's own clock.

    Returns milliseconds since 1970. All are above those of whoever was answered before this was called.
    ``TimeoutError``: the registry did not answer in time; or its counter is too far ahead of its clock.
    ``ConfigError``: it tells no time. ``OSError``: it refuses.
    """
    if not counter.forgets:
        return (yield from _taken(counter, name, count, known, steady))
    # The last of several would be in the future, or the first one so long past that another may have had it.
    numbers: list[int] = []
    while len(numbers) < count:
        numbers += yield from _taken(counter, name, 1, known, steady)
    return numbers


def _taken(
    counter: Counter, name: str, count: int, known: RegistryTime, steady: Callable[[], float]
) -> Protocol[range]:
    """Take so many in one request; of a counter that forgets none that is waited for."""
    most = -1 if counter.forgets else _SECOND
    for attempt in counting(1):
        now = known.by((yield Now(steady)))
        if now is not None and known.reached - now > most:
            # What was taken now would be taken from all others, and may be too far away to be of use.
            yield from _waited(max(known.reached - now, 1) / _SECOND, counter.identity())
            continue
        # As long as the time is not known, what was heard may be too far away: it would be spread.
        floor, requested = (0, 1) if now is None else (max(now - 1, known.reached), count)
        outcome: AdvanceOutcome = yield Advance(counter, name, floor, requested)
        heard = yield Now(steady)
        if not isinstance(outcome, Advanced):
            yield from _again(outcome, attempt, counter.identity())
            continue
        if outcome.now is None:
            raise ConfigError(f"{counter.identity()} tells no time, so it is no clock")
        expected, known.last = known.by(heard), (outcome.now, heard)
        # Answers to several threads come in any order.
        known.reached = outcome.last if now is None else max(known.reached, outcome.last)
        # A machine that was asleep goes on with a time that is long over.
        if now is None or expected is None or outcome.now - expected >= _SECOND:
            continue
        ahead = max(outcome.last - outcome.now, 0)
        if not (ahead and counter.forgets):
            yield from _waited(ahead / _SECOND, counter.identity())
            return range(outcome.last - count + 1, outcome.last + 1)
        # At different times: of two who always come together, each puts the other's next one off.
        if not (yield Pause(min(attempt, _LONGEST_WAIT))):
            _too_late(outcome, counter.identity())
    raise AssertionError  # for mypy: counting never ends


def true_time(
    lock: Lock, counter: Counter, name: str, count: int, *, owner: str, skew: float, wall: Callable[[], float]
) -> Protocol[range]:
    """Take instants by the local clock: lock, wait, look at the clock, unlock.

    The bound. With *e* half the skew, a look that shows *w* stands for the interval [*w* - *e*, *w* + *e*],
    and is *right* if the true time is within it: TrueTime of the Spanner paper. A call waits for ``2 * e +
    count`` milliseconds under the lock, then looks, and gives the ``count`` milliseconds up to *w* - 2 *e*.
    The next holder of the lock waits as long before its look, which shows more than *w* + ``count`` if both
    are right. So all its instants are above, and those of two calls are in the order of their locks. This is
    the paper's commit wait, made before the look instead of after it, and so each call rests on one look at
    the clock.

    What was measured before that look has no part in it: a clock that was wrong, and has been mended, is
    right at once. No call whose look is right gives what another such call gives, in any process, nor what
    its own process gave at any time: where that is later than the clock, since that was fast, it is waited
    for. What a wrong clock gave may be given by *another* process, when its time has come.

    The lock may be lost meanwhile; then it can't be given back, and the instants are not used. ``counter`` is
    this process's own, and knows what it has given; its time has no part in it. ``owner`` is a UUID for this
    call alone, ``skew`` the seconds by which no two clocks differ, ``wall`` the local clock.

    Returns milliseconds since 1970, ``count`` of them, from 1 to :data:`MOST`. ``TimeoutError``: others have
    had the lock for too long, or it was lost again and again; or the local clock was set back by more than
    can be waited for. ``OSError``: the lock refuses.
    """
    lease = _SPARE + skew + count / _SECOND
    for attempt in counting(1):
        acquired: AcquireOutcome = yield Acquire(lock, name, owner, lease)
        if not isinstance(acquired, Acquired) and not (isinstance(acquired, Held) and acquired.by == owner):
            yield from _again(acquired, attempt, lock.identity())
            continue
        try:
            numbers = yield from _measured(counter, name, count, skew, wall)
        except GeneratorExit:
            raise
        except BaseException:
            yield Release(lock, name, owner)
            raise
        released: ReleaseOutcome = yield Release(lock, name, owner)
        if isinstance(released, Released):
            return numbers
        # Somebody else may have looked at a clock meanwhile.
        yield from _again(released, attempt, lock.identity())
    raise AssertionError  # for mypy: counting never ends


def _measured(
    counter: Counter, name: str, count: int, skew: float, wall: Callable[[], float]
) -> Protocol[range]:
    """Wait, look at the clock, and take numbers that are past by every clock."""
    # One more, for seconds are rounded.
    wait = skew + (count + 1) / _SECOND
    while True:
        yield from _waited(wait, counter.identity())
        now: float = yield Now(wall)
        past = int((now - skew) * _SECOND)
        taken: AdvanceOutcome = yield Advance(counter, name, max(past - count, 0), count)
        if isinstance(taken, Refused):
            raise taken.error
        if not isinstance(taken, Advanced):
            raise ConfigError(f"{counter.identity()} is no counter of this process")
        if taken.last <= past:
            return range(taken.last - count + 1, taken.last + 1)
        # This process gave later ones, by a clock that was fast. These are thrown away: whether others may
        # have had them is known only by the look at which they are past.
        wait = (taken.last + count - past) / _SECOND


def _waited(seconds: float, where: str) -> Protocol[None]:
    """Wait; raise where that is longer than may be waited."""
    if seconds and not (yield Sleep(seconds)):
        reason = (
            f"no instant was given: the next one is {seconds:.3f} s away. Either so many are wanted (a "
            "thousand a second are all there are), or the clock there was set back"
        )
        raise TimeoutError(errno.ETIMEDOUT, reason, where)


def _again(outcome: object, attempt: int, where: str) -> Protocol[None]:
    """Wait before the next attempt; raise what makes that pointless, or that it is too late for one."""
    if isinstance(outcome, Refused):
        raise outcome.error
    if attempt < _UNWAITED and not isinstance(outcome, Held):
        return
    if not (yield Pause(min(attempt, _LONGEST_WAIT))):
        _too_late(outcome, where)


def _too_late(outcome: object, where: str) -> NoReturn:
    cause = getattr(outcome, "cause", None)
    why = f"it is held by {outcome.by}" if isinstance(outcome, Held) else (cause or "others were faster")
    raise TimeoutError(errno.ETIMEDOUT, f"no instant was given: {why}", where) from cause
