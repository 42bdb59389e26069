"""The birthday problem: what to expect of an experiment without simulating it.

A writer is at a given millisecond once in an interval, so a pair of them is there together once in its
square. Over all pairs and milliseconds the number of collisions is close to a Poisson distribution's.
"""

from __future__ import annotations

import math
from itertools import accumulate

__all__ = ["cumulative", "mean", "percent"]


def mean(writers: float, interval: float, duration: float) -> float:
    """Return the collisions of a run, on average; times are in one unit, the millisecond is the clock's."""
    return writers * (writers - 1) / 2 * duration / interval**2


def percent(mean: float) -> float:
    """Return how many runs of a hundred have a collision, if they have so many on average."""
    return -100 * math.expm1(-mean)


def cumulative(mean: float, most: int) -> float:
    """Return how likely a run is to have that many collisions, or fewer."""
    terms = accumulate(range(1, most + 1), lambda term, number: term * mean / number, initial=math.exp(-mean))
    return min(1.0, math.fsum(terms))
