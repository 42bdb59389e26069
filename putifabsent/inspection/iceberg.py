"""Inspects an Iceberg table: what its metadata lead to; also what metadata would that are to be created."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from putifabsent.errors import ConfigError
from putifabsent.inspection.findings import (
    Finding,
    Kind,
    Recorded,
    Result,
    Severity,
    ancestors,
    count_of,
    found,
    gaps_in,
    many,
    missing,
    odd_sizes,
    read_errors,
)
from putifabsent.shim.formats.iceberg import (
    FIRST,
    content_of,
    hint_in,
    manifest_of,
    metadata_of,
    number_in,
    plain,
)
from putifabsent.timeline.files import AvroFiles, below, read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from putifabsent.inspection.findings import Base, Look
    from putifabsent.shim.formats.iceberg import Content, Manifest
    from putifabsent.shim.names import Name
    from putifabsent.timeline import IcebergSnapshot, IcebergTimeline, Problems

_FOLDER = "metadata"
_REPLACE = "replace"
_NO_SNAPSHOT = -1
"""As old writers say that a table has none yet."""


def judge(timeline: IcebergTimeline, look: Look | None) -> Result:
    """Return what is wrong with an Iceberg table; None for ``look``: no manifests are read."""
    problems: Problems = []
    metadata = timeline.metadata(problems) or {}
    snapshots = timeline.snapshots_in(metadata, problems) if metadata else []
    heads = _heads(metadata)
    findings = [*_versions(timeline, problems), *_unlisted(heads, snapshots)]
    findings += read_errors(problems, Kind.DANGLING_REFERENCE)
    if look is not None and snapshots:
        root = _root(timeline.current(), metadata)
        there = look(root, (_FOLDER,)).paths
        parents = {each.id: each.parent for each in snapshots}
        reached = {each for head in heads.values() for each in ancestors(head, parents)}
        new_tree = partial(_Tree, root=root, location=str(metadata["location"]))
        tree = new_tree(AvroFiles(timeline.fs))
        of_files = list(tree.table(snapshots, reached, there))
        since = timeline.listed_since([]) if of_files else None
        if since is not None and not reached <= since:
            # The catalog has gone on: what it has expired since needs its files no more.
            tree = new_tree(AvroFiles(timeline.fs))
            of_files = list(tree.table(snapshots, reached & since, there))
        findings += [*of_files, *odd_sizes(timeline.fs, tree.sizes, there)]
    version = f"format version {metadata.get('format-version', 'unknown')}"
    return Result(version, snapshots, findings)


def _root(current: str, metadata: Mapping[str, Any]) -> str:
    """Return the root of a table whose metadata lie in ``current``: a copy need not be where they say."""
    location = plain(str(metadata["location"])).rstrip("/")
    own = (metadata.get("properties") or {}).get("write.metadata.path") or f"{location}/{_FOLDER}"
    address, folder = plain(str(own)).rstrip("/"), current.rpartition("/")[0]
    inside = address.removeprefix(location)
    if not f"{address}/".startswith(f"{location}/") or not f"/{folder}".endswith(inside):
        raise ConfigError(
            f"the metadata in {folder!r} lie apart from their table, whose location is {location}: where its "
            "files are now can't be told. Inspect it without them (--no-data)"
        )
    return f"/{folder}".removesuffix(inside)[1:]


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
    of_before = (each for older in before for each in older.get("snapshots") or ())
    known = {each["snapshot-id"] for each in (of_before if before or number == FIRST else others)}
    if base.memory is None:
        base.memory = AvroFiles(base.fs)
    files: AvroFiles = base.memory
    files.problems.clear()
    tree = _Tree(files, base.root, str(metadata["location"]))
    try:
        for each in snapshots:
            if each["snapshot-id"] not in known:
                what = f"snapshot {each['snapshot-id']} of version {number}"
                findings += tree.commit(what, each, base.absent)
                if attempts := _attempts(each, snapshots):
                    findings += tree.again(what, each, attempts)
        return [*findings, *read_errors(files.problems, Kind.DANGLING_REFERENCE)]
    finally:
        base.remembered = files.forget()


def _versions(timeline: IcebergTimeline, problems: Problems) -> Iterator[Finding]:
    """Return what is wrong with the metadata of a table that is kept by path."""
    path = below(timeline.root, f"{_FOLDER}/version-hint.text")
    # Before the versions: what is committed meanwhile is not lost.
    hint = next((hint_in(written) for _, written in read(timeline.fs, [path])), None) or 0
    versions = timeline.versions()
    numbers = list(versions.values())
    for gap in gaps_in([*numbers, hint + 1] if numbers and hint > numbers[-1] else numbers):
        ends, what = missing("version", gap)
        # Readers go up from the hint, one by one; without one they take the highest that is there.
        hides = 0 < hint < gap.stop
        sees = "readers go no further than that" if hides else "the hint says that readers begin behind it"
        if hint in gap:
            sees = f"the hint says that readers begin at {hint}"
        yield found(
            Kind.GAP,
            [below(timeline.root, f"{_FOLDER}/v{each}.metadata.json") for each in ends],
            f"{what} among those that are there, and {sees}",
            severity=Severity.DAMAGE if hides else Severity.NOTICE,
        )
    rivals: dict[int, dict[str, Mapping[str, Any]]] = {
        number: {} for number, count in Counter(numbers).items() if count > 1
    }
    upon: dict[int, str] = {}
    for path, metadata in timeline.metadata_in(list(versions), problems):
        number = versions[path]
        yield from _parent(number, path, metadata)
        upon[number - 1] = _upon(metadata)
        if number in rivals:
            rivals[number][path] = metadata
    for number, rival in rivals.items():
        yield from _rivals(number, rival, upon.get(number))


def _rivals(number: int, metadata: Mapping[str, Mapping[str, Any]], upon: str | None) -> Iterator[Finding]:
    """Find what was committed to metadata that nobody reads: others have the same number.

    Of these ``metadata``, by path, readers look for the last one first; the next version came ``upon`` one.
    """
    lasts = {path.rpartition("/")[2]: path for path in metadata}
    taken = upon if upon in lasts else next(reversed(lasts), "")
    lost = [last for last, path in lasts.items() if metadata[path] != metadata[lasts[taken]]]
    if lost:
        who = f"version {number + 1} came upon" if taken == upon else "readers take"
        detail = (
            f"version {number} is there as {' and '.join([taken, *lost])}: {who} {taken}, and what else "
            f"was committed is lost"
        )
        yield found(Kind.LOST_UPDATE, [lasts[each] for each in (*lost, taken)], detail)


def _upon(metadata: Mapping[str, Any]) -> str:
    """Return which file the metadata before were, by its last component; empty: there were none."""
    log = metadata.get("metadata-log")
    return str(log[-1]["metadata-file"]).rpartition("/")[2] if log else ""


def _parent(number: int, path: str, metadata: Mapping[str, Any]) -> Iterator[Finding]:
    parent = number_in(_upon(metadata))
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


def _checkpoint_of(snapshot: Mapping[str, Any]) -> tuple[tuple[str, str], int] | None:
    """Return of Flink's: a job and its operator, and up to which checkpoint of it a snapshot is.

    Source: what Iceberg's sinks for Flink write into a snapshot's summary, and look for before they commit.
    """
    summary = snapshot.get("summary") or {}
    job, operator, number = (
        str(summary.get(f"flink.{key}") or "")
        for key in ("job-id", "operator-id", "max-committed-checkpoint-id")
    )
    return ((job, operator), int(number)) if job and number.isdigit() else None


def _attempts(own: Mapping[str, Any], snapshots: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return a snapshot's ancestors of the same checkpoint of Flink's, or of a later one of the same job."""
    mine = _checkpoint_of(own)
    if mine is None:
        return []
    by_id = {each["snapshot-id"]: each for each in snapshots}
    parents = {at: each.get("parent-snapshot-id") for at, each in by_id.items()}
    before = [by_id[each] for each in ancestors(own["snapshot-id"], parents)][1:]
    theirs = [(each, _checkpoint_of(each)) for each in before]
    return [each for each, of in theirs if of and of[0] == mine[0] and of[1] >= mine[1]]


