"""Names by ballots that end: deletions, clean-up, forgetting, and incarnations that are nobody's."""

from __future__ import annotations

from typing import Any

import pytest

from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Maybe,
    Refused,
    Written,
)
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.ballot import clean, delete, find, forget, glance
from putifabsent.shim.requests import Delete, Publish
from tests.shim.ballot_requests import (
    LISTED,
    LOOK,
    MY_PUT,
    NAME,
    NO_RIGHTS,
    THEIRS,
    UNSEEN,
    WITHDRAW,
    accept,
    creating,
    end,
    prepare,
    put,
    shows,
)
from tests.shim.scripted import LOST, ME, MINE, OTHER, held_by, play, too_late

# --- deletions


def test_a_deletion_ends_the_incarnation_then_removes_the_bytes_then_the_plain_name() -> None:
    over = (put(end(f"{OTHER}.0")), Written())
    ended = (LISTED, shows(*THEIRS, end(f"{OTHER}.0")))
    assert (
        play(
            delete(NAME, MINE),
            (LISTED, shows(*THEIRS)),
            over,
            ended,
            (Delete(prepare(OTHER)), Deleted()),
            (LOOK, held_by(f"{OTHER}.0~1")),
            ended,
            (Delete(NAME.path, "v1"), Deleted()),
            (LISTED, shows(end(f"{OTHER}.0"))),
        )
        is False
    )


def deleted(listed: tuple[Any, Any], *removals: tuple[Any, Any]) -> None:
    """Delete a name that is over already, of which a listing shows this; see what else is removed."""
    assert play(delete(NAME, MINE), listed, UNSEEN, listed, *removals) is False


def test_a_deletion_removes_what_is_left_of_ended_incarnations() -> None:
    lost = prepare(OTHER, round_=1)
    left = (LISTED, shows(lost, accept(OTHER), end(f"{OTHER}.0")))
    deleted(left, (Delete(lost), Deleted()), (Delete(accept(OTHER)), Deleted()))


def test_a_deletion_leaves_the_last_two_ends() -> None:
    ends = [end(f"{OTHER}.0", k=k) for k in (1, 2, 3, 4)]
    deleted((LISTED, shows(*ends)), *((Delete(each), Deleted()) for each in ends[:2]))


def test_a_name_is_deleted_though_what_is_left_of_it_can_not_be_removed() -> None:
    left = (LISTED, shows(accept(OTHER), end(f"{OTHER}.0")))
    deleted(left, (Delete(accept(OTHER)), Refused(NO_RIGHTS)))


def test_the_last_deletion_says_whether_an_end_is_left() -> None:
    left = end(f"{OTHER}.0")
    for removed, says in ((Deleted(), True), (Refused(NO_RIGHTS), False)):
        script = (LISTED, shows(left)), UNSEEN, (LISTED, shows(left)), (Delete(left), removed)
        assert play(delete(NAME, MINE, last=True), *script) is says


def test_a_deletion_that_can_not_look_after_its_end_is_unknown() -> None:
    script = ((LISTED, shows(*THEIRS)), (put(end(f"{OTHER}.0")), Written()), (LISTED, Refused(NO_RIGHTS)))
    with pytest.raises(OutcomeUnknown) as caught:
        play(delete(NAME, MINE), *script)
    assert caught.value.__cause__ is NO_RIGHTS


def test_a_name_that_no_ballot_knows_is_deleted_as_it_is() -> None:
    empty = (LISTED, shows())
    removed = (Delete(NAME.path, "v1"), Deleted())
    assert play(delete(NAME, MINE), empty, (LOOK, held_by(None)), empty, removed, empty) is False


@pytest.mark.parametrize(
    "script",
    [
        ((Delete(NAME.path, "v1"), Maybe(LOST)), too_late()),
        ((Delete(NAME.path, "v1"), Deleted()), (LISTED, Refused(NO_RIGHTS))),
    ],
)
def test_a_deletion_that_fails_once_such_a_name_may_be_gone_is_unknown(script: Any) -> None:
    empty = (LISTED, shows())
    with pytest.raises(OutcomeUnknown):
        play(delete(NAME, MINE), empty, (LOOK, held_by(None)), empty, *script)


def test_what_is_forgotten_goes_with_its_ends_the_bytes_first_and_the_plain_name_last() -> None:
    second, vote = prepare(k=2), accept(k=2)
    kept = (accept(), vote, prepare(OTHER), second, prepare("9", k=2, round_=1), end(f"{ME}.0"))
    gone = (prepare(OTHER), second, prepare("9", k=2, round_=1), accept(), vote, end(f"{ME}.0"), NAME.path)
    removals = ((Delete(path), Deleted()) for path in gone)
    assert play(forget(NAME, MINE), (LISTED, shows(*kept)), *removals) is None


@pytest.mark.parametrize(
    "script",
    [((Delete(prepare()), Refused(NO_RIGHTS)),), ((Delete(prepare()), Maybe(NO_RIGHTS)), too_late())],
    ids=["refused", "late"],
)
def test_what_may_not_be_removed_is_not_forgotten_and_that_is_raised(script: Any) -> None:
    with pytest.raises(PermissionError, match="403"):
        play(forget(NAME, MINE), (LISTED, shows(prepare())), *script)


