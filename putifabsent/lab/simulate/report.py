"""What came of a simulation, as charts and as one HTML page with them inside.

The charts show how likely a collision is, and how many there are, by the number of writers or by their
interval. Points are simulated, rings are published. The line is what the birthday problem lets expect, and
the band about it holds 99.9 % of what as many runs come to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from putifabsent import pages
from putifabsent.lab.simulate import noise
from putifabsent.lab.simulate.experiment import formatted

if TYPE_CHECKING:
    from pathlib import Path

    from putifabsent.lab.simulate.experiment import Cell, Experiment, Published

Quantity: TypeAlias = Literal["percent", "collisions"]
Along: TypeAlias = Literal["writers", "interval"]

_OURS = "#00796b"
_MOST = "#b0532f"
_PUBLISHED = "#37474f"
_MINUTE = 60_000
_UNITS: dict[Along, int] = {"writers": 1, "interval": _MINUTE}


@dataclass(frozen=True)
class Chart:
    """What is drawn: ``percent`` of runs with a collision, or the mean and the most ``collisions`` of a run.

    The cells are in the order of what they differ in; beside them may be the same ones as published.
    """

    name: str
    quantity: Quantity
    along: Along
    cells: Sequence[Cell]
    published: Sequence[Published] = ()

    @property
    def title(self) -> str:
        """What all its cells have."""
        first, last = self.cells[0].experiment, self.cells[-1].experiment
        if self.along == "writers":
            writers, interval = f"{first.writers} to {last.writers} writers", formatted(first.interval)
        else:
            writers = f"{first.writers} writers"
            interval = f"{formatted(first.interval)} to {formatted(last.interval)}"
        jitter = f"{100 * first.jitter / first.interval:g} %"
        return f"{writers}, interval {interval} ± {jitter}, for {formatted(first.duration)}"


def published_charts(cells: Sequence[Cell], published: Sequence[Published]) -> list[Chart]:
    """Return the five published charts, over cells that stand in the order of the published ones."""
    both = list(zip(cells, published, strict=True))
    drawn: list[tuple[str, int, Quantity, Along]] = [
        ("1-probability-by-writers-1-min", 1, "percent", "writers"),
        ("2-collisions-by-writers-1-min", 1, "collisions", "writers"),
        ("3-probability-by-writers-5-min", 2, "percent", "writers"),
        ("4-probability-by-interval-24-h", 3, "percent", "interval"),
        ("5-probability-by-interval-7-d", 4, "percent", "interval"),
    ]
    return [
        Chart(name, quantity, along, *zip(*(each for each in both if each[1].number == number), strict=True))
        for name, number, quantity, along in drawn
    ]


def charts(cells: Sequence[Cell]) -> list[Chart]:
    """Return two charts for each row of cells that differ in their writers, or in their interval, alone.

    A cell by itself has none.
    """
    rows = [
        *_rows(cells, "writers", lambda what: (what.interval, what.jitter, what.duration)),
        *_rows(cells, "interval", lambda what: (what.writers, what.jitter / what.interval, what.duration)),
    ]
    return [
        replace(row, name=f"{number}-{quantity}-by-{row.along}", quantity=quantity)
        for number, row in enumerate(rows, 1)
        for quantity in ("percent", "collisions")
    ]


def _rows(
    cells: Sequence[Cell], along: Along, same: Callable[[Experiment], tuple[float, ...]]
) -> Iterator[Chart]:
    rows: defaultdict[tuple[float, ...], dict[int, Cell]] = defaultdict(dict)
    for cell in cells:
        rows[same(cell.experiment)][getattr(cell.experiment, along)] = cell
    for _, row in sorted(rows.items()):
        if len(row) > 1:
            yield Chart("", "percent", along, [row[at] for at in sorted(row)])


def save(charts: Sequence[Chart], folder: Path) -> None:
    """Write charts as PNG and as SVG into a folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        (folder / f"{chart.name}.svg").write_text(svg(chart), encoding="utf-8")
        pages.png(partial(_draw, chart), folder / f"{chart.name}.png")


def svg(chart: Chart) -> str:
    """Return a chart as an SVG element; the same chart gives the same text."""
    return pages.chart(partial(_draw, chart), chart.name)


