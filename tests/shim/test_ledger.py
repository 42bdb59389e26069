"""A ledger's records, one by one: what each is for, and exactly what it costs where nobody is in the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from putifabsent.backends.base import Created, Maybe, Refused, TryAgain
from putifabsent.backends.body import InMemory
from putifabsent.errors import Fenced, NameTaken, OutcomeUnknown
from putifabsent.shim.ledger import completion, pruning, timeline, turns
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.records import Free, Open, Take
from tests.shim.ledger_runs import APPLIED, LOST, Run, completed_name, creation, kinds, no_clock
from tests.shim.ledgers import ROOT, STATE, TIMELINE, Mutant, completed

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
    before = run.session("X").state
    assert run.play(pruning.prune(run.session("X"), creation("p"))) == 2
    assert run.asked[:3] == ["list ledger", "delete 1", "delete 2"]
    assert kinds(run) == ["CHECKPOINT", "OPEN", "OPEN"]
    assert run.session("Y").state == before


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


# --- turns ------------------------------------------------------------------------------------------------


def test_a_turn_is_two_requests_to_take_and_two_to_give_back() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    held = run.takes(ledger, "t")
    assert held is not None
    assert (held.number, run.asked) == (2, ["create 2", "list ledger"])
    assert run.releases(ledger, 2)
    assert run.asked == ["create 3", "list ledger"]


def test_a_turn_that_another_has_is_not_had_by_trying() -> None:
    run = Run(ONE)
    run.takes(run.session("A"), "t")
    assert run.takes(run.session("B"), "u") is None
    assert run.asked == ["list ledger", "get beats/0000000002"]


def test_who_waits_gets_the_turn_when_it_is_given_back() -> None:
    run = Run(ONE)
    holder, waiter = run.session("A"), run.session("B")
    run.takes(holder, "t")
    protocol = turns.take(waiter, "main", 10.0, creation("u"), clock=no_clock)
    request = next(protocol)
    while type(request).__name__ != "Pause":
        request = protocol.send(run._outcome(request))
    run.releases(holder, 2)
    with pytest.raises(StopIteration) as ended:
        _go_on(run, protocol, request)
    assert ended.value.value.number == 4


def _go_on(run: Run, protocol: Any, request: Any) -> None:
    while True:
        request = protocol.send(run._outcome(request))


def test_who_waits_gives_up_at_the_deadline() -> None:
    run = Run(ONE)
    run.takes(run.session("A"), "t", lease=1e9)
    assert run.takes(run.session("B"), "u", waits=True) is None
    assert run.asked.count("pause") == 3


def test_a_turn_without_a_beat_is_broken_after_its_lease_on_the_watcher_s_clock() -> None:
    run = Run(ONE)
    run.takes(run.session("A"), "t", lease=10.0)
    watcher = run.session("B")
    for run.time, gets_it in ((100.0, False), (110.0, False), (110.5, True)):
        assert (run.takes(watcher, "u") is not None) is gets_it
    assert kinds(run) == ["OPEN", "TURN", "BREAK", "TURN"]


def test_a_beat_begins_the_watch_anew() -> None:
    run = Run(ONE)
    holder, watcher = run.session("A"), run.session("B")
    run.takes(holder, "t", lease=10.0)
    for run.time in (0.0, 8.0, 16.0, 24.0, 32.0):
        assert run.takes(watcher, "u") is None
        run.play(turns.beat(holder, 2, creation("b"), clock=no_clock))


def watch_with_an_old_clock(takes: Any) -> Any:
    """The holder's clock shows a time long past; the watcher has looked for no time at all."""
    run = Run(ONE, takes=takes)
    holder, watcher = run.session("A"), run.session("B")
    run.takes(holder, "t", lease=10.0)
    run.play(turns.beat(holder, 2, creation("b"), clock=no_clock))
    run.time = 5000.0
    return run.takes(watcher, "u") or run.takes(watcher, "u")


def test_the_holder_s_clock_says_nothing() -> None:
    assert watch_with_an_old_clock(turns.take) is None


def test_a_watcher_who_goes_by_the_holder_s_clock_is_found_out() -> None:
    mutant = Mutant(
        "broken by the holder's clock",
        "ledger/turns",
        "(yield Now(clock)))",
        "float(shown or 0) + 0 * (yield Now(clock)))",
        "the test above",
    )
    assert watch_with_an_old_clock(mutant.protocols().take) is not None


def test_a_broken_holder_can_not_complete() -> None:
    run = Run(ONE, TWO)
    paused, breaker = run.session("A"), run.session("B")
    assert run.takes(paused, "t", lease=-1.0) is not None
    run.takes(breaker, "u")
    mine = run.takes(breaker, "u")
    assert mine is not None
    assert run.completes(breaker, "2", "theirs", turn=mine.number) == Created("theirs")
    assert run.releases(breaker, mine.number)
    with pytest.raises(Fenced, match="names turn 3, and no turn is held"):
        run.completes(paused, "1", "mine", turn=3)
    assert not run.releases(paused, 3, "too-late")


