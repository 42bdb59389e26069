"""Each way to deploy Spark with each table format: two writers at once, and no row of theirs is lost."""

from __future__ import annotations

import os
import re
import urllib.request
from collections import Counter
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.service.callers import SECRET
from tests.service.processes import serving
from tests.spark.cluster import cluster
from tests.spark.deployments import COMMITS, DEPLOYMENTS, Cell
from tests.spark.drivers import Driver, told_on
from tests.spark.writers import FORMATS, settings_of_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(600)]

TABLES = ("delta", "hudi", "iceberg", "paimon")
# What a short run has is one cell of each kind that nothing else tests with a table.
SHORT = [
    ("standalone, cluster mode", "paimon"),
    ("Thrift server", "hudi"),
    ("jars by --jars, spark-sql", "delta"),
]
CELLS = SHORT if os.environ.get("SHORT") else [(name, form) for name in DEPLOYMENTS for form in TABLES]


@pytest.fixture(scope="module")
def service(store: BucketServer) -> Iterator[str]:
    """Run a service for the store, of which every deployment knows."""
    options = {**store.storage_options, "arbiter": "native"}
    told = {"secret": SECRET, "mounts": [{"prefix": "s3a:", "options": options}]}
    with serving(told) as (_, address), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUTIFABSENT_SERVICE_SECRET", SECRET)
        yield address


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], tuple[str, Path]]]:
    """Give a standalone cluster, which runs from the first time that it is asked for."""
    workers = tmp_path_factory.mktemp("workers")
    with pytest.MonkeyPatch.context(), ExitStack() as stack:
        yield cache(lambda: (stack.enter_context(cluster(4, workers)), workers))


@pytest.fixture(scope="module")
def maker(
    store: BucketServer, bucket: str, service: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """Run a driver that makes tables and reads them."""
    told = told_on(store, bucket, guarded=True)._replace(mount={"service": service})
    with Driver(told, tmp_path_factory.mktemp("maker") / "log") as driver:
        yield driver.wait()


def commits(address: str) -> int:
    """Count what a service has created or shown by another name, and said so."""
    request = urllib.request.Request(  # noqa: S310 - HTTP, on loopback
        f"{address}/v1/metrics", headers={"Authorization": f"Bearer {SECRET}"}
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - the same
        text = answer.read().decode()
    done = re.findall(r'putifabsent_calls_total\{call="(?:create|rename)",status="200"\} (\d+)', text)
    return sum(map(int, done))


@pytest.mark.parametrize(("deployment", "form"), CELLS)
def test_two_writers_of_a_deployment_lose_nothing(
    deployment: str,
    form: str,
    store: BucketServer,
    bucket: str,
    service: str,
    standalone: Callable[[], tuple[str, Path]],
    maker: Driver,
    tmp_path: Path,
) -> None:
    table = f"{form}_{list(DEPLOYMENTS).index(deployment)}"
    maker.call("make", form=form, table=table)
    maker.call("append", form=form, table=table, who="maker", n=0)
    before = commits(service)
    settings = settings_of_one(form, told_on(store, bucket, guarded=False).settings)
    del settings["spark.jars"]
    heard = DEPLOYMENTS[deployment](Cell(form, table, settings, service, standalone, tmp_path))
    for each in heard:
        is_lost = any(words in each.words for words in FORMATS[form].conflicts)
        assert each.code == 0 or is_lost, each.words[-6000:]
    acknowledged = [("maker", 0), *(row for each in heard for row in each.acknowledged)]
    assert len(acknowledged) > COMMITS, heard[0].words[-6000:]
    there = Counter((who, n) for who, n in maker.call("rows", form=form, table=table))
    assert [row for row in acknowledged if there[row] != 1] == []
    assert [row for row, times in there.items() if times > 1] == []
    # Each of them by the service: that nothing was lost is no luck.
    assert commits(service) - before >= len(acknowledged) - 1
