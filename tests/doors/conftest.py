"""The stores that libraries are tested on: those of the guarded filesystem's own tests, and pypaimon's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.lab.servers import LocalBucket
from tests.fsspec_plugin.conftest import ground, local, memory, s3
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["ground", "local", "local_options", "memory", "s3"]


@pytest.fixture(scope="module")
def server() -> Iterator[LocalBucket]:
    with LocalBucket() as running:
        yield running


@pytest.fixture(params=["local by auto", "s3 by auto", "s3 by ballot"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path, server: LocalBucket) -> dict[str, Any]:
    kind, _, arbiter = request.param.partition(" by ")
    if kind == "local":
        return {**local_options(tmp_path), "putifabsent.arbiter": arbiter}
    bucket = server.new_bucket()
    vouch(server.endpoint, bucket=bucket)
    return {
        "metastore": "putifabsent",
        "putifabsent.arbiter": arbiter,
        "warehouse": f"s3://{bucket}/warehouse",
        "s3.endpoint": server.endpoint,
        "s3.access-key": "lab",
        "s3.secret-key": "lab-secret",
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
    }


@pytest.fixture
def here(tmp_path: Path) -> dict[str, Any]:
    return local_options(tmp_path)


def local_options(folder: Path) -> dict[str, Any]:
    """Return what pypaimon wants to hear of a warehouse on disk."""
    return {"metastore": "putifabsent", "warehouse": str(folder / "warehouse")}
