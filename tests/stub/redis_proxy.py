"""A proxy before a Redis server that makes things go wrong, and counts what is sent. No server of its own."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from tests.stub.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    import socket

    from typing_extensions import Self

_HELD_SECONDS = 60


@dataclass(frozen=True)
class Trouble:
    """One thing that goes wrong with one command.

    Attributes
    ----------
    applies
        Whether the server gets it.
    says
        What is answered instead; nothing: the connection is closed.
    late
        Whether it is closed only when the proxy ends.
    """

    applies: bool
    says: bytes = b""
    late: bool = False


DROPPED_BEFORE = Trouble(applies=False)
DROPPED_AFTER = Trouble(applies=True)
LATE = Trouble(applies=True, late=True)


def answers(error: str) -> Trouble:
    """Return the trouble that an error of the server's is: it did nothing."""
    return Trouble(applies=False, says=f"-{error}\r\n".encode())


class RedisProxy(TcpProxy):
    """The proxy. ``with RedisProxy("127.0.0.1:6379") as proxy:`` starts it.

    Attributes
    ----------
    commands
        The words of all that has arrived.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.commands: list[tuple[bytes, ...]] = []
        self._scripts: defaultdict[str, deque[Trouble]] = defaultdict(deque)
        self._always: dict[str, Trouble] = {}
        self._over = threading.Event()

    def script(self, command: str, *troubles: Trouble) -> None:
        """Have the next commands of a kind go wrong, one each."""
        self._scripts[command].extend(troubles)

    def always(self, command: str, trouble: Trouble) -> None:
        """Have all commands of a kind go wrong."""
        self._always[command] = trouble

    def sent(self, command: str) -> int:
        """Return how many commands of a kind have arrived."""
        return sum(words[0].decode().upper() == command for words in self.commands)

    def __enter__(self) -> Self:
        super().__enter__()
        self._running.callback(self._over.set)
        return self

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        asked, told = client.makefile("rb"), server.makefile("rb")
        while raw := _message(asked):
            words = tuple(raw.split(b"\r\n")[2::2])
            self.commands.append(words)
            kind = words[0].decode().upper()
            waiting = self._scripts[kind]
            trouble = waiting.popleft() if waiting else self._always.get(kind)
            said = b""
            if trouble is None or trouble.applies:
                server.sendall(raw)
                said = _message(told)
            if trouble is not None:
                if trouble.late:
                    self._over.wait(_HELD_SECONDS)
                if not trouble.says:
                    return
                said = trouble.says
            client.sendall(said)


def _message(stream: IO[bytes]) -> bytes:
    """Read one message of the protocol, a command or an answer; nothing at the end."""
    line = stream.readline()
    if line[:1] == b"$" and int(line[1:]) >= 0:
        return line + stream.read(int(line[1:]) + 2)
    if line[:1] == b"*" and int(line[1:]) >= 0:
        return line + b"".join(_message(stream) for _ in range(int(line[1:])))
    return line
