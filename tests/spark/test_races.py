"""Unmodified writers in several drivers, each with its own JVM, commit to one table on a real S3 server."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.spark.drivers import Driver, DriverError, check_streams, together, told_on
from tests.spark.writers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Note
    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(1800)]

WRITERS = 4
COMMITS = 3 if os.environ.get("SHORT") else 10


@pytest.fixture(scope="module")
def drivers(
    store: BucketServer, bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Driver]]:
    """Start guarded drivers, all of one bucket."""
    logs = tmp_path_factory.mktemp("drivers")
    with ExitStack() as stack:
        started = [
            stack.enter_context(Driver(told_on(store, bucket, guarded=True), logs / f"{number}.log"))
            for number in range(WRITERS)
        ]
        yield [each.wait() for each in started]


@pytest.fixture(scope="module")
def reader(store: BucketServer, bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Start a driver that knows nothing of the shim."""
    log = tmp_path_factory.mktemp("reader") / "log"
    with Driver(told_on(store, bucket, guarded=False), log) as driver:
        yield driver.wait()


def committed(
    driver: Driver, form: str, table: str, who: str
) -> tuple[list[tuple[str, int]], list[DriverError]]:
    """Append rows one by one; return those that were acknowledged, and the errors of the others."""
    acknowledged, errors = [], []
    for n in range(COMMITS):
        try:
            driver.call("append", form=form, table=table, who=who, n=n)
            acknowledged.append((who, n))
        except DriverError as error:
            errors.append(error)
    return acknowledged, errors


@pytest.mark.parametrize("form", FORMATS)
def test_no_acknowledged_row_is_lost_or_doubled(
    form: str, drivers: list[Driver], reader: Driver, note: Note
) -> None:
    drivers[0].call("make", form=form, table=form)
    raced = together(
        partial(committed, driver, form, form, f"w{number}") for number, driver in enumerate(drivers)
    )
    acknowledged = [row for rows, _ in raced for row in rows]
    errors = [error for _, several in raced for error in several]
    readable = Counter((who, n) for who, n in reader.call("rows", form=form, table=form))
    kinds = Counter(error.message.partition("\n")[0][:200] for error in errors)
    note(f"{len(acknowledged)} acknowledged of {WRITERS * COMMITS}, {dict(kinds)}")
    assert acknowledged
    assert [row for row in acknowledged if not readable[row]] == []
    assert [row for row, times in readable.items() if times > 1] == []
    own = FORMATS[form].conflicts
    assert [error for error in errors if not any(each in error.message for each in own)] == []


def test_a_batch_is_processed_by_one_of_several_queries(drivers: list[Driver], note: Note) -> None:
    drivers[0].call("stream", checkpoint="stream", batches=1)
    said = together(
        partial(driver.call, "stream", checkpoint="stream", batches=COMMITS) for driver in drivers
    )
    check_streams(said, note)
