"""The writers of ``bench/slots.py``: ``python -m bench.slot_writers delta`` reads cells, each a line of JSON.

For each it prints a line when its writers have begun, and another one with what came of it. It is a program
of its own since pypaimon has an environment of its own.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import sys
import time
import warnings
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from bench.slot_tables import TABLES, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.synchronize import Barrier

__all__ = ["Cell", "Commit", "Found"]

_IMPORTS = {
    "delta": ("boto3", "s3fs"),
    "paimon": ("boto3", "s3fs", "putifabsent.paimon", "tests.doors.paimon_tables"),
    "iceberg": ("boto3", "s3fs", "putifabsent.iceberg", "bench.slot_iceberg"),
}
"""What takes long to import."""

_PATIENCE = 120.0
"""Seconds for all to begin, and for what is under way when the time is over."""

_TABLE = "table"


class Cell(NamedTuple):
    """What is run: for so many seconds so many writers, each a process, begin commits to one table."""

    form: str
    writers: int
    slots: bool
    seconds: float
    place: Place
    """Where the writers find the store."""
    direct: Place
    """Where it is read afterwards."""


class Commit(NamedTuple):
    """One commit, with the wait for its slot: seconds since the writer's begin, and tries."""

    began: float
    ended: float
    tries: int
    mark: str
    """Empty: it was given up."""
    error: str = ""


class Found(NamedTuple):
    """What came of it."""

    commits: Sequence[Commit]
    lost: Sequence[str]
    """The marks of commits that were acknowledged, and are not in the table."""


_shared: dict[str, Barrier] = {}


def _share(gate: Barrier) -> None:
    _shared["gate"] = gate


def _write(cell: Cell, number: int) -> list[Commit]:
    """Be one writer. What a process does once it does before, with a table of its own."""
    table = TABLES[cell.form](cell.place)
    table.open(f"warm-up-{number}", new=True)
    with table.fs.slot(table.folder):
        table.commit(0)
    table.open(_TABLE)
    _shared["gate"].wait(_PATIENCE)
    began = time.monotonic()
    commits: list[Commit] = []
    while (now := time.monotonic() - began) < cell.seconds:
        before, mark, failed = table.tries, "", ""
        try:
            with table.fs.slot(table.folder) if cell.slots else nullcontext():
                mark = table.commit(1_000_000 * number + len(commits))
        except Exception as error:  # noqa: BLE001 - whatever it is, the commit is given up
            failed = f"{type(error).__name__}: {error}"[:200]
        commits.append(Commit(now, time.monotonic() - began, table.tries - before, mark, failed))
    return commits


def run(cell: Cell, begun: Callable[[], None]) -> Found:
    """Run a cell, on a bucket that is empty; ``begun`` is called when its time begins."""
    # This process has imported all, and used nothing of it: what it used would be broken in the others.
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        pool.apply(_make, (cell,))
    gate = context.Barrier(cell.writers + 1)
    with context.Pool(cell.writers, _share, (gate,)) as pool:
        writing = pool.starmap_async(_write, [(cell, number) for number in range(cell.writers)], chunksize=1)
        gate.wait(_PATIENCE)
        begun()
        commits = [each for of in writing.get(cell.seconds + _PATIENCE) for each in of]
    with context.Pool(1) as pool:
        there = pool.apply(_marks, (cell,))
    return Found(commits, sorted({each.mark for each in commits if each.mark} - there))


def _make(cell: Cell) -> None:
    TABLES[cell.form](cell.direct).open(_TABLE, new=True)


def _marks(cell: Cell) -> set[str]:
    table = TABLES[cell.form](cell.direct)
    table.open(_TABLE)
    return table.marks()


def main() -> None:
    """Run what standard input says."""
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    for module in _IMPORTS[sys.argv[1]]:
        import_module(module)
    for line in sys.stdin:
        told = json.loads(line)
        cell = Cell(**{**told, "place": Place(*told["place"]), "direct": Place(*told["direct"])})
        found = run(cell, lambda: print(json.dumps({"begun": True}), flush=True))
        print(json.dumps(found._asdict()), flush=True)


if __name__ == "__main__":
    main()
