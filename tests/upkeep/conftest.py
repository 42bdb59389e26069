"""The tables of these tests: on disk and in memory, by each arbiter beside the store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fsspec_plugin.conftest import local, memory, s3

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground

__all__ = ["local", "memory", "s3"]

TABLES = ["local-ballot", "local-claims", "local-redis", "memory-ballot", "s3-ballot"]


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> Ground:
    kind, arbiter = request.param.split("-")
    found: Ground = request.getfixturevalue(kind)
    address = {"claims": "registry", "redis": "lock"}.get(arbiter)
    return replace(found, arbiter=request.getfixturevalue(address) if address else arbiter)


@pytest.fixture(params=["ballot", "claims"])
def disk(request: pytest.FixtureRequest, local: Ground) -> Ground:
    """Return a table on disk alone, where an arbiter's kind may matter."""
    return replace(
        local, arbiter="ballot" if request.param == "ballot" else request.getfixturevalue("registry")
    )
