"""A folder of tables that is inspected as a Spark job gives what one process finds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import fsspec
import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app
from putifabsent.inspection import Failed, inspect_all
from tests.inspection.tables import Delta, Hudi, Paimon

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TABLES = 40


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """Return a folder of tables; one is hurt, and one can't be looked at."""
    fs = fsspec.filesystem("file", auto_mkdir=True)
    root = str(tmp_path / "warehouse")
    for number in range(TABLES):
        Delta(fs, f"{root}/delta/t{number:02d}").change(0, "a")
    Paimon(fs, f"{root}/paimon/hurt").commit(1, "a")
    fs.rm_file(f"{root}/paimon/hurt/bucket-0/a")
    Hudi(fs, f"{root}/old", version=77)
    return root


def test_tasks_find_what_one_process_finds(session: SparkSession, warehouse: str) -> None:
    from putifabsent.spark.tables import inspect_all as on_spark

    here, there = inspect_all(warehouse), on_spark(session, warehouse)
    assert [(each.url, each.verdict, list(each.findings)) for each in there] == [
        (each.url, each.verdict, list(each.findings)) for each in here
    ]
    assert len(there) == TABLES + 2
    assert sum(bool(each.damage) for each in there) == 1
    # Who has a report can read on in its timeline.
    assert all(isinstance(each, Failed) or list(each.timeline.active(problems=[])) for each in there)


def test_the_verb_prints_the_same_with_a_master(warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # so that what is set here ends with the test
    monkeypatch.delenv("PYSPARK_PYTHON")
    printed = [
        CliRunner().invoke(app, ("inspect", warehouse, "--json", *where))
        for where in ((), ("--master", "local[2]"))
    ]
    assert [each.exit_code for each in printed] == [6, 6]
    assert json.loads(printed[1].stdout) == json.loads(printed[0].stdout)


def test_of_one_table_there_is_no_job(warehouse: str) -> None:
    asked = CliRunner().invoke(app, ("inspect", f"{warehouse}/delta/t00", "--master", "local[2]"))
    assert asked.exit_code == 2
    assert "is one table" in asked.stderr
