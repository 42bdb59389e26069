"""What comes of a run: its history, which promises it breaks, its figures; for programs and for people.

Nothing is deleted under stress, so a name is a register that is written at most once. Its history is
linearizable (Herlihy and Wing, "Linearizability", 1990) exactly if there is one content that all reads found,
somebody offered it, no other creation was acknowledged, nobody who lost offered it, nobody had evidence of it
before its creation began, and nobody found nothing after somebody had evidence. Reads, losses and
acknowledgements are evidence. Where a name has an identity beside it (Hudi's instants), a loser need not find
this very name, nor ever any: its rival holds the instant before it has written a byte.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from putifabsent.lab.stress.journal import Operation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from putifabsent.lab.stress.paths import Contender

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
        return _violations(lambda sql: connection.execute(sql).fetchall())


def judge_on_spark(history: DataFrame) -> list[Violation]:
    """Return the same of a history that is a DataFrame."""
    session = history.sparkSession
    history.createOrReplaceTempView("history")
    try:
        return _violations(lambda sql: map(tuple, session.sql(sql).collect()))
    finally:
        session.catalog.dropTempView("history")


def _violations(ask: Callable[[str], Iterable[tuple[str, str]]]) -> list[Violation]:
    return [
        Violation(*broken, name, detail) for broken, sql in RULES.items() for name, detail in sorted(ask(sql))
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
