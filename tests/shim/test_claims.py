"""Claiming a name: each answer of store and registry, and exactly the requests that follow it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from putifabsent.backends.base import (
    Absent,
    Created,
    Creation,
    Deleted,
    Exists,
    Found,
    Holder,
    Listed,
    Maybe,
    Refused,
    TryAgain,
    Written,
)
from putifabsent.backends.registries import Claim, Claimed, Forgotten, FoundClaim, NotAsExpected
from putifabsent.errors import NameExpired, NameTaken, OutcomeUnknown
from putifabsent.shim import claims as real
from putifabsent.shim.names import Name, Series, ordinary
from putifabsent.shim.reading import Located
from putifabsent.shim.requests import (
    Both,
    Delete,
    ForgetClaim,
    Head,
    List,
    Pause,
    Publish,
    Put,
    ReadClaim,
    WriteClaim,
)
from tests.shim.scripted import BODY, BUSY, LOST, ME, NOON, OTHER, later, numbered, play, too_late

PATH = "bucket/t/name"
NAME = ordinary(PATH)
FOLDER = "bucket/t/.putifabsent/claims/=/name"
REGISTRY: Any = "the registry"
IDENTITY = f"s3://{PATH}"
MINE = Creation(ME, "my-writer", NAME.state)
NO_RIGHTS = PermissionError("403")
TABLE = {"claims": REGISTRY, "place": "s3://"}
THIRD = "33333333-3333-4333-8333-333333333333"
LOOK = Head(PATH)
ASK = ReadClaim(REGISTRY, IDENTITY)


def key(token: str = ME, incarnation: int = 1, attempt: int = 0) -> str:
    return f"{FOLDER}/0~{incarnation}~{token}.{attempt}"


def mark(token: str = ME, incarnation: int = 1, attempt: int = 0) -> str:
    return f"{token}.{attempt}~{incarnation}"


def claim(token: str = ME, incarnation: int = 1, *, live: bool = True, attempt: int = 0) -> Claim:
    writer = "my-writer" if token == ME else "a-writer"
    return Claim(incarnation, live=live, key=key(token, incarnation, attempt), token=token, writer=writer)


def dead(token: str = OTHER, incarnation: int = 1) -> Claim:
    return claim(token, incarnation, live=False)


def put(incarnation: int = 1, attempt: int = 0) -> Put:
    token = mark(ME, incarnation, attempt)
    return Put(key(ME, incarnation, attempt), BODY, MINE._replace(token=token))


def put_and_look(attempt: int = 0) -> Both:
    return Both(put(1, attempt), LOOK)


def write(mine: Claim, expected: Claim | None = None) -> WriteClaim:
    return WriteClaim(REGISTRY, IDENTITY, mine, expected)


def publish(mine: Claim, creation: Creation = MINE) -> Publish:
    return Publish(mine.key, PATH, creation)


def shows(token: str | None, version: str = "v1") -> Found:
    return Found(Holder(token, "a-writer", NOON, 8, version))


def create(name: Name = NAME) -> Any:
    return real.create(name, BODY, MINE, **TABLE)


def find(*, helps: bool = True) -> Any:
    return real.find(NAME, MINE, helps=helps, **TABLE)


def resolve(name: Name = NAME) -> Any:
    return real.resolve(name, MINE, **TABLE)


def delete(name: Name = NAME) -> Any:
    return real.delete(name, MINE, **TABLE)


def clean(name: Name = NAME) -> Any:
    return real.clean(name, MINE, **TABLE)


PUT = (put_and_look(), (Written("s1"), Absent()))
"""The bytes are put, and nobody is there."""
CLAIM = write(claim())
CLAIMED = (CLAIM, Claimed())
PUBLISH = publish(claim())
PUBLISHED = (PUBLISH, Written("v1"))
REMOVED = (Delete(key()), Deleted())
HELD = (CLAIM, NotAsExpected(claim(OTHER)))
WHEN = (Head(key(OTHER)), shows(mark(OTHER)))
"""A look at the winner's bytes says when it was."""


# --- creating


