"""What tests of Spark's door share. What needs data sources in Python is left out where PySpark has none."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.servers import VersityGW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import BucketServer


def _has_data_sources() -> bool:
    return find_spec("pyspark") is not None and find_spec("pyspark.sql.datasource") is not None


# PySpark 3.5's Hadoop has a client for Azure that no server but Azure itself answers.
_NEWER = ["test_clouds.py", "test_source.py", "test_timeline_source.py"]
collect_ignore = [] if _has_data_sources() else _NEWER


@pytest.fixture(scope="module")
def store() -> Iterator[BucketServer]:
    """Run a real S3 server, once a module."""
    with VersityGW() as store:
        yield store


@pytest.fixture(scope="module")
def bucket(store: BucketServer) -> str:
    """Return a bucket of the module's own."""
    return store.new_bucket()
