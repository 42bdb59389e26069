"""A proxy that loses answers: what is behind it is real, and so are the connections that it closes."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from typing_extensions import Self

CHUNK = 2**16
_BACKLOG = 1024


class LossyProxy:
    """Passes HTTP on, but for a ``share`` of the answers, from 0 to 1. ``with`` starts it, and ends it.

    In place of a lost answer the connection is closed: the server has got the request, and has answered.
    ``upstream`` is where it is: ``http://HOST:PORT/PATH``; ``host`` is where the proxy listens. The share may
    be set while it runs.

    ``address`` is the proxy's own host and port, ``endpoint`` what clients take, with the same path;
    ``received`` says how many requests have come, and ``lost`` how many answers were lost.
    """

    def __init__(
        self, upstream: str, *, share: float = 1.0, seed: int | None = None, host: str = "127.0.0.1"
    ) -> None:
        at = urlsplit(upstream)
        if at.scheme != "http" or at.hostname is None:
            raise ConfigError(
                f"answers can be lost on the way from a plain http:// endpoint, not from {upstream}"
            )
        self._upstream = (at.hostname, at.port or 80)
        self._path = at.path.rstrip("/")
        self._host = host
        self._random = random.Random(seed)  # noqa: S311 - which answers are lost is no secret
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="lossy-proxy", daemon=True)
        self._over = asyncio.Event()
        self.share = share
        self.address = ""
        self.endpoint = ""
        self.received = 0
        self.lost = 0

    def __enter__(self) -> Self:
        self._listening = socket.create_server((self._host, 0), backlog=_BACKLOG)
        self.address = f"{self._host}:{self._listening.getsockname()[1]}"
        self.endpoint = f"http://{self.address}{self._path}"
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
            self._connected, sock=self._listening, limit=CHUNK, backlog=_BACKLOG
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
                both = list(map(asyncio.create_task, self._pumps(client, to_client, server, to_server)))
                # A connection has ended when one of its directions has.
                try:
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    # The proxy ends: whoever does not read must not keep the connection open.
                    to_client.transport.abort()
                    to_server.transport.abort()
                    raise
                finally:
                    for each in both:
                        each.cancel()
                    await asyncio.gather(*both, return_exceptions=True)

    def _pumps(
        self,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None]]:
        """Return what passes on the requests of a connection, and what passes on its answers."""
        answered, is_lost = asyncio.Event(), False
        answered.set()

        async def ask() -> None:
            nonlocal is_lost
            while data := await client.read(CHUNK):
                # Whatever comes before an answer is more of the same request.
                if answered.is_set():
                    answered.clear()
                    is_lost = self._random.random() < self.share
                    self.received += 1
                    self.lost += is_lost
                to_server.write(data)
                await to_server.drain()
            # What the server has is answered, although its client is gone.
            await answered.wait()

        async def answer() -> None:
            while data := await server.read(CHUNK):
                if not (answered.is_set() or is_interim(data)):
                    if is_lost:
                        return
                    answered.set()
                to_client.write(data)
                await to_client.drain()

        return ask(), answer()


def is_interim(data: bytes) -> bool:
    """Whether what an HTTP server has sent is "100 Continue", and no answer behind it."""
    head, _, behind = data.partition(b"\r\n\r\n")
    return head.startswith(b"HTTP/1.1 100") and not behind
