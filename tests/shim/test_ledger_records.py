"""The records' table, row by row: when each is valid, what it means, and how it is written."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from putifabsent import shim
from putifabsent.errors import PutIfAbsentError
from putifabsent.shim.ledger.facts import EVERY, KEPT, Completion, Held, Last, Opened, State
from putifabsent.shim.ledger.records import (
    KINDS,
    Break,
    Checkpoint,
    Complete,
    Free,
    Move,
    Open,
    Record,
    Release,
    Take,
    Turn,
    Undo,
    decode,
    encode,
    fold,
    valid,
)
from tests.mutation import Change


def after(*records: Record, every: int = 64) -> State:
    state = State(every=every)
    for record in records:
        assert valid(state, record) is None
        state = fold(state, record)
    return state


OPENED = Open("1", "A", "o1", "commit")
DONE = Complete("1", "A", "c1", "timeline/1_2.commit", ".putifabsent/bodies/c1.0")
UNDONE = Undo("1", "B", "u1")
TAKEN = Take("1", "B", "t1")
FREED = Free("1", "B", "f1")
ROLLBACK = Open("9", "R", "r1", "rollback", frees="1")
TURN = Turn(2, "A", "l1", "main", 10.0)
IN_TURN = replace(DONE, turn=2)

ALLOWED = [
    ("an instant that nobody has", (), OPENED),
    ("one that was freed", (OPENED, FREED), Open("1", "C", "o2")),
    ("one that was undone", (OPENED, DONE, UNDONE), Open("1", "C", "o2")),
    ("a rollback of an open one", (OPENED,), ROLLBACK),
    ("a rollback of a completed one", (OPENED, DONE), ROLLBACK),
    ("an open one is taken", (OPENED,), TAKEN),
    ("and taken on", (OPENED, TAKEN), Take("1", "C", "t2")),
    ("its owner completes it", (OPENED,), DONE),
    ("whoever has taken it completes it", (OPENED, TAKEN), replace(DONE, session="B")),
    ("in its turn", (OPENED, TURN), IN_TURN),
    ("an open one is freed by its owner", (OPENED,), Free("1", "A", "f")),
    ("and by others", (OPENED,), FREED),
    ("a completed one is undone", (OPENED, DONE), UNDONE),
    ("a turn, where none is held", (OPENED,), TURN),
    ("again after its release", (OPENED, TURN, Release(2, "A", "l2")), Turn(4, "B", "l3", "main", 1.0)),
    ("or its break", (OPENED, TURN, Break(2, "B", "l2")), Turn(4, "B", "l3", "main", 1.0)),
    ("a turn is released by its holder", (OPENED, TURN), Release(2, "A", "l2")),
    ("and broken by others", (OPENED, TURN), Break(2, "B", "l2")),
]

REFUSED = [
    ("open already", (OPENED,), Open("1", "B", "o2"), "belongs to session A"),
    ("completed already", (OPENED, DONE), Open("1", "B", "o2"), "1 is completed"),
    (
        "being rolled back",
        (OPENED, ROLLBACK),
        Open("1", "A", "o2"),
        "1 is being rolled back by 9, which session R",
    ),
    ("taken, and not open", (), TAKEN, "1 is not open"),
    ("taken by its owner", (OPENED,), Take("1", "A", "t"), "belongs to this session"),
    (
        "taken back",
        (OPENED, TAKEN),
        Take("1", "A", "t"),
        "was taken from this session, by B",
    ),
    ("completed, never opened", (), DONE, "1 is not open"),
    ("completed twice", (OPENED, DONE), replace(DONE, token="c2"), "1 is not open"),
    ("completed after it was freed", (OPENED, FREED), DONE, "1 is not open"),
    ("completed after it is rolled back", (OPENED, ROLLBACK), DONE, "1 is not open"),
    ("completed after it was taken", (OPENED, TAKEN), DONE, "belongs to session B"),
    ("completed in a turn that is over", (OPENED, TURN, Break(2, "B", "b")), IN_TURN, "no turn is held"),
    ("completed in no turn, and one is held", (OPENED, TURN), DONE, "session A has turn 2"),
    (
        "completed in an earlier turn",
        (OPENED, TURN, Release(2, "A", "l"), Turn(4, "A", "m", "main", 1.0)),
        IN_TURN,
        "session A has turn 4",
    ),
    (
        "completed in another's turn",
        (OPENED, TURN, Open("2", "B", "o2")),
        replace(IN_TURN, instant="2", session="B"),
        "the turn of another session",
    ),
    ("freed, and not open", (OPENED, FREED), Free("1", "A", "f2"), "1 is not open"),
    ("undone, and not completed", (OPENED,), UNDONE, "1 is not completed"),
    ("undone twice", (OPENED, DONE, UNDONE), replace(UNDONE, token="u2"), "1 is not completed"),
    ("a second turn", (OPENED, TURN), Turn(3, "B", "l2", "main", 1.0), "session A has turn 2"),
    ("a turn by another number", (OPENED,), Turn(3, "B", "l2", "main", 1.0), "called after its own record"),
    ("a release of no turn", (OPENED,), Release(2, "A", "l"), "no turn is held"),
    ("a release of another's turn", (OPENED, TURN), Release(2, "B", "l"), "session A has turn 2"),
    ("a break of no turn", (OPENED,), Break(2, "B", "l"), "no turn is held"),
    ("a checkpoint out of place", (OPENED,), Checkpoint("A", "k", after(OPENED).condensed()), "not a check"),
]


@pytest.mark.parametrize(("name", "before", "record"), ALLOWED, ids=[each[0] for each in ALLOWED])
def test_it_is_valid(name: str, before: tuple[Record, ...], record: Record) -> None:
    assert valid(after(*before), record) is None


@pytest.mark.parametrize(("name", "before", "record", "why"), REFUSED, ids=[each[0] for each in REFUSED])
def test_it_is_not_valid_and_says_why(
    name: str, before: tuple[Record, ...], record: Record, why: str
) -> None:
    reason = valid(after(*before), record)
    assert reason is not None
    assert why in reason


def test_an_instant_below_the_horizon_is_not_opened_again() -> None:
    state = replace(State(), horizon="5")
    assert "is over" in str(valid(state, Open("4", "A", "o")))
    assert valid(state, Open("6", "A", "o")) is None
    assert valid(replace(state, freed={"4": ("B",)}), Open("4", "A", "o")) is None


def test_opening_gives_it_to_the_session_and_frees_what_it_rolls_back() -> None:
    assert after(OPENED).open == {"1": Opened("A", "o1", "commit")}
    rolled_back = after(OPENED, ROLLBACK)
    assert set(rolled_back.open) == {"9"}
    assert rolled_back.freed == {"1": ("A",)}
    assert after(OPENED, FREED, Open("1", "C", "o2")).freed == {}


def test_taking_moves_it() -> None:
    assert after(OPENED, TAKEN).open["1"] == Opened("B", "o1", "commit", lost=("A",))


def test_completing_closes_it_and_the_turn_goes_on() -> None:
    state = after(OPENED, TURN, IN_TURN)
    assert state.open == {}
    made = Completion("1", "A", "c1", DONE.name, DONE.body, 3)
    assert (state.completed("1"), state.unpublished, state.named(DONE.name)) == (made, made, made)
    assert state.turn == Held(2, "A", "main", 10.0)


def test_undoing_leaves_a_trace() -> None:
    state = after(OPENED, DONE, UNDONE)
    assert (state.completed("1"), state.unpublished) == (None, None)
    assert state.completions["c1"].undone
    assert state.knows("1")


def test_freeing_leaves_a_trace() -> None:
    state = after(OPENED, FREED)
    assert not state.open
    assert state.freed == {"1": ("A",)}
    assert state.knows("1")
    assert not state.knows("2")


@pytest.mark.parametrize(
    "before",
    [
        (OPENED, FREED),
        (OPENED, Open("9", "R", "r", frees="1")),
        (OPENED, DONE, UNDONE),
        (OPENED, Take("1", "B", "t1"), Free("1", "B", "f")),
        (OPENED, Take("1", "B", "t1"), Complete("1", "B", "c1", "1.commit", "b1"), UNDONE),
        (OPENED, FREED, Open("1", "C", "o2"), Free("1", "C", "f2")),
    ],
    ids=["freed", "by its rollback", "undone", "taken, freed", "taken, undone", "freed twice"],
)
def test_who_had_what_was_rolled_back_does_not_go_on_with_it(before: tuple[Record, ...]) -> None:
    over = before
    if isinstance(before[-1], Open):
        over = (*before, Complete("9", "R", "c9", "9.rollback", "b9"))
    again = after(*over, Open("1", "T", "again"))
    assert "was rolled back since, and begun anew by session T" in str(valid(again, Take("1", "A", "t")))
    assert valid(again, Take("1", "X", "t")) is None
    # What it begins anew is its own.
    assert "belongs to this session" in str(valid(after(*over, Open("1", "A", "again")), Take("1", "A", "t")))
    assert valid(after(*over, Open("1", "A", "again"), Take("1", "B2", "t")), Take("1", "X", "u")) is None


def test_a_turn_ends_by_its_records_alone() -> None:
    for end in (Release(2, "A", "l"), Break(2, "B", "l")):
        assert after(OPENED, TURN, end).turn is None


# --- checkpoints ------------------------------------------------------------------------------------------


def test_a_checkpoint_says_what_the_records_before_come_to_and_stands_in_its_place() -> None:
    state = after(OPENED, TURN, every=3)
    assert "a checkpoint's" in str(valid(state, IN_TURN))
    checkpoint = Checkpoint("X", "k", state.condensed())
    assert valid(state, checkpoint) is None
    wrong = Checkpoint("X", "k", replace(state.condensed(), turn=None))
    assert "something else" in str(valid(state, wrong))
    over = fold(state, checkpoint)
    assert (over.number, over.open, over.turn) == (3, state.open, state.turn)
    assert over.tokens == {"o1": 1, "l1": 2}
    assert valid(over, IN_TURN) is None


def test_a_checkpoint_remembers_the_tokens_since_the_one_before() -> None:
    state = after(OPENED, TURN, every=3)
    state = fold(state, Checkpoint("X", "k", state.condensed()))
    state = fold(fold(state, Release(2, "A", "l2")), Open("2", "B", "o2"))
    assert state.is_due
    assert state.condensed().tokens == {"l2": 4, "o2": 5}


def completed(state: State, *instants: int) -> State:
    for number in instants:
        state = fold(state, Open(f"{number}", "A", f"o{number}"))
        state = fold(state, Complete(f"{number}", "A", f"c{number}", f"{number}.commit", f"b{number}"))
    return state


def test_a_checkpoint_remembers_old_completions_by_their_names() -> None:
    state = completed(State(kept=2), 1, 2, 3, 4)
    kept = state.condensed()
    assert set(kept.completions) == {"c3", "c4"}
    assert (set(kept.past), kept.horizon) == ({"1", "2"}, "")
    assert kept.unpublished == state.unpublished
    assert valid(kept, Open("2", "B", "o")) == "2 is over; no more is remembered of it (horizon none)"
    assert valid(kept, Open("0", "B", "o")) is None


def test_it_remembers_for_as_long_as_a_rollback_is_open_that_what_that_names_was_completed() -> None:
    state = fold(completed(State(kept=2), 1), Open("9", "R", "o9", "rollback", frees="1"))
    kept = completed(state, 2, 3, 4).condensed()
    assert (set(kept.completions), set(kept.past)) == ({"c1", "c3", "c4"}, {"2"})
    over = fold(kept, Free("9", "R", "f9")).condensed()
    assert (set(over.completions), set(over.past)) == ({"c3", "c4"}, {"1", "2"})


def test_it_remembers_old_freed_instants_likewise() -> None:
    state = State(kept=2)
    for number in range(1, 5):
        state = fold(fold(state, Open(f"{number}", "A", f"o{number}")), Free(f"{number}", "A", f"f{number}"))
    assert state.condensed().freed == {"3": ("A",), "4": ("A",)}
    assert state.condensed().past == {"1", "2"}


def test_what_a_plan_begins_anew_is_given_up_for_longer_than_what_nobody_does() -> None:
    state = State(kept=2)
    for instant, action in [("1", "compaction"), ("2", "compaction"), ("3", "commit"), ("4", "clustering")]:
        state = fold(
            fold(state, Open(instant, "A", f"o{instant}", action)), Free(instant, "A", f"f{instant}")
        )
    kept = state.condensed()
    assert (set(kept.freed), set(kept.planned), set(kept.past)) == ({"2", "4"}, {"2", "4"}, {"1", "3"})
    assert fold(kept, Open("2", "A", "again", "compaction")).condensed().planned == frozenset("4")


def test_the_horizon_rises_by_the_lowest_instant_first() -> None:
    kept = completed(State(kept=1, names=2), 1, 2, 3, 4).condensed()
    assert (set(kept.past), kept.horizon) == ({"2", "3"}, "1")


def test_one_instant_ahead_of_its_time_does_not_move_the_horizon() -> None:
    kept = completed(State(kept=1, names=2), 9, 1, 2, 3, 4, 5).condensed()
    assert (set(kept.past), kept.horizon) == ({"4", "9"}, "3")
    assert valid(kept, Open("6", "B", "o")) is None
    assert valid(kept, Open("9", "B", "o")) is not None


def test_a_horizon_by_the_greatest_instant_is_found_out() -> None:
    wrong = Change("the greatest instant is the horizon", "ledger/facts", "*past[: -self.names]])", "*past])")
    state = wrong.modules(shim, ["ledger/facts"])["ledger/facts"].State(kept=1, names=2)
    kept = completed(state, 9, 1, 2, 3, 4, 5).condensed()
    assert kept.is_over("6"), "what nobody has begun yet is refused"


def test_the_horizon_does_not_go_back() -> None:
    kept = replace(completed(State(kept=1, names=1), 3, 4, 5), horizon="7").condensed()
    assert kept.horizon == "7"


def test_what_was_undone_and_is_begun_anew_is_not_over() -> None:
    state = fold(completed(State(kept=1, names=9), 1), Undo("1", "B", "u"))
    state = completed(fold(state, Open("1", "B", "again")), 2)
    assert state.condensed().past == set()


def test_a_checkpoint_remembers_the_last_record_of_each_lane() -> None:
    state = State(lanes=2)
    for number, lane in enumerate("abcb", 1):
        state = fold(state, Open(f"{number}", "A", f"o{number}"), lane)
    kept = state.condensed()
    assert (kept.lasts, kept.dropped) == ({"c": (3, "o3"), "b": (4, "o4")}, 1)


def test_a_record_that_is_not_valid_is_void_to_all_readers() -> None:
    state = after(OPENED)
    assert fold(state, Open("1", "B", "o2"), "lane") == replace(state, number=2)


def test_open_instants_and_the_turn_are_never_forgotten() -> None:
    state = replace(after(OPENED, TURN), kept=1)
    for number in range(2, 6):
        state = fold(state, Open(f"{number}", "A", f"o{number}"))
        state = fold(state, Complete(f"{number}", "A", f"c{number}", f"{number}.commit", "b", turn=2))
    assert state.condensed().open == {"1": Opened("A", "o1", "commit")}
    assert state.condensed().turn == state.turn
    assert (EVERY, KEPT) == (64, 256)


# --- how they are written ---------------------------------------------------------------------------------

FULL = after(
    OPENED, TURN, IN_TURN, Open("2", "B", "o2"), Take("2", "C", "t2"), Open("3", "B", "o3", frees="2")
)
EACH: list[Record] = [
    OPENED, ROLLBACK, TAKEN, DONE, IN_TURN, FREED, UNDONE, TURN, Release(2, "A", "l"), Break(2, "B", "l"),
    Checkpoint("A", "k", replace(
        FULL.condensed(), past=frozenset("01"), planned=frozenset("3"), lasts={"a lane": Last(3, "t")}
    )),
    Move("A", "m"),
]  # fmt: skip


@pytest.mark.parametrize("record", EACH, ids=lambda record: str(record.KIND))
def test_what_is_written_is_what_is_read(record: Record) -> None:
    assert decode(encode(record, "a lane"), "here") == (record, "a lane")


def test_every_kind_is_written() -> None:
    assert {record.KIND for record in EACH} == set(KINDS)


def test_a_record_says_its_form_and_the_oldest_reader() -> None:
    assert json.loads(encode(TAKEN)) == {
        "format": 3, "reader": 3, "lane": "", "kind": "TAKE", "instant": "1", "session": "B", "token": "t1",
    }  # fmt: skip


def said(**changes: Any) -> bytes:
    return json.dumps({**json.loads(encode(TAKEN)), **changes}).encode()


def test_a_later_form_that_older_readers_understand_is_read() -> None:
    assert decode(said(format=4, colour="blue"), "here").record == TAKEN


@pytest.mark.parametrize("changes", [{"format": 4, "reader": 4}, {"format": 4, "kind": "GIVE"}])
def test_what_a_later_version_means_is_refused_and_not_guessed(changes: dict[str, Any]) -> None:
    with pytest.raises(PutIfAbsentError, match=r"(?s)b/7 was written by a later putifabsent.*Upgrade"):
        decode(said(**changes), "b/7")


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"\xff", b'{"reader": "x"}', encode(TAKEN).replace(b"instant", b"instanz")]
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(PutIfAbsentError, match="here is no"):
        decode(data, "here")


def test_a_checkpoint_without_a_state_is_refused() -> None:
    data = json.dumps({**json.loads(encode(Checkpoint("A", "k", FULL))), "state": {"number": 3}}).encode()
    with pytest.raises(PutIfAbsentError, match="here is no CHECKPOINT record"):
        decode(data, "here")
