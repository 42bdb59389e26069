"""A clock that says whole seconds is known to the millisecond after some answers, and never run ahead of."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.backends.registries import WholeSeconds

START = 1_800_000_000_000


@given(
    phase=st.integers(0, 999),
    steps=st.lists(st.integers(0, 5000), min_size=1, max_size=30),
    late=st.integers(0, 300),
)
def test_it_is_never_ahead_of_the_server(phase: int, steps: list[int], late: int) -> None:
    """However long answers are on their way."""
    steady = 7_000
    server = START + phase
    clock = WholeSeconds(lambda: (steady + late) / 1000)
    for step in steps:
        steady += step
        server += step
        told = clock.seen(server // 1000 * 1000)
        assert told <= server + late
        assert told // 1000 == server // 1000


def test_each_answer_can_only_show_that_it_is_later() -> None:
    moments = iter([10.0, 10.4, 10.8])
    clock = WholeSeconds(lambda: next(moments))
    # The first answer came 900 ms after its second began, the second one 300 ms.
    assert [clock.seen(START), clock.seen(START + 1000), clock.seen(START + 1000)] == [
        START, START + 1000, START + 1400
    ]  # fmt: skip


def test_a_server_whose_clock_is_behind_is_believed() -> None:
    clock = WholeSeconds(lambda: 10.0)
    assert clock.seen(START + 60_000) == START + 60_000
    assert clock.seen(START) == START + 999


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_an_answer_without_a_date_tells_nothing(date: str | None) -> None:
    assert WholeSeconds().at_date(date) is None


def test_a_date_is_read_as_http_says_it() -> None:
    assert WholeSeconds().at_date(formatdate(START / 1000, usegmt=True)) == START
