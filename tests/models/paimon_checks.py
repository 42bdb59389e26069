"""What the publication checks of a Paimon table, in every state."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.models.paimon import Committed, Tree, latest, snapshot, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from putifabsent.testing.explore import ActorRun
    from tests.models.storage import State

LOST_COMMIT = "a commit is lost"
GAP = "a number is missing"
DANGLING_REFERENCE = "a file is missing"
DISORDER = "rows merge out of order"
LOST_UPDATE = "an update is lost"
DANGLING_VECTOR = "a deletion vector dangles"
TWO_ROWS = "a key has two valid rows"


class Checks:
    """Judges each version that was ever committed.

    Parameters
    ----------
    checks
        What is checked, by the words above; all of them by default.
    """

    def __init__(self, *checks: str) -> None:
        self.checks = checks or tuple(_TREES)
        self.snapshots = not checks or LOST_COMMIT in checks

    def judge(self, world: Any, state: State, runs: tuple[ActorRun, ...]) -> str | None:
        files, log = dict(state.files), state.log
        if self.snapshots and (broken := _snapshots(files, log)) is not None:
            return broken
        for version in range(1, latest(files) + 1):
            try:
                read = tree(files, version)
            except KeyError as error:
                return f"{DANGLING_REFERENCE}: {error} of snapshot {version}"
            for check in self.checks:
                broken = _TREES[check](read, log) if check in _TREES else None
                if broken is not None:
                    return f"{check}: {broken} in version {version}"
        return None


def _snapshots(files: Mapping[str, bytes], log: tuple[Committed, ...]) -> str | None:
    """Each acknowledged snapshot keeps its bytes, and the numbers have no gaps."""
    for commit in log:
        if files.get(snapshot(commit.version)) != commit.body:
            return f"{LOST_COMMIT}: snapshot {commit.version} of {commit.who} was overwritten"
    missing = [each for each in range(1, latest(files) + 1) if snapshot(each) not in files]
    return f"{GAP}: {missing}" if missing else None


def _disorder(read: Tree, log: tuple[Committed, ...]) -> str | None:
    """The row that was committed last is the one that is read, for it has the highest number."""
    return _inconsistent(read, log, ordered=False)


def _lost_update(read: Tree, log: tuple[Committed, ...]) -> str | None:
    """Each column has the value that was committed last, where numbers follow the order of the commits."""
    return _inconsistent(read, log, ordered=True)


def _inconsistent(read: Tree, log: tuple[Committed, ...], *, ordered: bool) -> str | None:
    commits = [each for each in log if each.key is not None and each.version <= read.version]
    for key in {each.key: None for each in commits if each.key is not None}:
        mine = [each for each in commits if each.key == key]
        numbers = [each.sequence for each in mine]
        if ordered is not all(one < other for one, other in pairwise(numbers)):
            continue
        expected = {at: value for each in mine for at, value in enumerate(each.columns) if value is not None}
        rows = [row for bucket in _buckets(read) if (row := read.find(bucket, key))]
        if len(rows) != 1 or any(rows[0].columns[at] != value for at, value in expected.items()):
            return f"{key} reads {[row.columns for row in rows]}, not {sorted(expected.items())}"
    return None


def _vectors(read: Tree, _: tuple[Committed, ...]) -> str | None:
    """Each deletion vector is of a file that is there."""
    there = {each.file for each in read.entries}
    dangling = [file for _, vectors in read.vectors for file, _ in vectors if file not in there]
    return ", ".join(dangling) or None


def _one_row(read: Tree, _: tuple[Committed, ...]) -> str | None:
    """Above level 0 a key has one row that no vector deletes: readers there don't merge."""
    keys: Counter[str] = Counter()
    for bucket in _buckets(read):
        files = [each for each in read.of(bucket) if each.level > 0]
        keys.update(row.key for _, _, row in read.rows(bucket, files))
    return next((key for key, count in keys.items() if count > 1), None)


def _buckets(read: Tree) -> set[int]:
    return {each.bucket for each in read.entries}


_TREES: dict[str, Callable[[Tree, tuple[Committed, ...]], str | None]] = {
    DISORDER: _disorder,
    LOST_UPDATE: _lost_update,
    DANGLING_VECTOR: _vectors,
    TWO_ROWS: _one_row,
}
