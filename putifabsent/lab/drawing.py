"""How the lab draws: one style, and SVG that stands inside a page."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

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


def svg(draw: Callable[[], Figure], name: str) -> str:
    """Return a figure as an SVG element, which a page turns dark; the same figure gives the same text.

    ``name`` is its own among those of a page: parts are found by a hash that is made from it.
    """
    text = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        draw().savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :].replace("<svg", '<svg class="chart"', 1)


def png(draw: Callable[[], Figure], file: Path) -> None:
    """Write a figure as PNG."""
    with mpl.rc_context(_STYLE):
        draw().savefig(file, dpi=160)
