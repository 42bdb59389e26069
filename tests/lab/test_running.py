"""A simulation is shared out, and what comes of it does not hang on how."""

from __future__ import annotations

import signal
import subprocess
import sys
from random import Random
from typing import Any

import pytest

from putifabsent.errors import ConfigError
from putifabsent.lab.simulate import Experiment, Plan, simulate

EXPERIMENTS = [Experiment(writers, 300, 15, 60_000) for writers in (2, 5, 9)]
RUNS = 1_100


def test_a_seed_gives_the_same_cells() -> None:
    assert simulate(EXPERIMENTS, RUNS, seed=3) == simulate(EXPERIMENTS, RUNS, seed=3)


def test_another_seed_gives_others() -> None:
    assert simulate(EXPERIMENTS, RUNS, seed=3) != simulate(EXPERIMENTS, RUNS, seed=4)


def test_two_processes_give_what_one_gives() -> None:
    assert simulate(EXPERIMENTS, RUNS, processes=2) == simulate(EXPERIMENTS, RUNS)


_KILLED = """
import os, signal
from putifabsent.lab.simulate import Experiment, simulate
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
simulate([Experiment(2, 300, 15, 60_000)], 1_100, processes=2, progress=kill)
"""


def test_processes_end_with_the_one_that_shares_the_work_out() -> None:
    # Its standard output ends with the last process that has it.
    done = subprocess.run([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


def test_a_cell_is_the_same_alone_and_among_others() -> None:
    assert simulate(EXPERIMENTS[1:2], RUNS) == simulate(EXPERIMENTS, RUNS)[1:2]


def test_tallies_may_come_in_any_order() -> None:
    plan = Plan(EXPERIMENTS, RUNS, 1)
    tallies = [plan.tally(share) for share in range(plan.shares)]
    Random(1).shuffle(tallies)
    assert plan.gather(tallies) == simulate(EXPERIMENTS, RUNS)


@pytest.mark.parametrize("runs", [1, 250, 251, 999])
def test_each_cell_has_as_many_runs_as_were_asked_for(runs: int) -> None:
    assert [cell.runs for cell in simulate(EXPERIMENTS, runs)] == [runs] * len(EXPERIMENTS)


def test_shares_of_a_cell_differ() -> None:
    first, second = map(Plan(EXPERIMENTS[2:], 500, 1).tally, (0, 1))
    assert first != second


def test_progress_counts_runs_up_to_all_of_them() -> None:
    seen: list[tuple[int, int]] = []
    simulate(EXPERIMENTS, RUNS, progress=lambda done, total, _: seen.append((done, total)))
    assert {total for _, total in seen} == {RUNS * len(EXPERIMENTS)}
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1][0] == RUNS * len(EXPERIMENTS)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"runs": 0}, "runs is 0: give 1 or more"),
        ({"seed": -1}, "seed is -1: give 0 or more"),
        ({"processes": 0}, "processes is 0: give 1 or more"),
    ],
)
def test_what_can_t_be_run_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulate(EXPERIMENTS, **wrong)
