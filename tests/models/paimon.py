"""Writers and compactors of a Paimon primary-key table, after Vanlightly's analysis of version 0.8 (2024).

Part 2, "Topology 1", gives the steps of a write and its commit; the Fizzbee specification what the text
leaves open. A row is of one key with two columns. Whoever commits retries where its snapshot is taken, with
the same data files, and checks one thing: that the files which it deletes are still there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from putifabsent.testing.explore import Actor
from tests.models.requests import (
    DONE,
    Acquire,
    Exists,
    Next,
    PutAll,
    Release,
    Remove,
    Rename,
    Request,
)
from tests.models.storage import State

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from tests.models.storage import Place

Process: TypeAlias = "Generator[Any, Any, Any]"
Vectors: TypeAlias = "dict[str, list[int]]"
Columns: TypeAlias = "tuple[str | None, str | None]"

TABLE = "/w/db.db/t"
NEW = State(frozenset([(f"{TABLE}/schema/schema-0", b"{}")]))
"""A table that has been made, and nothing else."""

_SNAPSHOT = re.compile(rf"{TABLE}/snapshot/snapshot-([0-9]+)")


class Row(NamedTuple):
    """A row, as a data file has it."""

    sequence: int
    kind: str
    key: str
    columns: Columns


class Entry(NamedTuple):
    """A data file, as a manifest has it; a deletion where ``adds`` is false."""

    adds: bool
    file: str
    level: int
    bucket: int


class Committed(NamedTuple):
    """What was acknowledged: a snapshot with its bytes; of a write, its row's number and what it set."""

    who: str
    version: int
    body: bytes
    sequence: int = 0
    key: str | None = None
    columns: Columns = (None, None)


def snapshot(version: int) -> str:
    """Return the name of a snapshot."""
    return f"{TABLE}/snapshot/snapshot-{version}"


class Tree(NamedTuple):
    """One version of the table: its data files, each bucket's deletion vectors, and what is in them."""

    version: int = 0
    entries: tuple[Entry, ...] = ()
    vector_files: tuple[tuple[int, str], ...] = ()
    data: tuple[tuple[str, tuple[Row, ...]], ...] = ()
    vectors: tuple[tuple[int, tuple[tuple[str, tuple[int, ...]], ...]], ...] = ()

    def of(self, bucket: int) -> tuple[Entry, ...]:
        """Return a bucket's files."""
        return tuple(each for each in self.entries if each.bucket == bucket)

    def deleted(self, bucket: int) -> Vectors:
        """Return a bucket's deletion vectors."""
        return {file: list(rows) for file, rows in dict(self.vectors).get(bucket, ())}

    def rows(self, bucket: int, files: Iterable[Entry]) -> list[tuple[Entry, int, Row]]:
        """Return the rows of files that no vector deletes, with their places."""
        data, deleted = dict(self.data), self.deleted(bucket)
        return [
            (entry, at, row)
            for entry in files
            for at, row in enumerate(data[entry.file])
            if at not in deleted.get(entry.file, ())
        ]

    def find(self, bucket: int, key: str) -> Row | None:
        """Return the row of a key: that of the highest sequence number."""
        rows = [row for _, _, row in self.rows(bucket, self.of(bucket)) if row.key == key]
        return max(rows, key=lambda row: row.sequence, default=None)

    def __str__(self) -> str:
        return (
            f"version {self.version}: {', '.join(_short(each.file) for each in self.entries) or 'no files'}"
        )


