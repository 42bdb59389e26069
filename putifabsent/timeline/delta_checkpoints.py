"""Delta's checkpoints: which there are, and which files a table had then."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.shim.formats.delta import SIDECARS, checkpoint_in
from putifabsent.timeline.files import below, listed
from putifabsent.timeline.problems import Problem, Problems, Trouble, report
from putifabsent.timeline.reading import arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Checkpoint", "checkpoints", "files_in"]


class Checkpoint(NamedTuple):
    """A checkpoint all of which is there.

    Attributes
    ----------
    number
        The last version in it.
    paths
        Its files.
    """

    number: int
    paths: tuple[str, ...]


def checkpoints(fs: Any, log: str) -> list[Checkpoint]:
    """Return the checkpoints in a log's folder that are complete, the oldest one first."""
    found: dict[tuple[int, int, str], list[str]] = defaultdict(list)
    for each in listed(fs, log):
        parsed = checkpoint_in(each.last)
        if parsed is not None:
            # Of one part there may be several: each is all of it.
            alone = each.last if parsed.parts == 1 else ""
            found[parsed.number, parsed.parts, alone].append(each.path)
    complete = [
        Checkpoint(number, tuple(sorted(paths)))
        for (number, parts, _), paths in found.items()
        if len(paths) == parts
    ]
    return sorted(complete)


def files_in(fs: Any, log: str, checkpoint: Checkpoint, problems: Problems) -> set[str] | None:
    """Return the data files that a table had, as the log says their paths; None: it can't be read.

    Parameters
    ----------
    fs
        The filesystem.
    log
        The log's folder.
    checkpoint
        One of :func:`checkpoints`.
    problems
        Takes what can't be read.
    """
    files: set[str] = set()
    paths = list(checkpoint.paths)
    while paths:
        path = paths.pop()
        try:
            for kind, said in _actions(fs, path):
                if kind == "add":
                    files.add(said)
                else:
                    paths.append(said if "/" in said else below(log, f"{SIDECARS}/{said}"))
        except FileNotFoundError as error:
            report(problems, Problem(path, Trouble.MISSING, "a checkpoint consists of it"), error)
            return None
        except (arrow().ArrowException, KeyError, TypeError, ValueError) as error:
            report(
                problems, Problem(path, Trouble.UNREADABLE, f"it is torn, or no checkpoint: {error}"), error
            )
            return None
    return files


def _actions(fs: Any, path: str) -> Iterator[tuple[str, str]]:
    """Return what a file of a checkpoint adds, and the sidecars that it goes on in."""
    written = fs.cat_file(path)
    if path.endswith(".json"):
        for line in written.splitlines():
            action = json.loads(line)
            yield from ((kind, action[kind]["path"]) for kind in ("add", "sidecar") if kind in action)
        return
    pa = arrow()
    parquet = pa.parquet.ParquetFile(pa.BufferReader(written))
    kinds = [kind for kind in ("add", "sidecar") if kind in parquet.schema_arrow.names]
    for batch in parquet.iter_batches(columns=[f"{kind}.path" for kind in kinds]):
        for kind in kinds:
            yield from (
                (kind, each["path"]) for each in batch.column(kind).to_pylist() if each and each["path"]
            )
