"""A server that speaks as much of PostgreSQL's protocol as it takes to connect, and nothing after that."""

from __future__ import annotations

import socketserver
import struct
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["silent_postgres"]

_TLS, _GSS = 80877103, 80877104
_STATUS = {"server_version": "18.1", "client_encoding": "UTF8", "standard_conforming_strings": "on",
           "default_transaction_read_only": "off", "in_hot_standby": "off"}  # fmt: skip


class _Silent(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while self._startup() in (_TLS, _GSS):
            self.wfile.write(b"N")
        said = _message(b"R", struct.pack("!i", 0))
        for key, value in _STATUS.items():
            said += _message(b"S", f"{key}\0{value}\0".encode())
        self.wfile.write(said + _message(b"K", struct.pack("!ii", 1, 2)) + _message(b"Z", b"I"))
        # What comes now is taken, and that is all.
        while self.request.recv(4096):
            pass

    def _startup(self) -> int:
        """Return the version, or what is asked for in its place."""
        (length,) = struct.unpack("!i", self.rfile.read(4))
        version: int = struct.unpack("!i", self.rfile.read(length - 4)[:4])[0]
        return version


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


@contextmanager
def silent_postgres() -> Iterator[str]:
    """Start one; give its host and port."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Silent) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
