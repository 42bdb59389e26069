"""A report that stands by itself: one HTML file, its charts inside."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from putifabsent.lab import drawing
from putifabsent.lab.durations import said
from putifabsent.lab.simulate import birthday
from putifabsent.lab.simulate.charts import svg
from putifabsent.lab.simulate.published import LEVEL, differing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from putifabsent.lab.simulate.charts import Chart
    from putifabsent.lab.simulate.experiment import Cell
    from putifabsent.lab.simulate.published import Published

__all__ = ["page"]

_BODY = """<p>{runs} runs of each cell, seed {seed}. A collision is a timestamp, in milliseconds, that a
writer takes and another has. The line in a chart is what the birthday problem lets expect; the band about it
holds 99.9 % of what as many runs come to.</p>
{verdict}
{charts}
<table>
<thead>{head}</thead>
<tbody>
{rows}
</tbody>
</table>"""


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
    body = _BODY.format(
        runs=f"{cells[0].runs:,}",
        seed=seed,
        verdict=_verdict(cells, published) if published else "",
        charts="\n".join(svg(chart) for chart in charts),
        head=drawing.line("th", columns),
        rows="\n".join(drawing.line("td", row) for row in rows),
    )
    return drawing.page("How likely is a collision?", body)


def _row(cell: Cell) -> list[str]:
    what = cell.experiment
    expected = birthday.percent(birthday.mean(what.writers, what.interval, what.duration))
    return [
        str(what.writers),
        *(said(each) for each in (what.interval, what.jitter, what.duration)),
        *(f"{cell.mean:.3f}", str(cell.fewest), str(cell.most), f"{cell.percent:.1f}", f"{expected:.1f}"),
    ]


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
