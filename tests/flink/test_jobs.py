"""Unmodified jobs of Flink commit to one table on a real S3 server, and parts of the cluster are killed."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import pytest

from putifabsent.inspection import inspect
from tests.child import CallError
from tests.fault_proxy import DELAYED, LATE
from tests.faults.failover import until
from tests.flink.cluster import GUARDED, STOCK, Cluster, guarding
from tests.flink.programs import FORMATS, Feed, Program, counted
from tests.flink.tables import STOCK_GIVES_UP, Table, Writer, befalling, made, what_became_of
from tests.servers.process import NotStartedError
from tests.spark.drivers import LONG, SHORT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.conftest import Note
    from tests.fault_proxy import Fault, FaultProxy
    from tests.servers import BucketServer

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600)]

NAMES, ROWS, A_SECOND = ("job0", "job1"), 400, 20
AT_ONCE = 100
EXPECTED = {(who, n) for who in NAMES for n in range(ROWS)}
HERE = {
    "execution__target": "local",
    "execution__attached": "true",
    "table__dml_sync": "true",
    # As in each cluster: Hadoop's client keeps the class loader of the first job.
    "classloader__check_leaked_classloader": "false",
}
"""Has a job run in its program's process, which waits for its end."""


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


def fed(
    program: Program, tables: Iterable[Table], folder: Path, names: Iterable[str] = NAMES
) -> list[Writer]:
    """Have a job of each name write to each table what it is given."""
    return [
        table.fed(program, who, Feed.made(folder / str(number)))
        for number, (table, who) in enumerate(product(tables, names))
    ]


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
    resumed = Jobs(*([each.resumed(program, cluster) for each in some] for some in in_a_commit))
    note(resumed.lose_and_double_nothing(program, cluster, store))


@LONG
@pytest.mark.parametrize("fault", [DELAYED, LATE], ids=["before a commit", "in it"])
def test_a_job_manager_that_stands_still_and_comes_back_loses_and_doubles_nothing(
    fault: Fault,
    tables: list[Table],
    unguarded: list[Table],
    program: Program,
    cluster: Cluster,
    services: list[str],
    proxies: list[FaultProxy],
    store: BucketServer,
    tmp_path: Path,
    note: Note,
) -> None:
    standing, going = NAMES
    jobs = Jobs(
        fed(program, tables, tmp_path / "guarded", [standing]),
        fed(program, unguarded, tmp_path / "stock", [standing]),
    )
    both = [*jobs.guarded, *jobs.stock]
    for each in both:
        cluster.wait_for_checkpoints(each.job, 1)
    # Jobs of another session, in its program's own process, which nothing befalls.
    another = Cluster(cluster.release, tmp_path, guarding(store, *services))
    with Program(another, tmp_path / "log") as its, befalling(proxies, fault) as wait:
        pour(both, 0)
        wait(len(tables))
        with cluster.standing_still(each.job for each in both):
            source = counted(ROWS, 10 * A_SECOND)
            for table in tables:
                table.form.streamed(its, table.warehouse, going, source, **HERE)
            for table in unguarded:
                with suppress(CallError):
                    table.form.streamed(its, table.warehouse, going, source, **HERE, **STOCK_GIVES_UP)
        if fault is DELAYED:
            # The same rows are about to be committed once more.
            wait(2 * len(tables))
    note(jobs.lose_and_double_nothing(program, cluster, store))