def test_a_creation_takes_four_requests_in_three_round_trips() -> None:
    assert play(create(), PUT, CLAIMED, PUBLISHED) == Created("v1")


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
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(), PUT, (CLAIM, NotAsExpected(dead())), REMOVED, refused, REMOVED)
    assert unknown.value.__cause__ is NO_RIGHTS


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


def test_bytes_that_are_not_taken_until_the_deadline_are_unknown() -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(), (put_and_look(), (TryAgain(BUSY), Absent())), too_late(1), REMOVED)
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


def test_a_living_claim_of_which_nothing_is_left_dies_and_the_next_incarnation_is_mine() -> None:
    second = claim(ME, 2)
    script = (
        (LOOK, Absent()),
        (ASK, FoundClaim(claim(OTHER))),
        DIES,
        REMOVED,
        (Delete(key(OTHER)), Deleted()),
        (put(2), Written()),
        (write(second, dead()), Claimed()),
        (publish(second), Written("v2")),
    )
    assert play(create(), PUT, *LOST_CLAIM, *script) == Created("v2")


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


def test_a_claim_that_was_not_written_until_the_deadline_is_unknown() -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(create(), PUT, (CLAIM, TryAgain(BUSY)), too_late(1), REMOVED)
    assert unknown.value.__cause__ is BUSY


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
    ended = claim(live=False)
    script = (PUBLISH, Absent()), (write(ended, claim()), NotAsExpected(ended))
    assert play(create(), PUT, CLAIMED, *script) == Created()


def test_bytes_that_are_gone_though_nobody_has_deleted_them_are_unknown() -> None:
    script = (PUBLISH, Absent()), (write(claim(live=False), claim()), Claimed())
    with pytest.raises(OutcomeUnknown, match="nobody has deleted it"):
        play(create(), PUT, CLAIMED, *script)


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
    assert play(real.find(ALIASED, MINE, **TABLE), *script) == Absent()
    assert play(delete(ALIASED), *script) is None


# --- numbers

NUMBER = "bucket/t/snapshot-5"
NUMBERED = numbered(ordinary(NUMBER), 5, re.compile(r"snapshot-(?P<n>\d+)"), "bucket/t/snapshot-4")
NTH = replace(claim(), key="bucket/t/.putifabsent/claims/=/snapshot-5/0~1~" + f"{ME}.0")
ASK_NTH = ReadClaim(REGISTRY, f"s3://{NUMBER}")
NTH_CLAIM = WriteClaim(REGISTRY, f"s3://{NUMBER}", NTH, None)
NTH_WON = (
    (Both(Put(NTH.key, BODY, MINE._replace(token=mark())), Head(NUMBER)), (Written(), Absent())),
    (NTH_CLAIM, Claimed()),
    (Publish(NTH.key, NUMBER, MINE), Written("v1")),
)
BEFORE = Head("bucket/t/snapshot-4")


def listed(**numbers: timedelta) -> Listed:
    from putifabsent.backends.base import Entry

    return Listed(
        tuple(Entry(f"bucket/t/{name}".replace("_", "-"), NOON + at) for name, at in numbers.items())
    )


def test_a_number_whose_predecessor_is_there_stands() -> None:
    assert play(create(NUMBERED), *NTH_WON, (BEFORE, shows(None))) == Created("v1")


def test_the_first_number_has_no_predecessor_to_look_for() -> None:
    first = NUMBERED._replace(series=Series(1, 1, (), re.compile("x")))
    assert play(create(first), *NTH_WON) == Created("v1")


def numbers(own: timedelta, **others: timedelta) -> tuple[tuple[Any, Any], ...]:
    """The entry before is gone; the bytes were put at noon, and published so much later."""
    entries = listed(snapshot_5=own, **others)
    return (BEFORE, Absent()), (List("bucket/t"), entries), (Head(NTH.key), shows(mark()))


def test_a_number_counts_where_the_next_one_is_clearly_newer_than_its_publication() -> None:
    script = numbers(timedelta(minutes=1), snapshot_6=timedelta(hours=1))
    assert play(create(NUMBERED), *NTH_WON, *script) == Created("v1")


