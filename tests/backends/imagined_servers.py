"""PostgreSQL and ZooKeeper as their manuals describe them, in memory: for tests of what is done with answers.

That a real server answers so is not shown by them.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from typing import Any, NamedTuple

from putifabsent.backends.registries import LARGEST

ALWAYS = 10**6
_TRANSACTIONS = itertools.count(1)


class Fault(NamedTuple):
    """What happens to a request: an error, after it was done or instead."""

    error: Exception
    done: bool = False


class SqlError(Exception):
    """An error of psycopg's: with what the server has said, or without."""

    def __init__(self, sqlstate: str | None, said: str = "it says so") -> None:
        super().__init__(said)
        self.sqlstate = sqlstate


class KazooError(Exception):
    """An error of kazoo's, with the protocol's code."""

    def __init__(self, code: int) -> None:
        super().__init__((), {})
        self.code = code


class _Server:
    def __init__(self) -> None:
        self.faults: deque[Fault] = deque()
        self.always: Fault | None = None
        self.lock = threading.Lock()
        self.asked = 0

    def fault(self) -> Fault | None:
        self.asked += 1
        return self.faults.popleft() if self.faults else self.always


class Postgres(_Server):
    """One table."""

    def __init__(self, rows: dict[str, int] | None = None) -> None:
        super().__init__()
        self.rows = {} if rows is None else rows
        self.connections: list[Session] = []
        self.refuses: Exception | None = None

    def connect(self) -> Session:
        if self.refuses is not None:
            raise self.refuses
        self.connections.append(Session(self))
        return self.connections[-1]


class Session:
    """A connection to it."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.closed = False
        self._row: tuple[int, int] | None = None

    def execute(self, query: str, params: Any = None) -> Session:
        assert "SET LOCAL synchronous_commit = on;" in query
        assert "INSERT INTO putifabsent_counters" in query
        assert not self.closed
        fault = self.server.fault()
        if fault is None or fault.done:
            with self.server.lock:
                self._row = self._upserted(**params)
        if fault is not None:
            raise fault.error
        return self

    def _upserted(self, name: str, floor: int, count: int, millis: int) -> tuple[int, int] | None:
        assert millis == 5000
        rows = self.server.rows
        if name in rows and rows[name] > LARGEST - count:
            return None
        rows[name] = max(rows.get(name, 0), floor) + count
        return rows[name], time.time_ns() // 10**6

    def nextset(self) -> bool:
        return False

    def fetchone(self) -> tuple[int, int] | None:
        return self._row

    def close(self) -> None:
        self.closed = True


class Stat(NamedTuple):
    """A node's state."""

    version: int
    mtime: int
    czxid: int = 0


class ZooKeeper(_Server):
    """Its nodes."""

    is_denied = False

    def __init__(self, nodes: dict[str, tuple[bytes, Stat]] | None = None) -> None:
        super().__init__()
        self.nodes = {} if nodes is None else nodes

    def get(self, path: str) -> tuple[bytes, Stat]:
        with self.lock:
            if path not in self.nodes:
                raise KazooError(-101)
            return self.nodes[path]

    def set(self, path: str, value: bytes, version: int, life: str) -> Stat:
        fault = self.fault()
        if fault is None or fault.done:
            with self.lock:
                if not {path, life} <= self.nodes.keys():
                    raise KazooError(-101)
                if self.nodes[path][1].version != version:
                    raise KazooError(-103)
                stat = self.nodes[path][1]._replace(version=version + 1, mtime=time.time_ns() // 10**6)
                self.nodes[path] = (value, stat)
        if fault is not None:
            raise fault.error
        return stat

    def create(self, path: str, value: bytes) -> None:
        with self.lock:
            if path in self.nodes:
                raise KazooError(-110)
            self.nodes[path] = (value, Stat(0, time.time_ns() // 10**6, next(_TRANSACTIONS)))

    def mark(self, path: str) -> None:
        with self.lock:
            if path.rpartition("/")[0] not in self.nodes:
                raise KazooError(-101)
        self.create(path, b"")

    def remove(self, path: str) -> None:
        """Remove a node, and all below it."""
        for each in [each for each in self.nodes if f"{each}/".startswith(f"{path}/")]:
            del self.nodes[each]
