"""An HTTP server that gives prepared answers, one a request, and keeps what it was asked."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Self


class Reply(NamedTuple):
    """What is answered; a status of 0 closes the connection without an answer."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Asked(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Scripted:
    """``with Scripted(Reply(429), ...) as server`` answers the nth request by the nth reply.

    Attributes
    ----------
    url
        Where it is.
    asked
        Every request, in the order of arrival.
    """

    def __init__(self, *replies: Reply) -> None:
        self.asked: list[Asked] = []
        waiting = list(replies)
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline()
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                asked.append(Asked(self.command, self.path, dict(self.headers.items()), body))
                reply = waiting.pop(0)
                if not reply.status:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else reply.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class says so
                """Keep quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
