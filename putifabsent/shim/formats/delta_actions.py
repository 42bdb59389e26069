"""What Delta's commits say of files: the actions in them that add and remove, and what lies beside them.

A path is relative to the table's root, percent-encoded, or an address of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SIDECARS", "Checkpoint", "Logical", "checkpoint_in", "checksum_of", "logical", "path_of"]

SIDECARS = "_sidecars"
"""Of checkpoints: their folder, in the log's."""

_CHECKPOINT = re.compile(
    r"(?P<n>[0-9]{20})\.checkpoint(?:\.[0-9]{10}\.(?P<parts>[0-9]{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)"
)
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/")


class Logical(NamedTuple):
    """A file as a transaction sees it: with another deletion vector it is another.

    Attributes
    ----------
    path
        As the log says it.
    vector
        What tells its deletion vector from others; empty: it has none.
    """

    path: str
    vector: str


class Checkpoint(NamedTuple):
    """What the name of a file of a checkpoint says: the last version in it, and of how many files it is."""

    number: int
    parts: int


def logical(action: Mapping[str, Any]) -> Logical:
    """Return the file that an ``add`` or a ``remove`` is about."""
    vector = action.get("deletionVector") or {}
    parts = (vector.get("storageType"), vector.get("pathOrInlineDv"), vector.get("offset"))
    return Logical(str(action["path"]), "/".join(map(str, parts)) if vector else "")


def path_of(said: str) -> str | None:
    """Return where a file lies, from the table's root; None: it says an address of its own."""
    return None if _ABSOLUTE.match(said) else unquote(said)


def checkpoint_in(last: str) -> Checkpoint | None:
    """Return what a file of a checkpoint is, by its last component; None: it is none."""
    match = _CHECKPOINT.fullmatch(last)
    return match and Checkpoint(int(match["n"]), int(match["parts"] or 1))


def checksum_of(commit: str) -> str:
    """Return the name of a commit's checksum, in which its writer says which transaction it was."""
    return f"{commit.removesuffix('.json')}.crc"
