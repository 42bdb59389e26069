"""Paimon's timelines: snapshots, and the changelogs that outlive them."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from putifabsent.errors import ConfigError
from putifabsent.shim.formats.paimon import number_in
from putifabsent.timeline.files import below, numbered, read
from putifabsent.timeline.parts import Numbered, numbered_parts
from putifabsent.timeline.problems import Problem, Problems, Trouble, report
from putifabsent.timeline.reading import Timeline
from putifabsent.timeline.records import Content, Details, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from putifabsent.timeline.parts import Part
    from putifabsent.timeline.records import Order

__all__ = ["PaimonTimeline"]


class PaimonTimeline(Timeline[Snapshot]):
    """The snapshots of a Paimon table, or of a branch of one, in its folder ``branch/branch-<name>/``.

    ``LATEST`` and ``EARLIEST`` are hints, and not looked at: the snapshots that are there are listed.

    Raises
    ------
    ConfigError
        There is no Paimon table: neither a schema nor a snapshot.
    """

    format = "paimon"
    COLUMNS = (
        ("number", "int64"),
        ("action", "string"),
        ("user", "string"),
        ("identifier", "int64"),
        ("committed", "utc"),
        ("schema", "int64"),
        ("archived", "bool"),
        ("path", "string"),
    )

    def __init__(self, fs: Any, root: str) -> None:
        super().__init__(fs, root)
        if not any(self._numbered(kind) for kind in ("schema", "snapshot")):
            raise ConfigError(f"there is no Paimon table at {root!r}: neither a schema nor a snapshot")

    def active(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[Snapshot]:
        """Return the snapshots; of several one after the other, each was committed upon the one before."""
        return self._read("snapshot", self._numbered("snapshot"), problems)

    def history(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[Snapshot]:
        """Return the changelogs of snapshots that have expired, where the table keeps them for longer."""
        return self._read("changelog", self._numbered("changelog"), problems)

    def parts(
        self,
        most: int | None = None,
        *,
        active: bool = True,
        history: bool = True,
        problems: Problems | None = None,
    ) -> Sequence[Part]:
        """Cut by numbers."""
        # In this order: a changelog is there before its snapshot goes.
        there = self._numbered("snapshot") if active else {}
        gone = self._numbered("changelog") if history else {}
        return numbered_parts(there, gone, most, follows=history)

    def records_in(self, part: Part, *, problems: Problems | None = None) -> Iterator[Snapshot]:
        """Return the snapshots of a part, then its changelogs."""
        if not isinstance(part, Numbered):
            yield from super().records_in(part, problems=problems)
            return
        found = set()
        for each in self._read("snapshot", dict(part.active), problems):
            found.add(each.number)
            yield each
        archived = dict(part.archived)
        if part.follows:
            archived |= {
                below(self.root, f"changelog/changelog-{number}"): number for _, number in part.active
            }
        unread = {path: number for path, number in archived.items() if number not in found}
        yield from self._read("changelog", unread, problems)

    def details(self, record: Snapshot, problems: Problems | None = None) -> Details:
        """Return all that the snapshot's file says."""
        return Details(None, Content("", record.content))

    def schemas(self) -> frozenset[int]:
        """Return the numbers of the schemas that are there."""
        return frozenset(self._numbered("schema").values())

    def _numbered(self, kind: str) -> dict[str, int]:
        return numbered(self.fs, below(self.root, kind), partial(number_in, kind))

    def _read(self, kind: str, numbers: Mapping[str, int], problems: Problems | None) -> Iterator[Snapshot]:
        for path, written in read(self.fs, list(numbers)):
            snapshot = _snapshot(numbers[path], path, kind, written, problems)
            if snapshot is not None:
                yield snapshot


def _said(number: int, written: bytes) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(written)
    if said["id"] != number:
        raise ValueError(f"it says that it is snapshot {said['id']}")
    return said


def _snapshot(
    number: int, path: str, kind: str, written: bytes, problems: Problems | None
) -> Snapshot | None:
    try:
        said = _said(number, written)
        return Snapshot(
            number=number,
            action=str(said["commitKind"]),
            user=str(said["commitUser"]),
            identifier=int(said["commitIdentifier"]),
            millis=int(said["timeMillis"]),
            schema=int(said["schemaId"]),
            path=path,
            archived=kind == "changelog",
            content=said,
        )
    except (KeyError, TypeError, ValueError) as error:
        trouble = Trouble.UNREADABLE if written else Trouble.EMPTY
        report(problems, Problem(path, trouble, f"it is torn, or no snapshot: {error}"), error)
        return None
