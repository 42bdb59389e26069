"""Does a win count? Numbers that may have expired, and names with aliases, case by case."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Exists,
    Found,
    Holder,
    Maybe,
    Refused,
    TryAgain,
)
from putifabsent.errors import NameExpired, NameTaken, OutcomeUnknown
from putifabsent.shim.names import Series, ordinary
from putifabsent.shim.requests import Complete, Create, Delete, Head, List, Stage
from tests.shim.scripted import (
    BODY,
    BUSY,
    LOST,
    ME,
    MINE,
    NOON,
    OTHER,
    REAL,
    SMALL,
    Shim,
    held_by,
    later,
    listing,
    numbered,
    play,
    staged,
    too_late,
)

FOLDER = "bucket/t/snapshot"
PATH = f"{FOLDER}/snapshot-5"
PATTERN = re.compile(r"snapshot-(?P<n>\d+)")
NAME = numbered(ordinary(PATH), 5, PATTERN, f"{FOLDER}/snapshot-4")
FIRST = NAME._replace(series=Series(5, 5, (), PATTERN))
PUT = Create(PATH, BODY, MINE)
BEFORE = Head(f"{FOLDER}/snapshot-4")
WON = (PUT, Created("v1"))
NOBODY_BEFORE = (BEFORE, Absent())
NOW = timedelta()
MINUTE = timedelta(minutes=1)
NO_RIGHTS = PermissionError("403")


@pytest.fixture
def shim() -> Shim:
    return REAL


def create(shim: Shim, name: Any = NAME) -> Any:
    return shim.create(name, BODY, MINE, largest_put=SMALL)


# --- series


def test_a_win_counts_where_its_predecessor_is_there(shim: Shim) -> None:
    assert play(create(shim), WON, (BEFORE, held_by(OTHER))) == Created("v1")


@pytest.mark.parametrize("next_one", [{}, {"snapshot_6": -5 * MINUTE}, {"snapshot_6": MINUTE}], ids=str)
def test_the_first_number_counts_also_where_others_have_gone_on_at_once(shim: Shim, next_one: Any) -> None:
    entries = listing(snapshot_5=NOW, **next_one)
    assert play(create(shim, FIRST), WON, (List(FOLDER), entries)) == Created("v1")


def test_a_first_number_that_was_removed_since_was_the_first(shim: Shim) -> None:
    assert play(create(shim, FIRST), WON, (List(FOLDER), listing())) == Created("v1")


@pytest.mark.parametrize("later_one", ["snapshot_6", "snapshot_8"])
def test_the_first_number_too_may_have_been_there_before(shim: Shim, later_one: str) -> None:
    """Whoever reads it, as a table's latest, takes the table for empty."""
    listed = (List(FOLDER), listing(snapshot_5=NOW, **{later_one: -6 * MINUTE}))
    again = [listed] * (later_one == "snapshot_8")
    remove = (Head(PATH), held_by(ME)), (Delete(PATH, "v1"), Deleted())
    with pytest.raises(NameExpired):
        play(create(shim, FIRST), WON, listed, *again, *remove)


def test_in_a_series_with_gaps_the_first_number_below_others_is_unknown(shim: Shim) -> None:
    name = NAME._replace(series=Series(5, 5, (), PATTERN, has_gaps=True))
    with pytest.raises(OutcomeUnknown):
        play(create(shim, name), WON, (List(FOLDER), listing(snapshot_5=NOW, snapshot_8=-6 * MINUTE)))


def test_any_of_several_predecessors_will_do(shim: Shim) -> None:
    name = numbered(NAME, 5, PATTERN, "bucket/t/a", "bucket/t/b")
    script = WON, (Head("bucket/t/a"), Absent()), (Head("bucket/t/b"), held_by(OTHER))
    assert play(create(shim, name), *script) == Created("v1")


def test_the_newest_of_all_counts(shim: Shim) -> None:
    # The entry before it has expired, as it may: nobody has gone on from mine yet.
    entries = listing(snapshot_5=NOW, LATEST=-99 * MINUTE, snapshot_3=-99 * MINUTE)
    assert play(create(shim), WON, NOBODY_BEFORE, (List(FOLDER), entries)) == Created("v1")


