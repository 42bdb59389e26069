"""``putifabsent simulate``: what it prints for people and for programs, draws, and exits with."""

from __future__ import annotations

import csv
import importlib.util
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app
from putifabsent.lab.simulate import Experiment, simulate

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

# Of the published cells those with the fewest timestamps, and a few runs: this is about the verb.
FEW = ("--runs", "2", "--processes", "1")
TWO = ("--writers", "2-3", "--interval", "10m")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ("simulate", *arguments))


def json_of(result: Result) -> Any:
    """Return the one JSON value that is on stdout."""
    return json.loads(result.stdout)


def test_it_shows_an_example_and_takes_json() -> None:
    shown = run("--help").stdout
    assert "Example: putifabsent simulate" in shown
    assert "--json" in shown


def test_the_published_cells_are_printed_with_the_published_columns() -> None:
    came = run("--published", "--json", *FEW)
    assert came.exit_code == 0
    with files("putifabsent.lab").joinpath("published-collisions.csv").open() as file:
        theirs = list(csv.DictReader(file))
    assert [list(row) for row in json_of(came)] == [list(row) for row in theirs]
    columns = ("experiment", "writers", "interval_ms", "jitter_ms", "duration_ms")
    assert [[str(row[word]) for word in columns] for row in json_of(came)] == [
        [row[word] for word in columns] for row in theirs
    ]


def test_the_published_cells_are_compared() -> None:
    came = run("--published", "--runs", "100")
    assert came.exit_code == 0
    assert "All 78 published cells are reproduced" in came.stdout


def test_a_published_cell_is_a_line_of_eighty_columns_below_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("putifabsent.cli.screen._WIDTH", 80)
    shown = run("--published", *FEW).stdout.splitlines()
    begins = next(number for number, line in enumerate(shown) if set(line.strip()) == {"─"})
    rows = shown[begins + 1 :][: 2 * 78]
    assert [line.split()[0] for line in rows] == ["ours", "published"] * 78
    assert all(line.rstrip().endswith(" %") for line in rows)
    heads = " ".join(shown[:begins]).split()
    assert {"writers", "interval", "jitter", "duration", "mean", "max", "with", "one"} <= set(heads)


def test_a_few_runs_reproduce_nothing() -> None:
    came = run("--published", *FEW)
    assert came.exit_code == 0
    assert "reproduced" not in came.stdout
    assert "noise explains whatever differs: say --runs 100" in came.stdout


def test_it_exits_with_1_if_a_cell_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("putifabsent.lab.simulate_report.differing", lambda cells, _: list(cells[:2]))
    came = run("--published", *FEW)
    assert came.exit_code == 1
    assert "2 of 78 cells differ from the published ones by more than noise: 2 writers," in came.stdout


def test_options_make_a_cell_of_each_writers_and_interval() -> None:
    came = run("--writers", "2-3", "--writers", "9", "--interval", "10m", "--interval", "1h", "--json", *FEW)
    assert came.exit_code == 0
    assert [
        (row["writers"], row["interval_ms"], row["jitter_ms"], row["duration_ms"]) for row in json_of(came)
    ] == [
        (writers, interval, interval // 20, 86_400_000)
        for writers in (2, 3, 9)
        for interval in (600_000, 3_600_000)
    ]


@pytest.mark.parametrize(("jitter", "milliseconds"), [("10%", 60_000), ("1.5 %", 9_000), ("30s", 30_000)])
def test_a_jitter_is_a_percentage_or_a_time(jitter: str, milliseconds: int) -> None:
    [row, _] = json_of(run(*TWO, "--jitter", jitter, "--duration", "7d", "--json", *FEW))
    assert (row["jitter_ms"], row["duration_ms"]) == (milliseconds, 604_800_000)


def test_people_get_a_table() -> None:
    came = run("--writers", "4", "--interval", "10s", "--jitter", "1s", "--duration", "1h", *FEW)
    assert came.exit_code == 0
    assert "10 s" in came.stdout
    assert "runs with one" in came.stdout


def test_what_was_printed_can_be_run_again(tmp_path: Path) -> None:
    first = run("--writers", "5", "--interval", "1s", "--duration", "1h", "--json", *FEW)
    file = tmp_path / "cells.json"
    file.write_text(first.stdout)
    assert json_of(run("--file", str(file), "--json", *FEW)) == json_of(first)


def test_runs_and_seed_are_those_of_the_options() -> None:
    came = run(
        "--writers", "5", "--interval", "1s", "--duration", "1h", "--json", "--runs", "7", "--seed", "9"
    )
    [cell] = simulate([Experiment(5, 1_000, 50, 3_600_000)], 7, 9)
    assert json_of(came) == [cell.row()]


def test_charts_and_a_report_are_written(tmp_path: Path) -> None:
    report = tmp_path / "new" / "report.html"
    came = run(*TWO, *FEW, "--plots", str(tmp_path / "plots"), "--report", str(report))
    assert came.exit_code == 0
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {
        f"1-{quantity}-by-writers.{ending}"
        for quantity in ("percent", "collisions")
        for ending in ("svg", "png")
    }
    assert report.read_text().count("<svg") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say what to simulate"),
        (("--published", *TWO), "say what to simulate"),
        (("--writers", "5"), "--writers and --interval go together"),
        (("--interval", "1m"), "--writers and --interval go together"),
        (("--writers", "0", "--interval", "1m"), "writers is 0: give 1 or more"),
        (("--writers", "-2", "--interval", "1m"), "writers is -2: give 1 or more"),
        (("--writers", "9-2", "--interval", "1m"), "--writers is '9-2': give a number, or the lowest"),
        (("--writers", "many", "--interval", "1m"), "--writers is 'many': give a number"),
        (("--writers", "5", "--interval", "-1m"), "interval is -60000: give 1 or more"),
        (("--writers", "5", "--interval", "1"), "--interval is '1': give a number and its unit"),
        ((*TWO, "--jitter", "-5%"), "jitter is -30000: give 0 or more"),
        ((*TWO, "--jitter", "100%"), "give a jitter below the interval"),
        ((*TWO, "--duration", "0d"), "duration is 0: give 1 or more"),
        ((*TWO, "--runs", "0"), "runs is 0: give 1 or more"),
        ((*TWO, "--seed", "-1"), "seed is -1: give 0 or more"),
        ((*TWO, "--processes", "0"), "processes is 0: give 1 or more"),
        ((*TWO, "--processes", "2", "--master", "local[1]"), "leave it or --master out"),
        (("--writers", "5", "--interval", "1m", "--plots", "never"), "--plots has nothing to draw"),
    ],
)
def test_what_can_t_be_simulated_is_refused(arguments: tuple[str, ...], message: str) -> None:
    came = run(*arguments, "--json")
    assert came.exit_code == 2
    assert message in json_of(came)["message"]


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "putifabsent.cli.arguments.find_spec", lambda name: None if name == "pyspark" else found(name)
    )
    came = run(*TWO, "--master", "local[1]", "--json")
    assert came.exit_code == 2
    assert "pip install pyspark" in json_of(came)["message"]
