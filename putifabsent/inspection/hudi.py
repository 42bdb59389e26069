"""Inspects a Hudi table: its instants, the updates that they prove to be lost, and its slices.

And an instant that is to be completed: its own slices, and what others have completed since it was requested.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from putifabsent.errors import ConfigError
from putifabsent.inspection.findings import (
    Files,
    Finding,
    Kind,
    Result,
    Severity,
    found,
    odd_sizes,
    read_errors,
)
from putifabsent.inspection.hudi_slices import (
    WRITING,
    Stats,
    compact,
    dangling,
    in_store,
    sizes_of,
    stats_in,
    stats_of,
    undone_by_whom,
    wrong_slices,
)
from putifabsent.shim.formats.hudi import SAVEPOINT, instant_in
from putifabsent.shim.formats.hudi_files import slice_in
from putifabsent.shim.formats.hudi_salt import recorded
from putifabsent.timeline import Details, Fault, HudiTimeline, Instant, State, check_steps
from putifabsent.timeline.files import content_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from putifabsent.inspection.findings import Base, Look
    from putifabsent.shim.formats.hudi_files import Group, Write
    from putifabsent.shim.formats.hudi_steps import Seen
    from putifabsent.shim.names import Name
    from putifabsent.timeline import Content, Problems

_METADATA_TABLE = "/.hoodie/metadata"
_UNDOING = ("rollback", "restore")
_COMMIT = "commit"


def judge(timeline: HudiTimeline, look: Look | None) -> Result:
    """Return what is wrong with a Hudi table; None for ``look``: its data files are not looked at."""
    problems: Problems = []
    stats = stats_of(timeline, problems)
    instants = [each.instant for each in stats]
    collided = _collided(instants)
    # A metadata table takes instants back and writes them again.
    is_metadata_table = timeline.root.endswith(_METADATA_TABLE)
    findings = [
        *read_errors(problems, Kind.MISSING_HISTORY),
        *map(_collision, collided.values()),
        # The clocks of its zone may be put back in autumn.
        *_steps(instants, {time for time, _ in collided}, may_fall_back=timeline.layout.zone != "UTC"),
        *(() if is_metadata_table else _undone(stats)),
        *_pending(instants),
        *_uncompleted(stats),
        *_lost_updates(stats),
    ]
    if look is not None:
        # The timeline was read before: what is written meanwhile is no instant's yet.
        files = look(timeline.root, (".hoodie",))
        _refuse_salted(files)
        findings += wrong_slices(
            stats,
            files,
            timeline.root,
            first_version=timeline.layout.first,
            is_whole=not problems,
            is_metadata_table=is_metadata_table,
        )
        if not is_metadata_table:
            findings += odd_sizes(timeline.fs, sizes_of(stats, files), files.paths, appended=True)
    return Result(f"table version {timeline.layout.version}", instants, findings)


def _refuse_salted(files: Files) -> None:
    """Refuse files that no instant names as they are called, for only a salted mount can tell which count."""
    salted = next((path for path in files.paths if recorded(path) != path), None)
    if salted is not None:
        raise ConfigError(
            f"{salted} bears its writer's salt: which files count, only a mount with the writers' option can "
            'tell, salt="slices" or "keep-both" (-o salt=...)'
        )


def hurts(base: Base, name: Name, written: bytes) -> list[Finding]:
    """Return what an instant would do to its table that is to be completed."""
    step = instant_in(name.path.rpartition("/")[2])
    if step is None or step.state != "completed" or step.action not in WRITING:
        return []
    metadata = content_of(written, name.path, [])
    if metadata is None:
        return []
    instant = Instant(step.instant, step.action, State.COMPLETED, step.completion)
    own = compact(instant, Details(None, metadata))
    wanted = {
        last: "/".join(part for part in (write.group.partition, last) if part)
        for write in own.writes
        for last in in_store(write.lasts)
    }
    absent = set(base.absent(wanted))
    there = {last: path for last, path in wanted.items() if last not in absent}
    return [
        *dangling([own], Files({}, there), base.root, is_proof=True),
        *_odd_slices(own),
        *_met(base, own, metadata),
    ]


def _odd_slices(own: Stats) -> Iterator[Finding]:
    """Find base files of another instant than the one that names them, and two of one file group."""
    time = own.instant.time
    bases: defaultdict[Group, list[str]] = defaultdict(list)
    for write in own.writes:
        if not write.is_base:
            continue
        bases[write.group].append(write.last)
        parsed = slice_in(write.last)
        if parsed is not None and parsed.instant != time:
            detail = f"instant {time} names a slice of instant {parsed.instant}"
            yield found(Kind.ORPHANED_SLICE, (write.last,), detail, moments=(time,))
    for group, lasts in bases.items():
        if len(set(lasts)) > 1:
            detail = f"instant {time} names two slices of file group {group.id}"
            yield found(Kind.RIVAL_SLICES, lasts, detail, moments=(time,))


def _met(base: Base, own: Stats, metadata: Content) -> Iterator[Finding]:
    """Find updates that are lost to what others have completed since an instant was requested.

    The names of table version 6 don't tell when that was.
    """
    instant = own.instant
    if instant.completion is None:
        return
    try:
        timeline = HudiTimeline(base.fs, base.root)
    except ConfigError:
        return  # of a version that is not known
    active = list(timeline.active())
    others = [each for each in active if (each.completion or "") > instant.time]
    if not others:
        return
    known: dict[str, Stats] = base.memory or {}
    unknown = (each for each in others if each.path not in known)
    known |= {each.instant.path: each for each in stats_in(timeline, unknown, [], base.until)}
    base.memory = {each.path: known[each.path] for each in active if each.path in known}
    base.remembered = sum(1 + len(each.writes) for each in base.memory.values())
    met = [known[each.path] for each in others if each.path in known]
    pending = next((each for each in active if each.time == instant.time and each.completion is None), None)
    if pending is not None:
        own = compact(instant, Details(timeline.details(pending, []).plan, metadata))
    yield from (
        each
        for each in _lost_updates([*met, own])
        if instant.time in each.moments and each.severity is Severity.DAMAGE
    )


def _collided(instants: Sequence[Instant]) -> dict[tuple[str, str], list[Instant]]:
    """Return instants that were completed under one T; a savepoint of T is another's."""
    completed: dict[tuple[str, str], list[Instant]] = defaultdict(list)
    for each in instants:
        if each.state is State.COMPLETED and each.action != SAVEPOINT:
            completed[each.time, each.salt].append(each)
    return {key: found for key, found in completed.items() if len(found) > 1}


