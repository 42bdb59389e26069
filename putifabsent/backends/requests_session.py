"""A requests session that sends every request once, and what its failures say about the one it was sending.

``requests`` resends nothing by itself, nor does urllib3 with its retries off; a connection that the server
has closed meanwhile is replaced before anything is written to it. A test counts the requests on the wire.
"""

from __future__ import annotations

import errno
import io
import socket
import ssl
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.util.retry import Retry

from putifabsent.backends import base
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONNECTIONS = 256
_NOT_SENT = (ConnectTimeoutError, NewConnectionError, requests.ConnectTimeout)
_MALFORMED = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidHeader,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
    ssl.SSLCertVerificationError,
    UnicodeEncodeError,
)


# Networks forget idle connections, and say so to nobody: what goes over one then is answered by nobody.
_KEPT_ALIVE = [
    *HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, option), value)
        for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3))
        if hasattr(socket, option)
    ),
]


class _Adapter(HTTPAdapter):
    """Keeps connections alive, trusts also whom the system trusts, and sends a body in pieces.

    So does aiohttp, which the wrapped filesystems use: requests trusts a list of its own. And a socket has
    one time-out for all that it is given at once, on any line.
    """

    def init_poolmanager(self, *sizes: Any, **options: Any) -> None:
        self._trusted = ssl.create_default_context()
        self._trusted.load_verify_locations(requests.utils.DEFAULT_CA_BUNDLE_PATH)
        super().init_poolmanager(*sizes, **self._with(options))

    def proxy_manager_for(self, *proxy: Any, **options: Any) -> Any:
        return super().proxy_manager_for(*proxy, **self._with(options))

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        super().cert_verify(conn, url, verify, cert)
        if verify is True:
            conn.ca_certs = None  # which each connection would load into what all of them have

    def _with(self, options: dict[str, Any]) -> Any:
        return {"socket_options": _KEPT_ALIVE, "ssl_context": self._trusted, **options}

    def send(self, request: requests.PreparedRequest, *more: Any, **options: Any) -> requests.Response:
        # An empty file has no length, to requests, and would be sent as chunks.
        if isinstance(request.body, bytes) and request.body:
            request.body = io.BytesIO(request.body)
        return super().send(request, *more, **options)


def session() -> requests.Session:
    """Return a session for any number of threads, without retries of its own."""
    made = requests.Session()
    once = Retry(total=False, redirect=False, raise_on_status=False)
    adapter = _Adapter(pool_maxsize=_CONNECTIONS, max_retries=once)
    for scheme in ("http://", "https://"):
        made.mount(scheme, adapter)
    return made


def unanswered(
    error: BaseException, name: str, failures: tuple[type[Exception], ...]
) -> base.TryAgain | base.Refused | base.Maybe:
    """Say what a request without an answer means for a creation; ``failures`` are those of the client.

    Anything unforeseen is raised again: a protocol takes that for unknown, too, and shows it.
    """
    links = list(_links(error))
    if any(isinstance(link, _MALFORMED) for link in links):
        return base.refused(errno.EINVAL, f"it can't be sent: {error}", name, error)
    if isinstance(error, failures):
        # Nobody took the connection: no byte of it has left.
        is_unsent = any(isinstance(link, _NOT_SENT) for link in links)
        return base.TryAgain(error) if is_unsent else base.Maybe(error)
    if isinstance(error, (ConfigError, OSError)):
        # Before anything was sent: no object can be so, or have the name, or the body can't be read.
        return base.Refused(error)
    raise error


def _links(error: BaseException) -> Iterator[BaseException]:
    """Go through what the layers below have wrapped: each keeps the error of the next in its own way."""
    waiting: list[Any] = [error]
    seen: set[int] = set()
    while waiting:
        link = waiting.pop()
        if not isinstance(link, BaseException) or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [link.__cause__, getattr(link, "reason", None), getattr(link, "inner_exception", None)]
        waiting += link.args
