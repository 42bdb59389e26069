"""Paimon's names: snapshots, schemas and long-lived changelogs, of a table and of its branches.

Each is a numbered file in a folder of its own (``snapshot/snapshot-3``), beside ``schema/`` in the table's
root; a branch has the same folders under ``branch/branch-<name>/``. Schemas are counted from 0, the others
from 1. They are written to a hidden temporary file and renamed.

Other programs have a ``snapshot-3`` in a ``snapshot`` folder too, so evidence is needed:

``snapshot/snapshot-N``, ``schema/schema-N``
    The table's ``schema/schema-0`` (of a branch: the branch's own, or the table's). Creating the table writes
    it, before anything can be committed, and nothing ever removes it while the table lives.
``schema/schema-N`` in ``<database>.db/<table>/``
    None: that shape, which Paimon's catalogs give to a table's folder, is evidence in the name itself.
``schema/schema-0`` elsewhere
    ``snapshot/``. A table's creation has nothing beside it, so outside the catalogs' shape (a table with a
    path of its own) it is *not* guarded unless the mount names the format.

Commits come by a rename, all of them. What is written in place is written by a command: a branch is made, and
fast-forwarded, by copying schemas and snapshots with the flag to overwrite (a fast-forward copies the schemas
that both have, too), and whoever rolls back to a tag writes its expired snapshot again.

Manifests, index and data files carry UUIDs. ``LATEST`` and ``EARLIEST`` are pointers. Tags and consumers are
replaced on purpose. So is ``changelog/changelog-N``: it is made from the expiring ``snapshot-N`` alone, and
whoever repeats the expiry writes the same bytes again (``ChangelogManager.commitChangelog``).

A snapshot names manifest lists; a list names manifests; a manifest has entries that add a file or delete it.
The base list leads to all files of the snapshot before, the delta list to what this one has changed. An index
manifest names all index files of a snapshot; deletion vectors are some of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from putifabsent.shim.formats import check_shape
from putifabsent.shim.names import Enforced, Name, Role, Series, number_by

FORMAT = "paimon"
FOLDERS = frozenset({"snapshot", "schema", "changelog"})

_SNAPSHOT = re.compile(r"snapshot-(?P<n>[1-9][0-9]{0,18})")
_CHANGELOG = re.compile(r"changelog-(?P<n>[1-9][0-9]{0,18})")
_SCHEMA = re.compile(r"schema-(?P<n>0|[1-9][0-9]{0,18})")
_BRANCH = re.compile(r"(?P<table>.*)/branch/branch-[^/]+", re.DOTALL)
_IN_DATABASE = re.compile(r".*/[^/]+\.db/[^/]+", re.DOTALL)
_KINDS = {"snapshot": (_SNAPSHOT, 1), "schema": (_SCHEMA, 0), "changelog": (_CHANGELOG, 1)}
PATTERNS = (rf".*/snapshot/{_SNAPSHOT.pattern}", rf".*/schema/{_SCHEMA.pattern}")
POINTERS = frozenset({"LATEST", "EARLIEST"})


def classify(path: str, folder: str, last: str) -> Name | None:
    """Return what Paimon says of a name, or None if it is none of its numbered files or their pointers."""
    root, inside, kind = folder.rpartition("/")
    known = _KINDS.get(kind)
    if known is None or not inside:
        return None
    table = table_of(root)
    pattern, first = known
    match = pattern.fullmatch(last)
    if match is None:
        if last not in POINTERS or kind == "schema":
            return None
        return Name(path, Role.POINTER, FORMAT, table, path, guarded=False)
    if kind == "changelog":
        return Name(path, Role.SNAPSHOT, FORMAT, table, path, guarded=False)
    number = int(match["n"])
    before = (f"{folder}/{kind}-{number - 1}",) if number > first else ()
    return Name(
        path,
        Role.SNAPSHOT,
        FORMAT,
        table,
        path,
        guarded=True,
        evidence=_evidence(path, root, table, kind),
        series=Series(number, first, before, pattern),
        replaced=True,
    )


def number_in(kind: str, last: str) -> int | None:
    """Return the number of a file in ``snapshot``, ``schema`` or ``changelog``; None: it has none."""
    return number_by(_KINDS[kind][0], last)


def table_of(root: str) -> str:
    """Return the table that a folder is the root of, or of a branch of it: manifests and data lie there."""
    branch = _BRANCH.fullmatch(root) if "/branch/branch-" in root else None
    return branch["table"] if branch else root


def _evidence(path: str, root: str, table: str, kind: str) -> tuple[str, ...]:
    if kind == "schema" and _IN_DATABASE.fullmatch(table):
        return ()
    schemas = tuple(f"{each}/schema/schema-0" for each in dict.fromkeys((root, table)))
    return tuple(schema for schema in schemas if schema != path) or (f"{root}/snapshot",)


RULES = (
    ("snapshot/snapshot-<N>", Role.SNAPSHOT, True, "the name",
     "bucket/warehouse/db.db/t/snapshot/snapshot-3",
     "with schema/schema-0 in the table; commands may overwrite it: see below"),
    ("branch/branch-<name>/snapshot/snapshot-<N>", Role.SNAPSHOT, True, "the name",
     "bucket/warehouse/db.db/t/branch/branch-dev/snapshot/snapshot-3",
     "with schema/schema-0 in the branch or in the table; the same"),
    ("<database>.db/<table>/schema/schema-<N>", Role.SNAPSHOT, True, "the name",
     "bucket/warehouse/db.db/t/schema/schema-0", "commands may overwrite it"),
    ("schema/schema-<N> elsewhere", Role.SNAPSHOT, True, "the name",
     "bucket/t/schema/schema-1",
     "with schema-0 beside it; schema-0 itself with snapshot/, so not a new table's"),
    ("changelog/changelog-<N>", Role.SNAPSHOT, False, "the name",
     "bucket/warehouse/db.db/t/changelog/changelog-3",
     "is written again with the same bytes when a snapshot's expiry is repeated"),
    ("snapshot/LATEST, EARLIEST; changelog/LATEST, EARLIEST", Role.POINTER, False, "the name",
     "bucket/warehouse/db.db/t/snapshot/LATEST", "are overwritten"),
)  # fmt: skip

ENFORCED = Enforced(
    ("snapshot/snapshot-*", "schema/schema-*"),
    "Paimon's commands that write over snapshots or schemas (branches, rollbacks) go through the guard only.",
)


# --- what manifests say of files


FOLDER = "manifest"
"""Of manifests, their lists and index manifests, in the table's root."""

