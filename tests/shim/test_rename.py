"""Copies and renames as creations, and what is told of a creation later."""

from __future__ import annotations

from typing import Any

import pytest

from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Exists,
    Found,
    Got,
    Holder,
    Maybe,
    Refused,
    TryAgain,
)
from putifabsent.errors import Damaging, NameTaken, OutcomeUnknown
from putifabsent.shim.requests import Complete, Create, Delete, Get, Head, List, StageCopy
from tests.shim.scripted import (
    BUSY,
    LOST,
    ME,
    MINE,
    NAME,
    OTHER,
    PATH,
    REAL,
    SMALL,
    SameBytes,
    Shim,
    held_by,
    later,
    listing,
    play,
    staged,
    too_late,
)
from tests.shim.whole_bodies import named

LOOK = Head(PATH)
SOURCE = "bucket/source"
NO_RIGHTS = PermissionError("403")


@pytest.fixture
def shim() -> Shim:
    return REAL


def test_a_small_source_is_read_and_created(shim: Shim) -> None:
    protocol = shim.copy(SOURCE, NAME, MINE, largest_put=SMALL)
    put = Create(PATH, SameBytes(b"12345678"), MINE)
    assert (
        play(protocol, (Head(SOURCE), held_by(OTHER)), (Get(SOURCE), Got(b"12345678")), (put, Created()))
        is None
    )


def test_a_large_source_is_staged_by_the_store_from_the_object_that_was_seen(shim: Shim) -> None:
    protocol = shim.copy(SOURCE, NAME, MINE, largest_put=7)
    stage = StageCopy(SOURCE, 8, "v1", PATH, MINE)
    script = (Head(SOURCE), held_by(OTHER)), (stage, staged()), (Complete(staged()), Created())
    assert play(protocol, *script) is None


def test_what_a_format_says_something_of_is_judged(shim: Shim) -> None:
    log = "bucket/t/_delta_log"
    name = named(f"{log}/{0:020d}.json")
    for data, lack in (b'{"add": {', "braces"), (b'{"commitInfo":{}}\n', None):
        protocol = shim.copy(SOURCE, name, MINE, largest_put=SMALL)
        read = (Head(SOURCE), Found(Holder(OTHER, size=len(data)))), (Get(SOURCE), Got(data))
        if lack is not None:
            with pytest.raises(Damaging, match=lack):
                play(protocol, *read)
        else:
            created = (Create(name.path, SameBytes(data), MINE), Created()), (List(log), listing())
            assert play(protocol, *read, *created) is None


def test_what_was_looked_at_is_not_looked_at_again(shim: Shim) -> None:
    protocol = shim.copy(SOURCE, NAME, MINE, largest_put=SMALL, seen=held_by(OTHER))
    script = (Get(SOURCE), Got(b"12345678")), (Create(PATH, SameBytes(b"12345678"), MINE), Created())
    assert play(protocol, *script) is None
    with pytest.raises(FileNotFoundError, match="source is not there"):
        play(shim.copy(SOURCE, NAME, MINE, largest_put=SMALL, seen=Absent()))


def test_a_lost_answer_to_a_copy_is_resolved_by_token(shim: Shim) -> None:
    protocol = shim.copy(SOURCE, NAME, MINE, largest_put=SMALL)
    create = Create(PATH, SameBytes(b"12345678"), MINE)
    script = (
        (Head(SOURCE), held_by(OTHER)),
        (Get(SOURCE), Got(b"12345678")),
        (create, Maybe(LOST)),
        later(1),
        (create, Exists()),
        (LOOK, held_by(ME)),
    )
    assert play(protocol, *script) is None


def test_half_a_source_creates_nothing_and_stays(shim: Shim) -> None:
    protocol = shim.rename(SOURCE, NAME, MINE, largest_put=SMALL)
    with pytest.raises(OSError, match="4 bytes were read of the 8"):
        play(protocol, (Head(SOURCE), held_by(OTHER)), (Get(SOURCE), Got(b"1234")))


