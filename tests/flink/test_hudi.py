"""Jobs with Hudi's unmodified sink commit to one table on a real S3 server."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.flink import FlinkSettings
from putifabsent.inspection import inspect
from putifabsent.timeline import State
from tests.flink.cluster import GUARDED, Cluster, Release
from tests.flink.programs import Format, Program, counted
from tests.flink.tables import Table
from tests.spark.drivers import LONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.timeline import Timeline
    from tests.servers import BucketServer

pytestmark = [pytest.mark.flink, pytest.mark.timeout(900), LONG]

ROWS, A_SECOND = 400, 20
TOLD = "'connector'='hudi', 'path'='{}/t', 'write.operation'='insert'"
LOCKED = (
    "'hoodie.write.concurrency.mode'='OPTIMISTIC_CONCURRENCY_CONTROL', "
    "'hoodie.write.lock.provider'='org.putifabsent.hadoop.Hudi014LockProvider'"
)


def inserted(timeline: Timeline[Any]) -> int:
    """Return how many rows the commits of a table have brought."""
    commits = [
        each for each in timeline.active() if each.action == "commit" and each.state is State.COMPLETED
    ]
    said = [timeline.details(each).metadata for each in commits]
    partitions = [stats for each in said if each for stats in each.value["partitionToWriteStats"].values()]
    return sum(stat["numInserts"] for stats in partitions for stat in stats)


def told_to(options: str) -> Format:
    """Return how Flink names tables with these options: Hudi's own catalog wants a folder that is there."""
    return Format("'type'='generic_in_memory'", "t", inserted, f"WITH ({options})")


@pytest.fixture(scope="module")
def cluster(told: FlinkSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a job manager and two task managers."""
    folder = tmp_path_factory.mktemp("hudi")
    of_old = {
        "cluster.evenly-spread-out-slots": "true",
        "state.checkpoints.dir": (folder / "checkpoints").as_uri(),
    }
    with Cluster(Release.of_hudi(), folder, FlinkSettings(told.site, {**told.config, **of_old})) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def program(cluster: Cluster) -> Iterator[Program]:
    """Run a program that submits jobs."""
    with Program(cluster, cluster.folder / "program.log") as program:
        yield program


@pytest.fixture
def warehouse(bucket: str) -> str:
    """Return where a test has its table."""
    return f"{GUARDED[0]}://{bucket}/{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize(
    ("names", "options"),
    [({"job0"}, TOLD), ({"job0", "job1"}, f"{TOLD}, {LOCKED}")],
    ids=["one", "two with the lock"],
)
def test_jobs_on_one_table_lose_and_double_nothing(
    names: set[str], options: str, warehouse: str, program: Program, cluster: Cluster, store: BucketServer
) -> None:
    table = Table(told_to(options), warehouse)
    jobs = []
    for each in sorted(names):
        jobs.append(table.form.streamed(program, warehouse, each, counted(ROWS, A_SECOND)))
        # The first one makes the table.
        cluster.wait_for_checkpoints(jobs[0], 1)
    assert {cluster.wait_for(each) for each in jobs} == {"FINISHED"}
    assert table.form.read(program, warehouse) == {(who, n): 1 for who in names for n in range(ROWS)}
    assert table.total(store) == len(names) * ROWS
    assert inspect(table.url, **store.storage_options).damage == []