_ADD = 0


class File(NamedTuple):
    """A data file in a state: compaction may lift one to a higher level as it is."""

    level: int
    name: str  # a UUID in it makes it unique, whatever partition and bucket it is in


class Entry(NamedTuple):
    """A line of a manifest."""

    adds: bool  # else it deletes the file
    file: File
    more: tuple[str, ...]  # files that go with it
    elsewhere: bool  # whether it lies outside the table
    # partition, bucket: where it lies: the values of the partition's columns as a binary row, and the
    # bucket's number.
    partition: bytes
    bucket: int
    # Of its rows, the lowest and the highest; a writer numbers them on from those that it has seen. None: it
    # does not say.
    sequences: tuple[int, int] | None
    size: int  # of the file, in bytes; 0: it does not say


class Vector(NamedTuple):
    """Where the deletion vector of a data file lies."""

    file: str
    index_file: str
    # offset, length: bytes; ``length`` without the four before it that repeat it.
    offset: int
    length: int
    cardinality: int | None  # how many rows are deleted; None: it doesn't say


class Index(NamedTuple):
    """A line of an index manifest."""

    name: str
    vectors: tuple[Vector, ...]
    elsewhere: bool  # whether it lies outside the table


def entry_of(record: Mapping[str, Any]) -> Entry:
    file = record["_FILE"]
    lowest, highest = file.get("_MIN_SEQUENCE_NUMBER"), file.get("_MAX_SEQUENCE_NUMBER")
    return Entry(
        record["_KIND"] == _ADD,
        File(int(file["_LEVEL"]), str(file["_FILE_NAME"])),
        tuple(file.get("_EXTRA_FILES") or ()),
        bool(file.get("_EXTERNAL_PATH")),
        bytes(record["_PARTITION"]),
        int(record["_BUCKET"]),
        None if lowest is None or highest is None else (int(lowest), int(highest)),
        int(file.get("_FILE_SIZE") or 0),
    )


def index_of(record: Mapping[str, Any]) -> Index | None:
    """Return a record of an index manifest; None: it takes an index file away."""
    if record["_KIND"] != _ADD:
        return None
    ranges = record.get("_DELETIONS_VECTORS_RANGES") or ()
    name = str(record["_FILE_NAME"])
    vectors = tuple(
        Vector(str(each["f0"]), name, int(each["f1"]), int(each["f2"]), each.get("_CARDINALITY"))
        for each in ranges
        if each is not None
    )
    return Index(name, vectors, bool(record.get("_EXTERNAL_PATH")))


