"""Makes the tables whose timelines the tests read: by real writers on Spark, one table a run.

::

    python tests/timeline/make_fixtures.py hudi_cow /tmp/tables

The folder is where the table is made, and its name ends up in what is kept. It wants PySpark 3.5 and the jars
that ``make test-spark`` fetches; for ``hudi_0_15`` it fetches Hudi 0.15. Of each table it keeps the timeline
alone, without data files, and beside it what the format's own reader says of it, as JSON. ``hudi_long`` takes
half an hour, the others a minute or two.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[2]
JARS = ROOT / "tools" / "spark" / "target" / "jars"
FIXTURES = Path(__file__).parent / "fixtures"

OLDER = "org.apache.hudi:hudi-spark3.5-bundle_2.12:0.15.0"

# As few as Hudi allows, so that a small table has a deep history.
TINY = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "n",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.metadata.enable": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.timeline.compaction.batch.size": "3",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
}

SHOWN = ("action", "commit_time", "instant_time", "state", "state_transition_time")

MERGE_ON_READ = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "3",
}

BY_DEFAULT = {
    "hoodie.keep.min.commits": "20",
    "hoodie.keep.max.commits": "30",
    "hoodie.timeline.compaction.batch.size": "10",
}

CATALOGS = {
    "delta": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "hudi": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}


def jars(folder: Path, name: str) -> list[Path]:
    """Return what a session wants: of Hudi the version that the tests have, or an older one."""
    found = [each for each in sorted(JARS.glob("*.jar")) if "aws" not in each.name]
    if name != "hudi_0_15":
        return found
    older = folder / "older"
    said = [f"-Dartifact={OLDER}", f"-DoutputDirectory={older}", "-B", "-q"]
    subprocess.run([ROOT / "hadoop" / "mvnw", "dependency:copy", *said], cwd=ROOT, check=True)
    return [*(each for each in found if not each.name.startswith("hudi-")), *older.glob("*.jar")]


def session(folder: Path, name: str) -> SparkSession:
    from pyspark.sql import SparkSession

    settings = {
        "spark.master": "local[1]",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(str(each) for each in jars(folder, name)),
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension,"
        "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": CATALOGS["delta" if name == "delta" else "hudi"],
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": str(folder / "paimon"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    return SparkSession.builder.config(map=settings).getOrCreate()


class Hudi:
    """A Hudi table that is being made."""

    older = False
    """Whether by a Hudi before 1.0, which calls some things otherwise."""

    def __init__(self, spark: SparkSession, path: Path, **options: str) -> None:
        self.spark = spark
        self.path = path
        self.options = {**TINY, "hoodie.table.name": path.name, **options}

    def rows(self, first: int, count: int = 3) -> DataFrame:
        rows = [(str(id_), id_ % 2) for id_ in range(first, first + count)]
        return self.spark.createDataFrame(rows, "id string, n int").coalesce(1)

    def write(self, operation: str, first: int = 0, **more: str) -> None:
        said = {**self.options, "hoodie.datasource.write.operation": operation, **more}
        self.rows(first).write.format("hudi").options(**said).mode("append").save(str(self.path))
        if not self.spark.catalog.tableExists(self.path.name):
            # Procedures know it by a name.
            self.spark.sql(f"create table {self.path.name} using hudi location '{self.path}'")

    def fail(self) -> None:
        """Leave an instant that is never completed: the next writer rolls it back."""
        rows = self.rows(0).selectExpr("if(n >= 0, raise_error('on purpose'), id) as id", "n")
        said = {**self.options, "hoodie.datasource.write.operation": "bulk_insert"}
        with suppress(Exception):
            rows.write.format("hudi").options(**said).mode("append").save(str(self.path))

    def call(self, procedure: str, **said: Any) -> list[dict[str, Any]]:
        arguments = ", ".join(f"{key} => {json.dumps(value)}" for key, value in said.items())
        return _rows(self.spark.sql(f"call {procedure}(table => '{self.path.name}', {arguments})"))

    def meta(self) -> Any:
        jvm: Any = self.spark._jvm
        hadoop = self.spark._jsc.hadoopConfiguration()
        conf = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(hadoop)
        client = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        return client.setConf(conf).setBasePath(str(self.path)).build()

    def last(self) -> str:
        """Return the time of the last completed commit."""
        timeline = self.meta().getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        return self.told(timeline.lastInstant().get())[0]

    def told(self, instant: Any) -> list[str]:
        """Return what Hudi says of an instant: its time, action, state and completion."""
        time = instant.getTimestamp() if self.older else instant.requestedTime()
        completed = instant.getStateTransitionTime() if self.older else instant.getCompletionTime()
        state = instant.getState().name().lower()
        return [time, instant.getAction(), state, completed if instant.isCompleted() and completed else ""]

    def answer(self) -> dict[str, Any]:
        """Return what Hudi itself reads from its timelines."""
        meta = self.meta()
        timelines = {"active": meta.getActiveTimeline(), "archived": meta.getArchivedTimeline()}
        answer: dict[str, Any] = {
            kind: sorted(self.told(each) for each in timeline.getInstants())
            for kind, timeline in timelines.items()
        }
        ever = {"limit": 100000, "start_ts": "0", "end_ts": "9"}
        answer["show_commits"] = self.shown("show_commits", limit=100000)
        answer["show_archived_commits"] = self.shown("show_archived_commits", **ever)
        if not self.older:
            answer["show_timeline"] = self.shown("show_timeline", limit=100000, showArchived=True)
        return answer

    def shown(self, procedure: str, **said: Any) -> list[dict[str, Any]]:
        """Return what a procedure says of instants, as far as it is about the timeline."""
        return [{key: row[key] for key in SHOWN if key in row} for row in self.call(procedure, **said)]


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def every_action(table: Hudi) -> None:
    """Write all but the table's own maintenance: of which the options say when."""
    table.write("insert", 10)
    table.write("upsert", 10)
    table.write("delete", 11)
    table.write("insert_overwrite_table", 20)
    table.fail()
    table.write("insert", 30)
    if table.options.get("hoodie.write.table.version") != "6":  # whose timeline Hudi 1.2's does not find
        table.call("rollback_to_instant", instant_time=table.last())
    table.write("insert", 40)
    saved = table.last()
    table.call("create_savepoint", commit_time=saved)
    table.write("insert", 50)
    table.write("insert", 60)
    table.call("rollback_to_savepoint", instant_time=saved)
    table.call("delete_savepoint", instant_time=saved)


