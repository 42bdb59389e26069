"""A job of Flink's, and two drivers of Spark's beside it, that append to one table at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.inspection import inspect
from tests.child import CallError
from tests.fault_proxy import HELD
from tests.faults.failover import until
from tests.flink.cluster import ROOT
from tests.flink.programs import Feed
from tests.flink.tables import befalling, tally
from tests.servers.process import NotStartedError
from tests.spark.drivers import Driver, driving
from tests.spark.writers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.fault_proxy import FaultProxy
    from tests.flink.cluster import Cluster
    from tests.flink.programs import Program
    from tests.flink.tables import Table
    from tests.servers import BucketServer
    from tests.spark.drivers import Told

    Row = tuple[str, int]

__all__ = ["Appended", "above", "appended", "lose_and_double_nothing", "what_became_of"]

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
    into: str,
    table: Table,
    told: Told,
    program: Program,
    cluster: Cluster,
    folder: Path,
    *,
    proxies: Sequence[FaultProxy] = (),
    first: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Appended:
    """Have a job and two drivers append; by proxies, all three are about to commit at once.

    Parameters
    ----------
    into
        The table's name to Spark.
    first
        What drivers are told once there is a table.
    settings
        Flink's, for the job.
    """
    feed = Feed.made(folder / "feed")
    refused: list[CallError] = []
    with driving([told, told], folder, SPARK) as drivers:
        job = table.form.streamed(program, table.warehouse, "flink", feed.source, **(settings or {}))
        cluster.wait_for_checkpoints(job, 1)
        for driver, statement in product(drivers, first):
            driver.call("sql", query=statement)

        def append(number: int, driver: Driver) -> list[Row]:
            """Append rows, and give the job some for each; return what was acknowledged."""
            acknowledged = []
            for n in range(COMMITS):
                first = (number * COMMITS + n) * AT_ONCE
                feed.pour(range(first, first + AT_ONCE))
                try:
                    # Paimon 0.9 casts nothing.
                    insert = f"insert into {into} values ('spark{number}', cast({n} as bigint))"  # noqa: S608 - our own
                    driver.call("sql", query=insert)
                    acknowledged.append((f"spark{number}", n))
                except CallError as error:
                    refused.append(error)
            return acknowledged

        with ThreadPoolExecutor() as pool, befalling(list(proxies), HELD) as wait:
            appending = [pool.submit(append, number, driver) for number, driver in enumerate(drivers)]
            if proxies:
                wait(1 + len(drivers))
        return Appended(job, [each.result() for each in appending], refused)


def noted(rows: Mapping[Row, int], of: Appended) -> str:
    """Say what became of rows that should be there."""
    acknowledged = {row for rows in of.acknowledged for row in rows}
    said = f"{len(acknowledged)} of Spark's commits acknowledged, {len(of.refused)} refused"
    return f"{said}, {tally(rows, acknowledged | ROWS_OF_FLINK)}"


def lose_and_double_nothing(
    ours: Appended, form: str, table: Table, program: Program, cluster: Cluster, store: BucketServer
) -> str:
    """See that all rows that were acknowledged are there once; say what became of the others."""
    expected = ROWS_OF_FLINK | {row for rows in ours.acknowledged for row in rows}
    until(lambda: table.total(store) >= len(expected), 120, "the job has not committed all of its rows")
    cluster.cancel(ours.job)
    own = FORMATS[form].conflicts
    others = [error.message for error in ours.refused if not any(each in error.message for each in own)]
    assert not others, others[0]
    assert all(ours.acknowledged)
    rows = table.form.read(program, table.warehouse)
    assert {row: rows[row] for row in expected} == dict.fromkeys(expected, 1)
    assert max(rows.values()) == 1
    assert inspect(table.url, **store.storage_options).damage == []
    return noted(rows, ours)


def what_became_of(theirs: Appended, table: Table, program: Program, cluster: Cluster) -> str:
    """Say how a job without a guard has ended, and what became of the rows of all three."""
    # Its rows may never be there: it has had time to commit them.
    with suppress(AssertionError, NotStartedError):
        cluster.wait_for_checkpoints(theirs.job, cluster.checkpoints(theirs.job) + 3)
    state = cluster.end(theirs.job)
    return f"stock: {state}, {noted(table.form.read(program, table.warehouse), theirs)}"


def above(table: Table) -> str:
    """Return the folder of a table's warehouse, of whichever format, without its scheme."""
    return table.warehouse.partition("://")[2].rpartition("/")[0]
