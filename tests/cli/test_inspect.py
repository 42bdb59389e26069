"""``putifabsent inspect``: what it prints for people and for programs, draws, and exits with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app
from tests.inspection.tables import Delta, Hudi

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

T = [f"2026010112000000{n}" for n in range(10)]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ("inspect", *arguments))


def said(result: Result) -> Any:
    """Return the one JSON value that is on stdout."""
    return json.loads(result.stdout)


@pytest.fixture
def table(tmp_path: Path) -> Delta:
    made = Delta(fsspec.filesystem("file"), str(tmp_path / "t"))
    made.change(0, "a")
    made.change(1, "b")
    return made


def test_it_shows_an_example_and_takes_json() -> None:
    shown = run("--help").stdout
    assert "Example: putifabsent inspect" in shown
    assert "--json" in shown


def test_a_healthy_table_is_said_to_be_so(table: Delta) -> None:
    came = run(table.root)
    assert came.exit_code == 0
    assert "2 records, 2 data files: no damage was found" in came.stdout


def test_a_hurt_table_exits_with_1_and_says_what_to_do(table: Delta) -> None:
    table.fs.rm_file(f"{table.root}/a")
    came = run(table.root)
    assert came.exit_code == 1
    assert "damage: dangling-reference" in came.stdout
    assert f"{table.root}/a" in came.stdout
    assert "What to do:" in came.stdout


def test_a_notice_alone_exits_with_0(tmp_path: Path) -> None:
    made = Hudi(fsspec.filesystem("file"), str(tmp_path / "t"))
    made.put(f"{T[1]}.rollback.requested", b"{}")
    came = run(made.root)
    assert came.exit_code == 0
    assert "notice: pending-undo" in came.stdout


def test_json_has_every_finding_with_its_names(table: Delta) -> None:
    table.fs.rm_file(f"{table.root}/a")
    came = run(table.root, "--json")
    assert came.exit_code == 1
    value = said(came)
    assert (value["format"], value["damage"], value["records"]) == ("delta", 1, 2)
    (finding,) = value["findings"]
    assert finding["kind"] == "dangling-reference"
    assert finding["severity"] == "damage"
    assert finding["names"] == [f"{table.root}/a"]
    assert "timeline" not in value


def test_the_timeline_is_printed_where_it_is_asked_for(table: Delta) -> None:
    assert "transaction" in run(table.root, "--timeline").stdout
    rows = said(run(table.root, "--timeline", "--json"))["timeline"]
    assert [row["number"] for row in rows] == [0, 1]


def test_without_data_nothing_is_listed(table: Delta) -> None:
    table.fs.rm_file(f"{table.root}/a")
    came = run(table.root, "--no-data", "--json")
    assert came.exit_code == 0
    assert said(came)["files"] is None


def test_the_picture_and_the_report_are_written(table: Delta, tmp_path: Path) -> None:
    plot, report = tmp_path / "out" / "t.svg", tmp_path / "out" / "t.html"
    assert run(table.root, "--plot", str(plot), "--report", str(report)).exit_code == 0
    assert plot.read_text().startswith("<svg")
    assert "<svg" in report.read_text()


def test_no_table_is_a_usage_error(tmp_path: Path) -> None:
    came = run(str(tmp_path / "nothing"), "--json")
    assert came.exit_code == 2
    assert "there is no table" in said(came)["message"]


def test_an_unknown_table_version_is_a_usage_error(tmp_path: Path) -> None:
    made = Hudi(fsspec.filesystem("file"), str(tmp_path / "t"), version=5)
    came = run(made.root)
    assert came.exit_code == 2
    assert "table version 5" in came.stderr


def test_nothing_is_written_to_a_table(table: Delta, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    run(table.root)
    assert sorted(tmp_path.rglob("*")) == before
