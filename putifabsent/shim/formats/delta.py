"""Delta Lake's names: what lies in ``_delta_log/``.

A commit is ``<20 digits>.json``, counted from 0. No evidence is needed: no other program has a folder of
that name, and the first commit is already in it.

Everything else there is left alone. Checkpoints, log compactions and checksums repeat what the commits
say: whoever writes one again writes the same state. ``_last_checkpoint`` is a pointer. Staged commits carry
a UUID, and which of them counts is decided elsewhere: by a catalog, or by the commit that is made from one.

In the actions of commits a path is relative to the table's root, percent-encoded, or an address of its own.
Writers differ in which characters they encode: one removes as ``p=ä/a`` what another added as ``p=%C3%A4/a``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

from putifabsent.shim.names import Enforced, Name, Role, Series, number_by

FORMAT = "delta"
FIRST = 0
FOLDERS = frozenset({"_delta_log", "_staged_commits", "_commits", "_sidecars"})

_COMMIT = re.compile(r"(?P<n>[0-9]{20})\.json")
PATTERNS = (rf".*/_delta_log/{_COMMIT.pattern}",)


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


number_in = partial(number_by, _COMMIT)
"""Return the number of a commit, by its last component; None for what is none."""


RULES = (
    ("_delta_log/<20 digits>.json", Role.LOG_ENTRY, True, "the name",
     "bucket/t/_delta_log/00000000000000000003.json", ""),
    ("_delta_log/_last_checkpoint", Role.POINTER, False, "the name",
     "bucket/t/_delta_log/_last_checkpoint", "is overwritten"),
    ("_delta_log/<n>.checkpoint*.parquet, <n>.<n>.compacted.json, <n>.crc", Role.OTHER, False, "the name",
     "bucket/t/_delta_log/00000000000000000010.checkpoint.parquet", "repeat what the commits say"),
    ("_delta_log/_staged_commits/<n>.<uuid>.json, _commits/, _sidecars/", Role.OTHER, False, "the name",
     "bucket/t/_delta_log/_staged_commits/00000000000000000003.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json",
     "unique by their UUIDs"),
)  # fmt: skip

ENFORCED = Enforced(
    (f"_delta_log/{'?' * 20}.json",),
    "Delta's checkpoints, checksums and pointers are overwritten, and stay as they are.",
)


# --- what commits say of files


SIDECARS = "_sidecars"
"""Of checkpoints: their folder, in the log's."""

_CHECKPOINT = re.compile(
    r"(?P<n>[0-9]{20})\.checkpoint(?:\.[0-9]{10}\.(?P<parts>[0-9]{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)"
)
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_IN_Z85 = 20
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/")


class Logical(NamedTuple):
    """A file as a transaction sees it: with another deletion vector it is another."""

    path: str  # as the log says it, decoded
    vector: str  # what tells its deletion vector from others; empty: it has none


class Added(NamedTuple):
    """What an ``add`` says of its file."""

    vector: str | None  # where its deletion vector lies, from the table's root; None: not there
    size: int  # bytes; 0: it doesn't say


class Checkpoint(NamedTuple):
    """What the name of a file of a checkpoint says: the last version in it, and of how many files it is."""

    number: int
    parts: int


def logical(action: Mapping[str, Any]) -> Logical:
    """Return the file that an ``add`` or a ``remove`` is about."""
    vector = action.get("deletionVector") or {}
    parts = (vector.get("storageType"), vector.get("pathOrInlineDv"), vector.get("offset"))
    return Logical(unquote(action["path"]), "/".join(map(str, parts)) if vector else "")


def added_by(action: Mapping[str, Any]) -> Added:
    """Return what an ``add`` says; the size may be 0, or less, where the writer did not know it."""
    size = action.get("size")
    return Added(_vector_of(action), max(size, 0) if isinstance(size, int) else 0)


def _vector_of(action: Mapping[str, Any]) -> str | None:
    """Return where the deletion vector of an ``add`` lies.

    Source: the protocol's "Derived Fields" of deletion vectors; a UUID in Z85, behind a folder's name.
    """
    vector = action.get("deletionVector") or {}
    encoded = str(vector.get("pathOrInlineDv") or "")
    if vector.get("storageType") != "u" or len(encoded) < _UUID_IN_Z85:
        return None
    folder, drawn = encoded[:-_UUID_IN_Z85], encoded[-_UUID_IN_Z85:]
    number = 0
    for start in range(0, _UUID_IN_Z85, 5):
        word = 0
        for character in drawn[start : start + 5]:
            word = word * 85 + _Z85.find(character)
        number = number << 32 | word & 0xFFFFFFFF
    text = f"{number:032x}"
    uuid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    return f"{folder}/" * bool(folder) + f"deletion_vector_{uuid}.bin"


def is_address(path: str) -> bool:
    """Whether a path is an address of its own, and not one from the table's root."""
    return _ABSOLUTE.match(path) is not None


def checkpoint_in(last: str) -> Checkpoint | None:
    """Return what a file of a checkpoint is, by its last component; None: it is none."""
    match = _CHECKPOINT.fullmatch(last)
    return match and Checkpoint(int(match["n"]), int(match["parts"] or 1))


def checksum_of(commit: str) -> str:
    """Return the name of a commit's checksum, in which its writer says which transaction it was."""
    return f"{commit.removesuffix('.json')}.crc"