def test_a_slow_winner_counts_where_the_next_one_is_clearly_newer(shim: Shim) -> None:
    entries = listing(snapshot_5=NOW, snapshot_6=6 * MINUTE, snapshot_7=99 * MINUTE)
    assert play(create(shim), WON, NOBODY_BEFORE, (List(FOLDER), entries)) == Created("v1")


@pytest.mark.parametrize("age", [99 * MINUTE, NOW, -99 * MINUTE], ids=str)
def test_a_number_below_others_whose_next_one_is_gone_has_expired_whatever_the_times(
    shim: Shim, age: timedelta
) -> None:
    entries = listing(snapshot_5=NOW, snapshot_8=-age, snapshot_9=-age)
    script = WON, NOBODY_BEFORE, (List(FOLDER), entries), (List(FOLDER), entries)
    remove = (Head(PATH), held_by(ME)), (Delete(PATH, "v1"), Deleted())
    with pytest.raises(NameExpired, match="expired") as expired:
        play(create(shim), *script, *remove)
    assert expired.value.holder is None
    assert "held by" not in str(expired.value)


def test_a_next_one_that_came_while_it_was_listed_is_there(shim: Shim) -> None:
    first = listing(snapshot_5=NOW, snapshot_7=6 * MINUTE)
    second = listing(snapshot_5=NOW, snapshot_6=6 * MINUTE, snapshot_7=6 * MINUTE)
    script = WON, NOBODY_BEFORE, (List(FOLDER), first), (List(FOLDER), second)
    assert play(create(shim), *script) == Created("v1")


def test_a_number_clearly_newer_than_the_next_one_has_expired(shim: Shim) -> None:
    entries = listing(snapshot_5=NOW, snapshot_6=-6 * MINUTE, snapshot_9=MINUTE)
    remove = (Head(PATH), held_by(ME)), (Delete(PATH, "v1"), Deleted())
    with pytest.raises(NameExpired):
        play(create(shim), WON, NOBODY_BEFORE, (List(FOLDER), entries), *remove)


@pytest.mark.parametrize("age", [-5 * MINUTE, -MINUTE, NOW, MINUTE, 5 * MINUTE], ids=str)
def test_about_as_old_is_unknown_and_removes_nothing(shim: Shim, age: timedelta) -> None:
    entries = listing(snapshot_5=NOW, snapshot_6=-age)
    with pytest.raises(OutcomeUnknown, match="may have expired") as unknown:
        play(create(shim), WON, NOBODY_BEFORE, (List(FOLDER), entries))
    assert unknown.value.token == ME


@pytest.mark.parametrize("entries", [
    listing(snapshot_5=NOW, snapshot_8=-60 * MINUTE),
    listing(snapshot_5=NOW, snapshot_6=-60 * MINUTE),
], ids=["the next one is gone", "the next one is older"])  # fmt: skip
def test_after_a_lost_answer_an_expired_number_may_have_been_my_own(shim: Shim, entries: Any) -> None:
    # The first request was applied, others went on from there, it expired; then the second was applied.
    again = ((List(FOLDER), entries),) if "snapshot-8" in str(entries) else ()
    script = (PUT, Maybe(LOST)), later(1), WON, NOBODY_BEFORE, (List(FOLDER), entries), *again
    with pytest.raises(OutcomeUnknown):
        play(create(shim), *script)


@pytest.mark.parametrize("age", [99 * MINUTE, 5 * MINUTE, NOW], ids=str)
def test_in_a_series_with_gaps_a_number_below_others_is_unknown(shim: Shim, age: timedelta) -> None:
    name = numbered(NAME, 5, PATTERN, f"{FOLDER}/snapshot-4", has_gaps=True)
    entries = listing(snapshot_5=NOW, snapshot_8=-age)
    with pytest.raises(OutcomeUnknown):
        play(create(shim, name), WON, NOBODY_BEFORE, (List(FOLDER), entries))


def test_in_a_series_with_gaps_a_number_counts_where_all_later_ones_are_clearly_newer(shim: Shim) -> None:
    name = numbered(NAME, 5, PATTERN, f"{FOLDER}/snapshot-4", has_gaps=True)
    entries = listing(snapshot_5=NOW, snapshot_8=6 * MINUTE, snapshot_9=99 * MINUTE)
    assert play(create(shim, name), WON, NOBODY_BEFORE, (List(FOLDER), entries)) == Created("v1")


