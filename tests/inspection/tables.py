"""Tables to hurt: made by hand, in the shapes that their formats write, with data files without bytes."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyroaring import BitMap

from putifabsent.errors import Damaging
from putifabsent.inspection.inspecting import Commits
from putifabsent.shim.policy import Policy
from putifabsent.timeline.files import AvroFiles
from tests.timeline import tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.inspection.conftest import Place

__all__ = ["Delta", "Hudi", "Iceberg", "Late", "Paimon", "delta_log", "packed", "stat"]

OURS = Path(__file__).parent / "fixtures"
TIMELINES = Path(__file__).parents[1] / "timeline" / "fixtures"


def packed(name: str, folder: Path) -> str:
    """Unpack a table that real writers have made; return its folder."""
    file = next(each / f"{name}.tar.xz" for each in (OURS, TIMELINES) if (each / f"{name}.tar.xz").exists())
    with tarfile.open(file) as archive:
        archive.extractall(folder, filter="data")
    return str(folder / name)


def stat(group: str, last: str, upon: str = "null", partition: str = "", **more: Any) -> dict[str, Any]:
    """Return what a Hudi commit says of a file that it wrote."""
    path = f"{partition}/{last}" if partition else last
    return {"fileId": group, "path": path, "prevCommit": upon, "partitionPath": partition, **more}


class Hudi(tables.Hudi):
    """A Hudi table with what its instants say: JSON, as old versions write it, is read in all."""

    def __init__(self, fs: Any, root: str, version: int = 9, **said: str) -> None:
        super().__init__(fs, root, version, **said)
        self.in_levels = version != 6

    def wrote(
        self,
        time: str,
        completion: str,
        *stats: dict[str, Any],
        action: str = "commit",
        plan: dict[str, Any] | None = None,
        files: bool = True,
        **more: Any,
    ) -> None:
        """Complete a commit, and write the files that it names."""
        parts: dict[str, list[dict[str, Any]]] = {}
        for each in stats:
            parts.setdefault(each["partitionPath"], []).append(each)
            if files:
                self.write(each["path"])
        self.complete(time, completion, action, {"partitionToWriteStats": parts, **more}, plan=plan)

    def complete(
        self,
        time: str,
        completion: str,
        action: str,
        said: dict[str, Any],
        *,
        plan: dict[str, Any] | None = None,
        began: str = "",
    ) -> str:
        """Write all three files of an instant."""
        began = began or action
        self.put(f"{time}.{began}.requested", json.dumps(plan) if plan else b"")
        self.put(f"{time}.inflight" if began == "commit" else f"{time}.{began}.inflight")
        last = f"{time}_{completion}.{action}" if self.in_levels else f"{time}.{action}"
        return self.put(last, json.dumps({"said": True, **said}))

    def rolled_back(self, time: str, completion: str, undone: str, *files: str) -> None:
        """Complete a rollback of an instant."""
        part = {"": {"successDeleteFiles": [f"{self.root}/{each}" for each in files]}}
        said = {"startRollbackTime": time, "commitsRollback": [undone], "partitionMetadata": part}
        plan = {"instantToRollback": {"commitTime": undone, "action": "commit"}}
        self.complete(time, completion, "rollback", said, plan=plan)

    def cleaned(self, time: str, completion: str, *files: str, partition: str = "", **more: Any) -> None:
        """Complete a clean, and remove its files."""
        for each in files:
            self.fs.rm_file("/".join(part for part in (self.root, partition, each) if part))
        part = {"deletePathPatterns": list(files), "successDeleteFiles": list(files), **more}
        said = {"startCleanTime": time, "partitionMetadata": {partition: part}}
        self.complete(time, completion, "clean", said)


_LIST = {
    "type": "record",
    "name": "manifests",
    "fields": [{"name": "_FILE_NAME", "type": "string"}, {"name": "_FILE_SIZE", "type": "long"}],
}
_FILE = {
    "type": "record",
    "name": "file",
    "fields": [
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_LEVEL", "type": "int"},
        {"name": "_ROW_COUNT", "type": "long"},
        {"name": "_MIN_SEQUENCE_NUMBER", "type": "long"},
        {"name": "_MAX_SEQUENCE_NUMBER", "type": "long"},
        {"name": "_EXTRA_FILES", "type": {"type": "array", "items": "string"}},
        {"name": "_EXTERNAL_PATH", "type": ["null", "string"], "default": None},
    ],
}
_MANIFEST = {
    "type": "record",
    "name": "manifest",
    "fields": [
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_FILE", "type": _FILE},
    ],
}
_RANGE = {
    "type": "record",
    "name": "range",
    "fields": [
        {"name": "f0", "type": "string"},
        {"name": "f1", "type": "int"},
        {"name": "f2", "type": "int"},
        {"name": "_CARDINALITY", "type": ["null", "long"]},
    ],
}
_INDEX = {
    "type": "record",
    "name": "index",
    "fields": [
        {"name": "_KIND", "type": "int"},
        {"name": "_INDEX_TYPE", "type": "string"},
        {"name": "_FILE_NAME", "type": "string"},
        {
            "name": "_DELETIONS_VECTORS_RANGES",
            "type": ["null", {"type": "array", "items": ["null", _RANGE]}],
            "default": None,
        },
        {"name": "_EXTERNAL_PATH", "type": ["null", "string"], "default": None},
    ],
}


def _avro(schema: dict[str, Any], records: Iterable[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(json.loads(json.dumps(schema))), list(records))
    return file.getvalue()


class Paimon(tables.Paimon):
    """A Paimon table with manifests."""

    def __init__(self, fs: Any, root: str) -> None:
        super().__init__(fs, root)
        self._manifests: list[str] = []

    def commit(
        self,
        number: int,
        *added: str,
        removed: Sequence[str] = (),
        upon: Sequence[str] | None = (),
        vectors: Mapping[str, Mapping[str, Iterable[int]]] | None = None,
        **more: Any,
    ) -> None:
        """Write a snapshot, all that it leads to, and the files that it adds.

        ``upon`` is what it was committed upon, which is said once more; None: the manifests of the last one.
        ``vectors`` are the rows that are deleted of each data file, by the index file that says so; one with
        an address lies there. A file ``a:5-7`` is ``a``, with rows of these sequence numbers.
        """
        lists = {
            "baseManifestList": [(0, name) for name in upon or ()],
            "deltaManifestList": [*((1, name) for name in removed), *((0, name) for name in added)],
        }
        said: dict[str, Any] = {}
        before, self._manifests = self._manifests, []
        for kind, entries in lists.items():
            manifests, last = [f"manifest-{kind}-{number}"], f"manifest-list-{kind}-{number}"
            if upon is None and kind == "baseManifestList":
                manifests = before
            else:
                self.write(f"manifest/{manifests[0]}", _avro(_MANIFEST, (_entry(*each) for each in entries)))
            named = [{"_FILE_NAME": each, "_FILE_SIZE": 1} for each in manifests]
            self.write(f"manifest/{last}", _avro(_LIST, named))
            self._manifests += manifests
            said[kind] = last
        for name in added:
            self.write(f"bucket-0/{name.partition(':')[0]}")
        if vectors is not None:
            said["indexManifest"] = f"index-manifest-{number}"
            indices = [self._index(name, files) for name, files in vectors.items()]
            self.write(f"manifest/index-manifest-{number}", _avro(_INDEX, indices))
        self.snapshot(number, **said, **more)

    def _index(self, name: str, files: Mapping[str, Iterable[int]]) -> dict[str, Any]:
        written, ranges = b"\1", []
        for file, rows in files.items():
            bitmap = BitMap(rows)
            vector = (1581511376).to_bytes(4, "big") + bitmap.serialize()
            ranges.append({"f0": file, "f1": len(written), "f2": len(vector), "_CARDINALITY": len(bitmap)})
            written += len(vector).to_bytes(4, "big") + vector + bytes(4)
        address, _, last = name.rpartition("/")
        if not address:
            self.write(f"index/{name}", written)
        return {
            "_KIND": 0,
            "_INDEX_TYPE": "DELETION_VECTORS",
            "_FILE_NAME": last,
            "_DELETIONS_VECTORS_RANGES": ranges,
            "_EXTERNAL_PATH": name if address else None,
        }


def _entry(kind: int, said: str) -> dict[str, Any]:
    name, _, numbers = said.partition(":")
    low, _, high = numbers.partition("-")
    file = {
        "_FILE_NAME": name,
        "_LEVEL": 0,
        "_ROW_COUNT": int(high or 0) - int(low or 0) + 1,
        "_MIN_SEQUENCE_NUMBER": int(low or 0),
        "_MAX_SEQUENCE_NUMBER": int(high or 0),
        "_EXTRA_FILES": [],
        "_EXTERNAL_PATH": None,
    }
    return {"_KIND": kind, "_PARTITION": b"\0", "_BUCKET": 0, "_FILE": file}


class Delta(tables.Delta):
    """A Delta table with what its commits add and remove."""

    def change(
        self,
        number: int,
        *added: str,
        removed: Sequence[str] = (),
        read: int | None = None,
        transaction: str = "",
        files: bool = True,
    ) -> str:
        """Write a commit, and the files that it adds."""
        info: dict[str, Any] = {"operation": "WRITE", "txnId": transaction or f"t{number}"}
        if number:
            info["readVersion"] = number - 1 if read is None else read
        for name in added if files else ():
            self.write(name)
        return self.commit(
            number,
            {"commitInfo": info},
            *({"remove": {"path": name, "dataChange": True}} for name in removed),
            *({"add": {"path": name, "size": 0, "dataChange": True}} for name in added),
        )


_LISTED = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        {"name": "manifest_path", "type": "string"},
        {"name": "content", "type": "int"},
        {"name": "added_snapshot_id", "type": "long"},
    ],
}
_BOUND = {
    "type": "record",
    "name": "k126_v127",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
}
_BOUNDS = ["null", {"type": "array", "items": _BOUND}]
_CONTENT = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int"},
        {
            "name": "data_file",
            "type": {
                "type": "record",
                "name": "r2",
                "fields": [
                    {"name": "content", "type": "int"},
                    {"name": "file_path", "type": "string"},
                    {"name": "lower_bounds", "type": _BOUNDS, "default": None},
                    {"name": "upper_bounds", "type": ["null", {"type": "array", "items": "k126_v127"}]},
                ],
            },
        },
    ],
}
_PATH_FIELD = 2147483546


class Remembering(AvroFiles):
    """Files, and of how many the records were in memory at once."""

    most = 0

    def load(self, paths: Any) -> None:
        super().load(paths)
        Remembering.most = max(Remembering.most, len(self._read))


class Iceberg(tables.Delta):
    """An Iceberg table that is kept by path; each version adds data files, and deletes rows of some."""

    location = "s3a://anywhere/t"

    def __init__(self, fs: Any, root: str) -> None:
        super().__init__(fs, root)
        self._lists: list[dict[str, Any]] = []
        self._snapshots: list[dict[str, Any]] = []
        self._head: int | None = None

    def version(
        self,
        number: int,
        *added: str,
        deletes: Sequence[str] = (),
        vectors: str = "",
        sequence: int | None = None,
        parent: int | None = None,
        current: int | None = None,
        refs: Mapping[str, object] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> None:
        """Write metadata, all that they lead to, and the files that they add.

        Parameters
        ----------
        vectors
            The one file in which all deletes are, as format version 3 has them.
        sequence
            0: before the table was upgraded from format version 1.
        """
        if added or deletes:
            self._manifest(f"m-{number}", number, 0, [(name, None) for name in added])
            if deletes:
                self._manifest(
                    f"d-{number}", number, 1, [(vectors or f"del-{name}", name) for name in deletes]
                )
            self.write(f"metadata/snap-{number}.avro", _avro(_LISTED, self._lists))
            numbered = {} if sequence == 0 else {"sequence-number": sequence or number}
            self._snapshots.append(
                {
                    "snapshot-id": number,
                    "parent-snapshot-id": self._head,
                    **numbered,
                    "timestamp-ms": 1_700_000_000_000 + number,
                    "summary": {"operation": "append", **(summary or {})},
                    "manifest-list": f"{self.location}/metadata/snap-{number}.avro",
                }
            )
            self._head = number
        before = number - 1 if parent is None else parent
        log = [{"metadata-file": f"{self.location}/metadata/v{before}.metadata.json"}] if before else []
        said = {
            "format-version": 2,
            "location": self.location,
            "current-snapshot-id": current or self._head or -1,
            "snapshots": self._snapshots,
            "metadata-log": log,
            **({} if refs is None else {"refs": refs}),
        }
        self.write(f"metadata/v{number}.metadata.json", json.dumps(said))

    def rolled_back_to(self, number: int) -> None:
        """Have the next versions go on from an older snapshot."""
        self._head = number
        self._lists = [each for each in self._lists if each["added_snapshot_id"] <= number]

    def expired(self, number: int) -> None:
        """Remove a snapshot's manifest list; the next versions don't list the snapshot."""
        self._snapshots = [each for each in self._snapshots if each["snapshot-id"] != number]
        self.fs.rm_file(f"{self.root}/metadata/snap-{number}.avro")

    def elsewhere(self) -> None:
        """Have the next versions name a manifest of data that lies outside the table."""
        self._lists.append({"manifest_path": "s3://other/m.avro", "content": 0, "added_snapshot_id": 0})

    def _manifest(
        self, last: str, number: int, content: int, files: Sequence[tuple[str, str | None]]
    ) -> None:
        entries = []
        for name, about in files:
            of = None if about is None else f"{self.location}/data/{about}".encode()
            bounds = None if of is None else [{"key": _PATH_FIELD, "value": of}]
            file = {
                "content": content,
                "file_path": f"{self.location}/data/{name}",
                "lower_bounds": bounds,
                "upper_bounds": bounds,
            }
            entries.append({"status": 1, "data_file": file})
            self.write(f"data/{name}")
        self.write(f"metadata/{last}.avro", _avro(_CONTENT, entries))
        path = f"{self.location}/metadata/{last}.avro"
        self._lists.append({"manifest_path": path, "content": content, "added_snapshot_id": number})


class Late:
    """A table in which the newest commit is yet to be created."""

    def __init__(self, place: Place, commit: str, *gone: str) -> None:
        self.place = place
        self.path = f"{place.root}/{commit}"
        self.body = place.fs.cat_file(self.path)
        for each in (commit, *gone):
            place.fs.rm_file(f"{place.root}/{each}")

    def check(self) -> None:
        """Judge it, and let it be created if it may be."""
        Commits(lambda: self.place.fs).check(Policy("auto").classify(self.path), self.body)
        self.place.fs.pipe_file(self.path, self.body)

    def refused(self) -> str:
        """Judge it; return why it may not be created."""
        with pytest.raises(Damaging) as caught:
            self.check()
        assert caught.value.name == self.path
        assert not self.place.fs.exists(self.path)
        return caught.value.reason


def delta_log(number: int) -> str:
    return f"_delta_log/{number:020d}.json"
