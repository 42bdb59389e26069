"""What proxies before a server have in common: they listen, and have a thread for each connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["TcpProxy"]

_BACKLOG = 256


class TcpProxy(ABC):
    """A proxy. ``with`` starts it, and ends it.

    Parameters
    ----------
    upstream
        Where the server is: host and port.

    Attributes
    ----------
    address
        The proxy's own host and port.
    """

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.partition(":")
        self._upstream = (host, int(port))
        self.address = ""
        self._running = ExitStack()

    def __enter__(self) -> Self:
        listening = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self.address = f"127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=self._accept, args=(listening,), daemon=True)
        thread.start()
        self._running.callback(thread.join)
        self._running.callback(listening.close)
        # Closing alone does not end an accept that is under way.
        self._running.callback(listening.shutdown, socket.SHUT_RDWR)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(self._upstream) as server:
            self._serve(client, server)

    @abstractmethod
    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on what the two say, or not; both are closed when it returns."""
