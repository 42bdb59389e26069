"""Claiming a name: each answer of store and registry, and exactly the requests that follow it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Entry,
    Exists,
    Holder,
    Listed,
    Maybe,
    Refused,
    TryAgain,
    Written,
)
from putifabsent.backends.registries import Claim, Claimed, FoundClaim, NotAsExpected
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim import claims as real
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import Both, Delete, Head, List, Pause, Publish, Put, ReadClaim, WriteClaim
from tests.shim.claim_requests import (
    ASK,
    CLAIM,
    CLAIMED,
    FOLDER,
    HELD,
    LOOK,
    MINE,
    NAME,
    NO_RIGHTS,
    PATH,
    PUBLISH,
    PUBLISHED,
    PUT,
    REGISTRY,
    REMOVED,
    TABLE,
    WHEN,
    claim,
    create,
    dead,
    delete,
    key,
    mark,
    publish,
    put,
    put_and_look,
    shows,
    write,
)
from tests.shim.scripted import BODY, BUSY, LOST, ME, NOON, OTHER, later, play, too_late

# --- creating


def test_a_creation_takes_four_requests_in_three_round_trips() -> None:
    assert play(create(), PUT, CLAIMED, PUBLISHED) == Created("v1")


@pytest.mark.parametrize("attempt", [0, 7], ids=["its own answer was lost", "another run of it"])
def test_a_creation_says_whether_it_was_claimed_for_other_bytes_than_its_own(attempt: int) -> None:
    there = claim(attempt=attempt)
    claimed = CLAIM, NotAsExpected(there)
    created = play(create(), PUT, claimed, (publish(there), Written("v1")))
    assert created.again == (attempt != 0)


def test_a_name_claimed_by_another_is_taken_and_my_bytes_go() -> None:
    with pytest.raises(NameTaken) as taken:
        play(create(), PUT, HELD, WHEN, REMOVED)
    assert taken.value.name == PATH
    assert taken.value.holder == Holder(OTHER, "a-writer", NOON, 8, "v1")


def test_a_name_whose_winner_the_store_does_not_show_is_taken_all_the_same() -> None:
    with pytest.raises(NameTaken) as taken:
        play(create(), PUT, HELD, (Head(key(OTHER)), Refused(NO_RIGHTS)), REMOVED)
    assert taken.value.holder == Holder(OTHER, "a-writer")


def test_a_dead_name_is_created_in_its_next_incarnation_after_its_bytes_are_gone() -> None:
    second = claim(ME, 2)
    script = (
        (CLAIM, NotAsExpected(dead())),
        REMOVED,
        (Delete(key(OTHER)), Deleted()),
        (put(2), Written()),
        (write(second, dead()), Claimed()),
        (publish(second), Written("v2")),
    )
    assert play(create(), PUT, *script) == Created("v2")


def test_bytes_of_the_dead_that_can_not_be_removed_keep_the_next_incarnation_from_beginning() -> None:
    refused = (Delete(key(OTHER)), Refused(NO_RIGHTS))
    with pytest.raises(PermissionError, match="403"):
        play(create(), PUT, (CLAIM, NotAsExpected(dead())), REMOVED, refused, REMOVED)


# --- putting the bytes


def test_bytes_whose_put_was_not_answered_get_another_key() -> None:
    second = claim(ME, attempt=1)
    script = (
        (put_and_look(), (Maybe(LOST), Absent())),
        later(1),
        (put(1, 1), Written()),
        (write(second), Claimed()),
        (publish(second), Written()),
    )
    assert play(create(), *script) == Created()


def test_bytes_that_were_not_written_may_have_the_same_key_again() -> None:
    script = (put_and_look(), (TryAgain(BUSY), Absent())), later(1), (put(), Written()), CLAIMED, PUBLISHED
    assert play(create(), *script) == Created("v1")


def test_a_refusal_of_the_bytes_is_raised_as_it_is() -> None:
    with pytest.raises(PermissionError) as refused:
        play(create(), (put_and_look(), (Refused(NO_RIGHTS), Absent())), REMOVED)
    assert refused.value is NO_RIGHTS


@pytest.mark.parametrize(
    "script",
    [
        ((put_and_look(), (TryAgain(BUSY), Absent())), too_late(1)),
        ((put_and_look(), (Maybe(BUSY), Absent())), too_late(1)),
        ((put_and_look(), (Written(), TryAgain(BUSY))), too_late(1)),
        ((put_and_look(), (Written(), shows(None))), (ASK, TryAgain(BUSY)), too_late(1)),
        (PUT, (CLAIM, TryAgain(BUSY)), too_late(1)),
        (PUT, HELD, (Head(key(OTHER)), TryAgain(BUSY)), too_late(1)),
        (PUT, (CLAIM, NotAsExpected(dead())), REMOVED, (Delete(key(OTHER)), Maybe(BUSY)), too_late(1)),
    ],
)
def test_what_has_claimed_nothing_until_the_deadline_has_failed_for_certain(script: Any) -> None:
    with pytest.raises(OSError, match="503") as failed:
        play(create(), *script, REMOVED)
    assert failed.value is BUSY


def test_an_answer_once_lost_stays_lost() -> None:
    script = (CLAIM, Maybe(LOST)), later(1), (CLAIM, TryAgain(BUSY)), too_late(2)
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(), PUT, *script)
    assert unknown.value.__cause__ is BUSY


# --- the plain name


def test_a_name_without_a_claim_is_older_than_the_shim_and_taken() -> None:
    seen = (put_and_look(), (Written(), shows(None)))
    with pytest.raises(NameTaken) as taken:
        play(create(), seen, (ASK, Absent()), REMOVED)
    assert taken.value.holder == shows(None).holder


def test_the_copy_of_a_table_made_elsewhere_has_names_without_claims_and_they_are_taken() -> None:
    copy = shows(mark(OTHER))
    with pytest.raises(NameTaken):
        play(create(), (put_and_look(), (Written(), copy)), (ASK, Absent()), (LOOK, copy), REMOVED)


def test_what_had_a_claim_that_was_forgotten_since_is_gone() -> None:
    seen = (put_and_look(), (Written(), shows(mark(OTHER))))
    assert play(create(), seen, (ASK, Absent()), (LOOK, Absent()), CLAIMED, PUBLISHED) == Created("v1")


def test_what_went_round_the_shim_after_a_deletion_holds_the_name() -> None:
    seen = (put_and_look(), (Written(), shows("foreign")))
    with pytest.raises(NameTaken):
        play(create(), seen, (ASK, FoundClaim(dead())), REMOVED)


def test_a_later_incarnation_than_there_ever_was_is_a_copy_from_elsewhere_and_holds_the_name() -> None:
    copy = shows(mark(OTHER, 5))
    with pytest.raises(NameTaken):
        play(create(), (put_and_look(), (Written(), copy)), (ASK, FoundClaim(dead())), (LOOK, copy), REMOVED)


def test_what_a_deletion_has_left_under_the_plain_name_is_nobody_s() -> None:
    second = claim(ME, 2)
    script = (
        (put_and_look(), (Written(), shows(mark(OTHER)))),
        (ASK, FoundClaim(dead())),
        REMOVED,
        (Delete(key(OTHER)), Deleted()),
        (put(2), Written()),
        (write(second, dead()), Claimed()),
        (publish(second), Written()),
    )
    assert play(create(), *script) == Created()


def test_a_published_name_is_taken_without_a_write() -> None:
    seen = (put_and_look(), (Written(), shows(mark(OTHER))))
    with pytest.raises(NameTaken) as taken:
        play(create(), seen, (ASK, FoundClaim(claim(OTHER))), WHEN, REMOVED)
    assert taken.value.holder is not None
    assert taken.value.holder.token == OTHER


def test_a_look_without_an_answer_is_repeated() -> None:
    seen = (put_and_look(), (Written(), TryAgain(BUSY)))
    assert play(create(), seen, later(1), (LOOK, Absent()), CLAIMED, PUBLISHED) == Created("v1")


def test_a_403_on_the_look_is_not_gone() -> None:
    with pytest.raises(PermissionError):
        play(create(), (put_and_look(), (Written(), Refused(NO_RIGHTS))), REMOVED)


# --- the registry's answers


def test_a_lost_answer_is_followed_by_the_identical_claim() -> None:
    script = (CLAIM, Maybe(LOST)), later(1), CLAIMED, PUBLISHED
    assert play(create(), PUT, *script) == Created("v1")


def test_my_own_claim_after_a_lost_answer_is_a_win() -> None:
    script = (CLAIM, Maybe(LOST)), later(1), (CLAIM, NotAsExpected(claim())), PUBLISHED
    assert play(create(), PUT, *script) == Created("v1")


def test_another_claim_of_the_same_incarnation_is_a_loss_whatever_was_lost() -> None:
    with pytest.raises(NameTaken):
        play(create(), PUT, (CLAIM, Maybe(LOST)), later(1), HELD, WHEN, REMOVED)


def test_another_incarnation_after_a_lost_answer_is_unknown_and_my_bytes_stay() -> None:
    # Mine may have been the first, and deleted since.
    with pytest.raises(OutcomeUnknown):
        play(create(), PUT, (CLAIM, Maybe(LOST)), later(1), (CLAIM, NotAsExpected(claim(OTHER, 2))))


def test_another_end_of_the_same_incarnation_was_never_mine() -> None:
    second = claim(ME, 2)
    script = (
        (CLAIM, Maybe(LOST)),
        later(1),
        (CLAIM, NotAsExpected(dead())),
        REMOVED,
        (Delete(key(OTHER)), Deleted()),
        (put(2), Written()),
        (write(second, dead()), NotAsExpected(claim(OTHER, 3))),
        (Head(key(OTHER, 3)), Refused(NO_RIGHTS)),
        (Delete(key(ME, 2)), Deleted()),
    )
    with pytest.raises(NameTaken):
        play(create(), PUT, *script)


LOST_CLAIM = (HELD, (Head(key(OTHER)), Absent()))
"""A living claim, and its bytes are gone."""
DIES = (write(dead(), claim(OTHER)), Claimed())
UNSEEN = (LOOK, Absent()), (ASK, FoundClaim(claim(OTHER)))
"""Nor does the plain name show it."""


def shows_keys(*keys: str) -> Any:
    return List(FOLDER), Listed(tuple(Entry(each, NOON) for each in keys))


def test_a_living_claim_of_which_nothing_is_left_dies_and_the_next_incarnation_is_mine() -> None:
    second = claim(ME, 2)
    script = (
        *UNSEEN,
        shows_keys(key()),
        DIES,
        REMOVED,
        (Delete(key(OTHER)), Deleted()),
        (put(2), Written()),
        (write(second, dead()), Claimed()),
        (publish(second), Written("v2")),
    )
    assert play(create(), PUT, *LOST_CLAIM, *script) == Created("v2")


def test_a_living_claim_whose_bytes_are_listed_lives_whatever_looks_have_said() -> None:
    # Who stood before the store did not find it for a while, and said 404 of all.
    with pytest.raises(NameTaken):
        play(create(), PUT, *LOST_CLAIM, *UNSEEN, shows_keys(key(OTHER), key()), REMOVED)


def test_a_store_that_shows_nothing_of_mine_either_proves_nothing_of_a_living_claim() -> None:
    # It is a copy that is behind; or somebody removes the table.
    with pytest.raises(OSError, match="neither"):
        play(create(), PUT, *LOST_CLAIM, *UNSEEN, shows_keys(), REMOVED)


@pytest.mark.parametrize("shown", [shows(mark(OTHER)), shows("foreign"), Refused(NO_RIGHTS)], ids=type)
def test_a_living_claim_whose_plain_name_may_be_there_is_taken(shown: Any) -> None:
    with pytest.raises(NameTaken):
        play(create(), PUT, *LOST_CLAIM, (LOOK, shown), REMOVED)


def test_a_claim_that_has_ended_since_its_bytes_were_looked_for_makes_way() -> None:
    ended = (LOOK, Absent()), (ASK, FoundClaim(dead())), REMOVED, (Delete(key(OTHER)), Deleted())
    with pytest.raises(AssertionError, match=r"asked for more: Put.*0~2~"):
        play(create(), PUT, *LOST_CLAIM, *ended)


def test_a_claim_that_was_forgotten_since_was_there() -> None:
    with pytest.raises(NameTaken):
        play(create(), PUT, *LOST_CLAIM, (LOOK, Absent()), (ASK, Absent()), REMOVED)


def test_a_dead_claim_of_mine_is_unknown() -> None:
    with pytest.raises(OutcomeUnknown, match="deleted since"):
        play(create(), PUT, (CLAIM, Maybe(LOST)), later(1), (CLAIM, NotAsExpected(dead(ME))))


def test_a_refused_claim_is_raised_as_it_is_and_my_bytes_go() -> None:
    with pytest.raises(PermissionError) as refused:
        play(create(), PUT, (CLAIM, Refused(NO_RIGHTS)), REMOVED)
    assert refused.value is NO_RIGHTS


def test_a_refusal_after_a_lost_answer_is_unknown_and_my_bytes_stay() -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(), PUT, (CLAIM, Maybe(LOST)), later(1), (CLAIM, Refused(NO_RIGHTS)))
    assert unknown.value.__cause__ is NO_RIGHTS


def test_no_certain_answer_until_the_deadline_is_unknown_and_my_bytes_stay() -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(), PUT, (CLAIM, Maybe(LOST)), too_late(1))
    assert (unknown.value.name, unknown.value.token) == (PATH, ME)
    assert unknown.value.__cause__ is LOST


def test_who_expected_a_claim_that_is_forgotten_since_begins_again_under_another_key() -> None:
    again = claim(attempt=1)
    script = (put(attempt=1), Written()), (write(again), Claimed()), (publish(again), Written("v1"))
    begun = PUT, (CLAIM, NotAsExpected(None)), REMOVED, later(1)
    assert play(create(), *begun, *script) == Created("v1")


def test_a_claim_that_is_forgotten_after_a_lost_answer_may_have_been_mine() -> None:
    lost = (CLAIM, Maybe(LOST)), later(1), (CLAIM, NotAsExpected(None))
    with pytest.raises(OutcomeUnknown, match="forgotten"):
        play(create(), PUT, *lost)


# --- publishing


def test_bytes_that_are_gone_were_deleted_meanwhile_and_it_is_won() -> None:
    script = (PUBLISH, Absent()), (ASK, FoundClaim(claim(live=False)))
    assert play(create(), PUT, CLAIMED, *script) == Created()


ENDS = write(claim(live=False), claim())


@pytest.mark.parametrize(
    "script",
    [
        ((ENDS, Claimed()),),
        ((ENDS, Maybe(LOST)), later(1), (ENDS, NotAsExpected(claim(live=False)))),
        ((ENDS, Maybe(LOST)), too_late(1)),
    ],
)
def test_bytes_that_are_gone_though_nobody_has_deleted_them_are_unknown(script: Any) -> None:
    gone = (PUBLISH, Absent()), (ASK, FoundClaim(claim()))
    with pytest.raises(OutcomeUnknown):
        play(create(), PUT, CLAIMED, *gone, *script)


def test_a_publication_without_an_answer_is_repeated() -> None:
    script = (PUBLISH, Maybe(LOST)), later(1), (PUBLISH, TryAgain(BUSY)), later(2), PUBLISHED
    assert play(create(), PUT, CLAIMED, *script) == Created("v1")


def test_a_publication_without_an_answer_until_the_deadline_is_won() -> None:
    # It is decided: a reader will publish it.
    assert play(create(), PUT, CLAIMED, (PUBLISH, Maybe(LOST)), too_late(1)) == Created()


def test_a_claim_that_can_not_be_published_is_said() -> None:
    with pytest.raises(OutcomeUnknown, match="it is created, and can't be published") as unknown:
        play(create(), PUT, CLAIMED, (PUBLISH, Refused(NO_RIGHTS)))
    assert unknown.value.__cause__ is NO_RIGHTS


def second_incarnation() -> tuple[Any, ...]:
    return (
        PUT,
        (CLAIM, NotAsExpected(dead())),
        REMOVED,
        (Delete(key(OTHER)), Deleted()),
        (put(2), Written()),
        (write(claim(ME, 2), dead()), Claimed()),
    )


def test_what_has_ended_makes_way_where_the_store_can_not_overwrite() -> None:
    script = (
        (publish(claim(ME, 2)), Exists()),
        (LOOK, shows(mark(OTHER), "old")),
        (Delete(PATH, "old"), Deleted()),
        (publish(claim(ME, 2)), Written("v2")),
    )
    assert play(create(), *second_incarnation(), *script) == Created("v2")


def test_what_went_round_the_shim_does_not_make_way_and_it_is_won() -> None:
    script = (
        (publish(claim(ME, 2)), Exists()),
        (LOOK, shows("foreign")),
    )
    assert play(create(), *second_incarnation(), *script) == Created()


def test_what_has_ended_and_does_not_go_at_once_is_removed_again() -> None:
    second = publish(claim(ME, 2))
    ended = (LOOK, shows(mark(OTHER), "old"))
    script = (
        ((second, Exists()), ended, (Delete(PATH, "old"), Maybe(LOST)), (second, Exists()), later(1)),
        ((second, Exists()), ended, (Delete(PATH, "old"), Deleted()), (second, Written("v2"))),
    )
    assert play(create(), *second_incarnation(), *script[0], *script[1]) == Created("v2")


# --- interruptions

INTERRUPTIONS = [KeyboardInterrupt, asyncio.CancelledError, SystemExit]


@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_interrupted_while_it_claims_it_stays_an_interruption_with_its_token(
    kind: type[BaseException],
) -> None:
    stop = kind()
    with pytest.raises(kind) as stopped:
        play(create(), PUT, (CLAIM, stop))
    assert stopped.value is stop
    assert isinstance(stop.__cause__, OutcomeUnknown)
    assert (stop.__cause__.name, stop.__cause__.token) == (PATH, ME)


def test_interrupted_before_it_claims_nothing_is_unknown_and_my_bytes_go() -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create(), (put_and_look(), stop), REMOVED)
    assert stop.__cause__ is None


def test_interrupted_after_a_lost_answer_it_carries_its_token() -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create(), PUT, (CLAIM, Maybe(LOST)), (Pause(1), stop))
    assert isinstance(stop.__cause__, OutcomeUnknown)


def test_interrupted_after_a_certain_answer_that_nothing_was_claimed_nothing_is_unknown() -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create(), PUT, (CLAIM, TryAgain(BUSY)), (Pause(1), stop), REMOVED)
    assert stop.__cause__ is None


@pytest.mark.parametrize("answer", [Claimed(), NotAsExpected(claim())], ids=["claimed", "mine"])
def test_interrupted_while_it_publishes_it_carries_its_token(answer: Any) -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(create(), PUT, (CLAIM, answer), (PUBLISH, stop))
    assert isinstance(stop.__cause__, OutcomeUnknown)


def test_an_unforeseen_error_of_a_client_is_unknown() -> None:
    bug = RuntimeError("a bug of the client")
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(), PUT, (CLAIM, bug))
    assert unknown.value.__cause__ is bug


def test_an_abandoned_creation_asks_for_nothing_more() -> None:
    protocol = create()
    protocol.send(None)
    assert protocol.send((Written(), Absent())) == CLAIM
    protocol.close()


# --- names of one identity

ALIASED = NAME._replace(aliases=("bucket/t/first",), rank=1)
FIRST = ordinary("bucket/t/first")._replace(aliases=(PATH,), rank=0)


def of_first(token: str, rank: int, incarnation: int = 1, *, live: bool = True) -> Claim:
    path = f"bucket/t/.putifabsent/claims/=/first/{rank}~{incarnation}~{token}.0"
    return replace(claim(token, incarnation, live=live), key=path)


ASK_FIRST = ReadClaim(REGISTRY, "s3://bucket/t/first")


def test_all_names_of_an_identity_are_looked_at_and_share_one_claim() -> None:
    mine = of_first(ME, 1)
    script = (
        (Head("bucket/t/first"), Absent()),
        (Both(Put(mine.key, BODY, MINE._replace(token=mark())), LOOK), (Written(), Absent())),
        (WriteClaim(REGISTRY, "s3://bucket/t/first", mine, None), Claimed()),
        (Publish(mine.key, PATH, MINE), Written("v1")),
    )
    assert play(create(ALIASED), *script) == Created("v1")


def test_another_name_of_the_identity_that_is_older_than_the_shim_has_it() -> None:
    mine = of_first(ME, 1)
    script = (
        (Head("bucket/t/first"), shows(None)),
        (Both(Put(mine.key, BODY, MINE._replace(token=mark())), LOOK), (Written(), Absent())),
        (ASK_FIRST, Absent()),
        (Delete(mine.key), Deleted()),
    )
    with pytest.raises(NameTaken):
        play(create(ALIASED), *script)


def test_another_name_that_can_not_be_looked_at_is_no_loss_and_nothing_is_put() -> None:
    with pytest.raises(PermissionError):
        play(create(ALIASED), (Head("bucket/t/first"), Refused(NO_RIGHTS)))


def test_the_claim_of_another_name_of_the_identity_makes_this_one_neither_found_nor_deleted() -> None:
    theirs = FoundClaim(of_first(OTHER, 0))
    script = (ASK_FIRST, theirs), (LOOK, Absent())
    assert play(real.find(TABLE, ALIASED, MINE), *script) == Absent()
    assert play(delete(ALIASED), *script) is False
