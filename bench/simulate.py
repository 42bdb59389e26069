"""The collision simulation beside the plain-Python set union, in one process, in one run on one machine.

    python bench/simulate.py [--json] [--runs 1000] [--sample 20]

Both simulate the four published experiments. The set union's first runs of each cell are timed, and scaled to
all; cell by cell the two take turns, so that a busy machine slows both. Times are those of the
process on its processor, and of the clock; read the ratios.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.set_union import collisions
from putifabsent.lab.simulate import Cell, Published, published, simulate
from putifabsent.lab.simulate_report import differing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Spent(NamedTuple):
    """Seconds, of the processor and of the clock."""

    processor: float
    clock: float


class Timed(NamedTuple):
    """A cell, by both."""

    published: Published
    ours: Cell
    our: Spent
    theirs: Spent
    their_mean: float


def timed(theirs: Published, runs: int, sample: int, seed: int) -> Timed:
    """Simulate a cell by both; what the set union spends is scaled to all runs."""
    rng = random.Random(f"{seed}:{theirs.experiment}")
    cells: list[Cell] = []
    counts: list[int] = []
    our = _spent(lambda: cells.extend(simulate([theirs.experiment], runs, seed)))
    sampled = _spent(lambda: counts.extend(collisions(theirs.experiment, rng) for _ in range(sample)))
    scaled = Spent(*(seconds * runs / sample for seconds in sampled))
    return Timed(theirs, cells[0], our, scaled, statistics.fmean(counts))


def _spent(call: Callable[[], object]) -> Spent:
    processor, clock = time.process_time(), time.perf_counter()
    call()
    return Spent(time.process_time() - processor, time.perf_counter() - clock)


def summed(times: Sequence[Spent]) -> Spent:
    """Return what all of them are together."""
    return Spent(sum(each.processor for each in times), sum(each.clock for each in times))


def _row(name: str, cells: Sequence[Timed]) -> dict[str, object]:
    our, theirs = summed([each.our for each in cells]), summed([each.theirs for each in cells])
    return {
        "experiment": name,
        "cells": len(cells),
        "set_union_seconds": round(theirs.processor, 2),
        "our_seconds": round(our.processor, 3),
        "times_faster": round(theirs.processor / our.processor, 1),
        "times_faster_by_the_clock": round(theirs.clock / our.clock, 1),
        "published_mean": statistics.fmean(each.published.mean for each in cells),
        "set_union_mean": statistics.fmean(each.their_mean for each in cells),
        "our_mean": statistics.fmean(each.ours.mean for each in cells),
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=1_000, help="runs a cell")
    parser.add_argument("--sample", type=int, default=20, help="of them, by the set union")
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        cells = [
            timed(theirs, told.runs, told.sample, told.seed)
            for theirs in progress.track(published(), description="cells")
        ]
    rows = [
        _row(str(number), [each for each in cells if each.published.number == number])
        for number in sorted({each.published.number for each in cells})
    ]
    rows.append(_row("all", cells))
    other = differing([each.ours for each in cells], [each.published for each in cells])
    if told.json:
        print(json.dumps({"runs": told.runs, "cells_that_differ": len(other), "experiments": rows}, indent=2))
        return
    columns = ("experiment", "cells", "set union, s", "ours, s", "faster", "by the clock")
    table = Table(*columns, "published mean", "set union's", "ours")
    for row in rows:
        counts = (str(row[word]) for word in ("experiment", "cells", "set_union_seconds", "our_seconds"))
        ratios = (f"{row[word]} x" for word in ("times_faster", "times_faster_by_the_clock"))
        means = (f"{row[word]:.3f}" for word in ("published_mean", "set_union_mean", "our_mean"))
        table.add_row(*counts, *ratios, *means)
    Console(width=max(100, Console().width)).print(table)
    print(f"{told.runs} runs a cell; of the set union's {told.sample} are run, and their time is scaled.")
    print(f"{len(other)} of {len(cells)} cells differ from the published ones by more than noise.")


if __name__ == "__main__":
    main()
