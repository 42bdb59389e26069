"""What tests of Spark's door share. What needs data sources in Python is left out where PySpark has none."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.servers import VersityGW
from tests.service.callers import SECRET
from tests.service.processes import serving
from tests.spark.applications import GUARD
from tests.spark.cluster import cluster
from tests.wheel import install

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers import BucketServer


def _has_data_sources() -> bool:
    return find_spec("pyspark") is not None and find_spec("pyspark.sql.datasource") is not None


# PySpark 3.5's Hadoop has a client for Azure that no server but Azure itself answers.
# Its clients want packages that the environment of 3.5 has not.
_NEWER = ["test_clouds.py", "test_connect.py", "test_source.py", "test_timeline_source.py"]
# In a short run one release of PySpark is enough to show that writers and runs can be tasks.
_LONG = ["test_simulate.py", "test_stress.py"] if os.environ.get("SHORT") else []
collect_ignore = [] if _has_data_sources() else [*_NEWER, *_LONG]


@pytest.fixture(scope="module")
def store() -> Iterator[BucketServer]:
    """Run a real S3 server, once a module."""
    with VersityGW() as store:
        yield store


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


@pytest.fixture(params=["local[2]", "cluster"])
def session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """Have a session of an experiment's, in this process and on a standalone cluster."""
    from putifabsent.lab.on_spark import SETTINGS, session_at

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    master = request.getfixturevalue("master") if request.param == "cluster" else request.param
    with session_at(master, "test", SETTINGS) as session:
        yield session


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment in which the package is installed, from its wheel."""
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def bucket(store: BucketServer) -> str:
    """Return a bucket of the module's own."""
    return store.new_bucket()