def test_clean_up_leaves_the_newest_end_and_publishes_what_lives() -> None:
    old, newest = end("1.0"), end("2.0", k=2)
    living = (prepare(OTHER, k=3), accept(OTHER, f"{OTHER}.0", k=3))
    seen = shows(prepare("1"), prepare("2", k=2), accept("2", "2.0", k=2), old, newest, *living)
    removed = play(
        clean(NAME, MINE),
        (LISTED, seen),
        (Delete(prepare("1")), Deleted()),
        (Delete(prepare("2", k=2)), Deleted()),
        UNSEEN,
        (LISTED, seen),
        UNSEEN,
        (Publish(living[0], NAME.path, MINE), Written()),
        (Delete(prepare("1")), Deleted()),
        (Delete(prepare("2", k=2)), Deleted()),
        (Delete(accept("2", "2.0", k=2)), Deleted()),
        (Delete(old), Deleted()),
    )
    assert removed == 4


# --- void

VOID = f"{OTHER}.0.-1"
VOTED = (prepare("1"), prepare(OTHER, round_=1), accept(OTHER, VOID, round_=1))
ENDED = (put(end(VOID)), Written())


def test_clean_up_ends_an_incarnation_for_which_nobody_has_voted() -> None:
    mine, nobody = prepare(round_=1), f"{ME}.0.-1"
    before, over = (LISTED, shows(prepare("1"))), (LISTED, shows(*VOTED[:1], mine, end(nobody)))
    removed = play(
        clean(NAME, MINE),
        before,
        UNSEEN,
        before,
        (put(mine), Written()),
        (LISTED, shows(prepare("1"), mine)),
        (put(accept(value=nobody, round_=1)), Written()),
        (LISTED, shows(prepare("1"), mine, accept(value=nobody, round_=1))),
        (put(end(nobody)), Written()),
        over,
        UNSEEN,
        over,
        (Delete(prepare("1")), Deleted()),
        (Delete(mine), Deleted()),
    )
    assert removed == 2


def test_clean_up_that_goes_on_after_one_that_was_killed_leaves_nothing_of_what_that_had_voted_for() -> None:
    over = (LISTED, shows(*VOTED, end(VOID)))
    removals = ((Delete(each), Deleted()) for each in VOTED)
    assert play(clean(NAME, MINE), (LISTED, shows(*VOTED)), ENDED, over, UNSEEN, over, *removals) == 3


def test_clean_up_leaves_bytes_under_a_name_that_is_older() -> None:
    seen = (LISTED, shows(prepare("1")))
    older = (LOOK, held_by("0.0~1"))
    assert play(clean(NAME, MINE), seen, older, seen, older, seen, seen) == 0


def test_a_writer_who_votes_before_clean_up_does_keeps_its_bytes() -> None:
    mine = prepare(round_=1)
    before, theirs = (LISTED, shows(prepare(OTHER))), (LISTED, shows(*THEIRS, mine))
    vote = put(accept(value=f"{OTHER}.0", round_=1))
    after = (LISTED, shows(*THEIRS, mine, accept(value=f"{OTHER}.0", round_=1)))
    publish = (Publish(prepare(OTHER), NAME.path, MINE), Written())
    asked = (before, UNSEEN, before, (put(mine), Written()), theirs, (vote, Written()), after)
    assert play(clean(NAME, MINE), *asked, UNSEEN, after, UNSEEN, publish) == 0


def test_a_name_that_is_decided_for_nobody_is_ended_by_who_sees_it_and_is_free() -> None:
    over = (LISTED, shows(*VOTED, end(VOID)))
    removals = ((Delete(each), Deleted()) for each in VOTED)
    assert play(delete(NAME, MINE), (LISTED, shows(*VOTED)), ENDED, over, UNSEEN, over, *removals) is False


def test_a_name_that_is_decided_for_nobody_is_not_there_for_who_may_not_end_it() -> None:
    assert play(find(NAME, MINE), (LISTED, shows(*VOTED)), UNSEEN) == Absent()


def test_a_creator_goes_on_with_the_incarnation_after_nobodys() -> None:
    second = (prepare(k=2), accept(k=2))
    over = shows(*VOTED, end(VOID))
    created = play(
        creating(),
        MY_PUT,
        (LISTED, shows(prepare(), *VOTED)),
        ENDED,
        (LISTED, over),
        WITHDRAW,
        (put(second[0], b"my bytes", k=2), Written()),
        (LISTED, shows(*VOTED, end(VOID), second[0])),
        UNSEEN,
        (put(second[1], k=2), Written()),
        (LISTED, shows(*VOTED, end(VOID), *second)),
        (Publish(second[0], NAME.path, MINE), Written()),
    )
    assert created == Created()


def test_a_name_that_is_decided_for_nobody_is_not_taken() -> None:
    assert play(glance(NAME, MINE), (LISTED, shows(*VOTED))) is None
