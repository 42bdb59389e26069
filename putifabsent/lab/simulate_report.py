"""What came of a simulation, beside what chance lets expect; as charts, and as one HTML page.

The birthday problem says what to expect of an experiment without simulating it. A writer is at a given
millisecond once in an interval, so a pair of them is there together once in its square. Over all pairs and
milliseconds the number of collisions is close to a Poisson distribution's, for which it is taken here: no
pair of writers stays so near to each other that one of its collisions makes the next much likelier.

The charts show how likely a collision is, and how many there are, by the number of writers or by their
interval. Points are simulated, rings are published. The line is what the birthday problem lets expect, and
the band about it holds 99.9 % of what as many runs come to.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from putifabsent import pages
from putifabsent.lab.simulate import formatted

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from putifabsent.lab.simulate import Cell, Experiment, Published

    Floats = NDArray[np.floating[Any]]

ENOUGH = 100  # runs of a cell; of fewer, noise explains whatever comes out
LEVEL = 0.999
"""How sure it is that cells of the same writers are not called different, all comparisons together."""


def expected_mean(writers: float, interval: float, duration: float) -> float:
    """Return the collisions of a run, on average; times are in one unit, the millisecond is the clock's."""
    return writers * (writers - 1) / 2 * duration / interval**2


def expected_percent(mean: float) -> float:
    """Return how many runs of a hundred have a collision, if they have so many on average."""
    return -100 * math.expm1(-mean)


class Chances(NamedTuple):
    """How likely noise alone is to set two samples apart by as much as they are, or by more: from 0 to 1.

    In their collisions, their runs with one, and the most of a run, each from what both samples let expect.
    """

    mean: float
    percent: float
    most: float
    published_most: float


def chances(cell: Cell, published: Published) -> Chances:
    """Compare a cell with the published one, of which nothing but these numbers is known."""
    runs = cell.runs + published.runs
    collisions = cell.collisions + published.collisions
    hits = cell.hits + published.hits
    return Chances(
        _binomial(collisions, cell.runs / runs).at_least_as_far_out(cell.collisions),
        _shared_out(hits, cell.runs, runs).at_least_as_far_out(cell.hits),
        _as_most(collisions / runs, cell.runs, cell.most),
        _as_most(collisions / runs, published.runs, published.most),
    )


def differing(cells: Sequence[Cell], cells_published: Sequence[Published]) -> list[Cell]:
    """Return the cells that more than noise sets apart from the published ones, at ``LEVEL``.

    Each is compared by its mean, by its share of runs with a collision and by its most collisions. The level
    is that of all comparisons together: each by itself is that much stricter.
    """
    compared = [(cell, chances(cell, theirs)) for cell, theirs in zip(cells, cells_published, strict=True)]
    allowed = (1 - LEVEL) / max(1, sum(len(each) for _, each in compared))
    return [cell for cell, each in compared if min(each) < allowed]


def verdict(cells: Sequence[Cell], cells_published: Sequence[Published]) -> str:
    """Say in a sentence whether the published cells are reproduced."""
    count = len(cells)
    if different := differing(cells, cells_published):
        listed = "; ".join(str(cell.experiment) for cell in different)
        return (
            f"{len(different)} of {count} cells differ from the published ones by more than noise: {listed}."
        )
    if (runs := min(cell.runs for cell in cells)) < ENOUGH:
        return f"In {runs} runs of a cell noise explains whatever differs: say --runs {ENOUGH} or more."
    return f"All {count} published cells are reproduced: at {LEVEL:.1%}, noise explains what differs."


def mean_band(mean: float, runs: int, level: float = 0.999) -> tuple[float, float]:
    """Return between which values the mean of so many runs lies, at this level."""
    low, high = _poisson(mean * runs).band(level)
    return low / runs, high / runs


def percent_band(percent: float, runs: int, level: float = 0.999) -> tuple[float, float]:
    """Return between which values the percentage of so many runs lies, at this level."""
    low, high = _binomial(runs, percent / 100).band(level)
    return 100 * low / runs, 100 * high / runs


