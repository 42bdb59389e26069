"""Shows inspected tables: a picture of a timeline, and an HTML page with that picture inside.

The picture has a lane for each action, and a bar from when each instant began to when it was completed.
"""

from __future__ import annotations

import io
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from putifabsent.inspection.findings import Severity
from putifabsent.inspection.inspecting import Failed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from putifabsent.inspection.findings import Finding
    from putifabsent.inspection.inspecting import Report

__all__ = ["DRAWN", "page", "page_of_all", "svg"]

DRAWN = 200
"""So many of a table's records are drawn: the newest ones."""

_DONE, _ARCHIVED, _PENDING, _HURT = "#00796b", "#90a4ae", "#f9a825", "#c62828"
_ROW = 0.22  # inches, as high as a row of bars is
_THINNEST = 0.004  # of the width: what is shorter could not be seen
_STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "grid.color": "#e4e8ea",
    "axes.axisbelow": True,
    # Letters, not their outlines: a tenth of the bytes.
    "svg.fonttype": "none",
    "svg.hashsalt": "timeline",
}


class _Bar(NamedTuple):
    lane: str
    begin: float
    end: float | None
    moment: str
    is_archived: bool


def svg(report: Report) -> str:
    """Return the picture of a table's timeline as an SVG element; the same report gives the same text."""
    text = io.StringIO()
    with mpl.rc_context(_STYLE):
        _draw(report).savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]


def _bars(records: Iterable[Any]) -> list[_Bar]:
    bars = []
    for each in records:
        if each.begun_at is not None:
            ended = each.ended_at
            # A wrong clock may say that it ended before it began.
            end = None if ended is None else date2num(max(ended, each.begun_at))
            moment = str(getattr(each, "time", getattr(each, "number", "")))
            lane = getattr(each, "began", "") or each.action or "commit"
            bars.append(_Bar(lane, date2num(each.begun_at), end, moment, each.archived))
    return bars[-DRAWN:]


def _rows(bars: Sequence[_Bar], until: float, thinnest: float) -> list[tuple[int, _Bar]]:
    """Give each bar of a lane the first row in which it is beside no other."""
    ends: list[float] = []
    placed = []
    for bar in sorted(bars, key=lambda each: each.begin):
        row = next((number for number, end in enumerate(ends) if end <= bar.begin), len(ends))
        end = max(until if bar.end is None else bar.end, bar.begin + thinnest)
        ends[row : row + 1] = [end]
        placed.append((row, bar))
    return placed


def _draw(report: Report) -> Figure:
    bars = _bars(report.records)
    hurt = {moment for each in report.findings if each.severity is Severity.DAMAGE for moment in each.moments}
    times = [time for bar in bars for time in (bar.begin, bar.end) if time is not None]
    first, last = min(times, default=date2num(_DAY_ONE)), max(times, default=date2num(_DAY_ONE))
    span = (last - first) or 1 / 1440
    until = last + span * 0.03
    thinnest = span * _THINNEST
    lanes = {
        lane: _rows([bar for bar in bars if bar.lane == lane], until, thinnest)
        for lane in dict.fromkeys(bar.lane for bar in sorted(bars, key=lambda each: each.lane))
    }
    heights = {lane: 1 + max(row for row, _ in placed) for lane, placed in lanes.items()}
    figure = Figure(figsize=(9, 1.3 + _ROW * (sum(heights.values()) + len(heights))), layout="constrained")
    axes = figure.add_subplot()
    top = 0.0
    ticks = []
    for lane, placed in lanes.items():
        ticks.append(top + heights[lane] / 2 - 0.5)
        for row, bar in placed:
            _bar(axes, bar, top + row, until, thinnest, is_hurt=bar.moment in hurt)
        top += heights[lane] + 1
        axes.axhline(top - 1, color="#e4e8ea", lw=0.8)
    axes.set_yticks(ticks, list(lanes))
    axes.set_ylim(max(top - 1, 1), -1)
    axes.set_xlim(first - span * 0.02, until)
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_title(_title(report, len(bars)), fontsize=10, loc="left")
    _legend(axes, bars, hurt)
    return figure


_DAY_ONE = datetime(2000, 1, 1)  # noqa: DTZ001 - an empty picture has an axis, too


def _bar(axes: Any, bar: _Bar, row: float, until: float, thinnest: float, *, is_hurt: bool) -> None:
    end = until if bar.end is None else bar.end
    colour = _PENDING if bar.end is None else _ARCHIVED if bar.is_archived else _DONE
    look: dict[str, Any] = {"color": colour}
    if is_hurt:
        look = {"color": _HURT}
    if bar.end is None:
        look |= {"hatch": "////", "facecolor": "white", "edgecolor": look.pop("color"), "lw": 0.6}
    axes.barh(row, max(end - bar.begin, thinnest), left=bar.begin, height=0.72, **look)


