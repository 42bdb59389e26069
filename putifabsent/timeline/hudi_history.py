"""The history of a Hudi table of version 8 or later: parquet files in levels, named by numbered manifests.

``_version_`` says which manifest counts. It is removed before it is written again, so whoever finds none, or
one that names a manifest that has gone, takes the manifest with the highest number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any, NamedTuple

from putifabsent.shim.formats.hudi import history_in, manifest_in
from putifabsent.shim.formats.hudi_steps import State
from putifabsent.timeline.files import Problem, Problems, Trouble, arrow, below, listed, report, report_all
from putifabsent.timeline.reading import HistoryFile, Span
from putifabsent.timeline.records import Instant, Raw

_VERSION = "_version_"
_KNOWN = 1
_LIGHT = ["instantTime", "completionTime", "action", "version"]
_HEAVY = [*_LIGHT, "metadata", "plan"]
# So often an archiver may be faster: each time it has written a manifest more.
_TRIES = 3
_AT_ONCE = 16


class Manifest(NamedTuple):
    """What the history consists of: its files that are there, by level, the newest first."""

    number: int  # the manifest's; 0: there is no history
    files: tuple[HistoryFile, ...] = ()


def manifest(fs: Any, folder: str, problems: Problems | None) -> Manifest:
    """Return what the history in a folder consists of, now."""
    found: list[Problem] = []
    latest = Manifest(0)
    for _ in range(_TRIES):
        before, found = latest.number, []
        latest = _manifest(fs, folder, found)
        if not found or latest.number == before:
            break
    for problem in found:
        report(problems, problem)
    return latest


def _manifest(fs: Any, folder: str, problems: Problems) -> Manifest:
    there = {each.last: each for each in listed(fs, folder)}
    numbers = {number for last in there if (number := manifest_in(last)) is not None}
    if not numbers:
        if any(history_in(last) for last in there):
            reason = "there is a history, and no manifest that says which of its files count"
            report(problems, Problem(folder, Trouble.MISSING, reason))
        return Manifest(0)
    pointed = _pointed_at(fs, folder) if _VERSION in there else None
    number = pointed if pointed in numbers else max(numbers)
    path = below(folder, f"manifest_{number}")
    files = []
    for last, size in _entries(fs, path, problems):
        parsed = history_in(last)
        if parsed is None:
            report(problems, Problem(path, Trouble.UNREADABLE, f"it names {last!r}, which is no history"))
        elif last not in there:
            report(problems, Problem(below(folder, last), Trouble.MISSING, f"manifest_{number} names it"))
        elif size not in (None, there[last].size):
            reason = f"it has {there[last].size} bytes, and manifest_{number} says {size}"
            report(problems, Problem(there[last].path, Trouble.UNREADABLE, reason))
        else:
            files.append(HistoryFile(there[last].path, there[last].size, *parsed))
    newest_first = sorted(files, key=lambda file: file.first, reverse=True)
    return Manifest(number, tuple(sorted(newest_first, key=lambda file: file.level)))


def _pointed_at(fs: Any, folder: str) -> int | None:
    try:
        return int(fs.cat_file(below(folder, _VERSION)))
    except (FileNotFoundError, ValueError):
        return None


def _entries(fs: Any, path: str, problems: Problems) -> list[tuple[str, int | None]]:
    try:
        content = json.loads(fs.cat_file(path))
        return [(str(each["fileName"]), each.get("fileLen")) for each in content["files"]]
    except FileNotFoundError:
        report(problems, Problem(path, Trouble.MISSING, "it went while it was read"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        report(problems, Problem(path, Trouble.UNREADABLE, f"it is torn, or no manifest: {error}"))
    return []


def instants_in(fs: Any, file: HistoryFile, *, raw: bool, problems: Problems | None) -> Iterator[Instant]:
    """Return the instants in one file, in the order in which they lie there; ``raw``: with all they say."""
    pa = arrow()
    try:
        with fs.open(file.path, "rb") as opened, pa.parquet.ParquetFile(opened) as parquet:
            for batch in _batches(parquet, _HEAVY if raw else _LIGHT):
                yield from _rows(batch, file.path, problems)
    except FileNotFoundError as error:
        reason = "it went while the history was read: read it again"
        report(problems, Problem(file.path, Trouble.MISSING, reason), error)
    except (pa.ArrowException, OSError, ValueError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # the store's, or a problem that is raised
        report(problems, Problem(file.path, Trouble.UNREADABLE, f"it is torn, or no history: {error}"), error)


def _batches(parquet: Any, columns: list[str]) -> Iterator[Any]:
    missing = set(columns) - set(parquet.schema_arrow.names)
    if missing:
        raise ValueError(f"it has no {', '.join(sorted(missing))}")
    yield from parquet.iter_batches(columns=columns)


def _rows(batch: Any, path: str, problems: Problems | None) -> Iterator[Instant]:
    columns = [batch.column(name).to_pylist() for name in _LIGHT]
    raws: Iterable[Raw | None] = repeat(None, batch.num_rows)
    if batch.num_columns > len(_LIGHT):
        raws = map(Raw, batch.column("plan").to_pylist(), batch.column("metadata").to_pylist())
    odd: Problems = []
    for time, completion, action, version, raw in zip(*columns, raws, strict=True):
        if version == _KNOWN and time is not None and action is not None:
            yield Instant(time, action, State.COMPLETED, completion, source=path, raw=raw)
            continue
        trouble = Trouble.UNKNOWN if version != _KNOWN else Trouble.UNREADABLE
        reason = f"its record of instant {time} is of version {version}, of action {action}"
        odd.append(Problem(path, trouble, reason))
        if problems is None:
            raise odd[0].error()
    if problems is not None:
        report_all(problems, odd)


def spans(fs: Any, files: Sequence[HistoryFile]) -> list[Span]:
    """Return the times in files, by what their own ends say of them, many files at a time.

    Of a file whose end can't be read, what its name says: who reads its instants hears why.
    """
    if not files:
        return []
    arrow()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda file: _span(fs, file), files))


def _span(fs: Any, file: HistoryFile) -> Span:
    pa = arrow()
    try:
        with fs.open(file.path, "rb") as opened, pa.parquet.ParquetFile(opened) as parquet:
            times = _times(parquet)
    except FileNotFoundError:
        times = []
    except (pa.ArrowException, OSError, ValueError) as error:
        if getattr(error, "errno", None) is not None:
            raise
        times = []
    return Span(file, min(times, default=file.first), max(times, default=file.last))


def _times(parquet: Any) -> list[str]:
    """Return times of which none in a file is before the first, or after the last."""
    metadata = parquet.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    at = parquet.schema.names.index(_LIGHT[0])  # a ValueError, where there is none
    known = [group.column(at).statistics for group in groups]
    if all(each is not None and each.has_min_max for each in known):
        return [time for each in known for time in (each.min, each.max)]
    return [time for time in parquet.read(columns=_LIGHT[:1]).column(0).to_pylist() if time is not None]


def merged(fs: Any, among: Sequence[Span], *, raw: bool, problems: Problems | None) -> Iterator[Instant]:
    """Return the instants in files by their times, each once, with few files in memory.

    An archiver that died in between has archived instants twice.
    """
    waiting: list[Instant] = []
    for file, first, _ in sorted(among, key=lambda span: span.first):
        ready = [each for each in waiting if each.time < first]
        if ready:
            waiting = [each for each in waiting if each.time >= first]
            yield from _once(ready)
        waiting.extend(instants_in(fs, file, raw=raw, problems=problems))
    yield from _once(waiting)


def _once(instants: list[Instant]) -> Iterator[Instant]:
    last = None
    for each in sorted(instants, key=lambda each: each.key("requested")):
        if each.identity != last:
            yield each
        last = each.identity
