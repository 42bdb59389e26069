"""Updates of a Hudi table that are provably lost: who wrote a file group had not seen another's."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.inspection.findings import Finding, Kind, Severity, found
from putifabsent.inspection.hudi_instants import undone_by_whom
from putifabsent.shim.formats.hudi_files import slice_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from putifabsent.inspection.hudi_told import Told
    from putifabsent.shim.formats.hudi_files import Group, Write

__all__ = ["lost_updates"]


class _Written(NamedTuple):
    by: Told
    write: Write


def lost_updates(told: Sequence[Told]) -> Iterator[Finding]:
    """Return updates that are lost, by what instants say that they wrote, and upon what.

    Parameters
    ----------
    told
        What all instants say, by when they were requested.
    """
    undone = undone_by_whom(told)
    # What was taken back has lost nothing to others; a service is performed again under its own T.
    standing = [
        each for each in told if each.has_written and (each.is_service or each.instant.time not in undone)
    ]
    by_group: dict[Group, list[_Written]] = defaultdict(list)
    for each in standing:
        for write in each.writes:
            by_group[write.group].append(_Written(each, write))
    for group, written in by_group.items():
        yield from _forked(group, written)
    for each in standing:
        for group in sorted(each.replaced):
            yield from _replaced(each, group, by_group.get(group, []))
    yield from _replaced_twice([each for each in standing if each.instant.time not in undone])


def _forked(group: Group, written: Sequence[_Written]) -> Iterator[Finding]:
    """Find base files that were made of the same slice: each holds all rows, but not those of the others."""
    made: dict[str, list[_Written]] = defaultdict(list)
    for each in written:
        if each.write.is_base and each.write.upon not in ("", each.by.instant.time):
            made[each.write.upon].append(each)
    for upon, several in made.items():
        several.sort(key=lambda each: each.by.instant.key("completed"))
        for earlier, later in pairwise(several):
            times = (earlier.by.instant.time, later.by.instant.time)
            if times[0] != times[1]:
                detail = (
                    f"instants {times[0]} and {times[1]} both went on with the slice of {upon} in file group "
                    f"{group.id}: the later one has not seen what the earlier one wrote"
                )
                lasts = (earlier.write.last, later.write.last)
                yield found(Kind.LOST_UPDATE, lasts, detail, moments=times)


def _replaced(replacing: Told, group: Group, written: Sequence[_Written]) -> Iterator[Finding]:
    """Find what was written to a file group that another has replaced without having seen it."""
    made = {write.group for write in replacing.writes}
    seen = {parsed.instant for last in replacing.inputs or () if (parsed := slice_in(last)) is not None}
    at = replacing.instant
    for each in written:
        other = each.by.instant
        # A compaction writes again what was there.
        if each.by is replacing or each.by.is_service or other.completion is None or at.completion is None:
            continue
        if replacing.inputs is None:
            # It was to take away what it found; what came after that was written to nobody's file group.
            is_late = other.completion > at.completion
        else:
            is_seen = not replacing.inputs.isdisjoint(each.write.lasts) or any(
                other.time <= time for time in seen
            )
            # With consistent hashing, writers write to both the old and the new file group meanwhile.
            is_twice = any(write.group in made for write in each.by.writes)
            is_late = other.completion > at.time and not is_seen and not is_twice
        if is_late:
            detail = (
                f"{other.action} {other.time} wrote to file group {group.id}, which {at.action} {at.time} "
                f"has replaced without it"
            )
            # Table version 6 takes times of completion from the store, where a copy of the table has others.
            severity = Severity.NOTICE if other.stamped or at.stamped else Severity.DAMAGE
            yield found(
                Kind.LOST_UPDATE, (each.write.last,), detail, moments=(other.time, at.time), severity=severity
            )


def _replaced_twice(standing: Sequence[Told]) -> Iterator[Finding]:
    """Find file groups that two instants have replaced: the later one can't have seen the earlier one."""
    by_group: dict[Group, list[Told]] = defaultdict(list)
    for each in standing:
        for group in each.replaced:
            by_group[group].append(each)
    twice: dict[tuple[str, str], list[tuple[Group, Told, Told]]] = defaultdict(list)
    for group, replacing in by_group.items():
        replacing.sort(key=lambda each: each.instant.key("completed"))
        for earlier, later in pairwise(replacing):
            # Two that removed rows, and wrote none, have removed the same.
            if earlier.instant.time != later.instant.time and (earlier.writes or later.writes):
                twice[earlier.instant.time, later.instant.time].append((group, earlier, later))
    for times, met in twice.items():
        _, earlier, later = met[0]
        partitions = {group.partition for group, _, _ in met}
        lasts = [
            write.last
            for each in (earlier, later)
            for write in each.writes
            if write.group.partition in partitions
        ]
        groups = ", ".join(sorted(group.id for group, _, _ in met))
        detail = (
            f"{earlier.instant.action} {times[0]} and {later.instant.action} {times[1]} have both replaced "
            f"file group {groups}: what it had is there twice, or has come back"
        )
        yield found(Kind.LOST_UPDATE, lasts, detail, moments=times)
