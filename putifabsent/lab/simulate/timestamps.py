"""The simulation itself: timestamps of many runs at once, and how many of them are used twice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from putifabsent.lab.simulate.experiment import Experiment

    Integers = NDArray[np.signedinteger[Any]]

__all__ = ["collisions", "runs", "timestamps"]

_AT_ONCE = 2**17
"""Timestamps that are worked on together: few enough for a processor's cache."""
_LARGEST = 2**31 - 1
"""Where 32 bits end. Numbers of 32 bits sort twice as fast as those of 64."""


def runs(experiment: Experiment, count: int, seed: int | np.random.SeedSequence) -> NDArray[np.int64]:
    """Return how many collisions each run has.

    Exact: each timestamp of each writer is drawn, and equal ones are counted.

    Parameters
    ----------
    experiment
        What is run.
    count
        How many runs.
    seed
        Runs of the same experiment, count and seed have the same collisions, with one release of numpy.

    Returns
    -------
    ndarray
        ``count`` numbers.
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

    Parameters
    ----------
    times
        Shape (runs, writers, timestamps); no writer has one twice. It is overwritten.
    """
    in_order = times.reshape(len(times), -1)
    in_order.sort(axis=-1)
    found: NDArray[np.int64] = np.count_nonzero(in_order[:, 1:] == in_order[:, :-1], axis=-1)
    return found


def timestamps(experiment: Experiment, count: int, rng: np.random.Generator) -> Integers:
    """Draw the timestamps of some runs.

    Returns
    -------
    ndarray
        Shape (runs, writers, timestamps), in milliseconds from the start. A writer's grow, up to its last
        one, the first at or past the end. Not every writer has equally many: after its last one there are
        negative numbers, each of them once.
    """
    interval, jitter, duration = experiment.interval, experiment.jitter, experiment.duration
    columns = _columns(experiment)
    small = columns * (interval + jitter) <= _LARGEST
    times = _steps(experiment, (count, experiment.writers, columns), rng, np.int32 if small else np.int64)
    times[..., 0] = rng.integers(0, interval, endpoint=True, size=times.shape[:2])
    np.cumsum(times, axis=-1, out=times)
    while (times[..., -1] < duration).any():
        more = _steps(experiment, times.shape, rng, np.int64)
        more[..., 0] += times[..., -1]
        times = np.concatenate([times, np.cumsum(more, axis=-1)], axis=-1)
    # No writer can have come to the end before: each step is an interval and a jitter at most.
    early = max(1, (duration - interval) // (interval + jitter))
    late = times[..., early:]
    over = times[..., early - 1 : -1] >= duration
    late[over] = -1 - np.arange(np.count_nonzero(over))
    return times


def _steps(
    experiment: Experiment,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    dtype: type[np.signedinteger[Any]],
) -> Integers:
    """Draw what lies between timestamps."""
    least, most = experiment.interval - experiment.jitter, experiment.interval + experiment.jitter
    drawn: Integers = rng.integers(least, most, endpoint=True, size=shape, dtype=dtype)
    return drawn


def _columns(experiment: Experiment) -> int:
    """Return how many timestamps of a writer are drawn at first: hardly ever too few."""
    steps = experiment.duration / experiment.interval
    # A step's standard deviation is its jitter over the root of 3; that of their sum grows with their root.
    spread = experiment.jitter / experiment.interval * math.sqrt(steps / 3)
    return math.ceil(steps + 6 * spread) + 2
