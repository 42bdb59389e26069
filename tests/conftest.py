"""What tests of several rooms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from putifabsent.lab.servers import LocalBucket

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def localbucket() -> Iterator[LocalBucket]:
    """Run a real S3 server, once a test process."""
    with LocalBucket() as server:
        yield server
