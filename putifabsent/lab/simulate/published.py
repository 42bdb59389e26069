"""The published numbers: four experiments, 78 cells of 1,000 runs each."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.lab.simulate.experiment import COLUMNS, Experiment
from putifabsent.lab.simulate.noise import chances

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.lab.simulate.experiment import Cell

__all__ = ["ENOUGH", "LEVEL", "RUNS", "Published", "differing", "published"]

RUNS = 1_000
"""Of each cell."""
ENOUGH = 100
"""Runs of a cell; of fewer, noise explains whatever comes out."""
LEVEL = 0.999
"""How sure it is that cells of the same writers are not called different, all comparisons together."""


class Published(NamedTuple):
    """A published cell: its experiment, with its number from 1 to 4, and what is known of its runs."""

    number: int
    experiment: Experiment
    mean: float
    fewest: int
    most: int
    percent: float
    runs: int = RUNS

    @property
    def collisions(self) -> int:
        """Those of all runs together."""
        return round(self.mean * self.runs)

    @property
    def hits(self) -> int:
        """Runs that had one or more."""
        return round(self.percent * self.runs / 100)


def published() -> list[Published]:
    """Return the cells, in the order in which they were published."""
    with files(__package__).joinpath("published-collisions.csv").open(encoding="utf-8") as file:
        return [
            Published(
                int(row["experiment"]),
                Experiment(*(int(row[column]) for column in COLUMNS)),
                float(row["mean_collisions"]),
                int(row["min_collisions"]),
                int(row["max_collisions"]),
                float(row["percent_of_runs_with_a_collision"]),
            )
            for row in csv.DictReader(file)
        ]


def differing(cells: Sequence[Cell], cells_published: Sequence[Published]) -> list[Cell]:
    """Return the cells that more than noise sets apart from the published ones, at ``LEVEL``.

    Each is compared by its mean, by its share of runs with a collision and by its most collisions. The level
    is that of all comparisons together: each by itself is that much stricter.
    """
    compared = [(cell, chances(cell, theirs)) for cell, theirs in zip(cells, cells_published, strict=True)]
    allowed = (1 - LEVEL) / max(1, sum(len(each) for _, each in compared))
    return [cell for cell, each in compared if min(each) < allowed]
