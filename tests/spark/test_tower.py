"""Unmodified Hudi waits before it begins a commit while another is under way that writes the same file group.

Who has read the table first does not: it would write over what others have completed meanwhile.
"""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from tests.fsspec_plugin.hudi_tables import Writer
from tests.spark.drivers import LONG, SHORT, Driver, told_on
from tests.spark.races import race
from tests.spark.writers import CATALOGS, SMALL_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Note
    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(1200)]

COMMITS = 3 if SHORT else 10


def test_where_all_may_wait_small_upserts_of_several_drivers_are_all_acknowledged(
    pair: list[Driver], reader: Driver, note: Note
) -> None:
    options = {**SMALL_FILES, "hoodie.datasource.write.operation": "upsert"}
    raced = race(pair, reader, "hudi", "tower", COMMITS, options=options)
    note(f"{len(raced.acknowledged)} acknowledged of {len(pair) * COMMITS}, {dict(raced.kinds())}")
    assert [error.message for _, error in raced.refused] == []
    assert (raced.lost, raced.doubled) == ([], [])


class Table:
    """A table of Hudi's in a catalog, and a driver that writes it by SQL."""

    def __init__(self, driver: Driver, store: BucketServer, root: str) -> None:
        self._driver = driver
        self._options = store.storage_options
        self._root = root
        self._around = fsspec.filesystem("s3", **self._options, use_listings_cache=False)

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Run one."""
        rows: list[dict[str, Any]] = self._driver.call("sql", query=statement)
        return rows

    def waits(self) -> bool:
        """Whether somebody waits to begin a commit."""
        return bool(self._around.find(f"{self._root}/.hoodie/.putifabsent/slots"))

    @contextmanager
    def another_commit(self) -> Iterator[None]:
        """Have another session write all that there is, and give up in the end."""
        fs = fsspec.filesystem(
            "pias3",
            **self._options,
            arbiter="native",
            writer_session=str(uuid.uuid4()),
            skip_instance_cache=True,
        )
        writer = Writer(fs, self._root)
        now = datetime.now(timezone.utc)
        instant = f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03}"
        heartbeat = f"{self._root}/.hoodie/.heartbeat/{instant}"
        self._around.pipe_file(heartbeat, b"")
        fs.pipe_file(writer.requested(instant), b"")
        try:
            yield
        finally:
            fs.rm_file(writer.requested(instant))
            self._around.rm_file(heartbeat)


@pytest.fixture(scope="module")
def table(store: BucketServer, bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    told = told_on(store, bucket, guarded=True)
    catalog = {"spark.sql.catalog.spark_catalog": CATALOGS["hudi"]}
    told = told._replace(settings={**told.settings, **catalog})
    with Driver(told, tmp_path_factory.mktemp("sql") / "log") as driver:
        table = Table(driver.wait(), store, f"{bucket}/counted")
        table.sql(
            "create table counted (id int, n int) using hudi tblproperties (primaryKey = 'id') "
            f"location 's3a://{bucket}/counted'"
        )
        table.sql(f"create table source (id int, n int) using parquet location 's3a://{bucket}/source'")
        table.sql("insert into source values (5, 0)")
        table.sql("insert into counted values (1, 0)")
        yield table


@pytest.mark.parametrize(
    "statement",
    [
        "update counted set n = n + 1 where id = 1",
        "merge into counted t using (select 1 id) s on t.id = s.id when matched then update set n = t.n + 1",
        "insert into counted select id + 10, n from counted where id = 1",
        pytest.param("insert into counted select 3, (select max(n) from counted)", marks=LONG),
        pytest.param("delete from counted where n > 100", marks=LONG),
    ],
)
def test_what_was_read_from_the_table_does_not_grow_old_in_a_queue(statement: str, table: Table) -> None:
    with table.another_commit():
        table.sql(statement)
        assert not table.waits()


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("insert into counted values (2, 0)", marks=LONG),
        "insert into counted select * from source",
    ],
)
def test_what_comes_from_elsewhere_waits(statement: str, table: Table) -> None:
    with ThreadPoolExecutor(1) as pool:
        with table.another_commit():
            written = pool.submit(table.sql, statement)
            while not table.waits():
                assert not written.done(), written.result()
                time.sleep(0.1)
        written.result()
    assert not table.waits()


def test_what_would_write_over_rows_may_have_been_read_and_kept_in_the_program(table: Table) -> None:
    table.sql("set hoodie.spark.sql.insert.into.operation=upsert")
    try:
        with table.another_commit():
            table.sql("insert into counted values (1, 1)")
            assert not table.waits()
    finally:
        table.sql("reset")


def test_nobody_waits_until_hudis_patience_is_over(table: Table) -> None:
    patience = {"wait_time_ms": 2000, "client.wait_time_ms_between_retry": 1000, "client.num_retries": 2}
    for key, number in patience.items():
        table.sql(f"set hoodie.write.lock.{key}={number}")
    try:
        with table.another_commit():
            table.sql("insert into counted values (4, 0)")
    finally:
        table.sql("reset")


def test_who_changes_the_schema_does_not_wait(table: Table) -> None:
    with table.another_commit():
        table.sql("alter table counted add columns (more int)")
        assert not table.waits()
