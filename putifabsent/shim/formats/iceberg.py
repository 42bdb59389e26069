"""Iceberg's names, for tables that are kept by path, without a catalog.

A commit renames a temporary file to ``metadata/v<N>.metadata.json``, counted from 1, or, where metadata is
compressed, to ``v<N>.gz.metadata.json`` (very old versions: ``v<N>.metadata.json.gz``). Readers take any of
the three, the plain one first. So one ``N`` is one identity with three names, and the plain one wins a tie.

No evidence is needed. The first commit has nothing beside it but its own temporary file, so evidence would
leave a table's creation open to a race; and the name is Iceberg's own: ``v<N>`` and ``.metadata.json``, in a
folder ``metadata``. A program that rewrites such a file in place breaks Iceberg's rule, and is refused.

But for Paimon, which can keep metadata for Iceberg's readers (``metadata.iceberg.storage``): ``v<N>`` repeats
what ``snapshot-N`` says, which alone is decided. Paimon writes it again when a tag is made or deleted, and
replaces it when a snapshot's number is used again. So it is left alone where Paimon's ``schema/schema-0``
shows whose table it is: beside ``metadata/``, or, of ``iceberg/<database>/<table>/metadata/``, in
``<database>.db/<table>/`` beside ``iceberg/``.

Tables with a catalog write ``<N>-<uuid>.metadata.json``: unique by itself, and left alone.

In metadata, manifest lists and manifests addresses are absolute: of a table's own they begin with its
``location``. Source: the table specification, "Manifests", "Snapshots".
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from putifabsent.shim.formats import check_shape
from putifabsent.shim.names import Enforced, Name, Role, Series, number_by

FORMAT = "iceberg"
FIRST = 1
FOLDERS = frozenset({"metadata"})

_VERSION = re.compile(
    r"v(?P<n>[1-9][0-9]{0,9})(?P<suffix>\.metadata\.json|\.gz\.metadata\.json|\.metadata\.json\.gz)"
)
PATTERNS = (rf".*/metadata/{_VERSION.pattern}",)
_OF_PAIMON = re.compile(r"(?P<warehouse>.*)/iceberg/(?P<database>[^/]+)/(?P<table>[^/]+)", re.DOTALL)
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")


def classify(path: str, folder: str, last: str) -> Name | None:
    """Return what Iceberg says of a name, or None if it is none of its path-based metadata."""
    if not folder.endswith("/metadata"):
        return None
    table = folder[: -len("/metadata")]
    match = _VERSION.fullmatch(last)
    if match is None:
        if last != "version-hint.text":
            return None
        return Name(path, Role.POINTER, FORMAT, table, path, guarded=False)
    number = int(match["n"])
    names = _names(folder, number)
    rank = _SUFFIXES.index(match["suffix"])
    return Name(
        path,
        Role.SNAPSHOT,
        FORMAT,
        table,
        names[0],
        guarded=True,
        aliases=names[:rank] + names[rank + 1 :],
        series=Series(number, FIRST, _names(folder, number - 1) if number > FIRST else (), _VERSION),
        rank=rank,
        unless=_tables_of_paimon(table),
    )


number_in = partial(number_by, _VERSION)
"""Return the number of path-based metadata, by its last component; None for what is none."""


def rank_in(last: str) -> int:
    """Return where a name stands among those of its number, by its last component: readers take the first."""
    match = _VERSION.fullmatch(last)
    return _SUFFIXES.index(match["suffix"]) if match else len(_SUFFIXES)


def hint_in(written: bytes) -> int | None:
    """Return the number that ``version-hint.text`` says; None: it says none."""
    text = written.strip()
    return int(text) if text.isdigit() else None


def is_metadata(last: str) -> bool:
    """Whether a name is that of metadata, by path or by a catalog, by its last component."""
    return last.endswith(_SUFFIXES)


def _tables_of_paimon(table: str) -> tuple[str, ...]:
    """Return the first schemas that Paimon's tables would have whose Iceberg metadata lies in ``table``."""
    match = _OF_PAIMON.fullmatch(table)
    elsewhere = (f"{match['warehouse']}/{match['database']}.db/{match['table']}",) if match else ()
    return tuple(f"{root}/schema/schema-0" for root in (table, *elsewhere))


def _names(folder: str, number: int) -> tuple[str, ...]:
    return tuple(f"{folder}/v{number}{suffix}" for suffix in _SUFFIXES)


