"""Instants that can't collide, by one interface, from whatever can be had.

==========================  ===========================================================================
``local``                   this process's own clock: for one process
``truetime+redis://...``    a lock, the local clock, and a wait as long as clocks may differ
a registry's URL            a counter there, and its own time: ``redis://``, ``dynamodb://``,
                            ``postgresql://``, ``zookeeper://``
a guarded address           numbered records in a folder, and the store's time: ``pias3://lake/clock``
==========================  ===========================================================================
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
import uuid
from abc import ABC, abstractmethod
from datetime import timezone
from typing import TYPE_CHECKING, Any, ClassVar, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fsspec.core import url_to_fs

from putifabsent.backends.counters import LARGEST, Advanced, Counter, at_its_end, bad_step
from putifabsent.backends.registries import Refused
from putifabsent.backends.registry_urls import open_counter, open_lock
from putifabsent.clocks.bucket import GUARD, BucketCounter
from putifabsent.errors import ConfigError
from putifabsent.shim.clock import MOST, RegistryTime, Zone, instant_of, refuse_zone, take, true_time
from putifabsent.shim.drive import asleep_too, run, run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from putifabsent.backends.base import Store
    from putifabsent.backends.counters import AdvanceOutcome
    from putifabsent.backends.registries import Lock
    from putifabsent.shim.requests import Protocol

NAME = "instants"
"""What the counter, or the lock, is called: one for all tables, so that no two spellings of one differ."""

SKEW = 0.2
"""Seconds by which clocks may differ, where nobody says otherwise: Hudi's own default."""

_TRUE_TIME = "truetime+"
_LOCAL = "local"
_GUARDED = tuple(f"{each}://" for each in ("pias3", "piags", "piaaz", "piafile", "piamemory"))
_KEPT = 1.0
"""Seconds after which the rest of a lease is thrown away."""
_NANOSECONDS = 1_000_000  # in a millisecond

# None of a clock's requests is about a store.
_NOWHERE = cast("Store", None)


