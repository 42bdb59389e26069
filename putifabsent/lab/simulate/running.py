"""The simulation: timestamps of many runs at once, and how many of them are used twice.

Runs are shared out to this process, to all cores, or to Spark. What comes of them is the same.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from putifabsent.errors import ConfigError
from putifabsent.lab.simulate.experiment import Cell, Experiment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.signedinteger[Any]]

_RUNS = 250  # those of a share. Its seed hangs on it: another number would give other results.
_AT_ONCE = 2**18  # timestamps that are worked on together: few enough for a processor's cache
_MERGED = 7  # writers whose timestamps are merged, not sorted


class Tally(NamedTuple):
    """What came of a share: how many runs of a cell, by its place there, had 0, 1, 2, ... collisions."""

    cell: int
    runs: tuple[int, ...]


class Plan(NamedTuple):
    """A simulation: an experiment a cell, runs of each, and what the seeds of their shares are made from."""

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

    def tally(self, share: int) -> Tally:
        """Simulate a share. Neighbours are of different cells, so that any row of them is about equally long.

        Its seed is its own, and hangs on its experiment and its number there, not on the plan's other cells.
        """
        number, cell = divmod(share, len(self.experiments))
        what = self.experiments[cell]
        seed = np.random.SeedSequence(self.seed, spawn_key=(*astuple(what), number))
        came = runs(what, min(_RUNS, self.runs - number * _RUNS), seed)
        return Tally(cell, tuple(np.bincount(came).tolist()))

    def gather(self, tallies: Iterable[Tally]) -> list[Cell]:
        """Return the cells, in the order of the experiments; the tallies come in any order."""
        sums: list[tuple[int, ...]] = [()] * len(self.experiments)
        for cell, counted in tallies:
            sums[cell] = tuple(map(sum, zip_longest(sums[cell], counted, fillvalue=0)))
        return list(map(Cell, self.experiments, sums))


def simulate(
    experiments: Sequence[Experiment],
    runs: int = 1_000,
    seed: int = 1,
    processes: int = 1,
    progress: Callable[[int, int, str], None] = lambda *_: None,
) -> list[Cell]:
    """Run each experiment many times, and say how often its writers collided: a cell each, in their order.

    The same seed gives the same cells, however many processes share the work, with one release of numpy; a
    cell is the same alone and among others. ``progress`` is called with (runs done, runs in all, what is
    going on). ``ConfigError``: for no run, a negative seed, or no process.
    """
    plan = Plan(experiments, runs, seed)
    plan.check()
    if processes < 1:
        raise ConfigError(f"processes is {processes}: give 1 or more")
    done, total = 0, runs * len(experiments)

    def reported(tally: Tally) -> Tally:
        nonlocal done
        done += sum(tally.runs)
        progress(done, total, "runs")
        return tally

    with _tallies(plan, processes) as tallies:
        return plan.gather(map(reported, tallies))


@contextmanager
def _tallies(plan: Plan, processes: int) -> Iterator[Iterator[Tally]]:
    if processes == 1:
        yield map(plan.tally, range(plan.shares))
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(processes, plan.shares), context, _begin)
    try:
        yield pool.map(plan.tally, range(plan.shares), chunksize=max(1, plan.shares // (processes * 64)))
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    # An interrupt goes to all processes of a terminal: the first one alone is to hear it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_first, daemon=True).start()


def _end_with_the_first() -> None:
    """End when the first process is gone: the pool's own pipes are open in all others, and don't say so."""
    first = multiprocessing.parent_process()
    if first is not None:
        first.join()
        os._exit(1)


def runs(experiment: Experiment, count: int, seed: int | np.random.SeedSequence) -> NDArray[np.int64]:
    """Return how many collisions each run has.

    Exact: each timestamp of each writer is drawn, and equal ones are counted. Runs of the same experiment,
    count and seed have the same collisions, with one release of numpy.
    """
    rng = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // (experiment.writers * _columns(experiment)))
    found = [
        collisions(timestamps(experiment, min(at_once, count - done), rng))
        for done in range(0, count, at_once)
    ]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def collisions(times: Integers) -> NDArray[np.int64]:
    """Return, for each run, how many timestamps there are more than different ones.

    ``times`` has the shape (runs, writers, timestamps), and no writer has one twice; it is overwritten.
    """
    _, writers, columns = times.shape
    in_order = times.reshape(len(times), -1)
    # What is in order already, writer by writer, is merged; of many writers that takes longer than a sort.
    in_order.sort(axis=-1, kind="stable" if writers <= _MERGED else "quicksort")
    flat = in_order.reshape(-1)
    equal = np.flatnonzero(flat[1:] == flat[:-1])
    run, place = np.divmod(equal, writers * columns)
    # The last of a run and the first of the next are no pair.
    return np.bincount(run[place < writers * columns - 1], minlength=len(times))


def timestamps(experiment: Experiment, count: int, rng: np.random.Generator) -> Integers:
    """Draw the timestamps of some runs: shape (runs, writers, timestamps), in milliseconds from the start.

    A writer's grow, up to its last one, the first at or past the end. Not every writer has equally many: it
    goes on with numbers that are beyond any timestamp, each of them there once.
    """
    interval, jitter, duration = experiment.interval, experiment.jitter, experiment.duration
    shape = (count, experiment.writers, _columns(experiment))
    times = _steps(experiment, shape, rng)
    if shape[-1] * (interval + jitter) + times.size > np.iinfo(times.dtype).max:
        times = times.astype(np.int64)
    times[..., 0] = rng.integers(0, interval, endpoint=True, size=shape[:2])
    np.cumsum(times, axis=-1, out=times)
    while (times[..., -1] < duration).any():
        more = _steps(experiment, shape, rng).astype(np.int64)
        more[..., 0] += times[..., -1]
        times = np.concatenate([times, np.cumsum(more, axis=-1)], axis=-1)
    # No writer can have come to the end before: each step is an interval and a jitter at most.
    early = max(1, (duration - interval) // (interval + jitter))
    late = times[..., early:]
    over = times[..., early - 1 : -1] >= duration
    beyond = np.iinfo(times.dtype).max
    late[over] = np.arange(beyond - np.count_nonzero(over), beyond, dtype=times.dtype)
    return times


def _steps(experiment: Experiment, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
    """Draw what lies between timestamps."""
    shortest, choices = experiment.interval - experiment.jitter, 2 * experiment.jitter + 1
    steps: Integers
    if shortest + choices >= 2**31:
        steps = rng.integers(shortest, shortest + choices, size=shape, dtype=np.int64)
        return steps
    # As rng.integers would do it, a third of the time: words from a whole number of spans, as long as can be.
    size, span = math.prod(shape), (2**32 - 1) // choices
    words = rng.bit_generator.random_raw((size + 1) // 2).view(np.uint32)[:size]
    beyond = np.flatnonzero(words >= span * choices)
    words[beyond] = rng.integers(0, span * choices, size=beyond.size, dtype=np.uint32)
    words //= np.uint32(span)
    words += np.uint32(shortest)
    steps = words.view(np.int32).reshape(shape)
    return steps


def _columns(experiment: Experiment) -> int:
    """Return how many timestamps of a writer are drawn at first: hardly ever too few."""
    steps = experiment.duration / experiment.interval
    # A step's standard deviation is its jitter over the root of 3; that of their sum grows with their root.
    spread = experiment.jitter / experiment.interval * math.sqrt(steps / 3)
    return math.ceil(steps + 6 * spread) + 2
