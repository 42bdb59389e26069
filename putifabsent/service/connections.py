"""Connections: who has not shown the secret has a place for seconds, makes way for others, and is in no log.

A stranger costs a file descriptor, so there are never more than :data:`STRANGERS` of them. Of the peer that
has the most, the oldest goes when another comes: who means it has sent its request by then, and whoever
floods the service from one place pushes out nobody else. There must be room for all who come at once, since
thousands of connections are accepted before the first request of them is read. A connection that has shown
the secret is closed when it has been idle for long.
"""

from __future__ import annotations

import asyncio
import resource
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SECONDS", "STRANGERS", "Connection", "Strangers", "more_descriptors"]

STRANGERS = 4096
"""So many connections at most that have not shown the secret, and half of the files that may be open."""

SECONDS = 10.0
"""So long one has for that."""

IDLE_SECONDS = 1260.0
"""So long a connection may be without a request: longer than callers keep theirs, Java 17's for 1200 s.

What one sends just when its connection is closed has an answer that is lost.
"""

_LINGERING_SECONDS = 1.0
"""So long a refused caller may go on sending, to hear why."""


class Strangers:
    """The connections that have not shown the secret yet, by their peers, the oldest first."""

    def __init__(self) -> None:
        self._most = min(STRANGERS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._by_peer: dict[str, dict[Connection, asyncio.TimerHandle]] = {}
        self._count = 0

    def add(self, connection: Connection) -> None:
        """Give it a place, for so long; the oldest of whichever peer has the most makes way."""
        if self._count >= self._most:
            most = max(self._by_peer.values(), key=len)
            next(iter(most)).drop()
        timer = asyncio.get_running_loop().call_later(SECONDS, connection.drop)
        self._by_peer.setdefault(connection.peer, {})[connection] = timer
        self._count += 1

    def remove(self, connection: Connection) -> None:
        """It is a stranger no more, or gone."""
        of_peer = self._by_peer.get(connection.peer, {})
        timer = of_peer.pop(connection, None)
        if timer is None:
            return
        timer.cancel()
        self._count -= 1
        if not of_peer:
            del self._by_peer[connection.peer]


class Connection(web.RequestHandler):
    """One connection."""

    __slots__ = ("_strangers", "peer")

    def __init__(self, server: web.Server, strangers: Strangers) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=cast("Any", None),  # addresses hold names, and tokens
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=_LINGERING_SECONDS,
        )
        self._strangers = strangers
        self.peer = ""

    @classmethod
    def factory(cls, server: web.Server) -> Callable[[], Connection]:
        """Return what makes a connection for each that is accepted."""
        strangers = Strangers()
        return lambda: cls(server, strangers)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin as a stranger."""
        super().connection_made(transport)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if name else ""
        self._strangers.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End."""
        self._strangers.remove(self)
        super().connection_lost(exc)

    def known(self) -> None:
        """It has shown the secret."""
        self._strangers.remove(self)

    def drop(self) -> None:
        """Close it at once, whatever is still to be sent."""
        self._strangers.remove(self)
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no request. What was sent is neither repeated nor logged: it may be the secret."""
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            return super().handle_error(request, status, exc, message)
        if request.writer.output_size > 0:
            msg = "an answer has been sent in part"
            raise ConnectionError(msg)
        answer = web.json_response(
            {"error": "request", "message": "this is no request of HTTP/1.1"}, status=status
        )
        answer.force_close()
        return answer


def more_descriptors() -> None:
    """Allow this process as many files as its machine lets it: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
