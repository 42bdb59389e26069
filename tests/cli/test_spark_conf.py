"""``putifabsent spark-conf``: lines for who does not mount from Python."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app

if TYPE_CHECKING:
    from typer.testing import Result

ADDRESS = ("--address", "http://10.0.0.7:8976")


@pytest.fixture(autouse=True)
def _jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("putifabsent.spark.jar", lambda: "/site/putifabsent-hadoop.jar")


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["spark-conf", *arguments])


def test_every_line_is_one_of_spark_defaults() -> None:
    said = _run("s3a", *ADDRESS)
    lines = [line.split() for line in said.stdout.splitlines() if line and not line.startswith("#")]
    assert said.exit_code == 0
    assert {len(line) for line in lines} == {2}
    assert dict(lines)["spark.hadoop.fs.putifabsent.address"] == "http://10.0.0.7:8976"


def test_a_program_reads_the_same() -> None:
    said = json.loads(_run("s3a", "gs", *ADDRESS, "--json").stdout)
    assert said["spark"]["spark.jars"] == "/site/putifabsent-hadoop.jar"
    assert said["spark"]["spark.hadoop.fs.gs.impl"] == said["spark"]["spark.hadoop.fs.s3a.impl"]
    assert "hoodie.write.lock.provider" in said["hudi"]


def test_a_scheme_that_is_not_known_is_a_wrong_use() -> None:
    said = _run("hdfs", *ADDRESS, "--json")
    assert said.exit_code == 2
    assert "hdfs://" in json.loads(said.stdout)["message"]
