"""Runs shared out: to this process, to all cores, to Spark. What comes of them is the same."""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from putifabsent.errors import ConfigError
from putifabsent.lab.simulate.experiment import Cell, Experiment
from putifabsent.lab.simulate.timestamps import runs as collisions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["Plan", "Progress", "Share", "Tally", "simulate"]

Progress: TypeAlias = "Callable[[int, int, str], None]"

_RUNS = 250
"""Those of a share. Its seed hangs on it: another number would give other results."""


class Tally(NamedTuple):
    """What came of a share: how many runs of a cell had 0, 1, 2, ... collisions."""

    cell: int
    runs: tuple[int, ...]


class Share(NamedTuple):
    """Runs of one cell that are simulated together.

    Attributes
    ----------
    cell
        The cell's place among those of the plan.
    experiment
        What is run.
    number
        Which of the cell's shares it is.
    runs
        How many.
    seed
        The plan's.
    """

    cell: int
    experiment: Experiment
    number: int
    runs: int
    seed: int

    def tally(self) -> Tally:
        """Simulate it.

        Its seed is its own, and hangs on the experiment and its number, not on the other cells of the plan.
        """
        what = self.experiment
        key = (what.writers, what.interval, what.jitter, what.duration, self.number)
        came = collisions_of(what, self.runs, np.random.SeedSequence(self.seed, spawn_key=key))
        return Tally(self.cell, tuple(np.bincount(came).tolist()))


class Plan(NamedTuple):
    """All shares of a simulation, without holding them.

    Attributes
    ----------
    experiments
        One a cell.
    runs
        Runs a cell.
    seed
        What the seed of each share is made from.
    """

    experiments: Sequence[Experiment]
    runs: int
    seed: int

    def check(self) -> None:
        """Raise ``ConfigError`` for what can't be run."""
        if self.runs < 1:
            raise ConfigError(f"runs is {self.runs}: give 1 or more")
        if self.seed < 0:
            raise ConfigError(f"seed is {self.seed}: give 0 or more")

    @property
    def shares(self) -> int:
        """How many there are."""
        return len(self.experiments) * -(-self.runs // _RUNS)

    def share(self, place: int) -> Share:
        """Return one. Neighbours are of different cells, so that any row of them is about equally long."""
        number, cell = divmod(place, len(self.experiments))
        count = min(_RUNS, self.runs - number * _RUNS)
        return Share(cell, self.experiments[cell], number, count, self.seed)

    def gather(self, tallies: Iterable[Tally]) -> list[Cell]:
        """Return the cells, in the order of the experiments; the tallies come in any order."""
        sums = [np.zeros(1, np.int64) for _ in self.experiments]
        for cell, counted in tallies:
            longer = np.zeros(max(len(sums[cell]), len(counted)), np.int64)
            longer[: len(sums[cell])] = sums[cell]
            longer[: len(counted)] += counted
            sums[cell] = longer
        return [
            Cell(experiment, tuple(tally.tolist()))
            for experiment, tally in zip(self.experiments, sums, strict=True)
        ]


def simulate(
    experiments: Sequence[Experiment],
    runs: int = 1_000,
    seed: int = 1,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Cell]:
    """Run each experiment many times, and say how often its writers collided.

    Parameters
    ----------
    experiments
        One a cell.
    runs
        Runs a cell.
    seed
        The same seed gives the same cells, however many processes there are, with one release of numpy. A
        cell is the same alone and among others.
    processes
        How many share the work; 1 is this one.
    progress
        Called with (runs done, runs in all, what is going on).

    Returns
    -------
    list of Cell
        In the order of the experiments.

    Raises
    ------
    ConfigError
        For no run, a negative seed, or no process.
    """
    plan = Plan(experiments, runs, seed)
    plan.check()
    if processes < 1:
        raise ConfigError(f"processes is {processes}: give 1 or more")
    with _tallies(plan, processes) as tallies:
        return plan.gather(_reporting(tallies, plan, progress))


@contextmanager
def _tallies(plan: Plan, processes: int) -> Iterator[Iterator[Tally]]:
    shares = map(plan.share, range(plan.shares))
    if processes == 1:
        yield map(Share.tally, shares)
        return
    # An interrupt goes to all processes of a terminal: this one alone is to hear it.
    ignoring = (signal.SIGINT, signal.SIG_IGN)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(processes, plan.shares), context, signal.signal, ignoring)
    try:
        yield pool.map(Share.tally, shares, chunksize=max(1, plan.shares // (processes * 64)))
    finally:
        pool.shutdown(cancel_futures=True)


def _reporting(tallies: Iterator[Tally], plan: Plan, progress: Progress | None) -> Iterator[Tally]:
    done, total = 0, plan.runs * len(plan.experiments)
    for tally in tallies:
        yield tally
        done += sum(tally.runs)
        if progress:
            progress(done, total, "runs")
