"""What is simulated, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from putifabsent.errors import ConfigError
from putifabsent.lab.durations import said

__all__ = ["Cell", "Experiment"]

_LONGEST = 10**15
"""Milliseconds: no timestamp comes near the end of 64 bits."""
_MOST = 2**26
"""Timestamps of one run, all of which are in memory at once: half a gibibyte."""


@dataclass(frozen=True, order=True)
class Experiment:
    """Writers that write at an interval of their own; times are whole milliseconds.

    A writer's first timestamp is anywhere in the first interval; each next one comes an interval later, give
    or take up to the jitter. Its last one is the first at or past the end of the duration. All of that is
    drawn evenly, and by each writer for itself.

    Attributes
    ----------
    writers
        How many there are.
    interval
        Milliseconds from one write of a writer to its next, on average.
    jitter
        Milliseconds by which that differs at most, both ways. Less than the interval, so that a writer never
        collides with itself.
    duration
        Milliseconds for which they write.

    Raises
    ------
    ConfigError
        Where no such writers can be.
    """

    writers: int
    interval: int
    jitter: int
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
        return (
            f"{self.writers} writers, an interval of {said(self.interval)}, {said(self.jitter)} of jitter, "
            f"for {said(self.duration)}"
        )


@dataclass(frozen=True)
class Cell:
    """What came of an experiment's runs.

    Attributes
    ----------
    experiment
        What was run.
    tally
        How many runs had 0, 1, 2, ... collisions; its last number is not 0.
    """

    experiment: Experiment
    tally: tuple[int, ...]

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
            "writers": self.experiment.writers,
            "interval_ms": self.experiment.interval,
            "jitter_ms": self.experiment.jitter,
            "duration_ms": self.experiment.duration,
            "mean_collisions": self.mean,
            "min_collisions": self.fewest,
            "max_collisions": self.most,
            "percent_of_runs_with_a_collision": self.percent,
        }
