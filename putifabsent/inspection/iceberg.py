"""Inspects an Iceberg table: what its metadata lead to; also what metadata would that are to be created."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

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
from putifabsent.shim.formats.iceberg import (
    FIRST,
    content_of,
    hint_in,
    manifest_of,
    metadata_of,
    number_in,
)
from putifabsent.timeline.files import AvroFiles, below, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from putifabsent.inspection.findings import Base, Look
    from putifabsent.shim.formats.iceberg import Content, Manifest
    from putifabsent.shim.names import Name
    from putifabsent.timeline import IcebergSnapshot, IcebergTimeline, Problems

__all__ = ["hurts", "judge"]

_FOLDER = "metadata"
_NO_SNAPSHOT = -1
"""As old writers say that a table has none yet."""


def judge(timeline: IcebergTimeline, look: Look | None) -> Result:
    """Return what is wrong with an Iceberg table.

    Parameters
    ----------
    look
        Lists its data files; None: neither they nor manifests are looked at.
    """
    problems: Problems = []
    metadata = timeline.metadata(problems) or {}
    snapshots = timeline.snapshots_in(metadata, problems) if metadata else []
    heads = _heads(metadata)
    findings = [*_versions(timeline, problems), *_unlisted(heads, snapshots)]
    findings += read_errors(problems, Kind.DANGLING_REFERENCE)
    if look is not None and snapshots:
        there = look(timeline.root, (_FOLDER,)).paths
        tree = _Tree(AvroFiles(timeline.fs), timeline.root, str(metadata["location"]))
        findings += tree.table(snapshots, _reached(heads.values(), snapshots), there)
    version = f"format version {metadata.get('format-version', 'unknown')}"
    return Result(version, snapshots, findings)


def hurts(base: Base, name: Name, written: bytes) -> list[Finding]:
    """Return what metadata would do to their table that are to be created: the snapshots that they bring."""
    number = number_in(name.path.rpartition("/")[2])
    if number is None or name.series is None:
        return []
    metadata = metadata_of(written)
    findings = list(_parent(number, name.path, metadata))
    snapshots = metadata.get("snapshots") or ()
    before = [metadata_of(found) for _, found in read(base.fs, list(name.series.predecessors))]
    # Of a version whose parent is not known, only what is current is sure to be its own.
    others = [each for each in snapshots if each["snapshot-id"] != metadata.get("current-snapshot-id")]
    of_before = (each for said in before for each in said.get("snapshots") or ())
    known = {each["snapshot-id"] for each in (of_before if before or number == FIRST else others)}
    if base.memory is None:
        base.memory = AvroFiles(base.fs)
    files: AvroFiles = base.memory
    files.problems.clear()
    tree = _Tree(files, base.root, str(metadata["location"]))
    try:
        for each in snapshots:
            own, path = each["snapshot-id"], str(each.get("manifest-list") or "")
            if own not in known:
                what = f"snapshot {own} of version {number}"
                findings += tree.commit(what, own, path, base.absent)
                findings += tree.again(what, each, _attempts(each, snapshots))
        return [*findings, *read_errors(files.problems, Kind.DANGLING_REFERENCE)]
    finally:
        files.forget()


def _versions(timeline: IcebergTimeline, problems: Problems) -> Iterator[Finding]:
    """Return what is wrong with the metadata of a table that is kept by path."""
    path = below(timeline.root, f"{_FOLDER}/version-hint.text")
    # Before the versions: what is committed meanwhile is not lost.
    hint = next((hint_in(written) for _, written in read(timeline.fs, [path])), None) or 0
    versions = timeline.versions()
    numbers = list(versions.values())
    for gap in gaps_in([*numbers, hint + 1] if numbers and hint > numbers[-1] else numbers):
        ends = dict.fromkeys((gap[0], gap[-1]))
        what = f"version {gap[0]} is" if len(ends) == 1 else f"versions {gap[0]} to {gap[-1]} are"
        # Readers go up from the hint, one by one; without one they take the highest that is there.
        hides = 0 < hint < gap.stop
        if hint in gap:
            sees = f"the hint says that readers begin at {hint}"
        elif hides:
            sees = "readers go no further than that"
        else:
            sees = "the hint says that readers begin behind it"
        yield found(
            Kind.GAP,
            [below(timeline.root, f"{_FOLDER}/v{each}.metadata.json") for each in ends],
            f"{what} missing among those that are there, and {sees}",
            severity=Severity.DAMAGE if hides else Severity.NOTICE,
        )
    for path, metadata in timeline.metadata_in(list(versions), problems):
        yield from _parent(versions[path], path, metadata)


def _parent(number: int, path: str, metadata: Mapping[str, Any]) -> Iterator[Finding]:
    log = metadata.get("metadata-log") or ()
    parent = number_in(str(log[-1]["metadata-file"]).rpartition("/")[2]) if log else None
    if parent not in (None, number - 1):
        detail = f"version {number} was not committed upon version {number - 1}, but upon {parent}"
        yield found(Kind.LOST_UPDATE, (path,), detail)


def _heads(metadata: Mapping[str, Any]) -> dict[str, int]:
    """Return the snapshots of branches and tags, by what these are called; old metadata lack ``refs``."""
    refs = metadata.get("refs") or {}
    heads = {f"{ref.get('type', 'ref')} {name}": ref["snapshot-id"] for name, ref in refs.items()}
    current = metadata.get("current-snapshot-id")
    return heads if current in (None, _NO_SNAPSHOT) else {"branch main": current, **heads}


def _unlisted(heads: Mapping[str, int], snapshots: Sequence[IcebergSnapshot]) -> Iterator[Finding]:
    """Find branches and tags whose snapshots are not listed."""
    there = {each.id for each in snapshots}
    for name, own in heads.items():
        if own not in there:
            detail = f"{name} is snapshot {own}, which is not listed"
            yield found(Kind.DANGLING_REFERENCE, (name.partition(" ")[2],), detail)


def _reached(heads: Iterable[int], snapshots: Iterable[IcebergSnapshot]) -> set[int]:
    """Return the snapshots that branches and tags have, with all their ancestors."""
    parents = {each.id: each.parent for each in snapshots}
    reached: set[int] = set()
    for head in heads:
        at: int | None = head
        while at is not None and at not in reached:
            reached.add(at)
            at = parents.get(at)
    return reached


class _Checkpoint(NamedTuple):
    """Of Flink's: a job, its operator, and up to which checkpoint of it a snapshot is.

    Source: what Iceberg's sinks for Flink write into a snapshot's summary, and look for before they commit.
    """

    job: str
    operator: str
    number: int


def _checkpoint_of(snapshot: Mapping[str, Any]) -> _Checkpoint | None:
    summary = snapshot.get("summary") or {}
    job, operator, number = (
        str(summary.get(f"flink.{key}") or "")
        for key in ("job-id", "operator-id", "max-committed-checkpoint-id")
    )
    return _Checkpoint(job, operator, int(number)) if job and number.isdigit() else None


def _attempts(own: Mapping[str, Any], snapshots: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return a snapshot's ancestors of the same checkpoint of Flink's, or of a later one of the same job."""
    mine = _checkpoint_of(own)
    others = {each["snapshot-id"]: each for each in snapshots} if mine else {}
    found: list[Mapping[str, Any]] = []
    at = others.pop(own["snapshot-id"], None)
    while mine and at and (at := others.pop(at.get("parent-snapshot-id"), None)):
        theirs = _checkpoint_of(at)
        if theirs and theirs[:2] == mine[:2] and theirs.number >= mine.number:
            found.append(at)
    return found


