"""What Hudi's files say of files: instants' metadata, names of slices, log files, plans of rollbacks.

The last component of its name identifies a file: file ids are UUIDs. Metadata has this component alone, or a
path from the table's root, or a full path; that differs from action to action.

A slice's write token says which attempt of which task wrote it. In the name of a log file of a table below
version 8, ``T`` is not the writer's instant, but that of the base file which it goes on with.

The history below table version 8 is in log files: each is a row of blocks, of which those of Avro records
count::

    #HUDI#                  6 bytes
    length of the block     8 bytes; from here to its end, all numbers big-endian
    version of the log      4
    kind of block           4; 3: Avro data
    header                  4: how many; each: 4 its key, 4 its length, the text; key 2: the Avro schema
    length of the content   8
    content                 4: version; 4: how many records; each: 4 its length, the record
    footer                  as the header
    length of the block     8; with the first 6 bytes

The plan in a requested rollback, which says what it takes back, is an Avro file of ``HoodieRollbackPlan``:
see ``hudi-common/src/main/avro/HoodieRollbackPlan.avsc``.
"""

from __future__ import annotations

import errno
import io
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from putifabsent.errors import ConfigError
from putifabsent.shim.formats.hudi import BASE_FILE, LOG_FILE

_NONE = ("", "null")


class Group(NamedTuple):
    """A file group: the partition, from the table's root, and the file id."""

    partition: str
    id: str


class Write(NamedTuple):
    """What a commit wrote of one file group."""

    group: Group
    last: str  # the file, by the last component of its name
    more: tuple[str, ...]  # files beside it: further log files, change data
    upon: str  # the instant whose slice it goes on with; empty: it begins a file group, or doesn't say
    size: int = 0  # of the file, in bytes, when it was written; 0: it doesn't say

    @property
    def is_base(self) -> bool:
        """Whether it is a base file, which holds all rows of its file group."""
        return not self.last.startswith(".")

    @property
    def lasts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.last, *self.more)))


class Removed(NamedTuple):
    """What an instant has removed, or was about to."""

    lasts: frozenset[str]  # files, by the last component of their names
    partitions: frozenset[str]  # those that went as a whole


def writes_in(metadata: Mapping[str, Any]) -> list[Write]:
    """Return what a commit, a deltacommit or a replacecommit says that it wrote."""
    found = []
    for partition, stats in _items(metadata, "partitionToWriteStats"):
        for stat in stats or ():
            path = stat.get("path")
            if path and path not in _NONE:
                more = (*(stat.get("logFiles") or ()), *(stat.get("cdcStats") or {}))
                upon = str(stat.get("prevCommit") or "")
                found.append(
                    Write(
                        Group(partition, str(stat.get("fileId") or "")),
                        _last(path),
                        tuple(map(_last, more)),
                        "" if upon in _NONE else upon,
                        max(int(stat.get("fileSizeInBytes") or 0), 0),
                    )
                )
    return found


def replaced_by(metadata: Mapping[str, Any]) -> frozenset[Group]:
    """Return the file groups that a replacecommit has replaced: readers pass them over from then on."""
    pairs = _items(metadata, "partitionToReplaceFileIds")
    return frozenset(Group(partition, id_) for partition, ids in pairs for id_ in ids or ())


