"""``mount`` on Azure's scheme, through Hadoop's own client for it, on a real server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.servers.azure import ACCOUNT, KEY, Azurite
from tests.spark.drivers import ROOT, Driver, Told, driving, together
from tests.spark.races import check, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Note

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

HOST = f"{ACCOUNT}.dfs.core.windows.net"
JARS = ROOT / "tools" / "spark4" / "target" / "jars"


@pytest.fixture(scope="module")
def azurite() -> Iterator[Azurite]:
    with Azurite() as server:
        yield server


@pytest.fixture(scope="module")
def lake(azurite: Azurite) -> str:
    return f"abfs://{azurite.new_bucket()}@{HOST}"


@pytest.fixture(scope="module")
def drivers(azurite: Azurite, lake: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Driver]]:
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.jars": ",".join(str(each) for each in sorted(JARS.glob("*.jar"))),
        "spark.test.warehouse": lake,
        f"spark.hadoop.fs.azure.account.key.{HOST}": KEY,
        # How a server of one's own is told, there and here: an account's key says nothing of where it is.
        "spark.hadoop.fs.azure.abfs.endpoint": urlsplit(azurite.endpoint).netloc,
        "spark.hadoop.fs.azure.always.use.https": "false",
        "spark.hadoop.fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        # It knows blobs alone: no folders, and none of their own calls.
        "spark.hadoop.fs.azure.account.hns.enabled": "false",
        "spark.hadoop.fs.azure.fns.account.service.type": "BLOB",
    }
    told = Told(settings, "abfs", {"connection_string": azurite.connection_string})
    with driving([told] * 2, tmp_path_factory.mktemp("drivers")) as drivers:
        yield drivers


def test_a_batch_is_processed_by_one_of_two_queries(drivers: list[Driver], note: Note) -> None:
    drivers[0].call("stream", checkpoint="stream", batches=1)
    check(stream(drivers, "stream", 4), note)


def test_of_two_drivers_one_creates_a_name(drivers: list[Driver], lake: str) -> None:
    for number in range(10):
        path = f"{lake}/t/_delta_log/{number:020}.json"
        assert sum(together(partial(each.call, "create", path=path) for each in drivers)) == 1


def test_python_and_the_jvm_see_one_anothers_creations(drivers: list[Driver], lake: str) -> None:
    container = urlsplit(lake).username
    name = f"{container}/p/_delta_log/{0:020}.json"
    said = drivers[0].call("in_workers", name=name, tasks=16, protocol="piaaz")
    assert sum(each.endswith(" won") for each in said) == 1
    assert not drivers[1].call("create", path=f"{lake}/p/_delta_log/{0:020}.json")


def test_plain_files_are_written_as_ever(drivers: list[Driver], lake: str) -> None:
    for driver in drivers:
        driver.call("parquet", path=f"{lake}/plain", rows=100)
    assert drivers[0].call("count", path=f"{lake}/plain") == 200
