"""A fast stub of S3, in a process of its own: it keeps no rules, so that it costs next to nothing.

It answers every PUT with 200, knows nothing below ``new/``, lists ``ls/`` alone, counts what it receives, and
throws the bytes away. What it alone can do is printed beside every figure that was measured against it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import urllib.request
from functools import partial
from typing import TYPE_CHECKING, cast

from bench.apart import Apart

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["BODY", "StubServer"]

BODY = b"x" * 1024
"""What is put whole: the guard doubts an answer that has another tag."""

_TAG = f'"{hashlib.md5(BODY, usedforsecurity=False).hexdigest()}"'.encode()
_PUT = b"HTTP/1.1 200 OK\r\nETag: " + _TAG + b"\r\nContent-Length: 0\r\n\r\n"
_HEAD = (
    b"HTTP/1.1 200 OK\r\nETag: " + _TAG + b"\r\nContent-Length: 1024\r\n"
    b"Content-Type: binary/octet-stream\r\n"
    b"Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n\r\n"
)
_MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
_CREATE_UPLOAD = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
_COMPLETE = b"<CompleteMultipartUploadResult><ETag>" + _TAG + b"</ETag></CompleteMultipartUploadResult>"
_LISTING = (
    b"<ListBucketResult><Name>bench</Name><IsTruncated>false</IsTruncated><KeyCount>100</KeyCount>"
    + b"".join(
        b"<Contents><Key>ls/%d</Key><LastModified>2022-01-01T00:00:00Z</LastModified>"
        b"<ETag>%b</ETag><Size>1024</Size><StorageClass>STANDARD</StorageClass></Contents>" % (i, _TAG)
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

    def __init__(self, delay: float) -> None:
        self._delay = delay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
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
                    self._send(self._answer)
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
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if length:
            self._left = length
        else:
            self._send(self._answer)

    def _send(self, answer: bytes) -> None:
        if self._delay:
            asyncio.get_running_loop().call_later(self._delay, self._transport.write, answer)
        else:
            self._transport.write(answer)

    def _reply(self, method: bytes, target: bytes) -> bytes:
        if target == b"/counts":
            answer = json.dumps(self.counts).encode()
            self.counts.clear()
            return _xml(answer)
        kind = _kind(method, target)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind == "HEAD" and b"/new/" in target:
            return _MISSING
        if kind == "LIST" and b"prefix=ls" not in target:
            return _NOTHING_LISTED
        return _ANSWERS[kind]


_NOTHING_LISTED = _xml(
    b"<ListBucketResult><Name>bench</Name><IsTruncated>false</IsTruncated></ListBucketResult>"
)


def _kind(method: bytes, target: bytes) -> str:
    query = target.partition(b"?")[2]
    if method == b"POST":
        return "COMPLETE" if b"uploadId=" in query else "CREATE_UPLOAD"
    if b"partNumber=" in query:
        return "PART"
    if method == b"GET" and b"list-type=" in query:
        return "LIST"
    return method.decode()


_ANSWERS = {
    "PUT": _PUT,
    "PART": _PUT,
    "HEAD": _HEAD,
    "GET": _HEAD + b"x" * 1024,
    "LIST": _xml(_LISTING),
    "CREATE_UPLOAD": _xml(_CREATE_UPLOAD),
    "COMPLETE": _xml(_COMPLETE),
    "DELETE": b"HTTP/1.1 204 No Content\r\n\r\n",
}


def _serve(delay: float, pipe: Connection) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(
            partial(_Connection, delay), "127.0.0.1", 0, backlog=1024
        )
        pipe.send(server.sockets[0].getsockname()[1])
        # The pipe closes with the process that started this one.
        closed = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), closed.set)
        await closed.wait()
        server.close()

    asyncio.run(main())


class StubServer(Apart):
    """Runs the stub: ``with StubServer() as stub: ... stub.endpoint, stub.counts()``.

    It holds each answer up for ``delay`` seconds.
    """

    def __init__(self, delay: float = 0) -> None:
        super().__init__(_serve, delay)

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.said}"

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
