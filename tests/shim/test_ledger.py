"""A ledger's records, one by one: what each is for, and exactly what it costs where nobody is in the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from putifabsent.backends.base import Absent, Created, Entry, Listed, Maybe, Refused
from putifabsent.errors import Fenced, OutcomeUnknown
from putifabsent.shim.ledger import book, turns
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.facts import NAMES, Held
from putifabsent.shim.ledger.records import Free, Open, Take
from putifabsent.shim.ledger.turns import take
from putifabsent.shim.policy import Policy
from putifabsent.shim.requests import Get, List, Pause
from tests.shim.ledger_runs import APPLIED, Run, creation, kinds
from tests.shim.ledger_tables import LIFE, REAL, STATE, completed, no_clock
from tests.shim.scripted import NOON

ONE = Open("1", "A", "o1")
TWO = Open("2", "B", "o2")
FIRST = completed("1", "first")(session="A")
LEDGER = ".hoodie/.putifabsent/ledger"
NO_RIGHTS = Refused(PermissionError("403"))

POLICY = Policy()


def opens(instant: str, session: str, token: str) -> Any:
    return lambda state: Open(instant, session, token) if instant not in state.open else None


def test_of_very_many_instants_the_latest_are_remembered() -> None:
    ledger = Run().session("A")
    most = 2 * NAMES
    for number in range(3 * NAMES):
        ledger.remember([f"{number:06d}"])
        assert len(ledger.opened) <= most
    assert f"{2 * NAMES:06d}" in ledger.opened


def test_however_many_came_after_it_what_is_open_when_its_table_goes_is_remembered() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    ledger.remember([f"2{number:06d}" for number in range(2 * NAMES)])
    run.remove_all()
    run.play(ledger.catch_up(creation("look")))
    assert ledger.state.open == {}
    assert ONE.instant in ledger.opened


# --- appending --------------------------------------------------------------------------------------------


def test_a_warm_append_is_two_requests() -> None:
    run = Run(ONE)
    number = run.play(append(run.session("B"), opens("2", "B", "t"), creation("t")))
    assert number == 2
    assert run.asked == ["create 2", "list ledger"]


def test_who_reads_more_slowly_than_others_append_comes_to_an_end() -> None:
    run = Run(ONE)
    reader, other = run.session("R"), run.session("B")

    def append_one(number: int) -> None:
        run.play_aside(append(other, opens(f"{number}", "B", f"t{number}"), creation(f"t{number}")))

    for number in range(2, 20):
        run.fails("list ledger", None, partial(append_one, number))
    assert run.play(reader.current(creation("r"))).number == 2
    assert [each.partition(" ")[0] for each in run.asked] == ["list", "get", "list"]


def test_it_reads_on_where_a_checkpoint_has_come_meanwhile() -> None:
    run = Run(ONE, every=3)
    reader, other = run.session("R"), run.session("B")

    def append_some() -> None:
        for number in range(2, 6):
            run.play_aside(append(other, opens(f"{number}", "B", f"t{number}"), creation(f"t{number}")))

    run.play_aside(append(other, opens("9", "B", "t9"), creation("t9")))
    run.fails("list ledger", None)
    run.fails("list ledger", None, append_some)
    assert run.play(reader.current(creation("r"))).number > 5


def test_the_first_record_of_all_makes_the_folder() -> None:
    run = Run()
    assert run.play(append(run.session("A", has_read=False), opens("1", "A", "t"), creation("t"))) == 1
    assert run.asked == [
        *("list ledger", "put 9999999936", "create ledger/-life"),
        *("list ledger", "get ledger/-life", "list ledger"),
        *("create ledger/lane-A-1.0000000001", "list ledger"),
    ]


def test_a_session_that_knows_nothing_reads_from_the_newest_checkpoint() -> None:
    run = Run(ONE, TWO, Open("3", "C", "o3"), every=3)
    cold = run.session("D", has_read=False)
    run.play(append(cold, opens("4", "D", "t"), creation("t")))
    marker = ["list ledger", "get ledger/-life", "list ledger"]
    assert run.asked == [*marker, "get 3", "get 4", "create 5", "list ledger"]
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
    with pytest.raises(Fenced, match="belongs to session T"):
        run.completes(owner, "1", "late")
    assert kinds(run) == ["OPEN", "TAKE"]
    assert ".hoodie/.putifabsent/bodies/1~late.0" not in run.things()


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
    assert run.asked == ["list ledger"]
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
    assert run.play(book.prune(ledger, creation("p"))) == 2
    assert run.asked[:5] == ["list beats", "list ledger", "list ledger", "delete 1", "delete 2"]
    assert kinds(run) == ["CHECKPOINT", "OPEN", "OPEN"]
    assert run.session("Y").state == before
    assert ledger.behind == 0


def test_pruning_removes_the_beats_of_turns_that_are_over() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    for token in ("t", "u"):
        held = run.takes(ledger, token)
        assert held is not None
        run.play(turns.beat(ledger, held, creation("b"), clock=no_clock))
        if token == "t":
            run.releases(ledger, held)
    run.play(book.prune(ledger, creation("p")))
    assert beats_of(run) == [f"{LIFE}.0000000004"]


def test_pruning_removes_the_beats_of_lives_that_are_over_and_spares_one_that_has_begun_meanwhile() -> None:
    run = Run(ONE)
    pruner, holder = run.session("A"), run.session("B", has_read=False)
    for each in ("over.0000000009", "0000000001"):
        run.put(f"{STATE}/beats/{each}")

    def another() -> None:
        run.remove_all()
        held = run.play_aside(turns.take(holder, "main", 10.0, creation("t"), clock=no_clock))
        run.play_aside(turns.beat(holder, held, creation("b"), clock=no_clock))

    run.fails("list ledger", None, first=another)
    run.play(book.prune(pruner, creation("p")))
    assert beats_of(run) == ["lane-B-1.0000000001"]


def beats_of(run: Run) -> list[str]:
    return sorted(name.rpartition("/")[2] for name in run.things() if "/beats/" in name)


def with_bodies(*bodies: str, **base: Any) -> Run:
    """Return a table of a life that has begun with this, in which these bodies lie."""
    run = Run(ONE)
    run.put_marker(replace(run.session("X").state.unborn(), life=LIFE, **base))
    for body in bodies:
        run.put(f"{STATE}/bodies/{body}")
    return run


def bodies_of(run: Run) -> list[str]:
    return sorted(name.rpartition("/")[2] for name in run.things() if "/bodies/" in name)


def test_a_body_that_a_killed_writer_has_left_goes_when_its_instant_is_over() -> None:
    run = with_bodies("0~killed.0", "03~killed.1", "04~may-come.0", past=frozenset({"03"}), horizon="02")
    run.play(book.prune(run.session("X"), creation("p")))
    assert bodies_of(run) == ["04~may-come.0"]


def test_a_body_whose_writer_may_be_paused_stays_however_old_it_is() -> None:
    run = with_bodies("1~open.0", "2~freed.0", freed={"2": ("B",)}, past=frozenset({"2"}))
    run.play(book.prune(run.session("X"), creation("p")))
    assert bodies_of(run) == ["1~open.0", "2~freed.0"]


def test_a_body_of_version_0_1_0_stays_for_its_key_does_not_tell_whose_it_is() -> None:
    run = with_bodies("old.0", horizon="9")
    run.play(book.prune(run.session("X"), creation("p")))
    assert bodies_of(run) == ["old.0"]


def test_a_body_that_was_put_in_a_life_that_has_begun_meanwhile_stays() -> None:
    run = with_bodies(past=frozenset({"5"}))
    pruner = run.session("X")

    def another() -> None:
        run.remove_all()
        writer = run.session("C", has_read=False)
        run.play_aside(append(writer, opens("5", "C", "c"), creation("c")))
        run.put(f"{STATE}/bodies/5~c.0")

    run.fails("list bodies", None, first=another)
    run.play(book.prune(pruner, creation("p")))
    assert bodies_of(run) == ["5~c.0"]


def test_bodies_are_listed_before_the_state_is_read_by_which_they_are_judged() -> None:
    run = with_bodies("5~killed.0", past=frozenset({"5"}))
    assert run.play(book.needless_bodies(run.session("X"), creation("p")))
    assert run.asked == ["list bodies", "list ledger"]


def behind_a_checkpoint() -> tuple[Run, Any]:
    """Return a table on which others have gone on while a session, who has read one record, was paused."""
    run = Run(ONE)
    paused = run.session("A")
    full = Run(ONE, TWO, Open("3", "C", "o3"), Open("4", "D", "o4"), every=4)
    full.play(book.prune(full.session("X"), creation("p")))
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


def many_appended(run: Run) -> Any:
    """Have others go on past two checkpoints more, and prune."""
    other = run.session("E")
    for instant in ("6", "7", "8", "9"):
        run.play(append(other, opens(instant, "E", f"e{instant}"), creation(f"e{instant}")))
    run.play(book.prune(other, creation("p")))
    return other


def test_who_comes_back_after_many_records_of_others_hears_for_certain_and_goes_on() -> None:
    run, paused = behind_a_checkpoint()
    many_appended(run)
    assert run.play(append(paused, opens("5", "A", "t"), creation("t"))) == 11
    assert run.asked[0] == "create 2"
    assert "5" in run.session("X").state.open


def test_a_record_that_counted_is_the_last_of_its_lane_however_far_others_are() -> None:
    run, _ = behind_a_checkpoint()
    slow = run.session("S")
    protocol = append(slow, opens("5", "S", "t"), creation("t"))
    run.state, outcome = run.world.apply(run.state, next(protocol))
    many_appended(run)
    assert run.play_on(protocol, outcome) == 6
    assert run.session("X").state.lasts["lane-S"] == (6, "t")


def test_only_a_lane_that_was_dropped_can_not_be_told() -> None:
    run, paused = behind_a_checkpoint()
    paused.state = replace(paused.state, lanes=1)
    run.put_marker(replace(paused.state.unborn(), life=LIFE, lanes=1))
    checkpoint = REAL.decode(run.things()[f"{LEDGER}/{LIFE}.0000000004"].data, "").record
    thing = REAL.encode(replace(checkpoint, state=replace(checkpoint.state, lanes=1, dropped=3)))
    run.put(f"{STATE}/ledger/{LIFE}.0000000004", "k", thing)
    with pytest.raises(OutcomeUnknown, match="far beyond"):
        run.play(append(paused, opens("5", "A", "t"), creation("t")))


def test_a_job_that_takes_hours_between_its_first_record_and_its_last_one_commits() -> None:
    run, paused = behind_a_checkpoint()
    many_appended(run)
    assert run.completes(paused, "1", "mine") == Created("mine")
    assert run.session("X").state.completions["mine"].number > 8


# --- lives ------------------------------------------------------------------------------------------------


def test_a_session_whose_table_was_removed_begins_the_next_one_s_life() -> None:
    run = Run(ONE, TWO)
    ledger = run.session("B")
    run.remove_all()
    assert run.play(append(ledger, opens("3", "B", "t"), creation("t"))) == 1
    assert run.session("X").state.open.keys() == {"3"}
    assert ledger.state.life == "lane-B-1"


def test_a_session_that_was_idle_meanwhile_goes_on_in_the_life_that_others_have_begun() -> None:
    run = Run(ONE)
    idle = run.session("B")
    run.remove_all()
    run.play(append(run.session("C"), opens("5", "C", "c"), creation("c")))
    assert run.play(append(idle, opens("3", "B", "t"), creation("t"))) == 2
    assert run.session("X").state.open.keys() == {"5", "3"}


def test_a_turn_that_another_has_in_the_next_life_is_not_taken_by_who_was_idle() -> None:
    run = Run(ONE)
    idle = run.session("B")
    run.remove_all()
    assert run.takes(run.session("C"), "c")
    assert run.takes(idle, "t") is None


def test_who_wins_a_turn_in_a_life_that_is_over_has_none() -> None:
    run = Run(ONE)
    late = run.session("B")

    def another() -> None:
        run.remove_all()
        run.play_aside(take(run.session("C"), "main", 9.0, creation("c"), clock=no_clock))

    run.fails("list ledger", None, first=another)
    assert run.takes(late, "t") is None
    assert run.session("X").state.turn == Held(1, "C", "main", 9.0)


def test_who_completes_what_was_removed_with_its_table_is_fenced() -> None:
    run = Run(ONE)
    owner = run.session("A")
    run.remove_all()
    run.play(append(run.session("C"), opens("1", "A", "c"), creation("c")))
    with pytest.raises(Fenced, match="the table was removed"):
        run.completes(owner, "1", "late")
    assert ".hoodie/.putifabsent/bodies/1~late.0" not in run.things()


def test_a_reader_whose_table_was_removed_forgets_it() -> None:
    run = Run(ONE)
    ledger = run.session("B")
    run.remove_all()
    assert run.play(ledger.current(creation("r"))).open == {}


def test_a_marker_that_was_not_answered_is_not_sent_again() -> None:
    run = Run()
    run.fails("create ledger/-life", Maybe(TimeoutError()))
    run.play(append(run.session("A", has_read=False), opens("1", "A", "t"), creation("t")))
    assert run.session("X").state.life == "lane-A-2"


def test_a_look_that_lists_more_than_it_could_read_is_not_content() -> None:
    run = Run(ONE)
    ledger = run.session("B")
    run.put(f"{STATE}/ledger/{LIFE}.0000000003")
    assert run.play(ledger.look(creation("r"))) is False
    assert ledger.state.number == 1


def test_a_marker_that_is_listed_and_is_not_there_is_not_looked_for_without_end() -> None:
    # A store whose index has lost the object goes on showing it.
    ledger = Run(ONE).session("X", has_read=False)
    answers = {List: Listed((Entry(ledger.marker_path, NOON, "tag"),)), Get: Absent(), Pause: False}
    reading = ledger.current(creation("r"))

    def answered() -> None:
        request = next(reading)
        for _ in range(100):
            request = reading.send(answers[type(request)])

    with pytest.raises(OSError, match="lists the marker"):
        answered()


def test_a_gap_begins_no_life_and_says_how_it_ends() -> None:
    run = Run(ONE, TWO)
    fresh, old = run.session("X", has_read=False), run.session("B")
    run.state = frozenset(each for each in run.state if not each[0].endswith(".0000000001"))
    with pytest.raises(OSError, match=r"record 1 of the table's ledger is gone.*putifabsent drop"):
        run.play(append(fresh, opens("3", "X", "x"), creation("x")))
    run.state = frozenset(each for each in run.state if not each[0].endswith(".0000000002"))
    with pytest.raises(OutcomeUnknown, match="record 2 of the table's ledger is gone"):
        run.play(append(old, opens("3", "B", "t"), creation("t")))


def test_records_of_lives_that_are_over_are_pruned_and_the_present_one_s_are_not() -> None:
    run = Run(ONE)
    run.put(f"{STATE}/ledger/{'an-earlier-1'}.0000000007")
    run.play(book.prune(run.session("X"), creation("p")))
    assert f"{LEDGER}/an-earlier-1.0000000007" not in run.things()
    assert run.session("Y").state.open.keys() == {"1"}


def test_what_another_life_has_written_since_it_was_listed_is_not_pruned() -> None:
    run = Run(ONE)
    pruner = run.session("X")

    def another() -> None:
        run.remove_all()
        run.play_aside(append(run.session("C"), opens("5", "C", "c"), creation("c")))

    run.fails("list ledger", None)
    run.fails("list ledger", None, first=another)
    run.play(book.prune(pruner, creation("p")))
    assert run.session("Y").state.open.keys() == {"5"}


def test_a_life_asks_once_whether_all_mounts_agree() -> None:
    run, asked = Run(ONE), []
    ledger = run.session("B")

    def agrees() -> Any:
        asked.append("agrees")
        yield from ()

    ledger.agrees = agrees
    run.play(append(ledger, opens("2", "B", "t2"), creation("t2")))
    assert asked == []
    run.remove_all()
    for instant in ("3", "4"):
        run.play(append(ledger, opens(instant, "B", f"t{instant}"), creation(f"t{instant}")))
    assert asked == ["agrees"]