def test_a_next_number_between_the_bytes_and_the_publication_proves_nothing() -> None:
    """The claim lies between the two, and may have been sent after a pause."""
    script = numbers(timedelta(hours=1), snapshot_6=timedelta(minutes=30))
    with pytest.raises(OutcomeUnknown):
        play(create(NUMBERED), *NTH_WON, *script)


@pytest.mark.parametrize("age", [timedelta(), -timedelta(hours=1)], ids=str)
def test_a_next_number_that_is_not_published_may_be_there(age: timedelta) -> None:
    entries = List("bucket/t"), listed(snapshot_5=timedelta(), snapshot_7=-age)
    script = *numbers(timedelta(), snapshot_7=-age), entries
    with pytest.raises(OutcomeUnknown):
        play(create(NUMBERED), *NTH_WON, *script)


STALE = numbers(timedelta(), snapshot_6=-timedelta(hours=1))
END_NTH = WriteClaim(REGISTRY, f"s3://{NUMBER}", replace(NTH, live=False), NTH)


def test_a_number_that_had_expired_is_freed_again_and_taken() -> None:
    script = (
        (END_NTH, Claimed()),
        (Delete(NTH.key), Deleted()),
        (Head(NUMBER), shows(mark(), "v1")),
        (Delete(NUMBER, "v1"), Deleted()),
    )
    with pytest.raises(NameExpired):
        play(create(NUMBERED), *NTH_WON, *STALE, *script)


def test_a_number_that_had_expired_and_can_not_be_freed_is_unknown() -> None:
    with pytest.raises(OutcomeUnknown):
        play(create(NUMBERED), *NTH_WON, *STALE, (END_NTH, Maybe(LOST)), too_late(1))


def test_a_number_that_is_gone_when_it_is_looked_at_again_is_unknown() -> None:
    script = (*STALE[:2], (Head(NTH.key), Absent()))
    with pytest.raises(OutcomeUnknown, match="removed before"):
        play(create(NUMBERED), *NTH_WON, *script)


def test_a_later_resolution_does_not_free_a_number() -> None:
    found = (ASK_NTH, FoundClaim(NTH)), (Both(Head(NTH.key), Head(NUMBER)), (shows(mark()), shows(mark())))
    with pytest.raises(OutcomeUnknown, match="may have expired"):
        play(resolve(NUMBERED), *found, *STALE[:2])


# --- finding

LIVES = (ASK, FoundClaim(claim(OTHER)))
SEES = Both(Head(key(OTHER)), LOOK)
SHOWN = (SEES, (shows(mark(OTHER), "s"), shows(mark(OTHER))))
THEIRS = Holder(OTHER, "a-writer", NOON, 8, "s")


def test_a_living_name_is_found_where_its_bytes_are() -> None:
    assert play(find(), LIVES, SHOWN) == Located(THEIRS, key(OTHER))


def test_the_claim_alone_may_be_asked() -> None:
    assert play(find(helps=False), LIVES) == Located(Holder(OTHER, "a-writer"), key(OTHER))


@pytest.mark.parametrize(
    "outcome", [Written(), Maybe(LOST), TryAgain(BUSY), Refused(NO_RIGHTS)], ids=lambda it: type(it).__name__
)
def test_a_name_that_is_not_published_is_published_as_well_as_that_can_be_done(outcome: Any) -> None:
    script = (SEES, (shows(mark(OTHER), "s"), Absent())), (publish(claim(OTHER)), outcome)
    assert play(find(), LIVES, *script) == Located(THEIRS, key(OTHER))


def test_what_has_ended_is_published_over() -> None:
    second = claim(OTHER, 2)
    script = (
        (ASK, FoundClaim(second)),
        (Both(Head(second.key), LOOK), (shows(mark(OTHER, 2), "s"), shows(mark(THIRD)))),
        (publish(second), Written()),
    )
    assert play(find(), *script) == Located(THEIRS, second.key)


