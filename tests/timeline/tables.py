"""Tables made by hand, a file at a time, in any filesystem."""

from __future__ import annotations

import io
import json
import struct
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Delta", "Hudi", "Paimon", "avro", "block", "entry"]

METADATA = {
    "type": "record",
    "name": "HoodieCommitMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [{"name": "operationType", "type": ["null", "string"], "default": None}],
}
PLAN = {**METADATA, "name": "HoodieCompactionPlan"}
ENTRY = {
    "type": "record",
    "name": "HoodieArchivedMetaEntry",
    "fields": [
        {"name": "hoodieCommitMetadata", "type": ["null", METADATA], "default": None},
        {"name": "hoodieCompactionPlan", "type": ["null", PLAN], "default": None},
        {"name": "commitTime", "type": ["null", "string"], "default": None},
        {"name": "actionType", "type": ["null", "string"], "default": None},
        {"name": "version", "type": ["int", "null"], "default": 1},
        {"name": "actionState", "type": ["null", "string"], "default": None},
        {"name": "stateTransitionTime", "type": ["null", "string"], "default": None},
    ],
}
HISTORY = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        ("version", pa.int32()),
    ]
)


def avro(operation: str, schema: dict[str, Any] = METADATA) -> bytes:
    """Return what an instant says, as Hudi writes it."""
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(schema), [{"operationType": operation}])
    return file.getvalue()


def entry(time: str, action: str, state: str | None, **more: Any) -> dict[str, Any]:
    """Return a record of the history of table version 6."""
    return {"commitTime": time, "actionType": action, "actionState": state, **more}


def block(entries: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a block of a log file, written by its description, and not by the reader's code."""
    records = b""
    count = 0
    for each in entries:
        file = io.BytesIO()
        fastavro.schemaless_writer(file, fastavro.parse_schema(ENTRY), each)
        records += struct.pack(">i", len(file.getvalue())) + file.getvalue()
        count += 1
    schema = json.dumps(ENTRY).encode()
    header = struct.pack(">iii", 1, 2, len(schema)) + schema
    content = struct.pack(">ii", 3, count) + records
    inside = struct.pack(">ii", 1, 3) + header + struct.pack(">q", len(content)) + content
    inside += struct.pack(">i", 0)
    length = len(inside) + 8
    return b"#HUDI#" + struct.pack(">q", length) + inside + struct.pack(">q", length + 6)


class _Table:
    """A folder in a filesystem."""

    def __init__(self, fs: Any, root: str) -> None:
        self.fs = fs
        self.root = root

    def write(self, path: str, written: bytes | str = b"") -> str:
        full = f"{self.root}/{path}"
        self.fs.makedirs(full.rpartition("/")[0], exist_ok=True)
        self.fs.pipe_file(full, written.encode() if isinstance(written, str) else written)
        return full


class Hudi(_Table):
    """A Hudi table."""

    def __init__(self, fs: Any, root: str, version: int | str = 9, **said: str) -> None:
        super().__init__(fs, root)
        properties = {"hoodie.table.name": "t", "hoodie.table.version": version, **said}
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        self.write(".hoodie/hoodie.properties", f"#Properties saved\n{lines}")
        self.timeline = ".hoodie" if version == 6 else ".hoodie/timeline"

    def put(self, last: str, written: bytes | str = b"") -> str:
        """Write a file into the timeline."""
        return self.write(f"{self.timeline}/{last}", written)

    def commit(self, time: str, completion: str, action: str = "commit") -> None:
        """Write all three files of a commit."""
        self.put(f"{time}.{action}.requested")
        self.put(f"{time}.inflight" if action == "commit" else f"{time}.{action}.inflight")
        self.put(f"{time}_{completion}.{action}", avro("upsert"))

    def archive(self, last: str, rows: Iterable[tuple[Any, ...]], version: int = 1) -> int:
        """Write a file of the history of ``(time, completion, action, metadata, plan)``; return its size."""
        columns = [list(column) for column in zip(*((*row, version) for row in rows), strict=True)]
        file = io.BytesIO()
        pq.write_table(pa.table(columns, schema=HISTORY), file)
        self.put(f"history/{last}", file.getvalue())
        return len(file.getvalue())

    def manifest(self, number: int, files: Mapping[str, int], *, version: bool = True) -> None:
        """Write a manifest, and have ``_version_`` point at it."""
        entries = [{"fileName": last, "fileLen": size} for last, size in files.items()]
        self.put(f"history/manifest_{number}", json.dumps({"files": entries}, indent=2))
        if version:
            self.put("history/_version_", str(number))


class Paimon(_Table):
    """A Paimon table."""

    def __init__(self, fs: Any, root: str) -> None:
        super().__init__(fs, root)
        self.write("schema/schema-0", "{}")

    def snapshot(self, number: int, folder: str = "snapshot", **more: Any) -> str:
        """Write a snapshot."""
        said = {
            "version": 3,
            "id": number,
            "schemaId": 0,
            "commitUser": "u",
            "commitIdentifier": number,
            "commitKind": "APPEND",
            "timeMillis": 1_700_000_000_000 + number,
            **more,
        }
        return self.write(f"{folder}/{folder}-{number}", json.dumps(said))


class Delta(_Table):
    """A Delta table."""

    def commit(self, number: int, *actions: Mapping[str, Any]) -> str:
        """Write a commit."""
        lines = "".join(json.dumps(each) + "\n" for each in actions)
        return self.write(f"_delta_log/{number:020d}.json", lines)
