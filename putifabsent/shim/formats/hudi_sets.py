"""Which file groups a commit of Hudi's writes: whether two that are written at once would conflict.

Hudi compares two commits by the file groups that both of them write, when the second of them is about to be
completed: its work is done by then, and lost. What is known earlier:

- ``<T>.inflight`` says, before a byte of data is written, which file groups are updated, and how many rows
  are inserted into each partition (``BaseCommitActionExecutor.saveWorkloadProfileMetadataToInflight``);
- not, into which file groups those go: to the small ones first (``UpsertPartitioner.assignInserts``, below
  ``hoodie.parquet.small.file.limit``), so that two commits which insert alone rewrite one file. That is seen
  in the commits that a writer has completed: whether it went on with a file group, or began one;
- nor, which partitions are deleted (``SparkDeletePartitionCommitActionExecutor`` saves an empty profile).

A file group is its file id; under a bucket index the bucket, with whose number the id begins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

OWN, NEWCOMER = 2, 4
"""So many of its own last commits tell what a session writes next; of who has none, so many of anybody's."""

# Eight digits, of a number that is not large: any other id may begin with some.
_BUCKET = re.compile("00[0-9]{6}")
_NOTHING = ("", "null", None)
_SERVICES = frozenset({"CLUSTER", "COMPACT", "INDEX", "LOG_COMPACT"})
_OVER_PARTITIONS = frozenset({"DELETE_PARTITION", "INSERT_OVERWRITE"})
_OVER_ALL = "INSERT_OVERWRITE_TABLE"
_IN_NEW_GROUPS = frozenset({"BULK_INSERT", "BULK_INSERT_PREPPED"})


class Inserts(Enum):
    """Where a commit's new rows go."""

    NONE = 0  # there are none
    NEW = 1  # into file groups that it begins
    ANY = 2  # into file groups that others may take for theirs; or nobody knows


class Part(NamedTuple):
    """What a commit writes of a partition."""

    groups: frozenset[str] | None  # None: it replaces all that there are
    inserts: Inserts = Inserts.NONE  # where its new rows go


WriteSet: TypeAlias = "Mapping[str, Part] | None"
"""What a commit writes, by partition, from the table's root; None: it may be anything.

A name that ends with a slash, as no partition's of Hudi does, is a folder with all that is in it.
"""


def meet(one: WriteSet, other: WriteSet) -> bool:
    """Whether two commits may write one file group."""
    if one is None or other is None:
        return one is other or bool(one or other)
    same = (_meets(one[each], other[each]) for each in one.keys() & other.keys())
    return any(same) or _has_of(one, other) or _has_of(other, one)


def _has_of(one: Mapping[str, Part], other: Mapping[str, Part]) -> bool:
    """Whether a partition of the other lies in a folder of the one."""
    folders = tuple(each for each in one if each.endswith("/"))
    return any(f"{each}/".startswith(folders) for each in other)


def _meets(one: Part, other: Part) -> bool:
    if one.groups is None or other.groups is None:
        return True
    if one.inserts is Inserts.ANY and other.inserts is Inserts.ANY:
        return True
    return not one.groups.isdisjoint(other.groups)


def declared(metadata: Mapping[str, Any], habit: WriteSet) -> WriteSet:
    """Return what ``<T>.inflight`` says that a commit is going to write; empty, it says nothing.

    ``habit`` is what its session is expected to write: where its inserts go.
    """
    operation, stats = _operation(metadata), _stats(metadata)
    if stats is None or (operation in _OVER_PARTITIONS and not stats):
        return None  # a delete of partitions names them when it is completed
    found = {}
    for partition, each in stats.items():
        groups = frozenset(_group(stat) for stat in each if stat.get("fileId") not in _NOTHING)
        inserts = any(stat.get("numInserts") for stat in each)
        if operation in _OVER_PARTITIONS:
            found[partition] = Part(None)
        elif inserts and operation not in _IN_NEW_GROUPS:
            found[partition] = _both(Part(groups), (habit or {}).get(partition, _UNKNOWN))
        else:
            found[partition] = Part(groups, Inserts.NEW if inserts else Inserts.NONE)
    return found


