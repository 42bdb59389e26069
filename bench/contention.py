"""Many writers of one series of names: what is acknowledged in a second, and what each of that costs.

Each writer is a thread that wants the next entry of one log, as table formats do: whoever loses a number
tries the one after the newest that was acknowledged to anybody. Of that it hears at once and for nothing; a
format would list the log, at the same price whoever decides.
"""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from bench.arbiter_servers import ARBITERS, BUCKET
from bench.delta_log_store import DeltaLogStore
from putifabsent.errors import OutcomeUnknown
from tests.stub import FaultStub

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.arbiter_servers import Far

    Write: TypeAlias = Callable[[int, bytes], None]

__all__ = ["CONTESTANTS", "DELTA", "Contended", "contend", "contestant"]

DELTA = "Delta's log store"
CONTESTANTS = (*ARBITERS, DELTA)
_SIZE = 1024


@dataclass
class Contended:
    """What came of it.

    Attributes
    ----------
    acknowledged, taken, unknown
        How many creations were told that they won, that they lost, that it can't be known.
    failed
        What else was raised, and how often; and numbers of which there were two winners.
    requests
        All that was sent, also for what was lost.
    seconds
        Until the last answer; no creation is begun when the time is over.
    """

    acknowledged: int = 0
    taken: int = 0
    unknown: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    seconds: float = 0.0


def contestant(far: Far, name: str) -> Write:
    """Return what writes entries of a log of its own, the first of which is written.

    Raises ``FileExistsError`` where it lost, and ``OutcomeUnknown``.
    """
    log = f"{BUCKET}/{uuid.uuid4()}/_delta_log"
    if name == DELTA:
        write: Write = DeltaLogStore(far.mount("native").backend, far.registry, log).write
    else:
        fs = far.mount(name)

        def write(number: int, data: bytes) -> None:
            fs.pipe_file(f"{log}/{number:020d}.json", data)

    # What a process does once is not what is compared.
    write(0, b"x" * _SIZE)
    return write


def contend(far: Far, name: str, writers: int, seconds: float) -> Contended:
    """Have many writers append to one log for some time."""
    far.store.call(FaultStub.reset)
    log = _Log(contestant(far, name))
    gate = threading.Barrier(writers + 1)
    threads = [threading.Thread(target=log.append, args=(gate, seconds), daemon=True) for _ in range(writers)]
    for thread in threads:
        thread.start()
    far.wire.counted()
    gate.wait()
    began = time.monotonic()
    for thread in threads:
        thread.join()
    log.found.seconds = time.monotonic() - began
    log.found.requests = far.wire.counted().total()
    return log.found


class _Log:
    """One log, and what its writers were told."""

    def __init__(self, write: Write) -> None:
        self.found = Contended()
        self._write = write
        self._newest = 0
        self._won: set[int] = set()
        self._telling = threading.Lock()

    def append(self, gate: threading.Barrier, seconds: float) -> None:
        """Be one writer, until the time is over."""
        number, data = 0, uuid.uuid4().hex.encode() * (_SIZE // 32)
        gate.wait()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            number = max(number, self._newest + 1)
            told: Exception | None = None
            try:
                self._write(number, data)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
                told = error
            number += self._told(number, told)

    def _told(self, number: int, error: Exception | None) -> int:
        """Note an answer; return by how much the next number is higher: an unknown one is asked for again."""
        with self._telling:
            if error is None:
                self.found.acknowledged += 1
                if number in self._won:
                    self._failed("two winners")
                self._won.add(number)
                self._newest = max(self._newest, number)
            elif isinstance(error, FileExistsError):
                self.found.taken += 1
            elif isinstance(error, OutcomeUnknown):
                self.found.unknown += 1
                return 0
            else:
                self._failed(type(error).__name__)
                return 0
        return 1

    def _failed(self, how: str) -> None:
        self.found.failed[how] = self.found.failed.get(how, 0) + 1
