"""What the instants of a Hudi table say of slices, and what is wrong with those that are there."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import inf
from time import monotonic
from typing import NamedTuple

from putifabsent.inspection.findings import Files, Finding, Kind, Recorded, Severity, count_of, found, many
from putifabsent.shim.formats.hudi import SAVEPOINT, completed_as
from putifabsent.shim.formats.hudi_files import (
    Group,
    Removed,
    Slice,
    Write,
    inputs_of,
    is_service,
    removed_by,
    replaced_by,
    saved_by,
    slice_in,
    undone_by,
    writes_in,
)
from putifabsent.timeline import Details, HudiTimeline, Instant, Problems, State, Trouble
from putifabsent.timeline.files import report

WRITING = frozenset(("commit", "deltacommit", "replacecommit"))
"""What writes slices, as it is called when it is completed."""
_IN_LEVELS = 8
_AT_ONCE = 32
_EMPTY = "0-0-0"
_EXTERNAL = "_hudiext"
"""Ends the names of files that others have written, and that are called otherwise in the store."""
_NOTHING = Removed(frozenset(), frozenset())
_LARGEST = Recorded(sys.maxsize, "")


@dataclass(frozen=True, slots=True)
class Stats:
    """What an instant says that it wrote, replaced and removed, or was about to remove."""

    instant: Instant
    legible: bool
    writes: tuple[Write, ...] = ()
    replaced: frozenset[Group] = frozenset()
    inputs: frozenset[str] | None = None  # of a clustering: the files that it was to read
    # Whether it is a compaction or a clustering, which is taken back, and performed again.
    is_service: bool = False
    removed: Removed = _NOTHING
    # undone, logs: of a rollback or a restore, the instants that it took back, and log files that it wrote to
    # do so.
    undone: frozenset[str] = frozenset()
    logs: frozenset[str] = frozenset()
    saved: frozenset[str] = frozenset()  # of a savepoint: the files that it keeps

    @property
    def has_written(self) -> bool:
        return self.instant.state is State.COMPLETED and self.instant.action in WRITING


def stats_of(timeline: HudiTimeline, problems: Problems) -> list[Stats]:
    """Return what all instants say, by when they were requested; what can't be read is added to problems."""
    active = list(timeline.active(problems=problems))
    there = {each.identity for each in active}
    archived = (each for each in timeline.history(raw=True, problems=problems) if each.identity not in there)
    found = list(stats_in(timeline, active, problems))
    found += (
        _compacted(problems, replace(each, raw=None), timeline.details(each, problems)) for each in archived
    )
    return sorted(found, key=lambda each: each.instant.key("requested"))


def stats_in(
    timeline: HudiTimeline, active: Iterable[Instant], problems: Problems, until: float = inf
) -> Iterator[Stats]:
    """Return what active instants say, some of which are read at once; as far as time allows."""
    rest = iter(active)
    while monotonic() <= until and (some := list(islice(rest, _AT_ONCE))):
        yield from map(partial(_compacted, problems), some, timeline.details_of(some, problems))


def _compacted(problems: Problems, instant: Instant, details: Details) -> Stats:
    try:
        return compact(instant, details)
    except (AttributeError, TypeError) as error:
        reason = f"it says of files what is not known: {error}"
        report(problems, instant.path, Trouble.UNREADABLE, reason, error)
        return compact(instant, Details(None, None))


def compact(instant: Instant, details: Details) -> Stats:
    """Return what an instant's plan and metadata say of files."""
    plan = details.plan.value if details.plan else {}
    metadata = details.metadata.value if details.metadata else {}
    is_completed = instant.state is State.COMPLETED
    writes = instant.action in WRITING and is_completed
    undone, logs = undone_by(metadata)
    return Stats(
        instant,
        legible=details.metadata is not None or not is_completed,
        writes=tuple(writes_in(metadata)) if writes else (),
        replaced=replaced_by(metadata) if writes else frozenset(),
        inputs=inputs_of(plan),
        is_service=is_service(plan),
        removed=removed_by(plan, metadata),
        undone=undone,
        logs=logs,
        saved=saved_by(metadata) if instant.action == SAVEPOINT and is_completed else frozenset(),
    )


def undone_by_whom(stats: Sequence[Stats]) -> dict[str, Instant]:
    """Return the instants that completed rollbacks and restores say that they took back, and which did so."""
    return {
        time: each.instant for each in stats if each.instant.state is State.COMPLETED for time in each.undone
    }


# --- slices


class _There(NamedTuple):
    path: str
    last: str
    slice: Slice


