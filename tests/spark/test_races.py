"""Unmodified writers in several drivers, each with its own JVM, commit to one table on a real S3 server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from putifabsent.inspection import inspect
from tests.spark.drivers import SHORT, Driver, driving, told_on
from tests.spark.races import check, race, stream
from tests.spark.writers import FORMATS, IS_NEWER, THERE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Note
    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(1800)]

WRITERS, COMMITS = (2, 3) if SHORT else (4, 10)
# In a short run each format is written on one release of PySpark.
LEFT_OUT = ("hudi_mor", "delta" if IS_NEWER else "iceberg") if SHORT else ()


@pytest.fixture(scope="module")
def drivers(
    pair: list[Driver], store: BucketServer, bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Driver]]:
    """Start guarded drivers, all of one bucket."""
    told = told_on(store, bucket, guarded=True).strictly()
    more = [told] * (WRITERS - len(pair))
    with driving(more, tmp_path_factory.mktemp("drivers")) as drivers:
        yield [*pair, *drivers]


def folder_of(form: str, bucket: str) -> str | None:
    """Return where a format's table is, where its timeline can be read."""
    return {"iceberg": None, "paimon": f"{bucket}/paimon/db.db/paimon"}.get(form, f"{bucket}/{form}")


@pytest.mark.parametrize("form", [form for form in THERE if form not in LEFT_OUT])
def test_no_acknowledged_row_is_lost_or_doubled(
    form: str, drivers: list[Driver], reader: Driver, store: BucketServer, bucket: str, note: Note
) -> None:
    raced = race(drivers, reader, form, form, COMMITS)
    note(f"{len(raced.acknowledged)} acknowledged of {WRITERS * COMMITS}, {dict(raced.kinds())}")
    assert raced.acknowledged
    assert raced.lost == []
    assert raced.doubled == []
    own = FORMATS[form].conflicts
    assert [error for _, error in raced.refused if not any(each in error.message for each in own)] == []
    if folder := folder_of(form, bucket):
        assert inspect(f"s3://{folder}", **store.storage_options).damage == []


@pytest.mark.skipif(SHORT and IS_NEWER, reason="the other releases' tests ask it")
@pytest.mark.parametrize("queries", sorted({2, WRITERS}))
def test_a_batch_is_processed_by_one_of_several_queries(
    queries: int, drivers: list[Driver], note: Note
) -> None:
    checkpoint = f"stream{queries}"
    drivers[0].call("stream", checkpoint=checkpoint, batches=1)
    check(stream(drivers[:queries], checkpoint, COMMITS), note)
