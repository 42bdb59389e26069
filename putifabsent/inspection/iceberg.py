"""Inspects an Iceberg table: what its metadata leads to; also what metadata would that are to be created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from putifabsent.inspection.findings import Finding, Kind, found, read_errors
from putifabsent.shim.formats.iceberg import content_of, manifest_of, metadata_of, number_in
from putifabsent.timeline.files import AvroFiles, below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from putifabsent.inspection.findings import Base
    from putifabsent.shim.formats.iceberg import Content, Manifest
    from putifabsent.shim.names import Name

__all__ = ["hurts"]


def hurts(base: Base, name: Name, written: bytes) -> list[Finding]:
    """Return what metadata would do to their table that are to be created."""
    number = number_in(name.path.rpartition("/")[2])
    if number is None:
        return []
    metadata = metadata_of(written)
    findings = list(_parent(number, metadata))
    snapshot = _current(metadata)
    if snapshot is None:
        return findings
    if base.memory is None:
        base.memory = AvroFiles(base.fs, [])
    files: AvroFiles = base.memory
    files.problems.clear()
    findings += _Tree(files, base.root, str(metadata["location"])).commit(number, snapshot, base.absent)
    files.forget()
    return findings


def _current(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the current snapshot, if it says by which list it is found."""
    current = metadata.get("current-snapshot-id")
    snapshots = (each for each in metadata.get("snapshots") or () if each["snapshot-id"] == current)
    return next((each for each in snapshots if each.get("manifest-list")), None)


def _parent(number: int, metadata: Mapping[str, Any]) -> Iterator[Finding]:
    log = metadata.get("metadata-log") or ()
    parent = number_in(str(log[-1]["metadata-file"]).rpartition("/")[2]) if log else None
    if parent not in (None, number - 1):
        detail = f"version {number} was not committed upon version {number - 1}, but upon {parent}"
        yield found(Kind.LOST_UPDATE, (f"v{number}",), detail, moments=(str(number),))


class _Tree:
    """What a snapshot leads to.

    Parameters
    ----------
    root, location
        The table's, as the filesystem and as its metadata call it.
    """

    def __init__(self, files: AvroFiles, root: str, location: str) -> None:
        self._files = files
        self._root = root
        self._location = location.rstrip("/") + "/"

    def commit(
        self, number: int, snapshot: Mapping[str, Any], absent: Callable[[Mapping[str, str]], list[str]]
    ) -> Iterator[Finding]:
        """Return what is wrong with the current snapshot of metadata that are not there yet."""
        moments = (str(number),)
        own: list[Manifest] = []
        others: list[Manifest] = []
        for each in self._manifests(str(snapshot["manifest-list"])):
            (own if each.snapshot == snapshot["snapshot-id"] else others).append(each)
        contents = {each: self._contents([each]) for each in own}
        wanted = {each.path: inside for each in others if (inside := self._inside(each.path)) is not None}
        added = [each for found in contents.values() for each in found if each.added]
        wanted |= {each.path: inside for each in added if (inside := self._inside(each.path)) is not None}
        yield from self._vectors(
            number,
            [each for manifest in own if manifest.deletes for each in contents[manifest]],
            [*own, *others],
        )
        yield from read_errors(self._files.problems, Kind.DANGLING_REFERENCE)
        if missing := absent(wanted):
            files = "a file that is" if len(missing) == 1 else f"{len(missing):,} files that are"
            yield found(
                Kind.DANGLING_REFERENCE, missing, f"version {number} has {files} not there", moments=moments
            )

    def _vectors(
        self, number: int, deletes: Sequence[Content], manifests: Sequence[Manifest]
    ) -> Iterator[Finding]:
        """Find delete files for data files that the table no longer has: what they delete is back."""
        about = {each.about: each.path for each in deletes if each.added and each.about is not None}
        if not about:
            return
        there = {
            each.path
            for each in self._contents([each for each in manifests if not each.deletes])
            if each.live
        }
        if self._files.problems:
            return
        if stray := [each for each in about if each not in there]:
            files = "a data file" if len(stray) == 1 else f"{len(stray):,} data files"
            detail = f"version {number} deletes rows of {files} that it does not have"
            names = (*(about[each] for each in stray), *stray)
            yield found(Kind.DANGLING_VECTOR, names, detail, moments=(str(number),))

    def _manifests(self, path: str) -> list[Manifest]:
        inside = self._inside(path)
        return [] if inside is None else self._files.records([below(self._root, inside)], manifest_of) or []

    def _contents(self, manifests: Sequence[Manifest]) -> list[Content]:
        paths = [inside for each in manifests if (inside := self._inside(each.path)) is not None]
        return self._files.records([below(self._root, each) for each in paths], content_of) or []

    def _inside(self, address: str) -> str | None:
        """Return where a file lies, from the table's root; None: it lies elsewhere."""
        return address.removeprefix(self._location) if address.startswith(self._location) else None
