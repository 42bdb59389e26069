"""What modules of tests share: the fault stub, empty for each test; a DynamoDB; a bare machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.backends.dynamodb_servers import credentials_of_the_lab, one_at_a_time
from tests.backends.metadata_servers import metadata_server
from tests.servers import chosen
from tests.stub import FaultStub

# Its assertions say what they have compared, as those of a test's own module do.
pytest.register_assert_rewrite("tests.backends.on_stub")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.backends.metadata_servers import FakeMetadata
    from tests.servers import Moto

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
    from tests.backends.on_stub import PAGE

    with FaultStub(largest_page=PAGE) as stub:
        yield stub


@pytest.fixture
def stub(running: FaultStub) -> FaultStub:
    running.reset()
    return running


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have a machine on which nothing of AWS is configured, and nobody to ask for credentials."""
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
def metadata() -> Iterator[FakeMetadata]:
    """Run a fake that tells a cloud's machine who it is."""
    with metadata_server() as fake:
        yield fake


@pytest.fixture(scope="module")
def credentials() -> Iterator[None]:
    with credentials_of_the_lab():
        yield


@pytest.fixture(scope="module")
def in_turn(moto: Moto) -> Iterator[str]:
    with one_at_a_time(moto) as proxy:
        yield proxy.endpoint
