"""What tests of claims in DynamoDB share: a table of their own on a server, alone or behind a proxy.

moto stands for the API's shape in the default tests, behind a proxy that lets one request in at a time, for
it decides nothing when two meet; DynamoDB Local, AWS's own, decides by itself.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.dynamodb import DynamoDBClaims
from putifabsent.backends.registries import Counter
from putifabsent.backends.registry_urls import open_claims
from tests.fault_proxy import FaultProxy
from tests.servers import chosen, server
from tests.stub.dynamodb_faults import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import Server

REGION = "eu-west-1"
SERVERS = [
    "moto",
    *(pytest.param(name, marks=pytest.mark.servers) for name in chosen() if name == "dynamodb-local"),
]

TROUBLES = [
    (Trouble.DROPPED_AFTER, Trouble.DROPPED_BEFORE),
    (Trouble.ERROR_500_AFTER, Trouble.ERROR_500_BEFORE),
    (Trouble.NONSENSE_AFTER, Trouble.ERROR_503_BEFORE),
]


def new_table() -> str:
    return f"claims-{uuid.uuid4().hex[:12]}"


def claims_at(endpoint: str, table: str | None = None, *, timeout: float = 30) -> DynamoDBClaims:
    return DynamoDBClaims(table or new_table(), region=REGION, endpoint_url=endpoint, timeout=timeout)


def registry_at(endpoint: str) -> str:
    """Make a table there, and return its address."""
    url = f"dynamodb://{new_table()}?region={REGION}&endpoint_url={endpoint}"
    open_claims(url).init()
    return url


@contextmanager
def credentials_of_the_lab() -> Iterator[None]:
    """Let AWS's own chain find credentials, which no server here looks at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "lab")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "lab-secret")
        patch.setenv("AWS_CONFIG_FILE", "/dev/null")
        yield


def one_at_a_time(moto: Server) -> FaultProxy:
    """Stand before moto, and let one request in at a time."""
    return FaultProxy(moto.endpoint, one_at_a_time=True, speech="dynamodb")


class OnDynamoDB:
    """A conformance suite's registry, on a table of its own, made by ``init``; and on ways that go wrong."""

    def at(self, endpoint: str, table: str) -> Any:
        """Open it."""
        raise NotImplementedError

    @pytest.fixture(scope="class", params=SERVERS)
    def endpoint(self, request: pytest.FixtureRequest, in_turn: str) -> Iterator[str]:
        if request.param == "moto":
            yield in_turn
            return
        with server(request.param) as running:
            yield running.endpoint

    @pytest.fixture(scope="class")
    def table(self, endpoint: str) -> str:
        table = new_table()
        assert claims_at(endpoint, table).init()
        return table

    @pytest.fixture(params=TROUBLES, ids=lambda pair: pair[0].name)
    def troubles(self, request: pytest.FixtureRequest) -> tuple[Trouble, Trouble]:
        """Give what loses an answer, and what loses a request: no test asks how two of them go together."""
        pair: tuple[Trouble, Trouble] = request.param
        return pair

    @pytest.fixture
    def unanswered(self, troubles: tuple[Trouble, Trouble], endpoint: str, table: str) -> Iterator[Any]:
        yield from self._troubled(troubles[0], endpoint, table)

    @pytest.fixture
    def unheard(self, troubles: tuple[Trouble, Trouble], endpoint: str, table: str) -> Iterator[Any]:
        yield from self._troubled(troubles[1], endpoint, table)

    def _troubled(self, trouble: Trouble, endpoint: str, table: str) -> Iterator[Any]:
        with FaultProxy(endpoint, speech="dynamodb") as proxy:
            registry = self.at(proxy.endpoint, table)
            if isinstance(registry, Counter):
                registry.advance("another", 0)  # before the first step the table is looked at
            proxy.always(trouble)
            yield registry
