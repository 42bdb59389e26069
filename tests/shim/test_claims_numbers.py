"""Claiming a number: whether it counts, or had expired before."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from putifabsent.backends.base import Absent, Created, Deleted, Entry, Listed, Maybe, Written
from putifabsent.backends.registries import Claimed, FoundClaim
from putifabsent.errors import NameExpired, OutcomeUnknown
from putifabsent.shim.names import Series, ordinary
from putifabsent.shim.requests import Both, Delete, Head, List, Publish, Put, ReadClaim, WriteClaim
from tests.shim.claim_requests import MINE, REGISTRY, claim, create, mark, resolve, shows
from tests.shim.scripted import BODY, LOST, ME, NOON, numbered, play, too_late

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
    return Listed(
        tuple(Entry(f"bucket/t/{name}".replace("_", "-"), NOON + at) for name, at in numbers.items())
    )


def test_a_number_whose_predecessor_is_there_stands() -> None:
    assert play(create(NUMBERED), *NTH_WON, (BEFORE, shows(None))) == Created("v1")


def test_the_first_number_has_no_predecessor_to_look_for() -> None:
    first = NUMBERED._replace(series=Series(1, 1, (), re.compile("x")))
    assert play(create(first), *NTH_WON, (List("bucket/t"), listed())) == Created("v1")


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
