"""A proxy that loses answers, or requests: what stands behind it is real, and so are the lost connections."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_CONTINUE = b"HTTP/1.1 100"
_PATIENCE = 30


class LosingProxy:
    """Takes each request, has it applied or not, and closes the connection instead of answering.

    Parameters
    ----------
    endpoint
        Where the real server is.
    loses
        ``"answers"``: every request is applied, and the server has answered before the client sees the
        end. ``"requests"``: none gets further than here.
    """

    def __init__(self, endpoint: str, loses: Literal["answers", "requests"]) -> None:
        address = urlsplit(endpoint)
        self._server = (str(address.hostname), int(address.port or 80))
        self._loses = loses
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.endpoint = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # `shutdown` wakes the thread that accepts; `close` alone would not.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            serve = self._answer_nothing if self._loses == "answers" else self._hear_nothing
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    def _hear_nothing(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(_PATIENCE)
            client.recv(2**16)

    def _answer_nothing(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server, _PATIENCE) as server:
            client.settimeout(_PATIENCE)
            threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()
            with contextlib.suppress(OSError):
                while (answer := server.recv(2**16)).startswith(_CONTINUE):
                    client.sendall(answer)
            # Both directions end now: the other thread must not keep the connection alive.
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)


def _pass_on(client: socket.socket, server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := client.recv(2**16):
            server.sendall(data)
