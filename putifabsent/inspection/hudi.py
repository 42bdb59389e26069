"""Inspects a Hudi table: its instants, the updates that they prove to be lost, and its slices."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.inspection.findings import Finding, Kind, Result, Severity, found, read_errors
from putifabsent.inspection.hudi_slices import wrong_files
from putifabsent.inspection.hudi_stats import stats_of, undone_by_whom
from putifabsent.shim.formats.hudi_files import slice_in
from putifabsent.timeline import Fault, State, check_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from putifabsent.inspection.findings import Look
    from putifabsent.inspection.hudi_stats import CommitStats
    from putifabsent.shim.formats.hudi_files import Group, Write
    from putifabsent.timeline import HudiTimeline, Instant, Problems

__all__ = ["judge"]

_METADATA_TABLE = "/.hoodie/metadata"
_UNDOING = ("rollback", "restore")
_SAVEPOINT = "savepoint"


def judge(timeline: HudiTimeline, look: Look | None) -> Result:
    """Return what is wrong with a Hudi table.

    Parameters
    ----------
    timeline
        The table's.
    look
        Lists its data files; None: they are not looked at.
    """
    problems: Problems = []
    stats = stats_of(timeline, problems)
    is_metadata_table = timeline.root.endswith(_METADATA_TABLE)
    findings: list[Finding] = read_errors(problems, Kind.MISSING_HISTORY)
    findings += _wrong_instants(stats, is_metadata_table=is_metadata_table)
    findings += _lost_updates(stats)
    if look is not None:
        # The timeline was read before: what is written meanwhile is no instant's yet.
        findings += wrong_files(
            stats,
            look(timeline.root, (".hoodie",)),
            timeline.root,
            first_version=timeline.layout.first,
            is_whole=not problems,
            is_metadata_table=is_metadata_table,
        )
    return Result(f"table version {timeline.layout.version}", [each.instant for each in stats], findings)


def _wrong_instants(stats: Sequence[CommitStats], *, is_metadata_table: bool) -> Iterator[Finding]:
    """Return what is wrong with instants, by their names and times, and by what took them back.

    A metadata table takes instants back and writes them again.
    """
    instants = [each.instant for each in stats]
    collided = _collided(instants)
    yield from map(_collision, collided.values())
    yield from _steps(instants, {time for time, _ in collided})
    if not is_metadata_table:
        yield from _undone(stats)
    yield from _pending(instants)


def _path_of(instant: Instant) -> str:
    """Return the file that shows an instant in its state."""
    return instant.source or instant.files[-1].path


def _collided(instants: Sequence[Instant]) -> dict[tuple[str, str], list[Instant]]:
    """Return instants that were completed under one T; a savepoint of T is another's."""
    completed: dict[tuple[str, str], list[Instant]] = defaultdict(list)
    for each in instants:
        if each.state is State.COMPLETED and each.action != _SAVEPOINT:
            completed[each.time, each.salt].append(each)
    return {key: found for key, found in completed.items() if len(found) > 1}


def _collision(instants: list[Instant]) -> Finding:
    time = instants[0].time
    completions = " and ".join(
        f"as {each.action}" + (f" at {each.completion}" if each.completion else "") for each in instants
    )
    detail = f"instant {time} was completed {completions}"
    return found(Kind.COLLIDING_INSTANTS, [_path_of(each) for each in instants], detail, moments=(time,))


def _steps(instants: Sequence[Instant], collided: set[str]) -> Iterator[Finding]:
    for each in check_steps(instants):
        time, after = each.after.time, each.after
        moments = (time,)
        if each.fault is Fault.BACKWARDS:
            detail = f"instant {time} was completed at {after.completion}, before it was requested"
            yield found(Kind.BACKWARDS, (after.name,), detail, moments=moments)
        elif time in collided:
            continue
        elif each.fault is Fault.CHANGED and each.before is not None:
            before = each.before
            names = [name for name in (before.name, after.name) if name]
            detail = (
                f"instant {time} is {before.action or 'commit'}'s and {after.action or 'commit'}'s at once"
            )
            yield found(Kind.CONTESTED_INSTANT, names, detail, moments=moments)
        else:
            yield found(Kind.INVALID_STEP, (after.name,), f"instant {each}", moments=moments)


def _undone(stats: Sequence[CommitStats]) -> Iterator[Finding]:
    undone = undone_by_whom(stats)
    for each in stats:
        by = undone.get(each.instant.time)
        if by is None or not each.has_written or each.is_service:
            continue
        time = each.instant.time
        detail = f"instant {time} is completed, and {by.action} {by.time} has taken it back"
        names = (_path_of(each.instant), _path_of(by))
        yield found(Kind.UNDONE_INSTANT, names, detail, moments=(time, by.time))


def _pending(instants: Sequence[Instant]) -> Iterator[Finding]:
    for each in instants:
        if each.state is not State.COMPLETED and each.action in _UNDOING:
            detail = f"{each.action} {each.time} is {each.state.value}, and not completed"
            yield found(Kind.PENDING_UNDO, (_path_of(each),), detail, moments=(each.time,))


class _Written(NamedTuple):
    by: CommitStats
    write: Write


def _lost_updates(stats: Sequence[CommitStats]) -> Iterator[Finding]:
    """Return updates that are provably lost: who wrote a file group had not seen another's."""
    undone = undone_by_whom(stats)
    # What was taken back has lost nothing to others; a service is performed again under its own T.
    standing = [
        each for each in stats if each.has_written and (each.is_service or each.instant.time not in undone)
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


def _replaced(replacing: CommitStats, group: Group, written: Sequence[_Written]) -> Iterator[Finding]:
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


def _replaced_twice(standing: Sequence[CommitStats]) -> Iterator[Finding]:
    """Find file groups that two instants have replaced: the later one can't have seen the earlier one."""
    by_group: dict[Group, list[CommitStats]] = defaultdict(list)
    for each in standing:
        for group in each.replaced:
            by_group[group].append(each)
    twice: dict[tuple[str, str], list[tuple[Group, CommitStats, CommitStats]]] = defaultdict(list)
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
