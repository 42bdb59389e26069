"""The collision simulation as a Spark job gives what one process gives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app
from putifabsent.lab.simulate import Experiment, Plan, simulate, simulate_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PLAN = Plan([Experiment(writers, 300, 15, 60_000) for writers in (1, 2, 5, 9)], 1_100, 3)


def test_however_many_tasks_there_are_the_cells_are_those_of_one_process(session: SparkSession) -> None:
    expected = simulate(PLAN.experiments, PLAN.runs, PLAN.seed)
    assert [simulate_on(session, PLAN, partitions) for partitions in (None, 1, 7)] == [expected] * 3


def test_the_verb_prints_the_same_with_a_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # so that what is set here ends with the test
    monkeypatch.delenv("PYSPARK_PYTHON")
    told = ("simulate", "--writers", "2-4", "--interval", "1s", "--duration", "1h", "--json", "--runs", "300")
    printed = [
        CliRunner().invoke(app, (*told, *where)) for where in (("--processes", "1"), ("--master", "local[1]"))
    ]
    assert [each.exit_code for each in printed] == [0, 0]
    assert json.loads(printed[1].stdout) == json.loads(printed[0].stdout)
