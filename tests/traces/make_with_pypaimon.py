"""Records what pypaimon calls: of the names that it writes itself, for pyarrow writes its data files.

::

    python -m tests.traces.make_with_pypaimon

It wants pypaimon. What expires snapshots pypaimon 2.1 does not have.
"""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.common.file_io import FileIO
from pypaimon.filesystem.local_file_io import LocalFileIO

from tests.traces.trace import Call, Step, save

ROWS = pa.schema([("id", pa.int32())])


class Recorded(LocalFileIO):
    """Local files, as an object store has them: one is there when its stream is closed."""

    # As on all other stores, by the calls below.
    try_to_write_atomic = FileIO.try_to_write_atomic
    write_file = FileIO.write_file
    overwrite_file_utf8 = FileIO.overwrite_file_utf8
    copy_file = FileIO.copy_file
    copy_files = FileIO.copy_files

    def __init__(self, made: LocalFileIO, folder: Path, trace: list[Call | Step]) -> None:
        super().__init__(made.path, made.properties)
        self._folder = folder
        self._trace = trace
        self._bodies: dict[bytes, int] = {}

    def new_output_stream(self, path: str) -> io.BytesIO:
        written = self._written

        class Stream(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    written(path, self.getvalue())
                super().close()

        return Stream()

    def _written(self, path: str, value: bytes) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(value)
        body = self._bodies.setdefault(value, len(self._bodies))
        self._trace.append(Call("create", self._name(path), flag=True, body=body))

    def rename(self, src: str, dst: str) -> bool:
        renamed: bool = super().rename(src, dst)
        outcome = "done" if renamed else "false"
        self._trace.append(Call("rename", self._name(src), body=self._name(dst), outcome=outcome))
        return renamed

    def delete(self, path: str, recursive: bool = False) -> bool:
        deleted: bool = super().delete(path, recursive)
        outcome = "done" if deleted else "false"
        self._trace.append(Call("delete", self._name(path), flag=recursive, outcome=outcome))
        return deleted

    def _name(self, path: str) -> str:
        return str(Path(path).relative_to(self._folder))


def commands(table: Any, trace: list[Call | Step]) -> None:
    def commit(at: Any, number: int) -> None:
        trace.append(Step(f"commit {number}"))
        builder = at.new_batch_write_builder()
        write = builder.new_write()
        write.write_arrow(pa.table({"id": pa.array([number], pa.int32())}))
        builder.new_commit().commit(write.prepare_commit())
        write.close()

    def step(command: str, do: Any, *said: Any) -> None:
        trace.append(Step(command))
        do(*said)

    for number in range(3):
        commit(table, number)
    step("create_tag", table.create_tag, "kept")
    step("rename_tag", table.rename_tag, "kept", "saved")
    commit(table, 3)
    step("create_tag, of an earlier one", table.create_tag, "early", 1)
    step("create_branch", table.branch_manager().create_branch, "dev", "saved")
    branch = table.copy({"branch": "dev"})
    for number in (4, 5):
        commit(branch, number)
    step("fast_forward", table.branch_manager().fast_forward, "dev")
    commit(table, 6)
    step("drop_branch", table.branch_manager().drop_branch, "dev")
    step("rollback_to a snapshot", table.rollback_to, 4)
    commit(table, 7)
    step("rollback_to a tag", table.rollback_to, "early")
    commit(table, 8)
    step("delete_tag", table.delete_tag, "early")


def main() -> None:
    trace: list[Call | Step] = [Step("create table")]
    with TemporaryDirectory() as temporary:
        catalog = CatalogFactory.create({"warehouse": f"{temporary}/paimon"})
        catalog.file_io = Recorded(catalog.file_io, Path(temporary), trace)
        catalog.create_database("db", ignore_if_exists=True)
        catalog.create_table("db.t", Schema.from_pyarrow_schema(ROWS), ignore_if_exists=False)
        commands(catalog.get_table("db.t"), trace)
    save("paimon_python", trace)


if __name__ == "__main__":
    main()
