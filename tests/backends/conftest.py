"""What a module of tests has one of: the fault stub, empty for each test; a DynamoDB, and its credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.backends.dynamodb_servers import credentials_of_the_lab, moto_one_at_a_time
from tests.servers import chosen
from tests.stub import FaultStub

if TYPE_CHECKING:
    from collections.abc import Iterator

collect_ignore = [
    module
    for name, module in {
        "postgresql": "test_postgres_server.py",
        "zookeeper": "test_zookeeper_server.py",
    }.items()
    if name not in chosen()
]


@pytest.fixture(scope="module")
def running() -> Iterator[FaultStub]:
    with FaultStub() as stub:
        yield stub


@pytest.fixture
def stub(running: FaultStub) -> FaultStub:
    running.reset()
    return running


@pytest.fixture(scope="module")
def credentials() -> Iterator[None]:
    with credentials_of_the_lab():
        yield


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with moto_one_at_a_time() as proxy:
        yield proxy.endpoint