def live(entries: Iterable[Entry]) -> dict[File, Entry]:
    """Return the files that are left after entries, in their order."""
    files: dict[File, Entry] = {}
    for entry in entries:
        if entry.adds:
            files[entry.file] = entry
        else:
            files.pop(entry.file, None)
    return files


# --- rows that count

_UNORDERED = ("sequence.field", "sequence.snapshot-ordering")
_BY_SEQUENCE = ("deduplicate", "partial-update")


_OF_SCHEMA = {"fields": list, "options": dict, "partitionKeys": list, "primaryKeys": list}


def schema_of(written: bytes) -> dict[str, Any]:
    """Return what a schema's file says; ``ValueError``: it is torn, or has another shape."""
    found = json.loads(written)
    check_shape("a schema", found, {}, _OF_SCHEMA)
    for each in found.get("fields") or ():
        check_shape("a field", each, {"name": str})
    for key in ("partitionKeys", "primaryKeys"):
        if not all(isinstance(each, str) for each in found.get(key) or ()):
            raise ValueError(f"{key} of a schema are {found[key]!r:.40}")
    schema: dict[str, Any] = found
    return schema


def goes_by_sequence(schema: Mapping[str, Any]) -> bool:
    """Whether, of two rows with one key, the one with the higher sequence number counts."""
    options = schema.get("options") or {}
    by = options.get("merge-engine", "deduplicate") in _BY_SEQUENCE
    others = any(each in _UNORDERED or each.endswith(".sequence-group") for each in options)
    return bool(schema.get("primaryKeys")) and by and not others


_MAGIC = 1581511376
_HEADER = 8


def bitmap_in(vector: bytes) -> bytes | None:
    """Return the Roaring bitmap in a deletion vector; None: it is of another kind.

    From the vector's offset on: four bytes of length, four of the kind, and the bitmap of the rows it
    deletes. Source: ``BitmapDeletionVector`` of Paimon.
    """
    return vector[_HEADER:] if int.from_bytes(vector[4:_HEADER], "big") == _MAGIC else None


# --- where data files lie

_ARITY = 4
_WORD = 8
_ROW_KIND = 8
_IN_PLACE = 0x80
_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\{}\[\]^\x7f]""")
_WIDTHS = {"TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8}
_TEXTS = ("STRING", "VARCHAR", "CHAR")
# By these options data files, or index files, lie where only Paimon knows.
_ELSEWHERE = ("data-file.path-directory", "data-file.external-paths", "index-file-in-data-file-dir")


def partitioned_by(schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...] | None:
    """Return the names and types of a schema's partition columns; None: its files may lie anywhere."""
    options = schema.get("options") or {}
    if any(each in options for each in _ELSEWHERE) or "partitionKeys" not in schema:
        return None
    types = {each["name"]: str(each.get("type")) for each in schema.get("fields") or ()}
    return tuple((key, types.get(key, "")) for key in schema["partitionKeys"] or ())


def folder_of(entry: Entry, columns: Sequence[tuple[str, str]]) -> str | None:
    """Return where a data file lies, from the table's root; None: that is not known.

    Of columns (:func:`partitioned_by`) of other types than whole numbers and texts, how they are written
    depends on the writer, as it does of characters that paths keep for themselves. Source:
    ``FileStorePathFactory``, ``PartitionPathUtils`` and ``BinaryRow`` of Paimon 1.2.
    """
    if entry.bucket < 0:
        return None
    row, fixed = entry.partition[_ARITY:], _WORD * ((len(columns) + _ROW_KIND + 63) // 64)
    parts = []
    for at, (name, kind) in enumerate(columns):
        bit = _ROW_KIND + at
        start = fixed + _WORD * at
        if len(row) < start + _WORD or row[bit // 8] >> bit % 8 & 1:
            return None
        value = _value(row, row[start : start + _WORD], kind.split(" ")[0].partition("(")[0])
        if not value or not value.strip() or _ESCAPED.search(name + value):
            return None
        parts.append(f"{name}={value}/")
    return f"{''.join(parts)}bucket-{entry.bucket}"


def _value(row: bytes, word: bytes, kind: str) -> str | None:
    if kind in _WIDTHS:
        return str(int.from_bytes(word[: _WIDTHS[kind]], "little", signed=True))
    if kind not in _TEXTS:
        return None
    if word[-1] & _IN_PLACE:
        return word[: word[-1] & ~_IN_PLACE].decode(errors="replace")
    length, offset = int.from_bytes(word[:4], "little"), int.from_bytes(word[4:], "little")
    return row[offset : offset + length].decode(errors="replace")
