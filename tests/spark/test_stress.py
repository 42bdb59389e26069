"""The stress bench as Spark tasks, on one machine and on a cluster."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app
from putifabsent.lab.servers import LocalBucket
from putifabsent.lab.stress.paths import guarded, stock_of
from putifabsent.lab.stress.pool import Stress
from tests.lab.stress.chance import soon
from tests.spark.drivers import LONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from putifabsent.lab.stress.paths import Contender
    from putifabsent.lab.stress.results import Result

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STRESS = Stress("lab", writers=4, seconds=8.0)
DELTA = replace(STRESS, formats=("delta",))


@pytest.fixture(scope="module")
def server() -> Iterator[LocalBucket]:
    with LocalBucket() as server:
        yield server


def test_tasks_keep_the_promises_and_stock_clients_do_not(session: SparkSession, server: LocalBucket) -> None:
    from putifabsent.lab.stress.running import stress_on

    options = server.storage_options
    ours = guarded("pias3", "putifabsent", {**options, "arbiter": "native"})
    [boto3] = [each for each in stock_of("pias3", options) if each.label == "boto3"]

    def all_has_happened(result: Result) -> bool:
        assert result.violations == []
        assert set(result.history["writer"].to_pylist()) == {-1, 0, 1, 2, 3}
        return "kill" in result.figures.faults and result.figures.acknowledged > 10

    def is_convicted(result: Result) -> bool:
        return {each.promise for each in result.violations} >= {"U", "K"}

    assert soon(all_has_happened, STRESS, lambda what: stress_on(session, what, ours, 2))
    assert soon(is_convicted, DELTA, lambda what: stress_on(session, what, boto3, 2))


@LONG
def test_the_verb_takes_a_master(server: LocalBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    where = ("s3://lab", "--endpoint-url", server.endpoint, "-o", "key=lab", "-o", "secret=lab-secret")
    told = ("--writers", "2", "--duration", "4s", "--format", "delta", "--master", "local[2]", "--json")
    came = CliRunner().invoke(app, ("stress", *where, *told, "--arbiter", "native"))
    assert came.exit_code == 0, came.stderr
    [row] = json.loads(came.stdout)
    assert row["commits"] > 0
    assert set(row["violations"].values()) == {0}


@LONG
def test_what_has_run_is_shown_though_another_path_s_job_fails(
    server: LocalBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    from putifabsent.lab.stress import running

    stress_on = running.stress_on

    def run_or_fail(session: SparkSession, what: Stress, contender: Contender) -> Result:
        if not contender.is_ours:
            raise OSError("its executor is gone")
        return stress_on(session, what, contender)

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setattr(running, "stress_on", run_or_fail)
    where = ("s3://lab", "--endpoint-url", server.endpoint, "-o", "key=lab", "-o", "secret=lab-secret")
    told = ("--writers", "2", "--duration", "2s", "--format", "delta", "--master", "local[2]", "--json")
    came = CliRunner().invoke(app, ("stress", *where, *told, "--arbiter", "native", "--stock"))
    assert [row["path"] for row in json.loads(came.stdout)] == ["putifabsent, native"]
    assert "boto3 is left out, for it failed: OSError: its executor is gone" in " ".join(came.stderr.split())
