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
import hashlib
import os
import threading
import time
import uuid
from contextlib import suppress
from datetime import timezone
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, cast
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fsspec.core import url_to_fs

from putifabsent.backends.base import caused
from putifabsent.backends.concurrency import PerProcess
from putifabsent.backends.registries import (
    LARGEST,
    Advanced,
    AdvanceOutcome,
    Counter,
    Maybe,
    Refused,
    TryAgain,
    WholeSeconds,
    at_its_end,
    bad_step,
)
from putifabsent.backends.registry_urls import open_counter, open_lock
from putifabsent.errors import ConfigError, NameTaken, OutcomeUnknown, PutIfAbsentError
from putifabsent.shim.clock import (
    MOST,
    RegistryTime,
    Zone,
    instant_of,
    refuse_zone,
    take,
    true_time,
)
from putifabsent.shim.drive import asleep_too, run, run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from putifabsent.backends.base import Store
    from putifabsent.backends.registries import Lock
    from putifabsent.fsspec_plugin import GuardedFileSystem
    from putifabsent.shim.requests import Protocol

GUARD = "**/.putifabsent-instants/**"
"""What a mount must guard, so that its arbiter decides about records."""

_FOLDER = ".putifabsent-instants"
_DIGITS = 20
_ROOM = 2**20
"""From the first number of a line to that of one that begins a millisecond later."""

_KEPT = 64
"""So many records are never removed: the newest, and those right behind it."""

_SURE = 32
"""With fewer newer ones a number was never free before: a listing that others add to may miss some."""

_LONGEST = 200

_FORBIDDEN = (PutIfAbsentError, PermissionError, IsADirectoryError, NotADirectoryError)


class Record(NamedTuple):
    """The newest record, and where the counter is; where a line begins there is none yet."""

    number: int
    last: int
    begins: bool = False


