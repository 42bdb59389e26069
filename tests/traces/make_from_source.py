"""Writes down what Paimon 2.0 calls where no release that can be had here does: read off its source.

::

    python -m tests.traces.make_from_source

``FileSystemBranchManager``, ``RollbackHelper`` and ``IcebergCommitCallback`` of August 2026. Data files and
manifests carry UUIDs, and are left out.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from tests.traces.trace import Call, Step, save

if TYPE_CHECKING:
    from collections.abc import Iterator

_BODIES = count()


def written(name: str, body: int | None = None) -> Call:
    """``FileIO.overwriteFileUtf8``, or ``copyFile`` with its flag."""
    return Call("create", name, flag=True, body=next(_BODIES) if body is None else body)


def atomically(name: str, body: int | None = None, outcome: str = "done") -> Iterator[Call]:
    """``FileIO.tryToWriteAtomic``: a hidden file, then a rename; the hidden one goes if that fails."""
    folder, _, last = name.rpartition("/")
    number = next(_BODIES)
    hidden = f"{folder}/.{last}.{number}.tmp"
    yield Call("create", hidden, body=number if body is None else body)
    yield Call("rename", hidden, body=name, outcome=outcome)
    if outcome != "done":
        yield Call("delete", hidden)


class Table:
    """A table of Paimon's, whose Iceberg metadata lie in a folder."""

    def __init__(self, root: str, metadata: str) -> None:
        self.root = root
        self.metadata = metadata

    def commit(self, number: int, branch: str = "") -> Iterator[Call]:
        yield from atomically(f"{self.root}{branch}/snapshot/snapshot-{number}", 1000 + number)
        yield written(f"{self.root}{branch}/snapshot/LATEST")

    def synced(self, number: int) -> Iterator[Call]:
        """``IcebergCommitCallback.call``, after a commit of main."""
        yield from atomically(f"{self.metadata}/v{number}.metadata.json")
        yield written(f"{self.metadata}/version-hint.text")

    def tags(self, number: int) -> Iterator[Call | Step]:
        """``notifyCreation`` and ``notifyDeletion`` write the newest metadata again."""
        yield Step("create_tag")
        yield written(f"{self.root}/tag/tag-kept", 1002)
        yield written(f"{self.metadata}/v{number}.metadata.json")
        yield Step("create_tag, of another name")
        yield written(f"{self.root}/tag/tag-gone", 1002)
        yield written(f"{self.metadata}/v{number}.metadata.json")
        yield Step("delete_tag")
        yield Call("delete", f"{self.root}/tag/tag-gone")
        yield written(f"{self.metadata}/v{number}.metadata.json")


def paimon_2(table: Table) -> Iterator[Call | Step]:
    root, dev = table.root, "/branch/branch-dev"
    yield Step("create table, and alter it")
    yield from atomically(f"{root}/schema/schema-0", 2000)
    yield from atomically(f"{root}/schema/schema-1", 2001)
    for number in (1, 2, 3):
        yield Step(f"commit {number}")
        yield from table.commit(number)
        yield from table.synced(number)
    yield from table.tags(3)
    yield Step("create_branch, from the tag of snapshot 2")
    yield written(f"{root}{dev}/tag/tag-kept", 1002)
    yield written(f"{root}{dev}/snapshot/snapshot-2", 1002)
    yield written(f"{root}{dev}/schema/schema-0", 2000)
    yield written(f"{root}{dev}/schema/schema-1", 2001)
    for number in (3, 4):
        yield Step(f"commit {number} of the branch")
        yield from table.commit(number, dev)
    yield Step("fast_forward")
    yield Call("delete", f"{root}/snapshot/LATEST")
    for name in ("snapshot/snapshot-2", "snapshot/snapshot-3", "schema/schema-1", "tag/tag-kept"):
        yield Call("delete", f"{root}/{name}")
    yield written(f"{root}/snapshot/LATEST")
    for number in (2, 3, 4):
        yield written(f"{root}/snapshot/snapshot-{number}", 1000 + number)
    yield written(f"{root}/schema/schema-0", 2000)
    yield written(f"{root}/schema/schema-1", 2001)
    yield written(f"{root}/tag/tag-kept", 1002)
    for number in (5, 6):
        yield Step(f"commit {number}")
        yield from table.commit(number)
        yield from table.synced(number)
    yield Step("rollback_to snapshot 4")
    yield written(f"{table.metadata}/retire-pending")
    yield written(f"{root}/snapshot/LATEST")
    yield Call("delete", f"{root}/snapshot/snapshot-6")
    yield Call("delete", f"{root}/snapshot/snapshot-5")
    yield Step("commit 5, again")
    yield from table.commit(5)
    yield from atomically(f"{table.metadata}/v5.metadata.json", outcome="false")
    yield Call("delete", f"{table.metadata}/v5.metadata.json")
    yield from table.synced(5)
    yield Step("expire_snapshots, and roll back to an expired tag")
    for number in (1, 2, 3, 4):
        yield Call("delete", f"{root}/snapshot/snapshot-{number}")
    yield Call("delete", f"{root}/snapshot/snapshot-5")
    yield Call("create", f"{root}/snapshot/snapshot-2", body=1002)


def main() -> None:
    warehouse = "paimon"
    beside = Table(f"{warehouse}/db.db/t", f"{warehouse}/db.db/t/metadata")
    catalog = Table(f"{warehouse}/db.db/t", f"{warehouse}/iceberg/db/t/metadata")
    alone = Table("somewhere/t", "somewhere/t/metadata")
    save("paimon_2_table_location", paimon_2(beside))
    save("paimon_2_hadoop_catalog", paimon_2(catalog))
    save("paimon_2_own_path", paimon_2(alone))


if __name__ == "__main__":
    main()
