"""The picture of a timeline, and the page that it is in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from putifabsent.inspection import inspect, picture
from putifabsent.inspection.picture import LISTED, page, page_of_all, svg
from tests.inspection.tables import Delta, Hudi, packed, stat

if TYPE_CHECKING:
    from pathlib import Path

    from tests.inspection.conftest import Place

T = [f"2026010112000000{n}" for n in range(10)]
HURT = '<rect class="damaged"'
MARK = re.compile(r'<rect class="mark" x="(\d+)"')
BEGINS = 1_700_000_000_000


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


def _long(place: Place, *numbers: int) -> Delta:
    """Make a table with a commit a second."""
    table = Delta(place.fs, place.root)
    for number in numbers:
        table.commit(number, {"commitInfo": {"operation": "WRITE", "timestamp": BEGINS + 1000 * number}})
    return table


def test_of_a_long_timeline_the_newest_part_is_drawn_and_listed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture, "DRAWN", LISTED + 3)
    _long(place, *range(LISTED + 5))
    report = inspect(place.root, fs=place.fs)
    assert f"{LISTED + 3} of {LISTED + 5} records" in svg(report)
    assert svg(report).count('<rect class="completed"') == LISTED + 3 + 1  # and the legend's
    assert f"The newest {LISTED}; 5 more came before" in page(report)


def test_a_gap_is_marked_at_its_own_time_and_no_neighbour_is(place: Place) -> None:
    _long(place, *range(10), *range(11, 21))
    drawn = svg(inspect(place.root, fs=place.fs))
    [mark] = MARK.findall(drawn)
    begins = [int(x) for x in re.findall(r'<rect class="completed" x="(\d+)" y="0"', drawn)]
    assert begins[9] < int(mark) < begins[10]
    assert int(mark) == pytest.approx((begins[9] + begins[10]) / 2, abs=2)
    assert drawn.count(HURT) == 1  # the legend's


def test_a_record_that_can_not_be_read_is_marked_between_its_neighbours(place: Place) -> None:
    _long(place, *range(21))
    place.fs.pipe_file(f"{place.root}/_delta_log/{10:020}.json", b'{"commitInf')
    drawn = svg(inspect(place.root, fs=place.fs))
    [mark] = MARK.findall(drawn)
    begins = [int(x) for x in re.findall(r'<rect class="completed" x="(\d+)" y="0"', drawn)]
    assert begins[9] < int(mark) < begins[10]


def test_damage_is_drawn_and_listed_however_old_it_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "DRAWN", 5)
    monkeypatch.setattr(picture, "LISTED", 4)
    table = _long(place, *range(20))
    for number in (3, 4):
        info = {"commitInfo": {"operation": "WRITE", "timestamp": BEGINS + 1000 * number}}
        table.commit(number, info, {"add": {"path": f"gone{number}", "size": 0, "dataChange": True}})
    report = inspect(place.root, fs=place.fs)
    hurt = {moment for each in report.damage for moment in each.moments}
    assert hurt == {"3", "4"}
    drawn = svg(report)
    assert drawn.count(HURT) == 2 + 1  # and the legend's
    assert len(set(MARK.findall(drawn))) == 2
    written = page(report)
    assert "The newest 4, and 2 damaged ones; 14 more came before" in written
    for moment in hurt:
        assert f'<tr id="r0-{moment}" class="damage">' in written
        assert f'<a href="#r0-{moment}">{moment}</a>' in written


def test_a_record_that_tells_nothing_of_itself_is_marked_and_linked(place: Place) -> None:
    table = Hudi(place.fs, place.root)
    table.wrote(T[1], T[2])
    table.wrote(T[3], T[4])
    [torn] = [each for each in place.fs.find(place.root) if each.endswith(f"{T[3]}_{T[4]}.commit")]
    place.fs.pipe_file(torn, b"")
    report = inspect(place.root, fs=place.fs)
    assert [each.moments for each in report.damage] == [()]
    assert svg(report).count(HURT) == 1 + 1  # and the legend's
    written = page(report)
    assert f'<tr id="r0-{T[3]}" class="damage">' in written
    assert f'<a href="#r0-{T[3]}">' in written


def test_paths_of_a_page_begin_at_the_table(place: Place) -> None:
    Hudi(place.fs, place.root).wrote(T[1], T[2])
    written = page(inspect(place.root, fs=place.fs))
    assert "<td>.hoodie/" in written
    assert f"<td>{place.root}/" not in written


def test_a_report_says_when_by_whom_and_how_it_was_written(place: Place) -> None:
    _long(place, 0)
    written = page(inspect(place.root, fs=place.fs), command="putifabsent inspect '<t>'")
    assert re.search(r"Written \d{4}-\d\d-\d\d \d\d:\d\d UTC by putifabsent [\d.]+", written)
    assert "<code>putifabsent inspect &#x27;&lt;t&gt;&#x27;</code>" in written
    assert place.root in written


def test_tables_of_a_page_have_rows_of_their_own(place: Place) -> None:
    _long(place, 0, 1, 3, 5)
    report = inspect(place.root, fs=place.fs)
    written = page_of_all("lake", [report, report])
    ids = re.findall(r' id="([^"]+)"', written)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'href="#([^"]+)"', written):
        assert target in ids


def test_a_notebook_shows_the_report_and_a_console_its_verdict(place: Place) -> None:
    _long(place, 0, 2)
    report = inspect(place.root, fs=place.fs)
    assert "<svg" in report._repr_html_()
    assert repr(report) == f"<Report of {report.url}: {report.verdict}>"


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
