"""One table of a format, as one of its many writers has it: on an S3 server, by a mount of the writer's own.

Delta has no writer in Python that speaks fsspec: its log is written as the stress bench does. Paimon's writer
is pypaimon, as it is. Iceberg's is pyiceberg on :class:`HadoopTable`.
"""

from __future__ import annotations

import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from putifabsent.lab.stress.paths import Guarded
from putifabsent.lab.stress.writers import WORKLOADS, Journal, Writer, offered_in

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TABLES", "Place", "Table"]

_READERS = 16
_ROW = "id"


class Place(NamedTuple):
    """An S3 server, as its clients find it, and a bucket."""

    endpoint: str
    key: str
    secret: str
    region: str
    bucket: str

    def of_a_writer(self) -> dict[str, str]:
        """Return what both formats' libraries call alike: the guard's options, and where the store is."""
        return {
            "putifabsent.arbiter": "native",
            "putifabsent.writer": str(uuid.uuid4()),
            "putifabsent.writer_session": str(uuid.uuid4()),
            "s3.endpoint": self.endpoint,
            "s3.region": self.region,
        }


class Table(Protocol):
    """A writer, and the table that it has opened.

    Attributes
    ----------
    fs
        Its mount.
    folder
        The table's, as ``fs`` says it.
    tries
        How often it has tried to commit, all in all.
    """

    fs: Any
    folder: str
    tries: int

    def open(self, name: str, *, new: bool = False) -> None:
        """Go on with this table; make it first, if it is to be a new one."""

    def commit(self, row: int) -> str:
        """Append a row, and return the mark by which it is known again.

        It raises whatever the format's writer does when it gives up.
        """

    def marks(self) -> set[str]:
        """Return the marks of what is in the table."""


class DeltaLog(Guarded):
    """The log of a Delta table, and nothing of its data. Who loses a number tries the next, for ever."""

    def __init__(self, place: Place) -> None:
        options = {
            "key": place.key,
            "secret": place.secret,
            "client_kwargs": {"endpoint_url": place.endpoint, "region_name": place.region},
        }
        super().__init__("pias3", arbiter="native", **options)
        self.tries = 0
        self._bucket = place.bucket
        self._offered = ""
        self._journals = tempfile.TemporaryDirectory()
        journal = Journal(Path(self._journals.name), "delta")
        self._writer = Writer(self, journal, 0)

    def open(self, name: str, *, new: bool = False) -> None:
        del new
        self.folder = f"{self._bucket}/{name}"
        self._table = WORKLOADS["delta"](self.folder)

    def create(self, name: str, data: bytes) -> None:
        self.tries += 1
        self._offered = offered_in(data)
        super().create(name, data)

    def commit(self, row: int) -> str:
        del row
        while not self._table.commit(self._writer):
            pass
        return self._offered

    def marks(self) -> set[str]:
        with ThreadPoolExecutor(_READERS) as readers:
            return set(map(offered_in, readers.map(self.read, self.names(f"{self.folder}/_delta_log"))))


class PaimonTable:
    """An append table of Paimon, by pypaimon, which gives up after ten retries."""

    def __init__(self, place: Place) -> None:
        from pypaimon.write.file_store_commit import FileStoreCommit

        self.tries = 0
        self._bucket = place.bucket
        self._options = {
            **place.of_a_writer(),
            "metastore": "putifabsent",
            "s3.access-key": place.key,
            "s3.secret-key": place.secret,
            "s3.path-style-access": "true",
        }
        once = FileStoreCommit._try_commit_once  # noqa: SLF001 - nothing else tells a try

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.tries += 1
            return once(*args, **kwargs)

        FileStoreCommit._try_commit_once = counted  # noqa: SLF001 - as above

    def open(self, name: str, *, new: bool = False) -> None:
        from tests.doors import paimon_tables

        options = {**self._options, "warehouse": f"s3://{self._bucket}/{name}"}
        self._table = paimon_tables.make(options) if new else paimon_tables.table_of(options)
        self.fs = self._table.file_io.fs
        self.folder = f"{self._bucket}/{name}/db.db/t"

    def commit(self, row: int) -> str:
        from tests.doors import paimon_tables

        paimon_tables.commit(self._table, row)
        return str(row)

    def marks(self) -> set[str]:
        from tests.doors import paimon_tables

        return set(map(str, paimon_tables.ids_of(self._table)))


class IcebergTable:
    """A table of Iceberg that is kept by path, by pyiceberg, which gives up after four retries."""

    def __init__(self, place: Place) -> None:
        from bench.slot_iceberg import HadoopTable

        self.tries = 0
        self._bucket = place.bucket
        self._open: Callable[[str], HadoopTable] = partial(
            HadoopTable,
            {
                **place.of_a_writer(),
                "py-io-impl": "putifabsent.iceberg.GuardedFileIO",
                "s3.access-key-id": place.key,
                "s3.secret-access-key": place.secret,
            },
        )

    def open(self, name: str, *, new: bool = False) -> None:
        self.folder = f"{self._bucket}/{name}"
        self._table = self._open(f"s3://{self.folder}")
        self.fs = self._table.io.get_fs("s3")
        if new:
            from pyiceberg.schema import Schema
            from pyiceberg.types import LongType, NestedField

            self._table.make(Schema(NestedField(1, _ROW, LongType(), required=False)))

    def commit(self, row: int) -> str:
        import pyarrow as pa

        before = self._table.tries
        try:
            self._table.load_table("").append(pa.table({_ROW: [row]}))
        finally:
            self.tries += self._table.tries - before
        return str(row)

    def marks(self) -> set[str]:
        return set(map(str, self._table.load_table("").scan().to_arrow()[_ROW].to_pylist()))


TABLES: dict[str, Callable[[Place], Table]] = {
    "delta": DeltaLog,
    "paimon": PaimonTable,
    "iceberg": IcebergTable,
}
