"""Inspects a Paimon table: what its snapshots lead to, and whether each was committed upon the one before.

And a snapshot that is to be created, upon the one that is the newest then.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from putifabsent.inspection.findings import (
    Finding,
    Kind,
    Recorded,
    Result,
    Severity,
    count_of,
    found,
    gaps_in,
    many,
    missing,
    odd_sizes,
    read_errors,
)
from putifabsent.shim.formats.paimon import (
    FOLDER,
    FOLDERS,
    File,
    folder_of,
    goes_by_sequence,
    live,
    number_in,
    partitioned_by,
    schema_of,
    table_of,
)
from putifabsent.timeline.files import Parsing, below, numbered, read
from putifabsent.timeline.paimon import Manifests, names_in, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from putifabsent.inspection.findings import Base, Look
    from putifabsent.shim.formats.paimon import Entry, Vector
    from putifabsent.shim.names import Name
    from putifabsent.timeline import PaimonTimeline, Problems, Snapshot

_BASE, _DELTA, _INDEX = "baseManifestList", "deltaManifestList", "indexManifest"
_LISTS = (_BASE, _DELTA)
_APPEND = "APPEND"
_OWN_FOLDERS = ("snapshot", "schema", "changelog", "branch", "tag", "consumer", FOLDER)


def judge(timeline: PaimonTimeline, look: Look | None) -> Result:
    """Return what is wrong with a Paimon table, or a branch; None for ``look``: no manifests are read."""
    problems: Problems = []
    latest = timeline.hint("LATEST")  # before the snapshots: what is committed meanwhile is not lost
    records = list(timeline.records(problems=problems))
    tags = timeline.tags(problems)
    snapshots = [each for each in records if not each.archived]
    unread = [number for problem in problems if (number := _number_of(problem.path)) is not None]
    findings = [*read_errors(problems, Kind.DANGLING_REFERENCE), *_gaps(timeline, records, unread, latest)]
    if look is not None and snapshots:
        table = table_of(timeline.root)
        files = look(table, _OWN_FOLDERS)
        manifests = Manifests(timeline.fs, table)
        torn: Problems = []
        schemas = {number: _schema_in(*each, torn) for number, each in timeline.schemas().items()}
        findings += read_errors(torn, Kind.UNREADABLE)
        walk = _Walk(manifests, timeline.root, schemas, files.lasts.__contains__)
        gone = [*walk.findings(snapshots), *_of_tags(timeline, walk, tags, snapshots)]
        findings += _but_expiring(gone, manifests, [snapshots[-1], *tags.values()])
        sizes = {path: walk.sizes[last] for last, path in files.lasts.items() if last in walk.sizes}
        findings += odd_sizes(timeline.fs, sizes, files.paths)
    version = str(snapshots[-1].content.get("version", 1)) if snapshots else "none yet"
    return Result(f"snapshot version {version}", records, findings)


def _of_tags(
    timeline: PaimonTimeline, walk: _Walk, tags: Mapping[str, Snapshot], snapshots: Iterable[Snapshot]
) -> list[Finding]:
    """Return what is wrong with what only tags keep; a tag may be deleted meanwhile, with its files."""
    there = {_leads_to(each) for each in snapshots}
    hurt = {name: walk.tag(name, each) for name, each in tags.items() if _leads_to(each) not in there}
    still = timeline.tags([]) if any(hurt.values()) else ()
    return [finding for name, findings in hurt.items() if name in still for finding in findings]


def _but_expiring(
    findings: Sequence[Finding], manifests: Manifests, kept: Iterable[Snapshot]
) -> Iterator[Finding]:
    """Tell what an expiry has removed so far from what the snapshots that it keeps lack.

    It removes data files, then manifests, and snapshots last: Paimon's ``ExpireSnapshotsImpl``.
    """
    is_damaged = any(each.kind is Kind.DANGLING_REFERENCE for each in findings)
    needed = _needed(manifests, kept) if is_damaged else None
    for each in findings:
        files = {name for name in each.names if number_in("schema", name.rpartition("/")[2]) is None}
        if each.kind is Kind.DANGLING_REFERENCE and needed is not None and files and files.isdisjoint(needed):
            yield found(Kind.EXPIRING, each.names, each.detail, moments=each.moments)
        else:
            yield each


def _needed(manifests: Manifests, kept: Iterable[Snapshot]) -> set[str] | None:
    """Return what these snapshots lead to, manifests by their full names; None: that can't be read."""
    needed: set[str] = set()
    for each in kept:
        lists = manifests.named(each, *_LISTS)
        entries = None if lists is None else manifests.entries(lists)
        if entries is None:
            return None
        needed |= manifests.paths_of(each, *_LISTS)
        needed |= {index.name for index in manifests.indices_of(each)}
        needed |= {name for at in live(entries).values() for name in (at.file.name, *at.more)}
    return needed


