"""A report that stands by itself: one HTML file, its charts inside."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from putifabsent.lab.simulate import birthday
from putifabsent.lab.simulate.charts import svg
from putifabsent.lab.simulate.durations import said
from putifabsent.lab.simulate.published import LEVEL, differing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from putifabsent.lab.simulate.charts import Chart
    from putifabsent.lab.simulate.experiment import Cell
    from putifabsent.lab.simulate.published import Published

__all__ = ["page"]

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>How likely is a collision?</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; color: #263238 }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th, td {{ padding: .15rem .7rem; text-align: right; white-space: nowrap }}
th {{ border-bottom: 1px solid #90a4ae; vertical-align: bottom }}
svg {{ width: 100%; height: auto; margin: .5rem 0 }}
</style>
</head>
<body>
<h1>How likely is a collision?</h1>
<p>{runs} runs of each cell, seed {seed}. A collision is a timestamp, in milliseconds, that a writer takes and
another has. The line in a chart is what the birthday problem lets expect; the band about it holds 99.9 % of
what as many runs come to.</p>
{verdict}
{charts}
<table>
<thead>{head}</thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""


def page(
    cells: Sequence[Cell], charts: Iterable[Chart], seed: int, published: Sequence[Published] = ()
) -> str:
    """Return the report, as HTML.

    Parameters
    ----------
    cells
        What came of the experiments.
    charts
        What is drawn of them.
    seed
        Theirs.
    published
        The same cells as published, or none.
    """
    columns = [
        "writers",
        "interval",
        "jitter",
        "duration",
        "mean",
        "min",
        "max",
        "runs with one, %",
        "expected, %",
    ]
    columns += ["published mean", "published max", "published %"] if published else []
    rows = [_row(cell) for cell in cells]
    for row, theirs in zip(rows, published, strict=False):
        row.extend((f"{theirs.mean:.3f}", str(theirs.most), f"{theirs.percent:.1f}"))
    return _PAGE.format(
        runs=f"{cells[0].runs:,}",
        seed=seed,
        verdict=_verdict(cells, published) if published else "",
        charts="\n".join(svg(chart) for chart in charts),
        head=_line("th", columns),
        rows="\n".join(_line("td", row) for row in rows),
    )


def _row(cell: Cell) -> list[str]:
    what = cell.experiment
    expected = birthday.percent(birthday.mean(what.writers, what.interval, what.duration))
    return [
        str(what.writers),
        *(said(each) for each in (what.interval, what.jitter, what.duration)),
        *(f"{cell.mean:.3f}", str(cell.fewest), str(cell.most), f"{cell.percent:.1f}", f"{expected:.1f}"),
    ]


def _line(element: str, values: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{element}>{escape(value)}</{element}>" for value in values) + "</tr>"


def _verdict(cells: Sequence[Cell], published: Sequence[Published]) -> str:
    other = differing(cells, published)
    if not other:
        return (
            f"<p>All {len(cells)} published cells are reproduced: at {LEVEL:.1%}, all comparisons together, "
            f"noise explains what differs in mean, most and share of runs with a collision.</p>"
        )
    listed = "".join(f"<li>{escape(str(cell.experiment))}</li>" for cell in other)
    differ = f"{len(other)} of {len(cells)} cells differ from the published ones by more than noise"
    return f"<p>{differ}:</p><ul>{listed}</ul>"
