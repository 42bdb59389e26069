"""Delta's timelines: the commits that are in the log; and its checkpoints, which repeat what they say."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

from putifabsent.errors import ConfigError
from putifabsent.shim.formats.delta import SIDECARS, Added, added_by, checkpoint_in, logical, number_in
from putifabsent.timeline.files import (
    Parsing,
    Problems,
    Trouble,
    arrow,
    below,
    listed,
    numbered,
    read,
    report,
)
from putifabsent.timeline.reading import (
    Commit,
    Numbered,
    Order,
    Part,
    Timeline,
    Whole,
    numbered_parts,
)

_LOG = "_delta_log"
_INFO = "commitInfo"
_KNOWN = ("add", "remove", "protocol", _INFO)
_TOO_LARGE = 1 << 63
_POINTER = "_last_checkpoint"
_STAGED = ("_staged_commits", "_commits")
_COLUMNS = (
    *("add.path", "add.size", "add.deletionVector.storageType", "add.deletionVector.pathOrInlineDv"),
    "sidecar.path",
)
"""What is read of checkpoints in parquet."""


class DeltaTimeline(Timeline[Commit]):
    """The commits of a Delta table that its log still has; it has no history.

    ``ConfigError``: there is no Delta table: neither a commit nor a checkpoint in ``_delta_log/``.
    """

    format = "delta"
    COLUMNS = Commit.COLUMNS
    _written_as = _INFO

    def __init__(self, fs: Any, root: str) -> None:
        super().__init__(fs, root)
        if not self._numbered() and not checkpoints(fs, below(root, _LOG)):
            raise ConfigError(f"there is no Delta table at {root!r}: no commit or checkpoint in its {_LOG}/")

    def active(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[Commit]:
        """Return the commits, one after the other."""
        return self._read(self._numbered(), problems)

    def _cut(self, whole: Whole, most: int | None, problems: Problems | None) -> Sequence[Part]:
        del problems
        return numbered_parts(self._numbered() if whole.active else {}, {}, most)

    def records_in(self, part: Part, *, problems: Problems | None = None) -> Iterator[Commit]:
        """Return the commits of a part."""
        if isinstance(part, Numbered):
            return self._read(dict(part.active), problems)
        return super().records_in(part, problems=problems)

    def actions(self, numbers: Collection[int]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Return all actions of commits; of one that can't be read, or has gone meanwhile, nothing."""
        paths = {path: number for path, number in self._numbered().items() if number in numbers}
        for path, written in read(self.fs, list(paths)):
            with suppress(ValueError):
                yield paths[path], _actions(written)

    def _read(self, numbers: Mapping[str, int], problems: Problems | None) -> Iterator[Commit]:
        for path, written in read(self.fs, list(numbers)):
            found = parsed(numbers[path], path, written, problems)
            if found is not None:
                yield found[0]

    def _numbered(self) -> dict[str, int]:
        return numbered(self.fs, below(self.root, _LOG), number_in)


def _actions(written: bytes) -> list[dict[str, Any]]:
    actions = [json.loads(line) for line in written.splitlines() if line.strip()]
    if not actions or not all(map(_is_action, actions)):
        raise ValueError("it has no actions, or others than objects, or files without a path")
    return actions


def _is_action(action: Any) -> bool:
    # Of what this version does not know, as of an action of a later protocol's, anything may be said.
    if not isinstance(action, dict) or not all(isinstance(action.get(kind) or {}, dict) for kind in _KNOWN):
        return False
    files = (of for kind in ("add", "remove") if (of := action.get(kind)))
    return all(
        isinstance(of.get("path"), str) and isinstance(of.get("deletionVector") or {}, dict) for of in files
    )


def parsed(
    number: int, path: str, written: bytes, problems: Problems | None
) -> tuple[Commit, list[dict[str, Any]]] | None:
    """Return what a commit says of itself, and its actions; None: it is none."""
    with Parsing(problems, path, "commit", written):
        actions = _actions(written)
        info: dict[str, Any] = next((each[_INFO] for each in actions if each.get(_INFO)), {})
        commit = Commit(
            number=number,
            action=str(info.get("operation", "")),
            millis=_number(info.get("inCommitTimestamp", info.get("timestamp"))),
            read=_number(info.get("readVersion")),
            transaction=str(info.get("txnId") or ""),
            path=path,
            content=info,
        )
        return commit, actions
    return None


