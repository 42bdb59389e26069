"""A service in this process, that answers for a folder of a disk, and sessions that call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.fsspec_plugin.grounds import Ground
from tests.fsspec_plugin.hudi_tables import table_in
from tests.service.callers import MANIFESTS, SECRET, Caller, answering
from tests.stub import FaultStub

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """Return a folder with a Delta log."""
    (tmp_path / "_delta_log").mkdir()
    return Ground("local", {}, str(tmp_path))


@pytest.fixture
def more() -> dict[str, Any]:
    """Return what the service is told beside its mounts."""
    return {}


@pytest.fixture
async def caller(ground: Ground, more: dict[str, Any]) -> AsyncIterator[Caller]:
    """Return a session."""
    mount = {"prefix": f"file:{ground.folder}", "options": {"guard": [MANIFESTS]}}
    settings = {"secret": SECRET, "mounts": [mount], **more}
    async with answering(settings) as url, Caller.at(url) as caller:
        yield caller


@pytest.fixture
async def unguarding(ground: Ground) -> AsyncIterator[Caller]:
    """Return a session of a service that guards its formats' names alone."""
    settings = {"secret": SECRET, "mounts": [{"prefix": f"file:{ground.folder}"}]}
    async with answering(settings) as url, Caller.at(url) as caller:
        yield caller


@pytest.fixture
async def other(caller: Caller) -> AsyncIterator[Caller]:
    """Return another session."""
    async with Caller.at(caller.url) as other:
        yield other


@pytest.fixture
def stub() -> Iterator[FaultStub]:
    """Run a store whose answers may be scripted."""
    with FaultStub() as running:
        yield running


@pytest.fixture
def root(ground: Ground) -> str:
    """Make a Hudi table."""
    return table_in(ground)