def inputs_of(plan: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the files that a clustering was to read; None: this is no plan of one."""
    clustering = plan.get("clusteringPlan")
    if not clustering:
        return None
    slices = [each for group in clustering.get("inputGroups") or () for each in group.get("slices") or ()]
    return frozenset(
        _last(path)
        for each in slices
        for path in (each.get("dataFilePath"), *(each.get("deltaFilePaths") or ()))
        if path
    )


def is_service(plan: Mapping[str, Any]) -> bool:
    """Whether a plan is a compaction's or a clustering's: which is taken back, and performed again."""
    return bool(plan.get("operations") or plan.get("clusteringPlan"))


def removed_by(*metadata: Mapping[str, Any]) -> Removed:
    """Return what cleans, rollbacks and restores have removed, by their plans and by their metadata."""
    lasts: set[str] = set()
    partitions: set[str] = set()
    for each in metadata:
        _cleaned(each, lasts, partitions)
        for rollback in _rollbacks(each):
            for _, part in _items(rollback, "partitionMetadata"):
                lasts.update(map(_last, part.get("successDeleteFiles") or ()))
        for request in each.get("RollbackRequests") or each.get("rollbackRequests") or ():
            lasts.update(map(_last, request.get("filesToBeDeleted") or ()))
    return Removed(frozenset(lasts), frozenset(partitions))


def _cleaned(metadata: Mapping[str, Any], lasts: set[str], partitions: set[str]) -> None:
    for _, paths in _items(metadata, "filePathsToBeDeletedPerPartition"):
        lasts.update(_last(each.get("filePath") or "") for each in paths or ())
    for _, names in _items(metadata, "filesToBeDeletedPerPartition"):
        lasts.update(map(_last, names or ()))
    partitions.update(metadata.get("partitionsToBeDeleted") or ())
    if "startCleanTime" in metadata:
        for kind in ("partitionMetadata", "bootstrapPartitionMetadata"):
            for partition, part in _items(metadata, kind):
                lasts.update(map(_last, part.get("deletePathPatterns") or ()))
                lasts.update(map(_last, part.get("successDeleteFiles") or ()))
                if part.get("isPartitionDeleted"):
                    partitions.add(partition)


def undone_by(metadata: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the instants that a rollback or a restore took back, and log files that it wrote for that."""
    times: set[str] = set(metadata.get("instantsToRollback") or ())
    logs: set[str] = set()
    for rollback in _rollbacks(metadata):
        times.update(rollback.get("commitsRollback") or ())
        for _, part in _items(rollback, "partitionMetadata"):
            logs.update(map(_last, part.get("rollbackLogFiles") or ()))
            logs.update(map(_last, part.get("logFilesFromFailedCommit") or ()))
    return frozenset(times), frozenset(logs)


def saved_by(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Return the files that a savepoint keeps from the cleaner."""
    parts = _items(metadata, "partitionMetadata")
    return frozenset(_last(each) for _, part in parts for each in part.get("savepointDataFile") or ())


def _rollbacks(metadata: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "startRollbackTime" in metadata:
        yield metadata
    for _, rollbacks in _items(metadata, "hoodieRestoreMetadata"):
        yield from rollbacks or ()


def _items(metadata: Mapping[str, Any], name: str) -> Iterable[tuple[str, Any]]:
    return (metadata.get(name) or {}).items()


def _last(path: str) -> str:
    return path.rpartition("/")[2]


# --- names of slices


class Slice(NamedTuple):
    """A file of a file group."""

    group: str  # a file group's id
    token: str  # of the write; empty where the name has none
    instant: str  # ``T``
    is_log: bool  # else it is a base file


def slice_in(last: str) -> Slice | None:
    is_log = last.startswith(".")
    match = (LOG_FILE if is_log else BASE_FILE).fullmatch(last)
    return match and Slice(match["group"], match["token"] or "", match["t"], is_log)


# --- log files


_MAGIC = b"#HUDI#"
_AVRO_DATA = 3
_SCHEMA = 2
_FIRST_THAT_COUNTS = 1
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


class Block(NamedTuple):
    """A block of Avro records."""

    schema: str  # of all of them, in Avro's JSON
    records: tuple[bytes, ...]  # the bytes of each


class _Reader:
    """Takes a block apart, and never reads past its end."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> memoryview:
        if length < 0 or self._at + length > len(self._data):
            raise ValueError("a length in it points past its end")
        self._at += length
        return self._data[self._at - length : self._at]

    def four(self) -> int:
        return int(_INT.unpack(self.take(_INT.size))[0])

    def eight(self) -> int:
        return int(_LONG.unpack(self.take(_LONG.size))[0])

    def texts(self) -> dict[int, str]:
        return {self.four(): str(self.take(self.four()), "utf-8") for _ in range(self.four())}


def blocks(log: bytes) -> Iterator[Block]:
    """Return the blocks of Avro records in a log file, and pass over those of other kinds.

    ``ValueError``: it is cut off, or damaged, at the next block.
    """
    data = memoryview(log)
    at = 0
    while at < len(data):
        start = at + len(_MAGIC)
        if data[at:start] != _MAGIC:
            raise ValueError(f"no block begins at byte {at}")
        if start + _LONG.size > len(data):
            raise ValueError(f"the block at byte {at} is cut off")
        length = _LONG.unpack(data[start : start + _LONG.size])[0]
        end = start + _LONG.size + length
        if length < _LONG.size or end > len(data):
            raise ValueError(f"the block at byte {at} is cut off")
        if _LONG.unpack(data[end - _LONG.size : end])[0] != length + len(_MAGIC):
            raise ValueError(f"the block at byte {at} does not end as it begins")
        block = _block(_Reader(data[start + _LONG.size : end]))
        if block is not None:
            yield block
        at = end


def _block(reader: _Reader) -> Block | None:
    reader.four()
    kind = reader.four()
    header = reader.texts()
    if kind != _AVRO_DATA:
        return None
    content = _Reader(reader.take(reader.eight()))
    if content.four() < _FIRST_THAT_COUNTS:
        raise ValueError("a block is of a version that does not count its records")
    if _SCHEMA not in header:
        raise ValueError("a block of records has no schema")
    count = content.four()
    return Block(header[_SCHEMA], tuple(bytes(content.take(content.four())) for _ in range(count)))


# --- plans of rollbacks


def rolled_back(plan: bytes, path: str) -> str | None:
    """Return the instant that ``<R>.rollback.requested`` takes back; None: it names none.

    ``OSError``: they are no such plan: whoever went on without knowing could remove what another is
    completing. ``ConfigError``: the package that reads it is not installed.
    """
    try:
        import fastavro
    except ImportError as error:
        reason = "rollbacks of Hudi tables name what they take back in Avro: pip install 'putifabsent[hudi]'"
        raise ConfigError(reason) from error
    try:
        records: list[Any] = list(fastavro.reader(io.BytesIO(plan)))
        named = records[0]["instantToRollback"]
        return None if named is None else str(named["commitTime"])
    except (EOFError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = "this is no plan of a rollback, so nobody can tell what it takes back"
        raise OSError(errno.EINVAL, reason, path) from error
