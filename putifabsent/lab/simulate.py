"""How likely is a collision? Writers that take their timestamps from their own clocks, simulated.

The experiments are those of "Understanding Apache Hudi's Consistency Model, Part 2" (Jack Vanlightly, 2024),
whose numbers are in ``published-collisions.csv``; any other can be run the same way. Runs are shared out to
this process, to all cores, or to Spark: what comes of them is the same. Wants numpy.
"""

from __future__ import annotations

import csv
import json
import math
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from fractions import Fraction
from importlib.resources import files
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    Integers = NDArray[np.signedinteger[Any]]

COLUMNS = ("writers", "interval_ms", "jitter_ms", "duration_ms")
RUNS = 1_000  # of each published cell
_LONGEST = 10**15  # milliseconds: no timestamp comes near the end of 64 bits
_MOST = 2**26  # timestamps of one run, all of which are in memory at once: half a gibibyte
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(-?\d+(?:\.\d+)?) ?(ms|s|m|min|h|d)", re.ASCII)


@dataclass(frozen=True, order=True)
class Experiment:
    """Writers that write at an interval of their own; times are whole milliseconds.

    A writer's first timestamp is anywhere in the first interval; each next one comes an interval later, give
    or take up to the jitter. Its last one is the first at or past the end of the duration. All of that is
    drawn evenly, and by each writer for itself. ``ConfigError``, where no such writers can be.
    """

    writers: int
    interval: int
    jitter: int  # less than the interval, so that a writer never collides with itself
    duration: int

    def __post_init__(self) -> None:
        for each in fields(self):
            self._check(each.name, getattr(self, each.name))
        if self.jitter >= self.interval:
            raise ConfigError(
                f"jitter is {self.jitter} ms, and interval {self.interval} ms: give a jitter below the "
                f"interval, or a writer's next timestamp would not come after its last"
            )
        timestamps = self.writers * (self.duration // self.interval + 1)
        if timestamps > _MOST:
            raise ConfigError(
                f"one run has {timestamps} timestamps, more than the {_MOST} that are held at once: give "
                f"fewer writers, a longer interval or a shorter duration"
            )

    def _check(self, name: str, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(f"{name} is {value!r}: give a whole number")
        least = 0 if name == "jitter" else 1
        if value < least:
            raise ConfigError(f"{name} is {value}: give {least} or more")
        if value > _LONGEST:
            raise ConfigError(f"{name} is {value}: give {_LONGEST} or less")

    def __str__(self) -> str:
        interval, jitter, duration = map(formatted, (self.interval, self.jitter, self.duration))
        return f"{self.writers} writers, an interval of {interval}, {jitter} of jitter, for {duration}"


@dataclass(frozen=True)
class Cell:
    """What came of an experiment's runs."""

    experiment: Experiment
    tally: tuple[int, ...]  # how many runs had 0, 1, 2, ... collisions; its last number is not 0

    @property
    def runs(self) -> int:
        """How many there were."""
        return sum(self.tally)

    @property
    def collisions(self) -> int:
        """Those of all runs together."""
        return sum(number * runs for number, runs in enumerate(self.tally))

    @property
    def hits(self) -> int:
        """Runs that had one or more."""
        return self.runs - self.tally[0]

    @property
    def mean(self) -> float:
        """Collisions of a run, on average."""
        return self.collisions / self.runs

    @property
    def fewest(self) -> int:
        """Those of the run with the fewest."""
        return next(number for number, runs in enumerate(self.tally) if runs)

    @property
    def most(self) -> int:
        """Those of the run with the most."""
        return len(self.tally) - 1

    @property
    def percent(self) -> float:
        """How many runs of a hundred had one or more."""
        return 100 * self.hits / self.runs

    def row(self) -> dict[str, float]:
        """Return it under the published table's column names."""
        return {
            **dict(zip(COLUMNS, astuple(self.experiment), strict=True)),
            "mean_collisions": self.mean,
            "min_collisions": self.fewest,
            "max_collisions": self.most,
            "percent_of_runs_with_a_collision": self.percent,
        }


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
    """Return the published cells, 78 of four experiments, in the order in which they were published."""
    with files(__package__).joinpath("published-collisions.csv").open(encoding="utf-8") as file:
        rows = csv.reader(file)
        next(rows)  # the columns' names
        return [
            Published(
                int(number), Experiment(*map(int, cell)), float(mean), int(low), int(high), float(percent)
            )
            for number, *cell, mean, low, high, percent in rows
        ]


def read(path: Path) -> list[Experiment]:
    """Return the experiments that a file lists: a list of JSON objects, or CSV with a line of column names.

    The columns are the published table's: ``writers``, ``interval_ms``, ``jitter_ms``, ``duration_ms``.
    Others are passed over, so what ``putifabsent simulate --json`` prints can be read again. ``ConfigError``:
    the file is none of both, has no cell, or has a cell that can't be run; it names which.
    """
    text = path.read_text(encoding="utf-8")
    if text.lstrip().startswith(("[", "{")):
        cells = _from_json(path, text)
    else:
        rows = csv.DictReader(text.splitlines(), skipinitialspace=True)
        cells = [{column: _number(value) for column, value in row.items()} for row in rows]
    if not cells:
        raise ConfigError(f"{path} has no cells: give one a line under {','.join(COLUMNS)}, or a JSON list")
    return [_experiment(f"{path}, cell {number}", cell) for number, cell in enumerate(cells, 1)]


def _from_json(path: Path, text: str) -> list[Mapping[str, Any]]:
    try:
        cells = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is no JSON: {error}") from error
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ConfigError(f"{path} is no JSON list of objects: give one object a cell")
    return cells


def _number(value: str | None) -> int | str | None:
    return int(value) if value is not None and value.strip().lstrip("-").isdecimal() else value


def _experiment(where: str, cell: Mapping[str, Any]) -> Experiment:
    missing = [column for column in COLUMNS if cell.get(column) is None]
    if missing:
        raise ConfigError(f"{where} has no {missing[0]}: give {', '.join(COLUMNS)}")
    try:
        return Experiment(*(cell[column] for column in COLUMNS))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def parse_duration(text: str, what: str) -> int:
    """Return the milliseconds of ``500ms``, ``90s``, ``1m``, ``1.5h`` or ``7d``.

    ``ConfigError``, for anything else and for a part of a millisecond, names ``what`` it is of.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{what} is {text!r}: give a number and its unit, as in 500ms, 90s, 1m, 24h or 7d")
    number, unit = match.groups()
    milliseconds = Fraction(number) * _UNITS["m" if unit == "min" else unit]
    if milliseconds.denominator != 1:
        raise ConfigError(f"{what} is {text!r}: give whole milliseconds")
    return int(milliseconds)


def formatted(milliseconds: int) -> str:
    """Return a span of time in the largest unit of which it is a whole number: ``24 h``, ``7 d``."""
    for unit, size in reversed(_UNITS.items()):
        # A day is better known as 24 hours.
        if milliseconds >= size and milliseconds % size == 0 and (unit, milliseconds) != ("d", size):
            return f"{milliseconds // size} {'min' if unit == 'm' else unit}"
    return "0 ms"


# --- the simulation

_RUNS = 250  # those of a share. Its seed hangs on it: another number would give other results.
_TASKS_A_CORE = 4  # so that the last ones to end are not waited for by all others
_AT_ONCE = 2**18  # timestamps that are worked on together: few enough for a processor's cache


class Tally(NamedTuple):
    """What came of a share: how many runs of a cell, by its place there, had 0, 1, 2, ... collisions."""

    cell: int
    runs: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A simulation: an experiment a cell, runs of each, and what the seeds of their shares are made from.

    ``ConfigError``: it can't be run.
    """

    experiments: Sequence[Experiment]
    runs: int
    seed: int

    def __post_init__(self) -> None:
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


def simulate_on(session: SparkSession, plan: Plan, partitions: int | None = None) -> list[Cell]:
    """Run a plan as a Spark job, in so many tasks; by default a few for each core.

    The workers' Python, which ``PYSPARK_PYTHON`` says, needs this package and numpy.
    """
    spark = session.sparkContext
    tasks = partitions or spark.defaultParallelism * _TASKS_A_CORE
    shares = spark.parallelize(range(plan.shares), min(tasks, plan.shares))
    return plan.gather(shares.map(plan.tally).collect())


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
    in_order.sort(axis=-1)
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
    over = times[..., :-1] >= duration
    beyond = np.iinfo(times.dtype).max
    times[..., 1:][over] = np.arange(beyond - np.count_nonzero(over), beyond, dtype=times.dtype)
    return times


def _steps(experiment: Experiment, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
    """Draw what lies between timestamps."""
    shortest, longest = experiment.interval - experiment.jitter, experiment.interval + experiment.jitter
    kind = np.int32 if longest < 2**31 else np.int64  # the former are sorted faster
    steps: Integers = rng.integers(shortest, longest, size=shape, dtype=kind, endpoint=True)
    return steps


def _columns(experiment: Experiment) -> int:
    """Return how many timestamps of a writer are drawn at first: hardly ever too few."""
    steps = experiment.duration / experiment.interval
    # A step's standard deviation is its jitter over the root of 3; that of their sum grows with their root.
    spread = experiment.jitter / experiment.interval * math.sqrt(steps / 3)
    return math.ceil(steps + 6 * spread) + 2
