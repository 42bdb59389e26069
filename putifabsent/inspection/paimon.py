"""Inspects a Paimon table: what its snapshots lead to, and whether each was committed upon the one before.

And a snapshot that is to be created, upon the one that is the newest then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from putifabsent.inspection.findings import (
    Finding,
    Kind,
    Result,
    Severity,
    count_of,
    found,
    gaps_in,
    read_errors,
)
from putifabsent.shim.formats.paimon import (
    FOLDER,
    FOLDERS,
    Entry,
    File,
    folder_of,
    goes_by_sequence,
    live,
    number_in,
    partitioned_by,
    table_of,
)
from putifabsent.timeline.files import below, read
from putifabsent.timeline.paimon import Manifests, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from putifabsent.inspection.findings import Base, Look
    from putifabsent.shim.formats.paimon import Vector
    from putifabsent.shim.names import Name
    from putifabsent.timeline import PaimonTimeline, Problems, Snapshot

__all__ = ["hurts", "judge"]

Live: TypeAlias = Mapping[File, Entry]

_BASE, _DELTA, _INDEX = "baseManifestList", "deltaManifestList", "indexManifest"
_LISTS = (_BASE, _DELTA)
_APPEND = "APPEND"
_OWN_FOLDERS = ("snapshot", "schema", "changelog", "branch", "tag", "consumer", FOLDER)


def judge(timeline: PaimonTimeline, look: Look | None) -> Result:
    """Return what is wrong with a Paimon table, or with a branch of one.

    Parameters
    ----------
    look
        Lists its data files; None: neither they nor manifests are looked at.
    """
    problems: Problems = []
    latest = timeline.latest()  # before the snapshots: what is committed meanwhile is not lost
    records = list(timeline.records(problems=problems))
    snapshots = [each for each in records if not each.archived]
    unread = [number for problem in problems if (number := _number_of(problem.path)) is not None]
    findings = [*read_errors(problems, Kind.DANGLING_REFERENCE), *_gaps(timeline, records, unread, latest)]
    if look is not None and snapshots:
        table = table_of(timeline.root)
        files = look(table, _OWN_FOLDERS)
        manifests = Manifests(timeline.fs, table)
        schemas = {number: _schema_in(written) for number, written in timeline.schemas().items()}
        walk = _Walk(manifests, timeline.root, schemas, files.lasts.__contains__)
        findings += walk.findings(snapshots)
    version = str(snapshots[-1].content.get("version", 1)) if snapshots else "none yet"
    return Result(f"snapshot version {version}", records, findings)


def _number_of(path: str) -> int | None:
    folder, _, last = path.rpartition("/")
    kind = folder.rpartition("/")[2]
    return number_in(kind, last) if kind in FOLDERS else None


def _gaps(
    timeline: PaimonTimeline, records: Sequence[Snapshot], unread: Sequence[int], latest: int
) -> Iterator[Finding]:
    """Find numbers that are missing; expiry takes the oldest ones, and may make changelogs of them."""
    numbers = [*(each.number for each in records), *unread]
    is_lost = bool(numbers) and latest > max(numbers)
    snapshots = [each.number for each in records if not each.archived]
    first = min(snapshots, default=0)
    for gap in gaps_in([*numbers, latest + 1] if is_lost else numbers):
        is_old = gap.stop <= first
        kind = "changelog" if is_old else "snapshot"
        ends = dict.fromkeys((gap[0], gap[-1]))
        names = [below(timeline.root, f"{kind}/{kind}-{number}") for number in ends]
        after = (
            f"is there, and LATEST says {latest}"
            if is_lost and latest in gap
            else f"and {gap.stop} are there"
        )
        detail = f"{_numbers(kind, gap)} missing: {gap.start - 1} {after}"
        yield found(
            Kind.GAP,
            names,
            detail,
            # How long changelogs are kept can be changed, and changelogs be done without for a while.
            severity=Severity.NOTICE if is_old else Severity.DAMAGE,
            moments=tuple(map(str, ends)),
        )


def _numbers(kind: str, gap: range) -> str:
    return f"{kind} {gap[0]} is" if gap[0] == gap[-1] else f"{kind}s {gap[0]} to {gap[-1]} are"


def hurts(base: Base, name: Name, written: bytes) -> list[Finding]:
    """Return what a snapshot would do to its table that is to be created.

    Paimon commits upon the newest snapshot, and asks nobody what the ones since its own reading have done.
    """
    root, _, last = name.path.rpartition("/snapshot/")
    number = number_in("snapshot", last)
    problems: Problems = []
    this = snapshot_of(number, name.path, written, problems) if number is not None else None
    if number is None or this is None:
        return [each for each in read_errors(problems, Kind.UNREADABLE) if each.kind is Kind.COPIED_RECORD]
    newest, schema = (
        below(root, each) for each in (f"snapshot/snapshot-{number - 1}", f"schema/schema-{this.schema}")
    )
    beside = dict(read(base.fs, [newest, schema]))
    before = snapshot_of(number - 1, newest, beside.get(newest, b""), [])
    both = [each for each in (this, before) if each is not None]
    if base.memory is None:
        base.memory = Manifests(base.fs, base.root)
    manifests: Manifests = base.memory
    manifests.files.problems.clear()
    said = _schema_in(beside.get(schema))
    try:
        manifests.ahead(
            [name for each in both for name in _named(each, *_LISTS)],
            [name for each in both for name in _named(each, _INDEX)],
        )
        absent = set(base.absent(_new_files(manifests, this, before, said)))
        walk = _Walk(manifests, root, {this.schema: said}, lambda file: file not in absent)
        return walk.commit(this, before)
    finally:
        manifests.files.forget()


def _schema_in(written: bytes | None) -> Mapping[str, Any]:
    """Return what a schema's file says; nothing, where that is not known."""
    try:
        said = json.loads(written or b"{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _named(snapshot: Snapshot, *kinds: str) -> list[str]:
    return [str(snapshot.content[kind]) for kind in kinds if snapshot.content.get(kind)]


def _new_files(
    manifests: Manifests, snapshot: Snapshot, before: Snapshot | None, schema: Mapping[str, Any]
) -> dict[str, str]:
    """Return where the data and index files lie that a snapshot adds, by their names, if that is known."""
    columns = partitioned_by(schema)
    if columns is None:
        return {}
    old = {each.name for each in (manifests.indices_of(before) if before else ())}
    new = (each.name for each in manifests.indices_of(snapshot) if not each.elsewhere)
    found = {name: f"index/{name}" for name in new if name not in old}
    for entry in manifests.entries(_named(snapshot, _DELTA)) or ():
        folder = folder_of(entry, columns)
        if entry.adds and not entry.elsewhere and folder is not None:
            found |= {each: f"{folder}/{each}" for each in (entry.file.name, *entry.more)}
    return found


class _Walk:
    """From snapshot to snapshot, through their manifests.

    Parameters
    ----------
    root
        Of the table, or of the branch, that the snapshots are of.
    schemas
        What the schemas say that are there, by their numbers.
    is_there
        Whether a file of the table is, by the last component of its name.
    """

    def __init__(
        self,
        manifests: Manifests,
        root: str,
        schemas: Mapping[int, Mapping[str, Any]],
        is_there: Callable[[str], bool],
    ) -> None:
        self._manifests = manifests
        self._root = root
        self._schemas = schemas
        self._is_there = is_there
        # What is found in one snapshot is not reported again of those that came upon it.
        self._reported: set[tuple[str, ...]] = set()

    def findings(self, snapshots: Iterable[Snapshot]) -> list[Finding]:
        """Return what is wrong with snapshots, which come by their numbers."""
        findings: list[Finding] = []
        before: Snapshot | None = None
        left: Live | None = None
        for each in snapshots:
            is_next = before is not None and each.number == before.number + 1
            upon, now = self._states(each)
            findings += [*self._itself(each, upon, now), *self._of_its_schema(each)]
            if before is not None and is_next and left is not None and upon is not None:
                findings += _lost(each, left, upon)
                findings += self._crossing(each, upon, Severity.NOTICE)
                findings += self._undeleted(each, before, now or {})
            before, left = each, now
        return [*findings, *self._unread()]

    def commit(self, this: Snapshot, before: Snapshot | None) -> list[Finding]:
        """Return what is wrong with a snapshot that is not there yet, and was not with the one before it."""
        upon, now = self._states(this)
        left = self._states(before)[1] if before is not None else None
        known = self._manifests.paths_of(before, *_LISTS) if before is not None else set()
        # What was wrong before stays so whatever is committed, also what mends it.
        there = {file.name for file in left or ()}
        old = self._manifests.vectors(before) if before is not None else ()
        self._reported.update(("", file) for file in old if left is None or file not in there)
        findings = [*self._itself(this, upon, now)]
        new = [each for each in self._manifests.files.problems if each.path not in known]
        findings += read_errors(new, Kind.DANGLING_REFERENCE)
        if before is not None and left is not None and upon is not None:
            findings += _lost(this, left, upon)
            findings += self._crossing(this, upon, Severity.DAMAGE)
            findings += self._undeleted(this, before, now or {})
        return findings

    def _itself(self, each: Snapshot, upon: Live | None, now: Live | None) -> Iterator[Finding]:
        """Return what is wrong with a snapshot by itself: what it came upon, and what it leaves."""
        if upon is not None and now is not None:
            yield from _repeated(each, self._entries(each, _DELTA) or (), upon)
            yield from self._dangling(each, now)
            yield from self._vectors(each, now)

    def _of_its_schema(self, each: Snapshot) -> Iterator[Finding]:
        if each.schema not in self._schemas:
            name = below(self._root, f"schema/schema-{each.schema}")
            detail = f"snapshot {each.number} is of schema {each.schema}, which is not there"
            yield _found(Kind.DANGLING_REFERENCE, (name,), detail, each)

    def _crossing(self, this: Snapshot, upon: Live, severity: Severity) -> Iterator[Finding]:
        """Find rows that are numbered as if others were not there: of one key's, the highest number counts.

        A writer of a primary-key table numbers its rows on from those that it has seen in their bucket.
        """
        if this.action != _APPEND or not goes_by_sequence(self._schemas.get(this.schema, {})):
            return
        there: dict[tuple[bytes, int], int] = {}
        for entry in upon.values():
            if entry.sequences is not None:
                bucket = (entry.partition, entry.bucket)
                there[bucket] = max(there.get(bucket, -1), entry.sequences[1])
        crossing = [
            entry
            for entry in self._entries(this, _DELTA) or ()
            if entry.adds and entry.sequences and entry.bucket >= 0
            if entry.sequences[0] <= there.get((entry.partition, entry.bucket), -1)
        ]
        if crossing:
            buckets = ", ".join(str(each) for each in sorted({entry.bucket for entry in crossing}))
            detail = (
                f"snapshot {this.number} numbers its rows in bucket {buckets} as if others had committed "
                f"none there since it began: of two rows with one key, the later may not count"
            )
            names = [entry.file.name for entry in crossing]
            yield _found(Kind.LOST_UPDATE, names, detail, this, severity)

    def _undeleted(self, this: Snapshot, before: Snapshot, now: Live) -> Iterator[Finding]:
        """Find deleted rows that are back: of a file that stays, nobody ever deletes fewer."""
        had, has = self._manifests.vectors(before), self._manifests.vectors(this)
        stay = {file.name for file in now}
        back = [
            file
            for file, vector in had.items()
            if file in stay and has.get(file) != vector and not self._deletes_all(vector, has.get(file))
        ]
        if back:
            files = "a data file" if len(back) == 1 else f"{len(back):,} data files"
            detail = f"snapshot {this.number} brings back rows of {files} that {before.number} has deleted"
            yield _found(Kind.LOST_UPDATE, back, detail, this)

    def _deletes_all(self, before: Vector, after: Vector | None) -> bool:
        """Whether a deletion vector deletes all that the one before it does."""
        if after is None:
            return False
        many = before.cardinality, after.cardinality
        if many[0] is not None and many[1] is not None and many[1] < many[0]:
            return False
        earlier, later = (self._manifests.deleted(each) for each in (before, after))
        return earlier is None or later is None or bool(earlier <= later)

    def _unread(self) -> list[Finding]:
        return read_errors(self._manifests.files.problems, Kind.DANGLING_REFERENCE)

    def _entries(self, snapshot: Snapshot, kind: str) -> list[Entry] | None:
        name = snapshot.content.get(kind)
        return None if name is None else self._manifests.entries([str(name)])

    def _states(self, snapshot: Snapshot) -> tuple[Live | None, Live | None]:
        """Return what a snapshot came upon, and what it leaves; None: that can't be read."""
        upon, delta = (self._entries(snapshot, kind) for kind in _LISTS)
        came = None if upon is None else live(upon)
        return came, None if came is None or delta is None else live(delta, came)

    def _dangling(self, snapshot: Snapshot, now: Live) -> Iterator[Finding]:
        entries = (entry for entry in now.values() if not entry.elsewhere)
        wanted = [name for entry in entries for name in (entry.file.name, *entry.more)]
        yield from self._missing(snapshot, wanted, "data")

    def _vectors(self, snapshot: Snapshot, now: Live) -> Iterator[Finding]:
        indices = self._manifests.indices_of(snapshot)
        yield from self._missing(snapshot, [each.name for each in indices if not each.elsewhere], "index")
        there = {file.name for file in now}
        for each in indices:
            stray = self._new(("", at.file) for at in each.vectors if at.file not in there)
            if stray:
                files = "a data file" if len(stray) == 1 else f"{len(stray):,} data files"
                detail = f"snapshot {snapshot.number} has deletion vectors for {files} that it no longer has"
                names = (each.name, *(vector for _, vector in stray))
                yield _found(Kind.DANGLING_VECTOR, names, detail, snapshot)

    def _missing(self, snapshot: Snapshot, wanted: Iterable[str], kind: str) -> Iterator[Finding]:
        names = self._new((name,) for name in wanted if not self._is_there(name))
        if names:
            detail = f"snapshot {snapshot.number} has {count_of(names, f'{kind} ')} not there"
            yield _found(Kind.DANGLING_REFERENCE, [name for (name,) in names], detail, snapshot)

    def _new(self, things: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
        new = [each for each in things if each not in self._reported]
        self._reported.update(new)
        return new


def _lost(snapshot: Snapshot, before: Live, upon: Live) -> Iterator[Finding]:
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


def _found(
    kind: Kind, names: Sequence[str], detail: str, snapshot: Snapshot, severity: Severity | None = None
) -> Finding:
    return found(kind, tuple(names), detail, moments=(str(snapshot.number),), severity=severity)
