"""Each way to deploy Spark with each table format: two writers at once, and no row of theirs is lost."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.child import CallError
from tests.service.callers import SECRET
from tests.service.processes import serving
from tests.spark.cluster import cluster
from tests.spark.deployments import COMMITS, DEPLOYMENTS, Cell
from tests.spark.drivers import LONG, Driver, Told, told_on
from tests.spark.writers import FORMATS, settings_of_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Note
    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(600), LONG]

TABLES = ("delta", "hudi", "iceberg", "paimon")


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
    with ExitStack() as stack:
        yield cache(lambda: (stack.enter_context(cluster(4, workers)), workers))


@pytest.fixture(scope="module")
def told(store: BucketServer, bucket: str, service: str) -> Told:
    """Return what a driver is told that mounts by the service."""
    return told_on(store, bucket, guarded=True)._replace(mount={"service": service})


@pytest.fixture(scope="module")
def maker(told: Told, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Run a driver that makes tables and reads them."""
    with Driver(told, tmp_path_factory.mktemp("maker") / "log") as driver:
        yield driver.wait()


def commits(driver: Driver) -> int:
    """Count what a driver's service has created or shown by another name, and said so."""
    answered = r'putifabsent_calls_total\{call="(?:create|rename)",status="200"\} (\d+)'
    done = re.findall(answered, driver.metrics())
    return sum(map(int, done))


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_two_writers_of_a_deployment_lose_nothing(
    deployment: str,
    form: str,
    store: BucketServer,
    bucket: str,
    service: str,
    standalone: Callable[[], tuple[str, Path]],
    maker: Driver,
    note: Note,
    tmp_path: Path,
) -> None:
    table = f"{form}_{list(DEPLOYMENTS).index(deployment)}"
    maker.call("make", form=form, table=table)
    maker.call("append", form=form, table=table, who="maker", n=0)
    before = commits(maker)
    settings = settings_of_one(form, told_on(store, bucket, guarded=False).settings)
    del settings["spark.jars"]
    heard = DEPLOYMENTS[deployment](Cell(form, table, settings, service, standalone, tmp_path))
    for each in heard:
        is_lost = any(words in each.words for words in FORMATS[form].conflicts)
        assert each.code == 0 or is_lost, each.words[-6000:]
    acknowledged = [("maker", 0), *(row for each in heard for row in each.acknowledged)]
    note(f"{len(acknowledged)} acknowledged, {sum(each.code != 0 for each in heard)} refused")
    assert len(acknowledged) > COMMITS, heard[0].words[-6000:]
    there = Counter((who, n) for who, n in maker.call("rows", form=form, table=table))
    assert [row for row in acknowledged if there[row] != 1] == []
    assert [row for row, times in there.items() if times > 1] == []
    # Each of them by the service: that nothing was lost is no luck.
    assert commits(maker) - before >= len(acknowledged) - 1


@pytest.mark.parametrize("form", TABLES)
def test_a_driver_restarted_on_a_streaming_checkpoint_has_each_row_once(
    form: str, told: Told, maker: Driver, note: Note, tmp_path: Path
) -> None:
    table = f"{form}_stream"
    if form == "paimon":
        # A batch that it has committed, and Spark has not noted, it writes again: here over the same keys.
        keyed = "tblproperties ('primary-key' = 'who,n', 'bucket' = '1')"
        maker.call("sql", query="create database if not exists paimon.db")
        maker.call("sql", query=f"create table paimon.db.{table} (who string, n int) {keyed}")
    maker.call("make", form=form, table=table)
    maker.call("append", form=form, table=table, who="maker", n=0)
    before = commits(maker)
    with Driver(told, tmp_path / "log") as victim, ThreadPoolExecutor(1) as pool:
        killed = pool.submit(victim.wait().call, "stream_into", form=form, table=table, batches=1000)
        while len(rows := maker.call("rows", form=form, table=table)) <= 30:
            assert not killed.done(), killed.exception()
            time.sleep(0.1)
        victim.signal(signal.SIGKILL)
        assert isinstance(killed.exception(), CallError)
    maker.call("stream_into", form=form, table=table, batches=3)
    there = sorted(n for who, n in maker.call("rows", form=form, table=table) if who == "stream")
    note(f"{len(rows) // 10} batches before, {len(there) // 10} in all")
    assert there == list(range(len(there)))
    assert len(there) >= len(rows) - 1 + 30
    assert commits(maker) - before >= len(there) // 10
