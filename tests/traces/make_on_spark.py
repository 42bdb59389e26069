"""Records what unmodified writers on Spark call of an object store: one scenario a run.

::

    python -m tests.traces.make_on_spark paimon
    python -m tests.traces.make_on_spark state_stores spark4

It wants PySpark 3.5 and the jars that ``make test-spark`` fetches (for ``spark4``: PySpark 4, and no jars),
and a JDK: the filesystem that writes the calls down is compiled here. A minute or two each.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyspark

from tests.traces.trace import Call, Step, save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
JARS = HERE.parents[1] / "tools" / "spark" / "target" / "jars"
# More than one at once want to have the last word in parsing.
EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "hudi": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "paimon": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
}
CATALOGS = {
    "delta": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "hudi": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}
# What a ledger reads of the files that it hears of.
READ = ("/.hoodie/hoodie.properties", ".rollback.requested")


class Recorded:
    """A session on a filesystem that writes down what is called."""

    def __init__(self, folder: Path, form: str) -> None:
        from pyspark.sql import SparkSession

        self.folder = folder
        self.url = f"s3a://lake{folder}"
        self.log = folder.parent / "traces.log"
        bundled = Path(pyspark.__file__).parent / "jars"
        classes = folder.parent / "classes"
        subprocess.run(
            [
                "javac",
                "--release",
                "11",
                "-cp",
                f"{bundled}/*",
                "-d",
                classes,
                *(HERE / "java").glob("*.java"),
            ],
            check=True,
        )
        found = [str(each) for each in sorted(JARS.glob("*.jar")) if "aws" not in each.name]
        settings = {
            "spark.master": "local[1]",
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.driver.extraClassPath": str(classes),
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
            "spark.sql.warehouse.dir": f"{self.url}/spark",
            "spark.hadoop.fs.s3a.impl": "TracingFileSystem",
            "spark.hadoop.fs.AbstractFileSystem.s3a.impl": "TracingFs",
            "spark.hadoop.traces.log": str(self.log),
            **(self._formats(form, found) if form in EXTENSIONS else {}),
        }
        self.spark: SparkSession = SparkSession.builder.config(map=settings).getOrCreate()

    def _formats(self, form: str, jars: list[str]) -> dict[str, str]:
        return {
            "spark.jars": ",".join(jars),
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.extensions": EXTENSIONS[form],
            "spark.sql.catalog.spark_catalog": CATALOGS.get(form, CATALOGS["delta"]),
            "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.paimon.warehouse": f"{self.url}/paimon",
            "spark.sql.catalog.iceberg": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.iceberg.type": "hadoop",
            "spark.sql.catalog.iceberg.warehouse": f"{self.url}/iceberg",
        }

    def step(self, what: str, do: Callable[[], Any]) -> Any:
        """Do a command, and say where its calls begin."""
        with self.log.open("a") as log:
            log.write(f"step\t{what}\n")
        sys.stdout.write(f"{what}\n")
        return do()

    def sql(self, *statements: str) -> None:
        for each in statements:
            self.step(" ".join(each.replace(self.url, "").split()), partial(self.spark.sql, each))

    def trace(self) -> Iterator[Call | Step]:
        """Return what was called, without what the filesystem alone made of it."""
        bodies: dict[str, int] = {}
        for line in self.log.read_text().splitlines():
            verb, role, *rest = line.split("\t")
            if verb == "step":
                yield Step(role)
                continue
            flag, outcome, path, other = rest
            name = self._name(path)
            content: str | int = ""
            if verb == "rename":
                other = self._name(other)
            if verb == "create" and outcome == "done":
                content = other if name.endswith(READ) else ""
                yield Call(
                    verb, name, flag == "1", bodies.setdefault(other, len(bodies)), outcome, role, content
                )
            else:
                yield Call(verb, name, flag == "1", other, outcome, role)

    def _name(self, path: str) -> str:
        return path.removeprefix(f"{self.folder}/")


def paimon(made: Recorded) -> None:
    made.sql(
        "create database paimon.db",
        "create table paimon.db.t (id int, v string) tblproperties ('primary-key'='id', 'bucket'='1',"
        " 'snapshot.num-retained.min'='2', 'snapshot.num-retained.max'='3', 'changelog-producer'='lookup',"
        " 'changelog.num-retained.min'='2', 'changelog.num-retained.max'='4')",
        *(f"insert into paimon.db.t values ({n}, 'a')" for n in range(3)),
        "call paimon.sys.create_tag(table => 'db.t', tag => 'kept')",
        "alter table paimon.db.t add column w int",
        *(f"insert into paimon.db.t values ({n}, 'b', {n})" for n in range(3)),
        "call paimon.sys.create_tag(table => 'db.t', tag => 'later')",
        "call paimon.sys.create_branch(table => 'db.t', branch => 'dev', tag => 'later')",
        "insert into paimon.db.`t$branch_dev` values (7, 'c', 7)",
        "insert into paimon.db.`t$branch_dev` values (8, 'c', 8)",
        "insert into paimon.db.t values (9, 'd', 9)",
        "call paimon.sys.fast_forward(table => 'db.t', branch => 'dev')",
        "insert into paimon.db.t values (10, 'e', 10)",
        "call paimon.sys.delete_branch(table => 'db.t', branch => 'dev')",
        "call paimon.sys.compact(table => 'db.t')",
        "call paimon.sys.expire_snapshots(table => 'db.t', retain_max => 1, retain_min => 1)",
        "call paimon.sys.rollback(table => 'db.t', version => 'kept')",
        "insert into paimon.db.t values (11, 'f', 11)",
        "call paimon.sys.delete_tag(table => 'db.t', tag => 'kept')",
        "alter table paimon.db.t drop column w",
        "insert overwrite paimon.db.t values (12, 'g')",
        "truncate table paimon.db.t",
    )


def paimon_iceberg(made: Recorded) -> None:
    made.sql(
        "create database paimon.db",
        "create table paimon.db.t (id int, v string) tblproperties ("
        "'metadata.iceberg-compatible'='true', 'metadata.iceberg.storage'='table-location',"
        " 'bucket'='1', 'primary-key'='id', 'full-compaction.delta-commits'='1')",
        *(f"insert into paimon.db.t values ({n}, 'a')" for n in range(3)),
        "call paimon.sys.create_tag(table => 'db.t', tag => 'kept')",
        "insert into paimon.db.t values (4, 'a')",
        "call paimon.sys.delete_tag(table => 'db.t', tag => 'kept')",
        "insert into paimon.db.t values (5, 'a')",
    )


def delta(made: Recorded) -> None:
    at = f"delta.`{made.url}/t`"
    made.sql(
        f"create table {at} (id bigint, v string) using delta tblproperties ('delta.checkpointInterval'='3',"
        " 'delta.checkpointPolicy'='v2', 'delta.enableChangeDataFeed'='true')",
        *(f"insert into {at} values ({n}, 'a')" for n in range(5)),
        f"update {at} set v = 'b' where id = 3",
        f"optimize {at}",
        f"restore table {at} to version as of 4",
        f"create table delta.`{made.url}/shallow` shallow clone {at}",
        f"insert into delta.`{made.url}/shallow` values (9, 'z')",
        f"alter table {at} add column w int",
        "set spark.databricks.delta.retentionDurationCheck.enabled=false",
        f"vacuum {at} retain 0 hours",
        f"alter table {at} set tblproperties ('delta.checkpointPolicy'='classic',"
        " 'delta.logRetentionDuration'='interval 0 seconds')",
        *(f"insert into {at} values ({n}, 'c', 1)" for n in range(3)),
    )


def iceberg(made: Recorded) -> None:
    made.sql(
        "create table iceberg.db.t (id bigint, v string) tblproperties ("
        "'write.metadata.delete-after-commit.enabled'='true', 'write.metadata.previous-versions-max'='2')",
        *(f"insert into iceberg.db.t values ({n}, 'a')" for n in range(5)),
        "alter table iceberg.db.t create tag kept",
        "alter table iceberg.db.t create branch dev",
        "insert into iceberg.db.t.branch_dev values (7, 'b')",
        "call iceberg.system.fast_forward('db.t', 'main', 'dev')",
        "alter table iceberg.db.t set tblproperties ('write.metadata.compression-codec'='gzip')",
        "insert into iceberg.db.t values (8, 'c')",
        "alter table iceberg.db.t unset tblproperties ('write.metadata.compression-codec')",
        "alter table iceberg.db.t add column w int",
        "alter table iceberg.db.t drop branch dev",
        "alter table iceberg.db.t drop tag kept",
    )
    at = made.spark.sql("select snapshot_id from iceberg.db.t.snapshots order by committed_at").first()
    assert at is not None
    made.sql(
        f"call iceberg.system.rollback_to_snapshot('db.t', {at[0]})",
        "call iceberg.system.rewrite_data_files('db.t')",
        "call iceberg.system.rewrite_manifests('db.t')",
        "call iceberg.system.expire_snapshots(table => 'db.t', older_than => timestamp '2100-01-01',"
        " retain_last => 1)",
        "call iceberg.system.remove_orphan_files(table => 'db.t', older_than => timestamp '2020-01-01')",
        "drop table iceberg.db.t purge",
        "create table iceberg.db.t (id bigint)",
        "insert into iceberg.db.t values (1)",
    )


COMMITTED = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.table.ordering.fields": "n",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.timeline.compaction.batch.size": "3",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
}

STAYS = ("hoodie.write.table.version", "hoodie.write.auto.upgrade")


class Hudi:
    """A Hudi table whose making is recorded."""

    def __init__(self, made: Recorded, **options: str) -> None:
        self.made = made
        self.at = f"{made.url}/t"
        self.options = {**COMMITTED, "hoodie.table.name": "t", **options}

    def stays(self, version: int) -> None:
        """Have all writes leave the table's version as it is."""
        self.options |= dict(zip(STAYS, (str(version), "false"), strict=True))

    def becomes(self, version: int) -> None:
        """Upgrade or downgrade the table."""
        jvm: Any = self.made.spark._jvm
        change = jvm.org.apache.hudi.table.upgrade
        versions = jvm.org.apache.hudi.common.table.HoodieTableVersion
        self.options |= dict(zip(STAYS, (str(version), "true"), strict=True))
        helper = change.SparkUpgradeDowngradeHelper.getInstance()
        changes = change.UpgradeDowngrade(self.meta(), self.config(), self.context, helper)
        wanted = versions.fromVersionCode(version)
        self.made.step(f"to table version {version}", lambda: changes.run(wanted, None))
        self.stays(version)

    def write(self, operation: str, first: int = 0, step: str = "", **more: str) -> None:
        options = {**self.options, "hoodie.datasource.write.operation": operation, **more}
        rows = self.made.spark.createDataFrame(
            [(str(n), n % 2) for n in range(first, first + 3)], "id string, n int"
        )

        def do() -> None:
            rows.coalesce(1).write.format("hudi").options(**options).mode("append").save(self.at)

        self.made.step(step or f"{operation} {first}", do)

    def fail(self) -> None:
        rows = self.made.spark.range(1).selectExpr("raise_error('on purpose') as id", "1 as n")
        options = {**self.options, "hoodie.datasource.write.operation": "bulk_insert"}

        def do() -> None:
            with suppress(Exception):
                rows.write.format("hudi").options(**options).mode("append").save(self.at)

        self.made.step("a write that fails", do)

    def meta(self) -> Any:
        jvm: Any = self.made.spark._jvm
        hadoop = self.made.spark._jsc.hadoopConfiguration()
        conf = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(hadoop)
        return (
            jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
            .setConf(conf)
            .setBasePath(self.at)
            .build()
        )

    @property
    def context(self) -> Any:
        jvm: Any = self.made.spark._jvm
        return jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(self.made.spark._jsc)

    def config(self) -> Any:
        jvm: Any = self.made.spark._jvm
        properties = jvm.java.util.Properties()
        for key, value in self.options.items():
            properties.setProperty(key, value)
        return (
            jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder()
            .withPath(self.at)
            .withProps(properties)
            .build()
        )

    def client(self) -> Any:
        jvm: Any = self.made.spark._jvm
        return jvm.org.apache.hudi.client.SparkRDDWriteClient(self.context, self.config())

    def last(self) -> str:
        timeline = self.meta().getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        instant: str = timeline.lastInstant().get().requestedTime()
        return instant


