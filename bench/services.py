"""How many harmless commits of unmodified writers are refused: ``python -m bench.services [--json]``.

Each format's writer on Spark appends, changes and deletes rows of a table of its own, with all services on:
compaction, clustering, checkpoints, expiry, cleaning, archival, tags. Its commits are looked at before they
are created. None may be refused, nor created unjudged; then a stock session must read what was acknowledged,
and inspection find no damage. Exits with 1 where that is not so.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from putifabsent.inspection import inspect
from tests.child import CallError
from tests.spark.drivers import Driver, Told, told_on
from tests.spark.writers import SERVICES_OF_HUDI

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import BucketServer

__all__ = ["LIVES", "Life", "Lived", "judged", "live", "refused"]

PAIMON = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
UNJUDGED = "is created unjudged"


class Life(NamedTuple):
    """What befalls a table.

    Attributes
    ----------
    root
        Where it lies, from the warehouse.
    name
        As SQL calls it.
    make
        Makes it, and knows it by this name.
    services
        What is run after so many commits, each; ``{n}`` is the number of the commit.
    settings
        Of the session.
    """

    root: str
    name: str
    make: str
    services: tuple[tuple[int, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


def _hudi(name: str, kind: str) -> Life:
    said = {"hoodie.parquet.small.file.limit": "0", **SERVICES_OF_HUDI}
    options = ", ".join(
        f"'{key}' = '{value}'" for key, value in {"type": kind, "primaryKey": "n", **said}.items()
    )
    make = f"create table {name} (who string, n int) using hudi tblproperties ({options}) location '{{at}}'"
    # Hudi leaves streams open, mounted or not, and each keeps its connection: S3A's 96 last for some commits.
    return Life(name, name, make, settings=(("spark.hadoop.fs.s3a.connection.maximum", "20000"),))


LIVES = {
    "delta": Life(
        "delta",
        "delta.`{at}`",
        "create table delta.`{at}` (who string, n int) using delta tblproperties ("
        "'delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '10')",
        ((10, "optimize delta.`{at}`"), (25, "vacuum delta.`{at}` retain 0 hours")),
        (
            ("spark.databricks.delta.retentionDurationCheck.enabled", "false"),
            ("spark.databricks.delta.vacuum.logging.enabled", "true"),
        ),
    ),
    "iceberg": Life(
        "iceberg/db/t",
        "iceberg.db.t",
        "create table iceberg.db.t (who string, n int) using iceberg tblproperties ("
        "'format-version' = '2', 'commit.manifest.min-count-to-merge' = '5', "
        "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', "
        "'write.metadata.delete-after-commit.enabled' = 'true', "
        "'write.metadata.previous-versions-max' = '10')",
        (
            (10, "call iceberg.system.rewrite_data_files(table => 'db.t')"),
            (12, "call iceberg.system.rewrite_manifests('db.t')"),
            (15, "call iceberg.system.expire_snapshots('db.t', timestamp '2100-01-01 00:00:00', 5)"),
            (20, "call iceberg.system.rewrite_position_delete_files('db.t')"),
        ),
    ),
    "paimon": Life(
        "paimon/db.db/t",
        "paimon.db.t",
        "create table paimon.db.t (who string, n int) tblproperties ("
        "'primary-key' = 'n', 'bucket' = '2', 'deletion-vectors.enabled' = 'true', "
        "'snapshot.num-retained.min' = '5', 'snapshot.num-retained.max' = '10', "
        "'snapshot.time-retained' = '1s')",
        (
            (10, "call paimon.sys.compact(table => 'db.t')"),
            (15, "call paimon.sys.create_tag(table => 'db.t', tag => 'at{n}')"),
            (45, "call paimon.sys.delete_tag(table => 'db.t', tag => 'at{n}')"),
            (20, "call paimon.sys.expire_snapshots(table => 'db.t', retain_max => 5)"),
        ),
        (("spark.sql.extensions", PAIMON),),
    ),
    "paimon_append": Life(
        "paimon/db.db/appended",
        "paimon.db.appended",
        "create table paimon.db.appended (who string, n int) tblproperties ("
        "'deletion-vectors.enabled' = 'true', 'compaction.min.file-num' = '5', "
        "'snapshot.num-retained.min' = '5', 'snapshot.num-retained.max' = '10', "
        "'snapshot.time-retained' = '1s')",
        (
            (10, "call paimon.sys.compact(table => 'db.appended')"),
            (20, "call paimon.sys.expire_snapshots(table => 'db.appended', retain_max => 5)"),
        ),
        (("spark.sql.extensions", PAIMON),),
    ),
    "hudi": _hudi("hudi", "cow"),
    "hudi_mor": _hudi("hudi_mor", "mor"),
}
CHANGED, DELETED = 5, 7
"""After so many commits a row is changed, and another one goes."""


@dataclass
class Lived:
    """What came of a life.

    Attributes
    ----------
    commits
        Records in the table's timeline, those of services included.
    refused, unjudged, damage
        What was refused, created without being looked at, and found afterwards.
    failed
        What a command of the writer's was told.
    """

    form: str
    commits: int = 0
    refused: int = 0
    unjudged: int = 0
    failed: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    is_read: bool = False
    seconds: float = 0


def live(
    store: BucketServer,
    form: str,
    appends: int,
    log: Path,
    done: Callable[[], object],
    seconds: float = inf,
) -> Lived:
    """Have a table live through so many appends, and all that goes with them; for so long at most."""
    life, lived, began = LIVES[form], Lived(form), monotonic()
    bucket = store.new_bucket()
    at = f"s3a://{bucket}/{life.root}"
    with _driver(store, bucket, life, log, inspects=True) as driver:
        table = _Table(driver, life, at, lived.failed)
        table.make()
        for number in range(1, appends + 1):
            table.live(number)
            done()
            if monotonic() - began > seconds:
                break
        lived.refused = refused(driver)
        lived.unjudged = log.read_text().count(UNJUDGED)
    with _driver(store, bucket, life, log.with_suffix(".reader"), inspects=False) as reader:
        lived.is_read = _rows(reader, life, at) == sorted(table.rows.items())
    report = inspect(at.replace("s3a:", "s3:"), **store.storage_options)
    lived.damage = [f"{each.kind.value}: {each.detail}" for each in report.damage]
    lived.commits = _commits(report.records)
    lived.seconds = monotonic() - began
    return lived


class _Table:
    """A table, and the rows that it should have."""

    def __init__(self, driver: Driver, life: Life, at: str, failed: list[str]) -> None:
        self._driver = driver
        self._life = life
        self._at = at
        self._failed = failed
        self.rows: dict[int, str] = {}

    def make(self) -> None:
        database, _, _ = self._life.name.rpartition(".")
        if database.endswith(".db"):
            self._run(f"create database if not exists {database}")
        self._run(self._life.make)

    def live(self, n: int) -> None:
        if self._run("insert into {name} values ('a', {n})", n):
            self.rows[n] = "a"
        if n % CHANGED == 0 and self._run("update {name} set who = 'b' where n = {n}", n - 2):
            self.rows[n - 2] = "b"
        if n % DELETED == 0 and self._run("delete from {name} where n = {n}", n - 3):
            del self.rows[n - 3]
        for every, query in self._life.services:
            if n % every == 0:
                self._run(query, n)

    def _run(self, query: str, n: int = 0) -> bool:
        """Run a command; return whether it was acknowledged."""
        known = {"{name}": self._life.name, "{at}": self._at, "{n}": str(n)}
        for word, meant in known.items():
            query = query.replace(word, meant)
        try:
            self._driver.call("sql", query=query)
        except CallError as error:
            self._failed.append(f"{query[:60]}: {error.reason}: {error.message[:200]}")
            return False
        return True


def _rows(reader: Driver, life: Life, at: str) -> list[tuple[int, str]]:
    if life.root == life.name:  # Hudi's tables are known by their names to those who have made them
        reader.call("sql", query=f"create table {life.name} using hudi location '{at}'")
    found = reader.call("sql", query=f"from {life.name.replace('{at}', at)} select n, who")
    return sorted((row["n"], row["who"]) for row in found)


def _commits(records: Any) -> int:
    """Return how many commits there were: numbers go up by one; of Hudi's instants none is forgotten."""
    numbers = [each.number for each in records if hasattr(each, "number")]
    return max(numbers) if numbers else len(records)


