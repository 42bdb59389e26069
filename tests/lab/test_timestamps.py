"""The simulation is exact: what is drawn is what the experiment says, and what is equal is counted."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise, product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.set_union import collisions as set_union
from putifabsent.lab import simulate as running
from putifabsent.lab.simulate import Experiment, collisions, runs
from putifabsent.lab.simulate import timestamps as drawn

SETS = st.integers(1, 12).flatmap(
    lambda columns: st.lists(
        st.lists(
            st.lists(st.integers(0, 20), min_size=columns, max_size=columns, unique=True),
            min_size=10,
            max_size=10,
        ),
        min_size=1,
        max_size=4,
    )
)
EXPERIMENTS = st.builds(
    lambda writers, interval, share, duration: Experiment(
        writers, interval, int((interval - 1) * share), duration
    ),
    st.integers(1, 12),
    st.integers(1, 60),
    st.floats(0, 1),
    st.integers(1, 400),
)


@given(SETS, st.integers(1, 10))
def test_collisions_are_counted_as_by_a_set_union(times: list[list[list[int]]], writers: int) -> None:
    several = [run[:writers] for run in times]
    expected = [sum(map(len, run)) - len(set().union(*run)) for run in several]
    assert collisions(np.array(several)).tolist() == expected


def test_equal_neighbours_of_two_runs_are_no_collision() -> None:
    assert collisions(np.array([[[1, 5]], [[5, 9]]])).tolist() == [0, 0]


@given(EXPERIMENTS, st.integers(0, 2**32))
def test_a_writer_s_timestamps_are_as_the_experiment_says(experiment: Experiment, seed: int) -> None:
    check(experiment, seed)


@given(EXPERIMENTS, st.integers(0, 2**32))
def test_so_are_they_where_too_few_were_drawn_at_first(experiment: Experiment, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_columns", lambda _: 2)
        check(experiment, seed)


@pytest.mark.parametrize(
    "experiment",
    [
        Experiment(3, 10**6, 10**5, 2**31 - 2 * 10**6),
        Experiment(2, 2**31 - 10, 5, 2**40),
        Experiment(2, 10**9, 10**8, 10**12),
        Experiment(2, 10**14, 10**13, 10**15),
    ],
)
def test_so_are_they_where_32_bits_end(experiment: Experiment) -> None:
    check(experiment, 1)


def check(experiment: Experiment, seed: int) -> None:
    times = drawn(experiment, 3, np.random.default_rng(seed))
    beyond = times > experiment.duration + experiment.interval + experiment.jitter
    assert len(set(times[beyond].tolist())) == beyond.sum()
    shortest, longest = experiment.interval - experiment.jitter, experiment.interval + experiment.jitter
    for writer, ended in zip(
        times.reshape(-1, times.shape[-1]), beyond.reshape(-1, times.shape[-1]), strict=True
    ):
        its = writer[~ended].tolist()
        assert writer.tolist()[: len(its)] == its
        assert 0 <= its[0] <= experiment.interval
        assert all(shortest <= after - before <= longest for before, after in pairwise(its))
        assert its[-1] >= experiment.duration
        assert all(time < experiment.duration for time in its[:-1])


def test_every_course_of_a_small_experiment_comes_as_often_as_it_should() -> None:
    experiment, tries = Experiment(2, 3, 1, 6), 200_000
    one = courses(experiment)
    exactly: defaultdict[int, float] = defaultdict(float)
    for (mine, mine_weight), (yours, yours_weight) in product(one.items(), repeat=2):
        exactly[len(mine & yours)] += mine_weight * yours_weight
    found = np.bincount(runs(experiment, tries, 1), minlength=max(exactly) + 1)
    for number, chance in exactly.items():
        assert abs(found[number] - tries * chance) < 5 * math.sqrt(tries * chance), number
    assert sum(exactly.values()) == pytest.approx(1)
    assert len(found) == max(exactly) + 1


def courses(experiment: Experiment) -> dict[frozenset[int], float]:
    """Return every sequence of timestamps that a writer can have, and how likely it is."""
    steps = range(experiment.interval - experiment.jitter, experiment.interval + experiment.jitter + 1)
    ended: defaultdict[frozenset[int], float] = defaultdict(float)
    going: list[tuple[tuple[int, ...], float]]
    going = [((first,), 1 / (experiment.interval + 1)) for first in range(experiment.interval + 1)]
    while going:
        course, chance = going.pop()
        if course[-1] >= experiment.duration:
            ended[frozenset(course)] += chance
        else:
            going += [((*course, course[-1] + step), chance / len(steps)) for step in steps]
    return dict(ended)


@pytest.mark.parametrize("experiment", [Experiment(4, 100, 10, 10_000), Experiment(12, 400, 200, 10_000)])
def test_there_are_as_many_collisions_as_a_set_union_finds(experiment: Experiment) -> None:
    rng = Random(1)
    theirs = np.array([set_union(experiment, rng) for _ in range(500)])
    ours = runs(experiment, 5_000, 1)
    error = math.sqrt(theirs.var() / len(theirs) + ours.var() / len(ours))
    assert abs(theirs.mean() - ours.mean()) < 4 * error


def test_one_writer_never_collides() -> None:
    assert runs(Experiment(1, 2, 1, 1_000), 100, 1).tolist() == [0] * 100


def test_writers_that_can_t_miss_each_other_always_collide() -> None:
    # Each has every millisecond up to the end, from 0 on or from 1 on.
    assert set(runs(Experiment(2, 1, 0, 10), 100, 1).tolist()) == {10, 11}


class Highest:
    """Draws the highest words that there are, where words are drawn."""

    def __init__(self) -> None:
        self.bit_generator = self
        self.integers = np.random.default_rng(1).integers

    def random_raw(self, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.full(size, 2**64 - 1, np.uint64)


@pytest.mark.parametrize("jitter", [0, 1, 3_000, 10**6])
def test_words_past_the_last_whole_span_are_drawn_again(jitter: int) -> None:
    experiment = Experiment(2, 10**6 + 1, jitter, 10**8)
    times: Any = drawn(experiment, 3, Highest())  # type: ignore[arg-type]
    steps = np.diff(times[..., :10], axis=-1)
    assert steps.max() <= experiment.interval + jitter
    assert steps.min() >= experiment.interval - jitter


def test_no_runs_are_no_numbers() -> None:
    assert runs(Experiment(2, 60_000, 3_000, 86_400_000), 0, 1).tolist() == []
