"""The published simulation, in plain Python, as its article describes it: timestamps, and their set union."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from putifabsent.lab.simulate import Experiment

__all__ = ["collisions", "sequence"]


def collisions(experiment: Experiment, rng: Random) -> int:
    """Return how many timestamps of a run are used already by another writer."""
    used: set[int] = set()
    written = 0
    for _ in range(experiment.writers):
        timestamps = sequence(experiment, rng)
        written += len(timestamps)
        used = used.union(timestamps)
    return written - len(used)


def sequence(experiment: Experiment, rng: Random) -> set[int]:
    """Return one writer's timestamps, up to the first at or past the end."""
    shortest = experiment.interval - experiment.jitter
    longest = experiment.interval + experiment.jitter
    at = rng.randint(0, experiment.interval)
    timestamps = {at}
    while at < experiment.duration:
        at += rng.randint(shortest, longest)
        timestamps.add(at)
    return timestamps
