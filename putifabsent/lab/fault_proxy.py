"""A proxy that loses answers, or requests: what stands behind it is real, and so are the lost connections."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FaultProxy"]

_CONTINUE = b"HTTP/1.1 100"
_CHUNK = 2**16
_BACKLOG = 1024


@dataclass
class _Exchange:
    """Of one connection: whether it waits for an answer, and whether that is to be lost."""

    waits: bool = False
    is_lost: bool = False


class FaultProxy:
    """Takes each request, has it applied or not, and now and then closes the connection instead of answering.

    It knows no more of HTTP than that an answer follows on a request: whatever comes from the client after an
    answer is the next one.

    Parameters
    ----------
    endpoint
        Where the real server is, ``http://HOST:PORT``.
    loses
        ``"answers"``: the request is applied, and the server has answered before the client sees the end.
        ``"requests"``: it gets no further than here.
    share
        Of how many requests, from 0 to 1. It may be set while the proxy runs.
    seed
        Which of them; None: others each time.
    host
        The address to listen at.

    Attributes
    ----------
    endpoint
        The proxy's own.
    requests
        How many have come.
    lost
        Of these, how many were lost or had a lost answer.
    """

    def __init__(
        self,
        endpoint: str,
        loses: Literal["answers", "requests"] = "answers",
        share: float = 1.0,
        seed: int | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        address = urlsplit(endpoint)
        if address.scheme != "http" or address.hostname is None:
            raise ConfigError(
                f"answers can be lost on the way from a plain http:// endpoint, not from {endpoint}"
            )
        self._upstream = (address.hostname, address.port or 80)
        self._loses = loses
        self._host = host
        self._random = random.Random(seed)  # noqa: S311 - which answers are lost is no secret
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._over = asyncio.Event()
        self.share = share
        self.endpoint = ""
        self.requests = 0
        self.lost = 0

    def __enter__(self) -> Self:
        self._listening = socket.create_server((self._host, 0), backlog=_BACKLOG)
        self.endpoint = f"http://{self._host}:{self._listening.getsockname()[1]}"
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._connected, sock=self._listening, limit=_CHUNK, backlog=_BACKLOG
        )
        await self._over.wait()
        server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for each in connections:
            each.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connected(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(to_client):
            server, to_server = await asyncio.open_connection(*self._upstream)
            with contextlib.closing(to_server):
                exchange = _Exchange()
                both = [
                    asyncio.create_task(self._request(exchange, client, to_server)),
                    asyncio.create_task(self._response(exchange, server, to_client)),
                ]
                # A connection has ended when one of its directions has.
                try:
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    # The proxy ends: whoever does not read must not keep the connection open.
                    to_client.transport.abort()
                    to_server.transport.abort()
                    raise
                for each in both:
                    each.cancel()
                await asyncio.gather(*both, return_exceptions=True)

    async def _request(
        self, exchange: _Exchange, client: asyncio.StreamReader, to_server: asyncio.StreamWriter
    ) -> None:
        while data := await client.read(_CHUNK):
            if not exchange.waits:
                self.requests += 1
                exchange.waits, exchange.is_lost = True, self._random.random() < self.share
                if exchange.is_lost and self._loses == "requests":
                    self.lost += 1
                    return
            to_server.write(data)
            await to_server.drain()

    async def _response(
        self, exchange: _Exchange, server: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        while data := await server.read(_CHUNK):
            if exchange.waits and not _is_interim(data):
                if exchange.is_lost:
                    self.lost += 1
                    return
                exchange.waits = False
            to_client.write(data)
            await to_client.drain()


def _is_interim(data: bytes) -> bool:
    """Whether this is a word to continue, and no answer behind it."""
    head, _, behind = data.partition(b"\r\n\r\n")
    return head.startswith(_CONTINUE) and not behind