_SERIES: dict[Quantity, tuple[tuple[str, str, str, str, str], ...]] = {
    "percent": (("percent", "", "o", _OURS, _PUBLISHED),),
    "collisions": (("most", ": most", "s", _MOST, _MOST), ("mean", ": mean", "o", _OURS, _PUBLISHED)),
}
"""What is drawn of each cell: an attribute, its label and mark, the colours of ours and of published ones."""


def _draw(chart: Chart) -> Figure:
    figure = Figure(figsize=(7, 3.9), layout="constrained")
    axes = figure.add_subplot()
    runs = chart.cells[0].runs
    at = [getattr(cell.experiment, chart.along) / _UNITS[chart.along] for cell in chart.cells]
    _draw_expected(axes, chart, np.linspace(at[0], at[-1], 100).tolist(), runs)
    for quantity, label, mark, ours, theirs in _SERIES[chart.quantity]:
        values = [getattr(cell, quantity) for cell in chart.cells]
        axes.plot(at, values, mark, ms=4, color=ours, label=f"simulated, {runs:,} runs{label}")
        if chart.published:
            values = [getattr(cell, quantity) for cell in chart.published]
            name = f"published{label}"
            axes.plot(at, values, mark, ms=8, mfc="none", mec=theirs, mew=0.9, label=name)
    axes.set_ylabel("runs with a collision, %" if chart.quantity == "percent" else "collisions of a run")
    axes.set_title(chart.title, fontsize=11)
    axes.set_xlabel("writers" if chart.along == "writers" else "interval, minutes")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10]))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def _draw_expected(axes: Any, chart: Chart, along: Sequence[float], runs: int) -> None:
    """Draw a line on a fine scale, with the band of what noise makes of it."""
    what = chart.cells[0].experiment
    if chart.along == "writers":
        values = [noise.expected_mean(writers, what.interval, what.duration) for writers in along]
    else:
        values = [noise.expected_mean(what.writers, minutes * _MINUTE, what.duration) for minutes in along]
    if chart.quantity == "percent":
        values = [noise.expected_percent(mean) for mean in values]
        low, high = zip(*(noise.percent_band(value, runs) for value in values), strict=True)
    else:
        low, high = zip(*(noise.mean_band(value, runs) for value in values), strict=True)
    axes.fill_between(along, low, high, color=_OURS, alpha=0.14, lw=0, label="99.9 % of samples")
    axes.plot(along, values, "-", lw=1, color=_OURS, label="birthday problem")


_BODY = """<p>{runs} runs of each cell, seed {seed}. A collision is a timestamp, in milliseconds, that a
writer takes and another has. The line in a chart is what the birthday problem lets expect; the band about it
holds 99.9 % of what as many runs come to.</p>
{verdict}
{charts}
{table}"""


def page(
    cells: Sequence[Cell],
    charts: Iterable[Chart],
    seed: int,
    published: Sequence[Published] = (),
    *,
    command: str | None = None,
) -> str:
    """Return the report, as HTML."""
    columns = ["writers", "interval", "jitter", "duration", "mean", "min", "max"]
    columns += ["runs with one, %", "expected, %"]
    columns += ["published mean", "published max", "published %"] if published else []
    rows = [_cells(cell) for cell in cells]
    for row, theirs in zip(rows, published, strict=False):
        row.extend((f"{theirs.mean:.3f}", str(theirs.most), f"{theirs.percent:.1f}"))
    body = _BODY.format(
        runs=f"{cells[0].runs:,}",
        seed=seed,
        verdict=f"<p>{escape(noise.verdict(cells, published))}</p>" if published else "",
        charts="\n".join(pages.wide(svg(chart)) for chart in charts),
        table=pages.table(columns, map(pages.cells, rows), numbers=True),
    )
    return pages.page("How likely is a collision?", body, command=command)


def _cells(cell: Cell) -> list[str]:
    what = cell.experiment
    expected = noise.expected_percent(noise.expected_mean(what.writers, what.interval, what.duration))
    return [
        str(what.writers),
        *(formatted(each) for each in (what.interval, what.jitter, what.duration)),
        *(f"{cell.mean:.3f}", str(cell.fewest), str(cell.most), f"{cell.percent:.1f}", f"{expected:.1f}"),
    ]
