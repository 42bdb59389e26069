"""What comes of runs, as charts and as one HTML page with them inside.

The charts show how long commits took, how many there were, and what happened meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from putifabsent import pages
from putifabsent.lab.stress import results
from putifabsent.lab.stress.results import PROMISES, count

if TYPE_CHECKING:
    from putifabsent.lab.stress.pool import Stress
    from putifabsent.lab.stress.results import Result

_COLOURS = ("#00796b", "#b0532f", "#37474f", "#7b1fa2", "#1976d2", "#827717", "#c2185b", "#5d4037")
_PROMISES = dict(zip(PROMISES, ("#b71c1c", "#ef6c00", "#6a1b9a", "#1565c0", "#558b2f"), strict=True))


def _svgs(runs: Sequence[Result]) -> Iterator[str]:
    yield pages.chart(partial(_breaches, runs), "breaches")
    yield pages.chart(partial(_latencies, runs), "latencies")
    for number, result in enumerate(runs):
        yield pages.chart(partial(_course, result), f"course{number}")


def _breaches(runs: Sequence[Result]) -> Figure:
    figure = Figure(figsize=(7, 1.4 + 0.36 * len(runs)), layout="constrained")
    rates, broken = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.4))
    places = range(len(runs))
    rates.barh(places, [result.figures.rate for result in runs], color=_COLOURS[0], height=0.6)
    rates.set_yticks(places, [result.contender.label for result in runs])
    rates.invert_yaxis()
    rates.set_xlabel("acknowledged commits a second")
    left = np.zeros(len(runs))
    tallies = [count(result.violations) for result in runs]
    for promise, colour in _PROMISES.items():
        counts = np.array([tally[promise] for tally in tallies])
        broken.barh(places, counts, left=left, color=colour, height=0.6, label=promise)
        left += counts
    for place, sum_ in zip(places, left, strict=True):
        broken.text(sum_, place, f"  {int(sum_)}", va="center")
    broken.tick_params(left=False)
    broken.set_xlim(0, max(1, *left * 1.15))
    broken.xaxis.set_major_locator(MaxNLocator(integer=True))
    broken.set_xlabel("broken promises")
    figure.legend(*broken.get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False)
    return figure


def _latencies(runs: Sequence[Result]) -> Figure:
    figure = Figure(figsize=(7, 3.9), layout="constrained")
    axes = figure.add_subplot()
    for number, result in enumerate(runs):
        took = np.sort(results.latencies(result.history))
        share = np.arange(1, len(took) + 1) / max(1, len(took)) * 100
        style, colour = "-" if result.contender.is_ours else "--", _COLOURS[number % len(_COLOURS)]
        axes.plot(took, share, style, color=colour, lw=1.4, label=result.contender.label)
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds of an acknowledged commit's creation, or fewer")
    axes.set_ylabel("of all, %")
    axes.set_ylim(0, 100)
    axes.legend(frameon=False, fontsize=9)
    return figure


def _course(result: Result) -> Figure:
    figure = Figure(figsize=(7, 2.3), layout="constrained")
    axes = figure.add_subplot()
    history = result.history.filter(~pc.field("closing"))
    seconds = partial(results.since_begun, history)
    times = seconds(results.acknowledged_commits(history), "ended")
    counts, edges = np.histogram(times, bins=np.arange(0, (times.max() if len(times) else 0) + 2))
    axes.stairs(counts, edges, fill=True, color=_COLOURS[0], alpha=0.7, label="commits a second")
    top = max(1, *counts) * 1.25
    kills = seconds(history.filter(pc.field("action") == "kill"), "begun")
    axes.plot(kills, np.full(len(kills), top * 0.97), "x", ms=5, color=_COLOURS[1], label="writer killed")
    pauses = history.filter((pc.field("action") == "pause") & pc.is_valid(pc.field("ended")))
    at, spans = np.full(pauses.num_rows, top * 0.9), (seconds(pauses, "begun"), seconds(pauses, "ended"))
    axes.hlines(at, *spans, color=_COLOURS[2], lw=3, alpha=0.5, label="writer paused")
    axes.set_ylim(0, top)
    axes.set_title(result.contender.label, fontsize=11)
    axes.set_xlabel("seconds")
    axes.set_xlim(left=0)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


_EXAMPLES = 3

_BODY = """<p>{writers} writers, {formats}; {tables} table(s) of each format, {seconds:g} s on each path.
Faults: {faults}. Every creation and read stands in a history, which is judged by these promises:</p>
<ul>{promises}</ul>
<p><strong>{verdict}</strong></p>
{table}
{charts}
<h2>What was broken</h2>
{broken}
<h2>Outcomes of commits</h2>
{outcomes}
<h2>What else went wrong</h2>
{errors}
<p>The proxy that loses answers slows all paths down: compare them with one another.</p>"""


def page(stress: Stress, runs: Sequence[Result], *, command: str | None = None) -> str:
    """Return the report, as HTML."""
    body = _BODY.format(
        writers=stress.writers,
        formats=", ".join(stress.formats),
        tables=stress.tables,
        seconds=stress.seconds,
        faults=", ".join(stress.faults) or "none",
        promises="".join(
            f"<li><b>{letter}</b>: {escape(promise)}</li>" for letter, promise in PROMISES.items()
        ),
        verdict=escape(results.verdict(runs)),
        table=pages.table(
            results.COLUMNS,
            (
                pages.cells(results.cells(each), attributes=' class="damage"' * bool(each.violations))
                for each in runs
            ),
            numbers=True,
        ),
        charts="\n".join(map(pages.wide, _svgs(runs))),
        broken="\n".join(_broken(result) for result in runs if result.violations) or "<p>Nothing.</p>",
        outcomes=_outcomes(runs),
        errors="\n".join(filter(None, map(_errors, runs))) or "<p>Nothing.</p>",
    )
    return pages.page(f"What {stress.root} is worth under stress", body, command=command)


def _outcomes(runs: Sequence[Result]) -> str:
    words = list(dict.fromkeys(word for result in runs for word in result.figures.commits))
    rows = [
        pages.cells([result.contender.label, *(f"{result.figures.commits.get(word, 0):,}" for word in words)])
        for result in runs
    ]
    return pages.table(["path", *words], rows, numbers=True)


def _errors(result: Result) -> str:
    listed = "".join(f"<li>{times:,} times: {escape(error)}</li>" for error, times in results.errors(result))
    return listed and f"<h3>{escape(result.contender.label)}</h3><ul>{listed}</ul>"


def _broken(result: Result) -> str:
    kinds: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for each in result.violations:
        shown = f"<br><code>{escape(each.name)}</code>: {escape(each.detail)}"
        kinds[each.promise, each.breach].append(shown)
    items = [
        f"<li><b>{promise}</b>, {len(all_):,} times: {escape(breach)}{''.join(all_[:_EXAMPLES])}</li>"
        for (promise, breach), all_ in kinds.items()
    ]
    return f"<h3>{escape(result.contender.label)}</h3><ul>{''.join(items)}</ul>"
