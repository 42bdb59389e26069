"""Jobs with Hudi's unmodified sink on a real S3 server, and parts of the cluster that are killed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.flink import FlinkSettings
from putifabsent.inspection import inspect
from putifabsent.timeline import State
from tests.fault_proxy import HELD, FaultProxy
from tests.faults.failover import until
from tests.flink.cluster import GUARDED, Cluster, Release, guarding, mounts
from tests.flink.programs import Feed, Format, Program, counted
from tests.flink.tables import Table, Writer, befalling
from tests.service.processes import serving
from tests.spark.drivers import LONG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from putifabsent.timeline import Timeline
    from tests.servers import BucketServer

pytestmark = [pytest.mark.flink, pytest.mark.timeout(900), LONG]

ROWS, A_SECOND, AT_ONCE = 400, 20, 100
TOLD = "'connector'='hudi', 'path'='{}/t', 'write.operation'='insert'"
LOCKED = (
    "'hoodie.write.concurrency.mode'='OPTIMISTIC_CONCURRENCY_CONTROL', "
    "'hoodie.write.lock.provider'='org.putifabsent.hadoop.Hudi014LockProvider'"
)
# What the store is asked meanwhile.
MEANWHILE = {"before a commit": "PUT .0", "after it": "PUT .commit", "in a checkpoint": "PUT .parquet"}


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
def between(store: BucketServer) -> Iterator[FaultProxy]:
    """Run a proxy before the store, where a commit looks like no other call."""
    with FaultProxy(store.endpoint, speech="files") as proxy:
        yield proxy


@pytest.fixture(scope="module")
def told(
    store: BucketServer, between: FaultProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FlinkSettings]:
    """Run a service, and return what guards a cluster by it."""
    log = tmp_path_factory.mktemp("service") / "log"
    client = {**store.storage_options["client_kwargs"], "endpoint_url": between.endpoint}
    with (
        log.open("wb") as output,
        serving(mounts(store, client_kwargs=client), log=output) as (_, address),
    ):
        site, config = guarding(store, address)
        yield FlinkSettings({**site, "fs.s3a.endpoint": between.endpoint}, config)


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


def is_there_once(table: Table, who: set[str], program: Program, store: BucketServer) -> None:
    """See that all rows are there once, and that nothing is damaged."""
    assert table.form.read(program, table.warehouse) == {(each, n): 1 for each in who for n in range(ROWS)}
    assert inspect(table.url, **store.storage_options).damage == []


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
    is_there_once(table, names, program, store)


def writing(table: Table, feed: Feed, program: Program, **settings: str) -> Writer:
    """Have a job write what it is given."""
    # For so long a task of Hudi's waits for a commit.
    told = {"execution__checkpointing__timeout": "60 s", **settings}
    return Writer(
        table, "job", table.form.streamed(program, table.warehouse, "job", feed.source, **told), feed
    )


@pytest.fixture
def writer(warehouse: str, program: Program, cluster: Cluster, tmp_path: Path) -> Writer:
    """Have a job write what it is given."""
    feed = Feed(tmp_path / "feed")
    feed.folder.mkdir()
    writer = writing(Table(told_to(TOLD), warehouse), feed, program)
    cluster.wait_for_checkpoints(writer.job, 1)
    return writer


def loses_and_doubles_nothing(
    writer: Writer, program: Program, cluster: Cluster, store: BucketServer
) -> None:
    """Give a job the rest of its rows, bit by bit, and see that all of them are there once."""
    for rows in range(AT_ONCE, ROWS + 1, AT_ONCE):

        def are_committed(rows: int = rows) -> bool:
            return writer.table.total(store) >= rows

        until(are_committed, 240, f"{writer.table.url} has no {rows} rows")
        if rows < ROWS:
            writer.pour(range(rows, rows + AT_ONCE))
    cluster.cancel(writer.job)
    is_there_once(writer.table, {writer.who}, program, store)


@pytest.mark.parametrize("kind", MEANWHILE.values(), ids=MEANWHILE)
def test_task_managers_that_are_killed_lose_and_double_nothing(
    kind: str, writer: Writer, program: Program, cluster: Cluster, store: BucketServer, between: FaultProxy
) -> None:
    with befalling([between], HELD, kind=kind) as wait:
        writer.pour(range(AT_ONCE))
        wait(1)
        cluster.kill_task_managers(cluster.task_managers)
    for _ in range(2):
        cluster.start_task_manager()
    loses_and_doubles_nothing(writer, program, cluster, store)


@pytest.mark.parametrize("kind", MEANWHILE.values(), ids=MEANWHILE)
def test_a_job_goes_on_from_its_checkpoint_when_the_job_manager_is_killed(
    kind: str, writer: Writer, program: Program, cluster: Cluster, store: BucketServer, between: FaultProxy
) -> None:
    with befalling([between], HELD, kind=kind) as wait:
        writer.pour(range(AT_ONCE))
        wait(1)
        cluster.job_manager.kill()
    cluster.start_job_manager()
    cluster.wait(2)
    assert writer.feed is not None
    resumed = writing(
        writer.table, writer.feed, program, execution__savepoint__path=cluster.last_checkpoint(writer.job)
    )
    loses_and_doubles_nothing(resumed, program, cluster, store)
