"""A Hudi table of version 6 through the versions: refused through a mount, done round it, and life goes on.

Its commits are the shim's from the first one on, so its ledger knows each of them by a name that the upgrade
takes from it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.inspection import inspect
from putifabsent.shim.formats.hudi_layout import is_instant
from tests.child import CallError
from tests.spark.drivers import LONG, Driver, together, told_on
from tests.spark.writers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(1200), LONG]

ROUNDS = 3
SIX, EIGHT = (
    {"hoodie.write.table.version": version, "hoodie.write.auto.upgrade": "false"} for version in "68"
)
# With a metadata table Hudi rolls nothing back that was committed before the upgrade, which has compacted it.
ALONE = {"hoodie.metadata.enable": "false"}
WITH: dict[str, dict[str, str]] = {"alone": ALONE, "with_metadata": {}}
REFUSED = "upgrade it in a session that is not mounted"


class Table:
    """A table, and the rows that were acknowledged and not taken back."""

    def __init__(self, store: BucketServer, bucket: str, name: str, **options: str) -> None:
        self.name = name
        self.path = f"{bucket}/{name}"
        self.rows: list[tuple[str, int]] = []
        self._store = store
        self._options = options

    def append(self, driver: Driver, who: str, n: int, **options: str) -> None:
        said = {**self._options, **options}
        driver.call("append", form="hudi", table=self.name, who=who, n=n, **said)
        self.rows.append((who, n))

    def race(self, driver: Driver, who: str, n: int, **options: str) -> None:
        """Append, or find that another's commit was in its way."""
        try:
            self.append(driver, who, n, **options)
        except CallError as error:
            if not any(each in error.message for each in FORMATS["hudi"].conflicts):
                raise

    def admin(self, driver: Driver, command: str, *said: str, **options: str) -> None:
        driver.call("hudi_admin", table=self.name, command=command, said=said, **self._options, **options)

    def last(self, driver: Driver) -> str:
        last: str = driver.call("hudi_last", table=self.name)
        return last

    def check(self, reader: Driver) -> None:
        """Check that these rows are there once, and nothing else, and that nothing is damaged."""
        found = reader.call("rows", form="hudi", table=self.name)
        assert Counter((who, n) for who, n in found) == Counter(self.rows)
        assert inspect(f"s3://{self.path}", **self._store.storage_options).damage == []

    @contextmanager
    def refused(self) -> Iterator[None]:
        """Do what is refused, and leaves every instant, and the table's properties, as they were."""
        there = self.names()
        with pytest.raises(CallError) as caught:
            yield
        assert REFUSED in caught.value.message
        assert there.items() <= self.names().items()

    def names(self) -> dict[str, Any]:
        """Return its instants and properties, and its metadata table's, as they lie in the store."""
        fs = fsspec.filesystem("s3", **self._store.storage_options, use_listings_cache=False)
        found = fs.find(f"{self.path}/.hoodie", detail=True)
        return {
            name: (detail["ETag"], detail["LastModified"])
            for name, detail in found.items()
            if is_instant(name) or name.endswith(".properties")
        }


@pytest.fixture(scope="module")
def writer(store: BucketServer, bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Start the guarded driver that has the tables before they are upgraded; then others have them."""
    told = told_on(store, bucket, guarded=True).strictly()
    with Driver(told, tmp_path_factory.mktemp("writer") / "log") as driver:
        yield driver.wait()


@pytest.mark.parametrize("kind", WITH)
def test_a_table_of_version_6_is_upgraded_rolled_back_restored_and_written_by_two_drivers(
    kind: str,
    writer: Driver,
    reader: Driver,
    pair: list[Driver],
    store: BucketServer,
    bucket: str,
) -> None:
    table, (one, other) = Table(store, bucket, f"upgraded_{kind}", **WITH[kind]), pair
    table.append(writer, "before", 0, **SIX)
    saved = table.last(writer)
    table.admin(writer, "savepoint", saved, "me", "kept", **SIX)
    kept = list(table.rows)
    table.append(writer, "before", 1, **SIX)

    # As a newer Hudi inserts by default.
    with table.refused():
        table.append(writer, "too early", 0)
    table.append(writer, "before", 2, **SIX)
    table.check(reader)

    reader.call("hudi_becomes", table=table.name, version=8)
    table.check(reader)
    if kind == "with_metadata":
        table.append(other, "undone", 0, **EIGHT)
    table.admin(one, "rollback", table.last(one), **EIGHT)
    table.rows.pop()
    table.check(reader)
    table.append(one, "undone", 1, **EIGHT)
    table.admin(other, "restoreToSavepoint", saved, **EIGHT)
    table.rows = kept
    table.check(reader)
    for n in range(ROUNDS + 1):
        together(partial(table.race, each, who, n, **EIGHT) for each, who in ((one, "one"), (other, "other")))
    for n in range(ROUNDS):
        table.append(other, "other", -1 - n, **EIGHT)
        table.append(one, "one", -1 - n, **EIGHT)
    table.check(reader)

    with table.refused():
        other.call("hudi_becomes", table=table.name, version=6)
    table.check(reader)
