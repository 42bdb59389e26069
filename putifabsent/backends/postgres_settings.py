"""Where a PostgreSQL is, and how it is spoken to: what a URL says, apart from any client."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PostgresSettings"]

_LEAST_CONNECT = 2
"""Seconds: libpq takes no less."""


@dataclass(frozen=True)
class PostgresSettings:
    """Where a PostgreSQL is, and how it is spoken to.

    Attributes
    ----------
    shown
        Its address for people, without credentials.
    hosts
        One, or several of which one is the primary.
    database
        Its name; empty: the user's own.
    username, password
        Credentials; None: libpq's own (``PGUSER``, ``PGPASSWORD``, ``~/.pgpass``, ...).
    more
        libpq's options: ``sslmode``, ``sslrootcert``, ...
    timeout
        Seconds, for connecting and for one answer.
    """

    shown: str
    hosts: tuple[tuple[str, int], ...]
    database: str = ""
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    more: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 5.0

    def said(self) -> dict[str, Any]:
        """Return it as libpq's parameters.

        A step that was acknowledged must be on disk; and a server that does not answer is not waited for
        longer than the time-out, whether it works on a statement or is not there any more.
        """
        seconds, millis = math.ceil(self.timeout), max(math.ceil(self.timeout * 1000), 1)
        said = {
            "host": ",".join(host for host, _ in self.hosts),
            "port": ",".join(str(port) for _, port in self.hosts),
            "dbname": self.database,
            "user": self.username,
            "password": self.password,
            "application_name": "putifabsent",
            "connect_timeout": max(seconds, _LEAST_CONNECT),
            "keepalives_idle": seconds,
            "keepalives_interval": 1,
            "keepalives_count": 3,
            "tcp_user_timeout": millis,
            "target_session_attrs": "read-write",
            "options": f"-c synchronous_commit=on -c statement_timeout={millis}",
            **self.more,
        }
        return {key: value for key, value in said.items() if value not in (None, "")}
