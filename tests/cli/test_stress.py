"""``putifabsent stress``: what it prints for people and for programs, and what it exits with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app
from putifabsent.lab.stress.results import Violation
from putifabsent.lab.stress.running import run as running
from tests.faults.failover import until

if TYPE_CHECKING:
    from typer.testing import Result

SHORT = ("--writers", "2", "--duration", "1s", "--format", "delta", "--without", "lost")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ("stress", *map(str, arguments)))


def json_of(result: Result) -> Any:
    return json.loads(result.stdout)


def test_it_shows_an_example_and_takes_json() -> None:
    shown = run("--help").stdout
    assert "Example: putifabsent stress" in shown
    assert "--json" in shown


def test_each_path_has_a_row_and_the_report_has_its_charts(tmp_path: Path) -> None:
    report = tmp_path / "new" / "report.html"
    came = run(tmp_path, *SHORT, "--stock", "--report", report, "--json")
    assert came.exit_code == 0, came.stderr
    rows = json_of(came)
    assert [row["path"] for row in rows] == ["putifabsent, auto", "fsspec, local", "pyarrow, local"]
    assert [row["ours"] for row in rows] == [True, False, False]
    assert rows[0]["commits"] > 0
    assert rows[0]["violations"] == dict.fromkeys("UBKTL", 0)
    assert rows[0]["requests"] is None
    assert all(Path(row["root"]).is_dir() for row in rows)
    page = report.read_text()
    assert page.count("<svg") == 2 + len(rows)
    assert "No promise was broken through putifabsent" in page


def test_another_client_that_fails_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise ImportError("no module of that client")

    monkeypatch.setattr("putifabsent.lab.stress.paths.Arrow.__init__", missing)
    came = run(tmp_path, *SHORT, "--stock", "--json")
    assert came.exit_code == 0, came.stderr
    assert [row["path"] for row in json_of(came)] == ["putifabsent, auto", "fsspec, local"]
    shown = " ".join(came.stderr.split())
    assert "pyarrow, local is left out, for it failed: ImportError: no module of that client" in shown


def test_what_has_run_is_shown_though_another_arbiter_s_run_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_or_fail(what: Any, contender: Any, **more: Any) -> Any:
        if contender.label == "putifabsent, ballot":
            raise OSError("no such bucket")
        return running(what, contender, **more)

    monkeypatch.setattr("putifabsent.lab.stress.running.run", run_or_fail)
    came = run(tmp_path, *SHORT, "--arbiter", "native", "--arbiter", "ballot", "--json")
    assert came.exit_code == 4
    assert [row["path"] for row in json_of(came)] == ["putifabsent, native"]
    shown = " ".join(came.stderr.split())
    assert "error: putifabsent, ballot is left out, for it failed: OSError: no such bucket" in shown
    came = run(tmp_path, *SHORT, "--arbiter", "ballot", "--json")
    assert (came.exit_code, json_of(came)) == (4, {"outcome": "failed", "message": "no such bucket"})


def test_people_get_tables_of_eighty_columns_and_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("putifabsent.cli.screen._WIDTH", 80)
    came = run(tmp_path, *SHORT, "--arbiter", "native")
    assert came.exit_code == 0, came.stderr
    figures, promises = (line for line in came.stdout.splitlines() if "putifabsent, native" in line)
    assert len(figures.split()) == 2 + 6
    assert promises.split()[2:] == ["0"] * 5
    assert "No promise was broken through putifabsent" in came.stdout


def test_it_exits_with_1_if_a_promise_was_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Violation("U", "more than one creation was acknowledged", "a", "2 creations")
    monkeypatch.setattr("putifabsent.lab.stress.running.judge", lambda _: [broken])
    came = run(tmp_path, *SHORT, "--json")
    assert came.exit_code == 1
    assert json_of(came)[0]["breaches"] == [broken._asdict()]


def test_it_exits_with_4_if_nothing_was_tried(tmp_path: Path) -> None:
    came = run(tmp_path, *SHORT[2:], "--writers", "1", "--duration", "1ms")
    assert came.exit_code == 4
    assert (
        "No commit was acknowledged of putifabsent, auto, delta.db/table0: nothing was tried there."
        in came.stdout
    )


def test_a_report_that_could_not_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    came = run(tmp_path, *SHORT, "--report", tmp_path / "file" / "report.html", "--json")
    assert came.exit_code == 2
    assert str(tmp_path / "file") in json_of(came)["message"]
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("memory://a", *SHORT), "memory:// is one process's own"),
        (("/a", "--writers", "0"), "writers is 0: give a positive number"),
        (("/a", "--tables", "-1"), "tables is -1: give a positive number"),
        (("/a", "--duration", "long"), "--duration is 'long'"),
        (("/a", "--duration", "0s"), "seconds is 0.0: give a positive number"),
        (("/a", "--format", "orc"), "orc is none of hudi, paimon, delta"),
        (("/a", "--without", "rain"), "--without rain: the faults are kill, pause, lost"),
        (("/a",), "plain http:// endpoint alone: leave that fault out (--without lost)"),
        (("ftp://a", *SHORT), "ftp:// is not known here"),
        (("/a", "--master", "local[1]", *SHORT), "--master wants PySpark"),
    ],
)
def test_what_cannot_be_run_is_a_sentence(arguments: tuple[str, ...], message: str) -> None:
    came = run(*arguments, "--json")
    assert came.exit_code == 2
    assert message in json_of(came)["message"]


def test_who_interrupts_it_leaves_no_writer_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from putifabsent.cli import main; main()", "stress", str(tmp_path)]
    options = (*SHORT[4:], "--writers", "4", "--duration", "60s")
    # In a group of its own, as a terminal starts it, so that all of it is interrupted.
    with subprocess.Popen([*command, *options], start_new_session=True, stderr=subprocess.DEVNULL) as process:
        until(lambda: any(tmp_path.glob("stress-*/delta.db/table0/_delta_log/*")))
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) != 0
    until(lambda: not _group(process.pid))


def _group(leader: int) -> list[str]:
    """Return the processes of a group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[2]) == leader and fields[0] != "Z":
            found.append(stat.parent.name)
    return found
