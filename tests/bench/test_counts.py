"""What the documentation says that each arbiter sends is what the wire sees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.arbiter_servers import ARBITERS
from bench.counts import (
    CREATION,
    NUMBERED,
    RECORD,
    TAKEN,
    TAKEN_ABOVE,
    calls,
    crowded,
    delta_calls,
    round_trips,
)

if TYPE_CHECKING:
    from bench.arbiter_servers import Far

Counts = dict[str, dict[str, dict[str, int]]]
BALLOT = {"PUT": 2, "LIST": 2, "HEAD": 1, "COPY": 1}
LOCK = {"EVAL": 2}
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "arbiters.md"
TABLE = re.compile(r"## What they send.*?\n\|---.*?\n(?P<rows>.*?)\n\n", re.DOTALL)
LOST = {"PUT": 1, "LIST": 1, "DELETE": 1, "HEAD": 1}
LOST_ABOVE = {"PUT": 1, "LIST": 1, "DELETE": 1, "HEAD": 2}


@pytest.fixture(scope="module")
def sent(there: Far) -> Counts:
    return {
        arbiter: {call: dict(kinds) for call, kinds in calls(there, arbiter).items()} for arbiter in ARBITERS
    }


@pytest.fixture(scope="module")
def trips(there: Far) -> dict[str, dict[str, int]]:
    return {arbiter: round_trips(there, arbiter) for arbiter in ARBITERS}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (CREATION, [{"PUT": 1}, {"PUT": 1, "HEAD": 1, "PutItem": 1, "COPY": 1}, BALLOT, {**BALLOT, **LOCK}]),
        (
            NUMBERED,
            [
                {"PUT": 1, "HEAD": 1},
                {"PUT": 1, "HEAD": 2, "PutItem": 1, "COPY": 1},
                {**BALLOT, "HEAD": 2},
                {**BALLOT, "HEAD": 2, **LOCK},
            ],
        ),
        (
            TAKEN,
            [
                {"PUT": 1, "HEAD": 1},
                {"PUT": 1, "HEAD": 2, "GetItem": 1, "DELETE": 1},
                LOST,
                {**LOST, **LOCK},
            ],
        ),
        (
            TAKEN_ABOVE,
            [
                {"PUT": 1, "HEAD": 1},
                {"PUT": 1, "HEAD": 2, "GetItem": 1, "DELETE": 1},
                LOST_ABOVE,
                {**LOST_ABOVE, **LOCK},
            ],
        ),
        (
            RECORD,
            [
                {"PUT": 1, "LIST": 1},
                {"PUT": 1, "HEAD": 1, "PutItem": 1, "COPY": 1, "LIST": 1},
                {**BALLOT, "LIST": 3},
                {**BALLOT, "LIST": 3, **LOCK},
            ],
        ),
        (
            "listing a folder",
            [{"LIST": 1}, {"LIST": 1, "Query": 1}, {"LIST": 2}, {"LIST": 2}],
        ),
        (
            "whether it is there",
            [{"HEAD": 1}, {"GetItem": 1, "HEAD": 2}, {"LIST": 1}, {"LIST": 1}],
        ),
    ],
)
def test_a_call_sends_what_the_documentation_says(sent: Counts, call: str, expected: list[Any]) -> None:
    assert [sent[arbiter][call] for arbiter in ARBITERS] == expected


def test_a_guarded_read_is_one_request_and_for_an_arbiter_one_look_up_more_than_the_wrapped_filesystem_s(
    sent: Counts,
) -> None:
    assert sent["native"]["a read"] == {"GET": 1}
    plain = {"HEAD": 1, "GET": 1}
    look_ups = [{"GetItem": 1}, {"LIST": 1}, {"LIST": 1}]
    assert [sent[arbiter]["a read"] for arbiter in ARBITERS[1:]] == [{**plain, **more} for more in look_ups]


def test_the_first_creation_of_a_process_looks_for_other_arbiters_once(sent: Counts) -> None:
    first = [sent[arbiter]["the first one adds"] for arbiter in ARBITERS]
    assert first[0] == {"LIST": 1}
    assert first[2] == first[3] == {"LIST": 2, "PUT": 1}
    assert {kind: first[1][kind] for kind in ("LIST", "PUT")} == {"LIST": 2, "PUT": 1}


def test_the_documentation_s_table_is_what_was_counted(
    sent: Counts, trips: dict[str, dict[str, int]]
) -> None:
    rows = [re.split(r" *\| *", line)[1:-1] for line in TABLE.search(PAGE.read_text())["rows"].splitlines()]  # type: ignore[index]
    assert {call for call, *_ in rows} == set(sent["native"])
    for call, *cells in rows:
        for arbiter, cell in zip(ARBITERS, cells, strict=True):
            requests, _, in_trips = cell.partition(" in ")
            assert sum(sent[arbiter][call].values()) == int(requests), (arbiter, call)
            if call in trips[arbiter]:
                assert trips[arbiter][call] == int(in_trips or requests), (arbiter, call)


def test_requests_that_need_not_wait_for_each_other_go_out_at_once(trips: dict[str, dict[str, int]]) -> None:
    assert [trips[arbiter] for arbiter in ARBITERS] == [
        {CREATION: 1, NUMBERED: 2, TAKEN: 2, TAKEN_ABOVE: 2, RECORD: 2},
        {CREATION: 3, NUMBERED: 4, TAKEN: 4, TAKEN_ABOVE: 4, RECORD: 4},
        {CREATION: 6, NUMBERED: 7, TAKEN: 4, TAKEN_ABOVE: 5, RECORD: 7},
        {CREATION: 8, NUMBERED: 9, TAKEN: 6, TAKEN_ABOVE: 7, RECORD: 9},
    ]


def test_delta_s_eight_calls_are_eight_requests(there: Far) -> None:
    assert delta_calls(there)[NUMBERED] == {"HEAD": 2, "GetItem": 1, "PUT": 2, "PutItem": 2, "GET": 1}


def test_however_many_names_are_in_a_folder_no_creation_lists_more_pages(there: Far) -> None:
    few, many = (crowded(there, names) for names in (100, 201))
    calls = (CREATION, TAKEN, TAKEN_ABOVE, "the first creation", "a read")
    for arbiter in ARBITERS:
        assert [few[arbiter][call] for call in calls] == [many[arbiter][call] for call in calls]
    assert [many[arbiter][CREATION] for arbiter in ARBITERS] == [0, 0, 2, 2]
