"""A job stops with a savepoint, and two are resumed from it by mistake: copies of one job on one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from putifabsent.inspection import inspect
from tests.fault_proxy import HELD
from tests.faults.failover import until
from tests.flink.cluster import GUARDED, STOCK
from tests.flink.programs import Feed
from tests.flink.tables import Table, Writer, befalling, table_of
from tests.spark.drivers import LONG

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from tests.conftest import Note
    from tests.fault_proxy import FaultProxy
    from tests.flink.cluster import Cluster
    from tests.flink.programs import Program
    from tests.servers import BucketServer

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600), LONG]

STOPPED, COPIES = "stopped", ("copy0", "copy1")
AT_ONCE, ROWS = 100, 400
IN_SAVEPOINT = {(STOPPED, n) for n in range(AT_ONCE)}
AFTERWARDS = {(who, n) for who in COPIES for n in range(ROWS)}


def writing(program: Program, table: Table, who: str, folder: Path, **settings: str) -> Writer:
    """Have a job write what it is given."""
    feed = Feed(folder / who)
    feed.folder.mkdir(parents=True)
    return Writer(
        table, who, table.form.streamed(program, table.warehouse, who, feed.source, **settings), feed
    )


def resumed_twice(
    table: Table, program: Program, cluster: Cluster, proxies: list[FaultProxy], folder: Path
) -> list[Writer]:
    """Stop a job, and resume two from its savepoint.

    With proxies, all three are about to commit what is in the savepoint: none knows yet that another does.
    For that each has a task manager.
    """
    cluster.wait(1 + len(COPIES))
    stopped = writing(program, table, STOPPED, folder, execution__checkpointing__interval="1 h")
    stopped.pour(range(AT_ONCE))
    cluster.wait_for_tasks(stopped.job)
    cluster.wait_for_rows(stopped.job, AT_ONCE)
    with befalling(proxies, HELD) as wait:
        savepoint = cluster.stop(stopped.job)
        if not proxies:
            cluster.wait_for(stopped.job)
        # Between two checkpoints what is poured is read, also after those that have been missed.
        settings = {
            "execution__state_recovery__path": savepoint,
            "execution__checkpointing__min_pause": "1 s",
        }
        copies = [writing(program, table, who, folder, **settings) for who in COPIES]
        if proxies:
            wait(1 + len(COPIES))
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


@pytest.mark.parametrize("name", ["iceberg", "paimon"])
def test_what_is_in_a_savepoint_is_committed_once_however_many_jobs_resume_from_it(
    name: str,
    program: Program,
    cluster: Cluster,
    proxies: list[FaultProxy],
    store: BucketServer,
    bucket: str,
    tmp_path: Path,
    note: Note,
) -> None:
    cluster.start_task_manager()
    table = table_of(name, program, GUARDED[0], bucket)
    writers = resumed_twice(table, program, cluster, proxies, tmp_path / "guarded")
    feed(writers[1:], cluster)
    if name == "iceberg":
        number = len(IN_SAVEPOINT) + len(AFTERWARDS)
        until(lambda: table.total(store) >= number, 120, f"{table.url} has no {number} rows")
    rows = rows_at_the_end(writers, program, cluster)
    assert {row: rows[row] for row in IN_SAVEPOINT} == dict.fromkeys(IN_SAVEPOINT, 1)
    assert max(rows.values()) == 1
    assert inspect(table.url, **store.storage_options).damage == []
    lost = AFTERWARDS - rows.keys()
    if name == "iceberg":
        assert lost == set()
    # To Paimon both copies are one writer, and what one has committed the other takes for its own.
    noted = f"{len(lost)} of {len(AFTERWARDS)} taken for the other's"
    stock = table_of(name, program, STOCK, bucket)
    writers = resumed_twice(stock, program, cluster, [], tmp_path / "stock")
    feed(writers[1:], cluster)
    rows = rows_at_the_end(writers, program, cluster)
    lost = (IN_SAVEPOINT | AFTERWARDS) - rows.keys()
    noted += f"; stock: {len(lost)} lost, {sum(times > 1 for times in rows.values())} doubled"
    cluster.kill_task_managers(cluster.task_managers[2:])
    note(noted)
