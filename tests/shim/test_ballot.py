"""Ballots: each answer that a store can give, and exactly the requests that follow it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Entry,
    Exists,
    Holder,
    Maybe,
    Refused,
    TryAgain,
    Written,
)
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim.ballot import create, delete, find, resolve
from putifabsent.shim.ballot_state import Scene, folder_of
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import Delete, Head, Located, Pause, Publish, Put
from tests.shim.scripted import BUSY, LOST, ME, MINE, NOON, OTHER, SameBytes, held_by, later, play, too_late

if TYPE_CHECKING:
    from putifabsent.shim.requests import Request

from tests.shim.ballot_requests import (
    ALONE,
    BODY,
    DECIDED,
    FOLDER,
    LISTED,
    LOOK,
    MY_PUT,
    MY_VOTE,
    NAME,
    NO_RIGHTS,
    PUBLISH,
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


def test_six_requests_create_a_name() -> None:
    assert play(creating(), MY_PUT, ALONE, UNSEEN, MY_VOTE, DECIDED, (PUBLISH, Written())) == Created()


def test_a_name_that_is_decided_for_another_is_taken_after_a_listing() -> None:
    look = held_by(f"{OTHER}.0~1")
    with pytest.raises(NameTaken) as caught:
        play(creating(), MY_PUT, (LISTED, shows(prepare(), *THEIRS)), WITHDRAW, (LOOK, look))
    assert caught.value.holder == Holder(OTHER, "a-writer", NOON, 8, "v1")


@pytest.mark.parametrize("published", [Written(), Refused(NO_RIGHTS), Absent()])
def test_a_loser_publishes_what_it_lost_to_where_that_is_not_shown(published: Any) -> None:
    theirs = Publish(prepare(OTHER), NAME.path, MINE)
    seen = (LISTED, shows(prepare(), *THEIRS))
    with pytest.raises(NameTaken) as caught:
        play(creating(), MY_PUT, seen, WITHDRAW, UNSEEN, (theirs, published))
    assert caught.value.holder == Holder(OTHER)


def test_a_name_that_was_there_before_is_taken() -> None:
    with pytest.raises(NameTaken) as caught:
        play(creating(), MY_PUT, ALONE, (LOOK, held_by(None)), WITHDRAW)
    assert caught.value.holder is not None
    assert caught.value.holder.token is None


def test_what_was_accepted_is_taken_over() -> None:
    seen = (LISTED, shows(prepare(), *THEIRS, prepare("0", round_=1)))
    again = put(prepare(round_=2))
    vote = put(accept(value=f"{OTHER}.0", round_=2))
    ballots = (prepare(), *THEIRS, prepare("0", round_=1), prepare(round_=2))
    with pytest.raises(NameTaken):
        play(
            creating(),
            MY_PUT,
            seen,
            UNSEEN,
            later(),
            seen,
            (again, Written()),
            (LISTED, shows(*ballots)),
            (vote, Written()),
            (LISTED, shows(*ballots, accept(value=f"{OTHER}.0", round_=2))),
            WITHDRAW,
            (LOOK, held_by(f"{OTHER}.0~1")),
        )


def test_what_is_published_is_taken_without_a_ballot_of_ones_own() -> None:
    lower = (prepare("0"), accept("0", "0.0"), prepare())
    shown = (LOOK, held_by("0.0~1"))
    with pytest.raises(NameTaken) as caught:
        play(creating(), MY_PUT, (LISTED, shows(*lower)), shown, WITHDRAW, shown)
    assert caught.value.holder is not None
    assert caught.value.holder.token == "0"


def test_bytes_that_were_removed_before_they_were_voted_for_are_put_again() -> None:
    second = put(prepare(tries=1), b"my bytes", tries=1)
    with pytest.raises(AssertionError, match=r"asked for more: List"):
        play(creating(), MY_PUT, (LISTED, shows()), UNSEEN, later(), (second, Written()))


@pytest.mark.parametrize(
    "left", [(), (accept(),), (prepare(),), (prepare("9"), accept("9", "9.0"))], ids=["", "A", "P", "others"]
)
def test_a_vote_that_was_removed_or_its_bytes_is_unknown(left: tuple[str, ...]) -> None:
    with pytest.raises(OutcomeUnknown, match="removed"):
        play(creating(), MY_PUT, ALONE, UNSEEN, MY_VOTE, (LISTED, shows(*left)))


def test_whoever_has_backed_off_looks_before_it_disturbs_a_ballot_again() -> None:
    higher = (prepare(), prepare("9"))
    decided = (*higher, accept("9", "9.0"))
    with pytest.raises(NameTaken) as caught:
        play(
            creating(),
            MY_PUT,
            (LISTED, shows(*higher)),
            UNSEEN,
            later(),
            (LISTED, shows(*decided)),
            WITHDRAW,
            (LOOK, held_by("9.0~1")),
        )
    assert caught.value.holder is not None
    assert caught.value.holder.token == "9"


def test_whoever_has_backed_off_calls_no_ballot_while_others_do() -> None:
    ballots = (prepare(), prepare("9"), prepare("8", round_=1), prepare("9", round_=2))
    with pytest.raises(AssertionError, match=r"asked for more: Put.*P~0000000001~0000000003~"):
        play(
            creating(),
            MY_PUT,
            (LISTED, shows(*ballots[:2])),
            UNSEEN,
            (Pause(1), True),
            (LISTED, shows(*ballots[:3])),
            (Pause(2), True),
            (LISTED, shows(*ballots)),
            (Pause(3), True),
            (LISTED, shows(*ballots)),
        )


def test_whoever_has_backed_off_from_an_incarnation_that_ended_creates_the_next_one() -> None:
    ended = (LISTED, shows(prepare(), end("9.0")))
    making = creating()
    script = (MY_PUT, (LISTED, shows(prepare(), prepare("9"))), UNSEEN, later(), ended, WITHDRAW)
    with pytest.raises(AssertionError, match=r"asked for more: Put.*P~0000000002~"):
        play(making, *script)


def test_bytes_whose_put_was_not_answered_go_under_another_key() -> None:
    second = prepare(tries=1)
    script: list[tuple[Request, Any]] = [
        (put(prepare(), b"my bytes"), Maybe(LOST)),
        later(),
        (put(second, b"my bytes", tries=1), Written()),
        (LISTED, shows(prepare(), second)),
        UNSEEN,
        (put(f"{FOLDER}/A~{1:010d}~{0:010d}~{ME}.1~{ME}.1", tries=1), Written()),
        (LISTED, shows(prepare(), second, f"{FOLDER}/A~{1:010d}~{0:010d}~{ME}.1~{ME}.1")),
        (Publish(second, NAME.path, MINE), Written()),
    ]
    assert play(creating(), *script) == Created()


def test_a_put_that_wrote_nothing_is_sent_again_under_its_key() -> None:
    busy = (MY_PUT[0], TryAgain(BUSY))
    rest = (ALONE, UNSEEN, MY_VOTE, DECIDED, (PUBLISH, Written()))
    assert play(creating(), busy, later(), MY_PUT, *rest) == Created()


def test_a_vote_that_was_not_answered_is_sent_again() -> None:
    lost = (MY_VOTE[0], Maybe(LOST))
    rest = (MY_VOTE, DECIDED, (PUBLISH, Written()))
    assert play(creating(), MY_PUT, ALONE, UNSEEN, lost, later(), *rest) == Created()


@pytest.mark.parametrize("refused", [(MY_PUT[0], Refused(NO_RIGHTS)), (LISTED, Refused(NO_RIGHTS))])
def test_a_refusal_before_the_vote_is_a_failure_that_leaves_nothing(refused: tuple[Request, Any]) -> None:
    before = () if refused[0] == MY_PUT[0] else (MY_PUT,)
    with pytest.raises(PermissionError) as caught:
        play(creating(), *before, refused, WITHDRAW)
    assert caught.value is NO_RIGHTS


@pytest.mark.parametrize(
    "script",
    [
        ((MY_PUT[0], TryAgain(BUSY)),),
        ((MY_PUT[0], Maybe(BUSY)),),
        (MY_PUT, (LISTED, TryAgain(BUSY))),
        (MY_PUT, ALONE, (LOOK, TryAgain(BUSY))),
    ],
)
def test_no_answer_before_the_vote_is_a_failure(script: tuple[tuple[Request, Any], ...]) -> None:
    with pytest.raises(OSError, match="503") as caught:
        play(creating(), *script, too_late(), WITHDRAW)
    assert caught.value is BUSY


def test_others_who_come_between_until_the_deadline_make_who_has_not_voted_fail_for_certain() -> None:
    with pytest.raises(TimeoutError, match="other writers' ballots come between"):
        play(creating(), MY_PUT, (LISTED, shows(prepare(), prepare("9"))), UNSEEN, too_late(), WITHDRAW)


def test_all_bytes_of_a_creation_that_has_failed_go_whose_puts_were_not_answered_too() -> None:
    second = put(prepare(tries=1), b"my bytes", tries=1)
    gone = (Delete(prepare()), Deleted()), (Delete(prepare(tries=1)), Maybe(LOST))
    with pytest.raises(PermissionError):
        play(creating(), (MY_PUT[0], Maybe(LOST)), later(), (second, Refused(NO_RIGHTS)), *gone)


def test_bytes_on_which_the_accept_of_another_s_value_rests_stay_whatever_fails() -> None:
    lower = (prepare("0"), accept("0", "0.0"), prepare())
    helped = (put(accept(value="0.0")), Written()), (LISTED, Refused(NO_RIGHTS))
    with pytest.raises(PermissionError):
        play(creating(), MY_PUT, (LISTED, shows(*lower)), UNSEEN, *helped)


AFTER_THE_VOTE: list[tuple[tuple[Request, Any], ...]] = [
    ((MY_VOTE[0], Refused(NO_RIGHTS)),),
    ((MY_VOTE[0], Maybe(LOST)), too_late()),
    (MY_VOTE, (LISTED, Refused(NO_RIGHTS))),
    (MY_VOTE, (LISTED, TryAgain(BUSY)), too_late()),
    (MY_VOTE, DECIDED, (PUBLISH, Refused(NO_RIGHTS))),
    (MY_VOTE, DECIDED, (PUBLISH, Maybe(LOST)), too_late()),
]


@pytest.mark.parametrize("script", AFTER_THE_VOTE)
def test_after_the_vote_a_failure_is_unknown(script: tuple[tuple[Request, Any], ...]) -> None:
    with pytest.raises(OutcomeUnknown) as caught:
        play(creating(), MY_PUT, ALONE, UNSEEN, *script)
    assert caught.value.token == ME


INTERRUPTIONS = [KeyboardInterrupt, asyncio.CancelledError, SystemExit]


@pytest.mark.parametrize("interruption", INTERRUPTIONS)
def test_an_interruption_stays_one_and_carries_what_is_unknown(interruption: type[BaseException]) -> None:
    stop = interruption()
    with pytest.raises(interruption) as caught:
        play(creating(), MY_PUT, ALONE, UNSEEN, (MY_VOTE[0], stop))
    assert isinstance(caught.value.__cause__, OutcomeUnknown)
    with pytest.raises(interruption) as caught:
        play(creating(), MY_PUT, ALONE, (LOOK, interruption()), WITHDRAW)
    assert caught.value.__cause__ is None, "it had not voted"


def test_what_was_created_and_deleted_meanwhile_was_won() -> None:
    ended = (LISTED, shows(accept(), end(f"{ME}.0")))
    assert play(creating(), MY_PUT, ALONE, UNSEEN, MY_VOTE, ended) == Created()
    assert play(creating(), MY_PUT, ALONE, UNSEEN, MY_VOTE, DECIDED, (PUBLISH, Absent())) == Created()


def test_an_end_that_was_cleaned_up_may_have_been_mine() -> None:
    ended = (LISTED, shows(end(f"{OTHER}.0", k=2)))
    with pytest.raises(OutcomeUnknown):
        play(creating(), MY_PUT, ALONE, UNSEEN, MY_VOTE, ended)


def test_after_the_end_of_an_incarnation_the_next_one_is_created() -> None:
    dead = prepare(OTHER)
    ended = (LISTED, shows(prepare(), dead, end(f"{OTHER}.0")))
    second = prepare(k=2)
    vote = accept(k=2)
    left = held_by(f"{OTHER}.0~1")
    assert (
        play(
            creating(),
            MY_PUT,
            ended,
            (Delete(dead), Deleted()),
            WITHDRAW,
            (put(second, b"my bytes", k=2), Written()),
            (LISTED, shows(second, end(f"{OTHER}.0"))),
            (LOOK, left),
            (put(vote, k=2), Written()),
            (LISTED, shows(second, vote, end(f"{OTHER}.0"))),
            (Publish(second, NAME.path, MINE), Written()),
        )
        == Created()
    )


def test_on_a_disk_what_an_ended_incarnation_left_makes_way() -> None:
    second, vote = prepare(k=2), accept(k=2)
    publish = Publish(second, NAME.path, MINE)
    ended = shows(end(f"{OTHER}.0"))
    assert (
        play(
            creating(),
            MY_PUT,
            (LISTED, ended),
            WITHDRAW,
            (put(second, b"my bytes", k=2), Written()),
            (LISTED, shows(second, end(f"{OTHER}.0"))),
            UNSEEN,
            (put(vote, k=2), Written()),
            (LISTED, shows(second, vote, end(f"{OTHER}.0"))),
            (publish, Exists()),
            (LOOK, held_by(f"{OTHER}.0~1")),
            (Delete(NAME.path, "v1"), Deleted()),
            later(),
            (publish, Written()),
        )
        == Created()
    )


@pytest.mark.parametrize(
    ("there", "outcome"), [(f"{ME}.0~1", Created()), (f"{OTHER}.0~2", Created()), (None, OutcomeUnknown)]
)
def test_on_a_disk_another_object_in_the_way_is_looked_at(there: str | None, outcome: Any) -> None:
    script = (MY_PUT, ALONE, UNSEEN, MY_VOTE, DECIDED, (PUBLISH, Exists()), (LOOK, held_by(there)))
    if outcome is OutcomeUnknown:
        with pytest.raises(OutcomeUnknown):
            play(creating(), *script)
    else:
        assert play(creating(), *script) == outcome


# --- several names of one identity


TWIN = ordinary("bucket/t/name.gz")._replace(aliases=(NAME.path,), rank=1)


def test_a_name_is_decided_together_with_the_others_of_its_identity() -> None:
    theirs = (prepare(OTHER), accept(OTHER, f"{OTHER}.0"))
    mine = f"{prepare()}.1"
    bytes_put = Put(mine, SameBytes(b"my bytes"), MINE._replace(token=f"{ME}.0.1~1"))
    with pytest.raises(NameTaken) as caught:
        play(
            create(TWIN, BODY, MINE),
            (bytes_put, Written()),
            (LISTED, shows(mine, *theirs)),
            (Delete(mine), Deleted()),
            (LOOK, held_by(f"{OTHER}.0~1")),
        )
    assert caught.value.holder is not None
    assert caught.value.holder.token == OTHER


def test_a_name_is_not_there_while_another_of_its_identity_is() -> None:
    assert play(find(TWIN, MINE), (LISTED, shows(*THEIRS))) == Absent()
    look = Head(TWIN.path)
    seen = (LISTED, shows(*THEIRS))
    assert play(delete(TWIN, MINE), seen, (look, Absent()), seen, (LOOK, held_by(f"{OTHER}.0~1"))) is False


# --- readers


def test_one_listing_finds_a_name() -> None:
    found = play(find(NAME, MINE), (LISTED, shows(*THEIRS)))
    assert found == Located(Holder(OTHER, None, NOON), prepare(OTHER))


def test_a_reader_finishes_what_a_dead_writer_left() -> None:
    left = (*THEIRS, prepare("dead", round_=1))
    ballots = (*left, prepare(round_=2))
    vote = accept(value=f"{OTHER}.0", round_=2)
    found = play(
        find(NAME, MINE),
        (LISTED, shows(*left)),
        UNSEEN,
        later(),
        (LISTED, shows(*left)),
        UNSEEN,
        (put(prepare(round_=2)), Written()),
        (LISTED, shows(*ballots)),
        (put(vote), Written()),
        (LISTED, shows(*ballots, vote)),
    )
    assert found == Located(Holder(OTHER, None, NOON), prepare(OTHER))


def test_a_reader_leaves_writers_the_time_to_decide() -> None:
    now, soon = (*THEIRS, prepare("9")), (*THEIRS, prepare("9"), accept("9", f"{OTHER}.0"))
    found = play(find(NAME, MINE), (LISTED, shows(*now)), UNSEEN, later(), (LISTED, shows(*soon)))
    assert found == Located(Holder(OTHER, None, NOON), prepare(OTHER))


HIGHER = (LISTED, shows(*THEIRS, prepare("dead", round_=1)))
SHOWN = (LOOK, held_by(f"{OTHER}.0~1"))
CALLED = put(prepare(round_=2))


def test_what_is_published_is_read_without_a_ballot_whatever_ballot_has_begun() -> None:
    assert play(find(NAME, MINE), HIGHER, SHOWN) == Located(Holder(OTHER, None, NOON), prepare(OTHER))


@pytest.mark.parametrize("token", ["9.0~1", f"{OTHER}.0~2", OTHER, None])
def test_what_else_a_plain_name_shows_proves_nothing(token: str | None) -> None:
    other = (LOOK, held_by(token))
    with pytest.raises(AssertionError, match=r"asked for more: Put.*P~0000000001~0000000002~"):
        play(find(NAME, MINE), HIGHER, other, later(), HIGHER, other)


def test_who_may_not_write_cannot_know_a_name_that_nothing_proves() -> None:
    script = (HIGHER, UNSEEN, later(), HIGHER, UNSEEN, (CALLED, Refused(NO_RIGHTS)))
    with pytest.raises(OutcomeUnknown, match="may not finish") as caught:
        play(find(NAME, MINE), *script)
    assert caught.value.__cause__ is NO_RIGHTS


def test_who_need_not_know_takes_a_first_creation_that_nobody_was_told_of_for_absent() -> None:
    script = (HIGHER, UNSEEN, later(), HIGHER, UNSEEN, (CALLED, Refused(NO_RIGHTS)))
    assert play(find(NAME, MINE, helps=False), *script) == Absent()


def test_a_later_creation_may_be_hidden_and_is_unknown_to_who_may_not_write() -> None:
    second = (end("9.0"), prepare(OTHER, k=2), accept(OTHER, f"{OTHER}.0", k=2), prepare("9", k=2, round_=1))
    listed = (LISTED, shows(*second))
    refused = (put(prepare(k=2, round_=2), k=2), Refused(NO_RIGHTS))
    with pytest.raises(OutcomeUnknown):
        play(find(NAME, MINE, helps=False), listed, UNSEEN, later(), listed, UNSEEN, refused)


def test_a_key_of_an_incarnation_tells_that_the_one_before_has_ended() -> None:
    second = (prepare(OTHER, k=2), accept(OTHER, f"{OTHER}.0", k=2))
    found = play(find(NAME, MINE), (LISTED, shows(*THEIRS, *second)))
    assert found == Located(Holder(OTHER, None, NOON), prepare(OTHER, k=2))


def test_an_accept_whose_bytes_are_gone_says_nothing() -> None:
    assert play(find(NAME, MINE), (LISTED, shows(THEIRS[1])), UNSEEN) == Absent()
    ballot_alone = (prepare("9", round_=1), accept("9", f"{OTHER}.0", round_=1))
    assert play(find(NAME, MINE), (LISTED, shows(*ballot_alone)), UNSEEN) == Absent()


def test_a_store_that_cannot_be_listed_is_no_reader_without_rights() -> None:
    with pytest.raises(PermissionError):
        play(find(NAME, MINE, helps=False), (LISTED, Refused(NO_RIGHTS)))


def test_a_name_without_a_vote_is_not_there() -> None:
    assert play(find(NAME, MINE), (LISTED, shows(prepare(OTHER))), UNSEEN) == Absent()
    left = (LOOK, held_by(f"{OTHER}.0~1"))
    assert play(find(NAME, MINE), (LISTED, shows(end(f"{OTHER}.0"))), left) == Absent()


@pytest.mark.parametrize(("token", "creation"), [(None, None), (OTHER, OTHER), (f"{OTHER}.0~3", OTHER)])
def test_a_name_that_no_ballot_knows_is_what_its_plain_name_shows(
    token: str | None, creation: str | None
) -> None:
    found = play(find(NAME, MINE), (LISTED, shows()), (LOOK, held_by(token)), (LISTED, shows()))
    assert found == Located(Holder(creation, "a-writer", NOON, 8, "v1"), NAME.path)


def test_a_name_that_is_created_meanwhile_is_looked_for_again() -> None:
    found = play(
        find(NAME, MINE),
        (LISTED, shows()),
        (LOOK, held_by(f"{OTHER}.0~1")),
        (LISTED, shows(*THEIRS)),
        later(),
    )
    assert found == Located(Holder(OTHER, None, NOON), prepare(OTHER))


def test_an_unknown_outcome_is_resolved_by_its_token() -> None:
    more = (Head(prepare()), held_by(f"{ME}.0~1"))
    assert play(resolve(NAME, MINE), DECIDED, DECIDED, more) == Holder(ME, "a-writer", NOON, 8, "v1")
    assert play(resolve(NAME, MINE), DECIDED, DECIDED, (Head(prepare()), Absent())) == Holder(ME, None, NOON)
    assert play(resolve(NAME, MINE), (LISTED, shows()), UNSEEN, (LISTED, shows())) is None
    with pytest.raises(NameTaken):
        play(resolve(NAME, MINE), *[(LISTED, shows(*THEIRS))] * 2)


ANEW = (prepare(OTHER, k=3), accept(OTHER, f"{OTHER}.0", k=3))


@pytest.mark.parametrize("k", [1, 2])
def test_what_was_created_and_deleted_before_another_was_created_has_not_lost(k: int) -> None:
    seen = (LISTED, shows(end("8.0", k=3 - k), end(f"{ME}.0", k=k), *ANEW))
    assert play(resolve(NAME, MINE), seen, seen) is None


def test_who_is_in_no_end_has_lost_only_if_all_of_them_are_there() -> None:
    whole, cleaned = (
        (LISTED, shows(end("8.0"), end("9.0", k=2), *ANEW)),
        (LISTED, shows(end("9.0", k=2), *ANEW)),
    )
    with pytest.raises(NameTaken):
        play(resolve(NAME, MINE), whole, whole)
    with pytest.raises(OutcomeUnknown, match="created, and deleted since") as unknown:
        play(resolve(NAME, MINE), cleaned, cleaned)
    assert isinstance(unknown.value.__cause__, NameTaken)


def test_a_store_that_can_not_be_read_keeps_an_outcome_unknown() -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(resolve(NAME, MINE), (LISTED, TryAgain(BUSY)), too_late())
    assert unknown.value.__cause__ is BUSY


# --- keys


def test_the_ballots_of_a_name_lie_in_a_folder_of_its_own() -> None:
    assert folder_of(NAME) == FOLDER
    assert folder_of(ordinary("bucket/t/a b~ü")) == "bucket/t/.putifabsent/ballot/=/a%20b~%C3%BC"
    long, longer = (folder_of(ordinary(f"bucket/t/{'x' * n}")) for n in (200, 201))
    assert long.endswith("/" + "x" * 200)
    assert longer.rpartition("/")[2].startswith("sha256=")


@pytest.mark.parametrize("stray", ["P~1~x~v", "P~1", "X", "Q~1~2~3", "A~1~2~3", "README", "P~a~0~v.0"])
def test_a_stray_file_is_no_ballot(stray: str) -> None:
    assert Scene.of([Entry(f"{FOLDER}/{stray}", NOON)]) == Scene()


def test_a_pause_is_asked_for_by_its_number() -> None:
    higher = shows(prepare(), prepare("9"))
    again = [put(prepare(round_=round_)) for round_ in (1, 2)]
    with pytest.raises(TimeoutError):
        play(
            creating(),
            MY_PUT,
            (LISTED, higher),
            UNSEEN,
            (Pause(1), True),
            (LISTED, higher),
            (again[0], Written()),
            (LISTED, shows(prepare(), prepare(round_=1), prepare("9", round_=1))),
            (Pause(2), True),
            (LISTED, shows(prepare(), prepare(round_=1), prepare("9", round_=1))),
            (again[1], Written()),
            (LISTED, shows(prepare(round_=2), prepare("9", round_=3))),
            (Pause(3), False),
            WITHDRAW,
        )
