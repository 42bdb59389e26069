"""The history of a Hudi table: of version 8 or later parquet files in levels, named by numbered manifests.

``_version_`` says which manifest counts. It is removed before it is written again, so whoever finds none, or
one that names a manifest that has gone, takes the manifest with the highest number.

Of version 6: log files of Avro records, one a state of an instant.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

from putifabsent.shim.formats.hudi import archive_in, completed_as, history_in, manifest_in
from putifabsent.shim.formats.hudi_files import blocks
from putifabsent.shim.formats.hudi_steps import State
from putifabsent.timeline.files import (
    Content,
    Parsing,
    Problem,
    Problems,
    Trouble,
    arrow,
    avro,
    below,
    content_of,
    listed,
    read,
    report,
    report_all,
)
from putifabsent.timeline.reading import Details, HistoryFile, Instant, Raw

_VERSION = "_version_"
_KNOWN = 1
_LIGHT = ["instantTime", "completionTime", "action", "version"]
_HEAVY = [*_LIGHT, *Raw._fields]
# So often an archiver may be faster: each time it has written a manifest more, or merged files into one.
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
        report(problems, *problem)
    return latest


def _manifest(fs: Any, folder: str, problems: Problems) -> Manifest:
    there = {each.last: each for each in listed(fs, folder)}
    numbers = {number for last in there if (number := manifest_in(last)) is not None}
    if not numbers:
        if any(history_in(last) for last in there):
            reason = "there is a history, and no manifest that says which of its files count"
            report(problems, folder, Trouble.MISSING, reason)
        return Manifest(0)
    pointed = _pointed_at(fs, folder) if _VERSION in there else None
    number = pointed if pointed in numbers else max(numbers)
    path = below(folder, f"manifest_{number}")
    files = []
    for last, size in _entries(fs, path, problems):
        parsed = history_in(last)
        if parsed is None:
            report(problems, path, Trouble.UNREADABLE, f"it names {last!r}, which is no history")
        elif last not in there:
            report(problems, below(folder, last), Trouble.MISSING, f"manifest_{number} names it")
        elif size not in (None, there[last].size):
            reason = f"it has {there[last].size} bytes, and manifest_{number} says {size}"
            report(problems, there[last].path, Trouble.UNREADABLE, reason)
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
    for _, written in read(fs, [path]):
        with Parsing(problems, path, "manifest"):
            return [(str(each["fileName"]), each.get("fileLen")) for each in json.loads(written)["files"]]
        return []
    report(problems, path, Trouble.MISSING, "it went while it was read")
    return []


def instants_in(fs: Any, file: HistoryFile, *, raw: bool, problems: Problems | None) -> Iterator[Instant]:
    """Return the instants in one file, in the order in which they lie there; ``raw``: with all they say."""
    odd: Problems = []
    for time, completion, action, version, *said in _rows(fs, file, _HEAVY if raw else _LIGHT, problems):
        if version == _KNOWN and time is not None and action is not None:
            details = Raw(*said) if raw else None
            yield Instant(time, action, State.COMPLETED, completion, source=file.path, raw=details)
            continue
        trouble = Trouble.UNKNOWN if version != _KNOWN else Trouble.UNREADABLE
        reason = f"its record of instant {time} is of version {version}, of action {action}"
        odd.append(Problem(file.path, trouble, reason))
        if problems is None:
            raise odd[0].error()
    if problems is not None:
        report_all(problems, odd)


def _rows(fs: Any, file: HistoryFile, names: list[str], problems: Problems | None) -> Iterator[Any]:
    """Return the rows of one file, as far as it can be read, with what these columns have."""
    pa = arrow()
    errors = (pa.ArrowException, OSError, ValueError)
    try:
        with (
            Parsing(problems, file.path, "history", errors=errors),
            fs.open(file.path, "rb") as opened,
            pa.parquet.ParquetFile(opened) as parquet,
        ):
            if missing := set(names) - set(parquet.schema_arrow.names):
                raise ValueError(f"it has no {', '.join(sorted(missing))}")
            for batch in parquet.iter_batches(columns=names):
                yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    except FileNotFoundError as error:
        reason = "it went while the history was read: read it again"
        report(problems, file.path, Trouble.MISSING, reason, error)


def timed(fs: Any, files: Sequence[HistoryFile]) -> list[HistoryFile]:
    """Return files with the times of their own instants, many files at a time.

    A file that can't be read keeps those of its name: who reads its instants hears why.
    """
    if not files:
        return []
    arrow()

    def own(file: HistoryFile) -> HistoryFile:
        problems: Problems = []
        times = [time for (time,) in _rows(fs, file, _LIGHT[:1], problems) if time is not None]
        return file if problems or not times else file._replace(first=min(times), last=max(times))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(own, files))


def merged(
    fs: Any, files: Sequence[HistoryFile], *, raw: bool, problems: Problems | None
) -> Iterator[Instant]:
    """Return the instants in files by their times, each once, with few files in memory.

    An archiver that died in between has archived instants twice.
    """
    waiting: list[Instant] = []
    for file in sorted(files, key=lambda file: file.first):
        ready = [each for each in waiting if each.time < file.first]
        if ready:
            waiting = [each for each in waiting if each.time >= file.first]
            yield from _once(ready)
        waiting.extend(instants_in(fs, file, raw=raw, problems=problems))
    yield from _once(waiting)


def _once(instants: list[Instant]) -> Iterator[Instant]:
    last = None
    for each in sorted(instants, key=lambda each: each.key("requested")):
        if each.identity != last:
            yield each
        last = each.identity


# --- version 6

_PLAN = "mergeArchivePlan"
_NAMES = ("commitTime", "actionType", "actionState", "stateTransitionTime")
# What an inflight commit expects to write is no plan.
_ANTICIPATED = "HoodieCommitMetadata"
_KINDS = {
    "hoodieSavePointMetadata": "HoodieSavepointMetadata",
    "hoodieInflightReplaceMetadata": "HoodieCommitMetadata",
}


def in_logs(fs: Any, folder: str, *, raw: bool, problems: Problems | None) -> list[Instant]:
    """Return the instants in all log files of a folder, in no order, each in its newest state.

    With ``raw``, their plans and metadata are decoded, too.
    """
    found: list[Instant] = []
    before: list[str] | None = None
    for _ in range(_TRIES):
        paths = sorted(each.path for each in listed(fs, folder) if archive_in(each.last) is not None)
        unread: Problems = []
        found = [each for path in paths for each in in_log(fs, path, raw=raw, problems=unread)]
        if not unread or paths == before:
            break
        before = paths
    for problem in unread:
        if not _is_being_merged(fs, folder, problem.path):
            report(problems, *problem)
    # Files are merged into one before they are removed: an instant may be in both.
    once: dict[tuple[str, str], Instant] = {}
    for each in found:
        key = (each.time, completed_as(each.action))
        if key not in once or once[key].state.rank < each.state.rank:
            once[key] = each
    return list(once.values())


def in_log(fs: Any, path: str, *, raw: bool, problems: Problems | None) -> list[Instant]:
    """Return the instants in one log file; arguments as for :func:`in_logs`."""
    states: dict[tuple[str, str], list[dict[str, Any]]] = {}
    try:
        written = fs.cat_file(path)
    except FileNotFoundError as error:
        report(problems, path, Trouble.MISSING, "it went while the history was read", error)
        return []
    with Parsing(problems, path, "log of archived instants"):
        for entry in _logged(written, raw=raw):
            states.setdefault(_key_of(entry), []).append(entry)
    return [_instant(time, entries, path, raw=raw) for (time, _), entries in states.items()]


def _logged(log: bytes, *, raw: bool) -> Iterator[dict[str, Any]]:
    one = avro().schemaless_reader
    for block in blocks(log):
        written, wanted = _schemas(block.schema, raw=raw)
        for record in block.records:
            yield one(io.BytesIO(record), written, wanted)


@lru_cache(maxsize=64)
def _schemas(text: str, *, raw: bool) -> tuple[Any, Any]:
    """Return the schema of a block's records, and of what is wanted of them."""
    schema = json.loads(text)
    light = {**schema, "fields": [each for each in schema["fields"] if each["name"] in _NAMES]}
    parse = avro().parse_schema
    return parse(schema), None if raw else parse(light)


