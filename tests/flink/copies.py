"""A job that stops with a savepoint, and two that are resumed from it by mistake: copies of one job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fault_proxy import HELD
from tests.flink.programs import Feed
from tests.flink.tables import befalling

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from tests.fault_proxy import FaultProxy
    from tests.flink.cluster import Cluster
    from tests.flink.programs import Program
    from tests.flink.tables import Table, Writer

__all__ = ["AFTERWARDS", "COPIES", "IN_SAVEPOINT", "feed", "resumed_twice", "rows_at_the_end"]

STOPPED, COPIES = "stopped", ("copy0", "copy1")
AT_ONCE, ROWS = 100, 400
IN_SAVEPOINT = {(STOPPED, n) for n in range(AT_ONCE)}
AFTERWARDS = {(who, n) for who in COPIES for n in range(ROWS)}


def resumed_twice(
    table: Table,
    program: Program,
    cluster: Cluster,
    proxies: list[FaultProxy],
    folder: Path,
    *,
    kind: str = "POST rename",
    held: int = 1 + len(COPIES),
    **settings: str,
) -> list[Writer]:
    """Stop a job, and resume two from its savepoint.

    With proxies, they are about to commit what is in the savepoint: none knows yet that another does.

    Parameters
    ----------
    kind
        What their commits are to the proxies.
    held
        How many of them there are when copies run: those of all three, unless one waits for another's lock.
        0: copies of Hudi 1.x wait for that lock before they run, until what is held has failed.
    settings
        Flink's, for each job.
    """

    def writing(who: str, **settings: str) -> Writer:
        return table.fed(program, who, Feed.made(folder / who), **settings)

    stopped = writing(STOPPED, **settings, execution__checkpointing__interval="300 d")
    cluster.wait_for_tasks(stopped.job)
    if not held:
        # A copy of 1.x takes the instant of a job's very first checkpoint for its own.
        cluster.checkpoint(stopped.job)
        cluster.wait_for_checkpoints(stopped.job, 1)
    stopped.pour(range(AT_ONCE))
    cluster.wait_for_rows(stopped.job, AT_ONCE)
    with befalling(proxies, HELD, kind=kind) as wait:
        savepoint = cluster.stop(stopped.job)
        if proxies:
            wait(1)
        else:
            cluster.wait_for(stopped.job)
        # Between two checkpoints what is poured is read, also after those that have been missed.
        settings = {"execution__checkpointing__min_pause": "1 s", **settings, **cluster.resuming(savepoint)}
        at_once = COPIES if held else COPIES[:1]
        copies = [writing(who, **settings) for who in at_once]
        if proxies:
            wait(held)
    copies += [writing(who, **settings) for who in COPIES[len(at_once) :]]
    return [stopped, *copies]


def feed(copies: list[Writer], cluster: Cluster) -> None:
    """Give copies their own rows, bit by bit."""
    for first in range(0, ROWS, AT_ONCE):
        complete = [cluster.checkpoints(each.job) for each in copies]
        for each in copies:
            each.pour(range(first, first + AT_ONCE))
        for each, number in zip(copies, complete, strict=True):
            cluster.wait_for_checkpoints(each.job, number + 3)


def rows_at_the_end(writers: list[Writer], program: Program, cluster: Cluster) -> Counter[tuple[str, int]]:
    """Return how often each row is there when copies are cancelled."""
    stopped, *copies = writers
    for each in copies:
        cluster.cancel(each.job)
    # Where another job has been before it, its commit is refused, and it has failed.
    assert cluster.wait_for(stopped.job) in {"FINISHED", "FAILED"}
    return stopped.table.form.read(program, stopped.table.warehouse)
