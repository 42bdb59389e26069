"""Unmodified jobs of Flink commit to one table on a real S3 server, and parts of the cluster are killed."""

from __future__ import annotations

import signal
import uuid
from typing import TYPE_CHECKING, NamedTuple

import pytest

from putifabsent.inspection import inspect
from putifabsent.lab.fault_proxy import LATE
from tests.faults.failover import until
from tests.flink.programs import FORMATS, Format

if TYPE_CHECKING:
    from collections.abc import Iterable

    from putifabsent.lab.fault_proxy import FaultProxy
    from tests.conftest import Note
    from tests.flink.cluster import Cluster
    from tests.flink.programs import Program
    from tests.servers import BucketServer

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600)]

NAMES, ROWS, A_SECOND = ("job0", "job1"), 400, 20
EXPECTED = {(who, n): 1 for who in NAMES for n in range(ROWS)}


class Table(NamedTuple):
    """A table of a test's own.

    Attributes
    ----------
    form
        Its format.
    warehouse
        Where it lies.
    """

    form: Format
    warehouse: str


class Writer(NamedTuple):
    """A job that writes to a table.

    Attributes
    ----------
    table
        Which one.
    who
        What is in its rows.
    job
        Flink's id of it.
    """

    table: Table
    who: str
    job: str


def made(program: Program, scheme: str, bucket: str) -> list[Table]:
    """Make a table of each format."""
    tables = [
        Table(form, f"{scheme}://{bucket}/{name}-{uuid.uuid4().hex[:8]}") for name, form in FORMATS.items()
    ]
    for each in tables:
        each.form.made(program, each.warehouse)
    return tables


@pytest.fixture
def tables(program: Program, bucket: str) -> list[Table]:
    """Make guarded tables."""
    return made(program, "s3a", bucket)


def started(program: Program, tables: Iterable[Table]) -> list[Writer]:
    """Have two jobs write to each table."""
    return [
        Writer(each, who, each.form.streamed(program, each.warehouse, who, ROWS, A_SECOND))
        for each in tables
        for who in NAMES
    ]


def lose_and_double_nothing(
    writers: list[Writer], program: Program, cluster: Cluster, store: BucketServer
) -> None:
    """See that jobs come to their end, that all of their rows are there once, and that nothing is damaged."""
    assert {cluster.wait_for(each.job) for each in writers} == {"FINISHED"}
    for table in dict.fromkeys(each.table for each in writers):
        assert table.form.read(program, table.warehouse) == EXPECTED
        folder = f"{table.warehouse.replace('s3a://', 's3://')}/{table.form.folder}"
        assert inspect(folder, **store.storage_options).damage == []


def test_two_jobs_on_one_table_lose_and_double_nothing(
    tables: list[Table], program: Program, cluster: Cluster, store: BucketServer, bucket: str, note: Note
) -> None:
    stock = started(program, made(program, "s3", bucket))
    lose_and_double_nothing(started(program, tables), program, cluster, store)
    for first, second in zip(stock[::2], stock[1::2], strict=True):
        ended = [cluster.wait_for(each.job) for each in (first, second)]
        rows = first.table.form.read(program, first.table.warehouse)
        lost, doubled = len(EXPECTED.keys() - rows.keys()), sum(times > 1 for times in rows.values())
        note(f"stock {first.table.form.folder}: {ended}, {lost} of {len(EXPECTED)} lost, {doubled} doubled")


@pytest.fixture
def in_a_commit(
    program: Program, cluster: Cluster, tables: list[Table], proxies: list[FaultProxy]
) -> list[Writer]:
    """Have jobs write, and all of them wait for the answer to a commit, which has been done, or refused."""
    writers = started(program, tables)
    for each in writers:
        cluster.wait_for_checkpoints(each.job, 1)
    before = sum(each.lost for each in proxies)
    for proxy in proxies:
        proxy.script("POST rename", *[LATE] * len(writers))
    try:
        until(
            lambda: sum(each.lost for each in proxies) - before >= len(writers),
            120,
            "not all jobs wait for the answer to a commit",
        )
    finally:
        for proxy in proxies:
            proxy.calm()
    return writers


def test_task_managers_that_are_killed_in_a_commit_lose_and_double_nothing(
    in_a_commit: list[Writer], program: Program, cluster: Cluster, store: BucketServer
) -> None:
    cluster.kill_task_managers(cluster.task_managers)
    for _ in range(2):
        cluster.start_task_manager()
    lose_and_double_nothing(in_a_commit, program, cluster, store)


def test_task_managers_that_stand_still_and_come_back_lose_and_double_nothing(
    in_a_commit: list[Writer], program: Program, cluster: Cluster, store: BucketServer
) -> None:
    standing = list(cluster.task_managers)
    try:
        for each in standing:
            each.signal(signal.SIGSTOP)
        # Their tasks go elsewhere when they have been silent for long enough.
        cluster.wait(0)
        for _ in standing:
            cluster.start_task_manager()
        cluster.wait(len(standing))
        for each in standing:
            each.signal(signal.SIGCONT)
        lose_and_double_nothing(in_a_commit, program, cluster, store)
    finally:
        cluster.kill_task_managers(standing)


def test_jobs_go_on_from_their_checkpoints_when_the_job_manager_is_killed_in_a_commit(
    in_a_commit: list[Writer], program: Program, cluster: Cluster, store: BucketServer
) -> None:
    cluster.job_manager.kill()
    cluster.start_job_manager()
    cluster.wait(2)
    resumed = [
        each._replace(
            job=each.table.form.streamed(
                program,
                each.table.warehouse,
                each.who,
                ROWS,
                A_SECOND,
                execution__state_recovery__path=cluster.last_checkpoint(each.job),
            )
        )
        for each in in_a_commit
    ]
    lose_and_double_nothing(resumed, program, cluster, store)
