"""A Hudi table ends and begins anew while another driver, which knows it, idles; then that one appends.

The one that overwrites has a service of its own, the idle one calls two replicas in turn: so nothing but the
table tells any of the three that it has ended.
"""

from __future__ import annotations

import secrets
from collections import Counter
from typing import TYPE_CHECKING

import fsspec
import pytest

from putifabsent.inspection import inspect
from tests.service.replicas import replicas
from tests.spark.drivers import SHORT, Driver, told_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(1200)]

ROUNDS = 2 if SHORT else 10

FILESYSTEMS = {"python": ("pias3", {"arbiter": "native"}), "round_the_shim": ("s3", {})}
REMOVALS = ("round_the_shim",) if SHORT else ("hadoop", *FILESYSTEMS)

Row: TypeAlias = tuple[str, int]


@pytest.fixture(scope="module")
def drivers(
    pair: list[Driver],
    reader: Driver,
    store: BucketServer,
    bucket: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Driver]]:
    """Start one that idles, beside a guarded driver, and one that reads and knows nothing of the shim."""
    secret = secrets.token_urlsafe()
    options = {**store.storage_options, "arbiter": "native", "strict": True}
    settings = {"secret": secret, "mounts": [{"prefix": f"s3a://{bucket}", "options": options}]}
    with replicas(2, settings) as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUTIFABSENT_SERVICE_SECRET", secret)
        told = told_on(store, bucket, guarded=True)._replace(mount={"service": address})
        with Driver(told, tmp_path_factory.mktemp("idle") / "log") as idle:
            yield {"one": pair[0], "idle": idle.wait(), "reader": reader}


class Table:
    """A table, and the rows that its present life was told are in it."""

    def __init__(self, drivers: dict[str, Driver], store: BucketServer, bucket: str, name: str) -> None:
        self.name = name
        self.path = f"{bucket}/{name}"
        self._drivers = drivers
        self._options = store.storage_options
        self._rows: list[Row] = []

    def append(self, who: str, n: int) -> None:
        self._drivers[who].call("append", form="hudi", table=self.name, who=who, n=n)
        self._rows.append((who, n))

    def overwrite(self, who: str, n: int) -> None:
        self._drivers[who].call("append", form="hudi", table=self.name, who=who, n=n, mode="overwrite")
        self._rows = [(who, n)]

    def remove(self, by: str) -> None:
        if by == "hadoop":
            assert self._drivers["one"].call("delete", path=f"s3a://{self.path}")
        else:
            protocol, mount = FILESYSTEMS[by]
            fs = fsspec.filesystem(protocol, **self._options, **mount, skip_instance_cache=True)
            fs.rm(self.path, recursive=True)
        self._rows = []

    def check(self) -> None:
        """Check that what was acknowledged since it was made anew is there once, and nothing else."""
        found = self._drivers["reader"].call("rows", form="hudi", table=self.name)
        assert Counter((who, n) for who, n in found) == Counter(self._rows)
        assert inspect(f"s3://{self.path}", **self._options).damage == []


def test_a_table_that_was_overwritten_while_a_driver_idled_has_that_drivers_rows_too(
    drivers: dict[str, Driver], store: BucketServer, bucket: str
) -> None:
    table = Table(drivers, store, bucket, "overwritten")
    table.append("idle", 0)
    for n in range(1, ROUNDS + 1):
        table.overwrite("one", n)
        # Beyond what the idle one knows of the last life, and behind it.
        if n % 2:
            table.append("one", -n)
        table.append("idle", n)
        table.check()


@pytest.mark.parametrize("by", REMOVALS)
def test_a_table_that_was_removed_while_a_driver_idled_is_made_anew_by_that_driver(
    by: str, drivers: dict[str, Driver], store: BucketServer, bucket: str
) -> None:
    table = Table(drivers, store, bucket, f"removed_{by}")
    table.append("idle", 0)
    table.remove(by)
    for who in ("idle", "one"):
        table.append(who, 1)
    table.check()