def archive(table: Hudi, commits: int) -> None:
    for n in range(commits):
        table.write("upsert", n % 2)


def index(table: Hudi) -> None:
    table.write("upsert", 1, **{"hoodie.metadata.enable": "true"})
    wanted = {
        "hoodie.metadata.enable": "true",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    }
    for key, value in wanted.items():
        table.spark.sql(f"set {key}={value}")
    table.spark.sql(f"create index record_index on {table.path.name} (id)")
    for key in wanted:
        table.spark.sql(f"reset {key}")


def hudi_cow(spark: SparkSession, folder: Path, **more: str) -> Hudi:
    table = Hudi(spark, folder / "hudi_cow", **more)
    clustered = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "4"}
    table.options |= clustered
    every_action(table)
    index(table)
    archive(table, 36)
    for key in clustered:
        del table.options[key]
    every_action(table)
    table.write("insert", 70)
    index(table)
    table.call("create_savepoint", commit_time=table.last())
    table.call("run_clustering", op="schedule")
    table.fail()
    return table


def hudi_mor(spark: SparkSession, folder: Path, **more: str) -> Hudi:
    table = Hudi(spark, folder / "hudi_mor", **more)
    table.options |= MERGE_ON_READ
    every_action(table)
    archive(table, 20)
    table.options["hoodie.compact.inline"] = "false"
    table.options |= {
        "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.enable": "true",
        "hoodie.log.compaction.blocks.threshold": "2",
    }
    archive(table, 8)
    scheduled = {"hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    table.write("upsert", 0, **{"hoodie.log.compaction.inline": "false", **scheduled})
    return table


def compact_and_cluster(table: Hudi) -> None:
    """Write a table of version 6 past its archiver, first with compactions alone."""
    table.options |= MERGE_ON_READ
    every_action(table)
    archive(table, 12)
    table.options |= {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "3"}
    archive(table, 4)


def hudi_v6(spark: SparkSession, folder: Path, name: str = "hudi_v6", *, stays: bool = True) -> Hudi:
    said = {"hoodie.write.table.version": "6", **({"hoodie.write.auto.upgrade": "false"} if stays else {})}
    table = Hudi(spark, folder / name, **said)
    for key, value in {**said, "hoodie.metadata.enable": "false"}.items() if stays else ():
        spark.sql(f"set {key}={value}")
    compact_and_cluster(table)
    every_action(table)
    table.fail()
    return table


def hudi_long(spark: SparkSession, folder: Path) -> Hudi:
    """Return a table with more than 400 commits, and thresholds as Hudi has them by default."""
    table = Hudi(spark, folder / "hudi_long", **BY_DEFAULT)
    every_action(table)
    archive(table, 200)
    table.options |= {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "20"}
    archive(table, 200)
    every_action(table)
    archive(table, 10)
    return table


def hudi_0_15(spark: SparkSession, folder: Path) -> Hudi:
    """Return a table of the last Hudi that knew version 6 alone."""
    table = Hudi(spark, folder / "hudi_0_15")
    table.older = True
    spark.sql("set hoodie.metadata.enable=false")  # procedures don't know the table's options
    compact_and_cluster(table)
    table.fail()
    return table


def hudi_upgraded(spark: SparkSession, folder: Path) -> Hudi:
    """Return a table that began with version 6: a procedure of the newer Hudi upgrades it on its way."""
    return hudi_v6(spark, folder, "hudi_upgraded", stays=False)


HUDI: dict[str, Callable[[SparkSession, Path], Hudi]] = {
    "hudi_cow": hudi_cow,
    "hudi_mor": hudi_mor,
    "hudi_v6": hudi_v6,
    "hudi_upgraded": hudi_upgraded,
    "hudi_long": hudi_long,
    "hudi_0_15": hudi_0_15,
}


def keep(name: str, folder: Path, files: Iterable[Path]) -> None:
    """Pack files of a table, with the times at which they were written."""
    FIXTURES.mkdir(exist_ok=True)

    def nobody(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(FIXTURES / f"{name}.tar.xz", "w:xz", format=tarfile.PAX_FORMAT) as packed:
        for file in sorted(files):
            packed.add(file, str(file.relative_to(folder)), filter=nobody)


def timeline_of(table: Path) -> list[Path]:
    """Return the files of a Hudi table's timeline: not those of its metadata table, and no data."""
    inside = table / ".hoodie"
    skipped = {".temp", ".aux", ".heartbeat", ".schema", "metadata", ".hoodie_partition_metadata"}
    return [
        file
        for file in inside.rglob("*")
        if file.is_file() and not skipped & set(file.relative_to(table).parts) and file.suffix != ".crc"
    ]


def delta(spark: SparkSession, path: Path) -> list[dict[str, Any]]:
    """Make a Delta table with a checkpoint; return what it says of its history."""
    for n in range(10):
        spark.range(n, n + 2).coalesce(1).write.format("delta").mode("append").save(str(path))
    spark.sql(f"delete from delta.`{path}` where id = 1")  # noqa: S608 - a path of our own
    spark.sql(f"update delta.`{path}` set id = 20 where id = 2")  # noqa: S608
    spark.sql(f"optimize delta.`{path}`")
    return _rows(spark.sql(f"describe history delta.`{path}`"))


def paimon(spark: SparkSession, path: Path) -> list[dict[str, Any]]:
    """Make a Paimon table that keeps its changelogs for longer than its snapshots; return what it says."""
    from pyspark.sql.functions import lit

    name = f"paimon.{path.parent.name.removesuffix('.db')}.{path.name}"
    spark.sql(f"create database if not exists {name.rpartition('.')[0]}")
    kept = "'snapshot.num-retained.min'='3', 'snapshot.num-retained.max'='3'"
    longer = (
        "'changelog-producer'='input', 'changelog.num-retained.min'='5', 'changelog.num-retained.max'='6'"
    )
    spark.sql(
        f"create table {name} (id int) tblproperties ('primary-key'='id', 'bucket'='1', {kept}, {longer})"
    )
    for n in range(8):
        spark.createDataFrame([(n % 3,)], "id int").writeTo(name).append()
    spark.createDataFrame([(9,)], "id int").writeTo(name).overwrite(lit(True))
    return _rows(spark.table(f"`paimon`.`{path.parent.stem}`.`{path.name}$snapshots`"))


def _rows(found: DataFrame) -> list[dict[str, Any]]:
    return [{key: _plain(value) for key, value in row.asDict().items()} for row in found.collect()]


def main() -> None:
    name = sys.argv[1]
    folder = Path(sys.argv[2])
    spark = session(folder, name)
    answer: Any
    if name == "delta":
        answer = delta(spark, folder / name)
        keep(name, folder, (folder / name / "_delta_log").glob("*[0-9].json"))
    elif name == "paimon":
        path = folder / "paimon" / "default.db" / "paimon"
        answer = paimon(spark, path)
        found = (file for kind in ("snapshot", "schema", "changelog") for file in (path / kind).glob("[!.]*"))
        keep(name, path.parent, found)
    else:
        table = HUDI[name](spark, folder)
        keep(name, folder, timeline_of(table.path))
        answer = table.answer()
    (FIXTURES / f"{name}.json").write_text(json.dumps(answer, sort_keys=True) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
