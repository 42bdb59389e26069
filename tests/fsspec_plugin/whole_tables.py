"""Whole tables with forty names or more, and the next commit of each by the calls of its own writer."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from tests.fsspec_plugin.hudi_tables import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NUMBERS", "TABLES", "commit", "files_of", "series_of"]

NUMBERS = range(85, 125)
"""What came before has expired; and by name, the sixteenth of these comes before the first."""

_VERSION_8 = b"hoodie.table.name=t\nhoodie.table.version=8\nhoodie.timeline.layout.version=2\n"
# As Hudi calls them, whose ledger knows them by their instant.
_DATA = "b5068208-e1a4-11e6-bf01-fe55135034f3-0_0-1-2_20260101000000{:03d}.parquet"
_NEXT = NUMBERS.stop
_NEXT_BATCH = NUMBERS.start + len(NUMBERS) // 2


def _delta() -> list[str]:
    return [f"_delta_log/{number:020d}.json" for number in NUMBERS]


def _paimon() -> list[str]:
    return ["schema/schema-0", "schema/schema-1", *(f"snapshot/snapshot-{number}" for number in NUMBERS)]


def _iceberg() -> list[str]:
    return [f"metadata/v{number}.metadata.json" for number in NUMBERS]


def _hudi() -> list[str]:
    # A hundred steps: a ledger has a checkpoint on the way.
    times = [f"20260101000000{number:03d}" for number in range(85, 119)]
    steps = [[f"{time}.commit.requested", f"{time}.inflight", f"{time}_{time}.commit"] for time in times]
    return [f".hoodie/timeline/{name}" for names in steps for name in names]


def _spark() -> list[str]:
    batches = range(NUMBERS.start, _NEXT_BATCH)
    return [f"{log}/{number}" for log in ("offsets", "commits") for number in batches]


TABLES: dict[str, Callable[[], list[str]]] = {
    "delta": _delta,
    "paimon": _paimon,
    "iceberg": _iceberg,
    "hudi": _hudi,
    "spark": _spark,
}


def series_of(table: str) -> list[str]:
    """Return the numbered names of a table, each series in ascending order."""
    return TABLES[table]()


def files_of(table: str) -> dict[str, bytes]:
    """Return all files of a table, by their names in it."""
    files = {name: _body_of(table, name) for name in series_of(table)}
    beside = {"hudi": {".hoodie/hoodie.properties": _VERSION_8}, "spark": {"metadata": b'{"id":"a query"}'}}
    # In the order in which a listing has them: a Hudi table's data after its timeline.
    data = {f"dt=1/{_DATA.format(number)}": b"%d" % number for number in (85, 118)}
    return {**files, **beside.get(table, {}), **data}


def _body_of(table: str, name: str) -> bytes:
    if table == "spark":
        return f"v1\n{{}}\n{json.dumps({'log': name})}".encode()
    if name.endswith(("requested", "inflight")):
        return b""
    return json.dumps({"name": name}).encode()


def commit(fs: Any, table: str, root: str) -> None:
    """Make the next commit, by the calls that the table's own writer makes of its filesystem.

    Raises
    ------
    NameTaken
        Another has made it.
    """
    if table == "delta":
        fs.pipe_file(f"{root}/_delta_log/{_NEXT:020d}.json", b'{"commitInfo":{}}\n')
    elif table == "paimon":
        _renamed(fs, f"{root}/snapshot/snapshot-{_NEXT}", b'{"version":3}')
        fs.pipe_file(f"{root}/snapshot/LATEST", f"{_NEXT}".encode())
    elif table == "iceberg":
        _renamed(fs, f"{root}/metadata/v{_NEXT}.metadata.json", b'{"format-version":2}')
        _renamed(fs, f"{root}/metadata/version-hint.text", f"{_NEXT}".encode())
    elif table == "hudi":
        Writer(fs, root).commits("20260101000000999")
    else:
        for log in "offsets", "commits":
            _renamed(fs, f"{root}/{log}/{_NEXT_BATCH}", b"v1\n{}\n{}")


def _renamed(fs: Any, name: str, body: bytes) -> None:
    folder, _, last = name.rpartition("/")
    temporary = f"{folder}/.{last}.{uuid.uuid4()}.tmp"
    fs.pipe_file(temporary, body)
    fs.mv(temporary, name)
