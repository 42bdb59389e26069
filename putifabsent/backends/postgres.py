"""Counters in PostgreSQL: a row of a table each, moved by one statement.

``INSERT ... ON CONFLICT DO UPDATE ... RETURNING`` is atomic, and whoever comes second waits for the row. Its
time is the server's, looked at when the row was its own (``clock_timestamp``). The statement is a
transaction of its own, and is acknowledged when it is on the server's disk. A standby that takes over without
having heard of it (asynchronous replication) gives the same numbers again, as Redis does.

A statement that the server refuses is undone as a whole. But a server that ends a session may have committed
before: its own end, and whatever has no SQLSTATE, says nothing of the statement. For a refused
connection libpq gives no SQLSTATE, only the server's message, in the server's own language. The English
words are known here. In another one a wrong password is tried again until the deadline, and the error then
has the server's words.

The server's own ``statement_timeout`` ends a statement that it works on. It does not end the commit after it,
which may wait for a disk or a standby; nor does it run where the server stands still. So psycopg's
``waiting``, which tells a generator ten times a second that nothing has come, is bounded here.

That time-out, and that a commit is on disk, is said for each transaction, in the request of its statement:
PgBouncer refuses a connection that begins with settings, and has others' on the sessions that it lends. A
request of several statements takes no parameters, so psycopg writes them into it. Before PostgreSQL 13 such a
request has the time-out that the session had before.

Sources: PostgreSQL's manual (``INSERT``, "Date/Time Functions", "Asynchronous Commit", ``statement_timeout``,
appendix A "PostgreSQL Error Codes"), psycopg 3's.
"""

from __future__ import annotations

import errno
import hashlib
import math
import re
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from putifabsent.backends import base
from putifabsent.backends.concurrency import PerProcess
from putifabsent.backends.registries import LARGEST, Advanced, Counter, at_its_end, bad_step
from putifabsent.backends.registry_urls import hosts_of, parts_of, refuse_unknown, servers_of
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from psycopg import Connection

    from putifabsent.backends.registries import AdvanceOutcome
    from putifabsent.backends.registry_urls import Servers

_OPTIONS = ("timeout", "sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs")
_PORT = 5432

TABLE = "putifabsent_counters"  # where counters are; it is looked for by the session's ``search_path``
_ENDED = ("08", "57P01", "57P02", "57P04", "57P05", "58", "XX", "40003")
"""The connection, the server or its disk has failed, or it does not know how the statement ended."""

_READ_ONLY = "25006"
_PASSES = (_READ_ONLY, "40", "53", "55P03", "57014", "57P03")
"""A standby, a conflict, too little of something, a lock or a time-out, a server that is starting."""

_FORBIDDEN = ("28", "42501")
_MISSING = ("42P01", "3D000")

_FORBIDDEN_WORDS = re.compile(
    r'authentication failed|no password supplied|pg_hba\.conf|role ".*" does not exist'
    r"|not permitted to log in|permission denied for database"
)
_MISSING_WORDS = re.compile(r'database ".*" does not exist')


def outcome_of(error: Exception, where: str, *, sent: bool) -> base.TryAgain | base.Refused | base.Maybe:
    """Say what a failure means; ``sent``: the statement may have been."""
    state = getattr(error, "sqlstate", None) or ("" if sent else _state_when_connecting(error))
    if state.startswith(_FORBIDDEN):
        return base.refused(errno.EACCES, f"PostgreSQL refuses: {_first_line(error)}", where, error)
    if state in _MISSING:
        do = (
            f"{_first_line(error)}. Counters want a table: CREATE TABLE {TABLE} (name text PRIMARY KEY, "
            "last bigint NOT NULL), with the rights to SELECT, INSERT and UPDATE"
        )
        return base.refused(errno.ENOENT, do, where, error)
    if not sent:
        return base.TryAgain(error)
    # "Completion unknown" is among the conflicts.
    if not state or state.startswith(_ENDED):
        return base.Maybe(error)
    if state.startswith(_PASSES):
        return base.TryAgain(error)
    return base.refused(errno.EINVAL, f"PostgreSQL refuses: {_first_line(error)}", where, error)


def _state_when_connecting(error: Exception) -> str:
    message = str(error)
    if _FORBIDDEN_WORDS.search(message):
        return "28000"
    return "3D000" if _MISSING_WORDS.search(message) else ""


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


_LEAST_CONNECT = 2  # seconds: libpq takes no less
_TIMEOUT = 5.0


def postgres_settings(url: str) -> Servers:
    """Return what a URL of PostgreSQL says: its path is the database, empty for the user's own.

    Without credentials there and in the environment, libpq has its own (``PGUSER``, ``~/.pgpass``, ...).
    """
    parts = parts_of(url, ("postgresql",))
    refuse_unknown(parts, _OPTIONS)
    hosts, steps = hosts_of(parts, _PORT), [unquote(step) for step in parts.path.split("/") if step]
    if len(steps) > 1:
        raise ConfigError(f"the path of the {parts.scheme}:// URL has too many steps")
    return servers_of(parts, hosts, f"/{''.join(steps)}", "POSTGRES", _TIMEOUT)


