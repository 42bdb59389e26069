"""A body says who offered it, and anything else than a whole body is torn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.lab.stress.writers import TORN, body, offered_in

OFFERED = st.uuids().map(lambda each: each.hex)


@given(OFFERED)
def test_a_body_says_who_offered_it(offered: str) -> None:
    assert offered_in(body(offered)) == offered


@given(OFFERED, st.data())
def test_a_body_that_was_cut_is_torn(offered: str, data: st.DataObject) -> None:
    whole = body(offered)
    assert offered_in(whole[: data.draw(st.integers(0, len(whole) - 1))]) == TORN
    assert offered_in(whole[data.draw(st.integers(1, len(whole))) :]) == TORN


@given(OFFERED, OFFERED, st.data())
def test_the_beginning_of_one_body_and_the_end_of_another_are_torn(
    mine: str, theirs: str, data: st.DataObject
) -> None:
    first, second = body(mine), body(theirs)
    at = data.draw(st.integers(0, len(first)))
    mixed = first[:at] + second[at:]
    expected = {first: mine, second: theirs}.get(mixed, TORN)
    assert offered_in(mixed) == expected


@given(OFFERED, st.data())
def test_a_body_with_one_byte_changed_is_torn(offered: str, data: st.DataObject) -> None:
    changed = bytearray(body(offered))
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    assert offered_in(bytes(changed)) == TORN


@given(st.binary(max_size=200))
def test_any_other_bytes_are_torn(data: bytes) -> None:
    assert offered_in(data) == TORN


def test_two_bodies_in_a_row_are_torn() -> None:
    assert offered_in(body("a") + body("b")) == TORN


@pytest.mark.parametrize("data", [b"", b"\n"], ids=repr)
def test_an_empty_body_is_torn(data: bytes) -> None:
    assert offered_in(data) == TORN
