"""The fault stub, one for each module of tests, empty for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.stub import FaultStub

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def running() -> Iterator[FaultStub]:
    with FaultStub() as stub:
        yield stub


@pytest.fixture
def stub(running: FaultStub) -> FaultStub:
    running.reset()
    return running
