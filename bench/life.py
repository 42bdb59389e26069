"""A year in minutes: a table's whole life, by each arbiter: ``python -m bench.life [--json] [--quick]``.

Three mounts write one table as Hudi does, and idle, start again, remove the table and make it anew, archive,
and roll back what died; the clock of one is two hours fast for a while, and a reader without rights looks on.
Nobody is in another's way and no answer is lost, so each commit must be acknowledged, or be refused for
certain where its table was removed under it; what the shim keeps must stay bounded, and requests must not
grow. Exits with 1 where that is not so.

Where it lives: in this process's memory, and on a real S3 server, behind what counts each request. moto,
DynamoDB Local or, in memory, a fake stands for DynamoDB, Valkey for Redis.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.life_grounds import ARBITERS, PLACES, ground
from bench.life_history import OUTCOMES, judged, near
from bench.life_table import Plan, live

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.life_history import History

COMMITS = {
    "memory": {"native": 100_000, "ballot": 10_000, "redis": 10_000, "dynamodb": 1_000},
    "s3": {"native": 5_000, "ballot": 1_000, "redis": 1_000, "dynamodb": 500},
}
QUICK = {
    "memory": {"native": 1_000, "ballot": 400, "redis": 400, "dynamodb": 150},
    "s3": {"native": 150, "ballot": 100, "redis": 100, "dynamodb": 100},
}


def main() -> None:
    """Live each life, and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print figures for machines, on standard output")
    parser.add_argument("--quick", action="store_true", help="fewer commits, for less time")
    parser.add_argument("--commits", type=int, help="so many in each life")
    parser.add_argument("--mounts", type=int, default=3, help="that write")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--places", nargs="+", choices=PLACES, default=PLACES)
    parser.add_argument("--arbiters", nargs="+", choices=ARBITERS, default=ARBITERS)
    parser.add_argument("--s3", default="localbucket", help="which S3 server: versitygw, minio")
    parser.add_argument("--dynamodb", default="moto", help="which DynamoDB: dynamodb-local; fake, in memory")
    options = parser.parse_args()
    # What goes wrong is counted, and the shim's own words about it would be many.
    logging.getLogger("putifabsent").setLevel(logging.ERROR)
    console = Console(stderr=True)
    lives = []
    with Progress(console=console, transient=True) as progress:
        for place, arbiter, commits in _lives(options):
            plan = Plan(commits, options.mounts, options.seed)
            task = progress.add_task(f"{arbiter}, {place}", total=commits)
            with ground(place, arbiter, options.s3, options.dynamodb) as there:
                history = live(there, plan, partial(progress.advance, task))
            lives.append((place, arbiter, history))
            progress.update(task, visible=False)
    if options.json:
        print(json.dumps([_figures(*each) for each in lives], indent=2))
    for table in tables(lives):
        console.print(table)
    for place, arbiter, history in lives:
        for problem in judged(history):
            console.print(f"{arbiter}, {place}: {problem}", style="red", highlight=False)
        for reason, many in history.reasons.most_common(5):
            console.print(f"    {many} x {reason}", highlight=False, markup=False)
    sys.exit(any(judged(history) for *_, history in lives))


def _lives(options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    for place in options.places:
        for arbiter in options.arbiters:
            usual = (QUICK if options.quick else COMMITS)[place][arbiter]
            yield place, arbiter, options.commits or usual


def _figures(place: str, arbiter: str, history: History) -> dict[str, Any]:
    kinds = sorted({kind for kind, _ in history.outcomes})
    return {
        "place": place,
        "arbiter": arbiter,
        "reasons": dict(history.reasons.most_common()),
        "lost": history.lost,
        "ghosts": history.ghosts,
        "changed": history.changed,
        "wedged": history.wedged,
        "outcomes": {kind: {each: history.came(each, kind) for each in OUTCOMES} for kind in kinds},
        "samples": [each._asdict() for each in history.samples],
        "problems": judged(history),
    }


def tables(lives: list[tuple[str, str, History]]) -> list[Table]:
    """Return what is printed of some lives, a place at a time; eighty columns show all of it."""
    of_place: dict[str, list[tuple[str, History]]] = {}
    for place, arbiter, history in lives:
        of_place.setdefault(place, []).append((arbiter, history))
    return [make(place, of) for place, of in of_place.items() for make in (_outcomes, _costs)]


def _outcomes(place: str, lives: list[tuple[str, History]]) -> Table:
    table = _table(
        f"{place}: what writers and readers heard",
        *("calls", "tried", "refused", "needlessly", "unknown", "failed", "broken"),
    )
    for arbiter, history in lives:
        kinds = {kind for kind, _ in history.outcomes}
        commits = kinds & {"commit begun", "commit"}
        for calls, of in (("commits", commits), ("others", kinds - commits)):
            heard = {each: sum(history.came(each, kind) for kind in of) for each in OUTCOMES}
            # What was begun is one commit with what was made of it.
            began = history.came("acknowledged", "commit begun") if calls == "commits" else 0
            rest = [f"{heard[each]:,}" for each in OUTCOMES[1:]]
            broken = str(history.broken) if calls == "commits" else ""
            table.add_row(arbiter, calls, f"{sum(heard.values()) - began:,}", *rest, broken)
    return table


def _costs(place: str, lives: list[tuple[str, History]]) -> Table:
    table = _table(
        f"{place}: what is kept, requests, and milliseconds of this process",
        *("after\ncommits", "objects\nkept", "items\nkept", "requests\na commit", "\nls", "first\nls"),
        *("ms\na commit", "\nls", "first\nls"),
    )
    for arbiter, history in lives:
        last = history.samples[-1].commits if history.samples else 0
        for commits in sorted({10**power for power in range(2, 7) if 10**power < last} | {last} - {0}):
            usual = near(history.samples, commits)
            spent = (usual.seconds, usual.ls_seconds, usual.start_up_seconds)
            table.add_row(
                *(arbiter, f"{usual.commits:,}", f"{usual.state:,}", f"{usual.items:,}"),
                *(f"{usual.a_commit:.0f}", str(usual.ls), str(usual.start_up)),
                *(f"{each * 1000:.1f}" for each in spent),
            )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("arbiter")
    for column in columns:
        table.add_column(column, justify="left" if column == "calls" else "right")
    return table


if __name__ == "__main__":
    main()