class _Tree:
    """What snapshots lead to.

    Parameters
    ----------
    root, location
        The table's, as the filesystem and as its metadata call it. What lies elsewhere is not looked at.
    """

    def __init__(self, files: AvroFiles, root: str, location: str) -> None:
        self._files = files
        self._root = root
        self._location = location.rstrip("/") + "/"

    def table(
        self, snapshots: Sequence[IcebergSnapshot], reached: set[int], there: frozenset[str]
    ) -> Iterator[Finding]:
        """Return what is wrong with the snapshots of a table, whose data files are ``there``.

        What no branch or tag has any more, since it was rolled back, harms no reader of these: a notice.
        """
        reported: set[str] = set()
        for each in sorted(snapshots, key=lambda each: each.id not in reached):
            is_read = each.id in reached
            what = f"snapshot {each.id}" if is_read else f"snapshot {each.id}, which no branch or tag has,"
            manifests = self._manifests(str(each.content.get("manifest-list") or ""))
            contents = self._contents(manifests)
            files = (file.path for found in contents.values() for file in found if file.live)
            inside = {path: below(self._root, at) for path in files if (at := self._inside(path))}
            missing = [path for path, full in inside.items() if full not in there and path not in reported]
            reported.update(missing)
            moment = str(each.number)
            findings = [*_missing(what, missing, moment), *self._vectors(what, each.id, contents, moment)]
            yield from (one if is_read else replace(one, severity=Severity.NOTICE) for one in findings)
            if each.current:
                yield from self._repeated(each, snapshots)
        yield from read_errors(self._files.problems, Kind.DANGLING_REFERENCE)

    def commit(
        self, what: str, snapshot: int, path: str, absent: Callable[[Mapping[str, str]], list[str]]
    ) -> Iterator[Finding]:
        """Return what is wrong with a snapshot of metadata that are not there yet."""
        manifests = self._manifests(path)
        own = self._contents([each for each in manifests if each.snapshot == snapshot])
        names = [each.path for each in manifests if each not in own]
        names += [each.path for found in own.values() for each in found if each.added]
        if any(each.deletes for each in own):
            own = self._contents(manifests)
        yield from self._vectors(what, snapshot, own)
        yield from _missing(what, absent({each: at for each in names if (at := self._inside(each))}))

    def again(
        self, what: str, own: Mapping[str, Any], attempts: Iterable[Mapping[str, Any]]
    ) -> Iterator[Finding]:
        """Find what a snapshot adds that another attempt of its job has added: it would be there twice."""
        for each in attempts:
            if twice := sorted(self._added(own) & self._added(each)):
                detail = f"{what} adds again what its Flink job has added by snapshot {each['snapshot-id']}"
                yield found(Kind.REPEATED_COMMIT, twice, detail)

    def _added(self, snapshot: Mapping[str, Any]) -> set[str]:
        """Return the files that a snapshot adds."""
        manifests = self._manifests(str(snapshot.get("manifest-list") or ""))
        own = self._contents([each for each in manifests if each.snapshot == snapshot["snapshot-id"]])
        return {each.path for found in own.values() for each in found if each.added}

    def _vectors(
        self, what: str, snapshot: int, contents: Mapping[Manifest, Iterable[Content]], *moments: str
    ) -> Iterator[Finding]:
        """Find what a snapshot deletes of data files that it does not have: it is back in others."""
        own = [each for each in contents if each.deletes and each.snapshot == snapshot]
        about = {
            each.about: each.path
            for manifest in own
            for each in contents[manifest]
            if each.added and each.about is not None
        }
        data = [each for each in contents if not each.deletes]
        if not about or self._files.problems or any(self._inside(each.path) is None for each in data):
            return
        there = {each.path for manifest in data for each in contents[manifest] if each.live}
        if stray := [each for each in about if each not in there]:
            files = "a data file" if len(stray) == 1 else f"{len(stray):,} data files"
            detail = f"{what} deletes rows of {files} that it does not have"
            names = [*dict.fromkeys(about[each] for each in stray), *stray]
            yield found(Kind.DANGLING_VECTOR, names, detail, moments=moments)

    def _repeated(self, current: IcebergSnapshot, snapshots: Iterable[IcebergSnapshot]) -> Iterator[Finding]:
        """Find data files that are there twice, and since when: their rows count twice."""
        if twice := self._twice(current):
            first = next(each for each in snapshots if not twice.keys().isdisjoint(self._twice(each)))
            since = "" if first is current else f", since snapshot {first.id}"
            detail = f"snapshot {current.id} has the same files twice{since}"
            yield found(Kind.REPEATED_COMMIT, list(twice), detail, moments=(str(first.number),))

    def _twice(self, snapshot: IcebergSnapshot) -> dict[str, int]:
        contents = self._contents(self._manifests(str(snapshot.content.get("manifest-list") or "")))
        # One file may have the deletion vectors of many data files, and is there once for each.
        data = (file for of, found in contents.items() if not of.deletes for file in found)
        many = Counter(each.path for each in data if each.live)
        return {path: count for path, count in many.items() if count > 1}

    def _manifests(self, address: str) -> list[Manifest]:
        inside = self._inside(address)
        return [] if inside is None else self._files.records([below(self._root, inside)], manifest_of) or []

    def _contents(self, manifests: Sequence[Manifest]) -> dict[Manifest, list[Content]]:
        """Return what manifests say, which are read side by side; of one that can't be read, nothing."""
        found = {each: below(self._root, at) for each in manifests if (at := self._inside(each.path))}
        self._files.load(dict.fromkeys(found.values(), content_of))
        return {
            each: (self._files.records([found[each]], content_of) or []) if each in found else []
            for each in manifests
        }

    def _inside(self, address: str) -> str | None:
        """Return where a file lies, from the table's root; None: it lies elsewhere."""
        return address.removeprefix(self._location) if address.startswith(self._location) else None


def _missing(what: str, names: list[str], *moments: str) -> Iterator[Finding]:
    if names:
        yield found(
            Kind.DANGLING_REFERENCE, names, f"{what} has {count_of(names)} not there", moments=moments
        )
