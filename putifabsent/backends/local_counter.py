"""A counter in this process's memory, and a clock that only goes on: all that one process alone needs.

Its time is the wall clock's at first, and goes on with the steady one. Where the wall clock is set back, it
goes on as before; where that is set forward, it goes along. So its distance to the steady clock only grows:
this is a time for one process alone, and no source of instants that shares them goes by it.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from typing import TYPE_CHECKING, ClassVar

from putifabsent.backends.counters import LARGEST, Advanced, Counter, at_its_end, bad_step
from putifabsent.backends.registries import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.counters import AdvanceOutcome

_NANOSECONDS = 1_000_000  # in a millisecond


class LocalCounter(Counter):
    """Counters of one process, by any of its threads.

    A forked child is another process: it is refused, for what it counted its parent would count, too.
    Both clocks say nanoseconds: ``wall`` since 1970, and it may be set; ``steady`` only goes on.
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
        return self.advance(name, floor, count)

    def identity(self) -> str:
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
