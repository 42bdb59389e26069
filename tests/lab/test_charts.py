"""Charts show what is simulated, published and to be expected; a report stands by itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from putifabsent.lab import simulate_report as noise
from putifabsent.lab.simulate import Cell, Experiment, published, simulate
from putifabsent.lab.simulate_report import Chart, _draw, charts, page, published_charts, save, svg

if TYPE_CHECKING:
    from pathlib import Path

MINUTE, DAY = 60_000, 86_400_000
ROW = [Experiment(writers, MINUTE, 3_000, DAY) for writers in (5, 2, 9)]


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return simulate([each.experiment for each in published()], runs=20)


@pytest.fixture(scope="module")
def drawn(cells: list[Cell]) -> list[Chart]:
    return published_charts(cells, published())


@pytest.fixture(scope="module")
def html(cells: list[Cell], drawn: list[Chart]) -> str:
    return page(cells, drawn, 7, published())


def lines(chart: Chart) -> dict[str, tuple[list[float], list[float]]]:
    [axes] = _draw(chart).axes
    shown: dict[str, Any] = {str(line.get_label()): line for line in axes.get_lines()}
    return {label: (list(line.get_xdata()), list(line.get_ydata())) for label, line in shown.items()}


def test_the_five_published_charts_are_drawn(drawn: list[Chart]) -> None:
    assert [(each.quantity, each.along, each.title) for each in drawn] == [
        ("percent", "writers", "2 to 20 writers, interval 1 min ± 5 %, for 24 h"),
        ("collisions", "writers", "2 to 20 writers, interval 1 min ± 5 %, for 24 h"),
        ("percent", "writers", "2 to 20 writers, interval 5 min ± 5 %, for 24 h"),
        ("percent", "interval", "5 writers, interval 1 min to 20 min ± 5 %, for 24 h"),
        ("percent", "interval", "5 writers, interval 1 min to 20 min ± 5 %, for 7 d"),
    ]


def test_a_chart_of_probabilities_has_ours_the_published_ones_and_the_line(drawn: list[Chart]) -> None:
    for number, chart in zip((1, 2, 3, 4), (drawn[0], *drawn[2:]), strict=True):
        shown = lines(chart)
        theirs = [each for each in published() if each.number == number]
        at = [each.experiment.writers if number < 3 else each.experiment.interval / MINUTE for each in theirs]
        assert shown["published"] == (at, [each.percent for each in theirs])
        assert shown["simulated, 20 runs"] == (at, [cell.percent for cell in chart.cells])
        for end in (0, -1):
            what = theirs[end].experiment
            mean = noise.expected_mean(what.writers, what.interval, what.duration)
            reached = [values[end] for values in shown["birthday problem"]]
            assert reached == pytest.approx([at[end], noise.expected_percent(mean)])


def test_a_chart_of_collisions_has_their_mean_and_their_most(drawn: list[Chart]) -> None:
    shown = lines(drawn[1])
    theirs = [each for each in published() if each.number == 1]
    assert shown["published: mean"][1] == [each.mean for each in theirs]
    assert shown["published: most"][1] == [each.most for each in theirs]
    assert shown["simulated, 20 runs: mean"][1] == [cell.mean for cell in drawn[1].cells]
    assert shown["simulated, 20 runs: most"][1] == [cell.most for cell in drawn[1].cells]
    assert shown["birthday problem"][1][-1] == pytest.approx(4.56)


def test_a_row_of_writers_gives_two_charts_in_order() -> None:
    found = charts([Cell(each, (1,)) for each in ROW])
    assert [each.quantity for each in found] == ["percent", "collisions"]
    assert [cell.experiment.writers for cell in found[0].cells] == [2, 5, 9]


def test_a_row_of_intervals_has_a_jitter_in_proportion() -> None:
    intervals = (60_000, 120_000, 180_000)
    in_proportion = [Cell(Experiment(5, each, each // 20, DAY), (1,)) for each in intervals]
    assert [each.along for each in charts(in_proportion)] == ["interval", "interval"]


@pytest.mark.parametrize(
    "experiments",
    [[], ROW[:1], [ROW[0], Experiment(2, MINUTE, 0, DAY)], [ROW[0], Experiment(5, MINUTE, 3_000, 2 * DAY)]],
)
def test_cells_that_differ_in_anything_else_are_not_in_one_chart(experiments: list[Experiment]) -> None:
    assert charts([Cell(each, (1,)) for each in experiments]) == []


def test_rows_that_differ_in_their_jitter_are_charts_of_their_own_and_say_it() -> None:
    jitters = (0, 3_000, 3_001)
    cells = [
        Cell(Experiment(writers, MINUTE, jitter, DAY), (1,)) for jitter in jitters for writers in (2, 5, 9)
    ]
    assert [each.title for each in charts(cells) if each.quantity == "percent"] == [
        f"2 to 9 writers, interval 1 min ± {share} %, for 24 h" for share in ("0", "5", "5.00167")
    ]


def test_charts_are_saved_as_png_and_as_svg(tmp_path: Path, drawn: list[Chart]) -> None:
    save(drawn[:1], tmp_path / "new")
    files = {path.suffix: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert files[".png"].startswith(b"\x89PNG")
    image = ET.fromstring(files[".svg"])  # noqa: S314 - our own
    assert image.tag == "{http://www.w3.org/2000/svg}svg"
    assert image.attrib["style"] == "background: #fff"  # on a dark page its letters would be dark on dark


def test_the_same_chart_gives_the_same_bytes(drawn: list[Chart]) -> None:
    assert svg(drawn[0]) == svg(drawn[0])


def test_a_cell_that_never_collides_can_be_drawn() -> None:
    row = [Cell(Experiment(writers, 10, 0, 10), (5,)) for writers in (1, 2)]
    assert all("<svg" in svg(chart) for chart in charts(row))


def test_a_report_has_every_cell_and_its_charts_and_asks_for_nothing_else(html: str) -> None:
    assert html.count("<svg") == 5
    assert html.count("<tr>") == 79
    assert "20 runs of each cell, seed 7" in html
    assert not re.search(r"<(script|link|img|iframe)|url\((?!#)|@import", html)
    assert {link[0] for link in re.findall(r'href="([^"]*)"', html)} == {"#"}


def test_parts_of_charts_on_one_page_are_not_mixed_up(html: str) -> None:
    defined = re.findall(r' id="([^"]+)"', html)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', html))
    assert used
    assert [name for name in used if defined.count(name) != 1] == []


def test_a_report_says_which_cells_differ(cells: list[Cell]) -> None:
    theirs = [published()[0]._replace(most=13), *published()[1:]]
    html = page(cells, [], 7, theirs)
    assert "1 of 78 cells differ" in html
    assert "more than noise: 2 writers, an interval of 1 min, 3 s of jitter, for 24 h." in html
