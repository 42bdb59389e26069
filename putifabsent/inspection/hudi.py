"""Inspects a Hudi table: its instants, the updates that they prove to be lost, and its slices.

And an instant that is to be completed: its own slices, and what others have completed since it was requested.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice, pairwise
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.errors import ConfigError
from putifabsent.inspection.findings import (
    Files,
    Finding,
    Kind,
    Result,
    Severity,
    count_of,
    found,
    read_errors,
)
from putifabsent.shim.formats.hudi import completed_as, instant_in
from putifabsent.shim.formats.hudi_files import (
    Removed,
    Slice,
    inputs_of,
    is_service,
    removed_by,
    replaced_by,
    saved_by,
    slice_in,
    undone_by,
    writes_in,
)
from putifabsent.timeline import Details, Fault, HudiTimeline, Instant, State, check_steps
from putifabsent.timeline.files import content_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from putifabsent.inspection.findings import Base, Look
    from putifabsent.shim.formats.hudi_files import Group, Write
    from putifabsent.shim.formats.hudi_steps import Seen
    from putifabsent.shim.names import Name
    from putifabsent.timeline import Content, Problems

__all__ = ["hurts", "judge"]

_WRITING = frozenset(("commit", "deltacommit", "replacecommit"))
"""What writes slices, as it is called when it is completed."""

_METADATA_TABLE = "/.hoodie/metadata"
_UNDOING = ("rollback", "restore")
_SAVEPOINT = "savepoint"
_IN_LEVELS = 8
_AT_ONCE = 32
_EMPTY = "0-0-0"
_EXTERNAL = "_hudiext"
"""Ends the names of files that others have written, and that are called otherwise in the store."""
_NOTHING = Removed(frozenset(), frozenset())


def judge(timeline: HudiTimeline, look: Look | None) -> Result:
    """Return what is wrong with a Hudi table.

    Parameters
    ----------
    look
        Lists its data files; None: they are not looked at.
    """
    problems: Problems = []
    stats = _stats_of(timeline, problems)
    is_metadata_table = timeline.root.endswith(_METADATA_TABLE)
    findings: list[Finding] = read_errors(problems, Kind.MISSING_HISTORY)
    may_fall_back = timeline.layout.zone != "UTC"
    findings += _wrong_instants(stats, is_metadata_table=is_metadata_table, may_fall_back=may_fall_back)
    findings += _lost_updates(stats)
    if look is not None:
        # The timeline was read before: what is written meanwhile is no instant's yet.
        findings += _wrong_slices(
            stats,
            look(timeline.root, (".hoodie",)),
            timeline.root,
            first_version=timeline.layout.first,
            is_whole=not problems,
            is_metadata_table=is_metadata_table,
        )
    return Result(f"table version {timeline.layout.version}", [each.instant for each in stats], findings)


def hurts(base: Base, name: Name, written: bytes) -> list[Finding]:
    """Return what an instant would do to its table that is to be completed."""
    step = instant_in(name.path.rpartition("/")[2])
    if step is None or step.state != "completed" or step.action not in _WRITING:
        return []
    metadata = content_of(written, name.path, [])
    if metadata is None:
        return []
    instant = Instant(step.instant, step.action, State.COMPLETED, step.completion)
    own = _compact(instant, Details(None, metadata))
    wanted = {
        last: "/".join(part for part in (write.group.partition, last) if part)
        for write in own.writes
        for last in _in_store(write.lasts)
    }
    absent = set(base.absent(wanted))
    there = {last: path for last, path in wanted.items() if last not in absent}
    return [
        *_dangling([own], Files(frozenset(), there), base.root, is_proof=True),
        *_odd_slices(own),
        *_met(base, own, metadata),
    ]


def _odd_slices(own: _Stats) -> Iterator[Finding]:
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


def _met(base: Base, own: _Stats, metadata: Content) -> Iterator[Finding]:
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
    known: dict[str, _Stats] = base.memory or {}
    unknown = (each for each in others if _path_of(each) not in known)
    known |= {_path_of(each.instant): each for each in _stats_in(timeline, unknown, [], base.until)}
    base.memory = {path: known[path] for path in map(_path_of, active) if path in known}
    met = [known[path] for path in map(_path_of, others) if path in known]
    pending = next((each for each in active if each.time == instant.time and each.completion is None), None)
    if pending is not None:
        own = _compact(instant, Details(timeline.details(pending, []).plan, metadata))
    yield from (
        each
        for each in _lost_updates([*met, own])
        if instant.time in each.moments and each.severity is Severity.DAMAGE
    )


def _wrong_instants(
    stats: Sequence[_Stats], *, is_metadata_table: bool, may_fall_back: bool
) -> Iterator[Finding]:
    """Return what is wrong with instants, by their names and times, and by what took them back.

    Parameters
    ----------
    is_metadata_table
        Whether it is one: it takes instants back and writes them again.
    may_fall_back
        Whether the table's times are of a zone whose clocks may be put back in autumn.
    """
    instants = [each.instant for each in stats]
    collided = _collided(instants)
    yield from map(_collision, collided.values())
    yield from _steps(instants, {time for time, _ in collided}, may_fall_back=may_fall_back)
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


def _steps(instants: Sequence[Instant], collided: set[str], *, may_fall_back: bool) -> Iterator[Finding]:
    for each in check_steps(instants):
        time, after = each.after.time, each.after
        moments = (time,)
        if each.fault is Fault.BACKWARDS:
            detail = f"instant {time} was completed at {after.completion}, before it was requested"
            severity = Severity.NOTICE if may_fall_back and _is_within_an_hour(after) else Severity.DAMAGE
            yield found(Kind.BACKWARDS, (after.name,), detail, moments=moments, severity=severity)
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


def _is_within_an_hour(seen: Seen) -> bool:
    """Whether an instant was completed at most an hour before its request: clocks are put back by that."""
    instant = Instant(seen.time, seen.action, State.COMPLETED, seen.completion)
    began, ended = instant.begun_at, instant.ended_at
    return began is not None and ended is not None and began - ended <= timedelta(hours=1)


def _undone(stats: Sequence[_Stats]) -> Iterator[Finding]:
    undone = _undone_by_whom(stats)
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
    by: _Stats
    write: Write


def _lost_updates(stats: Sequence[_Stats]) -> Iterator[Finding]:
    """Return updates that are provably lost: who wrote a file group had not seen another's."""
    undone = _undone_by_whom(stats)
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


