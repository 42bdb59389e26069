"""The wire counts what clients send, whoever sends it, and changes none of it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
import pytest
from obstore.store import S3Store

from bench.wire import Wire
from tests.servers import Valkey
from tests.stub import FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = {
    Op.PUT: "PUT",
    Op.GET: "GET",
    Op.HEAD: "HEAD",
    Op.LIST: "LIST",
    Op.COPY: "COPY",
    Op.DELETE_MANY: "POST",
}


@pytest.fixture
def stub() -> Iterator[FaultStub]:
    with FaultStub() as running:
        yield running


def bucket(address: str) -> S3Store:
    return S3Store(
        "bucket",
        endpoint=f"http://{address}",
        region="us-east-1",
        access_key_id="key",
        secret_access_key="secret",
        client_options={"allow_http": True},
    )


def test_what_the_wire_counts_is_what_the_store_has_received(stub: FaultStub) -> None:
    body = b"x" * 300_000
    with Wire({"store": (urlsplit(stub.url("s3")).netloc, "http")}) as wire:
        store = bucket(wire.at["store"])
        for number in range(3):
            obstore.put(store, f"d/{number}", body)
        assert obstore.get(store, "d/1").bytes() == body
        obstore.head(store, "d/2")
        obstore.copy(store, "d/0", "d/3")
        assert len(obstore.list(store, "d").collect()) == 4
        obstore.delete(store, ["d/0", "d/1"])
        counted = wire.counted()
        assert counted == {word: stub.ops.count(op) for op, word in WORDS.items()}
        assert wire.counted() == {}


def test_a_connection_s_first_words_are_no_request() -> None:
    with Valkey() as server, Wire({"redis": (server.address, "redis")}) as wire:
        host, _, port = wire.at["redis"].partition(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(b"*1\r\n$5\r\nHELLO\r\n")
            assert connection.recv(65536)
            connection.sendall(b"*1\r\n$4\r\nping\r\n")
            assert connection.recv(65536) == b"+PONG\r\n"
        assert wire.counted() == {"PING": 1}
