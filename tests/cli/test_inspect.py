"""``putifabsent inspect``: what it prints for people and for programs, draws, and exits with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app
from tests.cli.conftest import own_memory
from tests.inspection.tables import Delta, Hudi, packed

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

T = [f"2026010112000000{n}" for n in range(10)]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ("inspect", *arguments))


def json_of(result: Result) -> Any:
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


def test_a_hurt_table_exits_with_6_and_says_what_to_do(table: Delta) -> None:
    table.fs.rm_file(f"{table.root}/a")
    came = run(table.root)
    assert came.exit_code == 6
    assert "damage: dangling-reference" in came.stdout
    assert f"{table.root}/a" in came.stdout
    assert "What to do:" in came.stdout


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_name_that_can_not_be_printed_is_no_reason_to_lose_the_answer(
    tmp_path: Path, encoding: str
) -> None:
    root = os.fsdecode(os.fsencode(tmp_path) + "/tä".encode() + b"\xff")
    made = Delta(fsspec.filesystem("file"), root)
    made.change(0, "a")
    made.fs.rm_file(f"{root}/a")
    report = tmp_path / "report.html"
    command = "from putifabsent.cli import main; main()"
    came = subprocess.run(
        [sys.executable, "-c", command, "inspect", root, "--report", str(report)],
        env={**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert came.returncode == 6, came.stderr
    shown = {"ascii": b"t\\xe4\\udcff/a", "utf-8": "tä\\udcff/a".encode()}[encoding]
    assert shown in came.stdout
    assert "tä\\udcff/a" in report.read_text(encoding="utf-8")


def test_a_notice_alone_exits_with_0(tmp_path: Path) -> None:
    made = Hudi(fsspec.filesystem("file"), str(tmp_path / "t"))
    made.put(f"{T[1]}.rollback.requested", b"{}")
    came = run(made.root)
    assert came.exit_code == 0
    assert "notice: pending-undo" in came.stdout


def test_json_has_every_finding_with_its_names(table: Delta) -> None:
    table.fs.rm_file(f"{table.root}/a")
    came = run(table.root, "--json")
    assert came.exit_code == 6
    value = json_of(came)
    assert (value["format"], value["damage"], value["records"]) == ("delta", 1, 2)
    (finding,) = value["findings"]
    assert finding["kind"] == "dangling-reference"
    assert finding["severity"] == "damage"
    assert finding["names"] == [f"{table.root}/a"]
    assert "timeline" not in value


def test_the_timeline_is_printed_where_it_is_asked_for(table: Delta) -> None:
    assert "transaction" in run(table.root, "--timeline").stdout
    rows = json_of(run(table.root, "--timeline", "--json"))["timeline"]
    assert [row["number"] for row in rows] == [0, 1]


def test_without_data_nothing_is_listed(table: Delta) -> None:
    table.fs.rm_file(f"{table.root}/a")
    came = run(table.root, "--no-data", "--json")
    assert came.exit_code == 0
    assert json_of(came)["files"] is None


def test_the_picture_and_the_report_are_written(table: Delta, tmp_path: Path) -> None:
    plot, report = tmp_path / "out" / "t.svg", tmp_path / "out" / "t.html"
    assert run(table.root, "--plot", str(plot), "--report", str(report)).exit_code == 0
    assert plot.read_text().startswith("<svg")
    assert "<svg" in report.read_text()


def test_no_table_is_a_usage_error(tmp_path: Path) -> None:
    came = run(str(tmp_path / "nothing"), "--json")
    assert came.exit_code == 2
    assert "there is no table" in json_of(came)["message"]


def test_an_unknown_table_version_is_a_usage_error(tmp_path: Path) -> None:
    made = Hudi(fsspec.filesystem("file"), str(tmp_path / "t"), version=5)
    came = run(made.root)
    assert came.exit_code == 2
    assert "table version 5" in came.stderr


def test_nothing_is_written_to_a_table(table: Delta, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    run(table.root)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Make a folder with a healthy table, a hurt one, and one of a version that is not known."""
    disk, lake = fsspec.filesystem("file"), tmp_path / "lake"
    for name in ("sales/healthy", "sales/hurt"):
        made = Delta(disk, str(lake / name))
        made.change(0, "a")
        made.change(1, "b")
    disk.rm_file(str(lake / "sales" / "hurt" / "a"))
    Hudi(disk, str(lake / "logs"), version=5)
    (lake / "no_table" / "deep").mkdir(parents=True)
    (lake / "sales" / "healthy" / "part=1" / "_delta_log").mkdir(
        parents=True
    )  # a table's folder is not asked
    (lake / ".hidden" / "t" / "_delta_log").mkdir(parents=True)
    return lake