def written(metadata: Mapping[str, Any]) -> WriteSet:
    """Return what a completed commit says that it has written."""
    operation, stats = _operation(metadata), _stats(metadata)
    if stats is None:
        return None
    found = {}
    for partition, each in stats.items():
        inserts = [stat for stat in each if stat.get("numInserts")]
        gone_on = any(stat.get("prevCommit") not in _NOTHING for stat in inserts)
        # A bucket that one begins, another may begin.
        is_any = gone_on or all(_group(stat).isdecimal() for stat in inserts)
        where = Inserts.NONE if not inserts else Inserts.ANY if is_any else Inserts.NEW
        is_over = operation in _OVER_PARTITIONS
        found[partition] = Part(None) if is_over else Part(frozenset(map(_group, each)), where)
    for partition in metadata.get("partitionToReplaceFileIds") or ():
        found[partition] = Part(None)
    return found


def planned(plan: Mapping[str, Any]) -> WriteSet:
    """Return what a clustering is going to replace, by its plan; of what is none, None."""
    clustering = plan.get("clusteringPlan")
    if not clustering:
        return None
    found: dict[str, Part] = {}
    for group in clustering.get("inputGroups") or ():
        for each in group.get("slices") or ():
            partition = each.get("partitionPath") or ""
            found[partition] = _both(found.get(partition, _NONE), Part(frozenset({_group(each)})))
    return found


def is_a_writers(metadata: Mapping[str, Any]) -> bool:
    """Whether a completed commit is a writer's, and no table service's."""
    return _operation(metadata) not in _SERVICES


def expected(last: Sequence[WriteSet]) -> WriteSet:
    """Return what a session is expected to write next, by its last commits, at most ``OWN``.

    Of who has none, by the table's, at most ``NEWCOMER``. Where more than one of them has put rows into a
    partition, and each into new file groups, so will the next: the small ones that there were were not taken.
    """
    if not last or any(each is None for each in last):
        return None
    found: dict[str, Part] = {}
    began: Counter[str] = Counter()
    for each in last:
        for partition, part in (each or {}).items():
            found[partition] = _both(found.get(partition, _NONE), part)
            began[partition] += part.inserts is Inserts.NEW
    for partition, part in found.items():
        if part.inserts is Inserts.NEW and began[partition] == 1:
            found[partition] = part._replace(inserts=Inserts.ANY)
    return found


def coarse(wants: WriteSet, most: int) -> WriteSet:
    """Return a set that meets all that it does, and names no more partitions and file groups than that."""
    if wants is None or len(wants) > most:
        return None
    if len(wants) + sum(len(part.groups or ()) for part in wants.values()) <= most:
        return wants
    return {partition: Part(None) if part.groups else part for partition, part in wants.items()}


def encoded(wants: WriteSet) -> Any:
    """Return a set as it is written, as JSON."""
    if wants is None:
        return None
    return {
        partition: [None if part.groups is None else sorted(part.groups), part.inserts.value]
        for partition, part in wants.items()
    }


def decoded(written: Any) -> WriteSet:
    """Return a set that was written; what another version has written may be anything."""
    with suppress(AttributeError, TypeError, ValueError):
        return {
            str(partition): Part(None if groups is None else frozenset(groups), Inserts(inserts))
            for partition, (groups, inserts) in written.items()
        }
    return None


_NONE = Part(frozenset())
_UNKNOWN = Part(frozenset(), Inserts.ANY)


def _both(one: Part, other: Part) -> Part:
    groups = None if one.groups is None or other.groups is None else one.groups | other.groups
    return Part(groups, max(one.inserts, other.inserts, key=lambda each: each.value))


def _group(stat: Mapping[str, Any]) -> str:
    name = str(stat.get("fileId"))
    bucket = _BUCKET.match(name)
    return bucket[0] if bucket else name


def _stats(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what is said of file groups, by partition; None: nothing, or all that there are go."""
    return None if _operation(metadata) == _OVER_ALL else metadata.get("partitionToWriteStats")


def _operation(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("operationType") or "").upper()
