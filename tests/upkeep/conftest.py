"""The tables of these tests: on disk and in memory, by each arbiter beside the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fsspec_plugin.conftest import local, memory, s3
from tests.fsspec_plugin.grounds import decided_by

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground

__all__ = ["local", "memory", "s3"]

TABLES = ["local-ballot", "local-claims", "local-redis", "memory-ballot", "s3-ballot"]


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> Ground:
    kind, arbiter = request.param.split("-")
    found: Ground = request.getfixturevalue(kind)
    return decided_by(arbiter, found, request)


@pytest.fixture(params=["ballot", "claims"])
def disk(request: pytest.FixtureRequest, local: Ground) -> Ground:
    """Return a table on disk alone, where an arbiter's kind may matter."""
    return decided_by(request.param, local, request)