class BucketCounter(Counter):
    """Counters in a folder of a guarded filesystem: numbered records, each created once.

    ::

        <folder>/<the counter's name>/01887436800000000042     1800000000123

    Whoever wants numbers lists the records, reads the newest, and creates the next one, which says where the
    counter is then. The mount's arbiter lets one writer do that; the others list again. So the records are
    one line, each of which continues the one before, and no lock is held: a turn would say who goes first,
    and the next number would still have to decide.

    Old records are removed, and a writer may be paused for so long that its number is free again. So whoever
    has won a number lists once more. Records are removed only behind so many newer ones: where fewer are
    there, the number had never been free before. Else what was taken is not used, which skips numbers, and
    harms nobody.

    Nor is it used where the line is broken: others have removed all records, by a rule that expires them,
    say, and somebody has begun a second line. So the record that a writer goes on from must still be there,
    and no number be missing from there to the newest. Whoever then looks goes on with the newest line, above
    the ends of all. Record 0 says at which number a line begins: at the time, with room below the next
    millisecond's. So a later line is far above an earlier one, and nobody who remembers that can take the
    next number of this.

    Its time is the store's, which has stamped the record.

    Two requests a call, and two more after others have counted: create, list; list, get.
    """

    forgets: ClassVar[bool] = False

    def __init__(self, fs: GuardedFileSystem, folder: str) -> None:
        self._fs: Any = fs
        self._folder = f"{folder.rstrip('/')}/{_FOLDER}"
        self._seen: dict[str, Record] = {}
        self._time = WholeSeconds()
        # Threads of a process would only be in each other's way.
        self._alone = PerProcess(threading.Lock)

    def advance(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """Create the record after the newest; list, to see that it was not too late."""
        if refused := bad_step(name, floor, count):
            return refused
        folder = f"{self._folder}/{_component(name)}"
        with self._alone():
            mine = self._appended(name, folder, floor, count)
            if not isinstance(mine, Record):
                return mine
            try:
                return self._counted(name, folder, mine)
            except (OSError, PutIfAbsentError) as error:
                return Maybe(error)

    def identity(self) -> str:
        """Return the folder's address."""
        return str(self._fs.unstrip_protocol(self._folder))

    def _appended(
        self, name: str, folder: str, floor: int, count: int
    ) -> Record | TryAgain | Refused | Maybe:
        """Create the record after the newest."""
        seen = self._seen.pop(name, None)
        try:
            newest = seen or self._newest(folder)
            mine = Record(newest.number + 1, max(newest.last, floor) + count, newest.begins)
            if mine.last > LARGEST:
                ended = at_its_end(name)
                # What was seen may be old: the next call looks.
                return Refused(ended) if seen is None else TryAgain(ended)
            self._fs.pipe_file(_record(folder, mine.number), str(mine.last).encode(), mode="create")
        except NameTaken as error:
            return TryAgain(error)
        except OutcomeUnknown as error:
            return Maybe(error)
        except _FORBIDDEN as error:
            return Refused(error)
        except OSError as error:
            return TryAgain(error)
        except ValueError as error:
            why = OSError(errno.EINVAL, "its newest record has other than digits", folder)
            return Refused(caused(why, error))
        return mine

    def _counted(self, name: str, folder: str, mine: Record) -> AdvanceOutcome:
        """Say whether a number that was won is one that nobody had before."""
        numbers = self._numbers(folder)
        # Record 0 is none of a line. No other is below the first one.
        first = mine.number if mine.begins else mine.number - 1
        line = [number for number in numbers if number and (mine.begins or number >= first)]
        newer = max(numbers, default=0) - mine.number
        if not 0 <= newer < _SURE or line != list(range(first, mine.number + newer + 1)):
            late = f"record {mine.number} came too late: others may have had it, or removed those before"
            return Maybe(TimeoutError(errno.ETIMEDOUT, late, folder))
        when = self._fs.modified(_record(folder, mine.number))
        self._seen[name] = mine._replace(begins=False)
        if mine.number % _KEPT == 0 and not mine.begins:
            self._prune(folder, [each for each in numbers if each <= mine.number - _KEPT])
        millis = int(when.timestamp() * 1000)
        return Advanced(mine.last, millis if when.microsecond else self._time.seen(millis))

    def _newest(self, folder: str) -> Record:
        """Return the newest record, and the farthest that a line has come; begin one where there is none."""
        numbers = self._numbers(folder)
        if not numbers:
            self._fs.makedirs(folder, exist_ok=True)
            first = time.time_ns() // 10**6 * _ROOM
            self._fs.pipe_file(_record(folder, 0), str(first).encode(), mode="create")
            return Record(first - 1, 0, begins=True)
        if numbers == [0]:
            return Record(self._read(folder, 0) - 1, 0, begins=True)
        there = set(numbers)
        ends = [number for number in numbers if number and number + 1 not in there]
        return Record(ends[-1], max(self._read(folder, end) for end in ends))

    def _read(self, folder: str, number: int) -> int:
        return int(self._fs.cat_file(_record(folder, number)))

    def _numbers(self, folder: str) -> list[int]:
        """Return the numbers of the records that are there, in order."""
        self._fs.invalidate_cache(folder)
        try:
            # What is there, and not all that an arbiter keeps of names: whoever meets a number that is
            # decided, and not there yet, publishes it.
            found = self._fs.fs.ls(folder, detail=False)
        except FileNotFoundError:
            return []
        return sorted(int(last) for each in found if (last := each.rpartition("/")[2]).isdigit())

    def _prune(self, folder: str, numbers: list[int]) -> None:
        # Whoever comes next removes what is left. One that comes too late for its number hears so by the
        # others: nothing need be remembered of them.
        with suppress(OSError, PutIfAbsentError):
            for number in numbers:
                self._fs.mount.walk(
                    self._fs.guard.removals.removing_file(_record(folder, number), {}, last=True)
                )


def _record(folder: str, number: int) -> str:
    return f"{folder}/{number:0{_DIGITS}d}"


def _component(name: str) -> str:
    """Return a name as a folder's: no slash, never a dot alone, and not too long for a disk."""
    quoted = quote(name, safe="")
    if len(quoted) > _LONGEST:
        return f"h-{hashlib.sha256(name.encode()).hexdigest()}"
    return f"c-{quoted}"


NAME = "instants"
"""What the counter, or the lock, is called: one for all tables, so that no two spellings of one differ."""

SKEW = 0.2
"""Seconds by which clocks may differ, where nobody says otherwise: Hudi's own default."""

_TRUE_TIME = "truetime+"
_LOCAL = "local"
_GUARDED = tuple(f"{each}://" for each in ("pias3", "piags", "piaaz", "piafile", "piamemory"))
_LEASE_SECONDS = 1.0
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
        """:meth:`advance`, which waits for nobody: no thread need do it."""
        return self.advance(name, floor, count)

    def identity(self) -> str:
        """Return which process it counts for."""
        return f"process {self._pid}"


_of_process = LocalCounter()


def counter_of_process() -> LocalCounter:
    """Return the one counter of this process: two would give the same numbers."""
    return _of_process


def _in_child() -> None:
    global _of_process  # noqa: PLW0603 - a fork is another process in the same module
    _of_process = LocalCounter()


# Made here, and not at its first use: of two threads each would make one.
os.register_at_fork(after_in_child=_in_child)


class Counted:
    """A counter, which tells its own time; ``steady``: seconds that only go on."""

    def __init__(self, counter: Counter, steady: Callable[[], float] = time.monotonic) -> None:
        self._counter = counter
        self._steady = steady
        self._registry_time = RegistryTime()

    def __repr__(self) -> str:
        return repr(self._counter)

    def take(self, count: int) -> Protocol[Sequence[int]]:
        """Take so many instants, in milliseconds since 1970: one after the other, and none in the future.

        One request, or one for each of a counter that forgets; another one after a minute without any.
        """
        return take(self._counter, NAME, count, self._registry_time, self._steady)


class TrueTime:
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
        """Take instants as :meth:`Counted.take`: lock, wait, look, unlock."""
        counter, owner = self._counter or counter_of_process(), str(uuid.uuid4())
        return true_time(self._lock, counter, NAME, count, owner=owner, skew=self._skew, wall=time.time)


Source: TypeAlias = Counted | TrueTime


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
            if not lease.left or asleep_too() - lease.since > _LEASE_SECONDS:
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
    elif not isinstance(source, str):
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
