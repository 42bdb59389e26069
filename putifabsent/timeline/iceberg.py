"""Iceberg's timelines: the snapshots that a table's current metadata list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from putifabsent.errors import ConfigError
from putifabsent.shim.formats.iceberg import is_metadata, metadata_of, number_in, rank_in
from putifabsent.timeline.files import (
    Parsing,
    Problems,
    Trouble,
    below,
    listed,
    read,
    report,
)
from putifabsent.timeline.reading import IcebergSnapshot, Order, Timeline

_FOLDER = "metadata"


class IcebergTimeline(Timeline[IcebergSnapshot]):
    """The snapshots of an Iceberg table that its current metadata list; what has expired is forgotten.

    ``root`` is that of a table that is kept by path, whose newest ``v<N>.metadata.json`` is current. Of one
    that a catalog keeps, only the catalog knows which is: then it is that metadata file itself.
    ``ConfigError``: there is no Iceberg table, or one of a catalog's, and no metadata file was given, or one
    that is not there.
    """

    format = "iceberg"
    COLUMNS = IcebergSnapshot.COLUMNS

    def __init__(self, fs: Any, root: str) -> None:
        folder, _, last = root.rpartition("/")
        self._given = root if is_metadata(last) else ""
        super().__init__(fs, folder.removesuffix(f"/{_FOLDER}") if self._given else root)
        if self._given and not fs.exists(root):
            raise ConfigError(
                f"there are no metadata at {root!r}: ask the catalog once more which are current; if it says "
                "the same, they are lost"
            )
        if not self.current():
            raise ConfigError(
                f"there is no v<N>.metadata.json in {below(self.root, _FOLDER)!r}: if a catalog keeps the "
                "table, it knows which metadata are current. Give their address in place of the table's"
            )

    def current(self) -> str:
        """Return the metadata file that was given, or the newest one now; empty: all have gone."""
        return self._given or next(reversed(self.versions()), "")

    def versions(self) -> dict[str, int]:
        """Return the metadata files of a table that is kept by path, by their numbers."""
        found = [
            (number, -rank_in(each.last), each.path)
            for each in listed(self.fs, below(self.root, _FOLDER))
            if (number := number_in(each.last)) is not None
        ]
        return {path: number for number, _, path in sorted(found)}

    def metadata(self, problems: Problems | None = None) -> Mapping[str, Any] | None:
        """Return what the current metadata say; None: they can't be read."""
        current = self.current()
        return dict(self.metadata_in([current] if current else [], problems)).get(current)

    def listed_since(self, problems: Problems) -> set[int] | None:
        """Return the snapshots that the newest metadata list beside those given; None: these are the newest.

        A catalog counts its metadata by the first digits of their names.
        """
        folder, _, last = self._given.rpartition("/")
        numbers = {each.path: _count_in(each.last) for each in listed(self.fs, folder)} if folder else {}
        newest = max(numbers.values(), default=-1)
        if newest <= _count_in(last):
            return None
        later = self.metadata_in([path for path, number in numbers.items() if number == newest], problems)
        return {each.id for _, metadata in later for each in self.snapshots_in(metadata, problems)}

    def metadata_in(
        self, paths: list[str], problems: Problems | None = None
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Return what metadata files say, without those that can't be read."""
        for path, written in read(self.fs, paths):
            with Parsing(problems, path, "metadata", written):
                yield path, metadata_of(written)

    def active(
        self, *, order: Order = "requested", problems: Problems | None = None
    ) -> Iterator[IcebergSnapshot]:
        """Return the snapshots that have not expired, of all branches."""
        metadata = self.metadata(problems)
        return iter(()) if metadata is None else iter(self.snapshots_in(metadata, problems))

    def snapshots_in(
        self, metadata: Mapping[str, Any], problems: Problems | None = None
    ) -> list[IcebergSnapshot]:
        """Return the snapshots that metadata list."""
        try:
            snapshots = sorted(
                metadata.get("snapshots") or (), key=lambda each: (_sequence(each), int(each["timestamp-ms"]))
            )
            numbers = list(map(_sequence, snapshots))
            if not all(before < after for before, after in pairwise((0, *numbers))):
                numbers = list(range(1, len(snapshots) + 1))
            return [
                IcebergSnapshot(
                    id=int(each["snapshot-id"]),
                    parent=None if (parent := each.get("parent-snapshot-id")) is None else int(parent),
                    number=number,
                    action=str((each.get("summary") or {}).get("operation") or ""),
                    millis=int(each["timestamp-ms"]),
                    current=each["snapshot-id"] == metadata.get("current-snapshot-id"),
                    path=str(each.get("manifest-list") or ""),
                    content=each,
                )
                for number, each in zip(numbers, snapshots, strict=True)
            ]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"no snapshot is in it: {error}"
            report(problems, self.current(), Trouble.UNREADABLE, reason, error)
            return []


def _count_in(last: str) -> int:
    digits = last.partition("-")[0]
    return int(digits) if is_metadata(last) and digits.isdigit() else -1


def _sequence(snapshot: Mapping[str, Any]) -> int:
    """Return a snapshot's sequence number; 0: it is of format version 1."""
    return int(snapshot.get("sequence-number") or 0)
