"""``mount`` on Google's scheme, through the Cloud Storage connector, on a server that stands in for GCS."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.servers.gcs import PROJECT, FakeGCS
from tests.spark.drivers import ROOT, Driver, Told, driving, together
from tests.spark.races import check, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Note

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

JARS = ROOT / "tools" / "spark4" / "target" / "jars"


@pytest.fixture(scope="module")
def gcs() -> Iterator[FakeGCS]:
    with FakeGCS() as server:
        yield server


@pytest.fixture(scope="module")
def lake(gcs: FakeGCS) -> str:
    return f"gs://{gcs.new_bucket()}"


@pytest.fixture(scope="module")
def drivers(gcs: FakeGCS, lake: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Driver]]:
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.jars": ",".join(str(each) for each in sorted(JARS.glob("*.jar"))),
        "spark.test.warehouse": lake,
        # Hadoop 3.5 has a client of its own, and says for it what the connector can't read.
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.gs.block.size": "67108864",
        "spark.hadoop.fs.gs.project.id": PROJECT,
        "spark.hadoop.fs.gs.storage.root.url": gcs.endpoint,
        "spark.hadoop.fs.gs.auth.type": "UNAUTHENTICATED",
    }
    with driving([Told(settings, "gs", {})] * 2, tmp_path_factory.mktemp("drivers")) as drivers:
        yield drivers


def test_a_batch_is_processed_by_one_of_two_queries(drivers: list[Driver], note: Note) -> None:
    drivers[0].call("stream", checkpoint="stream", batches=1)
    check(stream(drivers, "stream", 4), note)


def test_of_two_drivers_one_creates_a_name(drivers: list[Driver], lake: str) -> None:
    for number in range(10):
        path = f"{lake}/t/_delta_log/{number:020}.json"
        assert sum(together(partial(each.call, "create", path=path) for each in drivers)) == 1


def test_python_and_the_jvm_see_one_anothers_creations(drivers: list[Driver], lake: str) -> None:
    name = f"{lake.removeprefix('gs://')}/p/_delta_log/{0:020}.json"
    said = drivers[0].call("in_workers", name=name, tasks=16, protocol="piags")
    assert sum(each.endswith(" won") for each in said) == 1
    assert not drivers[1].call("create", path=f"{lake}/p/_delta_log/{0:020}.json")


def test_plain_files_are_written_as_ever(drivers: list[Driver], lake: str) -> None:
    for driver in drivers:
        driver.call("parquet", path=f"{lake}/plain", rows=100)
    assert drivers[0].call("count", path=f"{lake}/plain") == 200