STAGE = Stage(PATH, BODY, MINE)
# S3 shows when an upload was begun; here an hour before it was completed.
IN_PARTS = listing(snapshot_5=-60 * MINUTE, snapshot_6=-30 * MINUTE)
COMPLETED_AT_NOON = (STAGE, staged()), (Complete(staged()), Created("v1", NOON))


def create_in_parts(shim: Shim) -> Any:
    return shim.create(NAME, BODY, MINE, largest_put=BODY.size - 1)


def test_what_came_in_parts_is_as_old_as_the_answer_to_its_completion(shim: Shim) -> None:
    remove = (Head(PATH), held_by(ME)), (Delete(PATH, "v1"), Deleted())
    with pytest.raises(NameExpired):
        play(create_in_parts(shim), *COMPLETED_AT_NOON, NOBODY_BEFORE, (List(FOLDER), IN_PARTS), *remove)


@pytest.mark.parametrize("how", ["without a time", "looked up"])
def test_what_came_in_parts_at_an_unknown_time_is_unknown(shim: Shim, how: str) -> None:
    said = "without a time" in how
    looked = () if said else ((Head(PATH), held_by(ME)),)
    done = (STAGE, staged()), (Complete(staged()), Created("v1") if said else Exists())
    with pytest.raises(OutcomeUnknown):
        play(create_in_parts(shim), *done, *looked, NOBODY_BEFORE, (List(FOLDER), IN_PARTS))


def test_lower_numbers_and_other_files_say_nothing(shim: Shim) -> None:
    entries = listing(snapshot_5=NOW, snapshot_2=-60 * MINUTE, snapshot_x=-60 * MINUTE, EARLIEST=-60 * MINUTE)
    assert play(create(shim), WON, NOBODY_BEFORE, (List(FOLDER), entries)) == Created("v1")


def test_a_win_that_is_not_listed_is_unknown(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown, match="removed"):
        play(create(shim), WON, NOBODY_BEFORE, (List(FOLDER), listing(snapshot_6=MINUTE)))


@pytest.mark.parametrize("answer", [Refused(NO_RIGHTS), TryAgain(BUSY)], ids=repr)
def test_a_predecessor_that_cannot_be_looked_at_is_unknown(shim: Shim, answer: Any) -> None:
    end = (too_late(1),) if isinstance(answer, TryAgain) else ()
    with pytest.raises(OutcomeUnknown):
        play(create(shim), WON, (BEFORE, answer), *end)


@pytest.mark.parametrize("answer", [Refused(NO_RIGHTS), TryAgain(BUSY)], ids=repr)
def test_a_folder_that_cannot_be_listed_is_unknown(shim: Shim, answer: Any) -> None:
    end = (too_late(1),) if isinstance(answer, TryAgain) else ()
    with pytest.raises(OutcomeUnknown):
        play(create(shim), WON, NOBODY_BEFORE, (List(FOLDER), answer), *end)


def test_a_listing_without_an_answer_is_repeated(shim: Shim) -> None:
    script = (
        WON,
        NOBODY_BEFORE,
        (List(FOLDER), TryAgain(BUSY)),
        later(1),
        (List(FOLDER), listing(snapshot_5=NOW)),
    )
    assert play(create(shim), *script) == Created("v1")


def test_interrupted_while_it_looks_back_a_win_carries_its_token(shim: Shim) -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create(shim), WON, (BEFORE, stop))
    assert isinstance(stop.__cause__, OutcomeUnknown)
    assert stop.__cause__.token == ME


def test_interrupted_while_it_looks_back_a_win_by_token_carries_its_token(shim: Shim) -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create(shim), (PUT, Exists()), (Head(PATH), held_by(ME)), (BEFORE, stop))
    assert isinstance(stop.__cause__, OutcomeUnknown)


# --- withdrawing

_GONE_ON = List(FOLDER), listing(snapshot_5=NOW, snapshot_8=-6 * MINUTE)
STALE = WON, NOBODY_BEFORE, _GONE_ON, _GONE_ON


def test_only_my_own_creation_is_removed_and_another_s_is_no_evidence(shim: Shim) -> None:
    # The listing may have shown it: a second creation of a number that was mine, and has expired.
    with pytest.raises(OutcomeUnknown, match="removed"):
        play(create(shim), *STALE, (Head(PATH), held_by(OTHER)))


