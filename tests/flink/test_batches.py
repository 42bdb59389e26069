"""Bounded jobs of two programs commit to one table, all of their rows at their end."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from putifabsent.inspection import inspect
from putifabsent.lab.fault_proxy import HELD, LATE
from tests.faults.failover import until
from tests.flink.cluster import GUARDED
from tests.flink.programs import Program, counted
from tests.flink.tables import Table, Writer, made
from tests.spark.drivers import LONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.lab.fault_proxy import Fault, FaultProxy
    from tests.flink.cluster import Cluster
    from tests.servers import BucketServer

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600), LONG]

ROWS, A_SECOND = 400, 200


@pytest.fixture(scope="module")
def programs(cluster: Cluster, program: Program) -> Iterator[dict[str, Program]]:
    """Run two programs, by what is in their rows."""
    with Program(cluster, cluster.folder / "another.log") as another:
        yield {"job0": program, "job1": another}


@pytest.fixture
def tables(programs: dict[str, Program], bucket: str) -> list[Table]:
    """Make guarded tables, of which each program has heard."""
    first, *others = programs.values()
    tables = made(first, GUARDED, bucket)
    for program, table in product(others, tables):
        table.form.made(program, table.warehouse)
    return tables


def about_to_commit(
    tables: list[Table],
    programs: dict[str, Program],
    proxies: list[FaultProxy],
    fault: Fault,
    **settings: str,
) -> list[Writer]:
    """Have a job of each program write to each table, and return when this has befallen each one's commit."""
    before = sum(each.lost for each in proxies)
    jobs = len(tables) * len(programs)
    for each in proxies:
        each.script("POST rename", *[fault] * 100)
    source = f"{counted(ROWS, A_SECOND)}, 'number-of-rows'='{ROWS}'"
    writers = []
    for table, (who, program) in product(tables, programs.items()):
        job = table.form.streamed(program, table.warehouse, who, source, bounded=True, **settings)
        writers.append(Writer(table, who, job))
    until(
        lambda: sum(each.lost for each in proxies) - before >= jobs, 120, "not all jobs are about to commit"
    )
    return writers


def all_is_there_once(writers: list[Writer], cluster: Cluster, program: Program, store: BucketServer) -> None:
    """See that all jobs come to their end, all rows are there once, and nothing is damaged."""
    assert {cluster.wait_for(each.job) for each in writers} == {"FINISHED"}
    for table in dict.fromkeys(each.table for each in writers):
        expected = {(each.who, n): 1 for each in writers if each.table == table for n in range(ROWS)}
        assert table.form.read(program, table.warehouse) == expected
        assert inspect(table.url, **store.storage_options).damage == []


@pytest.fixture(autouse=True)
def calm(proxies: list[FaultProxy]) -> Iterator[None]:
    """Have nothing go wrong afterwards."""
    yield
    for each in proxies:
        each.calm()


def restart(cluster: Cluster) -> None:
    """Kill all task managers, and start others."""
    cluster.kill_task_managers(cluster.task_managers)
    for _ in range(2):
        cluster.start_task_manager()


def test_two_batches_that_commit_at_once_lose_and_double_nothing(
    tables: list[Table],
    programs: dict[str, Program],
    program: Program,
    cluster: Cluster,
    proxies: list[FaultProxy],
    store: BucketServer,
) -> None:
    writers = about_to_commit(tables, programs, proxies, HELD)
    for each in proxies:
        each.calm()
    all_is_there_once(writers, cluster, program, store)


def test_batches_whose_task_managers_are_killed_before_they_commit_lose_and_double_nothing(
    tables: list[Table],
    programs: dict[str, Program],
    program: Program,
    cluster: Cluster,
    proxies: list[FaultProxy],
    store: BucketServer,
) -> None:
    writers = about_to_commit(tables, programs, proxies, HELD)
    restart(cluster)
    for each in proxies:
        each.calm()
    all_is_there_once(writers, cluster, program, store)


# Iceberg's first sink does not look whether its batch has been committed.
def test_batches_whose_task_managers_are_killed_in_a_commit_lose_and_double_nothing(
    tables: list[Table],
    programs: dict[str, Program],
    program: Program,
    cluster: Cluster,
    proxies: list[FaultProxy],
    store: BucketServer,
) -> None:
    writers = about_to_commit(tables, programs, proxies, LATE, table__exec__iceberg__use_v2_sink="true")
    restart(cluster)
    for each in proxies:
        each.calm()
    all_is_there_once(writers, cluster, program, store)
