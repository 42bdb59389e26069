"""What comes of runs, as one HTML file with its charts inside."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from putifabsent.lab import drawing
from putifabsent.lab.stress.charts import svgs
from putifabsent.lab.stress.rules import PROMISES
from putifabsent.lab.stress.summary import COLUMNS, cells, errors, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.lab.stress.running import Ran, Stress

__all__ = ["page"]

_EXAMPLES = 3

_BODY = """<p>{writers} writers, {formats}; {tables} table(s) of each format, {seconds:g} s on each path.
Faults: {faults}. Every creation and read stands in a history, which is judged by these promises:</p>
<ul>{promises}</ul>
<p><strong>{verdict}</strong></p>
<table>
<thead>{head}</thead>
<tbody>
{rows}
</tbody>
</table>
{charts}
<h2>What was broken</h2>
{broken}
<h2>What commits were told</h2>
<table>
<tbody>
{told}
</tbody>
</table>
<h2>What else went wrong</h2>
{errors}
<p>The proxy that loses answers slows all paths down: compare them with one another.</p>"""


def page(stress: Stress, runs: Sequence[Ran]) -> str:
    """Return the report, as HTML."""
    body = _BODY.format(
        writers=stress.writers,
        formats=", ".join(stress.formats),
        tables=stress.tables,
        seconds=stress.seconds,
        faults=", ".join(stress.faults) or "none",
        promises="".join(f"<li><b>{letter}</b>: {escape(said)}</li>" for letter, said in PROMISES.items()),
        verdict=escape(verdict(runs)),
        head=drawing.line("th", COLUMNS),
        rows="\n".join(drawing.line("td", cells(ran)) for ran in runs),
        charts="\n".join(svgs(runs)),
        broken="\n".join(_broken(ran) for ran in runs if ran.violations) or "<p>Nothing.</p>",
        told="\n".join(
            drawing.line(
                "td", [ran.contender.label, *(f"{n:,} {word}" for word, n in ran.figures.commits.items())]
            )
            for ran in runs
        ),
        errors="\n".join(filter(None, map(_errors, runs))) or "<p>Nothing.</p>",
    )
    return drawing.page("Under stress", body)


def _errors(ran: Ran) -> str:
    listed = "".join(f"<li>{times:,} times: {escape(error)}</li>" for error, times in errors(ran))
    return listed and f"<h3>{escape(ran.contender.label)}</h3><ul>{listed}</ul>"


def _broken(ran: Ran) -> str:
    times = Counter((each.promise, each.breach) for each in ran.violations)
    items = []
    for (promise, breach), number in times.items():
        examples = [each for each in ran.violations if (each.promise, each.breach) == (promise, breach)]
        shown = "".join(
            f"<br><code>{escape(each.name)}</code>: {escape(each.said)}" for each in examples[:_EXAMPLES]
        )
        items.append(f"<li><b>{promise}</b>, {number:,} times: {escape(breach)}{shown}</li>")
    return f"<h3>{escape(ran.contender.label)}</h3><ul>{''.join(items)}</ul>"
