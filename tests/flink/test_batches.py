"""Bounded jobs of two programs commit to one table, all of their rows at their end."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from putifabsent.inspection import inspect
from tests.fault_proxy import HELD, LATE
from tests.flink.cluster import GUARDED, STOCK
from tests.flink.programs import FORMATS, Program, counted
from tests.flink.tables import STOCK_GIVES_UP, Table, Writer, befalling, made, what_became_of
from tests.spark.drivers import LONG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.conftest import Note
    from tests.fault_proxy import Fault, FaultProxy
    from tests.flink.cluster import Cluster
    from tests.servers import BucketServer

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600), LONG]

NAMES, ROWS, A_SECOND = ("job0", "job1"), 400, 200
EXPECTED = {(who, n) for who in NAMES for n in range(ROWS)}


@pytest.fixture(scope="module")
def programs(cluster: Cluster, program: Program) -> Iterator[dict[str, Program]]:
    """Run two programs, by what is in their rows."""
    with Program(cluster, cluster.folder / "another.log") as another:
        yield dict(zip(NAMES, (program, another), strict=True))


def known(programs: dict[str, Program], schemes: Iterable[str], bucket: str) -> list[Table]:
    """Make tables of which each program has heard."""
    first, *others = programs.values()
    tables = made(first, schemes, bucket)
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
        assert table.form.read(program, table.warehouse) == dict.fromkeys(EXPECTED, 1)
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
    programs: dict[str, Program],
    program: Program,
    cluster: Cluster,
    proxies: list[FaultProxy],
    store: BucketServer,
    bucket: str,
    note: Note,
) -> None:
    past, tables = (known(programs, schemes, bucket) for schemes in ([STOCK] * len(FORMATS), GUARDED))
    with befalling(proxies, fault) as wait:
        stock = writing(past, programs, **settings, **STOCK_GIVES_UP)
        writers = writing(tables, programs, **settings)
        wait(len(writers) - 1)  # Iceberg's two may wait for each other, on one task manager
        if is_killed:
            restart(cluster)
    all_is_there_once(writers, cluster, program, store)
    note(what_became_of(stock, EXPECTED, cluster, program))
