"""Makes the tables that the tests inspect: by unmodified writers on Spark, several at once, through the shim.

::

    .venv-spark35/bin/python -m tests.inspection.make_fixtures raced_delta [FOLDER]

It wants what ``make test-spark`` installs, and takes a minute or two. Metadata is kept as it is; of data
files the names and sizes alone.
"""

from __future__ import annotations

import io
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec

from tests.servers import VersityGW
from tests.spark.drivers import Driver, driving, told_on
from tests.spark.races import kill_in_a_commit, race

if TYPE_CHECKING:
    from tests.servers import BucketServer

FIXTURES = Path(__file__).parent / "fixtures"

WRITERS = 3
COMMITS = 10
METADATA = {".hoodie", "_delta_log", "snapshot", "schema", "changelog", "manifest"}
SKIPPED = {".putifabsent", "metadata", ".heartbeat", ".temp", ".aux", "_commits"}


def raced(form: str, drivers: list[Driver], reader: Driver, table: str) -> None:
    """Have all write to one table."""
    came = race(drivers, reader, form, table, COMMITS)
    assert came.lost == came.doubled == []


def killed(form: str, drivers: list[Driver], _: Driver, table: str) -> None:
    """Kill all but one, each in its third commit, then have that one write."""
    *victims, last = drivers
    last.call("make", form=form, table=table)
    for who, victim in enumerate(victims):
        kill_in_a_commit(victim, form, table, f"victim {who}")
    for n in range(COMMITS):
        last.call("append", form=form, table=table, who="last", n=n)


MADE = {
    "raced_delta": ("delta", raced),
    "raced_hudi": ("hudi", raced),
    "raced_hudi_mor": ("hudi_mor", raced),
    "raced_paimon": ("paimon", raced),
    "killed_hudi": ("hudi", killed),
}


def keep(store: BucketServer, table: str, packed: Path) -> None:
    """Pack a table."""
    fs = fsspec.filesystem(store.scheme, **store.storage_options, use_listings_cache=False)
    name = packed.name.partition(".")[0]
    with tarfile.open(packed, "w:xz", format=tarfile.PAX_FORMAT) as archive:
        for file, said in sorted(fs.find(table, detail=True).items()):
            parts = file.removeprefix(f"{table}/").split("/")
            if SKIPPED & set(parts) or file.endswith("/"):  # a folder's marker
                continue
            data = fs.cat_file(file) if parts[0] in METADATA else bytes(said["size"])
            info = tarfile.TarInfo("/".join((name, *parts)))
            info.size = len(data)
            info.mtime = said["LastModified"].timestamp()
            archive.addfile(info, io.BytesIO(data))


def main() -> None:
    name = sys.argv[1]
    folder = Path(sys.argv[2]) if sys.argv[2:] else FIXTURES
    form, make = MADE[name]
    with tempfile.TemporaryDirectory() as logs, VersityGW() as store:
        bucket = store.new_bucket()
        told = [told_on(store, bucket, guarded=each < WRITERS) for each in range(WRITERS + 1)]
        with driving(told, Path(logs)) as (*drivers, reader):
            make(form, drivers, reader, name)
        table = f"{bucket}/paimon/db.db/{name}" if form == "paimon" else f"{bucket}/{name}"
        keep(store, table, folder / f"{name}.tar.xz")


if __name__ == "__main__":
    main()
