"""What goes over the wire, counted: a relay before each server, all in one process of their own.

A relay reads what a client sends, counts each request once its head is there, waits, and passes it on. What
comes back it doesn't look at. So whatever a client sends is counted, whoever has sent it: a retry of some
layer below, a thread of its own, a connection's first words.

Whoever has the session token :data:`READING` may only read: what else it sends to S3 is refused here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import parse_qs

from bench.apart import Apart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from multiprocessing.connection import Connection

    Passing: TypeAlias = Callable[[asyncio.StreamReader, "_Onward"], Awaitable[None]]

__all__ = ["READING", "Speech", "Wire"]

READING = "reading"
"""A session token, of a client that may only read."""

Speech: TypeAlias = Literal["http", "redis"]
"""What a server is spoken to in."""

_HOST = "127.0.0.1"
_PIECE = 2**16
# What a client of Redis says once a connection, before anything is asked.
_GREETINGS = ("AUTH", "CLIENT", "HELLO", "SELECT")


class Wire(Apart):
    """The relays: ``with Wire({"store": ("127.0.0.1:9000", "http")}) as wire: ... wire.at["store"]``.

    Parameters
    ----------
    servers
        By name: the host and port of each, and what it is spoken to in.
    delay
        Seconds that each request waits before it is passed on, as on a way to a server that is not near.
    """

    def __init__(self, servers: Mapping[str, tuple[str, Speech]], *, delay: float = 0.0) -> None:
        super().__init__(_run, dict(servers), delay)

    @property
    def at(self) -> dict[str, str]:
        """By name: the host and port where clients find the server now."""
        at: dict[str, str] = self.said
        return at

    def counted(self) -> Counter[str]:
        """Return, and forget, how many requests of each kind have come."""
        counted: Counter[str] = self.ask(None)
        return counted


def _run(servers: dict[str, tuple[str, Speech]], delay: float, pipe: Connection) -> None:
    asyncio.run(_serve(servers, delay, pipe))


async def _serve(servers: dict[str, tuple[str, Speech]], delay: float, pipe: Connection) -> None:
    counts: Counter[str] = Counter()
    at = {}
    for name, (address, speech) in servers.items():
        relay = _Relay(address, _SPEECHES[speech], counts, delay)
        listening = await asyncio.start_server(relay.serve, _HOST, 0, backlog=1024)
        at[name] = f"{_HOST}:{listening.sockets[0].getsockname()[1]}"
    over = asyncio.Event()

    def asked() -> None:
        # The pipe closes with the process that started this one.
        try:
            pipe.recv()
            pipe.send(counts)
            counts.clear()
        except (EOFError, OSError):
            over.set()

    pipe.send(at)
    asyncio.get_running_loop().add_reader(pipe.fileno(), asked)
    await over.wait()


class _Relay:
    """One server's."""

    def __init__(self, address: str, passing: Passing, counts: Counter[str], delay: float) -> None:
        host, _, port = address.partition(":")
        self._server = (host, int(port))
        self._passing = passing
        self._counts = counts
        self._delay = delay

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what one client sends, until it or the server closes the connection."""
        # Cancelled at the end of the process, it would be reported as a failure.
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            answers, server = await asyncio.open_connection(*self._server)
            answering = asyncio.create_task(_pump(answers, writer))
            try:
                onward = _Onward(server, writer, self._counts, self._delay)
                while True:
                    await self._passing(reader, onward)
            finally:
                server.close()
                answering.cancel()
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
    writer.close()


class _Onward:
    """The way to a server, and back to the client."""

    def __init__(
        self, server: asyncio.StreamWriter, client: asyncio.StreamWriter, counts: Counter[str], delay: float
    ) -> None:
        self._server = server
        self._client = client
        self._counts = counts
        self._delay = delay

    async def request(self, kind: str | None, head: bytes) -> None:
        """Count a request, and pass on how it begins."""
        if kind is not None:
            self._counts[kind] += 1
            await asyncio.sleep(self._delay)
        self._server.write(head)

    def rest(self, piece: bytes) -> None:
        """Pass on more of it."""
        self._server.write(piece)

    async def refuse(self, kind: str) -> None:
        """Count a request, and answer that it is not allowed."""
        self._counts[kind] += 1
        body = b"<Error><Code>AccessDenied</Code><Message>It may only read.</Message></Error>"
        head = "HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nConnection: close\r\n"
        self._client.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await self._client.drain()


async def _http(reader: asyncio.StreamReader, onward: _Onward) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    if "transfer-encoding" in headers:
        raise NotImplementedError(f"a body of unknown length: {line}")
    left = int(headers.get("content-length", "0"))
    if headers.get("x-amz-security-token") == READING and line.partition(" ")[0] not in ("GET", "HEAD"):
        if "expect" not in headers:
            await reader.readexactly(left)
        await onward.refuse(_kind_of(line, headers))
        raise EOFError
    await onward.request(_kind_of(line, headers), head)
    # The client may wait for "100 Continue" before it sends this.
    while left:
        piece = await reader.read(min(left, _PIECE))
        if not piece:
            raise EOFError
        left -= len(piece)
        onward.rest(piece)


def _kind_of(line: str, headers: Mapping[str, str]) -> str:
    method, target, _ = line.split(" ")
    query = parse_qs(target.partition("?")[2], keep_blank_values=True)
    if "x-amz-target" in headers:
        return headers["x-amz-target"].partition(".")[2]
    if method == "GET" and "list-type" in query:
        return "LIST"
    return "COPY" if "x-amz-copy-source" in headers else method


async def _redis(reader: asyncio.StreamReader, onward: _Onward) -> None:
    raw = await reader.readuntil(b"\r\n")
    if raw[:1] != b"*":
        raise NotImplementedError(f"no command: {raw!r}")
    words = []
    for _ in range(int(raw[1:])):
        size = await reader.readuntil(b"\r\n")
        word = await reader.readexactly(int(size[1:]) + 2)
        words.append(word[:-2])
        raw += size + word
    command = words[0].decode().upper()
    await onward.request(None if command in _GREETINGS else command, raw)


_SPEECHES: dict[Speech, Passing] = {"http": _http, "redis": _redis}