def parameters_of(servers: Servers) -> dict[str, Any]:
    """Return libpq's parameters. A server that is not there any more is not waited for longer."""
    seconds = math.ceil(servers.timeout)
    parameters = {
        "host": ",".join(host for host, _ in servers.hosts),
        "port": ",".join(str(port) for _, port in servers.hosts),
        "dbname": servers.path.removeprefix("/"),
        "user": servers.username,
        "password": servers.password,
        "application_name": "putifabsent",
        "connect_timeout": max(seconds, _LEAST_CONNECT),
        "keepalives_idle": seconds,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        "tcp_user_timeout": _millis(servers),
        "target_session_attrs": "read-write",
        **servers.options,
    }
    return {key: value for key, value in parameters.items() if value not in (None, "")}


def _millis(servers: Servers) -> int:
    return max(math.ceil(servers.timeout * 1000), 1)


_SPARE = 1.0  # seconds that the server has more, to say itself that it took too long


def _connected(servers: Servers) -> Connection[Any]:
    """Open a connection that commits each request by itself."""
    import psycopg

    patience = servers.timeout + _SPARE

    def until(gen: Generator[Any, Any, Any], end: float) -> Generator[Any, Any, Any]:
        """Go on with what psycopg does, until then."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > end:
                    gen.close()
                    raise psycopg.OperationalError("the server has not answered in time")
                wanted = gen.send(ready)
        except StopIteration as over:
            return over.value

    class Bounded(psycopg.Connection[Any]):
        def wait(self, gen: Generator[Any, Any, Any], *more: Any, **options: Any) -> Any:
            return super().wait(until(gen, time.monotonic() + patience), *more, **options)

    return Bounded.connect(autocommit=True, cursor_factory=psycopg.ClientCursor, **parameters_of(servers))


_ADVANCE = f"""
SET LOCAL synchronous_commit = on;
SET LOCAL statement_timeout = %(millis)s;
INSERT INTO {TABLE} AS counter (name, last) VALUES (%(name)s, %(floor)s::bigint + %(count)s)
ON CONFLICT (name) DO UPDATE SET last = greatest(counter.last, %(floor)s::bigint) + %(count)s
WHERE counter.last <= {LARGEST} - %(count)s
RETURNING last, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
"""  # noqa: S608 - constants alone

_KEPT = 4  # so many idle connections stay open: a server has a hundred for all
_LONGEST_NAME = 1000
_HASHED = "#"


class PostgresCounter(Counter):
    """Counters in one PostgreSQL database, in a table that is there.

    ``connect`` opens a connection that commits each request by itself; by default psycopg does.
    """

    forgets: ClassVar[bool] = False

    def __init__(self, servers: Servers, connect: Callable[[], Any] | None = None) -> None:
        self._shown, self._millis = servers.shown, _millis(servers)
        self._connect = connect or (lambda: _connected(servers))
        # A deque's ends are safe for threads.
        self._idle: PerProcess[deque[Connection[Any]]] = PerProcess(deque)

    def advance(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """``INSERT``, or ``UPDATE`` to beyond the larger of the row and the floor; in one statement."""
        if refused := bad_step(name, floor, count):
            return refused
        idle = self._idle()
        try:
            connection = self._connection(idle)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return outcome_of(error, self._shown, sent=False)
        parameters = {"name": _key(name), "floor": floor, "count": count, "millis": self._millis}
        try:
            answer = connection.execute(_ADVANCE, parameters)
            while answer.nextset():
                pass
            row = answer.fetchone()
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = outcome_of(error, self._shown, sent=True)
            # What is a standby by now may keep its connections: new ones find the server that is none.
            is_standby = getattr(error, "sqlstate", None) == _READ_ONLY
            self._put_back(idle, connection, fit=not (is_standby or isinstance(outcome, base.Maybe)))
            return outcome
        except BaseException:
            # An answer may still come, which the next statement must not take for its own.
            self._put_back(idle, connection, fit=False)
            raise
        self._put_back(idle, connection, fit=True)
        if row is None:
            return base.Refused(at_its_end(name))
        return Advanced(int(row[0]), int(row[1]))

    def identity(self) -> str:
        return self._shown

    def _connection(self, idle: deque[Connection[Any]]) -> Connection[Any]:
        try:
            return idle.pop()
        except IndexError:
            opened: Connection[Any] = self._connect()
            return opened

    @staticmethod
    def _put_back(idle: deque[Connection[Any]], connection: Connection[Any], *, fit: bool) -> None:
        kept = _KEPT
        if fit and not connection.closed:
            idle.append(connection)
        else:
            # What has ended this one, a restart say, has probably ended all.
            kept = 0
            _close(connection)
        with suppress(IndexError):
            while len(idle) > kept:
                _close(idle.popleft())


def _close(connection: Connection[Any]) -> None:
    with suppress(Exception):
        connection.close()


def _key(name: str) -> str:
    """Return a name as an index can keep it; a hash never meets a name."""
    if len(name) <= _LONGEST_NAME and name.isascii() and not name.startswith(_HASHED):
        return name
    return _HASHED + hashlib.sha256(name.encode()).hexdigest()
