"""``ledger``: what it prints, and what it exits with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fsspec
import pytest

from tests.cli.test_upkeep import printed, run

if TYPE_CHECKING:
    from pathlib import Path

INSTANT, AHEAD = "20200101000000000", "29990101000000000"


@pytest.fixture(autouse=True)
def _no_arbiter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PUTIFABSENT_ARBITER", raising=False)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a Hudi table without a ledger."""
    (tmp_path / ".hoodie" / "timeline").mkdir(parents=True)
    (tmp_path / ".hoodie" / "hoodie.properties").write_text("hoodie.table.version=9\n")
    return tmp_path


@pytest.fixture
def begun(table: Path) -> Path:
    """Return it with an open instant, and one ahead of all clocks."""
    fs = fsspec.filesystem("piafile", writer_session="driver-1", skip_instance_cache=True)
    for instant in (INSTANT, AHEAD):
        fs.pipe_file(str(table / ".hoodie" / "timeline" / f"{instant}.deltacommit.requested"), b"")
    return table


def test_a_ledger_is_shown_with_what_is_open_and_what_is_ahead(begun: Path) -> None:
    result = run("ledger", str(begun))
    assert result.exit_code == 0, result.output
    assert f"{INSTANT}   deltacommit   driver-1   1" in result.stdout
    assert "records  2; no checkpoint yet; 2 are listed" in result.stdout
    assert "turn     none is held" in result.stdout
    assert "horizon  none; above it 0 instants are remembered whole, 0 by name, 2 are open" in result.stdout
    assert "ahead    1 instants are later than the store's time" in result.stdout
    assert result.stdout.rstrip().endswith(f"    {AHEAD}")


def test_the_turn_is_shown_with_its_holder(table: Path) -> None:
    fs = fsspec.filesystem("piafile", writer_session="driver-1", skip_instance_cache=True)
    with fs.turn(str(table), lease=7):
        result = run("ledger", str(table))
    assert "turn     1, session driver-1, thread MainThread, lease 7 s" in result.stdout


def test_a_ledger_is_one_json_value(begun: Path) -> None:
    shown = printed(run("ledger", str(begun), "--json"))
    assert shown["name"] == str(begun)
    ledger = shown["ledger"]
    assert ledger["open"][0] == {
        "instant": INSTANT,
        "session": "driver-1",
        "action": "deltacommit",
        "since": 1,
    }
    assert (ledger["number"], ledger["turn"], ledger["ahead"]) == (2, None, [AHEAD])
    assert ledger["written"].endswith("+00:00")


def test_of_a_table_without_a_ledger_that_is_the_answer(table: Path) -> None:
    result = run("ledger", str(table))
    assert (result.exit_code, result.stdout) == (0, f"{table}: the table has no ledger\n")
    assert printed(run("ledger", str(table), "--json")) == {"name": str(table), "ledger": None}


def test_a_mistyped_path_is_a_usage_error(begun: Path) -> None:
    result = run("ledger", f"{begun}x", "--json")
    assert result.exit_code == 2
    assert "nothing is there" in printed(result)["message"]


def test_a_ledger_that_is_half_removed_exits_with_6_and_names_what_ends_it(begun: Path) -> None:
    [first] = begun.glob(".hoodie/.putifabsent/ledger/*.0000000001")
    first.unlink()
    result = run("ledger", str(begun))
    assert result.exit_code == 6
    assert "record 1 of the table's ledger is gone" in result.stdout
    assert "putifabsent drop" in result.stdout
    assert run("drop", str(begun), "--yes").exit_code == 0
    assert run("ledger", str(begun)).stdout == f"{begun}: the table has no ledger\n"


def test_a_horizon_ahead_of_time_names_what_ends_it(table: Path) -> None:
    from putifabsent.shim.ledger.facts import State
    from putifabsent.shim.ledger.records import marker_of

    folder = table / ".hoodie" / ".putifabsent" / "ledger"
    folder.mkdir(parents=True)
    (folder / "-life").write_bytes(marker_of(State(number=64, life="l-1", horizon=AHEAD)))
    result = run("ledger", str(table))
    assert result.exit_code == 0
    assert "`putifabsent drop` ends the ledger" in result.stdout
