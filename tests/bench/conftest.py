"""The servers of the bench, on loopback, with no delay; moto stands for DynamoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.arbiter_servers import Far, far
from tests.fault_proxy import FaultProxy
from tests.servers import server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def there() -> Iterator[Far]:
    with (
        server("moto") as running,
        FaultProxy(running.endpoint, one_at_a_time=True) as proxy,
        # A thousand names take seconds to make and to read.
        far(proxy.endpoint, largest_page=100) as servers,
    ):
        yield servers