def _legend(axes: Any, bars: Sequence[_Bar], hurt: set[str]) -> None:
    from matplotlib.patches import Patch

    shown = {
        "completed": Patch(color=_DONE) if any(bar.end and not bar.is_archived for bar in bars) else None,
        "archived": Patch(color=_ARCHIVED) if any(bar.is_archived for bar in bars) else None,
        "pending": Patch(facecolor="white", edgecolor=_PENDING, hatch="////")
        if any(bar.end is None for bar in bars)
        else None,
        "damaged": Patch(color=_HURT) if any(bar.moment in hurt for bar in bars) else None,
    }
    there = {label: patch for label, patch in shown.items() if patch is not None}
    if there:
        axes.figure.legend(
            there.values(), there.keys(), loc="outside lower left", ncols=len(there), frameon=False
        )


def _title(report: Report, drawn: int) -> str:
    records = len(report.records)
    what = f"{drawn:,} newest of {records:,}" if records > drawn else f"{records:,}"
    damage = len(report.damage)
    hurt = "no damage found" if not damage else f"{damage} damaged place{'s' if damage > 1 else ''}"
    return f"{report.format}, {report.version}: {what} records, {hurt}"


_NAMES = 20
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Is {url} hurt?</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; color: #263238 }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }}
th, td {{ padding: .15rem .7rem; text-align: left; white-space: nowrap }}
th {{ border-bottom: 1px solid #90a4ae }}
svg {{ width: 100%; height: auto; margin: .5rem 0 }}
.damage {{ border-left: 4px solid #c62828; padding-left: 1rem }}
.notice {{ border-left: 4px solid #f9a825; padding-left: 1rem }}
code {{ font-size: 12px; overflow-wrap: anywhere }}
</style>
</head>
<body>
<h1>Is {url} hurt?</h1>
{body}
</body>
</html>
"""
_ONE = """<p>{verdict}</p>
{picture}
{findings}
<h{level}>Timeline</h{level}>
{rows}"""


def page(report: Report) -> str:
    """Return the report, as HTML."""
    return _PAGE.format(url=escape(report.url), body=_body(report, level=2))


def page_of_all(url: str, reports: Sequence[Report | Failed]) -> str:
    """Return the reports of the tables below a folder, as HTML: a line for each, then those with findings."""
    rows, bodies = [], []
    for number, each in enumerate(reports):
        name, verdict = escape(each.url), escape(each.verdict)
        if not isinstance(each, Failed) and each.findings:
            name = f'<a href="#t{number}">{name}</a>'
            bodies.append(f'<h2 id="t{number}">{escape(each.url)}</h2>\n{_body(each, level=3)}')
        rows.append(f"<tr><td>{name}</td><td>{verdict}</td></tr>")
    table = "<table><thead><tr><th>table</th><th></th></tr></thead><tbody>\n{}\n</tbody></table>"
    return _PAGE.format(url=escape(url), body="\n".join([table.format("\n".join(rows)), *bodies]))


def _body(report: Report, level: int) -> str:
    return _ONE.format(
        verdict=escape(report.verdict),
        picture=svg(report),
        findings="\n".join(map(_finding, report.findings)),
        level=level,
        rows=_table(report),
    )


def _finding(each: Finding) -> str:
    names = [f"<li><code>{escape(name)}</code></li>" for name in each.names[:_NAMES]]
    if len(each.names) > _NAMES:
        names.append(f"<li>and {len(each.names) - _NAMES:,} more</li>")
    return (
        f'<div class="{each.severity.value}"><h3>{each.severity.value}: {each.kind.value}</h3>'
        f"<p>{escape(each.detail)}.</p><p>{escape(each.means)}.</p>"
        f"<p><b>What to do:</b> {escape(each.do)}.</p>"
        f"<ul>{''.join(names)}</ul></div>"
    )


def _table(report: Report) -> str:
    rows = [each.row() for each in report.records[-DRAWN:]]
    if not rows:
        return "<p>It is empty.</p>"
    left = len(report.records) - len(rows)
    head = f"<p>The newest {len(rows):,}; {left:,} more came before.</p>" if left else ""
    lines = "\n".join(
        _line("td", ("" if value is None else str(value) for value in row.values())) for row in rows
    )
    return f"{head}<table><thead>{_line('th', rows[0])}</thead><tbody>\n{lines}\n</tbody></table>"


def _line(element: str, values: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{element}>{escape(value)}</{element}>" for value in values) + "</tr>"
