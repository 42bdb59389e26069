"""Bounded jobs of two programs commit to one table, all of their rows at their end."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from putifabsent.inspection import inspect
from tests.fault_proxy import HELD, LATE
from tests.flink.cluster import GUARDED
from tests.flink.programs import Program, counted
from tests.flink.tables import Table, Writer, befalling, made
from tests.spark.drivers import LONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fault_proxy import Fault, FaultProxy
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


def writing(tables: list[Table], programs: dict[str, Program], **settings: str) -> list[Writer]:
    """Have a bounded job of each program write to each table."""
    source = f"{counted(ROWS, A_SECOND)}, 'number-of-rows'='{ROWS}'"
    writers = []
    for table, (who, program) in product(tables, programs.items()):
        job = table.form.streamed(program, table.warehouse, who, source, bounded=True, **settings)
        writers.append(Writer(table, who, job))
    return writers


def all_is_there_once(writers: list[Writer], cluster: Cluster, program: Program, store: BucketServer) -> None:
    """See that all jobs come to their end, all rows are there once, and nothing is damaged."""
    assert {cluster.wait_for(each.job) for each in writers} == {"FINISHED"}
    for table in dict.fromkeys(each.table for each in writers):
        expected = {(each.who, n): 1 for each in writers if each.table == table for n in range(ROWS)}
        assert table.form.read(program, table.warehouse) == expected
        assert inspect(table.url, **store.storage_options).damage == []


def restart(cluster: Cluster) -> None:
    """Kill all task managers, and start others."""
    cluster.kill_task_managers(cluster.task_managers)
    for _ in range(2):
        cluster.start_task_manager()


# Iceberg's first sink does not look whether its batch has been committed.
V2 = {"table__exec__iceberg__use_v2_sink": "true"}


@pytest.mark.parametrize(
    ("fault", "is_killed", "settings"),
    [
        pytest.param(HELD, False, {}, id="at once"),
        pytest.param(HELD, True, {}, id="killed before"),
        pytest.param(LATE, True, V2, id="killed in a commit"),
    ],
)
def test_batches_that_are_all_about_to_commit_lose_and_double_nothing(
    fault: Fault,
    is_killed: bool,
    settings: dict[str, str],
    tables: list[Table],
    programs: dict[str, Program],
    program: Program,
    cluster: Cluster,
    proxies: list[FaultProxy],
    store: BucketServer,
) -> None:
    with befalling(proxies, fault) as wait:
        writers = writing(tables, programs, **settings)
        wait(len(writers) - 1)  # Iceberg's two may wait for each other, on one task manager
        if is_killed:
            restart(cluster)
    all_is_there_once(writers, cluster, program, store)
