"""Connections: who has not shown the secret has a place for seconds, makes way for others, and is in no log.

A stranger costs a file descriptor, so there are never more than :data:`STRANGERS` of them. Of the peer that
has the most, the oldest goes when another comes: who means it has sent its request by then, and whoever
floods the service from one place pushes out nobody else. There must be room for all who come at once, since
thousands of connections are accepted before the first request of them is read. A stranger sends one request:
of the next, aiohttp would keep a megabyte before its head ends. A connection that has shown the secret is
closed when it has been idle for long.
"""

from __future__ import annotations

import asyncio
import logging
import re
import resource
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

STRANGERS = 4096
"""So many connections at most that have not shown the secret, and half of the files that may be open."""

SECONDS = 10.0  # so long one has for that
IDLE_SECONDS = 1260.0
"""So long a connection may be without a request: longer than callers keep theirs, Java 17's for 1200 s.

What one sends just when its connection is closed has an answer that is lost.
"""

_LINGERING_SECONDS = 1.0  # so long a refused caller may go on sending, to hear why
_END, _BEGIN = b"\r\n\r\n", re.compile(rb"[A-Z]{0,16}(?: |\Z)")
"""How the head of a request ends, and begins, as far as it has come."""
_LONGEST_HEAD = 16_384  # twice a line that aiohttp takes: all strangers together keep 64 MiB


def _last(status: bytes, body: bytes) -> bytes:
    """Return the last answer on a connection."""
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


_NO_REQUEST = b'{"error": "request", "message": "this is no request of HTTP/1.1"}'
_REFUSED = _last(b"400 Bad Request", _NO_REQUEST)
_LEFT = _last(
    b"503 Service Unavailable", b'{"error": "busy", "message": "nothing was done: it is about to end"}'
)

_log = logging.getLogger(__name__)


class Certificate:
    """TLS by two files, which are read anew when they have changed; ``ConfigError``: they are of no use."""

    def __init__(self, certificate: Path, key: Path | None) -> None:
        self._files = (certificate, key)
        self._seen = self._stamps()
        try:
            self.context = self._read()
        except OSError as error:
            raise ConfigError(f"the certificate {certificate} can't be used: {error}") from error

    def renew(self) -> None:
        """Have later connections go by the files as they are; of no use, by what they were."""
        seen, self._seen = self._seen, self._stamps()
        if seen == self._seen:
            return
        try:
            self._read()  # a certificate that its key does not fit takes away the key that there was
            self.context.load_cert_chain(*self._files)
        except OSError as error:
            _log.warning("the certificate %s stays as it was: %s", self._files[0], error)

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self._files)
        return context

    def _stamps(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for each in filter(None, self._files):
            try:
                stat = each.stat()
            except OSError:
                found.append(())
            else:
                found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return found


class Strangers:
    """The connections that have not shown the secret yet, by their peers, the oldest first."""

    def __init__(self) -> None:
        self._most = min(STRANGERS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._by_peer: dict[str, dict[Stranger, asyncio.TimerHandle]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, stranger: Stranger) -> None:
        """Give it a place, for so long; the oldest of whichever peer has the most makes way."""
        if self._count >= self._most:
            most = max(self._by_peer.values(), key=len)
            next(iter(most)).drop()
        timer = asyncio.get_running_loop().call_later(SECONDS, stranger.drop)
        self._by_peer.setdefault(stranger.peer, {})[stranger] = timer
        self._count += 1

    def remove(self, stranger: Stranger) -> None:
        """It is a stranger no more, or gone."""
        of_peer = self._by_peer.get(stranger.peer, {})
        timer = of_peer.pop(stranger, None)
        if timer is None:
            return
        timer.cancel()
        self._count -= 1
        if not of_peer:
            del self._by_peer[stranger.peer]

    def drop(self) -> None:
        """Close them all."""
        for each in [each for of_peer in self._by_peer.values() for each in of_peer]:
            each.drop()


class Stranger(asyncio.Protocol):
    """A connection until it has sent the head of a request; then a :class:`Connection` has it.

    That costs a task, a parser and two hundred objects, which whoever sends no request is not worth.
    """

    __slots__ = ("_head", "_server", "_strangers", "_transport", "peer")

    def __init__(self, server: web.Server, strangers: Strangers) -> None:
        self._server, self._strangers = server, strangers
        self._head = b""
        self.peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place among strangers."""
        self._transport = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if name else ""
        self._strangers.add(self)

    def data_received(self, data: bytes) -> None:
        """Wait for a head, and refuse what can't become one."""
        self._head += data
        if _END in self._head:
            connection = Connection(self._server, self)
            self._transport.set_protocol(connection)
            connection.connection_made(self._transport)
            connection.data_received(self._head)
            self._head = b""
        elif len(self._head) > _LONGEST_HEAD or _BEGIN.match(self._head) is None:
            self._head = b""  # by TLS, the other side has a say in when the connection ends
            self._transport.write(_REFUSED)
            self._transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End."""
        del exc
        self.known()

    def known(self) -> None:
        """It has shown the secret, or is gone: others may have its place."""
        self._strangers.remove(self)

    def drop(self) -> None:
        """Close it at once, whatever is still to be sent."""
        self.known()
        self._transport.abort()


class Connection(web.RequestHandler):
    """A connection that has sent the head of a request."""

    __slots__ = ("was",)

    def __init__(self, server: web.Server, was: Stranger) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=cast("Any", None),  # addresses hold names, and tokens
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=_LINGERING_SECONDS,
        )
        self.was = was

    def connection_lost(self, exc: BaseException | None) -> None:
        """End."""
        self.was.known()
        super().connection_lost(exc)

    def leave(self) -> None:
        """Answer, if it is idle, a call that may be on its way: a service that is about to end begins none.

        To whoever has sent none it is the end of the connection.
        """
        if self._waiter is not None and not self._waiter.done() and self.transport is not None:
            self.transport.write(_LEFT)

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
            raise ConnectionError("an answer has been sent in part")
        answer = web.Response(body=_NO_REQUEST, status=status, content_type="application/json")
        answer.force_close()
        return answer


def more_descriptors() -> None:
    """Allow this process as many files as its machine lets it: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
