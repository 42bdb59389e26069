"""A ledger's records, one by one: what each is for, and exactly what it costs where nobody is in the way."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from putifabsent.backends.base import Created, Refused
from putifabsent.errors import Fenced, OutcomeUnknown
from putifabsent.shim.ledger import pruning, turns
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.book import removed
from putifabsent.shim.ledger.records import Free, Open, Take
from tests.shim.ledger_runs import APPLIED, Run, creation, kinds
from tests.shim.ledger_tables import STATE, completed, no_clock

ONE = Open("1", "A", "o1")
TWO = Open("2", "B", "o2")
FIRST = completed("1", "first")(session="A")
NO_RIGHTS = Refused(PermissionError("403"))


def opens(instant: str, session: str, token: str) -> Any:
    return lambda state: Open(instant, session, token) if instant not in state.open else None


# --- appending --------------------------------------------------------------------------------------------


def test_a_warm_append_is_two_requests() -> None:
    run = Run(ONE)
    number = run.play(append(run.session("B"), opens("2", "B", "t"), creation("t")))
    assert number == 2
    assert run.asked == ["create 2", "list ledger"]


def test_the_first_record_of_all_makes_the_folder() -> None:
    run = Run()
    assert run.play(append(run.session("A", has_read=False), opens("1", "A", "t"), creation("t"))) == 1
    assert run.asked == ["list ledger", "put ledger/format", "create 1", "list ledger"]


def test_a_session_that_knows_nothing_reads_from_the_newest_checkpoint() -> None:
    run = Run(ONE, TWO, Open("3", "C", "o3"), every=3)
    cold = run.session("D", has_read=False)
    run.play(append(cold, opens("4", "D", "t"), creation("t")))
    assert run.asked == ["list ledger", "get 3", "get 4", "create 5", "list ledger"]
    assert set(cold.state.open) == {"1", "2", "3", "4"}


def test_a_session_whose_table_was_removed_begins_the_next_one_s_ledger() -> None:
    run = Run(ONE, TWO)
    ledger = run.session("B")
    for number in (1, 2):
        run.play(removed(ledger.record(number).path))
    assert run.play(append(ledger, opens("3", "B", "t"), creation("t"))) == 1
    assert run.session("X").state.open.keys() == {"3"}
    assert kinds(run) == ["OPEN"]


def test_a_reader_whose_table_was_removed_forgets_it() -> None:
    run = Run(ONE)
    ledger = run.session("B")
    run.play(removed(ledger.record(1).path))
    assert run.play(ledger.current(creation("r"))).open == {}


def test_who_loses_a_number_reads_on_and_tries_the_next() -> None:
    run = Run(ONE)
    slow, quick = run.session("B"), run.session("C")
    run.play(append(quick, opens("3", "C", "t3"), creation("t3")))
    assert run.play(append(slow, opens("2", "B", "t2"), creation("t2"))) == 3
    assert run.asked == ["create 2", "head 2", "list ledger", "get 2", "create 3", "list ledger"]


def test_who_loses_a_number_to_one_that_makes_its_record_invalid_is_fenced() -> None:
    run = Run(ONE)
    owner, taker = run.session("A"), run.session("T")
    run.play(append(taker, lambda _: Take("1", "T", "t"), creation("t")))
    with pytest.raises(Fenced, match="taken over by session T"):
        run.completes(owner, "1", "late")
    assert kinds(run) == ["OPEN", "TAKE"]
    assert ".hoodie/.putifabsent/bodies/late.0" not in run.things()


def test_no_is_said_only_of_what_was_listed_just_now() -> None:
    # What B has read is old: 1 is free again. Its own "it is open" would be wrong.
    run = Run(ONE)
    old = run.session("B")
    run.play(
        append(run.session("A"), lambda s: Free("1", "A", "f") if "1" in s.open else None, creation("f"))
    )
    assert run.play(append(old, opens("1", "B", "t"), creation("t"))) == 3
    assert run.asked[:2] == ["list ledger", "get 2"]


def test_who_always_loses_gives_up_at_the_deadline_and_has_appended_nothing() -> None:
    run = Run(ONE)
    ledger, others = run.session("B"), run.session("C")

    def faster(number: int) -> None:
        record = Open(f"c{number}", "C", f"t{number}")
        thing = run.play_aside(append(others, lambda _: record, creation(record.token)))
        assert thing == number

    for number in range(2, 10):
        run.fails(f"create {number}", None, first=partial(faster, number))
    with pytest.raises(TimeoutError, match="always faster"):
        run.play(append(ledger, opens("2", "B", "t"), creation("t")))
    assert "2" not in run.session("X").state.open


def test_nothing_is_appended_where_nothing_is_wanted() -> None:
    run = Run(ONE)
    assert run.play(append(run.session("A"), lambda _: None, creation("t"))) is None
    assert run.asked == ["list ledger"]


def test_the_same_token_is_the_same_record() -> None:
    run = Run(ONE)
    ledger = run.session("B")
    first = run.play(append(ledger, opens("2", "B", "t"), creation("t")))
    assert run.play(append(ledger, lambda _: Open("2", "B", "t"), creation("t"))) == first == 2
    assert run.asked == []
    elsewhere = run.session("B")
    assert run.play(append(elsewhere, lambda _: Open("2", "B", "t"), creation("t"))) == 2


def test_a_lost_answer_is_sent_again_and_resolved_by_its_token() -> None:
    run = Run(ONE)
    ledger = run.session("B")
    run.fails("create 2", APPLIED)
    assert run.play(append(ledger, opens("2", "B", "t"), creation("t"))) == 2
    assert run.asked == ["create 2", "pause", "create 2", "head 2", "list ledger"]


def test_no_answer_to_the_end_is_unknown_and_the_same_call_settles_it() -> None:
    run = Run(ONE)
    ledger = run.session("B")
    run.fails("create 2", APPLIED)
    run.patience = 0
    with pytest.raises(OutcomeUnknown) as caught:
        run.play(append(ledger, opens("2", "B", "t"), creation("t")))
    assert caught.value.token == "t"
    run.patience = 3
    # Listed afresh: what B has opened is its own, and not open to it once more.
    assert run.play(append(ledger, opens("2", "B", "t"), creation("t"))) == 2


def test_a_win_that_can_not_be_looked_over_is_unknown() -> None:
    run = Run(ONE)
    ledger = run.session("B")
    run.fails("list ledger", NO_RIGHTS)
    with pytest.raises(OutcomeUnknown, match="can't be read"):
        run.play(append(ledger, opens("2", "B", "t"), creation("t")))


def test_a_refusal_before_anything_was_sent_is_the_store_s_own() -> None:
    run = Run(ONE)
    cold = run.session("B", has_read=False)
    run.fails("list ledger", NO_RIGHTS)
    with pytest.raises(PermissionError, match="403"):
        run.play(append(cold, opens("2", "B", "t"), creation("t")))


def test_an_interruption_after_a_win_carries_the_unknown_outcome() -> None:
    run = Run(ONE)
    protocol = append(run.session("B"), opens("2", "B", "t"), creation("t"))
    next(protocol)
    protocol.send(Created())
    with pytest.raises(asyncio.CancelledError) as caught:
        protocol.throw(asyncio.CancelledError())
    assert isinstance(caught.value.__cause__, OutcomeUnknown)
    assert caught.value.__cause__.token == "t"


# --- checkpoints ------------------------------------------------------------------------------------------


def test_every_so_many_records_a_checkpoint_comes_first() -> None:
    run = Run(ONE, TWO, every=3)
    ledger = run.session("C")
    assert run.play(append(ledger, opens("3", "C", "t"), creation("t"))) == 4
    assert run.asked == ["create 3", "list ledger", "get 3", "create 4", "list ledger"]
    assert kinds(run) == ["OPEN", "OPEN", "CHECKPOINT", "OPEN"]
    assert run.session("D").state == ledger.state


def test_a_checkpoint_that_was_not_answered_proves_that_nothing_was_appended() -> None:
    run = Run(ONE, TWO, every=3)
    ledger = run.session("C")
    run.fails("create 3", APPLIED)
    run.patience = 0
    with pytest.raises(TimeoutError, match="nothing was appended"):
        run.play(append(ledger, opens("3", "C", "t"), creation("t")))


def test_pruning_leaves_the_newest_checkpoint_and_what_is_above_it() -> None:
    run = Run(ONE, TWO, Open("3", "C", "o3"), Open("4", "D", "o4"), every=3)
    ledger = run.session("X")
    before = ledger.state
    assert ledger.behind == 2
    assert run.play(pruning.prune(ledger, creation("p"))) == 2
    assert run.asked[:3] == ["list ledger", "delete 1", "delete 2"]
    assert kinds(run) == ["CHECKPOINT", "OPEN", "OPEN"]
    assert run.session("Y").state == before
    assert ledger.behind == 0


def test_pruning_removes_the_beats_of_turns_that_are_over() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    for token in ("t", "u"):
        held = run.takes(ledger, token)
        assert held is not None
        run.play(turns.beat(ledger, held.number, creation("b"), clock=no_clock))
        if token == "t":
            run.releases(ledger, held.number)
    run.play(pruning.prune(ledger, creation("p")))
    assert [name for name in run.things() if "/beats/" in name] == [".hoodie/.putifabsent/beats/0000000004"]


def behind_a_checkpoint() -> tuple[Run, Any]:
    """Return a table on which others have gone on while a session, who has read one record, was paused."""
    run = Run(ONE)
    paused = run.session("A")
    for number in (2, 3, 4, 5):
        run.put(f"{STATE}/ledger/{number:010}")
    full = Run(ONE, TWO, Open("3", "C", "o3"), Open("4", "D", "o4"), every=4)
    full.play(pruning.prune(full.session("X"), creation("p")))
    run.state, run.every = full.state, 4
    paused.state = type(paused.state)(**{**_fields(paused.state), "every": 4})
    return run, paused


def _fields(state: Any) -> dict[str, Any]:
    return {name: getattr(state, name) for name in state.__dataclass_fields__}


def test_who_wins_a_number_behind_a_checkpoint_has_won_nothing_and_goes_on() -> None:
    run, paused = behind_a_checkpoint()
    assert run.play(append(paused, opens("5", "A", "t"), creation("t"))) == 6
    assert run.asked[:3] == ["create 2", "list ledger", "list ledger"]
    assert "5" in run.session("X").state.open


def test_where_the_checkpoint_can_not_tell_any_more_nobody_can() -> None:
    run, paused = behind_a_checkpoint()
    other = run.session("E")
    for instant in ("6", "7", "8", "9"):
        run.play(append(other, opens(instant, "E", f"e{instant}"), creation(f"e{instant}")))
    run.play(pruning.prune(other, creation("p")))
    with pytest.raises(OutcomeUnknown, match="far beyond"):
        run.play(append(paused, opens("5", "A", "t"), creation("t")))


def test_of_a_completion_a_checkpoint_can_tell_as_long_as_it_remembers_its_time() -> None:
    run, paused = behind_a_checkpoint()
    other = run.session("E")
    for instant in ("6", "7", "8", "9"):
        run.play(append(other, opens(instant, "E", f"e{instant}"), creation(f"e{instant}")))
    run.play(pruning.prune(other, creation("p")))
    assert run.completes(paused, "1", "mine") == Created("mine")
    assert run.session("X").state.completions["mine"].number > 8
