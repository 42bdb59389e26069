"""Counters in PostgreSQL: a row of a table each, moved by one statement.

``INSERT ... ON CONFLICT DO UPDATE ... RETURNING`` is atomic, and whoever comes second waits for the row. Its
time is the server's, looked at when the row was its own (``clock_timestamp``).

The statement is a transaction of its own, and is acknowledged when it is on the server's disk. A standby that
takes over without having heard of it (asynchronous replication) gives the same numbers again, as Redis does.
Sources: PostgreSQL's manual (``INSERT``, "Date/Time Functions", "Asynchronous Commit"), psycopg 3's.
"""

from __future__ import annotations

import hashlib
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from putifabsent.backends.counters import LARGEST, Advanced, Counter, at_its_end, bad_step
from putifabsent.backends.per_process import PerProcess
from putifabsent.backends.postgres_words import TABLE, meaning
from putifabsent.backends.refusals import require_answer
from putifabsent.backends.registries import Maybe, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.counters import AdvanceOutcome
    from putifabsent.backends.postgres_settings import PostgresSettings

__all__ = ["PostgresCounter"]

_ADVANCE = f"""
INSERT INTO {TABLE} AS counter (name, last) VALUES (%(name)s, %(floor)s::bigint + %(count)s)
ON CONFLICT (name) DO UPDATE SET last = greatest(counter.last, %(floor)s::bigint) + %(count)s
WHERE counter.last <= {LARGEST} - %(count)s
RETURNING last, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
"""  # noqa: S608 - constants alone

_LONGEST_NAME = 1000
_HASHED = "#"


class Cursor(Protocol):
    """What a statement has returned."""

    def fetchone(self) -> Any:
        """Return the row; None: there is none."""


class Connection(Protocol):
    """As much of psycopg's connection as is used here."""

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent by it any more."""

    def execute(self, query: Any, params: Any = None) -> Cursor:
        """Send a statement, and read its answer."""

    def close(self) -> None:
        """Close it."""


class PostgresCounter(Counter):
    """Counters in one PostgreSQL database, in a table that is there.

    Parameters
    ----------
    settings
        Where it is.
    connect
        Opens a connection, which commits each statement by itself; None: psycopg does.
    """

    kind: ClassVar[str] = "postgresql"
    forgets: ClassVar[bool] = False

    def __init__(self, settings: PostgresSettings, connect: Callable[[], Connection] | None = None) -> None:
        self._shown = settings.shown
        self._connect = connect or (lambda: _connected(settings))
        # A deque's ends are safe for threads.
        self._idle: PerProcess[deque[Connection]] = PerProcess(deque)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._shown}>"

    def advance(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """``INSERT``, or ``UPDATE`` to beyond the larger of the row and the floor; in one statement."""
        if refused := bad_step(name, floor, count):
            return refused
        idle = self._idle()
        try:
            connection = self._connection(idle)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return meaning(error, self._shown, sent=False)
        said = {"name": _key(name), "floor": floor, "count": count}
        try:
            row = connection.execute(_ADVANCE, said).fetchone()
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = meaning(error, self._shown, sent=True)
            self._put_back(idle, connection, fit=not isinstance(outcome, Maybe))
            return outcome
        except BaseException:
            # An answer may still come, which the next statement must not take for its own.
            self._put_back(idle, connection, fit=False)
            raise
        self._put_back(idle, connection, fit=True)
        if row is None:
            return Refused(at_its_end(name))
        return Advanced(int(row[0]), int(row[1]))

    def identity(self) -> str:
        """Return the database's address, without credentials."""
        return self._shown

    def check(self) -> None:
        """Advance a counter of its own."""
        require_answer(self.advance("#check", 0), "PostgreSQL", self._shown)

    def _connection(self, idle: deque[Connection]) -> Connection:
        try:
            return idle.pop()
        except IndexError:
            return self._connect()

    @staticmethod
    def _put_back(idle: deque[Connection], connection: Connection, *, fit: bool) -> None:
        if fit and not connection.closed:
            idle.append(connection)
            return
        # What has ended this one, a restart say, has probably ended all.
        ended = [connection]
        with suppress(IndexError):
            while True:
                ended.append(idle.pop())
        for each in ended:
            with suppress(Exception):
                each.close()


def _connected(settings: PostgresSettings) -> Connection:
    from putifabsent.backends.postgres_connection import connected

    return connected(settings)


def _key(name: str) -> str:
    """Return a name as an index can keep it; a hash never meets a name."""
    if len(name) <= _LONGEST_NAME and name.isascii() and not name.startswith(_HASHED):
        return name
    return _HASHED + hashlib.sha256(name.encode()).hexdigest()
