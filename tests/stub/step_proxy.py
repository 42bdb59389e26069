"""A proxy before PostgreSQL or ZooKeeper that loses steps of a counter, or their answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

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


class StepProxy:
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
        host, _, port = upstream.partition(":")
        self._upstream = (host, int(port))
        self._is_step = is_step
        self._loses = loses
        self._is_no_answer = is_no_answer
        self.address = ""
        self._running = ExitStack()

    def __enter__(self) -> Self:
        listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=self._accept, args=(listening,), daemon=True)
        thread.start()
        self._running.callback(thread.join)
        self._running.callback(listening.close)
        # Closing alone does not end an accept that is under way.
        self._running.callback(listening.shutdown, socket.SHUT_RDWR)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.close()

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(self._upstream) as server:
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