def wrong_slices(
    stats: Sequence[Stats],
    files: Files,
    root: str,
    *,
    first_version: int,
    is_whole: bool,
    is_metadata_table: bool,
) -> Iterator[Finding]:
    """Return what is wrong with slices, by what all instants say, if ``is_whole``: if all could be read.

    Where a table began with a version below 8, a log file's name doesn't say whose it is. A metadata table
    begins each file group with an empty log file that no instant names, drops whole partitions without saying
    so, and leaves log files of what it takes back.
    """
    parsed = ((path, last, slice_in(last)) for last, path in files.lasts.items())
    slices = sorted(
        _There(path, last, it)
        for path, last, it in parsed
        if it is not None and not (is_metadata_table and it.token == _EMPTY)
    )
    is_proof = is_whole and not is_metadata_table
    times = _Times(stats)
    yield from dangling(stats, files, root, is_proof=is_proof)
    yield from _unnamed(stats, slices, times, judges_logs=first_version >= _IN_LEVELS, is_proof=is_proof)
    if first_version >= _IN_LEVELS and is_proof:
        yield from _hidden(times, slices)


def in_store(lasts: Iterable[str]) -> list[str]:
    """Return the names of files that are called so in the store, too."""
    return [last for last in lasts if not last.endswith(_EXTERNAL)]


def dangling(stats: Sequence[Stats], files: Files, root: str, *, is_proof: bool) -> Iterator[Finding]:
    """Find files that instants name, that are not there, and that nobody says to have removed."""
    gone = {last for each in stats for last in each.removed.lasts}
    partitions = {(part, each.instant.time) for each in stats for part in each.removed.partitions}
    undone = undone_by_whom(stats)
    severity = Severity.DAMAGE if is_proof else Severity.NOTICE

    for each in stats:
        instant = each.instant
        by = undone.get(instant.time)
        if by is not None and not (each.is_service and by.time < (instant.completion or "")):
            continue
        missing = [
            "/".join(part for part in (root, write.group.partition, last) if part)
            for write in each.writes
            for last in in_store(write.lasts)
            if last not in files.lasts
            and last not in gone
            and not any(at == write.group.partition and instant.time <= when for at, when in partitions)
        ]
        missing += [f"{root}/**/{last}" for last in in_store(sorted(each.saved - files.lasts.keys()))]
        if missing:
            what = "savepoint of" if each.saved else instant.action
            detail = (
                f"{what} {instant.time} names {count_of(missing)} not there, "
                f"and no clean or rollback says why"
            )
            yield found(Kind.DANGLING_REFERENCE, missing, detail, moments=(instant.time,), severity=severity)


def sizes_of(stats: Sequence[Stats], files: Files) -> dict[str, Recorded]:
    """Return how large the files are at least that instants name, by their full names.

    One instant of Flink's may have written the same file more than once.
    """
    sizes: dict[str, Recorded] = {}
    for each in stats:
        for write in each.writes:
            path = files.lasts.get(write.last)
            if path is not None and write.size:
                sizes[path] = min(Recorded(write.size, each.instant.time), sizes.get(path, _LARGEST))
    return sizes


def _unnamed(
    stats: Sequence[Stats], slices: Sequence[_There], times: _Times, *, judges_logs: bool, is_proof: bool
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
    undone = undone_by_whom(stats)
    for time, unnamed in strangers.items():
        if time in times.completed:
            if time not in times.illegible:
                yield from _strange(time, unnamed, ours)
        elif time not in times.known:
            yield _abandoned(time, unnamed, times, is_undone=time in undone, is_proof=is_proof)


class _Times:
    """The instants that are known, and where the timeline begins."""

    def __init__(self, stats: Sequence[Stats]) -> None:
        self.known = {each.instant.time for each in stats}
        self.completed = {each.instant.time for each in stats if each.has_written}
        self.illegible = {each.instant.time for each in stats if not each.legible}
        self.first = min(self.known, default="")
        active = (
            each.instant.time
            for each in stats
            if not each.instant.archived and completed_as(each.instant.action) in WRITING
        )
        self.first_active = min(active, default="")


def _hidden(times: _Times, slices: Sequence[_There]) -> Iterator[Finding]:
    """Find file groups that begin with a log file of nobody's commit: readers pass over all of them.

    Source: hudi#19774. A file group without base files begins at the instant of its first log file, and
    releases up to 1.2.0 leave it out if that instant is not completed.
    """
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
    severity = Severity.NOTICE
    if not times.first or time < times.first or not is_proof:
        why = "the timeline does not say all that was before"
    elif time < times.first_active:
        why = "the active timeline begins after it, so readers may take it for committed"
        severity = Severity.DAMAGE
    else:
        why = "readers don't see it as long as the active timeline reaches back so far"
    took = "; it was rolled back" if is_undone else ""
    slices = f"there {'is' if len(unnamed) == 1 else 'are'} {many(unnamed, 'slice')}"
    detail = f"nobody has completed instant {time}, and {slices} of it{took}: {why}"
    names = [each.path for each in unnamed]
    return found(Kind.ABANDONED_SLICE, names, detail, moments=(time,), severity=severity)
