"""Numbers that have expired are not created again by ballots either."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from putifabsent.backends.base import Absent, Created, Deleted, Entry, Holder, InMemory, Listed, Written
from putifabsent.errors import NameTaken, OutcomeUnknown
from putifabsent.shim.ballot import create, resolve
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import Delete, Head, List, Publish, Put
from tests.shim.scripted import ME, MINE, NOON, SameBytes, held_by, numbered, play

NUMBER = "bucket/t/snapshot-5"
NAME = numbered(ordinary(NUMBER), 5, re.compile(r"snapshot-(?P<n>\d+)"), "bucket/t/snapshot-4")
FOLDER = "bucket/t/.putifabsent/ballot/=/snapshot-5"
BODY = InMemory(b"my bytes")
EMPTY = InMemory(b"")
VALUE = f"{ME}.0"
MARKED = MINE._replace(token=f"{VALUE}~1")
PREPARE = f"{FOLDER}/P~{1:010d}~{0:010d}~{VALUE}"
ACCEPT = f"{FOLDER}/A~{1:010d}~{0:010d}~{VALUE}~{VALUE}"
END = f"{FOLDER}/X~{1:010d}~{VALUE}"
BEFORE = Head("bucket/t/snapshot-4")
LISTED = List(FOLDER)


def shows(*paths: str) -> Listed:
    return Listed(tuple(Entry(path, NOON) for path in paths))


def folder(**numbers: timedelta) -> Listed:
    return Listed(
        tuple(Entry(f"bucket/t/{name}".replace("_", "-"), NOON + at) for name, at in numbers.items())
    )


WON = (
    (Put(PREPARE, BODY, MARKED), Written()),
    (LISTED, shows(PREPARE)),
    (Head(NUMBER), Absent()),
    (Put(ACCEPT, SameBytes(b""), MARKED), Written()),
    (LISTED, shows(PREPARE, ACCEPT)),
    (Publish(PREPARE, NUMBER, MINE), Written()),
)


def creating() -> Any:
    return create(NAME, BODY, MINE)


def test_a_number_whose_predecessor_is_there_stands() -> None:
    assert play(creating(), *WON, (BEFORE, held_by(None))) == Created()


def counted(next_after: timedelta) -> Any:
    """Create the fifth: its bytes were put at noon and published an hour later, and the sixth came then."""
    names = folder(snapshot_5=timedelta(hours=1), snapshot_6=next_after)
    script = (BEFORE, Absent()), (List("bucket/t"), names), (Head(PREPARE), held_by(f"{VALUE}~1"))
    return play(creating(), *WON, *script)


def test_a_number_stands_whose_next_one_is_younger_than_its_publication() -> None:
    assert counted(timedelta(hours=2)) == Created()


def test_of_a_number_whose_next_one_came_between_its_bytes_and_its_publication_nobody_can_tell() -> None:
    # It was decided in between: before the sixth or after it.
    with pytest.raises(OutcomeUnknown, match="number 5 may have expired before"):
        counted(timedelta(minutes=30))


STALE = (
    (BEFORE, Absent()),
    (List("bucket/t"), folder(snapshot_5=timedelta(), snapshot_6=-timedelta(hours=1))),
)


def test_a_number_that_had_expired_is_freed_again_and_taken() -> None:
    ended = shows(PREPARE, ACCEPT, END)
    script = (
        (Head(PREPARE), held_by(f"{VALUE}~1")),
        (Put(END, SameBytes(b""), MARKED), Written()),
        (LISTED, ended),
        (Delete(PREPARE), Deleted()),
        (Head(NUMBER), held_by(f"{VALUE}~1")),
        (LISTED, ended),
        (Delete(NUMBER, "v1"), Deleted()),
    )
    with pytest.raises(NameTaken):
        play(creating(), *WON, *STALE, *script)


def test_a_number_that_was_freed_meanwhile_is_unknown() -> None:
    with pytest.raises(OutcomeUnknown, match="removed before it was looked at again"):
        play(creating(), *WON, *STALE, (Head(PREPARE), Absent()))


def test_who_asks_later_is_told_that_a_number_may_have_expired_and_changes_nothing() -> None:
    asked = (LISTED, shows(PREPARE, ACCEPT))
    with pytest.raises(OutcomeUnknown, match="may have expired"):
        play(resolve(NAME, MINE), asked, asked, *STALE)


def test_who_asks_later_is_told_that_a_number_stands() -> None:
    asked = (LISTED, shows(PREPARE, ACCEPT))
    stands = (BEFORE, held_by(None))
    holder = play(resolve(NAME, MINE), asked, asked, stands, (Head(PREPARE), held_by(f"{VALUE}~1")))
    assert holder == Holder(ME, "a-writer", NOON, 8, "v1")
