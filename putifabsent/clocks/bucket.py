"""A counter in a bucket alone: numbered records, each created once, each saying how far the counter is.

::

    <folder>/<the counter's name>/01887436800000000042     1800000000123

Whoever wants numbers lists the records, reads the newest, and creates the next one, which says where the
counter is then. The mount's arbiter lets one writer do that; the others list again. So the records are one
line, each of which continues the one before, and no lock is held: a turn would say who goes first, and the
next number would still have to decide.

Old records are removed, and a writer may be paused for so long that its number is free again. So whoever has
won a number lists once more. Records are removed only behind so many newer ones: where fewer are there, the
number had never been free before. Else what was taken is not used, which skips numbers, and harms nobody.

Nor is it used where the line is broken: others have removed all records, by a rule that expires them, say,
and somebody has begun a second line. So the record that a writer goes on from must still be there, and no
number be missing from there to the newest. Whoever then looks goes on with the newest line, above the ends of
all. Record 0 says at which number a line begins: at the time, with room below the next millisecond's. So a
later line is far above an earlier one, and nobody who remembers that can take the next number of this.

Its time is the store's, which has stamped the record.
"""

from __future__ import annotations

import errno
import hashlib
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import quote

from putifabsent.backends.base import caused
from putifabsent.backends.counters import LARGEST, Advanced, AdvanceOutcome, Counter, at_its_end, bad_step
from putifabsent.backends.per_process import PerProcess
from putifabsent.backends.registries import Maybe, Refused, TryAgain, require_answer
from putifabsent.backends.server_time import WholeSeconds
from putifabsent.errors import NameTaken, OutcomeUnknown, PutIfAbsentError

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin import GuardedFileSystem

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
    """Counters in a folder of a guarded filesystem.

    Two requests a call, and two more after others have counted: create, list; list, get.
    """

    kind: ClassVar[str] = "bucket"
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

    def check(self) -> None:
        """Advance a counter of its own."""
        outcome = self.advance("#check", 0)
        # Others may count there, too.
        if not (isinstance(outcome, (TryAgain, Maybe)) and isinstance(outcome.cause, NameTaken)):
            require_answer(outcome, "the store", self._folder)

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
