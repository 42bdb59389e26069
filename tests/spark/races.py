"""Unmodified writers set at one table, or at one checkpoint, and what became of what they were told."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.child import CallError
from tests.spark.drivers import driving, together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.conftest import Note
    from tests.spark.drivers import Driver, Told

    Row = tuple[str, int]

__all__ = [
    "Raced",
    "Streamed",
    "check",
    "kill_in_a_commit",
    "race",
    "racing",
    "row_of",
    "rows_of",
    "stream",
]

# What Spark tells a query that another one went before; the last in a first batch that has begun (Spark 4).
_REFUSED = ("Multiple streaming ", "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY")


class Raced(NamedTuple):
    """What writers of one table were told, and what is readable then.

    Attributes
    ----------
    acknowledged
        The rows whose commits were.
    refused
        The others, with their errors.
    readable
        How often each row is read by a session that has not seen the table before.
    seconds
        From the first commit's begin to the last one's end.
    """

    acknowledged: list[Row]
    refused: list[tuple[Row, CallError]]
    readable: Counter[Row]
    seconds: float

    @property
    def lost(self) -> list[Row]:
        """Rows that were acknowledged, and are gone."""
        return [row for row in self.acknowledged if not self.readable[row]]

    @property
    def doubled(self) -> list[Row]:
        """Rows that are read more than once."""
        return [row for row, times in self.readable.items() if times > 1]

    @property
    def there_nevertheless(self) -> list[Row]:
        """Rows that are read though their commit was said to have failed."""
        return [row for row, _ in self.refused if self.readable[row]]

    def kinds(self) -> Counter[str]:
        """Count the errors by the exception that is named first."""
        return Counter(error.reason for _, error in self.refused)

    def figures(self) -> dict[str, Any]:
        """Return it in numbers."""
        return {
            "acknowledged": len(self.acknowledged),
            "readable": len(self.readable),
            "lost": len(self.lost),
            "doubled": len(self.doubled),
            "failed": len(self.refused),
            "failed_and_readable": len(self.there_nevertheless),
            "errors": dict(self.kinds()),
            "seconds": round(self.seconds, 1),
        }


@contextmanager
def racing(writer: Told, writers: int, reader: Told) -> Iterator[tuple[list[Driver], Driver]]:
    """Run so many drivers that are told the same, and one that reads."""
    with TemporaryDirectory() as logs, driving([*[writer] * writers, reader], Path(logs)) as drivers:
        yield drivers[:-1], drivers[-1]


def row_of(number: int, n: int) -> list[Row]:
    """Return what the driver of a number writes in its commit ``n``: one row."""
    return [(f"w{number}", n)]


def race(
    drivers: Sequence[Driver],
    reader: Driver,
    form: str,
    table: str,
    commits: int,
    done: Callable[[], object] = lambda: None,
    rows: Callable[[int, int], list[Row]] = row_of,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Raced:
    """Have each driver make so many commits to one table, one by one, all drivers at once.

    Parameters
    ----------
    done
        Is called after each commit.
    rows
        What the driver of a number writes in its n-th commit: rows, of which the first tells the commit.
    options
        Of each commit.
    """

    def write(driver: Driver, number: int) -> tuple[list[Row], list[tuple[Row, CallError]]]:
        acknowledged, refused = [], []
        for n in range(commits):
            written = rows(number, n)
            try:
                driver.call("save", form=form, table=table, rows=written, **options)
                acknowledged.append(written[0])
            except CallError as error:
                refused.append((written[0], error))
            done()
        return acknowledged, refused

    drivers[0].call("make", form=form, table=table)
    began = time.monotonic()
    raced = together(partial(write, driver, number) for number, driver in enumerate(drivers))
    seconds = time.monotonic() - began
    return Raced(
        [row for rows, _ in raced for row in rows],
        [row for _, rows in raced for row in rows],
        rows_of(reader, form, table),
        seconds,
    )


def rows_of(reader: Driver, form: str, table: str) -> Counter[Row]:
    """Return how often each row of a table is read."""
    return Counter((who, n) for who, n in reader.call("rows", form=form, table=table))


def kill_in_a_commit(victim: Driver, form: str, table: str, who: str) -> list[Row]:
    """Have a driver append two rows, kill it while it appends a third, and return what was acknowledged."""
    acknowledged = []
    for n in range(2):
        began = time.monotonic()
        victim.call("append", form=form, table=table, who=who, n=n)
        took = time.monotonic() - began
        acknowledged.append((who, n))
    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(victim.call, "append", form=form, table=table, who=who, n=2)
        time.sleep(random.uniform(0.2, 1) * took)
        victim.signal(signal.SIGKILL)
        try:
            last.result()
        except CallError:
            return acknowledged
    return [*acknowledged, (who, 2)]


class Streamed(NamedTuple):
    """What streaming queries on one checkpoint did.

    Attributes
    ----------
    batches
        How often each batch was committed.
    failed
        What ended the queries that did not go on.
    """

    batches: Counter[int]
    failed: list[str]

    @property
    def doubled(self) -> list[int]:
        """Batches that more than one query has committed."""
        return [number for number, times in self.batches.items() if times > 1]

    @property
    def unclear(self) -> list[str]:
        """What ended queries for another reason than that one went before."""
        return [each for each in self.failed if not any(reason in each for reason in _REFUSED)]


def check(streamed: Streamed, note: Note) -> None:
    """Check that queries on one checkpoint had batches of their own, and that who lost was told why."""
    note(f"{len(streamed.batches)} batches, {len(streamed.failed)} queries refused")
    assert streamed.batches
    assert streamed.doubled == []
    assert not streamed.unclear, "\n".join(streamed.unclear)


def stream(drivers: Sequence[Driver], checkpoint: str, batches: int) -> Streamed:
    """Have each driver run a query on one checkpoint, all at once, until it has committed so many batches."""
    said: list[dict[str, Any]] = together(
        partial(driver.call, "stream", checkpoint=checkpoint, batches=batches) for driver in drivers
    )
    done = Counter(number for each in said for number in each["batches"])
    return Streamed(done, [each["failed"] for each in said if each["failed"] is not None])
