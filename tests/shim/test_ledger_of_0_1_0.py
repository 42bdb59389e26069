"""Ledgers that version 0.1.0 has begun, which knew no lives; and what it makes of later ones."""

from __future__ import annotations

import json

from putifabsent.backends.base import Created
from putifabsent.shim.ledger import book
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.facts import EVERY
from tests.shim.ledger_runs import Run, creation
from tests.shim.ledger_tables import LIFE, REAL, STATE
from tests.shim.test_ledger import LEDGER, ONE, TWO, opens


def of_0_1_0() -> Run:
    """Return a table whose records are as version 0.1.0 wrote them: in no life, in an older form."""
    run = Run(ONE, TWO)
    for number, record in enumerate((ONE, TWO), 1):
        said = {**json.loads(REAL.encode(record)), "format": 2, "reader": 2}
        del said["lane"]
        run.put(f"{STATE}/ledger/{number:010}", record.token, json.dumps(said).encode())
    run.state = frozenset(each for each in run.state if LIFE not in each[0] and "-life" not in each[0])
    return run


def test_a_ledger_of_version_0_1_0_is_read_without_a_write() -> None:
    run = of_0_1_0()
    assert run.session("X").state.open.keys() == {"1", "2"}
    assert not [each for each in run.asked if not each.startswith(("list", "get"))]


def test_it_goes_on_in_a_life_of_its_own_that_begins_with_what_it_has_come_to() -> None:
    run = of_0_1_0()
    ledger = run.session("A")
    assert run.completes(ledger, "1", "mine") == Created("mine")
    fresh = run.session("X").state
    assert (fresh.life, set(fresh.open), set(fresh.completions)) == ("lane-A-1", {"2"}, {"mine"})
    other = run.session("B")
    assert run.completes(other, "2", "theirs") == Created("theirs")


def test_a_session_of_version_0_1_0_stops_at_a_record_that_it_can_not_read() -> None:
    run = of_0_1_0()
    run.play(append(run.session("C"), opens("3", "C", "t"), creation("t")))
    last = json.loads(run.things()[f"{LEDGER}/0000000003"].data)
    assert (last["kind"], last["reader"] > 2) == ("MOVE", True)


def test_a_session_of_version_0_1_0_stops_in_a_table_whose_ledger_it_would_not_see() -> None:
    run = Run()
    run.play(append(run.session("A", has_read=False), opens("1", "A", "t"), creation("t")))
    # It knows numbers alone, and reads the highest checkpoint first.
    seen = {last: name for name in run.things() if (last := name.rpartition("/")[2]).isdecimal()}
    newest = max(seen, key=int)
    assert int(newest) % EVERY == 0
    assert json.loads(run.things()[seen[newest]].data)["reader"] > 2


def test_nothing_above_its_own_records_has_a_session_of_version_0_1_0_prune_them() -> None:
    run = of_0_1_0()
    assert run.completes(run.session("A"), "1", "mine") == Created("mine")
    seen = {last for name in run.things() if (last := name.rpartition("/")[2]).isdecimal()}
    assert max(seen) == "0000000003"


def test_what_version_0_1_0_stops_at_is_no_record_of_a_ledger_whose_life_is_over() -> None:
    run = Run()
    run.play(append(run.session("A", has_read=False), opens("1", "A", "t"), creation("t")))
    run.state = frozenset(each for each in run.state if each[0].endswith("/9999999936"))
    later = run.session("B", has_read=False)
    assert run.play(append(later, opens("1", "B", "t2"), creation("t2"))) == 1


def test_what_version_0_1_0_has_written_is_never_pruned() -> None:
    run = of_0_1_0()
    ledger = run.session("C")
    for number in range(3, 9):
        run.play(append(ledger, opens(str(number), "C", f"t{number}"), creation(f"t{number}")))
    run.play(book.prune(ledger, creation("p")))
    assert {f"{LEDGER}/{number:010}" for number in (1, 2, 3)} <= run.things().keys()
