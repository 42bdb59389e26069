"""What tests of Spark's door share. What needs data sources in Python is left out where PySpark has none."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.servers import VersityGW
from tests.service.callers import SECRET
from tests.service.processes import serving
from tests.spark.applications import GUARD
from tests.spark.cluster import cluster
from tests.spark.drivers import SHORT, Driver, driving, told_on
from tests.wheel import install

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers import BucketServer


def _has_data_sources() -> bool:
    return find_spec("pyspark") is not None and find_spec("pyspark.sql.datasource") is not None


# PySpark 3.5's Hadoop has a client for Azure that no server but Azure itself answers.
# Of Spark Connect on 3.5 there are the cells of test_formats_deployed.py.
_NEWER = ["test_clouds.py", "test_connect.py", "test_source.py", "test_timeline_source.py"]
# In a short run one release of PySpark shows that writers, runs and inspections can be tasks, and how
# local files are mounted.
_LONG = ["test_inspect.py", "test_mount_local.py", "test_simulate.py", "test_stress.py"] if SHORT else []
collect_ignore = [] if _has_data_sources() else [*_NEWER, *_LONG]


@pytest.fixture(scope="session")
def store() -> Iterator[BucketServer]:
    """Run a real S3 server."""
    with VersityGW() as store:
        yield store


@pytest.fixture(scope="session")
def bucket(store: BucketServer) -> str:
    """Return the bucket that all drivers have their tables in, each test its own."""
    return store.new_bucket()


@pytest.fixture(scope="session")
def pair(
    store: BucketServer, bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Driver]]:
    """Start two guarded drivers: what one has written once, it writes again in a tenth of the time."""
    told = told_on(store, bucket, guarded=True).strictly()
    with driving([told, told], tmp_path_factory.mktemp("pair")) as drivers:
        yield drivers


@pytest.fixture(scope="session")
def reader(store: BucketServer, bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Start a driver that knows nothing of the shim."""
    log = tmp_path_factory.mktemp("reader") / "log"
    with Driver(told_on(store, bucket, guarded=False), log) as driver:
        yield driver.wait()


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a standalone cluster of two workers, once a module."""
    with cluster(2, tmp_path_factory.mktemp("workers")) as master:
        yield master


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Run a service that several applications ask, and that they know the secret of."""
    told = {"secret": SECRET, "mounts": [{"prefix": "file:", "options": GUARD}]}
    with serving(told) as (_, address), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUTIFABSENT_SERVICE_SECRET", SECRET)
        yield address


@pytest.fixture(params=["local[2]", *([] if SHORT else ["cluster"])])
def session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """Have a session of an experiment's, in this process and on a standalone cluster."""
    from putifabsent.cli.arguments import session_at
    from putifabsent.lab.stress.running import SETTINGS

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    master = request.getfixturevalue("master") if request.param == "cluster" else request.param
    with session_at(master, "test", SETTINGS) as session:
        yield session


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment in which the package is installed, from its wheel."""
    return install(tmp_path_factory.mktemp("installed"))
