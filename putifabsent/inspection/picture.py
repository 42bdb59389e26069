"""Shows inspected tables: a picture of a timeline, and an HTML page in which it can be zoomed.

The picture has a lane for each action, a bar from when each instant began to when it was completed, and a
line through all lanes wherever something is damaged, at its own time.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timezone
from html import escape
from importlib.resources import files
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent import pages
from putifabsent.inspection.inspecting import Failed, Report
from putifabsent.shim.formats import delta, paimon

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from putifabsent.inspection.findings import Finding

DRAWN = 10_000
"""So many of a table's records are drawn, the newest ones; damaged places before them are, too."""

LISTED = 200
"""So many are listed below the picture, and all that are damaged."""

_WIDE, _LEFT, _RIGHT = 900, 120, 12
_TOP, _ROW, _BETWEEN = 30, 12, 8
_UNITS = 1_000_000
"""Of the bars' own width, whatever time that is."""

_TICKS = 5
_DAYS = 259_200_000
"""Three of them, in milliseconds: above, ticks are dates."""

_STATES = ("completed", "archived", "pending", "damaged")
_STYLE = """
text { font: 11px system-ui, sans-serif; fill: var(--ink, #263238) }
.title { font-size: 12px }
.bars rect { stroke-width: 1; vector-effect: non-scaling-stroke }
.completed { fill: #00796b; stroke: #00796b } .archived { fill: #90a4ae; stroke: #90a4ae }
.pending { fill: #fff3cd; stroke: #f9a825 } .damaged, .mark { fill: #d32f2f; stroke: #d32f2f }
.mark { opacity: .8 }
.rule { stroke: var(--line, #b0bec5); stroke-width: .5 }
"""
_SCRIPT = files(__package__).joinpath("zoom.js").read_text(encoding="utf-8")
_ZOOM = f"<script>\nconst UNITS = {_UNITS}, DAYS = {_DAYS};\n{_SCRIPT}</script>"


class _Bar(NamedTuple):
    """A record; times are milliseconds since 1970."""

    lane: str
    moment: str
    begin: int
    end: int | None
    is_archived: bool

    @property
    def state(self) -> str:
        return "pending" if self.end is None else "archived" if self.is_archived else "completed"


class _Axis(NamedTuple):
    """From when to when there is something to see."""

    first: int
    until: int

    def wide(self, begin: int, end: int) -> float:
        return (end - begin) * _UNITS / (self.until - self.first)

    def x(self, time: int) -> str:
        return f"{self.wide(self.first, time):.0f}"


