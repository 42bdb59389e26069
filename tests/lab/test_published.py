"""The published cells are reproduced, and what differs from them would be noticed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import comb, exp, factorial

import pytest

from putifabsent.lab import simulate_report as noise
from putifabsent.lab.simulate import RUNS, Cell, Experiment, Published, published, simulate
from putifabsent.lab.simulate_report import (
    _binomial,
    _poisson,
    _shared_out,
    chances,
    differing,
    mean_band,
    percent_band,
)


@pytest.fixture(scope="module")
def cells() -> dict[tuple[int, int, int], Cell]:
    """Simulate all published cells, with as many runs, by experiment, writers and interval: some seconds."""
    theirs = published()
    simulated = simulate([each.experiment for each in theirs], RUNS)
    return {
        (each.number, each.experiment.writers, each.experiment.interval): cell
        for each, cell in zip(theirs, simulated, strict=True)
    }


def test_there_are_78_cells_of_four_experiments() -> None:
    assert Counter(each.number for each in published()) == {1: 19, 2: 19, 3: 20, 4: 20}


def test_all_of_them_are_reproduced(cells: dict[tuple[int, int, int], Cell]) -> None:
    assert differing(list(cells.values()), published()) == []


def test_a_collision_gets_likelier_than_not_between_8_and_9_writers(
    cells: dict[tuple[int, int, int], Cell],
) -> None:
    assert cells[1, 8, 60_000].percent < 50 < cells[1, 9, 60_000].percent


def test_there_is_one_on_average_between_9_and_10_writers(cells: dict[tuple[int, int, int], Cell]) -> None:
    assert cells[1, 9, 60_000].mean < 1 < cells[1, 10, 60_000].mean


def test_14_collisions_of_20_writers_are_what_noise_lets_expect(
    cells: dict[tuple[int, int, int], Cell],
) -> None:
    [theirs] = [each for each in published() if each.number == 1 and each.experiment.writers == 20]
    assert theirs.most == 14
    assert chances(cells[1, 20, 60_000], theirs).published_most > 0.01


def test_the_birthday_problem_lets_expect_what_is_simulated(
    cells: dict[tuple[int, int, int], Cell],
) -> None:
    for cell in cells.values():
        what = cell.experiment
        mean = noise.expected_mean(what.writers, what.interval, what.duration)
        low, high = mean_band(mean, RUNS, 1 - 0.001 / len(cells))
        assert low <= cell.mean <= high, what
        low, high = percent_band(noise.expected_percent(mean), RUNS, 1 - 0.001 / len(cells))
        assert low <= cell.percent <= high, what


THEIRS = Published(1, Experiment(10, 60_000, 3_000, 86_400_000), 1.0, 0, 6, 63.2)
OURS = Cell(THEIRS.experiment, (368, 368, 184, 61, 15, 3, 1))


def test_a_sample_like_another_differs_by_noise_alone() -> None:
    assert differing([OURS], [THEIRS]) == []


@pytest.mark.parametrize(
    "theirs",
    [
        THEIRS._replace(mean=1.25),
        THEIRS._replace(percent=53.2),
        THEIRS._replace(most=13),
        THEIRS._replace(most=2),
    ],
    ids=["the mean", "how many have one", "the most: more", "the most: fewer"],
)
def test_one_that_is_too_far_off_differs(theirs: Published) -> None:
    assert differing([OURS], [theirs]) == [OURS]


def test_too_many_in_a_single_run_differ() -> None:
    ours = replace(OURS, tally=(*OURS.tally[:-1], 0, 0, 0, 0, 0, 0, 1))
    assert differing([ours], [THEIRS]) == [ours]


def test_other_writers_than_the_published_ones_are_found_out() -> None:
    theirs = [each for each in published() if each.number == 1 and each.experiment.writers > 17]
    one_fewer = [replace(each.experiment, writers=each.experiment.writers - 1) for each in theirs]
    assert differing(simulate(one_fewer, RUNS), theirs) != []


# The distributions behind it


def test_the_binomial_distribution_is_the_textbook_s() -> None:
    lowest, mass = _binomial(20, 0.3)
    expected = [comb(20, hits) * 0.3**hits * 0.7 ** (20 - hits) for hits in range(21)]
    assert (lowest, mass.tolist()) == (0, pytest.approx(expected))


def test_poisson_s_distribution_is_the_textbook_s() -> None:
    lowest, mass = _poisson(3.0)
    expected = [exp(-3) * 3**number / factorial(number) for number in range(len(mass))]
    assert (lowest, mass.tolist()) == (0, pytest.approx(expected))


def test_hits_are_shared_out_as_the_textbook_says() -> None:
    lowest, mass = _shared_out(25, 20, 30)
    expected = [comb(25, hits) * comb(5, 20 - hits) / comb(30, 20) for hits in range(15, 21)]
    assert (lowest, mass.tolist()) == (15, pytest.approx(expected))


def test_a_band_holds_as_much_as_it_says() -> None:
    low, high = (round(edge * 1_000) for edge in mean_band(0.4, 1_000, 0.9))
    lowest, mass = _poisson(400)
    within = mass[low - lowest : high - lowest + 1].sum()
    assert 0.9 <= within < 0.9 + 2 * mass.max()


@pytest.mark.parametrize(("percent", "edge"), [(0, 0), (100, 100)])
def test_what_is_certain_has_no_noise(percent: float, edge: float) -> None:
    assert percent_band(percent, 1_000) == (edge, edge)


def test_a_mean_is_told_by_the_runs_of_both() -> None:
    assert chances(OURS, THEIRS).mean == pytest.approx(1, abs=0.05)
    ten_times = replace(OURS, tally=tuple(10 * runs for runs in OURS.tally))
    off = THEIRS._replace(mean=1.13)
    assert chances(ten_times, off).mean < chances(OURS, off).mean


def test_the_birthday_problem_of_23_people() -> None:
    # As the textbook approximates it: 23 people, each born once in 365 days.
    assert noise.expected_percent(noise.expected_mean(23, 365, 365)) == pytest.approx(50.0, abs=0.1)