RULES = (
    ("metadata/v<N>.metadata.json", Role.SNAPSHOT, True, "N",
     "bucket/db/t/metadata/v3.metadata.json",
     "wins a tie against the compressed names of N; as ever where Paimon keeps them: see below"),
    ("metadata/v<N>.gz.metadata.json, v<N>.metadata.json.gz", Role.SNAPSHOT, True, "N",
     "bucket/db/t/metadata/v3.gz.metadata.json", "the same"),
    ("metadata/version-hint.text", Role.POINTER, False, "the name",
     "bucket/db/t/metadata/version-hint.text", "is overwritten"),
)  # fmt: skip

ENFORCED = Enforced(
    ("metadata/v*.metadata.json", "metadata/v*.metadata.json.gz"),
    "Iceberg's tables with a catalog need none. Leave this format out where Paimon keeps metadata for "
    "Iceberg's readers: it writes that again.",
)


# --- what metadata and manifests say of files


_ADDED, _DELETED = 1, 2
_OF_DATA = 0
_PATH_FIELD = 2147483546
"""Of a position delete file: the column that names data files."""

_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}
"""Those by which some writers call what others call by another one."""


class Manifest(NamedTuple):
    """A line of a manifest list."""

    path: str  # an address
    deletes: bool  # whether it is of delete files; else it is of data files
    snapshot: int | None  # that wrote it


class Content(NamedTuple):
    """A line of a manifest."""

    path: str  # an address
    # added, live: whether this manifest's snapshot added it, and whether the table has it.
    added: bool
    live: bool
    about: str | None  # of a delete file: the one data file that it is for; None: it may be for several
    size: int  # of the file, in bytes; 0: it doesn't say, or what it says is of what was encrypted


_OF_TABLE = {
    "current-snapshot-id": int,
    "metadata-log": list,
    "properties": dict,
    "refs": dict,
    "snapshots": list,
}
_OF_SNAPSHOT = {"manifest-list": str, "parent-snapshot-id": int, "sequence-number": int, "summary": dict}


def metadata_of(written: bytes) -> dict[str, Any]:
    """Return what a metadata file says; ``ValueError``: it is torn, or has another shape."""
    try:
        found = json.loads(gzip.decompress(written) if written.startswith(b"\x1f\x8b") else written)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"it can't be unpacked: {error}") from error
    check_shape("a table", found, {"location": str}, _OF_TABLE)
    for each in found.get("snapshots") or ():
        check_shape("a snapshot", each, {"snapshot-id": int, "timestamp-ms": int}, _OF_SNAPSHOT)
    for each in found.get("metadata-log") or ():
        check_shape("the metadata-log", each, {"metadata-file": str})
    for each in (found.get("refs") or {}).values():
        check_shape("a branch or tag", each, {"snapshot-id": int})
    checked: dict[str, Any] = found
    return checked


def plain(address: str) -> str:
    """Return an address as it is compared: one store may have several schemes, and local files have none."""
    scheme, colon, rest = address.partition(":")
    if scheme == "file" and colon:
        return f"/{rest.lstrip('/')}"
    return f"{_SCHEMES[scheme]}:{rest}" if scheme in _SCHEMES else address


def manifest_of(record: Mapping[str, Any]) -> Manifest:
    """Return a record of a manifest list; ``KeyError``: it is none."""
    return Manifest(
        str(record["manifest_path"]), bool(record.get("content")), record.get("added_snapshot_id")
    )


def content_of(record: Mapping[str, Any]) -> Content:
    """Return a record of a manifest; ``KeyError``: it is none."""
    file, status = record["data_file"], record["status"]
    about = file.get("referenced_data_file")
    if about is None and file.get("content", _OF_DATA) != _OF_DATA:
        lowest, highest = (_bound(file, kind) for kind in ("lower_bounds", "upper_bounds"))
        about = lowest if lowest == highest else None
    size = 0 if file.get("key_metadata") else int(file.get("file_size_in_bytes") or 0)
    return Content(str(file["file_path"]), status == _ADDED, status != _DELETED, about, size)


def _bound(file: Mapping[str, Any], kind: str) -> str | None:
    for each in file.get(kind) or ():
        if each["key"] == _PATH_FIELD:
            return bytes(each["value"]).decode(errors="replace")
    return None