def test_bytes_that_are_gone_are_looked_for_again() -> None:
    gone = (SEES, (Absent(), Absent())), (ASK, FoundClaim(dead()))
    assert play(find(), LIVES, *gone, (ASK, FoundClaim(dead())), (LOOK, Absent())) == Absent()


def test_bytes_that_others_have_removed_are_read_from_their_copy() -> None:
    script = (SEES, (Absent(), shows(mark(OTHER)))), LIVES
    assert play(find(), LIVES, *script) == Located(replace(THEIRS, version="v1"), PATH)


def test_a_name_of_which_nothing_is_left_is_not_there() -> None:
    assert play(find(), LIVES, (SEES, (Absent(), Absent())), LIVES) == Absent()


def test_bytes_that_others_have_removed_and_written_over_are_an_error() -> None:
    with pytest.raises(OSError, match="its bytes are gone"):
        play(find(), LIVES, (SEES, (Absent(), shows("foreign"))), LIVES)


def test_bytes_that_can_not_be_looked_at_are_unknown() -> None:
    script = (SEES, (Refused(NO_RIGHTS), Absent())), (Head(key(OTHER)), Refused(NO_RIGHTS))
    with pytest.raises(OutcomeUnknown):
        play(find(), LIVES, *script)


def test_a_registry_that_can_not_be_read_is_unknown_not_absent() -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(find(), (ASK, Refused(NO_RIGHTS)))
    assert unknown.value.__cause__ is NO_RIGHTS


def test_a_name_without_a_claim_is_older_than_the_shim() -> None:
    script = (ASK, Absent()), (LOOK, shows("native")), (ASK, Absent())
    assert play(find(), *script) == Located(shows("native").holder, PATH)


def test_a_name_that_is_nowhere_is_absent() -> None:
    assert play(find(), (ASK, Absent()), (LOOK, Absent())) == Absent()


@pytest.mark.parametrize("last", ["1~1~token.0", "of another kind"])
def test_a_claim_of_a_name_that_this_mount_does_not_know_is_not_this_one(last: str) -> None:
    theirs = FoundClaim(replace(claim(OTHER), key=f"{FOLDER}/{last}"))
    assert play(find(), (ASK, theirs), (LOOK, Absent())) == Absent()


def test_what_has_ended_is_absent_whatever_the_plain_name_shows() -> None:
    assert play(find(), (ASK, FoundClaim(dead())), (LOOK, shows(mark(OTHER)))) == Absent()


def test_a_name_that_is_created_meanwhile_is_looked_for_again() -> None:
    assert play(find(), (ASK, Absent()), (LOOK, shows(mark(OTHER))), LIVES, LIVES, SHOWN) == Located(
        THEIRS, key(OTHER)
    )


def test_an_unknown_outcome_is_answered_later() -> None:
    mine = (ASK, FoundClaim(claim())), (Both(Head(key()), LOOK), (shows(mark()), shows(mark())))
    assert play(resolve(), *mine).token == ME
    assert play(resolve(), (ASK, Absent()), (LOOK, Absent())) is None
    with pytest.raises(NameTaken):
        play(resolve(), LIVES, SHOWN)


# --- deleting

END = write(dead(), claim(OTHER))
ENDED = (END, Claimed())
BURIED = (Delete(key(OTHER)), Deleted())
HIDDEN = ((LOOK, shows(mark(OTHER), "old")), (Delete(PATH, "old"), Deleted()))


def test_a_deletion_ends_the_claim_then_removes_the_bytes_then_the_plain_name() -> None:
    assert play(delete(), LIVES, ENDED, BURIED, *HIDDEN, (ASK, FoundClaim(dead()))) is None


def test_a_name_that_was_never_published_is_deleted() -> None:
    assert play(delete(), LIVES, ENDED, BURIED, (LOOK, Absent())) is None


def test_a_deletion_that_others_have_begun_is_finished() -> None:
    assert play(delete(), (ASK, FoundClaim(dead())), BURIED, *HIDDEN, (ASK, FoundClaim(dead()))) is None


def test_a_name_older_than_the_shim_is_deleted_by_its_version() -> None:
    script = (LOOK, shows(None, "old")), (Delete(PATH, "old"), Deleted()), (ASK, Absent())
    assert play(delete(), (ASK, Absent()), *script) is None


