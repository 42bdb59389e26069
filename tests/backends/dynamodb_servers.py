"""What tests of claims in DynamoDB share: a table of their own on a server, alone or behind a proxy.

moto stands for the API's shape in the default tests, behind a proxy that lets one request in at a time, for
it decides nothing when two meet; DynamoDB Local, AWS's own, decides by itself.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.dynamodb import DynamoDBClaims
from putifabsent.backends.registry_urls import open_claims
from tests.servers import chosen, server
from tests.stub.dynamodb_proxy import DynamoDBProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stub.dynamodb_proxy import Trouble

REGION = "eu-west-1"
SERVERS = [
    "moto",
    *(pytest.param(name, marks=pytest.mark.servers) for name in chosen() if name == "dynamodb-local"),
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


@contextmanager
def moto_one_at_a_time() -> Iterator[DynamoDBProxy]:
    """Run moto, behind what lets one request in at a time."""
    with server("moto") as running, DynamoDBProxy(running.endpoint, one_at_a_time=True) as proxy:
        yield proxy


@contextmanager
def troubled(endpoint: str, table: str, trouble: Trouble) -> Iterator[DynamoDBClaims]:
    """The table, on a way on which every request goes wrong."""
    with DynamoDBProxy(endpoint) as proxy:
        proxy.always(trouble)
        yield claims_at(proxy.url, table)