def _replaced(replacing: _Stats, group: Group, written: Sequence[_Written]) -> Iterator[Finding]:
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


def _replaced_twice(standing: Sequence[_Stats]) -> Iterator[Finding]:
    """Find file groups that two instants have replaced: the later one can't have seen the earlier one."""
    by_group: dict[Group, list[_Stats]] = defaultdict(list)
    for each in standing:
        for group in each.replaced:
            by_group[group].append(each)
    twice: dict[tuple[str, str], list[tuple[Group, _Stats, _Stats]]] = defaultdict(list)
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


# --- what instants say of files


@dataclass(frozen=True, slots=True)
class _Stats:
    """What an instant says that it wrote, replaced and removed.

    Attributes
    ----------
    legible
        Whether what it says could be read.
    inputs
        Of a clustering: the files that it was to read.
    is_service
        Whether it is a compaction or a clustering, which is taken back, and performed again.
    removed
        What it has removed, or was about to.
    undone, logs
        Of a rollback or a restore: the instants that it took back, and log files that it wrote to do so.
    saved
        Of a savepoint: the files that it keeps.
    """

    instant: Instant
    legible: bool
    writes: tuple[Write, ...] = ()
    replaced: frozenset[Group] = frozenset()
    inputs: frozenset[str] | None = None
    is_service: bool = False
    removed: Removed = _NOTHING
    undone: frozenset[str] = frozenset()
    logs: frozenset[str] = frozenset()
    saved: frozenset[str] = frozenset()

    @property
    def has_written(self) -> bool:
        """Whether it is completed, and of those that write slices."""
        return self.instant.state is State.COMPLETED and self.instant.action in _WRITING


def _stats_of(timeline: HudiTimeline, problems: Problems) -> list[_Stats]:
    """Return what all instants say, by when they were requested; what can't be read is added to problems."""
    active = list(timeline.active(problems=problems))
    there = {each.identity for each in active}
    archived = (each for each in timeline.history(raw=True, problems=problems) if each.identity not in there)
    found = list(_stats_in(timeline, active, problems))
    found += (_compact(replace(each, raw=None), timeline.details(each, problems)) for each in archived)
    return sorted(found, key=lambda each: each.instant.key("requested"))


def _stats_in(
    timeline: HudiTimeline, active: Iterable[Instant], problems: Problems, until: float = inf
) -> Iterator[_Stats]:
    """Return what active instants say, some of which are read at once; as far as time allows."""
    rest = iter(active)
    while monotonic() <= until and (some := list(islice(rest, _AT_ONCE))):
        yield from map(_compact, some, timeline.details_of(some, problems))


