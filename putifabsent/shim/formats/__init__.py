"""What the table formats call their files: one grammar a file, and the question put to all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from putifabsent.backends.base import STATE_FOLDER
from putifabsent.shim.formats import delta, hudi, iceberg, paimon, spark
from putifabsent.shim.names import Name, nameless

if TYPE_CHECKING:
    from putifabsent.shim.names import Enforced, Rule

__all__ = ["ENFORCED", "GRAMMARS", "PATTERNS", "RULES", "STATE", "Grammar", "is_state", "recognise"]

Grammar: TypeAlias = Callable[[str, str, str], Name | None]
"""``classify`` of one format: takes a full name, its folder and its last component."""

# Hudi and Delta come first: whatever lies in their folders is theirs.
_FORMATS = (hudi, delta, iceberg, paimon, spark)

GRAMMARS: dict[str, Grammar] = {module.FORMAT: module.classify for module in _FORMATS}
"""Each format's grammar, in the order in which they are tried."""

RULES: dict[str, tuple[Rule, ...]] = {module.FORMAT: module.RULES for module in _FORMATS}
"""Each format's grammar, for people."""

ENFORCED: dict[str, Enforced] = {module.FORMAT: module.ENFORCED for module in _FORMATS}
"""What of each format a store's own policy can see to."""

_FOLDERS = delta.FOLDERS | iceberg.FOLDERS | paimon.FOLDERS | spark.FOLDERS
_LASTS = spark.LASTS
# Batches begin with a digit, Hudi's log files with a dot; Hudi's base files have two underscores.
_FIRST_CHARACTERS = frozenset(".0123456789")
_UNDERSCORES = 2


PATTERNS: dict[str, str] = {module.FORMAT: nameless("|".join(module.PATTERNS)) for module in _FORMATS}
"""Matches the full names that may be guarded or a step, and maybe others; ``.`` is any character.

By format: the names that it guards, and the steps of Hudi's instants, of which a ledger may have to hear.
They stay within what Java's regular expressions mean alike.
"""

STATE = rf"(?:.*/)?{re.escape(STATE_FOLDER)}(?:/.*)?"
"""The same, of what the shim keeps for itself."""


@lru_cache(maxsize=1 << 14)  # listings name the same files again and again
def recognise(path: str, grammars: tuple[Grammar, ...]) -> Name | None:
    """Return what the first of ``grammars`` that knows a name says of it, or None.

    The first component is never taken for a part of a table: it is a bucket, a container, or the root.
    """
    cut = path.rfind("/")
    last = path[cut + 1 :]
    if (
        path[path.rfind("/", 0, cut) + 1 : cut] not in _FOLDERS
        and last[:1] not in _FIRST_CHARACTERS
        and last.count("_") != _UNDERSCORES
        and last not in _LASTS
        and "/.hoodie/" not in path
    ) or cut < 0:
        return None
    if is_state(path):
        return None
    folder = path[:cut]
    for classify in grammars:
        name = classify(path, folder, last)
        if name is not None:
            return name
    return None


def is_state(path: str) -> bool:
    """Say whether a path is what the shim keeps for itself, at any depth."""
    return STATE_FOLDER in path and STATE_FOLDER in path.split("/")