def hudi(made: Recorded) -> None:
    """Services, rollbacks, restores and upgrades of a copy-on-write table."""
    table = Hudi(made)
    table.write("insert", 10)
    table.write("upsert", 10)
    table.fail()
    table.write("delete", 11)
    table.write("insert", 30)
    writer = table.client()
    made.step("rollback", lambda: writer.rollback(table.last()))
    table.write("insert", 40)
    saved = table.last()
    made.step("savepoint", lambda: writer.savepoint(saved, "me", "kept"))
    table.write("insert", 50)
    table.write("insert", 60)
    made.step("restore to savepoint", lambda: writer.restoreToSavepoint(saved))
    made.step("delete savepoint", lambda: writer.deleteSavepoint(saved))
    for n in range(9):
        table.write("upsert", n % 2)
    made.step("clean", writer.clean)
    clustered = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    table.write("upsert", 1, **clustered)
    table.write("insert_overwrite_table", 70)
    for version in (8, 6):
        table.becomes(version)
        table.write("upsert", 0)


def hudi_versions(made: Recorded) -> None:
    """A table of version 6 that is upgraded and downgraded, with and without commits in between."""
    table = Hudi(made)
    table.stays(6)
    table.write("insert", 10)
    table.write("upsert", 10)
    table.write("insert", 20)
    saved = table.last()
    made.step("savepoint", lambda: table.client().savepoint(saved, "me", "kept"))
    table.write("insert", 30)
    for version in (8, 6, 8):
        table.becomes(version)
    table.write("insert", 40)
    made.step("rollback", lambda: table.client().rollback(table.last()))
    made.step("restore to savepoint", lambda: table.client().restoreToSavepoint(saved))
    made.step("delete savepoint", lambda: table.client().deleteSavepoint(saved))
    for n in range(5):
        table.write("upsert", n % 2)
    table.becomes(6)
    for key in STAYS:
        del table.options[key]
    # What Hudi does by default when it finds an older table.
    table.write("insert", 50, step="to table version 9, by an insert")