class LocalCounter(Counter):
    """Counters of one process, by any of its threads, and a clock that only goes on.

    A forked child is another process: it is refused, for what it counted its parent would count, too.
    Both clocks say nanoseconds: ``wall`` since 1970, and it may be set; ``steady`` only goes on. Its time is
    the wall clock's at first, and goes on with the steady one. Where the wall clock is set back, it goes on
    as before; where that is set forward, it goes along. So its distance to the steady clock only grows: this
    is a time for one process alone, and no source of instants that shares them goes by it.
    """

    kind: ClassVar[str] = "local"
    forgets: ClassVar[bool] = False

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._distance = wall() - steady()
        self._last: dict[str, int] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of process {self._pid}>"

    def advance(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """Count, and look at both clocks."""
        if refused := bad_step(name, floor, count):
            return refused
        # The lock of a forked child may be held by a thread that is not in it.
        if self._pid != os.getpid():
            return Refused(PermissionError(errno.EPERM, f"it counts for process {self._pid} alone", name))
        with self._lock:
            last = max(self._last.get(name, 0), floor) + count
            if last > LARGEST:
                return Refused(at_its_end(name))
            self._last[name] = last
            # In this order: a stall between them makes the distance too small, which the next look mends.
            wall = self._wall()
            steady = self._steady()
            self._distance = max(self._distance, wall - steady)
            return Advanced(last, (steady + self._distance) // _NANOSECONDS)

    async def advance_async(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """:meth:`advance`, which waits for nobody."""
        return self.advance(name, floor, count)

    def identity(self) -> str:
        """Return which process it counts for."""
        return f"process {self._pid}"

    def check(self) -> None:
        """It is always there."""


_of_process = LocalCounter()


def counter_of_process() -> LocalCounter:
    """Return the one counter of this process: two would give the same numbers."""
    return _of_process


def _in_child() -> None:
    global _of_process  # noqa: PLW0603 - a fork is another process in the same module
    _of_process = LocalCounter()


# Made here, and not at its first use: of two threads each would make one.
os.register_at_fork(after_in_child=_in_child)


class Source(ABC):
    """Where instants come from."""

    @abstractmethod
    def take(self, count: int) -> Protocol[Sequence[int]]:
        """Take so many, one after the other, none of which is in the future: milliseconds since 1970."""


class Counted(Source):
    """A counter, which tells its own time; ``steady``: seconds that only go on."""

    def __init__(self, counter: Counter, steady: Callable[[], float] = time.monotonic) -> None:
        self._counter = counter
        self._steady = steady
        self._registry_time = RegistryTime()

    def __repr__(self) -> str:
        return repr(self._counter)

    def take(self, count: int) -> Protocol[Sequence[int]]:
        """One request, or one for each of a counter that forgets; another one after a minute without any."""
        return take(self._counter, NAME, count, self._registry_time, self._steady)


class TrueTime(Source):
    """A lock, a wait, and a look at the local clock (:func:`~putifabsent.shim.clock.true_time`).

    Each call measures the time anew: what the clock showed before has no part in it. No two clocks of those
    who use it may differ by ``skew`` seconds; ``ConfigError``: it is no number of them. ``counter`` is this
    process's own; None: the one that all its clocks share.
    """

    def __init__(self, lock: Lock, skew: float = SKEW, counter: LocalCounter | None = None) -> None:
        if not 0 <= skew < float("inf"):
            raise ConfigError(f"skew must be a number of seconds, 0 or more, not {skew!r}")
        self._lock = lock
        self._skew = skew
        self._counter = counter

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._lock!r}, {self._skew:g} s>"

    def take(self, count: int) -> Protocol[Sequence[int]]:
        """Lock, wait, look, unlock."""
        counter, owner = self._counter or counter_of_process(), str(uuid.uuid4())
        return true_time(self._lock, counter, NAME, count, owner=owner, skew=self._skew, wall=time.time)


class _Lease:
    """What is left of a lease, and since when; for one thread at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.left: Sequence[int] = ()
        self.since = 0.0


class Clock:
    """Gives instants, each once, whoever else has a clock of the same source.

    Without a lease, instants are in the order of time: whoever asks after another one was answered has a
    later one, in any process. With a lease that holds for one clock alone: others that have taken theirs
    earlier may give lower ones after it, for a second. For any number of threads; a forked child has a lease
    of its own.

    Parameters and errors are those of :func:`clock`; a zone that is None is this machine's.
    """

    def __init__(
        self, source: Source, *, zone: Zone | None = timezone.utc, lease: int = 1, timeout: float = 30.0
    ) -> None:
        refuse_zone(zone)
        if not 1 <= lease <= MOST:
            raise ConfigError(f"lease must be a number of instants from 1 to {MOST}, not {lease!r}")
        if not 0 < timeout < float("inf"):
            raise ConfigError(f"timeout must be a positive number of seconds, not {timeout!r}")
        self.zone = zone
        self._source = source
        self._size = lease
        self._timeout = timeout
        self._leases: dict[int, _Lease] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._source!r}>"

    def instant(self) -> str:
        """Return an instant: 17 digits; errors are those of :meth:`instants`."""
        if self._size == 1:
            return self.instants(1)[0]
        lease = self._lease()
        with lease.lock:
            if not lease.left or asleep_too() - lease.since > _KEPT:
                lease.left, lease.since = self._took(self._size), asleep_too()
            first, lease.left = lease.left[:1], lease.left[1:]
        return self._written(first)[0]

    def instants(self, count: int) -> list[str]:
        """Return several, each above the one before; they take as many milliseconds.

        ``TimeoutError``: the source did not answer in time, or is so far ahead of its clock. ``ConfigError``:
        such an instant was there before: clocks in the zone have been set back by an hour; or the source
        can't be relied on. ``OSError``: the source refuses. ``ValueError``: so many can't be had at once.
        """
        _refuse_odd(count)
        if self._size == 1:
            return self._written(self._took(count))
        lease = self._lease()
        with lease.lock:
            # What is left is below what comes now.
            lease.left = ()
            return self._written(self._took(count))

    async def instant_async(self) -> str:
        """:meth:`instant`, asynchronously."""
        if self._size == 1:
            return (await self.instants_async(1))[0]
        return await asyncio.to_thread(self.instant)

    async def instants_async(self, count: int) -> list[str]:
        """:meth:`instants`, asynchronously."""
        _refuse_odd(count)
        if self._size == 1:
            return self._written(await run_async(self._source.take(count), _NOWHERE, self._timeout))
        return await asyncio.to_thread(self.instants, count)

    def _lease(self) -> _Lease:
        # In one step: two threads have the same one.
        return self._leases.setdefault(os.getpid(), _Lease())

    def _took(self, count: int) -> Sequence[int]:
        return run(self._source.take(count), _NOWHERE, self._timeout)

    def _written(self, taken: Sequence[int]) -> list[str]:
        try:
            return [instant_of(millis, self.zone) for millis in taken]
        except ValueError as error:
            raise ConfigError(str(error)) from error


def clock(
    source: str | Source,
    *,
    zone: str | Zone = "UTC",
    lease: int = 1,
    skew: float | None = None,
    timeout: float = 30.0,
    storage_options: Mapping[str, Any] | None = None,
) -> Clock:
    """Return a clock; no request is sent to its source yet.

    Parameters
    ----------
    source
        ``"local"``; a registry's URL; ``truetime+`` and a lock's URL; a guarded address; or what has been
        made of one.
    zone
        In which instants are written: ``"UTC"``, ``"LOCAL"`` (this machine's), ``"Europe/Berlin"``. It must
        be the table's own. In a zone whose clocks are set back once a year, an hour is without instants.
    lease
        How many :meth:`Clock.instant` takes at a time: fewer requests, and order in this clock alone.
    skew
        Of TrueTime: seconds by which no two clocks differ, 0.2 by default.
    timeout
        Seconds to wait for instants.
    storage_options
        Of a guarded address: its filesystem's.

    Raises
    ------
    ConfigError
        What is wrong, without any credentials.
    """
    return Clock(_source(source, skew, storage_options), zone=_zone(zone), lease=lease, timeout=timeout)


def _source(source: str | Source, skew: float | None, options: Mapping[str, Any] | None) -> Source:
    if isinstance(source, str) and source.startswith(_TRUE_TIME):
        made: Source = TrueTime(
            open_lock(source.removeprefix(_TRUE_TIME)), skew=SKEW if skew is None else skew
        )
    elif skew is not None:
        raise ConfigError(f"skew is of {_TRUE_TIME}... alone: no other source goes by clocks that may differ")
    elif isinstance(source, Source):
        made = source
    elif source == _LOCAL:
        made = Counted(counter_of_process())
    elif source.startswith(_GUARDED):
        more = dict(options or {})
        given = more.pop("guard", ())
        guard = [*((given,) if isinstance(given, str) else given), GUARD]
        return Counted(BucketCounter(*url_to_fs(source, guard=guard, **more)))
    elif "://" not in source:
        # What is no URL may be a password: it is not repeated.
        raise ConfigError(
            f"this names no clock: it is {_LOCAL}, {_TRUE_TIME}..., a registry's URL or a guarded address"
        )
    else:
        made = Counted(open_counter(source))
    if options:
        raise ConfigError("storage_options are of a guarded address alone")
    return made


def _zone(zone: str | Zone) -> Zone | None:
    if not isinstance(zone, str):
        return zone
    if zone in ("UTC", "LOCAL"):
        return timezone.utc if zone == "UTC" else None
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"zone is UTC, LOCAL or a name such as Europe/Berlin, not {zone!r}") from error


def _refuse_odd(count: int) -> None:
    if not 1 <= count <= MOST:
        raise ValueError(f"from 1 to {MOST} instants can be taken at once, not {count}")
