"""How the lab draws: one style, and SVG that stands inside a page."""

from __future__ import annotations

import io
from html import escape
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from matplotlib.figure import Figure

__all__ = ["line", "page", "png", "svg"]

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

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; color: #263238 }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th, td {{ padding: .15rem .7rem; text-align: right; white-space: nowrap }}
th {{ border-bottom: 1px solid #90a4ae; vertical-align: bottom }}
svg {{ width: 100%; height: auto; margin: .5rem 0 }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


def svg(draw: Callable[[], Figure], name: str) -> str:
    """Return a figure as an SVG element; the same figure gives the same text.

    Parameters
    ----------
    name
        Its own among those of a page: parts are found by a hash that is made from it.
    """
    text = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        draw().savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]


def png(draw: Callable[[], Figure], file: Path) -> None:
    """Write a figure as PNG."""
    with mpl.rc_context(_STYLE):
        draw().savefig(file, dpi=160)


def line(element: str, values: Iterable[str]) -> str:
    """Return a line of a table, in HTML; ``element`` is ``th`` or ``td``."""
    return "<tr>" + "".join(f"<{element}>{escape(value)}</{element}>" for value in values) + "</tr>"


def page(title: str, body: str) -> str:
    """Return an HTML page that stands by itself."""
    return _PAGE.format(title=title, body=body)
