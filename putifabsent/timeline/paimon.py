"""Paimon's timelines: snapshots, the changelogs that outlive them, and the manifests that they lead to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from putifabsent.errors import ConfigError
from putifabsent.shim.formats.paimon import (
    FOLDER,
    Entry,
    Index,
    Vector,
    bitmap_in,
    entry_of,
    index_of,
    number_in,
)
from putifabsent.timeline.files import (
    AvroFiles,
    Parsing,
    Problems,
    Trouble,
    below,
    listed,
    numbered,
    read,
    report,
    roaring,
)
from putifabsent.timeline.reading import (
    Numbered,
    Order,
    Part,
    Snapshot,
    Timeline,
    Whole,
    numbered_parts,
)

_TAG = "tag-"


class PaimonTimeline(Timeline[Snapshot]):
    """The snapshots of a Paimon table, or of a branch of one, in its folder ``branch/branch-<name>/``.

    ``LATEST`` and ``EARLIEST`` are hints: the snapshots that are there are listed. ``ConfigError``: there is
    no Paimon table: neither a schema nor a snapshot.
    """

    format = "paimon"
    COLUMNS = Snapshot.COLUMNS

    def __init__(self, fs: Any, root: str) -> None:
        super().__init__(fs, root)
        if not any(self._numbered(kind) for kind in ("schema", "snapshot")):
            raise ConfigError(f"there is no Paimon table at {root!r}: neither a schema nor a snapshot")

    def active(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[Snapshot]:
        """Return the snapshots; of several one after the other, each was committed upon the one before."""
        return self._read("snapshot", self._numbered("snapshot"), problems)

    def history(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[Snapshot]:
        """Return the changelogs of snapshots that have expired, where the table keeps them for longer."""
        return self._read("changelog", self._numbered("changelog"), problems)

    def _cut(self, whole: Whole, most: int | None, problems: Problems | None) -> Sequence[Part]:
        del problems
        # In this order: a changelog is there before its snapshot goes.
        there = self._numbered("snapshot") if whole.active else {}
        gone = self._numbered("changelog") if whole.history else {}
        return numbered_parts(there, gone, most, follows=whole.history)

    def records_in(self, part: Part, *, problems: Problems | None = None) -> Iterator[Snapshot]:
        """Return the snapshots of a part, then its changelogs."""
        if not isinstance(part, Numbered):
            yield from super().records_in(part, problems=problems)
            return
        found = set()
        for each in self._read("snapshot", dict(part.active), problems):
            found.add(each.number)
            yield each
        archived = dict(part.archived)
        if part.follows:
            archived |= {
                below(self.root, f"changelog/changelog-{number}"): number for _, number in part.active
            }
        unread = {path: number for path, number in archived.items() if number not in found}
        yield from self._read("changelog", unread, problems)

    def schemas(self) -> dict[int, tuple[str, bytes]]:
        """Return the files of schemas that are there, and what they hold, by their numbers."""
        paths = self._numbered("schema")
        return {paths[path]: (path, written) for path, written in read(self.fs, list(paths))}

    def tags(self, problems: Problems | None = None) -> dict[str, Snapshot]:
        """Return the snapshots that tags keep, by the names of these; the oldest one first."""
        names = {
            each.path: each.last.removeprefix(_TAG)
            for each in listed(self.fs, below(self.root, "tag"))
            if each.last.startswith(_TAG)
        }
        snapshots = {
            names[path]: snapshot_of(None, path, written, problems)
            for path, written in read(self.fs, list(names))
        }
        found = {name: each for name, each in snapshots.items() if each is not None}
        return dict(sorted(found.items(), key=lambda item: item[1].number))

    def hint(self, last: str) -> int:
        """Return which snapshot is ``LATEST``, or ``EARLIEST``, by the hint; 0: there is none."""
        written = b"".join(written for _, written in read(self.fs, [below(self.root, f"snapshot/{last}")]))
        return int(written) if written.strip().isdigit() else 0

    def _numbered(self, kind: str) -> dict[str, int]:
        return numbered(self.fs, below(self.root, kind), partial(number_in, kind))

    def _read(self, kind: str, numbers: Mapping[str, int], problems: Problems | None) -> Iterator[Snapshot]:
        for path, written in read(self.fs, list(numbers)):
            snapshot = snapshot_of(numbers[path], path, written, problems, kind)
            if snapshot is not None:
                yield snapshot


def snapshot_of(
    number: int | None, path: str, written: bytes, problems: Problems | None, kind: str = "snapshot"
) -> Snapshot | None:
    """Return what the file of a snapshot, or of a changelog, says; None: it is none, or another's.

    ``number`` is its name's; None: that has none, as a tag's.
    """
    with Parsing(problems, path, "snapshot", written):
        fields = json.loads(written)
        known = int(fields["id"])
        snapshot = Snapshot(
            number=known,
            action=str(fields["commitKind"]),
            user=str(fields["commitUser"]),
            identifier=int(fields["commitIdentifier"]),
            millis=int(fields["timeMillis"]),
            schema=int(fields["schemaId"]),
            path=path,
            archived=kind == "changelog",
            content=fields,
        )
        if number in (None, known):
            return snapshot
        report(problems, path, Trouble.COPIED, f"it says that it is snapshot {known}: it is a copy")
    return None


def names_in(snapshot: Snapshot, *kinds: str) -> list[str]:
    """Return the lists, or the index manifest, that a snapshot names."""
    return [str(snapshot.content[kind]) for kind in kinds if snapshot.content.get(kind)]


class Manifests:
    """The manifests of a table, also for snapshots of a branch; ``files`` tell what can't be read."""

    def __init__(self, fs: Any, table: str) -> None:
        self.files = AvroFiles(fs)
        self._fs = fs
        self._table = table
        self._folder = below(table, FOLDER)

    def ahead(self, lists: Sequence[str], indices: Sequence[str]) -> None:
        """Read lists, all manifests that they name, and index manifests, in as few rounds as it takes."""
        paths = self._paths(lists)
        self.files.load({**dict.fromkeys(paths, _name_in), **dict.fromkeys(self._paths(indices), index_of)})
        self.load([name for path in paths for name in self.files.records([path], _name_in) or ()])

    def load(self, names: Sequence[str]) -> None:
        """Read manifests, many at a time; those that were read are not forgotten yet."""
        self.files.load(dict.fromkeys(self._paths(names), entry_of))

    def named(self, snapshot: Snapshot, *kinds: str) -> list[str] | None:
        """Return the manifests that lists of a snapshot name, in order; None: one can't be read."""
        lists = [snapshot.content.get(kind) for kind in kinds]
        if None in lists:
            return None
        return self.files.records(self._paths([str(each) for each in lists]), _name_in)

    def entries(self, names: Sequence[str]) -> list[Entry] | None:
        """Return the entries of manifests, in order; None: one of them can't be read."""
        return self.files.records(self._paths(names), entry_of)

    def indices_of(self, snapshot: Snapshot) -> list[Index]:
        """Return the index files of a snapshot; none, if its index manifest can't be read."""
        found = self.files.records(self._paths(names_in(snapshot, "indexManifest")), index_of)
        return [each for each in found or () if each is not None]

    def vectors(self, snapshot: Snapshot) -> dict[str, Vector]:
        """Return the deletion vectors of a snapshot, by their data files."""
        return {each.file: each for index in self.indices_of(snapshot) for each in index.vectors}

    def paths_of(self, snapshot: Snapshot, *kinds: str) -> set[str]:
        """Return the lists of a snapshot, its manifests and its index manifest, by their full names."""
        lists, index = names_in(snapshot, *kinds), names_in(snapshot, "indexManifest")
        named = [each for path in lists for each in self.files.records(self._paths([path]), _name_in) or ()]
        return {*self._paths([*lists, *named, *index])}

    def deleted(self, vector: Vector) -> Any:
        """Return the rows that a deletion vector deletes, a ``pyroaring.BitMap``; None: it can't be read."""
        path = below(self._table, f"index/{vector.index_file}")
        try:
            written = self._fs.cat_file(path, start=vector.offset, end=vector.offset + 4 + vector.length)
        except FileNotFoundError:
            return None
        bitmap = bitmap_in(written)
        return None if bitmap is None else roaring().BitMap.deserialize(bitmap)

    def _paths(self, names: Sequence[str]) -> list[str]:
        return [below(self._folder, name) for name in names]


def _name_in(record: Mapping[str, Any]) -> str:
    return str(record["_FILE_NAME"])
