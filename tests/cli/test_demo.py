"""``putifabsent demo``: what it counts, what it says of that, and what it exits with."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app
from putifabsent.errors import ConfigError
from putifabsent.lab import demo
from putifabsent.lab.demo import Race

if TYPE_CHECKING:
    from typer.testing import Result

STOCK = Race("stock", "s3", 80, 61, 19, 4.25, {"FileExistsError: N": 3})
OURS = Race("putifabsent", "s3", 80, 80, 0, 5.0)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def _races(monkeypatch: pytest.MonkeyPatch, *races: Race) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def run(writers: int, commits: int, stores: Any, progress: Any, arbiter: str | None) -> list[Race]:
        calls.append((writers, commits, stores))
        progress(0, 80, "stock on s3")
        progress(80, 80, "stock on s3")
        return list(races)

    monkeypatch.setattr("putifabsent.cli.lab.race", run)
    return calls


def test_demo_prints_what_was_lost_on_both_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _races(monkeypatch, STOCK, OURS)
    result = _run("demo")
    assert result.exit_code == 0
    assert calls == [(8, 10, ["s3", "local"])]
    assert re.search(r"s3 +stock +80 +61 +19 +0 +4\.2", result.stdout)
    assert re.search(r"s3 +putifabsent +80 +80 +0 +0 +5\.0", result.stdout)
    assert "acknowledged 80 commits and lost 19 of them in this run" in result.stdout
    assert "Through putifabsent it acknowledged 80, and lost none." in result.stdout
    assert "stock on s3: 3 x FileExistsError: N" in result.stderr


def test_demo_hands_on_who_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    arbiters: list[object] = []

    def run(*_: object, arbiter: str | None) -> list[Race]:
        arbiters.append(arbiter)
        return [STOCK, OURS]

    monkeypatch.setattr("putifabsent.cli.lab.race", run)
    assert _run("demo", "--arbiter", "ballot").exit_code == _run("demo").exit_code == 0
    assert arbiters == ["ballot", None]


def test_demo_as_json_is_a_list_of_races(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _races(monkeypatch, STOCK, OURS)
    result = _run("demo", "--json", "--store", "s3", "--writers", "2", "--commits", "3")
    assert calls == [(2, 3, ["s3"])]
    assert json.loads(result.stdout) == [
        {
            "path": "stock",
            "store": "s3",
            "acknowledged": 80,
            "readable": 61,
            "lost": 19,
            "repeated": 0,
            "seconds": 4.25,
        },
        {
            "path": "putifabsent",
            "store": "s3",
            "acknowledged": 80,
            "readable": 80,
            "lost": 0,
            "repeated": 0,
            "seconds": 5.0,
        },
    ]


def test_demo_exits_with_1_if_the_guarded_path_lost_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    _races(monkeypatch, STOCK, Race("putifabsent", "s3", 80, 79, 1, 5.0))
    result = _run("demo")
    assert result.exit_code == 1
    assert "Through putifabsent 1 of 80 were lost: that is a bug" in result.stdout


def test_demo_exits_with_1_if_the_guarded_path_has_rows_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    _races(monkeypatch, STOCK, replace(OURS, repeated=7))
    result = _run("demo")
    assert result.exit_code == 1
    assert "Through putifabsent 0 of 80 were lost, and 7 are there twice: that is a bug" in result.stdout


def test_demo_exits_with_4_if_nothing_was_acknowledged_on_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    _races(monkeypatch, STOCK, OURS, Race("putifabsent", "local", 0, 0, 0, 5.0))
    result = _run("demo")
    assert result.exit_code == 4
    assert "Through putifabsent none was acknowledged on local: nothing was tried there." in result.stdout


@pytest.mark.parametrize("path", ["stock", "putifabsent"])
def test_demo_exits_with_4_if_writers_died(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    races = [replace(each, unanswered=7) if each.path == path else each for each in (STOCK, OURS)]
    _races(monkeypatch, *races)
    result = _run("demo")
    assert result.exit_code == 4
    assert f"error: {path} on s3: 7 commits have no answer: a writer died" in result.stderr


def test_what_a_dead_writer_owes_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = Pipe()
    theirs.send(((0, 0), None))
    theirs.close()
    monkeypatch.setattr(demo, "_make_table", lambda _: None)
    monkeypatch.setattr(demo, "_started", lambda *_: nullcontext([ours]))
    monkeypatch.setattr(demo, "_start_together", lambda *_: None)
    monkeypatch.setattr(demo, "_read", lambda *_: Counter({(0, 0): 5}))
    came = demo.race({}, {}, writers=1, commits=3)
    assert (came["acknowledged"], came["lost"], came["unanswered"]) == (1, 0, 2)


def test_demo_does_not_claim_a_loss_that_it_has_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    _races(monkeypatch, Race("stock", "s3", 80, 80, 0, 4.0), OURS)
    assert "lost none of 80 commits in this run; another run may" in _run("demo").stdout


def test_demo_without_pypaimon_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> list[Race]:
        raise ConfigError("pypaimon is not installed: pip install 'putifabsent[demo]'")

    monkeypatch.setattr("putifabsent.cli.lab.race", run)
    result = _run("demo")
    assert result.exit_code == 2
    assert "pip install 'putifabsent[demo]'" in result.stderr


def test_an_interrupt_while_the_writers_start_is_not_lost() -> None:
    with pytest.raises(KeyboardInterrupt), demo._deaf():
        signal.raise_signal(signal.SIGINT)
