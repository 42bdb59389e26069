"""A Redis that forgets: a primary whose replica is cut off, and a sentinel that has the replica take over."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from putifabsent.backends.registry_urls import open_lock
from tests.servers import NotStartedError, Valkey
from tests.servers.valkey import ValkeySentinel

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

_BETWEEN_POLLS = 0.05


class Link:
    """A way to a primary, on which its replicas can be cut off, and they alone.

    All must take it, sentinels and clients as well: a sentinel leads a replica of another address back.
    ``with Link("127.0.0.1:6379") as link:`` opens it.
    """

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.partition(":")
        self._upstream = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._replicas: list[socket.socket] = []
        self._is_cut = False
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cut()
        _close(self._listening)

    def cut(self) -> None:
        """Let no replica through any more."""
        self._is_cut = True
        for each in self._replicas:
            _close(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                try:
                    far = socket.create_connection(self._upstream)
                except OSError:
                    near.close()
                    continue
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                # How each replica begins.
                if b"REPLCONF" in data:
                    self._replicas.append(one)
                    if self._is_cut:
                        break
                other.sendall(data)
        _close(one)
        _close(other)


def _close(connection: socket.socket) -> None:
    # Closing alone ends no call that is under way in another thread.
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class Forgetful:
    """A primary, its replica, and a sentinel. ``with Forgetful() as redis:`` starts them.

    Attributes
    ----------
    url
        Where the lock is: wherever the sentinel says.
    """

    def __init__(self) -> None:
        self._running = ExitStack()
        self.url = ""

    def __enter__(self) -> Self:
        with ExitStack() as running:
            self.primary = running.enter_context(Valkey("--repl-diskless-sync-delay", "0"))
            self._link = running.enter_context(Link(self.primary.address))
            self.replica = running.enter_context(
                Valkey("--replicaof", "127.0.0.1", self._link.address.partition(":")[2])
            )
            until(lambda: b"master_link_status:up" in self.replica.tell("INFO", "replication"))
            sentinel = ValkeySentinel(
                self._link.address,
                # A replica that was cut off ten times as long before is not taken.
                "down-after-milliseconds lab 2000",
                "failover-timeout lab 5000",
            )
            self.sentinel = running.enter_context(sentinel)
            until(lambda: b"runid" in self.sentinel.tell("SENTINEL", "REPLICAS", "lab"))
            self.url = f"redis+sentinel://{self.sentinel.address}/lab"
            self._running = running.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.close()

    def cut(self) -> None:
        """Have the replica hear nothing more of the primary, which goes on to answer."""
        self._link.cut()
        until(lambda: b"master_link_status:down" in self.replica.tell("INFO", "replication"))

    def fail_over(self) -> None:
        """Kill the primary, and return when the replica is in its place."""
        os.kill(self.primary.pids[-1], signal.SIGKILL)
        until(lambda: b"role:master" in self.replica.tell("INFO", "replication"))
        until(self._can_lock)

    def lose(self) -> None:
        """Have it forget what it is told from now on, and be another server then."""
        self.cut()
        self.fail_over()

    def _can_lock(self) -> bool:
        try:
            open_lock(self.url).check()
        except OSError:
            return False
        return True


def until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    """Return when it is so."""
    for _ in range(int(seconds / _BETWEEN_POLLS)):
        if is_so():
            return
        time.sleep(_BETWEEN_POLLS)
    raise NotStartedError("the servers did not get there")