def test_nobody_completes_beside_a_turn() -> None:
    run = Run(ONE, TWO)
    held = run.takes(run.session("A"), "t")
    assert held is not None
    with pytest.raises(Fenced, match="session A has turn 3"):
        run.completes(run.session("B"), "2", "t2")
    with pytest.raises(Fenced, match="the turn of another session"):
        run.completes(run.session("B"), "2", "t3", turn=held.number)


def test_a_turn_goes_on_after_a_completion() -> None:
    run = Run(ONE, Open("2", "A", "o2"))
    ledger = run.session("A")
    held = run.takes(ledger, "t")
    assert held is not None
    run.completes(ledger, "1", "c1", turn=held.number)
    run.completes(ledger, "2", "c2", turn=held.number)
    assert run.releases(ledger, held.number)


def test_a_turn_whose_taking_had_no_answer_is_asked_for_again_by_its_token() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    run.fails("create 2", APPLIED)
    run.patience = 0
    with pytest.raises(OutcomeUnknown):
        run.takes(ledger, "t")
    run.patience = 3
    held = run.takes(ledger, "t")
    assert held is not None
    assert held.number == 2


# --- completions ------------------------------------------------------------------------------------------


def test_a_completion_is_five_requests_and_one_more_where_another_s_is_before_it() -> None:
    run = Run(ONE, TWO, Open("3", "B", "o3"))
    ledger = run.session("B")
    path = "timeline/2_29.commit"
    alone = ["put bodies/c.0", f"head {path}", "create 4", "list ledger", f"publish {path}"]
    assert run.completes(ledger, "2", "c") == Created("c")
    assert run.asked == alone
    run.completes(ledger, "3", "d")
    assert len(run.asked) == 5
    run.play(append(run.session("A"), opens("4", "A", "o4"), creation("o4")))
    other = run.session("A")
    run.completes(other, "1", "e")
    assert run.asked[2] == "head timeline/3_39.commit"
    assert len(run.asked) == 6


def test_what_a_dead_writer_has_completed_is_published_before_the_next() -> None:
    run = Run(ONE, TWO, FIRST)
    run.state = frozenset(each for each in run.state if "/timeline/" not in each[0])
    run.completes(run.session("B"), "2", "c")
    assert run.asked[2:5] == ["head timeline/1_19.commit", "publish timeline/1_19.commit", "create 4"]
    assert run.things()[".hoodie/timeline/1_19.commit"].data == b"first"


def test_the_body_of_an_unanswered_put_is_put_under_another_key() -> None:
    run = Run(ONE)
    run.fails("put bodies/c.0", Maybe(LOST))
    run.completes(run.session("A"), "1", "c")
    assert [each for each in run.asked if each.startswith("put")] == ["put bodies/c.0", "put bodies/c.1"]


def test_a_plain_name_that_went_round_the_shim_is_taken() -> None:
    run = Run(ONE)
    run.put(completed_name("1"), "other")
    with pytest.raises(NameTaken) as caught:
        run.completes(run.session("A"), "1", "c")
    assert caught.value.holder is not None
    assert caught.value.holder.token == "other"
    assert kinds(run) == ["OPEN"]
    assert ".hoodie/.putifabsent/bodies/c.0" not in run.things()


def test_an_instant_is_completed_once() -> None:
    run = Run(ONE, FIRST)
    with pytest.raises(NameTaken) as caught:
        run.play(_completes_again(run.session("A")))
    assert caught.value.holder is not None
    assert caught.value.holder.token == "first"
    with pytest.raises(Fenced, match="completed by session A"):
        run.play(_completes_again(run.session("B")))


def _completes_again(ledger: Any) -> Any:
    path, body = f"{TIMELINE}/1_20.commit", InMemory(b"again")
    return completion.complete(ledger, path, "1", body, creation("again"), turn=None, largest_publish=99)


def test_what_the_store_can_not_copy_is_refused_at_once() -> None:
    run = Run(ONE)
    body = InMemory(bytes(100))
    protocol = completion.complete(
        run.session("A"), completed_name("1"), "1", body, creation("c"), turn=None, largest_publish=99
    )
    with pytest.raises(OSError, match="copies no more than 99 bytes"):
        run.play(protocol)
    assert run.asked == []


def test_no_answer_to_the_record_is_unknown_by_the_plain_name_and_resolved_by_it() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    run.fails("create 2", APPLIED)
    run.patience = 0
    with pytest.raises(OutcomeUnknown) as caught:
        run.completes(ledger, "1", "c")
    assert (caught.value.name, caught.value.token) == (completed_name("1"), "c")
    assert ".hoodie/.putifabsent/bodies/c.0" in run.things()
    holder = run.play(completion.resolve(run.session("X"), completed_name("1"), creation("c")))
    assert holder.token == "c"
    with pytest.raises(NameTaken):
        run.play(completion.resolve(run.session("X"), completed_name("1"), creation("other")))
    assert run.play(completion.resolve(run.session("X"), completed_name("7"), creation("c"))) is None


