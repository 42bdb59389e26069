"""What PostgreSQL's errors mean for a statement that is a transaction of its own, by their SQLSTATE.

A statement that the server refuses is undone as a whole. But a server that ends a session may have committed
before: its own end, and whatever has no SQLSTATE, says nothing of the statement. Source: PostgreSQL's manual,
appendix A ("PostgreSQL Error Codes").

Who is refused when it connects is told no SQLSTATE by libpq, only what the server said, in the server's own
language. The English words are known here. In another one a wrong password is tried again until the deadline,
and the error then has the server's words.
"""

from __future__ import annotations

import errno
import re

from putifabsent.backends.refusals import caused
from putifabsent.backends.registries import Maybe, Refused, TryAgain

__all__ = ["TABLE", "meaning", "missing"]

TABLE = "putifabsent_counters"
"""Where counters are; it is looked for by the session's ``search_path``."""

_ENDED = ("08", "57P01", "57P02", "57P04", "57P05", "58", "XX", "40003")
"""The connection, the server or its disk has failed, or it does not know how the statement ended."""

_PASSES = ("25006", "40", "53", "55P03", "57014", "57P03")
"""A standby, a conflict, too little of something, a lock or a time-out, a server that is starting."""

_FORBIDDEN = ("28", "42501")
_MISSING = ("42P01", "3D000")

_FORBIDDEN_WORDS = re.compile(
    r'authentication failed|no password supplied|pg_hba\.conf|role ".*" does not exist'
    r"|not permitted to log in|permission denied for database"
)
_MISSING_WORDS = re.compile(r'database ".*" does not exist')


def meaning(error: Exception, where: str, *, sent: bool) -> TryAgain | Refused | Maybe:
    """Say what a failure means.

    Parameters
    ----------
    error
        Of psycopg: its ``sqlstate`` is None where the server has not said what is wrong.
    where
        The database, for people.
    sent
        Whether the statement may have been.
    """
    state = getattr(error, "sqlstate", None) or ("" if sent else _told_when_connecting(error))
    if state.startswith(_FORBIDDEN):
        return Refused(
            caused(PermissionError(errno.EACCES, f"PostgreSQL refuses: {_said(error)}", where), error)
        )
    if state in _MISSING:
        return Refused(caused(FileNotFoundError(errno.ENOENT, missing(error), where), error))
    if not sent:
        return TryAgain(error)
    # "Completion unknown" is among the conflicts.
    if not state or state.startswith(_ENDED):
        return Maybe(error)
    if state.startswith(_PASSES):
        return TryAgain(error)
    return Refused(caused(OSError(errno.EINVAL, f"PostgreSQL refuses: {_said(error)}", where), error))


def missing(error: Exception) -> str:
    """Say what to do where the table, or the database, is not there."""
    return (
        f"{_said(error)}. Counters want a table: CREATE TABLE {TABLE} (name text PRIMARY KEY, last bigint "
        "NOT NULL), with the rights to SELECT, INSERT and UPDATE"
    )


def _told_when_connecting(error: Exception) -> str:
    said = str(error)
    if _FORBIDDEN_WORDS.search(said):
        return "28000"
    return "3D000" if _MISSING_WORDS.search(said) else ""


def _said(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