@contextmanager
def _driver(store: BucketServer, bucket: str, life: Life, log: Path, *, inspects: bool) -> Iterator[Driver]:
    told: Told = told_on(store, bucket, guarded=inspects, **dict(life.settings))
    if inspects:
        told = told._replace(mount={**(told.mount or {}), "inspect": "commits"})
    with Driver(told, log) as driver:
        yield driver.wait()


def refused(driver: Driver) -> int:
    """Return how many creations the driver's service has refused as damaging."""
    return sum(map(int, re.findall(r'calls_total\{.*?status="422".*?\} (\d+)', driver.metrics())))


def judged(lived: Lived) -> list[str]:
    """Return what should not have come of a life."""
    found = [f"{lived.refused} of its commits were refused"] * bool(lived.refused)
    found += [f"{lived.unjudged} were created unjudged"] * bool(lived.unjudged)
    found += ["a stock session does not read what was acknowledged"] * (not lived.is_read)
    return [*found, *lived.failed, *lived.damage]


def main() -> None:
    """Have each table live, and print what came of it."""
    from tests.servers import VersityGW

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commits", type=int, default=1000, help="rows that are appended to each, one each")
    parser.add_argument("--minutes", type=float, default=inf, help="that each lives, at most")
    parser.add_argument("--only", nargs="+", choices=LIVES, default=list(LIVES), metavar="FORMAT")
    parser.add_argument(
        "--json", action="store_true", help="print a line for machines on standard output, of each"
    )
    options = parser.parse_args()
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 160)
    lives: list[Lived] = []
    with (
        VersityGW() as store,
        tempfile.TemporaryDirectory() as logs,
        Progress(console=console, transient=True) as progress,
    ):
        for form in options.only:
            task = progress.add_task(form, total=options.commits)
            log = Path(logs, form)
            lived = live(
                store, form, options.commits, log, partial(progress.advance, task), 60 * options.minutes
            )
            lives.append(lived)
            for problem in judged(lived):
                console.print(f"{form}: {problem}", style="red", highlight=False)
            if options.json:
                print(json.dumps(asdict(lived)), flush=True)
    table = Table("format", "commits", "refused", "unjudged", "all is read", "damage", "minutes")
    for each in lives:
        counts = (each.commits, each.refused, each.unjudged, each.is_read, len(each.damage))
        table.add_row(each.form, *map(str, counts), f"{each.seconds / 60:.1f}")
    console.print(table)
    sys.exit(any(map(judged, lives)))


if __name__ == "__main__":
    main()