def test_the_copy_of_a_table_made_elsewhere_has_names_that_can_be_deleted() -> None:
    seen = (LOOK, shows(mark(OTHER), "old"))
    script = seen, (ASK, Absent()), (Delete(PATH, "old"), Deleted()), (ASK, Absent())
    assert play(delete(), (ASK, Absent()), *script) is None


def test_a_lost_answer_to_the_end_is_asked_again() -> None:
    script = (END, Maybe(LOST)), later(1), (END, NotAsExpected(dead())), BURIED, (LOOK, Absent())
    assert play(delete(), LIVES, *script) is None


def test_an_end_without_an_answer_is_unknown() -> None:
    with pytest.raises(OutcomeUnknown):
        play(delete(), LIVES, (END, Maybe(LOST)), too_late(1))


def test_a_refused_end_after_a_lost_answer_is_unknown() -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(delete(), LIVES, (END, Maybe(LOST)), later(1), (END, Refused(NO_RIGHTS)))
    assert unknown.value.__cause__ is NO_RIGHTS


def test_a_refused_end_changes_nothing_and_is_raised_as_it_is() -> None:
    with pytest.raises(PermissionError):
        play(delete(), LIVES, (END, Refused(NO_RIGHTS)))


def test_a_later_incarnation_is_left_alone() -> None:
    second = claim(THIRD, 2)
    script = (END, NotAsExpected(second)), (LOOK, shows(mark(THIRD, 2)))
    assert play(delete(), LIVES, *script) is None


def test_a_later_incarnation_under_the_plain_name_is_left_alone() -> None:
    script = (LOOK, shows(mark(THIRD, 2))), (ASK, FoundClaim(claim(THIRD, 2)))
    assert play(delete(), LIVES, ENDED, BURIED, *script) is None


def test_a_later_incarnation_that_the_deletion_has_hidden_is_published_again() -> None:
    second = claim(THIRD, 2)
    script = (ASK, FoundClaim(second)), (LOOK, Absent()), (publish(second), Written())
    assert play(delete(), LIVES, ENDED, BURIED, *HIDDEN, *script) is None


def test_bytes_that_can_not_be_removed_are_unknown() -> None:
    with pytest.raises(OutcomeUnknown):
        play(delete(), LIVES, ENDED, (Delete(key(OTHER)), Refused(NO_RIGHTS)))


# --- cleaning up


def lists(*keys: str) -> tuple[List, Listed]:
    from putifabsent.backends.base import Entry

    return List(FOLDER), Listed(tuple(Entry(each, NOON) for each in keys))


def removed(path: str) -> tuple[Delete, Deleted]:
    return Delete(path), Deleted()


QUIET = (LOOK, Absent())


def forget() -> Any:
    return real.forget(NAME, MINE, **TABLE)


FORGET = ForgetClaim(REGISTRY, IDENTITY, dead(ME))
MINE_ENDED = ((ASK, FoundClaim(claim())), (write(dead(ME), claim()), Claimed()))
KEYS = lists(key(), key(OTHER, 2))
KEYS_GONE = (removed(key()), removed(key(OTHER, 2)))


def test_what_is_forgotten_is_ended_then_its_bytes_go_then_its_claim_then_the_plain_name() -> None:
    script = (*MINE_ENDED, KEYS, *KEYS_GONE, (FORGET, Forgotten()), removed(PATH))
    assert play(forget(), *script) is None


def test_what_another_has_forgotten_meanwhile_is_forgotten() -> None:
    lost = ((FORGET, Maybe(LOST)), later(1), (FORGET, NotAsExpected(None)), removed(PATH))
    assert play(forget(), *MINE_ENDED, KEYS, *KEYS_GONE, *lost) is None


def test_what_another_has_forgotten_before_it_was_ended_is_forgotten() -> None:
    """A removal of a table meets its ledger's pruning."""
    gone = (write(dead(ME), claim()), NotAsExpected(None))
    twice = (FORGET, NotAsExpected(None))
    assert play(forget(), (ASK, FoundClaim(claim())), gone, lists(), twice, removed(PATH)) is None


