"""A Redis that forgets: a primary whose replica is cut off, and a sentinel that has the replica take over."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from putifabsent.backends.registry_urls import open_lock
from tests.fault_proxy import LOST_REQUEST, FaultProxy
from tests.servers import NotStartedError, Valkey
from tests.servers.valkey import ValkeySentinel

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

_BETWEEN_POLLS = 0.05


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
            # All must take it: a sentinel leads a replica of another address back.
            self._link = running.enter_context(FaultProxy(self.primary.address, speech="redis"))
            self.replica = running.enter_context(
                Valkey("--replicaof", "127.0.0.1", self._link.address.partition(":")[2])
            )
            until(lambda: self._replica_says(b"master_link_status:up"))
            sentinel = ValkeySentinel(
                self._link.address,
                # A replica that was cut off ten times as long before is not taken.
                "down-after-milliseconds lab 3000",
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
        self._link.always(LOST_REQUEST, "REPLCONF")  # which each replica says every second
        until(lambda: self._replica_says(b"master_link_status:down"))
        until(self._can_lock)

    def fail_over(self) -> None:
        """Kill the primary, and return when the replica is in its place."""
        os.kill(self.primary.pids[-1], signal.SIGKILL)
        until(lambda: self._replica_says(b"role:master"))
        until(self._can_lock)

    def lose(self) -> None:
        """Have it forget what it is told from now on, and be another server then."""
        self.cut()
        self.fail_over()

    def _replica_says(self, what: bytes) -> bool:
        try:
            return what in self.replica.tell("INFO", "replication")
        except ConnectionError:
            # A sentinel that makes it the primary, or leads it elsewhere, ends every caller's connection.
            return False

    def _can_lock(self) -> bool:
        try:
            open_lock(self.url).check()
        except OSError:
            return False
        return True


def until(
    is_so: Callable[[], bool], seconds: float = 30, otherwise: str = "the servers did not get there"
) -> None:
    """Return when it is so; else raise, with these words."""
    for _ in range(int(seconds / _BETWEEN_POLLS)):
        if is_so():
            return
        time.sleep(_BETWEEN_POLLS)
    raise NotStartedError(otherwise)
