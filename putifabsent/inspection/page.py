"""A report that stands by itself: one HTML file, its picture inside."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from putifabsent.inspection.picture import DRAWN, svg

if TYPE_CHECKING:
    from collections.abc import Iterable

    from putifabsent.inspection.findings import Finding
    from putifabsent.inspection.inspecting import Report

__all__ = ["page"]

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
<p>{verdict}</p>
{picture}
{findings}
<h2>Timeline</h2>
{rows}
</body>
</html>
"""


def page(report: Report) -> str:
    """Return the report, as HTML."""
    return _PAGE.format(
        url=escape(report.url),
        verdict=escape(report.verdict),
        picture=svg(report),
        findings="\n".join(map(_finding, report.findings)),
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