def _leads_to(snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(str(snapshot.content.get(kind)) for kind in (*_LISTS, _INDEX))


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
    # Below it an expiry has left what it failed to delete: it does not hear of that.
    earliest = max(first, timeline.hint("EARLIEST"))
    for gap in gaps_in([*numbers, latest + 1] if is_lost else numbers):
        is_old = gap.stop <= first
        kind = "changelog" if is_old else "snapshot"
        ends, what = missing(kind, gap)
        names = [below(timeline.root, f"{kind}/{kind}-{number}") for number in ends]
        after = (
            f"is there, and LATEST says {latest}"
            if is_lost and latest in gap
            else f"and {gap.stop} are there"
        )
        yield found(
            Kind.GAP,
            names,
            f"{what}: {gap.start - 1} {after}",
            # How long changelogs are kept can be changed, and changelogs be done without for a while.
            severity=Severity.NOTICE if gap.stop <= earliest else Severity.DAMAGE,
            moments=tuple(map(str, ends)),
        )


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
    if newest not in beside:
        numbers = numbered(base.fs, below(root, "snapshot"), partial(number_in, "snapshot")).values()
        # With one above, this one's number was taken: who creates it hears of that.
        if (last_there := max(numbers, default=number)) < number - 1:
            detail = f"snapshot {number} comes upon {number - 1}, which is gone: {last_there} is the newest"
            return [_found(Kind.GAP, (newest,), detail, this)]
    before = snapshot_of(number - 1, newest, beside.get(newest, b""), [])
    both = [each for each in (this, before) if each is not None]
    if base.memory is None:
        base.memory = Manifests(base.fs, base.root)
    manifests: Manifests = base.memory
    manifests.files.problems.clear()
    content = _schema_in(schema, beside.get(schema, b""), [])
    try:
        manifests.ahead(
            [name for each in both for name in names_in(each, *_LISTS)],
            [name for each in both for name in names_in(each, _INDEX)],
        )
        absent = set(base.absent(_new_files(manifests, this, before, content)))
        walk = _Walk(manifests, root, {this.schema: content}, lambda file: file not in absent)
        return walk.commit(this, before)
    finally:
        base.remembered = manifests.files.forget()


def _schema_in(path: str, written: bytes, problems: Problems) -> Mapping[str, Any]:
    """Return what a schema's file says; nothing, where it can't be read."""
    with Parsing(problems, path, "schema", written):
        return schema_of(written)
    return {}


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
    for entry in manifests.entries(manifests.named(snapshot, _DELTA) or ()) or ():
        folder = folder_of(entry, columns)
        if entry.adds and not entry.elsewhere and folder is not None:
            found |= {each: f"{folder}/{each}" for each in (entry.file.name, *entry.more)}
    return found


class _Files:
    """The data files of a table, which change from snapshot to snapshot."""

    def __init__(self) -> None:
        # With the entries that have added them.
        self.there: dict[File, Entry] = {}
        # What has led to them. Manifests never change: who names the same ones has the same files.
        self.manifests: list[str] = []
        self._buckets: defaultdict[tuple[bytes, int], dict[File, Entry]] = defaultdict(dict)
        self._levels: set[int] = set()

    def __contains__(self, name: str) -> bool:
        return any(File(level, name) in self.there for level in self._levels)

    def highest(self, bucket: tuple[bytes, int]) -> int:
        """Return the highest number that a row of a partition's bucket has; -1: none is known."""
        there = self._buckets[bucket].values()
        return max((each.sequences[1] for each in there if each.sequences), default=-1)

    def come(self, manifests: Sequence[str], entries: Iterable[Entry]) -> None:
        """Have what some more manifests add, without what they delete."""
        self.manifests += manifests
        for entry in entries:
            if entry.adds:
                self._add(entry)
            else:
                self._remove(entry.file)

    def become(self, manifests: Sequence[str], entries: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Have what other manifests lead to; return what of it is gone, and what was not there before."""
        now = live(entries)
        gone = [entry for file, entry in self.there.items() if file not in now]
        new = [entry for file, entry in now.items() if file not in self.there]
        for each in gone:
            self._remove(each.file)
        for each in new:
            self._add(each)
        self.manifests = list(manifests)
        return gone, new

    def _add(self, entry: Entry) -> None:
        self.there[entry.file] = entry
        self._buckets[entry.partition, entry.bucket][entry.file] = entry
        self._levels.add(entry.file.level)

    def _remove(self, file: File) -> None:
        was = self.there.pop(file, None)
        if was is not None:
            del self._buckets[was.partition, was.bucket][file]


class _Walk:
    """From snapshot to snapshot of a table or a branch, through their manifests."""

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
        self._is_there = is_there  # by the last component of a file's name
        self.sizes: dict[str, Recorded] = {}  # of data files, by the last component of their names
        # What is found in one snapshot is not reported again of those that came upon it.
        self._reported: set[tuple[str, ...]] = set()
        # As the snapshot before has left them; None: that is not known.
        self._files: _Files | None = None

    def findings(self, snapshots: Iterable[Snapshot]) -> list[Finding]:
        """Return what is wrong with snapshots, which come by their numbers."""
        findings: list[Finding] = []
        before: Snapshot | None = None
        for each in snapshots:
            is_next = before is not None and each.number == before.number + 1
            findings += self._go_on(each, before if is_next else None, Severity.NOTICE)
            findings += self._of_its_schema(each)
            before = each
            self._manifests.files.forget()
        return [*findings, *read_errors(self._manifests.files.problems, Kind.DANGLING_REFERENCE)]

    def tag(self, name: str, snapshot: Snapshot) -> list[Finding]:
        """Return what is wrong with a snapshot that a tag keeps; no table is taken back for its sake."""
        problems = self._manifests.files.problems
        known = len(problems)
        findings = [*self._go_on(snapshot, None, Severity.NOTICE), *self._of_its_schema(snapshot)]
        findings += read_errors(problems[known:], Kind.DANGLING_REFERENCE)
        self._manifests.files.forget()
        return [replace(each, detail=f"tag {name}: {each.detail}", moments=()) for each in findings]

    def commit(self, this: Snapshot, before: Snapshot | None) -> list[Finding]:
        """Return what is wrong with a snapshot that is not there yet, and was not with the one before it."""
        known = self._manifests.paths_of(before, *_LISTS) if before is not None else set()
        names = self._manifests.named(before, *_LISTS) if before is not None else None
        entries = None if names is None else self._manifests.entries(names)
        if names is not None and entries is not None:
            self._files = _Files()
            self._files.come(names, entries)
        # What was wrong before stays so whatever is committed, also what mends it.
        old = self._manifests.vectors(before) if before is not None else ()
        self._reported.update(("", file) for file in old if self._files is None or file not in self._files)
        findings = list(self._go_on(this, before, Severity.DAMAGE))
        new = [each for each in self._manifests.files.problems if each.path not in known]
        return [*findings, *read_errors(new, Kind.DANGLING_REFERENCE)]

    def _go_on(self, this: Snapshot, before: Snapshot | None, crossing: Severity) -> Iterator[Finding]:
        """Go on to a snapshot; return what is wrong with it: what it came upon, and what it leaves.

        ``before`` is what was gone on to last, if it should have come upon that; ``crossing``: how much rows
        prove that cross others.
        """
        files, self._files = self._files, None
        base, delta = (self._manifests.named(this, kind) for kind in _LISTS)
        entries = None if delta is None else self._manifests.entries(delta)
        new: list[Entry] = []
        if base is None:
            return
        if files is None or files.manifests != base:
            upon = self._manifests.entries(base)
            if upon is None:
                return
            if files is None:
                files, before = _Files(), None
            gone, new = files.become(base, upon)
            if before is not None:
                yield from _lost(this, gone, new)
        if delta is None or entries is None:
            return
        if before is not None:
            yield from self._crossing(this, entries, files, crossing)
        yield from _repeated(this, entries, files)
        files.come(delta, entries)
        self._files = files
        self._manifests.load(files.manifests)
        added = {each.file: each for each in (*new, *entries) if each.adds and each.file in files.there}
        here = [each for each in added.values() if not each.elsewhere]
        self.sizes.update((each.file.name, Recorded(each.size, str(this.number))) for each in here)
        yield from self._missing(this, [name for at in here for name in (at.file.name, *at.more)], "data")
        yield from self._vectors(this, files)
        if before is not None:
            yield from self._undeleted(this, before, files)

    def _of_its_schema(self, each: Snapshot) -> Iterator[Finding]:
        if each.schema not in self._schemas:
            name = below(self._root, f"schema/schema-{each.schema}")
            detail = f"snapshot {each.number} is of schema {each.schema}, which is not there"
            yield _found(Kind.DANGLING_REFERENCE, (name,), detail, each)

    def _crossing(
        self, this: Snapshot, entries: Sequence[Entry], upon: _Files, severity: Severity
    ) -> Iterator[Finding]:
        """Find rows that are numbered as if others were not there: of one key's, the highest number counts.

        A writer of a primary-key table numbers its rows on from those that it has seen in their bucket.
        """
        if this.action != _APPEND or not goes_by_sequence(self._schemas.get(this.schema, {})):
            return
        added = [each for each in entries if each.adds and each.bucket >= 0]
        there = {at: upon.highest(at) for at in {(each.partition, each.bucket) for each in added}}
        crossing = [
            entry
            for entry in added
            if entry.sequences and entry.sequences[0] <= there[entry.partition, entry.bucket]
        ]
        if crossing:
            buckets = ", ".join(str(each) for each in sorted({entry.bucket for entry in crossing}))
            detail = (
                f"snapshot {this.number} numbers its rows in bucket {buckets} as if others had committed "
                f"none there since it began: of two rows with one key, the later may not count"
            )
            names = [entry.file.name for entry in crossing]
            yield _found(Kind.LOST_UPDATE, names, detail, this, severity)

    def _undeleted(self, this: Snapshot, before: Snapshot, now: _Files) -> Iterator[Finding]:
        """Find deleted rows that are back: of a file that stays, nobody ever deletes fewer."""
        had, has = self._manifests.vectors(before), self._manifests.vectors(this)
        back = [
            file
            for file, vector in had.items()
            if file in now and has.get(file) != vector and not self._deletes_all(vector, has.get(file))
        ]
        if back:
            files = many(back, "data file")
            detail = f"snapshot {this.number} brings back rows of {files} that {before.number} has deleted"
            yield _found(Kind.LOST_UPDATE, back, detail, this)

    def _deletes_all(self, before: Vector, after: Vector | None) -> bool:
        if after is None:
            return False
        many = before.cardinality, after.cardinality
        if many[0] is not None and many[1] is not None and many[1] < many[0]:
            return False
        earlier, later = (self._manifests.deleted(each) for each in (before, after))
        return earlier is None or later is None or bool(earlier <= later)

    def _vectors(self, snapshot: Snapshot, now: _Files) -> Iterator[Finding]:
        indices = self._manifests.indices_of(snapshot)
        yield from self._missing(snapshot, [each.name for each in indices if not each.elsewhere], "index")
        for each in indices:
            stray = self._new(("", at.file) for at in each.vectors if at.file not in now)
            if stray:
                files = many(stray, "data file")
                detail = f"snapshot {snapshot.number} has deletion vectors for {files} that it no longer has"
                names = (each.name, *(vector for _, vector in stray))
                yield _found(Kind.DANGLING_VECTOR, names, detail, snapshot)

    def _missing(self, snapshot: Snapshot, wanted: Iterable[str], kind: str) -> Iterator[Finding]:
        names = self._new((name,) for name in wanted if not self._is_there(name))
        if names:
            detail = f"snapshot {snapshot.number} has {count_of(names, f'{kind} file')} not there"
            yield _found(Kind.DANGLING_REFERENCE, [name for (name,) in names], detail, snapshot)

    def _new(self, things: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
        new = [each for each in things if each not in self._reported]
        self._reported.update(new)
        return new


def _lost(snapshot: Snapshot, gone: Sequence[Entry], come: Sequence[Entry]) -> Iterator[Finding]:
    """Compare what a snapshot was committed upon with what the one before has left."""
    if gone or come:
        names = sorted({each.file.name for each in (*gone, *come)})
        lost = f"{len(gone):,} of its files are not in it"
        back = f"{len(come):,} are in it that it does not have"
        what = " and ".join(part for part, files in ((lost, gone), (back, come)) if files)
        detail = f"snapshot {snapshot.number} was not committed upon snapshot {snapshot.number - 1}: {what}"
        yield _found(Kind.LOST_UPDATE, names, detail, snapshot)


def _repeated(snapshot: Snapshot, entries: Iterable[Entry], upon: _Files) -> Iterator[Finding]:
    """Find files that are added once more: readers refuse such a snapshot, or count their rows twice."""
    added: dict[File, bool] = {}
    twice = []
    for entry in entries:
        if entry.adds and added.get(entry.file, entry.file in upon.there):
            twice.append(entry.file.name)
        added[entry.file] = entry.adds
    if twice:
        detail = f"snapshot {snapshot.number} adds files that the table had already"
        yield _found(Kind.REPEATED_COMMIT, twice, detail, snapshot)


def _found(
    kind: Kind, names: Sequence[str], detail: str, snapshot: Snapshot, severity: Severity | None = None
) -> Finding:
    return found(kind, tuple(names), detail, moments=(str(snapshot.number),), severity=severity)
