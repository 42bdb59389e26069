"""The three stores that the guarded filesystem is tested on, and the stub that counts requests."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.fsspec_plugin import tower
from tests.fsspec_plugin.grounds import GROUNDS, Ground, ground_of
from tests.fsspec_plugin.hudi_tables import Writer, table_in
from tests.fsspec_plugin.tower_drivers import Clock, Driver
from tests.stub import FaultStub
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.lab.servers import LocalBucket


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs another client than s3fs, or a registry."""
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        params = getattr(getattr(item, "callspec", None), "params", {})
        wanted = {params.get("cloud"), str(params.get("ground")).partition("-")[2], params.get("counted")}
        wanted.add(params.get("arbiter"))
        wanted |= set(getattr(item, "fixturenames", ())) & {"gcs", "registry", "lock"}
        if wanted & {"gcs", "azure", "claims", "dynamodb", "registry", "redis", "lock"}:
            item.add_marker("clouds")


def memory_ground() -> Iterator[Ground]:
    ground = Ground("memory", {}, f"/{uuid.uuid4().hex}")
    yield ground
    if ground.around.exists(ground.folder):
        ground.around.rm(ground.folder, recursive=True)


def local_ground(folder: Path) -> Ground:
    (folder / "_delta_log").mkdir()
    return Ground("local", {}, str(folder))


def s3_ground(server: LocalBucket) -> Ground:
    return Ground("s3", server.storage_options, f"{server.bucket}/{uuid.uuid4().hex}")


@pytest.fixture
def memory() -> Iterator[Ground]:
    yield from memory_ground()


@pytest.fixture
def local(tmp_path: Path) -> Ground:
    return local_ground(tmp_path)


@pytest.fixture
def s3(localbucket: LocalBucket) -> Ground:
    return s3_ground(localbucket)


@pytest.fixture(params=GROUNDS)
def ground(request: pytest.FixtureRequest) -> Ground:
    return ground_of(request)


@pytest.fixture
def root(ground: Ground) -> str:
    """Make a Hudi table."""
    return table_in(ground)


@pytest.fixture
def salt() -> str:
    """Give the option that the writers of the table have."""
    return "off"


@pytest.fixture
def a(ground: Ground, root: str, salt: str) -> Writer:
    """Give a writer of the table, in a session of its own."""
    return Writer(ground.mount(writer_session="a", salt=salt), root)


@pytest.fixture
def b(ground: Ground, root: str, salt: str) -> Writer:
    """Give another."""
    return Writer(ground.mount(writer_session="b", salt=salt), root)


@pytest.fixture
def reader(ground: Ground, root: str, salt: str) -> Writer:
    """Give one that only reads."""
    return Writer(ground.mount(writer_session="reader", salt=salt), root)


@pytest.fixture(scope="session")
def shared_stub() -> Iterator[FaultStub]:
    with FaultStub() as running:
        vouch(running.url("s3"), bucket="bucket")
        yield running


@pytest.fixture
def stub(shared_stub: FaultStub) -> Iterator[FaultStub]:
    """Give the stub, empty, with nothing scripted; late answers of a test don't outlive it."""
    shared_stub.reset()
    yield shared_stub
    shared_stub.release()


@pytest.fixture
def on_stub(stub: FaultStub) -> Any:
    """Return a guarded S3 filesystem on the stub; options may be added."""

    def mount(**options: Any) -> Any:
        return fsspec.filesystem("pias3", **{"arbiter": "native", **stub.storage_options("s3"), **options})

    return mount


@pytest.fixture
def nobody_rests(monkeypatch: pytest.MonkeyPatch) -> float:
    """Have each ask looked at, as if time had gone on; for how long some rest otherwise."""
    longest = tower._LONGEST_REST
    monkeypatch.setattr(tower, "_LONGEST_REST", 0)
    return longest


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def drivers(ground: Ground, root: str, clock: Clock, nobody_rests: float) -> list[Driver]:
    """Give three drivers of a table, whose asks are each looked at."""
    del nobody_rests
    ground.around.makedirs(f"{root}/.hoodie/.heartbeat", exist_ok=True)
    return [Driver(ground, root, session, clock) for session in "abc"]