def merged(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Let each deletion cancel the addition before it; one that finds none stays."""
    left: dict[str, Entry] = {}
    for entry in entries:
        if entry.adds or entry.file not in left:
            left[entry.file] = entry
        else:
            del left[entry.file]
    return tuple(left.values())


def tree(files: Mapping[str, bytes], version: int) -> Tree:
    """Read one version of the table.

    Raises
    ------
    KeyError
        A file that it names is not there.
    """
    if version == 0:
        return Tree()
    said = json.loads(files[snapshot(version)])
    entries = merged(Entry(*each) for part in ("base", "delta") for each in json.loads(files[said[part]]))
    vector_files = tuple(map(tuple, json.loads(files[said["index"]]))) if said["index"] else ()
    data = ((each.file, tuple(map(_row, json.loads(files[each.file])))) for each in entries)
    vectors = (
        (bucket, tuple((file, tuple(rows)) for file, rows in sorted(json.loads(files[name]).items())))
        for bucket, name in vector_files
    )
    return Tree(version, entries, vector_files, tuple(data), tuple(vectors))


def _row(said: Any) -> Row:
    sequence, kind, key, (color, hobby) = said
    return Row(sequence, kind, key, (color, hobby))


def latest(files: Iterable[str]) -> int:
    """Return the number of the latest snapshot, or 0."""
    return max((int(match[1]) for match in map(_SNAPSHOT.fullmatch, files) if match), default=0)


@dataclass(frozen=True)
class ReadLatest(Request):
    """Read the latest snapshot and what it names."""

    def at(self, place: Place) -> Tree:
        files = place.files()
        return tree(files, latest(files))

    def __str__(self) -> str:
        return "read the latest snapshot"


@dataclass(frozen=True)
class Operation:
    """One write: ``insert`` and ``replace`` know all columns; ``set`` reads the row and changes one."""

    kind: str
    key: str
    columns: Columns


@dataclass(frozen=True)
class Writer:
    """A writer of one bucket.

    Attributes
    ----------
    lock
        Whether commits are made under a lock, after a look that the snapshot is not there.
    sequence_field
        Whether a service gives each write its sequence number; else the writer counts by itself, from the
        highest number that it has found when it started.
    """

    name: str
    bucket: int
    operations: tuple[Operation, ...]
    lock: bool = False
    sequence_field: bool = False

    def actor(self, follows: str | None = None) -> Actor:
        """Return the process."""
        return Actor(self.name, "write", lambda: _write(self), follows=follows)


@dataclass(frozen=True)
class Compactor:
    """A dedicated compactor, which rewrites one level of a bucket into the next."""

    name: str
    bucket: int
    level: int
    lock: bool = False

    def actor(self) -> Actor:
        """Return the process."""
        return Actor(self.name, "compact", lambda: _compact(self))


class Change(NamedTuple):
    """What a commit is to bring: the data layer, which stays as it is however often it is retried."""

    who: str
    entries: tuple[Entry, ...]
    vectors: tuple[int, str] | None = None
    sequence: int = 0
    key: str | None = None
    columns: Columns = (None, None)


def _write(writer: Writer) -> Process:
    start: Tree = yield ReadLatest()
    found = [row.sequence for _, _, row in start.rows(writer.bucket, start.of(writer.bucket))]
    sequence = max(found, default=0)
    number = 0
    while number < len(writer.operations):
        operation = writer.operations[number]
        number += 1
        columns = operation.columns
        if operation.kind == "set":
            now: Tree = yield ReadLatest()
            before = now.find(writer.bucket, operation.key)
            if before is None:
                return f"no {operation.key}"
            columns = columns[0] or before.columns[0], columns[1] or before.columns[1]
        sequence = (yield Next("sequence")) if writer.sequence_field else sequence + 1
        row = Row(sequence, "+I" if operation.kind == "insert" else "+U", operation.key, columns)
        who = f"{writer.name}-{number}"
        file = f"{TABLE}/bucket-{writer.bucket}/data-{who}.orc"
        yield PutAll(((file, json.dumps([row]).encode()),))
        entries = (Entry(True, file, 0, writer.bucket),)
        change = Change(who, entries, None, sequence, operation.key, operation.columns)
        yield from _commit(change, lock=writer.lock)
    return "committed"


def _compact(compactor: Compactor) -> Process:
    bucket, level, who = compactor.bucket, compactor.level, compactor.name
    seen: Tree = yield ReadLatest()
    while not (sources := [each for each in seen.of(bucket) if each.level == level]):
        seen = yield ReadLatest()
    newest: dict[str, Row] = {}
    for _, _, row in seen.rows(bucket, sources):
        if row.key not in newest or row.sequence > newest[row.key].sequence:
            newest[row.key] = row
    rows = tuple(newest[key] for key in sorted(newest))
    file = f"{TABLE}/bucket-{bucket}/data-{who}.orc"
    files = [(file, json.dumps(rows).encode())]
    before = seen.deleted(bucket)
    after = _vectors(seen, bucket, level, sources, {row.key for row in rows if row.kind == "+U"})
    vectors = None
    if after != before:
        vectors = bucket, f"{TABLE}/index/index-{who}"
        files.append((vectors[1], json.dumps(after, sort_keys=True).encode()))
    yield PutAll(tuple(files))
    entries = (*(each._replace(adds=False) for each in sources), Entry(True, file, level + 1, bucket))
    return (yield from _commit(Change(who, entries, vectors), lock=compactor.lock))


def _vectors(seen: Tree, bucket: int, level: int, sources: list[Entry], updated: set[str]) -> Vectors:
    """Return a bucket's vectors after a compaction: without files that go, with rows that are replaced."""
    gone = {each.file for each in sources}
    vectors = {file: rows for file, rows in seen.deleted(bucket).items() if file not in gone}
    higher = [each for each in seen.of(bucket) if each.level > level]
    for entry, at, row in seen.rows(bucket, higher):
        if row.key in updated:
            vectors[entry.file] = sorted([*vectors.get(entry.file, ()), at])
    return vectors


def _commit(change: Change, *, lock: bool) -> Process:
    while True:
        now: Tree = yield ReadLatest()
        if any(not each.adds for each in merged((*now.entries, *change.entries))):
            return "conflict"
        name = snapshot(now.version + 1)
        body, files = _metadata(change, now)
        yield PutAll(files)
        if lock:
            while not (yield Acquire("catalog", change.who)):
                pass
        if not (lock and (yield Exists(name))):
            says = Committed(change.who, now.version + 1, body, *change[3:])
            outcome = yield Rename(files[-1][0], name, says)
            if lock:
                yield Release(change.who)
            if outcome is DONE:
                return "committed"
        else:
            yield Release(change.who)
        yield Remove(tuple(name for name, _ in files))


def _metadata(change: Change, now: Tree) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    """Return a snapshot's bytes, and the files of a commit upon ``now``: itself last, by another name."""
    place = f"{TABLE}/manifest/{change.who}"
    index = dict(now.vector_files)
    if change.vectors is not None:
        index[change.vectors[0]] = change.vectors[1]
    files = [
        (f"{place}-base", json.dumps(now.entries).encode()),
        (f"{place}-delta", json.dumps(change.entries).encode()),
    ]
    if index:
        files.append((f"{place}-index", json.dumps(sorted(index.items())).encode()))
    named = {"base": files[0][0], "delta": files[1][0], "index": files[2][0] if index else None}
    body = json.dumps(named).encode()
    temporary = f"{TABLE}/snapshot/.snapshot-{now.version + 1}.{change.who}.tmp"
    return body, (*files, (temporary, body))


def _short(name: str) -> str:
    return name.rpartition("/")[2]
