"""What Paimon's manifests say of files, once they are decoded.

A snapshot names manifest lists; a list names manifests; a manifest has entries that add a file or delete it.
The base list leads to all files of the snapshot before, the delta list to what this one has changed. An index
manifest names all index files of a snapshot; deletion vectors are some of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FOLDER", "Entry", "File", "Index", "entry_of", "index_of", "live"]

FOLDER = "manifest"
"""Of manifests, their lists and index manifests, in the table's root."""

_ADD = 0


class File(NamedTuple):
    """A data file in a state: compaction may lift one to a higher level as it is.

    Attributes
    ----------
    level
        Where it is.
    name
        Its own; a UUID in it makes it unique, whatever partition and bucket it is in.
    """

    level: int
    name: str


class Entry(NamedTuple):
    """A line of a manifest.

    Attributes
    ----------
    adds
        Whether it adds the file; else it deletes it.
    file
        Which.
    more
        Files that go with it.
    elsewhere
        Whether it lies outside the table.
    """

    adds: bool
    file: File
    more: tuple[str, ...]
    elsewhere: bool


class Index(NamedTuple):
    """A line of an index manifest.

    Attributes
    ----------
    name
        The index file's.
    vectors
        The data files that deletion vectors in it are for.
    elsewhere
        Whether it lies outside the table.
    """

    name: str
    vectors: tuple[str, ...]
    elsewhere: bool


def entry_of(record: Mapping[str, Any]) -> Entry:
    """Return a record of a manifest."""
    file = record["_FILE"]
    return Entry(
        record["_KIND"] == _ADD,
        File(int(file["_LEVEL"]), str(file["_FILE_NAME"])),
        tuple(file.get("_EXTRA_FILES") or ()),
        bool(file.get("_EXTERNAL_PATH")),
    )


def index_of(record: Mapping[str, Any]) -> Index | None:
    """Return a record of an index manifest; None: it takes an index file away."""
    if record["_KIND"] != _ADD:
        return None
    ranges = record.get("_DELETIONS_VECTORS_RANGES") or ()
    vectors = tuple(str(each["f0"]) for each in ranges if each is not None)
    return Index(str(record["_FILE_NAME"]), vectors, bool(record.get("_EXTERNAL_PATH")))


def live(entries: Iterable[Entry], before: Mapping[File, Entry] | None = None) -> dict[File, Entry]:
    """Return the files that are left of ``before`` after entries, in their order."""
    files = dict(before or {})
    for entry in entries:
        if entry.adds:
            files[entry.file] = entry
        else:
            files.pop(entry.file, None)
    return files