class _Tree:
    """What snapshots lead to, at a table's root, or location, as its metadata call it; nothing elsewhere."""

    def __init__(self, files: AvroFiles, root: str, location: str) -> None:
        self._files = files
        self._root = root
        self._location = plain(location).rstrip("/") + "/"
        self._live: dict[str, Counter[str]] = {}
        self.sizes: dict[str, Recorded] = {}  # of the files of snapshots that are read, by their full names

    def table(
        self, snapshots: Sequence[IcebergSnapshot], reached: set[int], there: Collection[str]
    ) -> Iterator[Finding]:
        """Return what is wrong with the snapshots of a table, whose data files are ``there``.

        What no branch or tag has any more, since it was rolled back, harms no reader of these: a notice.
        """
        current = next((each for each in snapshots if each.current), None)
        kept = [] if current is None else self._manifests(current.path)
        errors = self._files.problems
        findings = read_errors(errors, Kind.DANGLING_REFERENCE)
        yield from _as_read(findings, is_read=current is None or current.id in reached)
        known = len(errors)
        seen: set[str] = set()
        reported: set[str] = set()
        for each, manifests in self._walk(sorted(snapshots, key=lambda each: each.id not in reached), kept):
            is_read = each.id in reached
            what = f"snapshot {each.id}" if is_read else f"snapshot {each.id}, which no branch or tag has,"
            # A manifest never changes: what it lacks was told of the first snapshot that has it.
            new = [of for of in manifests if of.path not in seen]
            seen.update(of.path for of in new)
            contents = self._contents(new).values()
            files = {file.path: file.size for those in contents for file in those if file.live}
            inside = {path: below(self._root, at) for path in files if (at := self._inside(path))}
            absent = [path for path, full in inside.items() if full not in there and path not in reported]
            reported.update(absent)
            at = str(each.number)
            if is_read:
                self.sizes.update((full, Recorded(files[path], at)) for path, full in inside.items())
            findings = [*_dangling(what, absent, at), *self._vectors(what, each.content, manifests, at)]
            self._lives(_of_data(new))
            findings += read_errors(errors[known:], Kind.DANGLING_REFERENCE)
            known = len(errors)
            yield from _as_read(findings, is_read=is_read)
        if current is not None:
            yield from self._repeated(current, kept, snapshots)
        yield from read_errors(errors[known:], Kind.DANGLING_REFERENCE)

    def commit(
        self, what: str, snapshot: Mapping[str, Any], absent: Callable[[Mapping[str, str]], list[str]]
    ) -> Iterator[Finding]:
        """Return what is wrong with a snapshot of metadata that are not there yet."""
        manifests = self._manifests(str(snapshot.get("manifest-list") or ""))
        own = self._contents([each for each in manifests if each.snapshot == snapshot["snapshot-id"]])
        names = [each.path for each in manifests if each not in own]
        names += [each.path for found in own.values() for each in found if each.added]
        yield from self._vectors(what, snapshot, manifests)
        yield from _dangling(what, absent({each: at for each in names if (at := self._inside(each))}))

    def again(
        self, what: str, own: Mapping[str, Any], attempts: Iterable[Mapping[str, Any]]
    ) -> Iterator[Finding]:
        """Find what a snapshot adds that another attempt of its job has added: it would be there twice.

        Where that has come to a later checkpoint, it has written these rows to files of other names.
        """
        mine = self._added(own)
        for each in attempts:
            is_later = _checkpoint_of(each) != _checkpoint_of(own)
            theirs = mine if is_later else self._added(each)
            if twice := sorted(path for at, path in mine.items() if at in theirs):
                detail = f"{what} adds again what its Flink job has added by snapshot {each['snapshot-id']}"
                yield found(Kind.REPEATED_COMMIT, twice, detail)

    def _added(self, snapshot: Mapping[str, Any]) -> dict[str, str]:
        manifests = self._manifests(str(snapshot.get("manifest-list") or ""))
        own = self._contents([each for each in manifests if each.snapshot == snapshot["snapshot-id"]])
        return {plain(each.path): each.path for found in own.values() for each in found if each.added}

    def _vectors(
        self, what: str, snapshot: Mapping[str, Any], manifests: Sequence[Manifest], *moments: str
    ) -> Iterator[Finding]:
        """Find what a snapshot deletes of data files that it does not have: it is back in others.

        Who replaces files deletes nothing anew: a compaction that was faster had read what is written again.
        """
        if (snapshot.get("summary") or {}).get("operation") == _REPLACE:
            return
        own = self._contents(
            [each for each in manifests if each.deletes and each.snapshot == snapshot["snapshot-id"]]
        )
        about = {
            plain(each.about): (each.path, each.about)
            for found in own.values()
            for each in found
            if each.added and each.about is not None
        }
        data = _of_data(manifests)
        places = [self._inside(each.path) for each in data]
        if not about or None in places:
            return
        stray = list(about)
        for live in self._lives(data):
            stray = [each for each in stray if each not in live]
        unread = {each.path for each in self._files.problems}
        if stray and unread.isdisjoint(below(self._root, at) for at in places if at is not None):
            detail = f"{what} deletes rows of {many(stray, 'data file')} that it does not have"
            of, paths = zip(*(about[each] for each in stray), strict=True)
            yield found(Kind.DANGLING_VECTOR, [*dict.fromkeys(of), *paths], detail, moments=moments)

    def _repeated(
        self, current: IcebergSnapshot, manifests: Sequence[Manifest], snapshots: Sequence[IcebergSnapshot]
    ) -> Iterator[Finding]:
        """Find data files that are there twice, and since when: their rows count twice."""
        many: Counter[str] = Counter()
        # One file may have the deletion vectors of many data files, and is there once for each.
        data = _of_data(manifests)
        for live in self._lives(data):
            many.update(live)
        twice = {at for at, count in many.items() if count > 1}
        if not twice:
            return
        files = (file.path for found in self._contents(data).values() for file in found if file.live)
        names = dict.fromkeys(path for path in files if plain(path) in twice)
        for each, others in self._walk(snapshots, manifests):
            lives = self._lives(_of_data(others))
            if any(sum(live[at] for live in lives) > 1 for at in twice):
                since = "" if each is current else f", since snapshot {each.id}"
                detail = f"snapshot {current.id} has the same files twice{since}"
                yield found(Kind.REPEATED_COMMIT, list(names), detail, moments=(str(each.number),))
                return

    def _walk(
        self, snapshots: Iterable[IcebergSnapshot], kept: Sequence[Manifest]
    ) -> Iterator[tuple[IcebergSnapshot, list[Manifest]]]:
        """Go through snapshots with their manifests; what neither the last one has nor ``kept`` is forgotten.

        So no more is in memory than two snapshots lead to, and what the next one shares with them.
        """
        for each in snapshots:
            manifests = self._manifests(each.path)
            yield each, manifests
            self._files.forget()
            wanted = {of.path for of in (*kept, *manifests)}
            self._live = {path: live for path, live in self._live.items() if path in wanted}

    def _lives(self, manifests: Sequence[Manifest]) -> list[Counter[str]]:
        """Return how often manifests have each file that is the table's, by its plain address."""
        new = self._contents([each for each in manifests if each.path not in self._live])
        for manifest, entries in new.items():
            self._live[manifest.path] = Counter(plain(each.path) for each in entries if each.live)
        return [self._live[each.path] for each in manifests]

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
        at = plain(address)
        return at.removeprefix(self._location) if at.startswith(self._location) else None


def _as_read(findings: Iterable[Finding], *, is_read: bool) -> Iterator[Finding]:
    return (each if is_read else replace(each, severity=Severity.NOTICE) for each in findings)


def _of_data(manifests: Iterable[Manifest]) -> list[Manifest]:
    return [each for each in manifests if not each.deletes]


def _dangling(what: str, names: list[str], *moments: str) -> Iterator[Finding]:
    if names:
        detail = f"{what} has {count_of(names)} not there"
        yield found(Kind.DANGLING_REFERENCE, names, detail, moments=moments)
