"""What reports are made of: an HTML page that stands by itself, on any screen, in the dark and on paper.

Its charts are matplotlib's, which only whoever draws one must have.
"""

from __future__ import annotations

import io
from datetime import datetime, timezone
from html import escape
from typing import TYPE_CHECKING, Any

from putifabsent.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from matplotlib.figure import Figure

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #263238; --paper: #fff; --faint: #546e7a; --line: #b0bec5;
  --damage: #b71c1c; --hurt: #fdecea; --link: #00695c }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #cfd8dc; --paper: #12181b; --faint: #90a4ae; --line: #455a64; --damage: #ef9a9a;
    --hurt: #3a1a1a; --link: #80cbc4 }}
  svg.chart {{ filter: invert(.93) hue-rotate(180deg) }}
}}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--paper); overflow-wrap: anywhere }}
a {{ color: var(--link) }}
.about {{ color: var(--faint); font-size: 13px }}
.wide {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px;
  overflow-wrap: normal }}
th, td {{ padding: .15rem .7rem; text-align: left; white-space: nowrap }}
th {{ border-bottom: 1px solid var(--line); vertical-align: bottom }}
table.numbers :is(th, td):not(:first-child) {{ text-align: right }}
tr.damage td {{ background: var(--hurt) }}
div.damage, div.notice {{ border-left: 4px solid var(--damage); padding-left: 1rem }}
div.notice {{ border-color: #f9a825 }}
table:not(.numbers) td:last-child {{ white-space: normal; min-width: 14rem }}
.wide > svg {{ width: 100%; min-width: 36rem; height: auto; margin: .5rem 0 }}
.wide > svg.chart {{ min-width: 30rem; max-width: 56rem }}
code {{ font-size: 12px }}
@media print {{
  :root {{ --ink: #000; --paper: #fff; --faint: #333 }}
  body {{ max-width: none; margin: 0 }}
  button {{ display: none }}
  div.damage, div.notice, tr {{ break-inside: avoid }}
  td {{ white-space: normal }}
}}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="about">{about}</p>
{body}
</main>
</body>
</html>
"""


def page(title: str, body: str, *, command: str | None = None) -> str:
    """Return a page; it says when it was written, by which version, and by which command (without secrets).

    The title is text, the body HTML.
    """
    now = datetime.now(timezone.utc)
    about = f"Written {now:%Y-%m-%d %H:%M} UTC by putifabsent {escape(__version__)}"
    if command is not None:
        about += f": <code>{escape(command)}</code>"
    return _PAGE.format(title=escape(title), about=about, body=body)


def table(head: Iterable[str], rows: Iterable[str], *, numbers: bool = False) -> str:
    """Return a table that scrolls by itself where it is too wide.

    The head is text, the rows are HTML (:func:`cells`). With ``numbers``, all columns but the first are some.
    """
    kind = ' class="numbers"' if numbers else ""
    body = "\n".join(rows)
    return wide(f"<table{kind}><thead>{cells(head, 'th')}</thead>\n<tbody>\n{body}\n</tbody></table>")


def wide(inside: str) -> str:
    """Return what scrolls by itself where the screen is narrower, also by keys."""
    return f'<div class="wide" tabindex="0">{inside}</div>'


def cells(values: Iterable[object], element: str = "td", attributes: str = "") -> str:
    """Return a row; None is an empty cell."""
    inside = "".join(
        f"<{element}>{'' if value is None else escape(str(value))}</{element}>" for value in values
    )
    return f"<tr{attributes}>{inside}</tr>"


_STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e8ea",
    "axes.axisbelow": True,
    # Letters, not their outlines: a tenth of the bytes.
    "svg.fonttype": "none",
}


def chart(draw: Callable[[], Figure], name: str) -> str:
    """Return a figure as an SVG element, which a page turns dark; the same figure gives the same text.

    ``name`` is its own among those of a page: parts are found by a hash that is made from it.
    """
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        draw().savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :].replace("<svg", '<svg class="chart"', 1)


def png(draw: Callable[[], Figure], file: Path) -> None:
    """Write a figure as PNG."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        draw().savefig(file, dpi=160)
