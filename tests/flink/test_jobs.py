"""Unmodified jobs of Flink commit to one table on a real S3 server, and parts of the cluster are killed."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import pytest

from putifabsent.inspection import inspect
from tests.fault_proxy import LATE
from tests.faults.failover import until
from tests.flink.cluster import GUARDED, STOCK
from tests.flink.programs import FORMATS, Feed, counted
from tests.flink.tables import STOCK_GIVES_UP, Table, Writer, befalling, made, what_became_of
from tests.servers.process import NotStartedError
from tests.spark.drivers import SHORT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.conftest import Note
    from tests.fault_proxy import FaultProxy
    from tests.flink.cluster import Cluster
    from tests.flink.programs import Program
    from tests.servers import BucketServer

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600)]

NAMES, ROWS, A_SECOND = ("job0", "job1"), 400, 20
AT_ONCE = 100
EXPECTED = {(who, n) for who in NAMES for n in range(ROWS)}


@pytest.fixture
def tables(program: Program, bucket: str) -> list[Table]:
    """Make guarded tables."""
    return made(program, GUARDED, bucket)


@pytest.fixture
def unguarded(program: Program, bucket: str) -> list[Table]:
    """Make tables past the guard: what becomes of them is noted, in a long run."""
    return [] if SHORT else made(program, [STOCK] * len(FORMATS), bucket)


def all_is_there_once(writers: list[Writer], program: Program, store: BucketServer) -> None:
    """See that all rows are there once, and that nothing is damaged."""
    for table in dict.fromkeys(each.table for each in writers):
        assert table.form.read(program, table.warehouse) == dict.fromkeys(EXPECTED, 1)
        assert inspect(table.url, **store.storage_options).damage == []


def counting(program: Program, tables: Iterable[Table], **settings: str) -> list[Writer]:
    """Have two jobs write to each table, and come to their end."""
    source = counted(ROWS, A_SECOND)
    return [
        Writer(each, who, each.form.streamed(program, each.warehouse, who, source, **settings))
        for each in tables
        for who in NAMES
    ]


def test_two_jobs_on_one_table_lose_and_double_nothing(
    tables: list[Table],
    unguarded: list[Table],
    program: Program,
    cluster: Cluster,
    store: BucketServer,
    note: Note,
) -> None:
    stock = counting(program, unguarded, **STOCK_GIVES_UP)
    guarded = counting(program, tables)
    assert {cluster.wait_for(each.job) for each in guarded} == {"FINISHED"}
    all_is_there_once(guarded, program, store)
    note(what_became_of(stock, EXPECTED, cluster, program))


def fed(program: Program, tables: Iterable[Table], folder: Path) -> list[Writer]:
    """Have two jobs write to each table what they are given."""
    writers = []
    for number, (table, who) in enumerate(product(tables, NAMES)):
        feed = Feed(folder / str(number))
        feed.folder.mkdir(parents=True)
        writers.append(
            Writer(table, who, table.form.streamed(program, table.warehouse, who, feed.source), feed)
        )
    return writers


def pour(writers: Iterable[Writer], first: int) -> None:
    """Give jobs some rows."""
    for each in writers:
        each.pour(range(first, first + AT_ONCE))


class Jobs(NamedTuple):
    """Jobs that write at once.

    Attributes
    ----------
    guarded, stock
        Those that lose and double nothing, and the same past the guard.
    """

    guarded: list[Writer]
    stock: list[Writer]

    def lose_and_double_nothing(self, program: Program, cluster: Cluster, store: BucketServer) -> str:
        """Give jobs the rest of their rows, bit by bit, and see that all of them are there once.

        Returns what became of those past the guard.
        """
        tables = dict.fromkeys(each.table for each in self.guarded)
        for first in range(AT_ONCE, ROWS, AT_ONCE):
            pour((*self.guarded, *self.stock), first)
            rows = len(NAMES) * (first + AT_ONCE)

            def are_committed(rows: int = rows) -> bool:
                return all(each.total(store) >= rows for each in tables)

            until(are_committed, 240, f"not all tables have {rows} rows")
        for each in self.guarded:
            cluster.cancel(each.job)
        all_is_there_once(self.guarded, program, store)
        # Their rows may never be there: they have had time to commit them.
        due = {each.job: cluster.checkpoints(each.job) + 3 for each in self.stock}
        with suppress(NotStartedError):
            until(lambda: all(cluster.checkpoints(job) >= number for job, number in due.items()), 30)
        for each in self.stock:
            cluster.end(each.job)
        return what_became_of(self.stock, EXPECTED, cluster, program)


@pytest.fixture
def in_a_commit(
    program: Program,
    cluster: Cluster,
    tables: list[Table],
    unguarded: list[Table],
    proxies: list[FaultProxy],
    tmp_path: Path,
) -> Jobs:
    """Have jobs write, and guarded ones wait for the answers to commits, which have been done, or refused.

    Of all but one: Iceberg has a lock of its own in each process. Of its two jobs, where they have one task
    manager, the second does not commit before the first has its answer.
    """
    jobs = Jobs(fed(program, tables, tmp_path / "guarded"), fed(program, unguarded, tmp_path / "stock"))
    for each in (*jobs.guarded, *jobs.stock):
        cluster.wait_for_checkpoints(each.job, 1)
    with befalling(proxies, LATE, len(jobs.guarded)) as wait:
        pour((*jobs.guarded, *jobs.stock), 0)
        wait(len(jobs.guarded) - 1)
    return jobs


def test_task_managers_that_are_killed_in_a_commit_lose_and_double_nothing(
    in_a_commit: Jobs, program: Program, cluster: Cluster, store: BucketServer, note: Note
) -> None:
    cluster.kill_task_managers(cluster.task_managers)
    for _ in range(2):
        cluster.start_task_manager()
    note(in_a_commit.lose_and_double_nothing(program, cluster, store))


def test_task_managers_that_stand_still_and_come_back_lose_and_double_nothing(
    in_a_commit: Jobs, program: Program, cluster: Cluster, store: BucketServer, note: Note
) -> None:
    with cluster.replaced() as come_back:
        come_back()
        note(in_a_commit.lose_and_double_nothing(program, cluster, store))


def test_jobs_go_on_from_their_checkpoints_when_the_job_manager_is_killed_in_a_commit(
    in_a_commit: Jobs, program: Program, cluster: Cluster, store: BucketServer, note: Note
) -> None:
    cluster.job_manager.kill()
    cluster.start_job_manager()
    cluster.wait(2)
    resumed = Jobs(
        *([each._replace(job=resume(each, program, cluster)) for each in some] for some in in_a_commit)
    )
    note(resumed.lose_and_double_nothing(program, cluster, store))


def resume(writer: Writer, program: Program, cluster: Cluster) -> str:
    """Have a new job go on from another one's last checkpoint."""
    assert writer.feed is not None
    return writer.table.form.streamed(
        program,
        writer.table.warehouse,
        writer.who,
        writer.feed.source,
        **cluster.resuming(cluster.last_checkpoint(writer.job)),
    )
