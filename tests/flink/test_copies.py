"""A job stops with a savepoint, and two are resumed from it by mistake: copies of one job on one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from putifabsent.inspection import inspect
from tests.faults.failover import until
from tests.flink.cluster import GUARDED, STOCK
from tests.flink.copies import AFTERWARDS, COPIES, IN_SAVEPOINT, feed, resumed_twice, rows_at_the_end
from tests.flink.tables import table_of, tally
from tests.spark.drivers import LONG

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Note
    from tests.fault_proxy import FaultProxy
    from tests.flink.cluster import Cluster
    from tests.flink.programs import Program
    from tests.servers import BucketServer

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600), LONG]


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
    # All three commit at once: each has a task manager.
    cluster.start_task_manager()
    cluster.wait(1 + len(COPIES))
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
    cluster.kill_task_managers(cluster.task_managers[2:])
    note(f"{noted}; stock: {tally(rows, IN_SAVEPOINT | AFTERWARDS)}")
