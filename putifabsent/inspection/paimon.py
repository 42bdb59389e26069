"""Inspects a Paimon table: what its snapshots lead to, and whether each was committed upon the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.inspection.findings import (
    Finding,
    Kind,
    Result,
    Severity,
    found,
    gaps_in,
    read_errors,
)
from putifabsent.shim.formats.paimon import FOLDER, FOLDERS, Entry, File, live, number_in, table_of
from putifabsent.timeline.files import below
from putifabsent.timeline.paimon import Manifests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from putifabsent.inspection.findings import Files, Look
    from putifabsent.timeline import PaimonTimeline, Problems, Snapshot

__all__ = ["judge"]

_OWN_FOLDERS = ("snapshot", "schema", "changelog", "branch", "tag", "consumer", FOLDER)


def judge(timeline: PaimonTimeline, look: Look | None) -> Result:
    """Return what is wrong with a Paimon table, or with a branch of one.

    Parameters
    ----------
    look
        Lists its data files; None: neither they nor manifests are looked at.
    """
    problems: Problems = []
    records = list(timeline.records(problems=problems))
    snapshots = [each for each in records if not each.archived]
    unread = [number for problem in problems if (number := _number_of(problem.path)) is not None]
    findings = [*read_errors(problems, Kind.DANGLING_REFERENCE), *_gaps(timeline, records, unread)]
    if look is not None and snapshots:
        table = table_of(timeline.root)
        files = look(table, _OWN_FOLDERS)
        findings += _Walk(timeline, table, files).findings(snapshots)
    version = str(snapshots[-1].content.get("version", 1)) if snapshots else "none yet"
    return Result(f"snapshot version {version}", records, findings)


def _number_of(path: str) -> int | None:
    folder, _, last = path.rpartition("/")
    kind = folder.rpartition("/")[2]
    return number_in(kind, last) if kind in FOLDERS else None


def _gaps(timeline: PaimonTimeline, records: Sequence[Snapshot], unread: Sequence[int]) -> Iterator[Finding]:
    """Find numbers that are missing; expiry takes the oldest ones, and may make changelogs of them."""
    snapshots = [each.number for each in records if not each.archived]
    first = min(snapshots, default=0)
    for gap in gaps_in([*(each.number for each in records), *unread]):
        is_old = gap.stop <= first
        kind = "changelog" if is_old else "snapshot"
        ends = dict.fromkeys((gap[0], gap[-1]))
        names = [below(timeline.root, f"{kind}/{kind}-{number}") for number in ends]
        detail = f"{_numbers(kind, gap)} missing: {gap.start - 1} and {gap.stop} are there"
        yield found(
            Kind.GAP,
            names,
            detail,
            # How long changelogs are kept can be changed, and changelogs be done without for a while.
            severity=Severity.NOTICE if is_old else Severity.DAMAGE,
            moments=tuple(map(str, ends)),
        )


def _numbers(kind: str, gap: range) -> str:
    return f"{kind} {gap[0]} is" if len(gap) == 1 else f"{kind}s {gap[0]} to {gap[-1]} are"


class _Walk:
    """From snapshot to snapshot, through their manifests."""

    def __init__(self, timeline: PaimonTimeline, table: str, files: Files) -> None:
        self._timeline = timeline
        self._files = files
        self._problems: Problems = []
        self._manifests = Manifests(timeline.fs, table, self._problems)
        self._schemas = timeline.schemas()
        # What is found in one snapshot is not reported again of those that came upon it.
        self._reported: set[tuple[str, ...]] = set()

    def findings(self, snapshots: Iterable[Snapshot]) -> list[Finding]:
        """Return what is wrong with snapshots, which come by their numbers."""
        findings: list[Finding] = []
        number = 0
        before: dict[File, Entry] | None = None
        for each in snapshots:
            upon = self._live(each, "baseManifestList")
            delta = self._entries(each, "deltaManifestList")
            if upon is not None and before is not None and each.number == number + 1:
                findings += _lost(each, before, upon)
            number, before = each.number, None
            if upon is not None and delta is not None:
                findings += _repeated(each, delta, upon)
                before = live(delta, upon)
                findings += self._dangling(each, before)
                findings += self._vectors(each, before)
            if each.schema not in self._schemas:
                name = below(self._timeline.root, f"schema/schema-{each.schema}")
                detail = f"snapshot {each.number} is of schema {each.schema}, which is not there"
                findings.append(_found(Kind.DANGLING_REFERENCE, (name,), detail, each))
        return [*findings, *read_errors(self._problems, Kind.DANGLING_REFERENCE)]

    def _entries(self, snapshot: Snapshot, kind: str) -> list[Entry] | None:
        name = snapshot.content.get(kind)
        return None if name is None else self._manifests.entries([str(name)])

    def _live(self, snapshot: Snapshot, kind: str) -> dict[File, Entry] | None:
        entries = self._entries(snapshot, kind)
        return None if entries is None else live(entries)

    def _dangling(self, snapshot: Snapshot, now: Mapping[File, Entry]) -> Iterator[Finding]:
        entries = (entry for entry in now.values() if not entry.elsewhere)
        wanted = [name for entry in entries for name in (entry.file.name, *entry.more)]
        yield from self._missing(snapshot, wanted, "data")

    def _vectors(self, snapshot: Snapshot, now: Mapping[File, Entry]) -> Iterator[Finding]:
        name = snapshot.content.get("indexManifest")
        indices = (self._manifests.indices(str(name)) if name else None) or []
        yield from self._missing(snapshot, [each.name for each in indices if not each.elsewhere], "index")
        there = {file.name for file in now}
        for each in indices:
            stray = self._new((each.name, vector) for vector in each.vectors if vector not in there)
            if stray:
                files = "a data file" if len(stray) == 1 else f"{len(stray):,} data files"
                detail = f"snapshot {snapshot.number} has deletion vectors for {files} that it no longer has"
                names = (each.name, *(vector for _, vector in stray))
                yield _found(Kind.DANGLING_VECTOR, names, detail, snapshot)

    def _missing(self, snapshot: Snapshot, wanted: Iterable[str], kind: str) -> Iterator[Finding]:
        names = self._new((name,) for name in wanted if name not in self._files.lasts)
        if names:
            files = f"a {kind} file that is" if len(names) == 1 else f"{len(names):,} {kind} files that are"
            detail = f"snapshot {snapshot.number} has {files} not there"
            yield _found(Kind.DANGLING_REFERENCE, [name for (name,) in names], detail, snapshot)

    def _new(self, things: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
        new = [each for each in things if each not in self._reported]
        self._reported.update(new)
        return new


def _lost(snapshot: Snapshot, before: Mapping[File, Entry], upon: Mapping[File, Entry]) -> Iterator[Finding]:
    """Compare what a snapshot was committed upon with what the one before has left."""
    gone, come = before.keys() - upon.keys(), upon.keys() - before.keys()
    if gone or come:
        names = sorted({file.name for file in (*gone, *come)})
        lost = f"{len(gone):,} of its files are not in it"
        back = f"{len(come):,} are in it that it does not have"
        what = " and ".join(part for part, files in ((lost, gone), (back, come)) if files)
        detail = f"snapshot {snapshot.number} was not committed upon snapshot {snapshot.number - 1}: {what}"
        yield _found(Kind.LOST_UPDATE, names, detail, snapshot)


def _repeated(snapshot: Snapshot, delta: Iterable[Entry], upon: Mapping[File, Entry]) -> Iterator[Finding]:
    """Find files that are added once more: readers refuse such a snapshot, or count their rows twice."""
    there = set(upon)
    twice = []
    for entry in delta:
        if entry.adds and entry.file in there:
            twice.append(entry.file.name)
        (there.add if entry.adds else there.discard)(entry.file)
    if twice:
        detail = f"snapshot {snapshot.number} adds files that the table had already"
        yield _found(Kind.REPEATED_COMMIT, twice, detail, snapshot)


def _found(kind: Kind, names: Sequence[str], detail: str, snapshot: Snapshot) -> Finding:
    return found(kind, tuple(names), detail, moments=(str(snapshot.number),))