@pytest.mark.parametrize("scheme", ["memory", "piamemory", "putifabsent::memory"])
def test_commands_have_the_address_of_their_table(scheme: str) -> None:
    with own_memory():
        made = Delta(fsspec.filesystem("memory"), "/lake/t")
        made.change(0, "a")
        made.change(1, "b")
        made.fs.rm_file("/lake/t/b")
        one = json_of(run(f"{scheme}://lake/t", "--json"))
        (other,) = json_of(run(f"{scheme}://lake", "--json"))["tables"]
    assert other["name"] == f"{scheme.rpartition('::')[2]}://lake/t"
    for each in (one, other):
        (finding,) = each["findings"]
        assert finding["commands"] == ["RESTORE TABLE delta.`memory://lake/t` TO VERSION AS OF 0"]


@pytest.mark.parametrize("options", [[], ["--timeline"]])
def test_who_reads_none_of_an_answer_ends_it_quietly(table: Delta, options: list[str]) -> None:
    command = [
        sys.executable,
        "-c",
        "from putifabsent.cli import main; main()",
        "inspect",
        table.root,
        *options,
    ]
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb") as nobody:
        ended = subprocess.run(command, stdout=nobody, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.stderr, ended.returncode) == ("", 141)


def test_of_a_folder_of_tables_each_has_a_line(lake: Path) -> None:
    came = run(str(lake))
    assert came.exit_code == 6
    lines = {line.split()[0]: line for line in came.stdout.splitlines() if line.strip()}
    assert "no damage was found" in lines["sales/healthy"]
    assert "a finding of damage" in lines["sales/hurt"]
    assert "could not be inspected" in lines["logs"]
    assert f"{lake}: 3 tables, 1 damaged, 1 could not be inspected." in came.stdout


def test_a_folder_of_tables_is_told_to_programs_with_every_finding(lake: Path) -> None:
    value = json_of(run(str(lake), "--json"))
    assert [value[each] for each in ("name", "damaged", "failed")] == [str(lake), 1, 1]
    logs, healthy, hurt = value["tables"]
    assert logs.keys() == {"name", "error"}
    assert "table version 5" in logs["error"]
    assert (healthy["name"], healthy["damage"]) == (f"{lake}/sales/healthy", 0)
    assert [each["kind"] for each in hurt["findings"]] == ["dangling-reference"]


def test_a_folder_of_tables_has_one_report(lake: Path, tmp_path: Path) -> None:
    report = tmp_path / "out" / "lake.html"
    assert run(str(lake), "--report", str(report)).exit_code == 6
    page = report.read_text()
    assert page.count("<figure") == 1  # of the one with a finding
    for name in ("logs", "sales/healthy", "sales/hurt"):
        assert f"{lake}/{name}" in page
    assert 'href="#t2"' in page
    assert 'id="t2"' in page


def test_a_table_that_can_not_be_inspected_exits_with_4_where_none_is_damaged(lake: Path) -> None:
    (lake / "sales" / "hurt" / "a").touch()
    assert run(str(lake)).exit_code == 4
    assert run(str(lake / "sales")).exit_code == 0


@pytest.mark.parametrize("option", ["--timeline", "--plot=t.svg"])
def test_what_shows_one_table_is_refused_of_a_folder_of_them(lake: Path, option: str) -> None:
    came = run(str(lake), option)
    assert came.exit_code == 2
    assert "is no table: --timeline and --plot want one" in came.stderr


def test_a_folder_without_a_table_is_a_usage_error(lake: Path) -> None:
    came = run(str(lake / "no_table"))
    assert came.exit_code == 2
    assert "there is no table at" in came.stderr
    assert "and none below it" in came.stderr


@pytest.mark.parametrize("digits", [17, 18, 20])
@pytest.mark.parametrize("of", ["delta", "hudi"])
def test_numbers_of_a_timeline_are_shown_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str, digits: int
) -> None:
    monkeypatch.setattr("putifabsent.cli.screen._WIDTH", 80)
    disk, root = fsspec.filesystem("file"), str(tmp_path / "t")
    numbers = [int(f"{20260101120000000}{'0' * (digits - 17)}") + each for each in (1, 2)]
    for number in numbers:
        if of == "delta":
            Delta(disk, root).change(number, "a", read=0)
        else:
            Hudi(disk, root).commit(str(number), str(number + 2))
    shown = run(root, "--timeline", "--no-data").stdout.splitlines()
    for number in numbers:
        assert any(line.startswith(f" {number} ") for line in shown)


@pytest.mark.parametrize("name", ["hudi_cow", "hudi_mor", "paimon", "delta"])
def test_a_record_of_a_timeline_is_one_line_of_eighty_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("putifabsent.cli.screen._WIDTH", 80)
    root = packed(name, tmp_path)
    shown = run(root, "--timeline", "--no-data").stdout.splitlines()
    records = json_of(run(root, "--no-data", "--json"))["records"]
    begins = next(number for number, line in enumerate(shown) if set(line.strip()) == {"─"}) + 1
    rows = shown[begins : begins + records]
    assert all(re.match(r" \d+ ", line) for line in rows)
    assert not shown[begins + records].strip()
    assert max(map(len, rows)) <= 80
