"""The collision simulation on a standalone cluster: what a second worker gains, and what partitions cost.

    python bench/spark_simulate.py [--runs 100000] [--experiment N ...] [--partitions 2,8,32,128] [--json]

The cluster's workers are processes of this machine, of one core each. A job is timed from its submission to
its last cell, in a session that has run one before; jobs on one worker and on two take turns by cluster, not
by the minute, so leave the machine alone meanwhile. The cells must be the same each time, or it fails.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from putifabsent.cli.arguments import session_at
from putifabsent.lab.simulate import Plan, published, simulate_on
from putifabsent.lab.simulate_report import differing
from tests.spark.cluster import cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.lab.simulate import Cell

_SEED = 1
_WORKERS = (1, 2)
_WARM_UP_RUNS = 250


class Timed:
    """A plan's jobs on a cluster of so many workers.

    Attributes
    ----------
    seconds
        What each took, by its number of partitions; None: the number that is the default.
    cells
        What came of them.
    """

    def __init__(self, plan: Plan, workers: int, partitions: Sequence[int | None], screen: Console) -> None:
        self.seconds: dict[int | None, float] = {}
        self.cells: list[Cell] = []
        with (
            tempfile.TemporaryDirectory() as folder,
            cluster(workers, Path(folder)) as master,
            session_at(master, "bench") as session,
        ):
            # Their Python imports what it needs.
            simulate_on(session, replace(plan, runs=_WARM_UP_RUNS), 4 * workers)
            for each in partitions:
                with screen.status(f"{workers} workers, {each or 'default'} partitions"):
                    began = time.perf_counter()
                    cells = simulate_on(session, plan, each)
                    self.seconds[each] = time.perf_counter() - began
                if self.cells and cells != self.cells:
                    raise AssertionError(f"{each} partitions give other cells")
                self.cells = cells


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=100_000, help="runs a cell")
    parser.add_argument(
        "--experiment", type=int, nargs="+", default=[1, 2, 3, 4], help="of the published four"
    )
    parser.add_argument("--partitions", default="2,8,32,128", help="numbers, on two workers")
    told = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    theirs = [each for each in published() if each.number in told.experiment]
    plan = Plan([each.experiment for each in theirs], told.runs, _SEED)
    screen = Console(stderr=True)
    counts = [int(each) for each in told.partitions.split(",") if each]
    found = {
        workers: Timed(plan, workers, [None, *(counts if workers == max(_WORKERS) else [])], screen)
        for workers in _WORKERS
    }
    one, two = (found[workers] for workers in _WORKERS)
    if one.cells != two.cells:
        raise AssertionError("two workers give other cells than one")
    gain = one.seconds[None] / two.seconds[None]
    differ = len(differing(two.cells, theirs))
    if told.json:
        by = {
            workers: {str(at or "default"): took for at, took in each.seconds.items()}
            for workers, each in found.items()
        }
        said = {
            "runs": told.runs,
            "cells": len(theirs),
            "seconds": by,
            "gain": gain,
            "cells_that_differ": differ,
        }
        print(json.dumps(said, indent=2))
        return
    table = Table("workers", "partitions", "seconds", "runs a second")
    for workers, each in found.items():
        for at, took in each.seconds.items():
            rate = told.runs * len(theirs) / took
            table.add_row(str(workers), str(at or "default"), f"{took:.1f}", f"{rate:,.0f}")
    Console().print(table)
    print(
        f"{told.runs:,} runs of each of {len(theirs)} cells; the second worker makes it {gain:.2f} x as fast."
    )
    print(f"{differ} of {len(theirs)} cells differ from the published ones by more than noise.")


if __name__ == "__main__":
    main()
