"""Several services behind one address, which get the calls in turn, whoever they are from."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.service.processes import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["replicas"]

_HOP = {"connection", "transfer-encoding", "keep-alive"}


@contextmanager
def replicas(number: int, settings: dict[str, Any]) -> Iterator[str]:
    """Run so many services with the same settings; return the address that they have in common."""
    with ExitStack() as stack:
        behind = [stack.enter_context(serving(settings))[1] for _ in range(number)]
        server = ThreadingHTTPServer(("127.0.0.1", 0), _passing_to(behind))
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"


def _passing_to(behind: list[str]) -> type[BaseHTTPRequestHandler]:
    turns, lock = cycle(behind), threading.Lock()

    class Passing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            with lock:
                address = next(turns)
            connection = HTTPConnection(urlsplit(address).netloc)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection.request("POST", self.path, body, dict(self.headers))
            response = connection.getresponse()
            answer = response.read()
            self.send_response(response.status)
            for key, value in response.getheaders():
                if key.lower() not in _HOP:
                    self.send_header(key, value)
            self.end_headers()
            self.wfile.write(answer)
            connection.close()

        def log_message(self, *_: object) -> None:
            pass

    return Passing