def _compact(instant: Instant, details: Details) -> _Stats:
    plan = details.plan.value if details.plan else {}
    metadata = details.metadata.value if details.metadata else {}
    is_completed = instant.state is State.COMPLETED
    writes = instant.action in _WRITING and is_completed
    undone, logs = undone_by(metadata)
    return _Stats(
        instant,
        legible=details.metadata is not None or not is_completed,
        writes=tuple(writes_in(metadata)) if writes else (),
        replaced=replaced_by(metadata) if writes else frozenset(),
        inputs=inputs_of(plan),
        is_service=is_service(plan),
        removed=removed_by(plan, metadata),
        undone=undone,
        logs=logs,
        saved=saved_by(metadata) if instant.action == _SAVEPOINT and is_completed else frozenset(),
    )


def _undone_by_whom(stats: Sequence[_Stats]) -> dict[str, Instant]:
    """Return the instants that completed rollbacks and restores say that they took back, and which did so."""
    return {
        time: each.instant for each in stats if each.instant.state is State.COMPLETED for time in each.undone
    }


# --- slices


class _There(NamedTuple):
    path: str
    last: str
    slice: Slice


def _wrong_slices(
    stats: Sequence[_Stats],
    files: Files,
    root: str,
    *,
    first_version: int,
    is_whole: bool,
    is_metadata_table: bool,
) -> Iterator[Finding]:
    """Return what is wrong with slices.

    Parameters
    ----------
    stats
        What all instants say, by when they were requested.
    first_version
        The table version that it began with: below 8, a log file's name doesn't say whose it is.
    is_whole
        Whether all of the timeline could be read.
    is_metadata_table
        Whether it is one: it begins each file group with an empty log file that no instant names, drops
        whole partitions without saying so, and leaves log files of what it takes back.
    """
    slices = [each for each in _slices(files) if not (is_metadata_table and each.slice.token == _EMPTY)]
    is_proof = is_whole and not is_metadata_table
    yield from _dangling(stats, files, root, is_proof=is_proof)
    yield from _unnamed(stats, slices, judges_logs=first_version >= _IN_LEVELS, is_proof=is_proof)
    if first_version >= _IN_LEVELS and is_proof:
        yield from _hidden(stats, slices)


def _in_store(lasts: Iterable[str]) -> list[str]:
    """Return the names of files that are called so in the store, too."""
    return [last for last in lasts if not last.endswith(_EXTERNAL)]


def _dangling(stats: Sequence[_Stats], files: Files, root: str, *, is_proof: bool) -> Iterator[Finding]:
    gone = {last for each in stats for last in each.removed.lasts}
    partitions = {(part, each.instant.time) for each in stats for part in each.removed.partitions}
    undone = _undone_by_whom(stats)
    severity = Severity.DAMAGE if is_proof else Severity.NOTICE

    def is_removed(group: Group, last: str, time: str) -> bool:
        return last in gone or any(part == group.partition and time <= when for part, when in partitions)

    for each in stats:
        instant = each.instant
        by = undone.get(instant.time)
        if by is not None and not (each.is_service and by.time < (instant.completion or "")):
            continue
        missing = [
            "/".join(part for part in (root, write.group.partition, last) if part)
            for write in each.writes
            for last in _in_store(write.lasts)
            if last not in files.lasts and not is_removed(write.group, last, instant.time)
        ]
        missing += [f"{root}/**/{last}" for last in _in_store(sorted(each.saved - files.lasts.keys()))]
        if missing:
            what = "savepoint of" if each.saved else instant.action
            detail = (
                f"{what} {instant.time} names {count_of(missing)} not there, "
                f"and no clean or rollback says why"
            )
            yield found(Kind.DANGLING_REFERENCE, missing, detail, moments=(instant.time,), severity=severity)


def _unnamed(
    stats: Sequence[_Stats], slices: Sequence[_There], *, judges_logs: bool, is_proof: bool
) -> Iterator[Finding]:
    named = {last for each in stats for write in each.writes for last in write.lasts}
    named.update(last for each in stats for last in each.logs)
    ours: dict[tuple[str, str], _There] = {}
    strangers: dict[str, list[_There]] = defaultdict(list)
    for there in slices:
        if there.last in named:
            ours[there.slice.instant, there.slice.group] = there
        elif judges_logs or not there.slice.is_log:
            strangers[there.slice.instant].append(there)
    times = _Times(stats)
    undone = _undone_by_whom(stats)
    for time, unnamed in strangers.items():
        if time in times.completed:
            if time not in times.illegible:
                yield from _strange(time, unnamed, ours)
        elif time not in times.known:
            yield _abandoned(time, unnamed, times, is_undone=time in undone, is_proof=is_proof)


