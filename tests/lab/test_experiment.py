"""What can be simulated, and how it is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from putifabsent.errors import ConfigError
from putifabsent.lab.simulate import Cell, Experiment, formatted, parse_duration, read

if TYPE_CHECKING:
    from pathlib import Path

MINUTE, DAY = 60_000, 86_400_000


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0, MINUTE, 0, DAY), "writers is 0: give 1 or more"),
        ((2, -MINUTE, 0, DAY), "interval is -60000: give 1 or more"),
        ((2, MINUTE, -1, DAY), "jitter is -1: give 0 or more"),
        ((2, MINUTE, MINUTE, DAY), "give a jitter below the interval"),
        ((2, MINUTE, MINUTE + 1, DAY), "give a jitter below the interval"),
        ((2, MINUTE, 0, 0), "duration is 0: give 1 or more"),
        ((2.5, MINUTE, 0, DAY), "writers is 2.5: give a whole number"),
        ((True, MINUTE, 0, DAY), "writers is True: give a whole number"),
        (("5", MINUTE, 0, DAY), "writers is '5': give a whole number"),
        ((2, 10**16, 0, DAY), "interval is 10000000000000000: give 1000000000000000 or less"),
        ((10**6, 1, 0, DAY), "fewer writers, a longer interval or a shorter duration"),
    ],
)
def test_an_experiment_that_can_t_be_is_refused_with_what_to_give(
    numbers: tuple[int, int, int, int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Experiment(*numbers)


def test_a_cell_counts_what_its_tally_has() -> None:
    cell = Cell(Experiment(2, MINUTE, 0, DAY), (0, 6, 3, 0, 1))
    assert (cell.runs, cell.collisions, cell.hits, cell.mean) == (10, 16, 10, 1.6)
    assert (cell.fewest, cell.most, cell.percent) == (1, 4, 100)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("1m", MINUTE),
        ("5 min", 300_000),
        ("1.5h", 5_400_000),
        ("7d", 7 * DAY),
    ],
)
def test_a_span_of_time_is_a_number_and_its_unit(text: str, milliseconds: int) -> None:
    assert parse_duration(text, "--interval") == milliseconds


@pytest.mark.parametrize("text", ["", "5", "m", "5 weeks", "1e3s", "5m30s", "0.5ms", "inf s"])
def test_any_other_span_is_refused_and_named(text: str) -> None:
    with pytest.raises(ConfigError, match="--interval is"):
        parse_duration(text, "--interval")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 ms"), (1, "1 ms"), (4_500, "4500 ms"), (MINUTE, "1 min"), (DAY, "24 h"), (7 * DAY, "7 d")],
)
def test_a_span_is_said_in_the_largest_unit_that_fits(milliseconds: int, text: str) -> None:
    assert formatted(milliseconds) == text


@given(st.integers(0, 10**12))
def test_what_is_said_is_parsed_to_the_same(milliseconds: int) -> None:
    assert parse_duration(formatted(milliseconds), "") == milliseconds


CELLS = [Experiment(2, MINUTE, 3_000, DAY), Experiment(3, 1_000, 0, 5_000)]


def test_a_file_of_cells_is_csv(tmp_path: Path) -> None:
    file = tmp_path / "cells"
    file.write_text(
        "experiment,writers, interval_ms,jitter_ms,duration_ms\nx,2,60000,3000,86400000\ny,3,1000,0,5000\n"
    )
    assert read(file) == CELLS


def test_a_file_of_cells_is_what_was_printed(tmp_path: Path) -> None:
    file = tmp_path / "cells"
    file.write_text(json.dumps([Cell(each, (1,)).row() for each in CELLS]))
    assert read(file) == CELLS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no cells"),
        ("[]", "has no cells"),
        ("writers,interval_ms,jitter_ms,duration_ms\n", "has no cells"),
        ("{}", "no JSON list"),
        ("[3]", "no JSON list"),
        ("[{]", "is no JSON"),
        ('[{"writers": 2, "jitter_ms": 0, "duration_ms": 9}]', "cell 1 has no interval_ms"),
        ("writers,interval_ms,jitter_ms,duration_ms\n2,9,0,9\n2,9,0\n", "cell 2 has no duration_ms"),
        ("writers,interval_ms,jitter_ms,duration_ms\n2,1m,0,9\n", "cell 1: interval is '1m': give a whole"),
        ("writers,interval_ms,jitter_ms,duration_ms\n0,9,0,9\n", "cell 1: writers is 0: give 1 or more"),
        ("writers,interval_ms,jitter_ms,duration_ms\n2,-9,0,9\n", "cell 1: interval is -9: give 1 or more"),
    ],
)
def test_a_file_that_can_t_be_run_is_refused_with_where_and_why(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "cells"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read(file)
