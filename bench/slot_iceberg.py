"""pyiceberg on a table that is kept by path, as a Hadoop table is: pyiceberg itself has no such catalog.

All that pyiceberg does for a commit is its own, its retries too. Here is what a catalog adds, in the steps
of Iceberg's ``HadoopTableOperations``: which version is the newest, ``v<N+1>.metadata.json`` created if it is
not there, and then the hint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

from putifabsent.errors import NameTaken

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier

__all__ = ["HadoopTable"]


class HadoopTable(NoopCatalog):
    """A catalog of one table, at a location.

    Attributes
    ----------
    io
        Its files.
    tries
        How often a commit was tried.
    """

    def __init__(self, properties: dict[str, str], location: str) -> None:
        super().__init__("hadoop", **properties)
        self.io: Any = load_file_io(properties)
        self.tries = 0
        self._location = location

    def make(self, schema: Schema) -> None:
        """Make the table, with no rows."""
        made = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, self._location)
        self._create(1, made)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Read the newest version."""
        version = self._newest()
        metadata = FromInputFile.table_metadata(self.io.new_input(self._at(version)))
        return Table(("hadoop", str(identifier)), metadata, self._at(version), self.io, self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Create the version behind that on which the commit rests."""
        self.tries += 1
        version = int(table.metadata_location.rpartition("/v")[2].partition(".")[0])
        if self._newest() != version:
            raise CommitFailedException(f"the table has changed since version {version}")
        for each in requirements:
            each.validate(table.metadata)
        made = update_table_metadata(table.metadata, updates, metadata_location=table.metadata_location)
        try:
            self._create(version + 1, made)
        except NameTaken as error:
            raise CommitFailedException(str(error)) from error
        return CommitTableResponse.model_construct(metadata=made, metadata_location=self._at(version + 1))

    def _create(self, version: int, metadata: TableMetadata) -> None:
        ToOutputFile.table_metadata(metadata, self.io.new_output(self._at(version)))
        with self.io.new_output(self._hint).create(overwrite=True) as hint:
            hint.write(str(version).encode())

    def _newest(self) -> int:
        with self.io.new_input(self._hint).open() as hint:
            version = int(hint.read())
        while self.io.new_input(self._at(version + 1)).exists():
            version += 1
        return version

    def _at(self, version: int) -> str:
        return f"{self._location}/metadata/v{version}.metadata.json"

    @property
    def _hint(self) -> str:
        return f"{self._location}/metadata/version-hint.text"
