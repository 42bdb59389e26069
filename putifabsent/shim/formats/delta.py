"""Delta Lake's names: what lies in ``_delta_log/``.

A commit is ``<20 digits>.json``, counted from 0. No evidence is asked for: no other program has a folder of
that name, and the first commit is already in it.

Everything else there is left alone. Checkpoints, log compactions and checksums repeat what the commits
say: whoever writes one again writes the same state. ``_last_checkpoint`` is a pointer. Staged commits carry
a UUID, and which of them counts is decided elsewhere: by a catalog, or by the commit that is made from one.
"""

from __future__ import annotations

import re

from putifabsent.shim.names import Name, Role, Rule, Series

__all__ = ["ASKED", "FOLDERS", "RULES", "classify", "number_in"]

FORMAT = "delta"
FIRST = 0
FOLDERS = frozenset({"_delta_log", "_staged_commits", "_commits", "_sidecars"})

_COMMIT = re.compile(r"(?P<n>[0-9]{20})\.json")
ASKED = (rf".*/_delta_log/{_COMMIT.pattern}",)


def classify(path: str, folder: str, last: str) -> Name | None:
    """Return what Delta says of a name, or None if it lies outside a log folder."""
    if not folder.endswith("/_delta_log"):
        table, inside, _ = folder.rpartition("/_delta_log/")
        return Name(path, Role.OTHER, FORMAT, table, path, guarded=False) if inside else None
    table = folder[: -len("/_delta_log")]
    match = _COMMIT.fullmatch(last)
    if match is None:
        role = Role.POINTER if last == "_last_checkpoint" else Role.OTHER
        return Name(path, role, FORMAT, table, path, guarded=False)
    number = int(match["n"])
    before = (f"{folder}/{number - 1:020d}.json",) if number > FIRST else ()
    series = Series(number, FIRST, before, _COMMIT)
    return Name(path, Role.LOG_ENTRY, FORMAT, table, path, guarded=True, series=series)


def number_in(last: str) -> int | None:
    """Return the number of a commit, by its last component; None for what is none."""
    match = _COMMIT.fullmatch(last)
    return match and int(match["n"])


_TABLE = (
    (
        "_delta_log/<20 digits>.json",
        Role.LOG_ENTRY, True, "the name",
        "bucket/t/_delta_log/00000000000000000003.json",
        "",
    ),
    (
        "_delta_log/_last_checkpoint",
        Role.POINTER, False, "the name",
        "bucket/t/_delta_log/_last_checkpoint",
        "is overwritten",
    ),
    (
        "_delta_log/<n>.checkpoint*.parquet, <n>.<n>.compacted.json, <n>.crc",
        Role.OTHER, False, "the name",
        "bucket/t/_delta_log/00000000000000000010.checkpoint.parquet",
        "repeat what the commits say",
    ),
    (
        "_delta_log/_staged_commits/<n>.<uuid>.json, _commits/, _sidecars/",
        Role.OTHER, False, "the name",
        "bucket/t/_delta_log/_staged_commits/00000000000000000003.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json",
        "unique by their UUIDs",
    ),
)  # fmt: skip

RULES = tuple(Rule(*row) for row in _TABLE)