def svg(report: Report) -> str:
    """Return the picture of a table's timeline as an SVG element; the same report gives the same text."""
    every = list(_bars(report.records))
    hurt = _damaged(report)
    older = len(every) - DRAWN
    bars = [bar for number, bar in enumerate(every) if number >= older or bar.moment in hurt]
    marks = _marks(every, hurt)
    times = [*marks, *(time for bar in bars for time in (bar.begin, bar.end) if time is not None)]
    first, last = min(times, default=0), max(times, default=0)
    axis = _Axis(first, last + max((last - first) // 30, 1))
    lanes = {
        lane: _rows([bar for bar in bars if bar.lane == lane], axis.until)
        for lane in sorted({bar.lane for bar in bars})
    }
    heights = [_BETWEEN + _ROW * max(row + 1 for row, _ in placed) for placed in lanes.values()]
    tops = [0, *accumulate(heights)]
    high = max(tops[-1], _ROW)
    title = escape(_title(report, len(bars)))
    box = f'viewBox="0 0 {_WIDE} {_TOP + high + 50}" data-from="{axis.first}" data-to="{axis.until}"'
    inside = f'x="{_LEFT}" y="{_TOP}" width="{_WIDE - _LEFT - _RIGHT}" height="{high}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {box}>']
    parts += [f"<title>{title}</title><style>{_STYLE}</style>", f'<text class="title" y="14">{title}</text>']
    parts += _sides(list(lanes), tops)
    parts += [f'<svg class="bars" {inside} viewBox="0 0 {_UNITS} {high}" preserveAspectRatio="none">']
    # Behind the bars, so that it can be dragged wherever there is none.
    parts += [f'<rect width="{_UNITS}" height="{high}" fill-opacity="0" stroke="none"/>']
    for top, placed in zip(tops, lanes.values(), strict=False):
        parts += [_rect(bar, top + row * _ROW, axis, is_hurt=bar.moment in hurt) for row, bar in placed]
    parts += [f'<rect class="mark" x="{axis.x(mark)}" width="1" height="{high}"/>' for mark in marks]
    parts += ["</svg>", *_ticks(axis, high)] if bars else ["</svg>"]
    states = {bar.state for bar in bars} | ({"damaged"} if hurt else set())
    parts += [*_legend(_TOP + high + 32, states), "</svg>"]
    return "\n".join(parts)


def _bars(records: Iterable[Any]) -> Iterator[_Bar]:
    for each in records:
        if each.begun_at is not None:
            begin = _millis(each.begun_at)
            # A wrong clock may say that it ended before it began.
            end = None if each.ended_at is None else max(_millis(each.ended_at), begin)
            lane = getattr(each, "began", "") or each.action or "commit"
            yield _Bar(lane, _moment(each), begin, end, each.archived)


def _moment(record: Any) -> str:
    return str(getattr(record, "time", getattr(record, "number", "")))


def _millis(time: datetime) -> int:
    return round((time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def _damaged(report: Report) -> set[str]:
    return {moment for each in report.damage for moment in _moments(report, each)}


def _moments(report: Report, finding: Finding) -> Sequence[str]:
    """Return when it was: a file that tells nothing of itself is a record's own, or has its number."""
    if finding.moments:
        return finding.moments
    names = set(finding.names)
    own = [_moment(each) for each in report.records if each.row().get("path") in names]
    return own or [str(number) for name in names if (number := _number(name)) is not None]


def _number(path: str) -> int | None:
    """Return which of Delta's commits or Paimon's snapshots a file is, whatever is in it; None: neither."""
    folder, _, last = path.rpartition("/")
    kind = folder.rpartition("/")[2]
    if kind == "snapshot":
        return paimon.number_in(kind, last)
    return delta.number_in(last) if kind == "_delta_log" else None


def _marks(bars: Iterable[_Bar], moments: Iterable[str]) -> list[int]:
    """Return when the damaged moments were; one without a record was between its neighbours."""
    begins: dict[int, int] = {}
    for bar in bars:
        if bar.moment.isdecimal():
            begins.setdefault(int(bar.moment), bar.begin)
    order = sorted(begins)
    marks = set()
    for moment in moments:
        if order and moment.isdecimal():
            place = bisect_left(order, int(moment))
            around = [begins[each] for each in order[max(place - 1, 0) : place + 1]]
            marks.add(begins.get(int(moment), sum(around) // len(around)))
    return sorted(marks)


def _rows(bars: Sequence[_Bar], until: int) -> list[tuple[int, _Bar]]:
    """Give each bar of a lane the first row in which it is beside no other."""
    ends: list[int] = []
    placed = []
    for bar in sorted(bars, key=lambda each: each.begin):
        row = next((number for number, end in enumerate(ends) if end <= bar.begin), len(ends))
        ends[row : row + 1] = [until if bar.end is None else bar.end]
        placed.append((row, bar))
    return placed


def _rect(bar: _Bar, y: int, axis: _Axis, *, is_hurt: bool) -> str:
    end, ended = (axis.until, "...") if bar.end is None else (bar.end, _stamp(bar.end))
    state = f"{bar.state}, damaged" if is_hurt else bar.state
    what = f"{bar.lane} {bar.moment}, {state}: {_stamp(bar.begin)} to {ended}"
    # What has no width is not drawn at all; its outline has one at any zoom.
    wide = f"{max(axis.wide(bar.begin, end), 1):.0f}"
    place = f'x="{axis.x(bar.begin)}" y="{y}" width="{wide}" height="{_ROW - 3}"'
    look = "damaged" if is_hurt else bar.state
    return f'<rect class="{look}" {place}><title>{escape(what)}</title></rect>'


def _sides(lanes: Sequence[str], tops: Sequence[int]) -> Iterator[str]:
    for lane, top, bottom in zip(lanes, tops, tops[1:], strict=False):
        middle = _TOP + (top + bottom - _BETWEEN) / 2 + 3
        yield f'<text x="{_LEFT - 8}" y="{middle:g}" text-anchor="end">{escape(lane)}</text>'
        yield f'<path class="rule" d="M0 {_TOP + bottom - _BETWEEN / 2:g}H{_WIDE - _RIGHT}"/>'


def _ticks(axis: _Axis, high: int) -> Iterator[str]:
    bottom = _TOP + high
    for number in range(_TICKS):
        share = number / (_TICKS - 1)
        x = _LEFT + (_WIDE - _LEFT - _RIGHT) * share
        anchor = "start" if number == 0 else "end" if number == _TICKS - 1 else "middle"
        stamp = _stamp(axis.first + round((axis.until - axis.first) * share))
        text = stamp[:10] if axis.until - axis.first > _DAYS else stamp[11:19] if number else stamp[:19]
        yield f'<path class="rule" d="M{x:g} {_TOP}V{bottom + 4}"/>'
        yield f'<text class="tick" x="{x:g}" y="{bottom + 17}" text-anchor="{anchor}">{text}</text>'


def _legend(y: int, there: set[str]) -> Iterator[str]:
    for number, state in enumerate(each for each in _STATES if each in there):
        x = _LEFT + 100 * number
        yield f'<rect class="{state}" x="{x}" y="{y}" width="14" height="9"/>'
        yield f'<text x="{x + 20}" y="{y + 8}">{state}</text>'


def _stamp(millis: int) -> str:
    time = datetime.fromtimestamp(millis / 1000, timezone.utc)
    return f"{time:%Y-%m-%d %H:%M:%S}.{millis % 1000:03}"


def _title(report: Report, drawn: int) -> str:
    records = len(report.records)
    what = f"{drawn:,} of {records:,}" if records > drawn else f"{records:,}"
    damage = len(report.damage)
    hurt = "no damage found" if not damage else f"{damage} finding{'s' if damage > 1 else ''} of damage"
    return f"{report.format}, {report.version}: {what} records, {hurt}"


_NAMES = 20


def page(report: Report, *, command: str | None = None) -> str:
    return pages.page(f"Is {report.url} damaged?", body(report) + _ZOOM, command=command)


def page_of_all(url: str, reports: Sequence[Report | Failed], *, command: str | None = None) -> str:
    """Return the reports of the tables below a folder, as HTML: a line for each, then those with findings."""
    rows, bodies = [], []
    for number, each in enumerate(reports):
        name, verdict = escape(each.url), escape(each.verdict)
        if not isinstance(each, Failed) and each.findings:
            name = f'<a href="#t{number}">{name}</a>'
            bodies.append(f'<h2 id="t{number}">{escape(each.url)}</h2>\n{body(each, number, level=3)}')
        hurt = ' class="damage"' if each.damage else ""
        rows.append(f"<tr{hurt}><td>{name}</td><td>{verdict}</td></tr>")
    inside = "\n".join([pages.table(["table", "what was found"], rows), *bodies, _ZOOM])
    return pages.page(f"Are the tables in {url} damaged?", inside, command=command)


def body(report: Report, number: int = 0, level: int = 2) -> str:
    """Return what a page, where it has a ``number``, or a notebook shows of a report, as HTML."""
    listed, table = _table(report, number)
    findings = "\n".join(
        _finding(each, [at for at in _moments(report, each) if at in listed], number, level)
        for each in report.findings
    )
    return (
        f"<p>{escape(report.verdict)}</p>\n"
        f'<figure class="timeline" style="margin: 0">\n{pages.wide(svg(report))}\n</figure>\n{findings}\n'
        f"<h{level}>Timeline</h{level}>\n{table}\n"
    )


def _finding(each: Finding, listed: Sequence[str], number: int, level: int) -> str:
    names = [f"<li><code>{escape(name)}</code></li>" for name in each.names[:_NAMES]]
    if len(each.names) > _NAMES:
        names.append(f"<li>and {len(each.names) - _NAMES:,} more</li>")
    links = ", ".join(f'<a href="#r{number}-{escape(at)}">{escape(at)}</a>' for at in listed)
    return (
        f'<div class="{each.severity.value}"><h{level}>{each.severity.value}: {each.kind.value}</h{level}>'
        f"<p>{escape(each.detail)}.</p><p>{escape(each.means)}.</p>"
        f"<p><b>What to do:</b> {escape(each.do)}.</p>"
        f"{''.join(f'<pre>{escape(command)}</pre>' for command in each.commands)}"
        f"<ul>{''.join(names)}</ul>{f'<p>In the timeline: {links}</p>' if links else ''}</div>"
    )


def _table(report: Report, number: int) -> tuple[set[str], str]:
    """Return which moments have a row, and the rows."""
    if not report.records:
        return set(), "<p>It is empty.</p>"
    hurt = _damaged(report)
    older = max(len(report.records) - LISTED, 0)
    before = [each for each in report.records[:older] if _moment(each) in hurt]
    shown = [*before, *report.records[older:]]
    listed: set[str] = set()
    rows = []
    for each in shown:
        moment = _moment(each)
        place = "" if moment in listed else f' id="r{number}-{escape(moment)}"'
        listed.add(moment)
        marked = ' class="damage"' if moment in hurt else ""
        values = (_shown(value, report.url) for value in each.row().values())
        rows.append(pages.cells(values, attributes=place + marked))
    beside = f", and {len(before):,} damaged ones" if before else ""
    head = (
        f"<p>The newest {len(shown) - len(before):,}{beside}; {older - len(before):,} more came before.</p>"
    )
    return listed, (head if older else "") + pages.table(shown[-1].row(), rows)


def _shown(value: object, url: str) -> object:
    """Return what a cell has room for: seconds, yes or nothing, a path that begins at the table."""
    if isinstance(value, bool):
        return "yes" if value else None
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return value.removeprefix(f"{url}/") if isinstance(value, str) else value