def test_a_completion_that_can_not_be_published_in_time_is_won_all_the_same() -> None:
    run = Run(ONE)
    run.fails("publish timeline/1_19.commit", Maybe(LOST))
    run.patience = 0
    assert run.completes(run.session("A"), "1", "c") == Created()
    reader = run.session("L")
    assert timeline.shown(reader, TIMELINE, []) == [completed_name("1")]
    found = timeline.find(reader, completed_name("1"))
    assert found is not None
    assert run.things()[f".hoodie/{found.body}"].data == b"c"
    run.play(completion.settle(reader, creation("s")))
    assert run.things()[".hoodie/timeline/1_19.commit"].data == b"c"


def test_a_completion_that_the_store_refuses_to_publish_is_unknown() -> None:
    run = Run(ONE)
    run.fails("publish timeline/1_19.commit", NO_RIGHTS)
    with pytest.raises(OutcomeUnknown, match="can't be published"):
        run.completes(run.session("A"), "1", "c")


def test_a_refused_body_completes_nothing() -> None:
    run = Run(ONE)
    run.fails("put bodies/c.0", NO_RIGHTS)
    with pytest.raises(PermissionError, match="403"):
        run.completes(run.session("A"), "1", "c")
    assert kinds(run) == ["OPEN"]


@pytest.mark.parametrize("seen", [NO_RIGHTS, TryAgain(LOST)], ids=["refused", "lost"])
def test_a_plain_name_that_can_not_be_looked_at_completes_nothing(seen: Any) -> None:
    run = Run(ONE)
    run.fails("head timeline/1_19.commit", seen)
    run.fails("head timeline/1_19.commit", NO_RIGHTS)
    with pytest.raises(PermissionError, match="403"):
        run.completes(run.session("A"), "1", "c")
    assert kinds(run) == ["OPEN"]
    assert ".hoodie/.putifabsent/bodies/c.0" not in run.things()


def test_a_disk_that_has_an_undone_life_under_the_name_makes_way() -> None:
    run = Run(ONE, FIRST, republishes=False)
    ledger = run.session("A")
    undone = run.play(completion.undo(ledger, "1", creation("u")))
    assert undone is not None
    run.play(append(ledger, lambda _: Open("1", "A", "o"), creation("o")))
    assert run.completes(ledger, "1", "c") == Created("c")
    path = "timeline/1_19.commit"
    assert run.asked[-5:] == [f"publish {path}", f"head {path}", f"delete {path}", "pause", f"publish {path}"]


def test_on_a_disk_what_is_not_the_ledger_s_does_not_make_way() -> None:
    run = Run(ONE, republishes=False)
    path = completed_name("1")
    run.fails("publish timeline/1_19.commit", None, first=lambda: run.put(path, "somebody"))
    with pytest.raises(OutcomeUnknown, match="went round the shim"):
        run.completes(run.session("A"), "1", "c")


def test_what_is_undone_is_not_shown_and_not_published_again() -> None:
    run = Run(ONE, FIRST)
    ledger = run.session("A")
    made = run.play(completion.undo(ledger, "1", creation("u")))
    assert run.asked == ["create 3", "list ledger"]
    names = [completed_name("1")]
    assert timeline.shown(run.session("L"), TIMELINE, names) == []
    with pytest.raises(FileNotFoundError):
        timeline.find(run.session("L"), completed_name("1"))
    run.play(completion.remove(ledger, completed_name("1"), made))
    assert run.asked == ["delete bodies/first.0", "head timeline/1_19.commit", "delete timeline/1_19.commit"]
    run.play(completion.settle(run.session("X"), creation("s")))
    assert ".hoodie/timeline/1_19.commit" not in run.things()
    assert run.play(completion.undo(ledger, "1", creation("v"))) == made
    assert kinds(run) == ["OPEN", "COMPLETE", "UNDO"]


def test_removing_an_earlier_life_spares_a_later_one_under_the_same_name() -> None:
    run = Run(ONE, FIRST)
    ledger = run.session("A")
    earlier = run.play(completion.undo(ledger, "1", creation("u")))
    run.play(append(ledger, lambda _: Open("1", "A", "o"), creation("o")))
    run.completes(ledger, "1", "c")
    run.play(completion.remove(ledger, completed_name("1"), earlier))
    assert run.things()[".hoodie/timeline/1_19.commit"].data == b"c"


def test_the_ledger_can_be_read_again_after_a_busy_moment() -> None:
    run = Run(ONE)
    run.fails("list ledger", TryAgain(LOST))
    run.fails("get 1", TryAgain(LOST))
    assert run.session("A").state.number == 1


def test_names_in_records_go_with_a_table_that_is_moved() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    assert (ledger.root, ledger.folder) == (ROOT, f"{STATE}/ledger")
    run.completes(ledger, "1", "c")
    [made] = run.session("X").state.completions.values()
    assert (made.name, made.body) == ("timeline/1_19.commit", ".putifabsent/bodies/c.0")
