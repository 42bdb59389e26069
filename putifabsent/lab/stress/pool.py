"""A pool: writers as processes of one parent, which kills and pauses them; ``python -m`` runs one.

It reads its orders, pickled, from standard input, and stops when that is closed. Each half second it
prints a line of JSON: how many commits its writers have had acknowledged; at its end, which of them failed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pickle
import random
import select
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import count
from multiprocessing import get_context
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.errors import ConfigError
from putifabsent.lab.stress.writers import WORKLOADS, Action, Journal, Operation, Writer, failed, host

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from putifabsent.lab.stress.paths import Contender

FAULTS = ("kill", "pause", "lost")

_FORK = get_context("fork")
_PR_SET_PDEATHSIG = 1
_TICK = 0.05
_REPORT_SECONDS = 0.5
_KILL_SECONDS = 2.0
_PAUSE_SECONDS = 3.0
"""From one fault of a kind to the next of all writers of a run, or somewhat more on a busy machine."""
_PAUSES = (0.5, 8.0)  # seconds. A turn's lease is two: past twice that another writer breaks it.
_GRACE_SECONDS = 60.0
"""For what is under way at the end: to wait for a turn, and to give up a creation, takes 50 at most."""
_REST_SECONDS = 0.2  # after an error that was no answer


@dataclass(frozen=True)
class Stress:
    """What is to be run; ``ConfigError``: it can't be."""

    root: str  # a folder of the store that is there, as its paths say it
    formats: Sequence[str] = tuple(WORKLOADS)  # which writers have, by turns
    writers: int = 32
    tables: int = 1  # of each format; fewer are more contended
    seconds: float = 120
    faults: Sequence[str] = FAULTS
    """``kill`` (-9), ``pause`` (up to eight seconds), ``lost`` (answers of the store, one in a hundred)."""
    seed: int = 1  # of chance; the writers' own order is never the same

    def __post_init__(self) -> None:
        for word in ("writers", "tables", "seconds"):
            if getattr(self, word) <= 0:
                raise ConfigError(f"{word} is {getattr(self, word)}: give a positive number")
        for word, known in (("formats", tuple(WORKLOADS)), ("faults", FAULTS)):
            if unknown := sorted(set(getattr(self, word)) - set(known)):
                raise ConfigError(f"{word}: {', '.join(unknown)} is none of {', '.join(known)}")
        if not self.formats:
            raise ConfigError(f"formats: say at least one of {', '.join(WORKLOADS)}")
        if self.writers < (formats := len(self.formats)):
            raise ConfigError(f"writers is {self.writers}: give one or more for each of {formats} formats")

    def folders(self, form: str) -> list[str]:
        """Return the folders of a format's tables."""
        return [f"{self.root}/{form}.db/table{number}" for number in range(self.tables)]


class Orders(NamedTuple):
    """What a pool is to do: its writers, of all of the run, in the run's own folder."""

    stress: Stress
    contender: Contender
    writers: Sequence[int]


