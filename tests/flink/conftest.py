"""What tests of Flink share: a store, services at addresses, a cluster, a program that submits to it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.fault_proxy import FaultProxy
from tests.flink.cluster import Cluster, Release, guarding, mounts
from tests.flink.programs import Program
from tests.servers import VersityGW
from tests.service.processes import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.flink import FlinkSettings
    from tests.servers import BucketServer

RELEASES = ["flink120"] if os.environ.get("SHORT") else ["flink120", "flink21"]


@pytest.fixture(scope="session")
def store() -> Iterator[BucketServer]:
    """Run a real S3 server."""
    with VersityGW() as store:
        yield store


@pytest.fixture(scope="session")
def bucket(store: BucketServer) -> str:
    """Return the bucket that all jobs have their tables in."""
    return store.new_bucket()


@pytest.fixture(scope="session")
def services(store: BucketServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Run two services, either of which a job may ask; return their addresses."""
    log = tmp_path_factory.mktemp("services") / "log"
    with log.open("wb") as output, ExitStack() as stack:
        yield [stack.enter_context(serving(mounts(store), log=output))[1] for _ in range(2)]


@pytest.fixture(scope="session")
def proxies(services: list[str]) -> Iterator[list[FaultProxy]]:
    """Run a proxy before each service, by which its answers can be lost."""
    with ExitStack() as stack:
        yield [stack.enter_context(FaultProxy(each, speech="files")) for each in services]


@pytest.fixture(scope="session")
def told(store: BucketServer, proxies: list[FaultProxy]) -> FlinkSettings:
    """Return what guards two schemes of the store; a third leads there past the guard."""
    return guarding(store, *(each.endpoint for each in proxies))


@pytest.fixture(scope="session", params=RELEASES)
def release(request: pytest.FixtureRequest) -> Release:
    """Return each release in turn."""
    return Release.of(request.param)


@pytest.fixture(scope="session")
def cluster(
    release: Release, told: FlinkSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Run a job manager and two task managers."""
    with Cluster(release, tmp_path_factory.mktemp("flink"), told) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def program(cluster: Cluster) -> Iterator[Program]:
    """Run a program that submits jobs."""
    with Program(cluster, cluster.folder / "program.log") as program:
        yield program