def test_an_absent_source_creates_nothing(shim: Shim) -> None:
    with pytest.raises(FileNotFoundError, match="source is not there"):
        play(shim.copy(SOURCE, NAME, MINE, largest_put=SMALL), (Head(SOURCE), Absent()))


def test_a_source_removed_while_it_is_read_creates_nothing(shim: Shim) -> None:
    script = (Head(SOURCE), held_by(OTHER)), (Get(SOURCE), Absent())
    with pytest.raises(FileNotFoundError, match="removed"):
        play(shim.copy(SOURCE, NAME, MINE, largest_put=SMALL), *script)


def test_a_source_replaced_before_it_is_staged_creates_nothing(shim: Shim) -> None:
    script = (Head(SOURCE), held_by(OTHER)), (StageCopy(SOURCE, 8, "v1", PATH, MINE), Absent())
    with pytest.raises(FileNotFoundError, match="replaced"):
        play(shim.copy(SOURCE, NAME, MINE, largest_put=7), *script)


def test_a_source_that_cannot_be_read_is_the_store_s_own_error(shim: Shim) -> None:
    with pytest.raises(PermissionError) as refused:
        play(shim.copy(SOURCE, NAME, MINE, largest_put=SMALL), (Head(SOURCE), Refused(NO_RIGHTS)))
    assert refused.value is NO_RIGHTS


def rename(shim: Shim) -> Any:
    return shim.rename(SOURCE, NAME, MINE, largest_put=SMALL)


READ = (Head(SOURCE), held_by(OTHER)), (Get(SOURCE), Got(b"12345678"))
PUT_COPY = Create(PATH, SameBytes(b"12345678"), MINE)


def test_the_source_goes_after_the_win(shim: Shim) -> None:
    assert play(rename(shim), *READ, (PUT_COPY, Created()), (Delete(SOURCE), Deleted())) is None


def test_the_source_goes_after_a_win_that_only_the_token_proves(shim: Shim) -> None:
    script = (PUT_COPY, Maybe(LOST)), later(1), (PUT_COPY, Exists()), (LOOK, held_by(ME))
    assert play(rename(shim), *READ, *script, (Delete(SOURCE), Deleted())) is None


def test_the_source_stays_after_a_loss(shim: Shim) -> None:
    with pytest.raises(NameTaken):
        play(rename(shim), *READ, (PUT_COPY, Exists()), (LOOK, held_by(OTHER)))


def test_the_source_stays_while_the_outcome_is_unknown(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown):
        play(rename(shim), *READ, (PUT_COPY, Maybe(LOST)), too_late(1))


@pytest.mark.parametrize("answer", [Refused(NO_RIGHTS), Maybe(LOST), OSError("a bug")], ids=repr)
def test_a_source_that_stays_behind_does_not_undo_the_win(shim: Shim, answer: Any) -> None:
    assert play(rename(shim), *READ, (PUT_COPY, Created()), (Delete(SOURCE), answer)) is None


def test_interrupted_after_the_win_a_rename_carries_its_token(shim: Shim) -> None:
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        play(rename(shim), *READ, (PUT_COPY, Created()), (Delete(SOURCE), stop))
    assert isinstance(stop.__cause__, OutcomeUnknown)
    assert stop.__cause__.token == ME


# --- resolving later


def test_my_token_there_is_my_win(shim: Shim) -> None:
    assert play(shim.resolve(NAME, ME), (LOOK, held_by(ME))) == held_by(ME).holder


def test_nobody_there_is_none(shim: Shim) -> None:
    assert play(shim.resolve(NAME, ME), (LOOK, Absent())) is None


def test_another_token_there_is_a_loss(shim: Shim) -> None:
    with pytest.raises(NameTaken):
        play(shim.resolve(NAME, ME), (LOOK, held_by(OTHER)))


def test_a_name_that_cannot_be_read_stays_unknown(shim: Shim) -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        play(shim.resolve(NAME, ME), (LOOK, TryAgain(BUSY)), later(1), (LOOK, Refused(NO_RIGHTS)))
    assert unknown.value.token == ME
