"""``ledger`` and ``turns``: what they print, and what they exit with."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import fsspec
import pytest

from putifabsent.backends.base import Creation
from putifabsent.fsspec_plugin.queues import Asker, Queues, queue_of
from putifabsent.fsspec_plugin.remote import Remote
from putifabsent.shim.formats.hudi_sets import Part
from tests.cli.test_upkeep import printed, run

if TYPE_CHECKING:
    from pathlib import Path

    from putifabsent.shim.formats.hudi_sets import WriteSet

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
    turns = run("turns", str(begun))
    assert (turns.exit_code, turns.stdout) == (6, f"{result.stdout.splitlines()[-1]}\n"), "nobody can tell"
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


def waits(table: Path, session: str, wants: WriteSet) -> None:
    fs = fsspec.filesystem("piafile", writer_session=session, skip_instance_cache=True)
    ledger, queues = fs.ledger(str(table)), Queues()
    creation = Creation(str(uuid.uuid4()), fs.writer, ledger.name.state)
    asker = Asker(queue_of(ledger.name.state), session, "main")
    fs.perform(queues.wait(asker, wants, fs.perform(queues.listed(asker.folder)), creation))


def test_turns_show_nobody_who_is_dead_and_remove_nothing(begun: Path) -> None:
    waits(begun, "driver-3", None)
    (dead,) = begun.rglob("slots/*~*")
    os.utime(dead, (0, 0))
    waits(begun, "driver-2", None)
    shown = printed(run("turns", str(begun), "--json"))["turns"]
    assert [each["session"] for each in shown["waiting"]] == ["driver-2"]
    assert dead.exists()


def test_of_who_waits_the_day_is_shown_on_which_it_said_so(begun: Path) -> None:
    """Local disk does not tell its time: whoever is alone in the queue may have died long ago."""
    waits(begun, "driver-3", None)
    (dead,) = begun.rglob("slots/*~*")
    os.utime(dead, (0, 0))
    assert "1970-01-01 00:00:00" in run("turns", str(begun)).stdout


def test_turns_show_who_writes_and_who_waits_in_their_order(begun: Path) -> None:
    waits(begun, "driver-3", {"dt=1": Part(frozenset("fg"))})
    waits(begun, "driver-2", None)
    fs = fsspec.filesystem("piafile", writer_session="driver-1", skip_instance_cache=True)
    with fs.turn(str(begun)):
        result = run("turns", str(begun))
        shown = printed(run("turns", str(begun), "--json"))["turns"]
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("turn     session driver-1, thread MainThread; ")
    assert "open     instants that are being written: 2" in lines
    assert "waiting  in the queue: 2" in lines
    assert [line.split()[:2] for line in lines[-3:-1]] == [["driver-3", "2"], ["driver-2", "anything"]]
    assert "2 of dt=1" in result.stdout
    assert shown["turn"]["session"] == "driver-1"
    assert [each["instant"] for each in shown["open"]] == [INSTANT, AHEAD]
    assert [(each["session"], each["groups"]) for each in shown["waiting"]] == [
        ("driver-3", {"dt=1": 2}),
        ("driver-2", None),
    ]


def test_a_turn_is_shown_with_its_last_sign_of_life(table: Path) -> None:
    fs = fsspec.filesystem("piafile", writer_session="driver-1", skip_instance_cache=True)
    turn = Remote(fs).take_turn(str(table), str(uuid.uuid4()), thread="main", lease=60).turn
    assert printed(run("turns", str(table), "--json"))["turns"]["beat"] is None
    assert "no sign of life yet" in run("turns", str(table)).stdout
    Remote(fs).beat_turn(str(table), str(turn))
    assert printed(run("turns", str(table), "--json"))["turns"]["beat"].endswith("+00:00")
    assert "last sign of life 20" in run("turns", str(table)).stdout


def test_of_a_table_without_a_ledger_nobody_has_a_turn(table: Path) -> None:
    result = run("turns", str(table))
    assert (result.exit_code, result.stdout) == (0, f"{table}: the table has no ledger, and nobody waits\n")
    assert printed(run("turns", str(table), "--json")) == {"name": str(table), "turns": None}


def test_of_who_waits_to_write_very_much_some_is_shown(begun: Path) -> None:
    waits(begun, "driver-2", {f"dt={day}": Part(frozenset("f")) for day in range(100)})
    result = run("turns", str(begun))
    assert "and 90 more" in " ".join(result.stdout.split())
    assert len(result.stdout.splitlines()) < 20


def test_turns_show_who_waits_for_a_table_of_any_format(tmp_path: Path) -> None:
    fs = fsspec.filesystem("piafile", skip_instance_cache=True)
    with fs.slot(str(tmp_path), partitions=["day=1"]):
        result = run("turns", str(tmp_path))
        shown = printed(run("turns", str(tmp_path), "--json"))["turns"]
    assert "waiting  in the queue: 1" in result.stdout.splitlines()
    assert [each["groups"] for each in shown["waiting"]] == [{"day=1/": None}]
    assert "and nobody waits" in run("turns", str(tmp_path)).stdout
