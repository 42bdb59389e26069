"""A fast stub of S3, in a process of its own: it keeps no rules, so that it costs next to nothing.

It answers every PUT with 200, counts what it receives, and throws the bytes away. What it alone can do is
printed beside every figure that was measured against it.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["StubServer"]

_PUT = b'HTTP/1.1 200 OK\r\nETag: "0"\r\nContent-Length: 0\r\n\r\n'
_HEAD = (
    b'HTTP/1.1 200 OK\r\nETag: "0"\r\nContent-Length: 1024\r\nContent-Type: binary/octet-stream\r\n'
    b"Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n\r\n"
)
_CREATE_UPLOAD = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
_COMPLETE = b'<CompleteMultipartUploadResult><ETag>"0"</ETag></CompleteMultipartUploadResult>'
_LISTING = (
    b"<ListBucketResult><Name>bench</Name><IsTruncated>false</IsTruncated><KeyCount>100</KeyCount>"
    + b"".join(
        b"<Contents><Key>ls/%d</Key><LastModified>2022-01-01T00:00:00Z</LastModified>"
        b'<ETag>"0"</ETag><Size>1024</Size><StorageClass>STANDARD</StorageClass></Contents>' % i
        for i in range(100)
    )
    + b"</ListBucketResult>"
)


def _xml(body: bytes) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )


class _Connection(asyncio.Protocol):
    counts: dict[str, int] = {}  # noqa: RUF012 - one server, one count

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._head = b""
        self._left = 0
        self._answer = b""

    def data_received(self, data: bytes) -> None:
        while data:
            if self._left:
                taken = min(self._left, len(data))
                self._left -= taken
                data = data[taken:]
                if not self._left:
                    self._transport.write(self._answer)  # type: ignore[attr-defined]
                continue
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head, data, self._head = self._head[:end], self._head[end + 4 :], b""
            self._begin(head)

    def _begin(self, head: bytes) -> None:
        line, _, fields = head.partition(b"\r\n")
        method, target, _ = line.split(b" ", 2)
        lowered = fields.lower()
        at = lowered.find(b"content-length:")
        length = int(lowered[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        self._answer = self._reply(method, target)
        if b"expect: 100-continue" in lowered:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # type: ignore[attr-defined]
        if length:
            self._left = length
        else:
            self._transport.write(self._answer)  # type: ignore[attr-defined]

    def _reply(self, method: bytes, target: bytes) -> bytes:
        if target == b"/counts":
            answer = json.dumps(self.counts).encode()
            self.counts.clear()
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer
        path, _, query = target.partition(b"?")
        kind = method.decode()
        if method == b"POST":
            kind = "COMPLETE" if b"uploadId=" in query else "CREATE_UPLOAD"
        elif b"partNumber=" in query:
            kind = "PART"
        elif method == b"GET" and b"list-type=" in query:
            kind = "LIST"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind == "LIST":
            return _xml(_LISTING)
        if kind == "CREATE_UPLOAD":
            return _xml(_CREATE_UPLOAD)
        if kind == "COMPLETE":
            return _xml(_COMPLETE)
        if kind == "HEAD":
            return _HEAD
        if kind == "GET":
            return _HEAD + b"x" * 1024
        if kind == "DELETE":
            return b"HTTP/1.1 204 No Content\r\n\r\n"
        return _PUT


def _serve(pipe: Connection) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        parent = os.getppid()
        while os.getppid() == parent:
            await asyncio.sleep(1)

    asyncio.run(main())


class StubServer:
    """Runs the stub: ``with StubServer() as stub: ... stub.endpoint, stub.counts()``."""

    def __enter__(self) -> StubServer:
        """Start it."""
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there,), daemon=True)
        self._process.start()
        self.endpoint = f"http://127.0.0.1:{here.recv()}"
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.terminate()
        self._process.join()

    @property
    def storage_options(self) -> dict[str, object]:
        """s3fs's options for it."""
        return {
            "key": "bench",
            "secret": "bench-secret",
            "client_kwargs": {"endpoint_url": self.endpoint, "region_name": "us-east-1"},
        }

    def counts(self) -> dict[str, int]:
        """Return, and forget, how many requests of each kind have come in."""
        with urllib.request.urlopen(f"{self.endpoint}/counts") as answer:  # noqa: S310 - our own loopback
            counts: dict[str, int] = json.load(answer)
        return counts