def _number(value: Any) -> int | None:
    """Return a number of a ``commitInfo``, which has no form; None: it is none, or too large for a column."""
    try:
        number = int(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if abs(number) < _TOO_LARGE else None


class Checkpoint(NamedTuple):
    """A checkpoint all of which is there; its number is that of the last version in it."""

    number: int
    paths: tuple[str, ...]


def checkpoints(fs: Any, log: str) -> list[Checkpoint]:
    """Return the checkpoints in a log's folder that are complete, the oldest one first."""
    found: dict[tuple[int, int, str], list[str]] = defaultdict(list)
    for each in listed(fs, log):
        if (name := checkpoint_in(each.last)) is not None:
            # Of one part there may be several: each is all of it.
            alone = each.last if name.parts == 1 else ""
            found[name.number, name.parts, alone].append(each.path)
    return sorted(
        Checkpoint(number, tuple(sorted(paths)))
        for (number, parts, _), paths in found.items()
        if len(paths) == parts
    )


class Proof(NamedTuple):
    """A file beside a log, which is written after its version was committed."""

    number: int
    path: str


def proof_in(fs: Any, log: str) -> Proof | None:
    """Return the newest of a log's checksums, checkpoints and the pointer to one; None: there is none."""
    proofs = []
    for each in listed(fs, log):
        checkpoint = checkpoint_in(each.last)
        if checkpoint is not None:
            proofs.append(Proof(checkpoint.number, each.path))
        elif each.last.endswith(".crc") and (number := number_in(each.last[:-4] + ".json")) is not None:
            proofs.append(Proof(number, each.path))
        elif each.last == _POINTER:
            for path, written in read(fs, [each.path]):
                with suppress(KeyError, OverflowError, TypeError, ValueError):
                    proofs.append(Proof(int(json.loads(written)["version"]), path))
    return max(proofs, default=None)


def is_staged(fs: Any, log: str, newest: int) -> bool:
    """Whether a catalog may have commits above the newest one in the log; what is there stays staged, too."""
    there = (each.last.partition(".")[0] for folder in _STAGED for each in listed(fs, below(log, folder)))
    numbers = (number_in(f"{digits}.json") for digits in there)
    return any(number is not None and number > newest for number in numbers)


def files_in(fs: Any, log: str, checkpoint: Checkpoint, problems: Problems) -> dict[str, Added] | None:
    """Return the data files that a table had, by their decoded paths; None: it can't be read."""
    files: dict[str, Added] = {}
    paths = list(checkpoint.paths)
    while paths:
        path = paths.pop()
        try:
            written = fs.cat_file(path)
        except FileNotFoundError as error:
            report(problems, path, Trouble.MISSING, "a checkpoint consists of it", error)
            return None
        with Parsing(problems, path, "checkpoint"):
            for kind, action in _checkpoint_actions(path, written):
                if kind == "add":
                    files[logical(action).path] = added_by(action)
                else:
                    # In this table's own folder, whatever address it says: a copy's is not the original's.
                    last = unquote(action["path"].rpartition("/")[2])
                    paths.append(below(log, f"{SIDECARS}/{last}"))
            continue
        return None
    return files


def _checkpoint_actions(path: str, written: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return what a file of a checkpoint adds, and the sidecars that it goes on in."""
    if path.endswith(".json"):
        for line in written.splitlines():
            action = json.loads(line)
            yield from ((kind, action[kind]) for kind in ("add", "sidecar") if action.get(kind))
        return
    pa = arrow()
    parquet = pa.parquet.ParquetFile(pa.BufferReader(written))
    there = {column.path for column in map(parquet.schema.column, range(len(parquet.schema.names)))}
    kinds = [kind for kind in ("add", "sidecar") if kind in parquet.schema_arrow.names]
    for batch in parquet.iter_batches(columns=[each for each in _COLUMNS if each in there]):
        for kind in kinds:
            yield from ((kind, each) for each in batch.column(kind).to_pylist() if each and each["path"])
