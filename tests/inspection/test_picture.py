"""The picture of a timeline, and the page that it is in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from putifabsent.inspection import inspect
from putifabsent.inspection.picture import DRAWN, page, svg
from tests.inspection.tables import Delta, Hudi, packed, stat

if TYPE_CHECKING:
    from pathlib import Path

    from tests.inspection.conftest import Place

T = [f"2026010112000000{n}" for n in range(10)]
HURT = "#c62828"


@pytest.mark.parametrize("name", ["hudi_cow", "hudi_v6", "paimon", "delta"])
def test_a_table_of_any_format_is_drawn_with_a_lane_for_each_action(tmp_path: Path, name: str) -> None:
    report = inspect(packed(name, tmp_path), data=False)
    drawn = svg(report)
    ET.fromstring(drawn)  # noqa: S314 - our own
    for lane in {getattr(each, "began", "") or each.action for each in report.records}:
        assert f">{lane}<" in drawn


def test_the_same_report_gives_the_same_picture(place: Place) -> None:
    Hudi(place.fs, place.root).wrote(T[1], T[2])
    report = inspect(place.root, fs=place.fs)
    assert svg(report) == svg(report)


def test_only_what_is_damaged_is_marked(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(T[1], T[2])
    assert HURT not in svg(inspect(place.root, fs=place.fs))
    table.wrote(T[3], T[5])
    table.wrote(T[3], T[6])
    assert HURT in svg(inspect(place.root, fs=place.fs))


def test_a_table_where_nothing_has_happened_can_be_drawn(place: Place) -> None:
    Hudi(place.fs, place.root)
    report = inspect(place.root, fs=place.fs)
    assert "0 records" in svg(report)
    assert "It is empty" in page(report)


def test_of_a_long_timeline_the_newest_part_is_drawn_and_said_to_be_that(place: Place) -> None:
    table = Delta(place.fs, place.root)
    for number in range(DRAWN + 5):
        table.commit(number, {"commitInfo": {"operation": "WRITE", "timestamp": 1_700_000_000_000 + number}})
    report = inspect(place.root, fs=place.fs)
    assert f"{DRAWN} newest of {DRAWN + 5}" in svg(report)
    assert f"The newest {DRAWN}; 5 more came before" in page(report)


def test_a_page_stands_by_itself_and_says_what_to_do(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(T[1], T[2], stat("a", f"a_0-1-1_{T[1]}.parquet"), files=False)
    written = page(inspect(place.root, fs=place.fs))
    assert "<svg" in written
    assert "dangling-reference" in written
    assert "What to do:" in written
    assert not re.search(r"(?:src|href)=[\"']https?://", written)


def test_names_are_escaped_in_a_page(place: Place) -> None:
    table = Delta(place.fs, place.root)
    table.change(0, "<b>", files=False)
    assert "<b>" not in page(inspect(place.root, fs=place.fs)).replace("<b>What to do:", "")
