"""What comes of a run: its history, which promises it breaks, its figures; for programs, and as an HTML page.

Nothing is deleted under stress, so a name is a register that is written at most once. Its history is
linearizable (Herlihy and Wing, "Linearizability", 1990) exactly if there is one content that all reads found,
somebody offered it, no other creation was acknowledged, nobody who lost offered it, nobody had evidence of it
before its creation began, and nobody found nothing after somebody had evidence. Reads, losses and
acknowledgements are evidence. Where a name has an identity beside it (Hudi's instants), a loser need not find
this very name, nor ever any: its rival holds the instant before it has written a byte.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from functools import partial
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from putifabsent import pages
from putifabsent.lab.stress.writers import Operation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from putifabsent.lab.stress.paths import Contender
    from putifabsent.lab.stress.pool import Stress

PROMISES = {
    "U": "one creation of a name is acknowledged",
    "B": "bytes that were readable do not change",
    "K": "what was acknowledged is kept, and no winner is told that it lost",
    "T": "a name that is reported as taken was lost to another writer",
    "L": "one order explains all responses",
}

_TEXT = files(__package__).joinpath("rules.sql").read_text(encoding="utf-8")
_, _COMMON, _ = _TEXT.split("\n\n", 2)
RULES = {
    (promise, breach): f"{_COMMON}\n{sql}"
    for promise, breach, sql in re.findall(r"(?ms)^-- (\w): (.+?)\n(.+?)(?=^--|\Z)", _TEXT)
}
"""The questions, by the letter of the promise that an answer breaks, and what has happened then."""

_TYPES = {"writer": pa.int64(), "begun": pa.int64(), "ended": pa.int64(), "closing": pa.bool_()}
SCHEMA = pa.schema([(each.name, _TYPES.get(each.name, pa.string())) for each in fields(Operation)])
"""A column for each attribute of an operation."""

_PERCENTILES = (50, 95, 99)
_IS_COMMIT = (pc.field("action") == "create") & (pc.field("purpose") == "commit")


def table_of(operations: Iterable[Operation]) -> pa.Table:
    """Return operations as a table, in :data:`SCHEMA`."""
    return pa.Table.from_pylist(list(map(asdict, operations)), SCHEMA)


class Violation(NamedTuple):
    """A promise that was broken: the rule's letter and breach, the name, and what is wrong with it."""

    promise: str
    breach: str
    name: str
    detail: str


def judge(history: pa.Table) -> list[Violation]:
    """Return what broke a promise; an empty list is what one hopes for."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("history", history)
        return [
            Violation(*broken, name, detail)
            for broken, sql in RULES.items()
            for name, detail in sorted(connection.execute(sql).fetchall())
        ]


def count(violations: Iterable[Violation]) -> Counter[str]:
    """Return how often each promise was broken, by its letter."""
    return Counter(each.promise for each in violations)


class Figures(NamedTuple):
    """What a history comes to."""

    commits: dict[str, int]
    """Creations by which a commit is decided, by their outcomes; ``"none"``: their writers died."""
    tables: dict[str, int]  # the acknowledged ones, by their tables
    rate: float  # acknowledged commits a second, of those begun in time
    milliseconds: dict[int, float]  # what an acknowledged one took, by percentiles: 50, 95, 99
    operations: int  # creations and reads in all, the closing ones aside
    faults: dict[str, int]

    @property
    def acknowledged(self) -> int:
        """How many commits were."""
        return self.commits.get("created", 0)


def figures(history: pa.Table, seconds: float) -> Figures:
    """Return the figures of a history that took so long."""
    commits = history.filter(_IS_COMMIT)
    outcomes = Counter(outcome or "none" for outcome in commits["outcome"].to_pylist())
    acknowledged = acknowledged_commits(history)
    in_time = int((since_begun(history, acknowledged, "begun") <= seconds).sum())
    took = latencies(history)
    actions: Counter[str] = Counter(history.filter(~pc.field("closing"))["action"].to_pylist())
    return Figures(
        dict(outcomes.most_common()),
        dict(Counter(acknowledged["folder"].to_pylist()).most_common()),
        in_time / seconds,
        {each: float(np.percentile(took, each)) for each in _PERCENTILES} if len(took) else {},
        actions["create"] + actions["read"],
        {each: actions[each] for each in ("kill", "pause") if actions[each]},
    )


def acknowledged_commits(history: pa.Table) -> pa.Table:
    """Return the creations by which a commit was decided and acknowledged."""
    return history.filter(_IS_COMMIT & (pc.field("outcome") == "created"))


def since_begun(history: pa.Table, of: pa.Table, column: str) -> Any:
    """Return times of some operations, in seconds since the first one of their host, as numpy's array."""
    firsts = history.filter(~pc.field("closing")).group_by("host").aggregate([("begun", "min")])
    first = dict(zip(firsts["host"].to_pylist(), firsts["begun_min"].to_pylist(), strict=True))
    begins = np.array([first[each] for each in of["host"].to_pylist()], np.int64)
    return (of[column].to_numpy() - begins) / 1e9


def latencies(history: pa.Table) -> Any:
    """Return the milliseconds of each acknowledged commit, as an array of numpy's."""
    acknowledged = acknowledged_commits(history)
    return pc.subtract(acknowledged["ended"], acknowledged["begun"]).to_numpy() / 1e6


