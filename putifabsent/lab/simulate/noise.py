"""What chance lets expect: how many collisions, and how far two samples of runs may be apart by noise alone.

The birthday problem says what to expect of an experiment without simulating it. A writer is at a given
millisecond once in an interval, so a pair of them is there together once in its square. Over all pairs and
milliseconds the number of collisions is close to a Poisson distribution's, for which it is taken here: no
pair of writers stays so near to each other that one of its collisions makes the next much likelier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from putifabsent.lab.simulate.experiment import Cell, Published

    Floats = NDArray[np.floating[Any]]

ENOUGH = 100  # runs of a cell; of fewer, noise explains whatever comes out
LEVEL = 0.999
"""How sure it is that cells of the same writers are not called different, all comparisons together."""


def expected_mean(writers: float, interval: float, duration: float) -> float:
    """Return the collisions of a run, on average; times are in one unit, the millisecond is the clock's."""
    return writers * (writers - 1) / 2 * duration / interval**2


def expected_percent(mean: float) -> float:
    """Return how many runs of a hundred have a collision, if they have so many on average."""
    return -100 * math.expm1(-mean)


def cumulative(mean: float, most: int) -> float:
    """Return how likely a run is to have that many collisions, or fewer."""
    terms = accumulate(range(1, most + 1), lambda term, number: term * mean / number, initial=math.exp(-mean))
    return min(1.0, math.fsum(terms))


class Chances(NamedTuple):
    """How likely noise alone is to set two samples apart by as much as they are, or by more: from 0 to 1.

    In their collisions, their runs with one, and the most of a run, each from what both samples let expect.
    """

    mean: float
    percent: float
    most: float
    published_most: float


def chances(cell: Cell, published: Published) -> Chances:
    """Compare a cell with the published one, of which nothing but these numbers is known."""
    runs = cell.runs + published.runs
    collisions = cell.collisions + published.collisions
    hits = cell.hits + published.hits
    return Chances(
        _binomial(collisions, cell.runs / runs).at_least_as_far_out(cell.collisions),
        _shared_out(hits, cell.runs, runs).at_least_as_far_out(cell.hits),
        _as_most(collisions / runs, cell.runs, cell.most),
        _as_most(collisions / runs, published.runs, published.most),
    )


def differing(cells: Sequence[Cell], cells_published: Sequence[Published]) -> list[Cell]:
    """Return the cells that more than noise sets apart from the published ones, at ``LEVEL``.

    Each is compared by its mean, by its share of runs with a collision and by its most collisions. The level
    is that of all comparisons together: each by itself is that much stricter.
    """
    compared = [(cell, chances(cell, theirs)) for cell, theirs in zip(cells, cells_published, strict=True)]
    allowed = (1 - LEVEL) / max(1, sum(len(each) for _, each in compared))
    return [cell for cell, each in compared if min(each) < allowed]


def verdict(cells: Sequence[Cell], cells_published: Sequence[Published]) -> str:
    """Say in a sentence whether the published cells are reproduced."""
    count = len(cells)
    if different := differing(cells, cells_published):
        listed = "; ".join(str(cell.experiment) for cell in different)
        return (
            f"{len(different)} of {count} cells differ from the published ones by more than noise: {listed}."
        )
    if (runs := min(cell.runs for cell in cells)) < ENOUGH:
        return f"In {runs} runs of a cell noise explains whatever differs: say --runs {ENOUGH} or more."
    return f"All {count} published cells are reproduced: at {LEVEL:.1%}, noise explains what differs."


def mean_band(mean: float, runs: int, level: float = 0.999) -> tuple[float, float]:
    """Return between which values the mean of so many runs lies, at this level."""
    low, high = _poisson(mean * runs).band(level)
    return low / runs, high / runs


def percent_band(percent: float, runs: int, level: float = 0.999) -> tuple[float, float]:
    """Return between which values the percentage of so many runs lies, at this level."""
    low, high = _binomial(runs, percent / 100).band(level)
    return 100 * low / runs, 100 * high / runs


class _Distribution(NamedTuple):
    """How likely each number from ``lowest`` on is; others are hardly possible."""

    lowest: int
    mass: Floats

    def band(self, level: float) -> tuple[int, int]:
        low, high = np.searchsorted(np.cumsum(self.mass), [(1 - level) / 2, (1 + level) / 2])
        return self.lowest + int(low), self.lowest + min(int(high), len(self.mass) - 1)

    def at_least_as_far_out(self, number: int) -> float:
        """Return how likely such a number is, on that side or on the other."""
        at = number - self.lowest
        below, above = self.mass[: max(0, at + 1)].sum(), self.mass[max(0, at) :].sum()
        return float(min(1.0, 2 * min(below, above)))


def _poisson(mean: float) -> _Distribution:
    return _distribution(mean, mean, (0, math.inf), lambda number: mean / (number + 1))


def _binomial(tries: int, chance: float) -> _Distribution:
    """Return how likely so many of the tries are to hit."""
    return _distribution(
        tries * chance,
        tries * chance * (1 - chance),
        (0, tries),
        lambda number: (tries - number) / (number + 1) * chance / (1 - chance),
    )


def _shared_out(hits: int, ours: int, runs: int) -> _Distribution:
    """Return how likely so many of the hits are to be among our runs, if it is chance whose they are."""
    share, misses = ours / runs, runs - hits
    return _distribution(
        hits * share,
        hits * share * (1 - share) * misses / max(1, runs - 1),
        (max(0, ours - misses), min(hits, ours)),
        lambda number: (hits - number) * (ours - number) / ((number + 1) * (misses - ours + number + 1)),
    )


def _distribution(
    mean: float, variance: float, limits: tuple[float, float], ratio: Callable[[Floats], Floats]
) -> _Distribution:
    """Return what a distribution has within ten standard deviations and the limits of what is possible.

    ``ratio`` says how much likelier than a number the next one is.
    """
    reach = 10 * math.sqrt(variance) + 50 if variance else 0
    lowest = math.floor(max(limits[0], mean - reach))
    highest = math.floor(min(limits[1], mean + reach))
    ratios = ratio(np.arange(lowest, highest, dtype=np.float64))
    logs = np.concatenate([np.zeros(1), np.cumsum(np.log(ratios))])
    mass = np.exp(logs - logs.max())
    return _Distribution(lowest, mass / mass.sum())


def _as_most(mean: float, runs: int, most: int) -> float:
    below = cumulative(mean, most - 1) ** runs if most else 0.0
    return min(1.0, 2 * min(cumulative(mean, most) ** runs, 1 - below))