def test_a_creation_that_others_have_removed_is_unknown(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown, match="removed"):
        play(create(shim), *STALE, (Head(PATH), Absent()))


def test_a_creation_that_is_gone_after_a_lost_removal_is_taken(shim: Shim) -> None:
    script = (Head(PATH), held_by(ME)), (Delete(PATH, "v1"), Maybe(LOST)), later(1), (Head(PATH), Absent())
    with pytest.raises(NameTaken):
        play(create(shim), *STALE, *script)


def test_a_removal_without_an_answer_is_repeated(shim: Shim) -> None:
    remove = (Head(PATH), held_by(ME))
    script = remove, (Delete(PATH, "v1"), Maybe(LOST)), later(1), remove, (Delete(PATH, "v1"), Deleted())
    with pytest.raises(NameTaken):
        play(create(shim), *STALE, *script)


def test_a_creation_that_cannot_be_removed_is_unknown(shim: Shim) -> None:
    # Readers would still find it, while its writer deletes what it refers to.
    script = (Head(PATH), held_by(ME)), (Delete(PATH, "v1"), Refused(NO_RIGHTS))
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(shim), *STALE, *script)
    assert unknown.value.__cause__ is NO_RIGHTS


def test_a_removal_without_an_answer_until_the_deadline_is_unknown(shim: Shim) -> None:
    script = (Head(PATH), held_by(ME)), (Delete(PATH, "v1"), Maybe(LOST)), too_late(1)
    with pytest.raises(OutcomeUnknown):
        play(create(shim), *STALE, *script)


# --- aliases

A, B, C = "bucket/t/metadata/v3.a", "bucket/t/metadata/v3.b", "bucket/t/metadata/v3.c"
FIRST_OF_TWO = ordinary(A)._replace(aliases=(B,), rank=0)
SECOND_OF_TWO = ordinary(B)._replace(aliases=(A,), rank=1)
SECOND_OF_THREE = ordinary(B)._replace(aliases=(A, C), rank=1)
ALIASES = {A: (B,), B: (A,)}
PUT_B = Create(B, BODY, MINE)


def won(path: str) -> tuple[tuple[Any, Any], ...]:
    others = [(Head(alias), Absent()) for alias in ALIASES[path]]
    return *others, (Create(path, BODY, MINE), Created("v1"))


def test_without_another_alias_a_win_counts(shim: Shim) -> None:
    nobody = (Head(A), Absent()), (Head(C), Absent())
    won_at_once = Create(B, BODY, MINE), Created("v1")
    assert play(create(shim, SECOND_OF_THREE), *nobody, won_at_once, *nobody) == Created("v1")


def test_an_alias_that_comes_first_has_won(shim: Shim) -> None:
    remove = (Head(B), held_by(ME)), (Delete(B, "v1"), Deleted())
    with pytest.raises(NameTaken) as taken:
        play(create(shim, SECOND_OF_TWO), *won(B), (Head(A), held_by(OTHER)), *remove)
    assert taken.value.holder == held_by(OTHER).holder


def test_a_later_alias_is_waited_for_until_it_has_withdrawn(shim: Shim) -> None:
    waiting = (Head(B), held_by(OTHER)), (Head(A), held_by(ME)), later(1)
    assert play(create(shim, FIRST_OF_TWO), *won(A), *waiting, (Head(B), Absent())) == Created("v1")


def test_a_later_alias_that_was_there_before_has_won(shim: Shim) -> None:
    old: Found = held_by(OTHER, after=-6 * MINUTE)
    script = (Head(B), old), (Head(A), held_by(ME)), (Head(A), held_by(ME)), (Delete(A, "v1"), Deleted())
    with pytest.raises(NameTaken) as taken:
        play(create(shim, FIRST_OF_TWO), *won(A), *script)
    assert taken.value.holder == old.holder


def test_a_later_alias_that_stays_is_unknown(shim: Shim) -> None:
    script = (Head(B), held_by(OTHER, after=-5 * MINUTE)), (Head(A), held_by(ME)), too_late(1)
    with pytest.raises(OutcomeUnknown):
        play(create(shim, FIRST_OF_TWO), *won(A), *script)