class _Distribution(NamedTuple):
    """How likely each number from ``lowest`` on is; others are hardly possible."""

    lowest: int
    mass: Floats

    def band(self, level: float) -> tuple[int, int]:
        low, high = np.searchsorted(np.cumsum(self.mass), [(1 - level) / 2, (1 + level) / 2])
        return self.lowest + int(low), self.lowest + min(int(high), len(self.mass) - 1)

    def at_most(self, number: int) -> float:
        return float(self.mass[: max(0, number - self.lowest + 1)].sum())

    def at_least_as_far_out(self, number: int) -> float:
        """Return how likely such a number is, on that side or on the other."""
        above = float(self.mass[max(0, number - self.lowest) :].sum())
        return min(1.0, 2 * min(self.at_most(number), above))


def _poisson(mean: float) -> _Distribution:
    return _distribution(mean, mean, (0, math.inf), lambda number: mean / (number + 1))


def _binomial(tries: int, chance: float) -> _Distribution:
    """Return how likely so many of the tries are to hit."""
    return _distribution(
        tries * chance,
        tries * chance * (1 - chance),
        (0, tries),
        lambda number: (tries - number) / (number + 1) * chance / (1 - chance),
    )


def _shared_out(hits: int, ours: int, runs: int) -> _Distribution:
    """Return how likely so many of the hits are to be among our runs, if it is chance whose they are."""
    share, misses = ours / runs, runs - hits
    return _distribution(
        hits * share,
        hits * share * (1 - share) * misses / max(1, runs - 1),
        (max(0, ours - misses), min(hits, ours)),
        lambda number: (hits - number) * (ours - number) / ((number + 1) * (misses - ours + number + 1)),
    )


def _distribution(
    mean: float, variance: float, limits: tuple[float, float], ratio: Callable[[Floats], Floats]
) -> _Distribution:
    """Return what a distribution has within ten standard deviations and the limits of what is possible.

    ``ratio`` says how much likelier than a number the next one is.
    """
    reach = 10 * math.sqrt(variance) + 50 if variance else 0
    lowest = math.floor(max(limits[0], mean - reach))
    highest = math.floor(min(limits[1], mean + reach))
    ratios = ratio(np.arange(lowest, highest, dtype=np.float64))
    logs = np.concatenate([np.zeros(1), np.cumsum(np.log(ratios))])
    mass = np.exp(logs - logs.max())
    return _Distribution(lowest, mass / mass.sum())


def _as_most(mean: float, runs: int, most: int) -> float:
    run = _poisson(mean)
    return min(1.0, 2 * min(run.at_most(most) ** runs, 1 - run.at_most(most - 1) ** runs))


# --- the report

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
        pages.svg(partial(_draw, chart), folder / f"{chart.name}.svg")
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
    from matplotlib.ticker import MaxNLocator

    figure = pages.figure(7, 3.9)
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
        values = [expected_mean(writers, what.interval, what.duration) for writers in along]
    else:
        values = [expected_mean(what.writers, minutes * _MINUTE, what.duration) for minutes in along]
    if chart.quantity == "percent":
        values = [expected_percent(mean) for mean in values]
        low, high = zip(*(percent_band(value, runs) for value in values), strict=True)
    else:
        low, high = zip(*(mean_band(value, runs) for value in values), strict=True)
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
        verdict=f"<p>{escape(verdict(cells, published))}</p>" if published else "",
        charts="\n".join(pages.wide(svg(chart)) for chart in charts),
        table=pages.table(columns, map(pages.cells, rows), numbers=True),
    )
    return pages.page("How likely is a collision?", body, command=command)


def _cells(cell: Cell) -> list[str]:
    what = cell.experiment
    expected = expected_percent(expected_mean(what.writers, what.interval, what.duration))
    return [
        str(what.writers),
        *(formatted(each) for each in (what.interval, what.jitter, what.duration)),
        *(f"{cell.mean:.3f}", str(cell.fewest), str(cell.most), f"{cell.percent:.1f}", f"{expected:.1f}"),
    ]
