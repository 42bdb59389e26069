"""A job of Flink's and two drivers of Spark's, none of them modified, commit to one table at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.flink.beside_spark import above, appended, lose_and_double_nothing, what_became_of
from tests.flink.cluster import GUARDED, STOCK
from tests.flink.programs import FORMATS
from tests.flink.tables import STOCK_GIVES_UP, table_of
from tests.service.callers import SECRET
from tests.spark.drivers import LONG, told_on
from tests.spark.writers import settings_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Note
    from tests.fault_proxy import FaultProxy
    from tests.flink.cluster import Cluster
    from tests.flink.programs import Program
    from tests.servers import BucketServer

pytestmark = [pytest.mark.flink, pytest.mark.timeout(600), LONG]


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
    into = f"{name}.db.t"
    ours = appended(into, table, told, program, cluster, tmp_path / "guarded", proxies=proxies)
    said = lose_and_double_nothing(ours, name, table, program, cluster, store)

    stock = table_of(name, program, STOCK, bucket)
    unguarded = {f"spark.hadoop.fs.{STOCK}.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    told = told_on(
        store, above(stock), guarded=False, **unguarded, **settings_of(f"{STOCK}://{above(stock)}")
    )
    theirs = appended(into, stock, told, program, cluster, tmp_path / "stock", settings=STOCK_GIVES_UP)
    note(f"{said}; {what_became_of(theirs, stock, program, cluster)}")
