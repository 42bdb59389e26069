"""The stores and registries of these tests. In the default run they are what PyPI gives in seconds."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.backends.dynamodb_servers import REGION, new_table
from tests.faults.arbiters import Place, claims_at
from tests.servers import SERVERS, BucketServer, Valkey, server
from tests.stub import FaultStub
from tests.stub.dynamodb_proxy import DynamoDBProxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def bucket_server() -> Iterator[BucketServer]:
    started = SERVERS["localbucket"]()
    assert isinstance(started, BucketServer)
    with started:
        yield started


@pytest.fixture(scope="session")
def liar() -> Iterator[FaultStub]:
    with FaultStub(conditions="ignored") as stub:
        yield stub


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
def credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "lab")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "lab-secret")
        patch.setenv("AWS_CONFIG_FILE", "/dev/null")
        yield


@pytest.fixture(scope="session")
def moto(credentials: None) -> Iterator[DynamoDBProxy]:
    # It decides nothing when two requests meet, so they come in one at a time.
    with server("moto") as running, DynamoDBProxy(running.endpoint, one_at_a_time=True) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def dynamodb(credentials: None) -> Iterator[DynamoDBProxy]:
    with server("dynamodb-local") as running, DynamoDBProxy(running.endpoint) as proxy:
        yield proxy


def registry_at(proxy: DynamoDBProxy) -> str:
    """Make a registry, and return its URL."""
    url = f"dynamodb://{new_table()}?region={REGION}&endpoint_url={proxy.url}"
    claims_at(url).init()
    return url
