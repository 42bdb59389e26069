"""What Hudi's instants say of files, once they are decoded: which they wrote, replaced, removed, took back.

Files are told by the last component of their names: file ids are UUIDs, so it is theirs alone. Metadata names
them by themselves, from the table's root, or in full; that differs from action to action.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Group", "Removed", "Write", "inputs_of", "is_service", "removed_by", "replaced_by", "saved_by"]
__all__ += ["undone_by", "writes_in"]

_NONE = ("", "null")


class Group(NamedTuple):
    """A file group: the partition, from the table's root, and the file id."""

    partition: str
    id: str


class Write(NamedTuple):
    """What a commit wrote of one file group.

    Attributes
    ----------
    group
        Which.
    last
        The file, by the last component of its name.
    more
        Files beside it: further log files, change data.
    upon
        The instant whose slice it goes on with; empty: it begins a file group, or doesn't say.
    """

    group: Group
    last: str
    more: tuple[str, ...]
    upon: str

    @property
    def is_base(self) -> bool:
        """Whether it is a base file, which holds all rows of its file group."""
        return not self.last.startswith(".")

    @property
    def lasts(self) -> tuple[str, ...]:
        """All its files."""
        return tuple(dict.fromkeys((self.last, *self.more)))


class Removed(NamedTuple):
    """What an instant has removed, or was about to.

    Attributes
    ----------
    lasts
        Files, by the last component of their names.
    partitions
        Those that went as a whole.
    """

    lasts: frozenset[str]
    partitions: frozenset[str]


def writes_in(metadata: Mapping[str, Any]) -> list[Write]:
    """Return what a commit, a deltacommit or a replacecommit says that it wrote."""
    found = []
    for partition, stats in _items(metadata, "partitionToWriteStats"):
        for stat in stats or ():
            path = stat.get("path")
            if path and path not in _NONE:
                more = (*(stat.get("logFiles") or ()), *(stat.get("cdcStats") or {}))
                upon = stat.get("prevCommit") or ""
                found.append(
                    Write(
                        Group(partition, str(stat.get("fileId") or "")),
                        _last(path),
                        tuple(map(_last, more)),
                        "" if upon in _NONE else upon,
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


def removed_by(*said: Mapping[str, Any]) -> Removed:
    """Return what cleans, rollbacks and restores have removed, by their plans and by their metadata."""
    lasts: set[str] = set()
    partitions: set[str] = set()
    for each in said:
        _cleaned(each, lasts, partitions)
        for rollback in _rollbacks(each):
            for _, part in _items(rollback, "partitionMetadata"):
                lasts.update(map(_last, part.get("successDeleteFiles") or ()))
        for request in each.get("RollbackRequests") or each.get("rollbackRequests") or ():
            lasts.update(map(_last, request.get("filesToBeDeleted") or ()))
    return Removed(frozenset(lasts), frozenset(partitions))


def _cleaned(said: Mapping[str, Any], lasts: set[str], partitions: set[str]) -> None:
    for _, paths in _items(said, "filePathsToBeDeletedPerPartition"):
        lasts.update(_last(each.get("filePath") or "") for each in paths or ())
    for _, names in _items(said, "filesToBeDeletedPerPartition"):
        lasts.update(map(_last, names or ()))
    partitions.update(said.get("partitionsToBeDeleted") or ())
    if "startCleanTime" in said:
        for kind in ("partitionMetadata", "bootstrapPartitionMetadata"):
            for partition, part in _items(said, kind):
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


def _items(said: Mapping[str, Any], name: str) -> Iterable[tuple[str, Any]]:
    return (said.get(name) or {}).items()


def _last(path: str) -> str:
    return path.rpartition("/")[2]
