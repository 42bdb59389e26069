"""Mounts of one table let the same arbiter decide, or refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from putifabsent.backends.base import Absent, Entry, Got, Listed, Maybe, Refused, TryAgain, Written
from putifabsent.errors import ConfigError
from putifabsent.shim.arbiter_choice import NATIVE, Terms, agree, look_for_others
from putifabsent.shim.requests import Get, List, Put
from tests.shim.scripted import BUSY, LOST, MINE, NOON, SameBytes, later, play, too_late

STATE = "bucket/t/.putifabsent"
FOLDER = f"{STATE}/arbiters"
LISTED = List(FOLDER)
BALLOT = Terms("ballot")
CLAIMS = Terms("dynamodb", "dynamodb eu-west-1 claims 17", "s3://bucket/t")


def path(terms: Terms) -> str:
    """Return where the record of these terms lies, as a mount says that writes it."""
    asked = agree(STATE, terms, MINE)
    next(asked)
    request = asked.send(Listed(()))
    assert isinstance(request, Put)
    return request.name


def shows(*records: Terms | str) -> Listed:
    paths = (path(each) if isinstance(each, Terms) else f"{FOLDER}/{each}" for each in records)
    return Listed(tuple(Entry(each, NOON) for each in paths))


def agreeing(*script: Any, terms: Terms = BALLOT) -> Any:
    return play(agree(STATE, terms, MINE), *script)


def written(terms: Terms = BALLOT) -> Put:
    return Put(path(terms), SameBytes(terms.record), MINE)


def test_who_finds_its_record_goes_on_after_one_listing() -> None:
    assert agreeing((LISTED, shows(BALLOT))) is None


def test_the_first_mount_writes_its_record_and_looks_again() -> None:
    assert agreeing((LISTED, shows()), (written(), Written()), (LISTED, shows(BALLOT))) is None


def test_equal_terms_have_one_record_and_others_another() -> None:
    assert path(Terms("ballot")) == path(BALLOT)
    others = [CLAIMS, CLAIMS._replace(registry="x"), CLAIMS._replace(place="x"), Terms("native"), BALLOT]
    assert len({path(each) for each in others}) == len(others)
    assert json.loads(CLAIMS.record) == {"format": 1, **CLAIMS._asdict()}


@pytest.mark.parametrize("first", [True, False])
def test_another_record_is_refused_by_a_message_that_names_both(first: bool) -> None:
    before = () if first else ((LISTED, shows()), (written(), Written()))
    both = shows(CLAIMS) if first else shows(BALLOT, CLAIMS)
    with pytest.raises(ConfigError) as caught:
        agreeing(*before, (LISTED, both), (Get(path(CLAIMS)), Got(CLAIMS.record)))
    said = str(caught.value)
    assert "this mount lets ballot decide" in said
    assert "dynamodb by dynamodb eu-west-1 claims 17, which knows the table as s3://bucket/t" in said
    assert path(CLAIMS) in said


def test_a_mount_that_had_agreed_is_told_of_a_later_record() -> None:
    with pytest.raises(ConfigError, match="another mount"):
        agreeing((LISTED, shows(BALLOT, CLAIMS)), (Get(path(CLAIMS)), Got(CLAIMS.record)))


def looking(*script: Any) -> Any:
    return play(look_for_others(STATE, NATIVE), *script)


def test_who_lets_the_store_decide_leaves_no_record_and_looks_for_others() -> None:
    assert looking((LISTED, shows())) is None
    assert looking((LISTED, shows(NATIVE))) is None
    with pytest.raises(ConfigError, match=r"this mount lets the store itself decide, .* ballot:") as caught:
        looking((LISTED, shows(BALLOT)), (Get(path(BALLOT)), Got(BALLOT.record)))
    assert path(BALLOT) in str(caught.value)


def test_a_mount_is_refused_whose_table_was_moved_to_the_store_itself() -> None:
    with pytest.raises(ConfigError, match=r"this mount lets ballot decide, .* the store itself:"):
        agreeing((LISTED, shows(NATIVE)), (Get(path(NATIVE)), Got(NATIVE.record)))


def test_who_can_not_list_can_not_be_warned() -> None:
    assert looking((LISTED, Refused(PermissionError("403")))) is None


def test_a_store_that_is_busy_is_asked_for_others_again() -> None:
    again = (LISTED, TryAgain(BUSY)), later()
    with pytest.raises(ConfigError):
        looking(*again, (LISTED, shows(BALLOT)), (Get(path(BALLOT)), Got(BALLOT.record)))
    with pytest.raises(OSError, match="503"):
        looking((LISTED, TryAgain(BUSY)), too_late())


@pytest.mark.parametrize("record", [Got(b"{}"), Got(b"\xff"), Got(b"[]"), Absent()])
def test_a_record_that_can_not_be_read_is_no_agreement(record: Any) -> None:
    with pytest.raises(ConfigError, match="something that this version can't read"):
        agreeing((LISTED, shows("of-a-later-version")), (Get(f"{FOLDER}/of-a-later-version"), record))


def test_a_record_whose_put_was_not_answered_is_written_again() -> None:
    again = (written(), Maybe(LOST)), later(), (written(), Written())
    assert agreeing((LISTED, shows()), *again, (LISTED, shows(BALLOT))) is None


def test_without_an_answer_nothing_is_agreed() -> None:
    with pytest.raises(type(LOST)):
        agreeing((LISTED, shows()), (written(), Maybe(LOST)), too_late())
    with pytest.raises(PermissionError):
        agreeing((LISTED, shows()), (written(), Refused(PermissionError("403"))))
    with pytest.raises(PermissionError):
        agreeing((LISTED, Refused(PermissionError("403"))))


def test_a_record_that_is_not_listed_is_no_agreement() -> None:
    with pytest.raises(OSError, match="not listed"):
        agreeing((LISTED, shows()), (written(), Written()), (LISTED, shows()))
