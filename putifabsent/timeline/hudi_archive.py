"""The history of a Hudi table of version 6: log files of Avro records, one a state of an instant."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from putifabsent.errors import ConfigError
from putifabsent.shim.formats.hudi import archive_in, completed_as
from putifabsent.shim.formats.hudi_files import blocks
from putifabsent.shim.formats.hudi_steps import State
from putifabsent.timeline.files import (
    Problem,
    Problems,
    Trouble,
    avro,
    content_of,
    listed,
    read,
    report,
)
from putifabsent.timeline.records import Content, Details, Instant

_PLAN = "mergeArchivePlan"
# So often files may be merged into one, and go, while they are read.
_TRIES = 3
_NAMES = ("commitTime", "actionType", "actionState", "stateTransitionTime")
# What an inflight commit expects to write is no plan.
_ANTICIPATED = "HoodieCommitMetadata"
_KINDS = {
    "hoodieSavePointMetadata": "HoodieSavepointMetadata",
    "hoodieInflightReplaceMetadata": "HoodieCommitMetadata",
}


def instants(fs: Any, folder: str, *, raw: bool, problems: Problems | None) -> list[Instant]:
    """Return the instants in all log files of a folder, in no order, each in its newest state.

    With ``raw``, their plans and metadata are decoded, too.
    """
    found: list[Instant] = []
    before: list[str] | None = None
    for _ in range(_TRIES):
        paths = sorted(each.path for each in listed(fs, folder) if archive_in(each.last) is not None)
        unread: Problems = []
        found = [each for path in paths for each in archived_in(fs, path, raw=raw, problems=unread)]
        if not unread or paths == before:
            break
        before = paths
    for problem in unread:
        if not _is_being_merged(fs, folder, problem.path):
            report(problems, problem)
    # Files are merged into one before they are removed: an instant may be in both.
    once: dict[tuple[str, str], Instant] = {}
    for each in found:
        key = (each.time, completed_as(each.action))
        if key not in once or once[key].state.rank < each.state.rank:
            once[key] = each
    return list(once.values())


def archived_in(fs: Any, path: str, *, raw: bool, problems: Problems | None) -> list[Instant]:
    """Return the instants in one log file; arguments as for :func:`instants`."""
    states: dict[tuple[str, str], list[dict[str, Any]]] = {}
    try:
        written = fs.cat_file(path)
    except FileNotFoundError as error:
        report(problems, Problem(path, Trouble.MISSING, "it went while the history was read"), error)
        return []
    try:
        for entry in _entries(written, raw=raw):
            states.setdefault(_key_of(entry), []).append(entry)
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a parser makes of torn bytes
        reason = f"it is torn, or no log of archived instants: {error}"
        report(problems, Problem(path, Trouble.UNREADABLE, reason), error)
    return [_instant(time, entries, path, raw=raw) for (time, _), entries in states.items()]


def _entries(log: bytes, *, raw: bool) -> Iterator[dict[str, Any]]:
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
