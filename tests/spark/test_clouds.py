"""``mount`` on Azure's scheme and on Google's, through Hadoop's clients for them, on servers of one's own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.servers.azure import ACCOUNT, KEY, Azurite
from tests.servers.gcs import PROJECT, FakeGCS
from tests.spark.drivers import ROOT, Driver, Told, driving, together
from tests.spark.races import check, stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.conftest import Note

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

HOST = f"{ACCOUNT}.dfs.core.windows.net"
JARS = ROOT / "tools" / "spark4" / "target" / "jars"


class Cloud(NamedTuple):
    """A bucket, and how its users tell Spark of it.

    Attributes
    ----------
    bucket
        Its name.
    lake
        Its address.
    settings
        Of the session, without what their keys begin with.
    mount
        What ``mount`` is told.
    protocol
        What it is in Python.
    """

    bucket: str
    lake: str
    settings: Mapping[str, str]
    mount: Mapping[str, Any]
    protocol: str


def azure(server: Azurite) -> Cloud:
    bucket = server.new_bucket()
    settings = {
        f"account.key.{HOST}": KEY,
        # How a server of one's own is told, there and here: an account's key says nothing of where it is.
        "abfs.endpoint": urlsplit(server.endpoint).netloc,
        "always.use.https": "false",
        "networking.library": "JDK_HTTP_URL_CONNECTION",
        # It knows blobs alone: no folders, and none of their own calls.
        "account.hns.enabled": "false",
        "fns.account.service.type": "BLOB",
    }
    keyed = {f"fs.azure.{key}": value for key, value in settings.items()}
    mount = {"connection_string": server.connection_string}
    return Cloud(bucket, f"abfs://{bucket}@{HOST}", keyed, mount, "piaaz")


def google(server: FakeGCS) -> Cloud:
    bucket = server.new_bucket()
    settings = {
        # Hadoop 3.5 has a client of its own, and says for it what the connector can't read.
        "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "fs.gs.block.size": "67108864",
        "fs.gs.project.id": PROJECT,
        "fs.gs.storage.root.url": server.endpoint,
        "fs.gs.auth.type": "UNAUTHENTICATED",
    }
    return Cloud(bucket, f"gs://{bucket}", settings, {}, "piags")


@pytest.fixture(scope="module", params=[(Azurite, azure), (FakeGCS, google)], ids=["abfs", "gs"])
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    kind, told = request.param
    with kind() as server:
        yield told(server)


@pytest.fixture(scope="module")
def drivers(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Driver]]:
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.jars": ",".join(str(each) for each in sorted(JARS.glob("*.jar"))),
        "spark.test.warehouse": cloud.lake,
        **{f"spark.hadoop.{key}": value for key, value in cloud.settings.items()},
    }
    told = Told(settings, cloud.lake.partition(":")[0], cloud.mount)
    with driving([told] * 2, tmp_path_factory.mktemp("drivers")) as drivers:
        yield drivers


def test_a_batch_is_processed_by_one_of_two_queries(drivers: list[Driver], note: Note) -> None:
    drivers[0].call("stream", checkpoint="stream", batches=1)
    check(stream(drivers, "stream", 4), note)


def test_of_two_drivers_one_creates_a_name(drivers: list[Driver], cloud: Cloud) -> None:
    for number in range(10):
        path = f"{cloud.lake}/t/_delta_log/{number:020}.json"
        assert sum(together(partial(each.call, "create", path=path) for each in drivers)) == 1


def test_python_and_the_jvm_see_one_anothers_creations(drivers: list[Driver], cloud: Cloud) -> None:
    name = f"p/_delta_log/{0:020}.json"
    said = drivers[0].call("in_workers", name=f"{cloud.bucket}/{name}", tasks=16, protocol=cloud.protocol)
    assert sum(each.endswith(" won") for each in said) == 1
    assert not drivers[1].call("create", path=f"{cloud.lake}/{name}")


def test_plain_files_are_written_as_ever(drivers: list[Driver], cloud: Cloud) -> None:
    for driver in drivers:
        driver.call("parquet", path=f"{cloud.lake}/plain", rows=100)
    assert drivers[0].call("count", path=f"{cloud.lake}/plain") == 200
