"""What is simulated, also as a file or a user says it, or as it was published; and what came of it."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from fractions import Fraction
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

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
