"""What Paimon's snapshots lead to: manifest lists, manifests and index manifests, each read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from putifabsent.shim.formats.paimon import FOLDER, Entry, Index, entry_of, index_of
from putifabsent.timeline.avro_files import records_of
from putifabsent.timeline.files import below, read
from putifabsent.timeline.problems import Problem, Problems, Trouble, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["Manifests"]


class Manifests:
    """The manifests of a table.

    Parameters
    ----------
    fs
        The filesystem.
    table
        The table's root, also for snapshots of a branch.
    problems
        Takes what can't be read, or isn't there.
    """

    def __init__(self, fs: Any, table: str, problems: Problems) -> None:
        self._fs = fs
        self._folder = below(table, FOLDER)
        self._problems = problems
        self._read: dict[str, list[Any] | None] = {}

    def entries(self, lists: Sequence[str]) -> list[Entry] | None:
        """Return the entries of all manifests that lists name, in order; None: one of them can't be read."""
        names = self._records(lists, lambda record: str(record["_FILE_NAME"]))
        return None if names is None else self._records(names, entry_of)

    def indices(self, name: str) -> list[Index] | None:
        """Return the index files that an index manifest names; None: it can't be read."""
        found = self._records([name], index_of)
        return None if found is None else [each for each in found if each is not None]

    def _records(self, names: Sequence[str], parse: Callable[[Any], T]) -> list[T] | None:
        new = {below(self._folder, name): name for name in names if name not in self._read}
        found = dict(read(self._fs, list(new)))
        for path, name in new.items():
            self._read[name] = self._parsed(path, found.get(path), parse)
        return _joined(self._read[name] for name in names)

    def _parsed(self, path: str, written: bytes | None, parse: Callable[[Any], T]) -> list[T] | None:
        if written is None:
            report(
                self._problems, Problem(path, Trouble.MISSING, "a snapshot leads to it, and it is not there")
            )
            return None
        try:
            return [parse(record) for record in records_of(written)]
        except (KeyError, TypeError, ValueError) as error:
            trouble = Trouble.UNREADABLE if written else Trouble.EMPTY
            report(self._problems, Problem(path, trouble, f"it is torn, or no manifest: {error}"), error)
            return None


def _joined(lists: Iterable[list[T] | None]) -> list[T] | None:
    joined: list[T] = []
    for each in lists:
        if each is None:
            return None
        joined += each
    return joined