def _instant(time: str, entries: list[dict[str, Any]], path: str, *, raw: bool) -> Instant:
    states = sorted(entries, key=lambda entry: _state_of(entry).rank)
    first, newest = states[0], states[-1]
    state = _state_of(newest)
    is_completed = state is State.COMPLETED
    return Instant(
        time,
        str(newest["actionType"]),
        state,
        newest.get("stateTransitionTime") if is_completed else None,
        began=str(first["actionType"]) if first is not newest else "",
        stamped=is_completed,
        source=path,
        raw=_details(states) if raw else None,
    )


def _key_of(entry: dict[str, Any]) -> tuple[str, str]:
    time, action, _ = entry["commitTime"], entry["actionType"], _state_of(entry)
    if not time or not action:
        raise ValueError("a record has no time, or no action")
    return time, completed_as(action)


def _state_of(entry: dict[str, Any]) -> State:
    # Old versions archived what was completed alone, and did not say so.
    return State(str(entry.get("actionState") or State.COMPLETED.value).lower())


def _details(states: Iterable[dict[str, Any]]) -> Details:
    plan = metadata = None
    for entry in states:
        for name, value in entry.items():
            if isinstance(value, dict):
                content = Content(_KINDS.get(name) or name[0].upper() + name[1:], value)
                if _state_of(entry) is State.COMPLETED:
                    metadata = content
                elif content.kind != _ANTICIPATED:
                    plan = plan or content
    return Details(plan, metadata)


def _is_being_merged(fs: Any, folder: str, path: str) -> bool:
    """Whether a file is one that others are being merged into, and that nobody needs until that is done."""
    # It goes when all is merged: perhaps now.
    for plan, written in read(fs, [each.path for each in listed(fs, folder) if each.last == _PLAN]):
        content = content_of(written, plan, [])
        return content is not None and content.value.get("mergedArchiveFileName") == path.rpartition("/")[2]
    return False
