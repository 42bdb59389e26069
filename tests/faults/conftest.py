"""The stores and registries of these tests. In the default run they are what PyPI gives in seconds."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.backends.dynamodb_servers import one_at_a_time
from tests.fault_proxy import FaultProxy
from tests.faults.arbiters import Place
from tests.servers import SERVERS, BucketServer, Valkey, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import Moto
    from tests.stub import FaultStub


@pytest.fixture(scope="session")
def bucket_server() -> Iterator[BucketServer]:
    started = SERVERS["localbucket"]()
    assert isinstance(started, BucketServer)
    with started:
        yield started


@pytest.fixture
def disk(tmp_path: Path) -> Place:
    return Place("file", {}, str(tmp_path))


@pytest.fixture
def bucket(bucket_server: BucketServer) -> Place:
    return Place("s3", bucket_server.storage_options, f"{bucket_server.new_bucket()}/t")


@pytest.fixture
def ignoring(liar: FaultStub) -> Place:
    """A store that ignores conditions."""
    return Place("s3", liar.storage_options("s3"), f"bucket/{uuid.uuid4().hex}")


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    with Valkey() as running:
        yield running


@pytest.fixture(scope="session")
def moto(credentials: None, moto: Moto) -> Iterator[FaultProxy]:
    with one_at_a_time(moto) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def dynamodb(credentials: None) -> Iterator[FaultProxy]:
    with server("dynamodb-local") as running, FaultProxy(running.endpoint, speech="dynamodb") as proxy:
        yield proxy
