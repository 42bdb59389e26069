"""A guarded create is one request, as it is by the clients that it is measured beside."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bench.create import CONCURRENT, clients, concurrent, interleaved, own, reads, requests_on_the_wire
from bench.stub_server import StubServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def stub() -> Iterator[StubServer]:
    with StubServer() as stub:
        yield stub


def test_a_create_is_one_request_by_each_client(stub: StubServer) -> None:
    found = requests_on_the_wire(stub)
    assert found == {client: {"PUT": 1} for client in found}


def test_many_creates_at_a_time_are_one_request_each(stub: StubServer) -> None:
    asyncio.run(concurrent(stub, CONCURRENT, lambda: None))
    rounds = 1 + 7  # the first one warms up
    assert stub.counts()["PUT"] == 3 * rounds * CONCURRENT


def test_each_client_and_read_is_measured(stub: StubServer) -> None:
    assert all(median > 0 for median in interleaved(clients(stub), 1, lambda: None).values())
    assert all(min(pair) > 0 for pair in reads(stub, 1, lambda: None).values())


def test_what_is_our_own_asks_no_server(stub: StubServer) -> None:
    stub.counts()
    own(stub, 3)
    assert stub.counts()["PUT"] == 2
