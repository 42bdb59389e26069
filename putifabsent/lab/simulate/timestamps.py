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

_AT_ONCE = 2**18
"""Timestamps that are worked on together: few enough for a processor's cache."""
_MERGED = 7
"""Writers whose timestamps are merged, not sorted."""


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
    """Draw the timestamps of some runs.

    Returns
    -------
    ndarray
        Shape (runs, writers, timestamps), in milliseconds from the start. A writer's grow, up to its last
        one, the first at or past the end. Not every writer has equally many: it goes on with numbers that
        are beyond any timestamp, each of them there once.
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