@dataclass
class _Pool:
    orders: Orders
    journals: Path
    acknowledged: Any  # by the writers' numbers: how many commits each has
    holding: Any  # whether each has its table's turn
    living: dict[BaseProcess, int] = field(default_factory=dict)  # writers by their processes
    paused: dict[BaseProcess, tuple[float, int]] = field(default_factory=dict)
    """Processes that stand still: until when, and the number of the fault in the journal."""
    killed: set[BaseProcess] = field(default_factory=set)  # processes that will not end by themselves
    lives: count[int] = field(default_factory=count)

    def run(self) -> None:
        try:
            self._run()
        finally:
            # Whoever stands still, or did not end in time. None is to outlive the pool.
            for process in self.living:
                process.kill()
            for process in self.living:
                process.join()

    def _run(self) -> None:
        chance = random.Random(f"{self.orders.stress.seed}:{self.orders.writers}")  # noqa: S311 - no secret
        ends = time.monotonic() + self.orders.stress.seconds
        reported = 0.0
        with Journal(self.journals, "faults") as faults:
            for writer in self.orders.writers:
                self._begin(writer, ends)
            while self.living:
                now = time.monotonic()
                if _is_alone():
                    break
                if now > ends + _GRACE_SECONDS:
                    hung = ", ".join(map(str, sorted(self.living.values())))
                    raise RuntimeError(f"writer {hung} hung: {_GRACE_SECONDS:g} s after the end it still ran")
                if now < ends:
                    self._harm(chance, faults, now)
                self._wake(faults, now if now < ends else float("inf"))
                self._bury(ends)
                if now - reported > _REPORT_SECONDS:
                    reported = now
                    print(json.dumps({"acknowledged": sum(self.acknowledged)}), flush=True)  # noqa: T201
                time.sleep(_TICK)

    def _begin(self, writer: int, ends: float) -> None:
        self.holding[writer] = 0
        process = _FORK.Process(target=self._write, args=(writer, next(self.lives), ends))
        process.start()
        self.living[process] = writer

    def _write(self, number: int, life: int, ends: float) -> None:
        # When the pool dies, the kernel kills this process, even if it stands still then.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        stress = self.orders.stress
        random.seed(f"{stress.seed}:{number}:{life}")
        form = stress.formats[number % len(stress.formats)]
        folders = stress.folders(form)
        with Journal(self.journals, f"{number}.{life}") as journal:
            writer = None
            tables = [WORKLOADS[form](folder) for folder in folders]
            while time.monotonic() < ends:
                table = random.randrange(len(tables))  # noqa: S311 - no secret
                try:
                    if writer is None:
                        holds = partial(self.holding.__setitem__, number)
                        writer = Writer(self.orders.contender.path(), journal, number, holds=holds)
                    self.acknowledged[number] += tables[table].commit(writer)
                except Exception as error:  # noqa: BLE001 - a writer goes on, whatever it meets
                    failed(journal, number, folders[table], error)
                    time.sleep(_REST_SECONDS)
        os._exit(0)  # whatever threads its clients have

    def _harm(self, chance: random.Random, faults: Journal, now: float) -> None:
        """Kill one now and then, and have one stand still."""
        stress = self.orders.stress
        share = len(self.orders.writers) / stress.writers
        if "kill" in stress.faults and chance.random() < share * _TICK / _KILL_SECONDS:
            process = chance.choice(list(self.living))
            faults.end(self._note(faults, "kill", process))
            self.killed.add(process)
            process.kill()
        if "pause" in stress.faults and chance.random() < share * _TICK / _PAUSE_SECONDS:
            # Who has a turn has most to lose, and is one of many.
            awake = [process for process in self.living if process not in self.paused]
            holders = [process for process in awake if self.holding[self.living[process]]]
            process = chance.choice(holders or list(self.living))
            if process not in self.paused:
                until = now + chance.uniform(*_PAUSES)
                self.paused[process] = until, self._note(faults, "pause", process)
                os.kill(process.ident or 0, signal.SIGSTOP)

    def _note(self, faults: Journal, action: Action, process: BaseProcess) -> int:
        root = self.orders.stress.root
        return faults.begin(Operation(action, host(), self.living[process], "", root, root, root))

    def _wake(self, faults: Journal, now: float) -> None:
        for process, (until, number) in list(self.paused.items()):
            if until <= now:
                os.kill(process.ident or 0, signal.SIGCONT)
                faults.end(number)
                del self.paused[process]

    def _bury(self, ends: float) -> None:
        """Take note of who has ended; who was killed begins another life."""
        for process in [each for each in self.living if each.exitcode is not None]:
            writer = self.living.pop(process)
            self.paused.pop(process, None)
            if process.exitcode and process not in self.killed:
                raise RuntimeError(
                    f"writer {writer} has died of status {process.exitcode}, and not of a fault"
                )
            if time.monotonic() < ends:
                self._begin(writer, ends)


def _is_alone() -> bool:
    """Whether standard input is closed: whoever started this pool is gone, or wants no more."""
    readable, _, _ = select.select([0], [], [], 0)
    return bool(readable) and not os.read(0, 1)


def main() -> None:
    """Be a pool."""
    # That of a terminal goes to all its processes: whoever started this one closes standard input then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders: Orders = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that has started this one
    # Once for all lives of all writers; nothing of it is used before the fork.
    for module in orders.contender.imports:
        with contextlib.suppress(ImportError):  # whoever needs it says so
            import_module(module)
    everybody = orders.stress.writers
    try:
        _Pool(orders, Path(sys.argv[1]), RawArray("q", everybody), RawArray("b", everybody)).run()
    except RuntimeError as error:
        print(json.dumps({"failed": str(error)}), flush=True)  # noqa: T201
        sys.exit(1)


if __name__ == "__main__":
    main()
