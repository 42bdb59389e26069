"""What records of committed sets come to, and which offers may be the next."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from putifabsent import ConfigError, Fenced, NameTaken
from putifabsent.spark.sets import CARRY, File, Record, State, carrier_of, name_of, nullable, number_of
from tests.spark.offers import append, batch, history, overwrite, schema

if TYPE_CHECKING:
    from putifabsent.spark.sets import Offer

ONE, TWO, THREE = (File(f"_files/{name}", 1, 10) for name in ("one", "two", "three"))
LONG = [append(File(f"_files/{number}", 1, 10), name=f"set {number}") for number in range(CARRY)]


def after(*offers: Offer) -> State:
    return State.of(history(*offers))


# --- reading


def test_what_is_appended_is_read_in_order() -> None:
    assert after(append(ONE), append(TWO, THREE)).files == (ONE, TWO, THREE)


def test_an_overwrite_takes_the_place_of_all_before_it() -> None:
    assert after(append(ONE), overwrite(TWO, seen=1), append(THREE)).files == (TWO, THREE)


def test_an_overwrite_brings_its_schema() -> None:
    other = schema(word="string")
    assert after(append(ONE), overwrite(TWO, seen=1, of=other)).schema == other


@pytest.mark.parametrize("offers", [LONG, [append(ONE), overwrite(TWO, seen=1), batch(THREE, number=7)]])
def test_a_record_is_read_back_as_it_was_written(offers: list[Offer]) -> None:
    for record in history(*offers):
        assert Record.decode(name_of(record.number), record.encode()) == record


def test_a_record_that_carries_is_as_good_as_all_before_it() -> None:
    records = history(*LONG, append(ONE), batch(TWO, number=0))
    last = records[-1].number
    assert carrier_of(last) == CARRY
    assert State.of(records[carrier_of(last) - 1 :]) == State.of(records)


@pytest.mark.parametrize(
    ("last", "first"), [(1, 1), (CARRY - 1, 1), (CARRY, CARRY), (3 * CARRY + 5, 3 * CARRY)]
)
def test_reading_begins_at_the_newest_record_that_carries(last: int, first: int) -> None:
    assert carrier_of(last) == first


def test_a_record_of_a_newer_version_is_refused() -> None:
    (record,) = history(append(ONE))
    newer = {**json.loads(record.encode()), "format": 2}
    with pytest.raises(ConfigError, match="newer putifabsent"):
        Record.decode(name_of(record.number), json.dumps(newer).encode())


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"format":1,"number":1,"offer":{},"before":null}'])
def test_what_is_no_record_is_told_by_its_name(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"0001\.json is no record"):
        Record.decode(name_of(1), data)


def test_a_copy_of_a_record_is_none_of_its_name_s() -> None:
    (record,) = history(append(ONE))
    with pytest.raises(ValueError, match=r"0002\.json is record 1: it is a copy"):
        Record.decode(name_of(2), record.encode())


@pytest.mark.parametrize("name", ["1.json", "00000000000000000001.crc", "0000000000000000000x.json", "x", ""])
def test_other_files_are_no_records(name: str) -> None:
    assert number_of(name) is None


def test_a_record_s_name_says_its_number() -> None:
    (record,) = history(append(ONE))
    assert number_of(name_of(record.number)) == 1


# --- names


def test_a_set_s_name_is_nobody_else_s() -> None:
    first = append(ONE, name="daily")
    with pytest.raises(NameTaken, match="set 'daily'") as caught:
        after(first).admits(append(TWO, name="daily"), "here")
    assert caught.value.holder is not None
    assert (caught.value.holder.token, caught.value.holder.writer) == (first.token, "a writer")


def test_a_set_s_name_stays_taken_after_an_overwrite() -> None:
    with pytest.raises(NameTaken):
        after(append(ONE, name="daily"), overwrite(TWO, seen=1)).admits(append(THREE, name="daily"), "here")


# --- schemas


@pytest.mark.parametrize(
    "other", [schema(id="string"), schema(id="long", word="string"), schema(word="string")]
)
def test_another_schema_is_not_appended(other: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"another schema: column '(id|word)' is"):
        after(append(ONE)).admits(append(TWO, of=other), "here")


def test_the_order_of_columns_is_no_other_schema() -> None:
    first = append(ONE, of=schema(id="long", word="string"))
    assert after(first).admits(append(TWO, of=schema(word="string", id="long")), "here")


def test_whether_a_column_may_be_null_is_no_other_schema() -> None:
    inner = {"type": "array", "elementType": "long", "containsNull": False}
    field = {"name": "ids", "type": inner, "nullable": False, "metadata": {"comment": "x"}}
    found = nullable({"type": "struct", "fields": [field]})
    assert found == schema(ids={"type": "array", "elementType": "long", "containsNull": True})


# --- overwrites


def test_an_overwrite_that_has_not_seen_the_newest_set_is_fenced() -> None:
    with pytest.raises(Fenced, match="1 more sets committed since this overwrite began"):
        after(append(ONE), append(TWO)).admits(overwrite(THREE, seen=1), "here")


# --- streams


def test_a_batch_is_added_once() -> None:
    assert not after(batch(ONE, number=3)).admits(batch(TWO, number=3), "here")


def test_a_batch_is_added_once_though_an_overwrite_came_after() -> None:
    assert not after(batch(ONE, number=3), overwrite(TWO, seen=1)).admits(batch(ONE, number=3), "here")


def test_a_later_batch_is_added_though_empty_ones_have_left_no_set() -> None:
    assert after(batch(ONE, number=3)).admits(batch(TWO, number=9), "here")


@pytest.mark.parametrize("number", [0, 3, 4])
def test_another_query_s_batch_is_fenced(number: int) -> None:
    with pytest.raises(Fenced, match="is the query q's, and this is the query another"):
        after(batch(ONE, number=3)).admits(batch(TWO, number=number, query="another"), "here")


def test_a_stream_of_its_own_is_admitted() -> None:
    assert after(batch(ONE, number=3)).admits(batch(TWO, number=0, query="another", stream="b"), "here")


def test_a_checkpoint_that_is_older_than_what_was_written_is_fenced() -> None:
    with pytest.raises(Fenced, match="at batch 3 already, and this is batch 2"):
        after(batch(ONE, number=3)).admits(batch(TWO, number=2), "here")
