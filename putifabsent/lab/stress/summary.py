"""What comes of runs: a row for programs, a line for people, and a sentence."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from putifabsent.lab.stress.judging import count
from putifabsent.lab.stress.rules import PROMISES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.lab.stress.running import Ran

__all__ = ["COLUMNS", "cells", "errors", "row", "verdict"]

COLUMNS = ("path", "commits", "a second", "p50 ms", "p95 ms", "p99 ms", "requests each", *PROMISES)

# What differs from one to the next of the same kind: paths, numbers, tokens.
_PARTICULAR = re.compile(r"[^\s:'\"]*[/0-9][^\s:'\"]*")


def row(ran: Ran) -> dict[str, Any]:
    """Return a run for programs."""
    found, broken = ran.figures, count(ran.violations)
    return {
        "path": ran.contender.label,
        "ours": ran.contender.is_ours,
        "root": ran.root,
        "commits": found.acknowledged,
        "told": found.commits,
        "commits_per_second": round(found.rate, 2),
        "milliseconds": {f"p{each}": round(value, 2) for each, value in found.milliseconds.items()},
        "operations": found.operations,
        "faults": {**found.faults, "lost_answers": ran.lost},
        "requests": ran.requests,
        "requests_per_commit": _each(ran),
        "errors": dict(errors(ran)),
        "violations": {promise: broken[promise] for promise in PROMISES},
        "breaches": [each._asdict() for each in ran.violations],
    }


def cells(ran: Ran) -> list[str]:
    """Return the cells of a run's line in a table, by :data:`COLUMNS`."""
    found, each = ran.figures, _each(ran)
    broken = count(ran.violations)
    return [
        ran.contender.label,
        f"{found.acknowledged:,}",
        f"{found.rate:.1f}",
        *(f"{found.milliseconds[at]:.1f}" if at in found.milliseconds else "-" for at in (50, 95, 99)),
        "-" if each is None else f"{each:.1f}",
        *(str(broken[promise]) for promise in PROMISES),
    ]


def errors(ran: Ran) -> list[tuple[str, int]]:
    """Return what else writers were told, without names and numbers, and how often: most frequent first."""
    said = (
        _PARTICULAR.sub("...", error)
        for outcome, error in zip(
            ran.history["outcome"].to_pylist(), ran.history["error"].to_pylist(), strict=True
        )
        if outcome in ("failed", "unknown")
    )
    return Counter(said).most_common()


def verdict(runs: Sequence[Ran]) -> str:
    """Say in a sentence what has come of the runs."""
    ours = [ran for ran in runs if ran.contender.is_ours]
    stock = [ran for ran in runs if not ran.contender.is_ours]
    broken = sum(len(ran.violations) for ran in ours)
    idle = [
        f"{ran.contender.label}, {each.removeprefix(f'{ran.root}/')}" for ran in ours for each in ran.idle
    ]
    commits = sum(ran.figures.acknowledged for ran in ours)
    if broken:
        said = f"{broken} promises were broken through putifabsent: that is a bug, please send this report."
    elif idle:
        said = f"No commit was acknowledged of {'; '.join(idle)}: nothing was tried there."
    else:
        said = f"No promise was broken through putifabsent, in {commits:,} acknowledged commits."
    if not stock:
        return said
    others = sum(len(ran.violations) for ran in stock)
    commits = sum(ran.figures.acknowledged for ran in stock)
    return f"{said} Without it: {others:,} breaches, beside {commits:,} acknowledged commits."


def _each(ran: Ran) -> float | None:
    if ran.requests is None or not ran.figures.acknowledged:
        return None
    return round(ran.requests / ran.figures.acknowledged, 1)