def test_what_was_begun_anew_meanwhile_stays() -> None:
    anew = (FORGET, NotAsExpected(claim(OTHER, 2)))
    assert play(forget(), *MINE_ENDED, KEYS, *KEYS_GONE, anew) is None


def test_what_a_registry_refuses_to_forget_leaves_the_dead_claim_alone() -> None:
    with pytest.raises(PermissionError, match="403"):
        play(forget(), *MINE_ENDED, KEYS, *KEYS_GONE, (FORGET, Refused(NO_RIGHTS)), removed(PATH))


def test_clean_up_of_a_name_that_never_was_removes_nothing() -> None:
    assert play(clean(), lists(), (ASK, Absent()), QUIET, (ASK, Absent())) == 0


def test_the_living_bytes_stay_and_those_of_losers_go() -> None:
    script = lists(key(OTHER), key(THIRD)), LIVES, removed(key(THIRD))
    assert play(clean(), *script, (LOOK, shows(mark(OTHER))), LIVES, (LOOK, shows(mark(OTHER)))) == 1


def test_what_is_no_key_stays() -> None:
    script = lists(f"{FOLDER}/somebody-else's"), (ASK, FoundClaim(dead()))
    assert play(clean(), *script, QUIET, (ASK, FoundClaim(dead()))) == 0


def test_the_dead_go_with_what_they_left_under_the_plain_name() -> None:
    script = lists(key(OTHER)), (ASK, FoundClaim(dead())), removed(key(OTHER))
    assert play(clean(), *script, *HIDDEN, (ASK, FoundClaim(dead()))) == 2


def test_a_free_incarnation_is_ended_before_its_bytes_go() -> None:
    burnt = Claim(1, live=False, key=key(OTHER), token=ME, writer="my-writer")
    script = (
        lists(key(OTHER)),
        (ASK, Absent()),
        QUIET,
        (write(burnt), Claimed()),
        (ASK, FoundClaim(burnt)),
        removed(key(OTHER)),
        QUIET,
        (ASK, FoundClaim(burnt)),
    )
    assert play(clean(), *script) == 1


def test_no_incarnation_is_ended_under_a_name_that_no_claim_has_made() -> None:
    # It may be marked like a copy of that very incarnation, and would be taken for one that has ended.
    came = (LOOK, shows(mark(THIRD)))
    assert (
        play(clean(), lists(key(OTHER)), (ASK, Absent()), came, came, (ASK, Absent()), (ASK, Absent())) == 0
    )


def test_a_writer_who_is_faster_than_clean_up_keeps_its_bytes() -> None:
    burnt = Claim(1, live=False, key=key(OTHER), token=ME, writer="my-writer")
    script = (
        lists(key(OTHER)),
        (ASK, Absent()),
        QUIET,
        (write(burnt), NotAsExpected(claim(OTHER))),
        LIVES,
        (LOOK, shows(mark(OTHER))),
        LIVES,
        (LOOK, shows(mark(OTHER))),
    )
    assert play(clean(), *script) == 0


def test_the_living_is_never_ended_by_clean_up() -> None:
    # A table that was copied with its state brings keys along that no claim here has to do with.
    script = lists(key(OTHER), key(THIRD, 5)), LIVES, (LOOK, shows(mark(OTHER))), LIVES
    assert play(clean(), *script, (LOOK, shows(mark(OTHER)))) == 0


def test_clean_up_publishes_what_lives() -> None:
    script = lists(key(OTHER)), LIVES, QUIET, LIVES, QUIET, (publish(claim(OTHER)), Written())
    assert play(clean(), *script) == 0


def test_clean_up_leaves_what_is_older_than_the_shim() -> None:
    assert play(clean(), lists(), (ASK, Absent()), (LOOK, shows(None)), (ASK, Absent())) == 0


def test_a_folder_that_can_not_be_listed_is_unknown() -> None:
    with pytest.raises(OutcomeUnknown):
        play(clean(), (List(FOLDER), Refused(NO_RIGHTS)))