class Result(NamedTuple):
    """What came of a run."""

    contender: Contender
    root: str
    history: pa.Table
    figures: Figures
    violations: list[Violation]
    requests: int | None  # that the store got, for all of it; None where that can't be counted
    lost: int  # of these, how many had a lost answer
    idle: list[str]  # tables that have no acknowledged commit: nothing was tried there


COLUMNS = ("path", "commits", "a second", "p50 ms", "p95 ms", "p99 ms", "requests each", *PROMISES)

# What differs from one to the next of the same kind: paths, numbers, tokens.
_PARTICULAR = re.compile(r"[^\s:'\"]*[/0-9][^\s:'\"]*")


def row(result: Result) -> dict[str, Any]:
    """Return a run for programs."""
    found, broken = result.figures, count(result.violations)
    return {
        "path": result.contender.label,
        "ours": result.contender.is_ours,
        "root": result.root,
        "commits": found.acknowledged,
        "told": found.commits,
        "commits_per_second": round(found.rate, 2),
        "milliseconds": {f"p{each}": round(value, 2) for each, value in found.milliseconds.items()},
        "operations": found.operations,
        "faults": {**found.faults, "lost_answers": result.lost},
        "requests": result.requests,
        "requests_per_commit": _each(result),
        "errors": dict(errors(result)),
        "violations": {promise: broken[promise] for promise in PROMISES},
        "breaches": [each._asdict() for each in result.violations],
    }


def cells(result: Result) -> list[str]:
    """Return the cells of a run's line in a table, by :data:`COLUMNS`."""
    found, each = result.figures, _each(result)
    broken = count(result.violations)
    return [
        result.contender.label,
        f"{found.acknowledged:,}",
        f"{found.rate:.1f}",
        *(f"{found.milliseconds[at]:.1f}" if at in found.milliseconds else "-" for at in (50, 95, 99)),
        "-" if each is None else f"{each:.1f}",
        *(str(broken[promise]) for promise in PROMISES),
    ]


def errors(result: Result) -> list[tuple[str, int]]:
    """Return the other errors of writers, without names and numbers, and how often: most frequent first."""
    failed = result.history.filter(pc.field("outcome").isin(["failed", "unknown"]))
    return Counter(_PARTICULAR.sub("...", error) for error in failed["error"].to_pylist()).most_common()


_ENOUGH = 100  # acknowledged commits; in fewer, what is rare does not happen


def verdict(runs: Sequence[Result]) -> str:
    """Say in a sentence what has come of the runs."""
    ours = [result for result in runs if result.contender.is_ours]
    stock = [result for result in runs if not result.contender.is_ours]
    broken = sum(len(result.violations) for result in ours)
    idle = [
        f"{result.contender.label}, {each.removeprefix(f'{result.root}/')}"
        for result in ours
        for each in result.idle
    ]
    commits = sum(result.figures.acknowledged for result in ours)
    if broken:
        bug = "that is a bug, please send this report"
        sentence = f"{broken} promises were broken through putifabsent: {bug}."
    elif idle:
        sentence = f"No commit was acknowledged of {'; '.join(idle)}: nothing was tried there."
    else:
        few = "" if commits >= _ENOUGH else ": too few to mean anything, let it run longer"
        sentence = f"No promise was broken through putifabsent, in {commits:,} acknowledged commits{few}."
    if not stock:
        return sentence
    others = sum(len(result.violations) for result in stock)
    commits = sum(result.figures.acknowledged for result in stock)
    return f"{sentence} Without it: {others:,} breaches, beside {commits:,} acknowledged commits."


def _each(result: Result) -> float | None:
    if result.requests is None or not result.figures.acknowledged:
        return None
    return round(result.requests / result.figures.acknowledged, 1)


# --- the report

_COLOURS = ("#00796b", "#b0532f", "#37474f", "#7b1fa2", "#1976d2", "#827717", "#c2185b", "#5d4037")
_PROMISES = dict(zip(PROMISES, ("#b71c1c", "#ef6c00", "#6a1b9a", "#1565c0", "#558b2f"), strict=True))


def _svgs(runs: Sequence[Result]) -> Iterator[str]:
    yield pages.chart(partial(_breaches, runs), "breaches")
    yield pages.chart(partial(_latencies, runs), "latencies")
    for number, result in enumerate(runs):
        yield pages.chart(partial(_course, result), f"course{number}")


def _breaches(runs: Sequence[Result]) -> Figure:
    from matplotlib.ticker import MaxNLocator

    figure = pages.figure(7, 1.4 + 0.36 * len(runs))
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
    figure = pages.figure(7, 3.9)
    axes = figure.add_subplot()
    for number, result in enumerate(runs):
        took = np.sort(latencies(result.history))
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
    figure = pages.figure(7, 2.3)
    axes = figure.add_subplot()
    history = result.history.filter(~pc.field("closing"))
    seconds = partial(since_begun, history)
    times = seconds(acknowledged_commits(history), "ended")
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
        verdict=escape(verdict(runs)),
        table=pages.table(
            COLUMNS,
            (pages.cells(cells(each), attributes=' class="damage"' * bool(each.violations)) for each in runs),
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
    listed = "".join(f"<li>{times:,} times: {escape(error)}</li>" for error, times in errors(result))
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
