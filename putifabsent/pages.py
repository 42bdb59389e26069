"""What reports are made of: an HTML page that stands by itself, on any screen, in the dark and on paper.

Its charts are matplotlib's, which only whoever draws one must have.
"""

from __future__ import annotations

import io
from datetime import datetime, timezone
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from putifabsent import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from matplotlib.figure import Figure

_PAGE = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))


def page(title: str, body: str, *, command: str | None = None) -> str:
    """Return a page; it says when it was written, by which version, and by which command (without secrets).

    The title is text, the body HTML.
    """
    now = datetime.now(timezone.utc)
    about = f"Written {now:%Y-%m-%d %H:%M} UTC by putifabsent {escape(__version__)}"
    if command is not None:
        about += f": <code>{escape(command)}</code>"
    return _PAGE.substitute(title=escape(title), about=about, body=body)


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


def figure(width: float, height: float) -> Figure:
    """Return an empty figure, of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


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


def svg(draw: Callable[[], Figure], file: Path) -> None:
    """Write a figure as SVG, on white: no page that shows it as a picture can turn it dark."""
    drawn = chart(draw, file.stem).replace("<svg", '<svg style="background: #fff"', 1)
    file.write_text(drawn, encoding="utf-8")


def png(draw: Callable[[], Figure], file: Path) -> None:
    """Write a figure as PNG."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        draw().savefig(file, dpi=160)
