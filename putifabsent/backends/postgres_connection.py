"""A connection to PostgreSQL by psycopg, whose statements are waited for only so long.

The server's own ``statement_timeout`` ends a statement that it works on. It does not end the commit after it,
which may wait for a disk or a standby; nor does it run where the server stands still. Sources: PostgreSQL's
manual (``statement_timeout``, ``synchronous_commit``); psycopg's ``waiting``, which tells a generator ten
times a second that nothing has come.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Generator

    from putifabsent.backends.postgres_settings import PostgresSettings

__all__ = ["connected"]

_SPARE = 1.0
"""Seconds that the server has more, to say itself that it took too long."""


def connected(settings: PostgresSettings) -> psycopg.Connection[Any]:
    """Open a connection that commits each statement by itself.

    Raises
    ------
    psycopg.Error
        The server is not there, or refuses.
    """
    patience = settings.timeout + _SPARE

    class Bounded(psycopg.Connection[Any]):
        def wait(self, gen: Generator[Any, Any, Any], *more: Any, **said: Any) -> Any:
            return super().wait(_until(gen, time.monotonic() + patience), *more, **said)

    # Prepared statements are a session's, and a pooler gives each transaction another one.
    return Bounded.connect(autocommit=True, prepare_threshold=None, **settings.said())


def _until(gen: Generator[Any, Any, Any], end: float) -> Generator[Any, Any, Any]:
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
