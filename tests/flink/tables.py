"""Tables of a test's own, and the jobs that write to them."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.timeline import read
from tests.faults.failover import until
from tests.flink.programs import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from tests.fault_proxy import Fault, FaultProxy
    from tests.flink.cluster import Cluster
    from tests.flink.programs import Feed, Format, Program
    from tests.servers import BucketServer

    Row = tuple[str, int]

__all__ = ["STOCK_GIVES_UP", "Table", "Writer", "befalling", "made", "table_of", "tally", "what_became_of"]

STOCK_GIVES_UP = {"restart_strategy__fixed_delay__attempts": "5"}
"""Has a job fail in the end whose commits, past the guard, may never succeed again."""


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

    @property
    def url(self) -> str:
        """Itself, for whoever is no Hadoop."""
        return f"s3://{self.warehouse.partition('://')[2]}/{self.form.folder}"

    def total(self, store: BucketServer) -> int:
        """Return how many rows it has."""
        return self.form.total(read(self.url, **store.storage_options))

    def fed(self, program: Program, who: str, feed: Feed, **settings: str) -> Writer:
        """Have a job write what it is given."""
        job = self.form.streamed(program, self.warehouse, who, feed.source, **settings)
        return Writer(self, who, job, feed)


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
    feed
        Where its rows come from; None: it counts.
    """

    table: Table
    who: str
    job: str
    feed: Feed | None = None

    def pour(self, numbers: range) -> None:
        """Give it some rows."""
        assert self.feed is not None
        self.feed.pour(numbers)

    def resumed(self, program: Program, cluster: Cluster, **settings: str) -> Writer:
        """Have a new job go on from this one's last checkpoint."""
        assert self.feed is not None
        settings |= cluster.resuming(cluster.last_checkpoint(self.job))
        return self.table.fed(program, self.who, self.feed, **settings)


def table_of(name: str, program: Program, scheme: str, bucket: str) -> Table:
    """Make a table of a format."""
    table = Table(FORMATS[name], f"{scheme}://{bucket}/{uuid.uuid4().hex[:8]}/{name}")
    table.form.made(program, table.warehouse)
    return table


def made(program: Program, schemes: Iterable[str], bucket: str) -> list[Table]:
    """Make a table of each format, each by a scheme of its own."""
    return [table_of(name, program, scheme, bucket) for scheme, name in zip(schemes, FORMATS, strict=True)]


def tally(rows: Mapping[Row, int], expected: Collection[Row]) -> str:
    """Say how many rows are lost, and how many are there more than once."""
    lost = sum(row not in rows for row in expected)
    doubled = sum(times > 1 for times in rows.values())
    return f"{lost} of {len(expected)} lost, {doubled} doubled"


def what_became_of(
    stock: Collection[Writer], expected: Collection[Row], cluster: Cluster, program: Program
) -> str:
    """Say how jobs without a guard have ended, and what became of the rows of each of their tables."""
    ended = dict(zip(stock, cluster.end_of_stock(each.job for each in stock), strict=True))
    told = []
    for table in dict.fromkeys(each.table for each in stock):
        rows = table.form.read(program, table.warehouse)
        states = [state for each, state in ended.items() if each.table == table]
        told.append(f"stock {table.form.folder}: {states}, {tally(rows, expected)}")
    return "; ".join(told)


@contextmanager
def befalling(
    proxies: list[FaultProxy], fault: Fault, most: int = 100, *, kind: str = "POST rename"
) -> Iterator[Callable[[int], None]]:
    """Have this befall so many commits by each proxy at most, and nothing any more afterwards.

    What is given waits until it has befallen so many in all.
    """
    before = sum(each.lost for each in proxies)
    for each in proxies:
        each.script(kind, *[fault] * most)

    def wait(commits: int) -> None:
        until(
            lambda: sum(each.lost for each in proxies) - before >= commits,
            120,
            f"it has not befallen {commits} commits",
        )

    try:
        yield wait
    finally:
        for each in proxies:
            each.calm()