def _collision(instants: list[Instant]) -> Finding:
    time = instants[0].time
    completions = " and ".join(
        f"as {each.action}" + (f" at {each.completion}" if each.completion else "") for each in instants
    )
    detail = f"instant {time} was completed {completions}"
    return found(Kind.COLLIDING_INSTANTS, [each.path for each in instants], detail, moments=(time,))


def _steps(instants: Sequence[Instant], collided: set[str], *, may_fall_back: bool) -> Iterator[Finding]:
    for each in check_steps(instants):
        time, before, after = each.after.time, each.before, each.after
        kind, names, severity = Kind.INVALID_STEP, [after.name], Severity.DAMAGE
        detail = f"instant {each}"
        if each.fault is Fault.BACKWARDS:
            kind = Kind.BACKWARDS
            detail = f"instant {time} was completed at {after.completion}, before it was requested"
            if may_fall_back and _is_within_an_hour(after):
                severity = Severity.NOTICE
        elif time in collided:
            continue
        elif each.fault is Fault.CHANGED and before is not None:
            kind, names = Kind.CONTESTED_INSTANT, [name for name in (before.name, after.name) if name]
            actions = [step.action or "commit" for step in (before, after)]
            detail = f"instant {time} is {actions[0]}'s and {actions[1]}'s at once"
        yield found(kind, names, detail, moments=(time,), severity=severity)


def _is_within_an_hour(seen: Seen) -> bool:
    """Whether an instant was completed at most an hour before its request: clocks are put back by that."""
    instant = Instant(seen.time, seen.action, State.COMPLETED, seen.completion)
    began, ended = instant.begun_at, instant.ended_at
    return began is not None and ended is not None and began - ended <= timedelta(hours=1)


def _undone(stats: Sequence[Stats]) -> Iterator[Finding]:
    undone = undone_by_whom(stats)
    for each in stats:
        by = undone.get(each.instant.time)
        if by is None or not each.has_written or each.is_service:
            continue
        time = each.instant.time
        detail = f"instant {time} is completed, and {by.action} {by.time} has taken it back"
        yield found(Kind.UNDONE_INSTANT, (each.instant.path, by.path), detail, moments=(time, by.time))


def _pending(instants: Sequence[Instant]) -> Iterator[Finding]:
    for each in instants:
        if each.state is not State.COMPLETED and each.action in _UNDOING:
            detail = f"{each.action} {each.time} is {each.state.value}, and not completed"
            yield found(Kind.PENDING_UNDO, (each.path,), detail, moments=(each.time,))