def hudi_mor(made: Recorded) -> None:
    """Compactions of a merge-on-read table: planned, changed, run, taken back."""
    table = Hudi(made, **{"hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    planned = {
        "hoodie.compact.inline": "false",
        "hoodie.compact.schedule.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    run = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    jvm: Any = made.spark._jvm
    table.write("insert", 10)
    table.write("upsert", 10, **planned)
    admin = jvm.org.apache.hudi.client.CompactionAdminClient(table.context, table.at)
    pending = jvm.org.apache.hudi.common.util.CompactionUtils.getAllPendingCompactionOperations(table.meta())
    group = next(iter(pending))
    instant = pending[group].getLeft()
    made.step("unschedule a file group", lambda: admin.unscheduleCompactionFileId(group, True, False))
    # A plan of which nothing is left can't be run: Hudi 1.2 fails to complete it.
    made.step("unschedule a compaction", lambda: admin.unscheduleCompactionPlan(instant, True, 1, False))
    table.write("upsert", 10, **run)
    table.write("upsert", 10, **run)


def state_stores(made: Recorded) -> None:
    """Streaming queries with state, to a file sink, from files; each is stopped and goes on."""
    from pyspark.sql.functions import window

    spark = made.spark
    providers = ("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2")
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
    spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "3")
    spark.conf.set("spark.sql.streaming.fileSink.log.cleanupDelay", "1")

    def run(query: Any) -> None:
        query.processAllAvailable()
        query.stop()

    def feed(n: int) -> None:
        Path(made.folder, "input").mkdir(exist_ok=True)
        Path(made.folder, "input", f"{n}.csv").write_text(f"{n},2026-01-01T00:{n:02}:00\n")

    for provider in providers:
        spark.conf.set(
            "spark.sql.streaming.stateStore.providerClass",
            f"org.apache.spark.sql.execution.streaming.state.{provider}",
        )
        for n in range(5):
            feed(n)
            rows = spark.readStream.schema("id int, at timestamp").csv(f"{made.url}/input")
            counted = rows.withWatermark("at", "1 second").groupBy(window("at", "1 minute")).count()
            for name, frame in ((f"counted_{provider}", counted), (f"copied_{provider}", rows)):

                def write(frame: Any = frame, name: str = name) -> None:
                    writer = frame.writeStream.format("json").outputMode("append")
                    at = f"{made.url}/{name}"
                    run(writer.option("checkpointLocation", f"{at}_checkpoint").start(f"{at}_out"))

                made.step(f"{name}, time {n}", write)
                time.sleep(0.1)


SCENARIOS: dict[str, Callable[[Recorded], None]] = {
    "delta": delta,
    "hudi": hudi,
    "hudi_mor": hudi_mor,
    "hudi_versions": hudi_versions,
    "iceberg": iceberg,
    "paimon": paimon,
    "paimon_iceberg": paimon_iceberg,
    "state_stores": state_stores,
}


def main(name: str, suffix: str = "") -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, "lake")
        folder.mkdir()
        made = Recorded(folder, name.partition("_")[0])
        SCENARIOS[name](made)
        made.spark.stop()
        save(f"{name}_{suffix}" if suffix else name, made.trace())


if __name__ == "__main__":
    main(*sys.argv[1:])