class _Times:
    """The instants that are known, and where the timeline begins."""

    def __init__(self, stats: Sequence[_Stats]) -> None:
        self.known = {each.instant.time for each in stats}
        self.completed = {each.instant.time for each in stats if each.has_written}
        self.illegible = {each.instant.time for each in stats if not each.legible}
        self.first = min(self.known, default="")
        active = (
            each.instant.time
            for each in stats
            if not each.instant.archived and completed_as(each.instant.action) in _WRITING
        )
        self.first_active = min(active, default="")


def _slices(files: Files) -> list[_There]:
    found = ((path, last, slice_in(last)) for last, path in files.lasts.items())
    there = [_There(path, last, parsed) for path, last, parsed in found if parsed is not None]
    return sorted(there)


def _hidden(stats: Sequence[_Stats], slices: Sequence[_There]) -> Iterator[Finding]:
    """Find file groups that begin with a log file of nobody's commit: readers pass over all of them.

    Source: hudi#19774. A file group without base files begins at the instant of its first log file, and
    releases up to 1.2.0 leave it out if that instant is not completed.
    """
    times = _Times(stats)
    groups: defaultdict[str, list[_There]] = defaultdict(list)
    for each in slices:
        groups[each.slice.group].append(each)
    for group, inside in groups.items():
        inside.sort(key=lambda each: each.slice.instant)
        first = inside[0].slice
        hidden = sorted({each.slice.instant for each in inside} & times.completed)
        if not first.is_log or not all(each.slice.is_log for each in inside) or not hidden:
            continue
        if first.instant in times.completed or first.instant < times.first_active:
            continue
        is_pending = first.instant in times.known
        whose = "is not completed yet" if is_pending else "was never completed"
        detail = (
            f"file group {group} begins with a log file of instant {first.instant}, which {whose}: what "
            f"instants {', '.join(hidden)} have committed to it is not read"
        )
        severity = Severity.NOTICE if is_pending else Severity.DAMAGE
        moments = (first.instant, *hidden)
        yield found(Kind.HIDDEN_ROWS, [inside[0].path], detail, moments=moments, severity=severity)


def _strange(
    time: str, unnamed: Sequence[_There], ours: Mapping[tuple[str, str], _There]
) -> Iterator[Finding]:
    """Tell slices that a completed instant does not name from those that stand beside one that it names."""
    orphans = []
    for each in unnamed:
        rival = ours.get((time, each.slice.group))
        if rival is None:
            orphans.append(each.path)
        elif not each.slice.is_log:
            detail = (
                f"of file group {each.slice.group} there are two slices of instant {time}, and it names one"
            )
            yield found(Kind.RIVAL_SLICES, (rival.path, each.path), detail, moments=(time,))
        elif rival.slice.is_log:
            detail = (
                f"instant {time} names a log file of file group {each.slice.group}, and not the one beside it"
            )
            names = (rival.path, each.path)
            yield found(Kind.RIVAL_SLICES, names, detail, moments=(time,), severity=Severity.NOTICE)
    if orphans:
        detail = f"instant {time} is completed, and does not name {count_of(orphans)} there under it"
        yield found(Kind.ORPHANED_SLICE, orphans, detail, moments=(time,))


def _abandoned(
    time: str, unnamed: list[_There], times: _Times, *, is_undone: bool, is_proof: bool
) -> Finding:
    if not times.first or time < times.first or not is_proof:
        why, severity = "the timeline does not say all that was before", Severity.NOTICE
    elif time < times.first_active:
        why, severity = (
            "the active timeline begins after it, so readers may take it for committed",
            Severity.DAMAGE,
        )
    else:
        why, severity = (
            "readers don't see it as long as the active timeline reaches back so far",
            Severity.NOTICE,
        )
    took = "; it was rolled back" if is_undone else ""
    slices = "there is a slice" if len(unnamed) == 1 else f"there are {len(unnamed):,} slices"
    detail = f"nobody has completed instant {time}, and {slices} of it{took}: {why}"
    names = [each.path for each in unnamed]
    return found(Kind.ABANDONED_SLICE, names, detail, moments=(time,), severity=severity)
