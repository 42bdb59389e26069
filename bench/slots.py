"""How many writers can one table take, with slots and without: ``python -m bench.slots [--json] [--page]``.

Writers, each a process with a mount of its own (forked, so that 32 share what they have imported), append to
one table as fast as they can for some seconds: to a Delta log, as the stress bench writes it; to a Paimon
table, by pypaimon; to an Iceberg table that is kept by path, by pyiceberg. With slots, all of a commit, its
data file too, is done ``with fs.slot(table)``. What is under way when the time is over is waited for; then
the table is read. Exits with 1 where a commit that was acknowledged is not in it.

The store is a real S3 server behind a relay that counts requests, and holds each up for 20 ms or not at all.
Servers and writers share this machine: read the ratios. A quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.slot_tables import TABLES, Place
from bench.slot_writers import Cell, Commit, Found
from bench.wire import Wire
from tests.child import Child
from tests.servers import server
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

    from bench.wire import Speech

__all__ = ["Figures", "figures", "measured"]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "how-many-writers.md"
PLOT = PAGE.with_suffix("") / "slots.svg"
MARK = re.compile(r"(?<=<!-- measured by bench/slots.py -->\n\n).*?(?=\n\n)", re.DOTALL)
WRITERS = (2, 4, 8, 16, 32)
DELAYS = (0, 20)
TITLES = {"delta": "Delta", "paimon": "Paimon", "iceberg": "Iceberg"}
_SHOWN = {
    "rate": ("commits\na second", "{:.1f}"),
    "tries": ("tries\na commit", "{:.1f}"),
    "median": ("\nmedian s", "{:.2f}"),
    "p99": ("\np99 s", "{:.1f}"),
    "gave_up": ("gave\nup", "{}"),
    "requests": ("requests\na commit", "{:.0f}"),
}
_COLOURS = {False: "#b0532f", True: "#00796b"}


class Figures(NamedTuple):
    """What a cell comes to.

    Attributes
    ----------
    rate
        Commits a second that were acknowledged before the time was over.
    tries
        A commit that was acknowledged; what was given up counts, too.
    median, p99
        Seconds of a commit that was acknowledged, with the wait for its slot; None: there was none.
    acknowledged, gave_up, lost
        How many commits, those after the time included.
    requests
        A commit that was acknowledged.
    errors
        What those who gave up were told, as far as it differs in its kind.
    """

    rate: float
    tries: float
    median: float | None
    p99: float | None
    acknowledged: int
    gave_up: int
    lost: int
    requests: float
    errors: Sequence[str]


def figures(found: Found, seconds: float, requests: int) -> Figures:
    """Return the figures of what came of a cell, whose commits were begun within so many seconds."""
    kept = [each for each in found.commits if each.mark]
    took = sorted(each.ended - each.began for each in kept)
    return Figures(
        sum(each.ended <= seconds for each in kept) / seconds,
        sum(each.tries for each in found.commits) / max(1, len(kept)),
        took[len(took) // 2] if took else None,
        took[int(len(took) * 0.99)] if took else None,
        len(kept),
        len(found.commits) - len(kept),
        len(found.lost),
        requests / max(1, len(kept)),
        sorted({each.error.partition(":")[0] for each in found.commits if each.error}),
    )


# --- what is run


def measured(options: argparse.Namespace, tick: Callable[[str], object]) -> Iterator[dict[str, Any]]:
    """Run each cell, and give its figures; ``tick`` is told which one begins."""
    with ExitStack() as running:
        store = running.enter_context(server(options.s3))
        at: dict[str, tuple[str, Speech]] = {"store": (urlsplit(store.endpoint).netloc, "http")}
        wires = {ms: running.enter_context(Wire(at, delay=ms / 1000)) for ms in options.delays}
        for form in options.formats:
            python = options.paimon if form == "paimon" else sys.executable
            with _writing(form, python) as writers:
                for ms, wire in wires.items():
                    for many in options.writers:
                        for slots in (False, True):
                            tick(f"{TITLES[form]}, {many} writers, {ms} ms{', slots' * slots}")
                            cell = _cell(store, wire, form, many, options.seconds, slots=slots)
                            what = {"format": form, "writers": many, "delay_ms": ms, "slots": slots}
                            yield {**what, **_of(cell, writers, wire)._asdict()}


def _cell(store: Any, wire: Wire, form: str, writers: int, seconds: float, *, slots: bool) -> Cell:
    bucket, told = store.new_bucket(), store.storage_options
    places = []
    for endpoint in (f"http://{wire.at['store']}", store.endpoint):
        vouch(endpoint, bucket=bucket)
        places.append(
            Place(endpoint, told["key"], told["secret"], told["client_kwargs"]["region_name"], bucket)
        )
    return Cell(form, writers, slots, seconds, *places)


@contextmanager
def _writing(form: str, python: str) -> Iterator[Child]:
    """Run the program that runs cells of a format."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-m", "bench.slot_writers", form]
        child = Child(command, Path(folder, "log"), cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        try:
            yield child
        finally:
            child.end()


def _of(cell: Cell, writers: Child, wire: Wire) -> Figures:
    """Run a cell, and return its figures; what a writer does before it begins is not counted."""
    writers.say(cell._asdict())
    writers.heard()
    wire.counted()
    came = writers.heard()
    requests = wire.counted().total()
    return figures(Found([Commit(*each) for each in came["commits"]], came["lost"]), cell.seconds, requests)


# --- what is shown


def _pairs(found: Sequence[Mapping[str, Any]], ms: int) -> Iterator[tuple[str, int, Any, Any]]:
    """Give each format and number of writers, with the figures without slots, and with them."""
    of = {(each["format"], each["writers"], each["slots"]): each for each in found if each["delay_ms"] == ms}
    for form, writers, slots in of:
        if not slots:
            yield form, writers, of[form, writers, False], of[form, writers, True]


def shown(found: Sequence[Mapping[str, Any]], ms: int) -> Table:
    """Return the table of all cells with a delay."""
    title = f"each request held up by {ms} ms: without slots / with slots"
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for column in ("writers", *(heading for heading, _ in _SHOWN.values())):
        table.add_column(column, justify="right", no_wrap=True)
    for form, writers, *both in _pairs(found, ms):
        cells = (
            "/".join("-" if each[word] is None else said.format(each[word]) for each in both)
            for word, (_, said) in _SHOWN.items()
        )
        table.add_row(TITLES[form], str(writers), *cells)
    return table


def rows(found: Sequence[Mapping[str, Any]], ms: int) -> str:
    """Return a table of Markdown: the rates, and how many commits of the most writers were given up."""
    writers = sorted({each["writers"] for each in found})
    cells: dict[str, list[str]] = {}
    for form, many, *both in _pairs(found, ms):
        cells.setdefault(form, []).append("/".join(f"{each['rate']:.1f}" for each in both))
        if many == writers[-1]:
            share = (each["gave_up"] / max(1, each["gave_up"] + each["acknowledged"]) for each in both)
            cells[form].append("/".join(f"{100 * each:.0f}" for each in share))
    headings = (*map(str, writers), f"of {writers[-1]}, % gave up")
    return "\n".join(
        (
            f"| writers: | {' | '.join(headings)} |",
            f"|---|{'---|' * len(headings)}",
            *(f"| {TITLES[form]} | {' | '.join(of)} |" for form, of in cells.items()),
        )
    )


def _drawn(found: Sequence[Mapping[str, Any]], ms: int) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    forms = list(dict.fromkeys(each["format"] for each in found))
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    panels = figure.subplots(2, len(forms), sharex=True, squeeze=False)
    for column, form in enumerate(forms):
        for line, (word, label) in enumerate((("rate", "commits a second"), ("p99", "p99, seconds"))):
            axes = panels[line][column]
            for slots, colour in _COLOURS.items():
                of = [each for each in found if (each["format"], each["slots"]) == (form, slots)]
                of = [each for each in of if each["delay_ms"] == ms and each[word] is not None]
                at, values = [each["writers"] for each in of], [each[word] for each in of]
                axes.plot(at, values, "-o", ms=4, color=colour, label="slots" if slots else "without")
            axes.set_xscale("log", base=2)
            axes.set_ylim(bottom=0)
            axes.set_xticks(WRITERS, map(str, WRITERS))
            axes.xaxis.set_minor_locator(NullLocator())
            if not column:
                axes.set_ylabel(label)
            axes.set_title("" if line else TITLES[form], fontsize=11)
            axes.set_xlabel("writers" if line else "")
    labels = panels[0][0].get_legend_handles_labels()
    figure.legend(*labels, loc="outside upper center", ncols=2, frameon=False)
    return figure


def write_page(found: Sequence[Mapping[str, Any]]) -> None:
    """Put the figures of the far server into the documentation: the table, and the plot."""
    from putifabsent import pages

    ms = max(each["delay_ms"] for each in found)
    text, replaced = MARK.subn(lambda _: rows(found, ms), PAGE.read_text())
    if not replaced:
        raise RuntimeError(f"{PAGE} has no mark for the table")
    PAGE.write_text(text)
    PLOT.parent.mkdir(exist_ok=True)
    pages.svg(partial(_drawn, found, ms), PLOT)


def main() -> int:
    """Run everything, and print it; return 1 where a commit was lost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print figures for machines, on standard output")
    parser.add_argument("--page", action="store_true", help="put the figures into the documentation")
    parser.add_argument("--seconds", type=float, default=8, help="in which commits are begun")
    parser.add_argument("--formats", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--writers", nargs="+", type=int, default=WRITERS)
    parser.add_argument("--delays", nargs="+", type=int, default=DELAYS, help="milliseconds of a request")
    parser.add_argument("--s3", default="localbucket", help="which S3 server: versitygw, minio")
    paimon = Path(sys.prefix).parent / ".venv-paimon" / "bin" / "python"
    parser.add_argument("--paimon", default=str(paimon), help="the Python that has pypaimon")
    options = parser.parse_args()
    console = Console(stderr=True)
    found = []
    with Progress(console=console, transient=True) as progress:
        cells = 2 * len(options.formats) * len(options.delays) * len(options.writers)
        task = progress.add_task("", total=cells)
        for each in measured(options, lambda what: progress.update(task, description=what)):
            found.append(each)
            progress.advance(task)
    if options.json:
        print(json.dumps(found, indent=2))
    for ms in options.delays:
        console.print(shown(found, ms))
    lost = sum(each["lost"] for each in found)
    console.print(f"{lost} of {sum(each['acknowledged'] for each in found):,} commits were lost")
    if options.page:
        write_page(found)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
