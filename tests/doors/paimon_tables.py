"""A Paimon table for the tests of pypaimon's door, and a filesystem in which something happens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

from putifabsent.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = pa.schema([("id", pa.int32())])
TABLE = "db.t"


def make(options: dict[str, Any], **table_options: str) -> Any:
    catalog = CatalogFactory.create(options)
    catalog.create_database("db", ignore_if_exists=True)
    catalog.create_table(
        TABLE, Schema.from_pyarrow_schema(ROWS, options=table_options), ignore_if_exists=False
    )
    return catalog.get_table(TABLE)


def table_of(options: dict[str, Any]) -> Any:
    """The table as another process would open it: nothing is shared."""
    return CatalogFactory.create(options).get_table(TABLE)


def commit(table: Any, *ids: int) -> None:
    builder = table.new_batch_write_builder()
    write = builder.new_write()
    write.write_arrow(pa.table({"id": pa.array(ids, pa.int32())}))
    builder.new_commit().commit(write.prepare_commit())
    write.close()


def ids_of(table: Any) -> list[int]:
    builder = table.new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return [] if rows is None else sorted(rows.column("id").to_pylist())


def stock(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key != "metastore"}


def read(options: dict[str, Any]) -> list[int]:
    """What an unmodified pypaimon reads."""
    return ids_of(table_of(stock(options)))


def folder_of(options: dict[str, Any], *below: str) -> Path:
    return Path(options["warehouse"], "db.db", "t", *below)


def snapshots(options: dict[str, Any]) -> list[str]:
    return sorted(path.name for path in folder_of(options, "snapshot").glob("snapshot-*"))


class Meddled:
    """The guarded filesystem, where something happens whenever one name is created."""

    def __init__(self, fs: Any, name: str, meddle: Callable[[int, Callable[[], None]], None]) -> None:
        self._fs = fs
        self._name = name
        self._meddle = meddle
        self.tries = 0
        self.removed: list[str] = []

    def __getattr__(self, method: str) -> Any:
        return getattr(self._fs, method)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite") -> None:
        def create() -> None:
            self._fs.pipe_file(path, value, mode=mode)

        if not path.endswith(f"/{self._name}"):
            return create()
        self.tries += 1
        return self._meddle(self.tries, create)

    def rm_file(self, path: str) -> None:
        self.removed.append(path)
        self._fs.rm_file(path)


def meddle(file_io: Any, name: str, what: Callable[[int, Callable[[], None]], None]) -> Meddled:
    file_io.fs = Meddled(file_io.fs, name, what)
    meddled: Meddled = file_io.fs
    return meddled


def lost_answer() -> OutcomeUnknown:
    return OutcomeUnknown("snapshot-2", "a-token")


def causes(error: BaseException) -> list[type[BaseException]]:
    found: list[type[BaseException]] = []
    step: BaseException | None = error
    while step is not None:
        found.append(type(step))
        step = step.__cause__
    return found