def test_a_win_that_is_gone_while_it_waits_is_unknown(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown, match="removed"):
        play(create(shim, FIRST_OF_TWO), *won(A), (Head(B), held_by(OTHER)), (Head(A), Absent()))


def test_an_alias_that_cannot_be_looked_at_is_unknown(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown):
        play(create(shim, SECOND_OF_TWO), *won(B), (Head(A), Refused(NO_RIGHTS)))


def test_a_loss_looks_at_no_alias_again(shim: Shim) -> None:
    loss = (Create(B, BODY, MINE), Exists()), (Head(B), held_by(OTHER))
    with pytest.raises(NameTaken):
        play(create(shim, SECOND_OF_TWO), (Head(A), Absent()), *loss)


def test_an_alias_that_is_there_is_taken_with_nothing_written(shim: Shim) -> None:
    """Whatever its age and place: it may have been acknowledged, and mine would hide it."""
    for name, alias in (FIRST_OF_TWO, B), (SECOND_OF_TWO, A):
        with pytest.raises(NameTaken) as taken:
            play(create(shim, name), (Head(alias), held_by(OTHER)))
        assert taken.value.holder == held_by(OTHER).holder


def test_an_alias_that_cannot_be_looked_at_before_is_the_store_s_own_error(shim: Shim) -> None:
    with pytest.raises(PermissionError, match="403"):
        play(create(shim, SECOND_OF_TWO), (Head(A), Refused(NO_RIGHTS)))


def test_after_a_lost_answer_nothing_is_removed_for_an_alias_that_came_meanwhile(shim: Shim) -> None:
    """Mine may have been read before the alias came, which was not there when mine was first sent."""
    script = (PUT_B, Maybe(LOST)), later(1), (PUT_B, Created("v1")), (Head(A), held_by(OTHER))
    with pytest.raises(OutcomeUnknown, match="stands for the same"):
        play(create(shim, SECOND_OF_TWO), (Head(A), Absent()), *script)


# --- resolving later


def test_resolving_a_number_asks_whether_it_counts(shim: Shim) -> None:
    script = (Head(PATH), held_by(ME)), (BEFORE, held_by(OTHER))
    assert play(shim.resolve(NAME, ME), *script) == held_by(ME).holder


@pytest.mark.parametrize("mark", [f"{ME}.0~1", f"{ME}.2~3"])
def test_resolving_knows_a_creation_that_an_arbiter_had_marked_before_its_table_left_it(
    shim: Shim, mark: str
) -> None:
    script = (Head(PATH), held_by(mark)), (BEFORE, held_by(OTHER))
    assert play(shim.resolve(NAME, ME), *script) == held_by(mark).holder


def test_resolving_a_number_that_had_expired_is_no_win_and_removes_nothing(shim: Shim) -> None:
    entries = listing(snapshot_5=NOW, snapshot_8=-60 * MINUTE)
    with pytest.raises(OutcomeUnknown):
        play(shim.resolve(NAME, ME), (Head(PATH), held_by(ME)), NOBODY_BEFORE, *[(List(FOLDER), entries)] * 2)


def test_resolving_what_came_in_parts_knows_only_when_it_was_begun(shim: Shim) -> None:
    entries = listing(snapshot_5=-60 * MINUTE, snapshot_6=-30 * MINUTE)
    begun = Found(Holder(ME, begun=NOON - 60 * MINUTE))
    with pytest.raises(OutcomeUnknown):
        play(shim.resolve(NAME, ME), (Head(PATH), begun), NOBODY_BEFORE, (List(FOLDER), entries))


def test_a_question_removes_nothing_beside_an_alias(shim: Shim) -> None:
    """Whoever asks may have been told before that the creation won."""
    beside = (Head(B), held_by(ME)), (Head(A), held_by(OTHER))
    with pytest.raises(OutcomeUnknown, match="stands for the same"):
        play(shim.resolve(SECOND_OF_TWO, ME), *beside)
    mine = Head(A), held_by(ME)
    older = Head(B), held_by(OTHER, after=-9 * MINUTE)
    with pytest.raises(OutcomeUnknown, match="stands for the same"):
        play(shim.resolve(FIRST_OF_TWO, ME), mine, older, mine, too_late(1))
