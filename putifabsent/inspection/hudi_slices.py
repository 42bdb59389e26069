"""What is wrong with a Hudi table's slices: those that instants name, beside those that are there."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.inspection.findings import Finding, Kind, Severity, found
from putifabsent.inspection.hudi_stats import WRITING, undone_by_whom
from putifabsent.shim.formats.hudi import completed_as
from putifabsent.shim.formats.hudi_files import Slice, slice_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from putifabsent.inspection.findings import Files
    from putifabsent.inspection.hudi_stats import CommitStats
    from putifabsent.shim.formats.hudi_files import Group

__all__ = ["wrong_files"]

_IN_LEVELS = 8
_EMPTY = "0-0-0"


class _There(NamedTuple):
    path: str
    last: str
    slice: Slice


def wrong_files(
    stats: Sequence[CommitStats],
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
    files
        Of the table.
    root
        Its folder.
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


def _dangling(stats: Sequence[CommitStats], files: Files, root: str, *, is_proof: bool) -> Iterator[Finding]:
    gone = {last for each in stats for last in each.removed.lasts}
    partitions = {(part, each.instant.time) for each in stats for part in each.removed.partitions}
    undone = undone_by_whom(stats)
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
            for last in write.lasts
            if last not in files.lasts and not is_removed(write.group, last, instant.time)
        ]
        missing += [f"{root}/**/{last}" for last in sorted(each.saved - files.lasts.keys())]
        if missing:
            what = "savepoint of" if each.saved else instant.action
            detail = (
                f"{what} {instant.time} names {_count(missing)} not there, and no clean or rollback says why"
            )
            yield found(Kind.DANGLING_REFERENCE, missing, detail, moments=(instant.time,), severity=severity)


def _unnamed(
    stats: Sequence[CommitStats], slices: Sequence[_There], *, judges_logs: bool, is_proof: bool
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
    undone = undone_by_whom(stats)
    for time, unnamed in strangers.items():
        if time in times.completed:
            if time not in times.illegible:
                yield from _strange(time, unnamed, ours)
        elif time not in times.known:
            yield _abandoned(time, unnamed, times, is_undone=time in undone, is_proof=is_proof)


class _Times:
    """The instants that are known, and where the timeline begins."""

    def __init__(self, stats: Sequence[CommitStats]) -> None:
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


def _slices(files: Files) -> list[_There]:
    found = ((path, last, slice_in(last)) for last, path in files.lasts.items())
    there = [_There(path, last, parsed) for path, last, parsed in found if parsed is not None]
    return sorted(there)


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
        detail = f"instant {time} is completed, and does not name {_count(orphans)} there under it"
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


def _count(names: Sequence[object]) -> str:
    return "a file that is" if len(names) == 1 else f"{len(names):,} files that are"