def _uncompleted(stats: Sequence[Stats]) -> Iterator[Finding]:
    """Find commits that are pending, though a completed one came upon their slices: they had been completed.

    Compactions are left out, for Hudi writes logs upon a slice that one is about to make; so is all that an
    undoing which has not ended may be about.
    """
    pending = {each.instant.time: each.instant for each in stats if each.instant.state is not State.COMPLETED}
    if any(each.action in _UNDOING for each in pending.values()):
        return
    lost = {
        write.upon: each.instant
        for each in stats
        for write in each.writes
        if write.is_base and write.upon in pending and pending[write.upon].began == _COMMIT
    }
    for time, upon in sorted(lost.items()):
        detail = (
            f"commit {time} is {pending[time].state.value}, and {upon.action} {upon.time} came upon its "
            "slices: its completed name is gone. Restore it before Hudi's next writer takes the commit back"
        )
        yield found(Kind.INVALID_STEP, (pending[time].path,), detail, moments=(time, upon.time))


def _lost_updates(stats: Sequence[Stats]) -> Iterator[Finding]:
    """Return updates that are provably lost: who wrote a file group had not seen another's."""
    undone = undone_by_whom(stats)
    # What was taken back has lost nothing to others; a service is performed again under its own T.
    standing = [
        each for each in stats if each.has_written and (each.is_service or each.instant.time not in undone)
    ]
    by_group: dict[Group, list[tuple[Stats, Write]]] = defaultdict(list)
    for each in standing:
        for write in each.writes:
            by_group[write.group].append((each, write))
    for group, written in by_group.items():
        yield from _forked(group, written)
    for each in standing:
        for group in sorted(each.replaced):
            yield from _replaced(each, group, by_group.get(group, []))
    yield from _replaced_twice([each for each in standing if each.instant.time not in undone])


def _forked(group: Group, written: Sequence[tuple[Stats, Write]]) -> Iterator[Finding]:
    """Find base files that were made of the same slice: each holds all rows, but not those of the others."""
    made: dict[str, list[tuple[Stats, Write]]] = defaultdict(list)
    for by, write in written:
        if write.is_base and write.upon not in ("", by.instant.time):
            made[write.upon].append((by, write))
    for upon, several in made.items():
        several.sort(key=lambda each: each[0].instant.key("completed"))
        for (earlier, first), (later, second) in pairwise(several):
            times = (earlier.instant.time, later.instant.time)
            if times[0] != times[1]:
                detail = (
                    f"instants {times[0]} and {times[1]} both went on with the slice of {upon} in file group "
                    f"{group.id}: the later one has not seen what the earlier one wrote"
                )
                yield found(Kind.LOST_UPDATE, (first.last, second.last), detail, moments=times)


def _replaced(replacing: Stats, group: Group, written: Sequence[tuple[Stats, Write]]) -> Iterator[Finding]:
    """Find what was written to a file group that another has replaced without having seen it."""
    made = {write.group for write in replacing.writes}
    seen = {parsed.instant for last in replacing.inputs or () if (parsed := slice_in(last)) is not None}
    at = replacing.instant
    for by, write in written:
        other = by.instant
        # A compaction writes again what was there.
        if by is replacing or by.is_service or other.completion is None or at.completion is None:
            continue
        if replacing.inputs is None:
            # It was to take away what it found; what came after that was written to nobody's file group.
            is_late = other.completion > at.completion
        else:
            is_seen = not replacing.inputs.isdisjoint(write.lasts) or any(other.time <= time for time in seen)
            # With consistent hashing, writers write to both the old and the new file group meanwhile.
            is_twice = any(each.group in made for each in by.writes)
            is_late = other.completion > at.time and not is_seen and not is_twice
        if is_late:
            detail = (
                f"{other.action} {other.time} wrote to file group {group.id}, which {at.action} {at.time} "
                f"has replaced without it"
            )
            # Table version 6 takes times of completion from the store, where a copy of the table has others.
            severity = Severity.NOTICE if other.stamped or at.stamped else Severity.DAMAGE
            moments = (other.time, at.time)
            yield found(Kind.LOST_UPDATE, (write.last,), detail, moments=moments, severity=severity)


def _replaced_twice(standing: Sequence[Stats]) -> Iterator[Finding]:
    """Find file groups that two instants have replaced: the later one can't have seen the earlier one."""
    by_group: dict[Group, list[Stats]] = defaultdict(list)
    for each in standing:
        for group in each.replaced:
            by_group[group].append(each)
    twice: dict[tuple[str, str], list[tuple[Group, Stats, Stats]]] = defaultdict(list)
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
