"""A job of Flink's and two drivers of Spark's, none of them modified, commit to one table at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pytest

from putifabsent.inspection import inspect
from tests.child import CallError
from tests.fault_proxy import HELD
from tests.faults.failover import until
from tests.flink.cluster import GUARDED, ROOT, STOCK
from tests.flink.programs import FORMATS, Feed
from tests.flink.tables import STOCK_GIVES_UP, befalling, table_of, tally
from tests.servers.process import NotStartedError
from tests.service.callers import SECRET
from tests.spark.drivers import LONG, Driver, driving, told_on
from tests.spark.writers import FORMATS as OF_SPARK
from tests.spark.writers import settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.conftest import Note
    from tests.fault_proxy import FaultProxy
    from tests.flink.cluster import Cluster
    from tests.flink.programs import Program
    from tests.flink.tables import Table
    from tests.servers import BucketServer
    from tests.spark.drivers import Told

    Row = tuple[str, int]

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600), LONG]

SPARK = str(ROOT / ".venv-spark35" / "bin" / "python")
COMMITS, AT_ONCE = 5, 20


ROWS_OF_FLINK = {("flink", n) for n in range(2 * COMMITS * AT_ONCE)}


class Appended(NamedTuple):
    """What became of appends.

    Attributes
    ----------
    job
        Flink's.
    acknowledged
        Rows of each driver.
    refused
        What drivers were told of those that failed.
    """

    job: str
    acknowledged: list[list[Row]]
    refused: list[CallError]


def appended(
    name: str,
    table: Table,
    told: Told,
    program: Program,
    cluster: Cluster,
    proxies: list[FaultProxy],
    folder: Path,
) -> Appended:
    """Have a job and two drivers append; by proxies, all three are about to commit at once."""
    feed = Feed(folder / "feed")
    feed.folder.mkdir(parents=True)
    refused: list[CallError] = []
    with driving([told, told], folder, SPARK) as drivers:
        patience = {} if proxies else STOCK_GIVES_UP
        job = table.form.streamed(program, table.warehouse, "flink", feed.source, **patience)
        cluster.wait_for_checkpoints(job, 1)

        def append(number: int, driver: Driver) -> list[Row]:
            """Append rows, and give the job some for each; return what was acknowledged."""
            acknowledged = []
            for n in range(COMMITS):
                first = (number * COMMITS + n) * AT_ONCE
                feed.pour(range(first, first + AT_ONCE))
                try:
                    # Paimon 0.9 casts nothing.
                    insert = f"insert into {name}.db.t values ('spark{number}', cast({n} as bigint))"  # noqa: S608 - our own
                    driver.call("sql", query=insert)
                    acknowledged.append((f"spark{number}", n))
                except CallError as error:
                    refused.append(error)
            return acknowledged

        with ThreadPoolExecutor() as pool, befalling(proxies, HELD) as wait:
            appending = [pool.submit(append, number, driver) for number, driver in enumerate(drivers)]
            if proxies:
                wait(1 + len(drivers))
        return Appended(job, [each.result() for each in appending], refused)


def noted(rows: Mapping[Row, int], of: Appended) -> str:
    """Say what became of rows that should be there."""
    acknowledged = {row for rows in of.acknowledged for row in rows}
    said = f"{len(acknowledged)} of Spark's commits acknowledged, {len(of.refused)} refused"
    return f"{said}, {tally(rows, acknowledged | ROWS_OF_FLINK)}"


@pytest.mark.parametrize("name", FORMATS)
def test_a_job_of_flinks_and_two_drivers_of_sparks_lose_and_double_nothing(
    name: str,
    program: Program,
    cluster: Cluster,
    proxies: list[FaultProxy],
    store: BucketServer,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    note: Note,
) -> None:
    monkeypatch.setenv("PUTIFABSENT_SERVICE_SECRET", SECRET)
    table = table_of(name, program, GUARDED[0], bucket)
    services = ",".join(each.endpoint for each in proxies)
    # What is held up has not failed before the last of them is there.
    patience = {"spark.hadoop.fs.putifabsent.deadline": "300s"}
    told = told_on(store, above(table), guarded=True, **patience)._replace(mount={"service": services})
    ours = appended(name, table, told, program, cluster, proxies, tmp_path / "guarded")
    expected = ROWS_OF_FLINK | {row for rows in ours.acknowledged for row in rows}
    until(lambda: table.total(store) >= len(expected), 120, "the job has not committed all of its rows")
    cluster.cancel(ours.job)
    own = OF_SPARK[name].conflicts
    assert [error for error in ours.refused if not any(each in error.message for each in own)] == []
    assert all(ours.acknowledged)
    rows = table.form.read(program, table.warehouse)
    assert {row: rows[row] for row in expected} == dict.fromkeys(expected, 1)
    assert max(rows.values()) == 1
    assert inspect(table.url, **store.storage_options).damage == []

    stock = table_of(name, program, STOCK, bucket)
    unguarded = {f"spark.hadoop.fs.{STOCK}.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    told = told_on(
        store, above(stock), guarded=False, **unguarded, **settings_of(f"{STOCK}://{above(stock)}")
    )
    theirs = appended(name, stock, told, program, cluster, [], tmp_path / "stock")
    # Its rows may never be there: it has had time to commit them.
    with suppress(AssertionError, NotStartedError):
        cluster.wait_for_checkpoints(theirs.job, cluster.checkpoints(theirs.job) + 3)
    state = cluster.end(theirs.job)
    what = noted(stock.form.read(program, stock.warehouse), theirs)
    note(f"{noted(rows, ours)}; stock: {state}, {what}")


def above(table: Table) -> str:
    """Return the folder of a table's warehouse, of whichever format, without its scheme."""
    return table.warehouse.partition("://")[2].rpartition("/")[0]
