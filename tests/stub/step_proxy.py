"""A proxy before PostgreSQL or ZooKeeper that loses steps of a counter, or their answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Literal

from tests.stub.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["StepProxy", "is_a_ping", "is_an_insert", "is_set_data"]

_PATIENCE = 30
_CHUNK = 2**16


def is_an_insert(asked: bytes) -> bool:
    """Whether PostgreSQL is asked to move a counter."""
    return b"INSERT INTO" in asked


def is_set_data(asked: bytes) -> bool:
    """Whether ZooKeeper is asked to set a node: of each frame, the word after its length and number."""
    while len(asked) >= 12:
        if asked[8:12] == b"\0\0\0\5":
            return True
        asked = asked[4 + int.from_bytes(asked[:4], "big") :]
    return False


def is_a_ping(told: bytes) -> bool:
    """Whether ZooKeeper says only that it is there."""
    return told[4:8] == b"\xff\xff\xff\xfe"


class StepProxy(TcpProxy):
    """Passes all on, up to a step: that is lost, or its answer, and the connection with it.

    Parameters
    ----------
    upstream
        Where the server is: host and port.
    is_step
        Whether what a client has sent at once has such a request.
    loses
        ``"answers"``: the server has answered before the client sees the end. ``"requests"``: the step gets
        no further than here.
    is_no_answer
        Whether what the server has said at once is about something else.
    """

    def __init__(
        self,
        upstream: str,
        is_step: Callable[[bytes], bool],
        loses: Literal["answers", "requests"],
        is_no_answer: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        super().__init__(upstream)
        self._is_step = is_step
        self._loses = loses
        self._is_no_answer = is_no_answer

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        losing = threading.Event()
        back = threading.Thread(target=self._answer, args=(client, server, losing), daemon=True)
        back.start()
        while asked := client.recv(_CHUNK):
            if self._is_step(asked):
                if self._loses == "requests":
                    break
                losing.set()
            server.sendall(asked)
        _end(client, server)
        back.join(_PATIENCE)

    def _answer(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while told := server.recv(_CHUNK):
                if losing.is_set():
                    if self._is_no_answer(told):
                        continue
                    break
                client.sendall(told)
        _end(client, server)


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
