"""What the names of Hudi's slices say: of which file group they are, of which instant, by which task.

A base file is ``<file id>_<write token>_<T>.<ending>``, a log file
``.<file id>_<T>.log.<version>[_<write token>]``. The write token says which attempt of which task wrote it.
In a log file of a table below version 8, ``T`` is not the writer's instant, but that of the base file which
it goes on with.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Slice", "slice_in"]

_WRITE = "[0-9]+-[0-9]+-[0-9]+"
_BASE_FILE = re.compile(
    rf"(?P<group>[^_/]+)_(?P<token>{_WRITE}(?:-[0-9a-f]{{32}})?)_(?P<t>[0-9]+)\.(?:parquet|orc|hfile|lance)"
)
_LOG_FILE = re.compile(
    rf"\.(?P<group>[^/]+)_(?P<t>[0-9]+)\.log\.(?P<version>[0-9]+)(?:_(?P<token>{_WRITE})(?:\.cdc)?)?"
)


class Slice(NamedTuple):
    """A file of a file group.

    Attributes
    ----------
    group
        The file group's id.
    token
        The write token; empty where the name has none.
    instant
        ``T``.
    is_log
        Whether it is a log file; else it is a base file.
    """

    group: str
    token: str
    instant: str
    is_log: bool


def slice_in(last: str) -> Slice | None:
    """Return which slice a name is, by its last component; None: it is none."""
    is_log = last.startswith(".")
    match = (_LOG_FILE if is_log else _BASE_FILE).fullmatch(last)
    return match and Slice(match["group"], match["token"] or "", match["t"], is_log)
