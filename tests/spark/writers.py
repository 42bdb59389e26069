"""Unmodified writers of table formats on Spark: how a user sets them up, appends a row, and reads all."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = [
    "CATALOGS",
    "FORMATS",
    "IS_NEWER",
    "SERVICES_OF_HUDI",
    "SMALL_FILES",
    "THERE",
    "Format",
    "locked_by",
    "settings_of",
    "settings_of_one",
    "statements",
]

IS_NEWER = find_spec("pyspark") is not None and version("pyspark").startswith("4.1.")
"""Whether there are the formats' jars for PySpark 4.1; else those for 3.5."""

EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "hudi": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
}
CATALOGS = {
    "delta": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "hudi": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}
"""What stands in for the session's own."""


class Format(NamedTuple):
    """A table format.

    Attributes
    ----------
    append
        Commits rows ``(who, n)`` to a table; Hudi's with options, or by another ``mode`` of saving.
    rows
        Reads all of it, in a session that has not seen it before.
    conflicts
        What its writers are told when they lose against another, by parts of the errors' texts.
    stream
        Starts a query that appends all that a frame will have to a table that is there, with a checkpoint.
    make
        Makes the table, where appending doesn't.
    """

    append: Callable[..., None]
    rows: Callable[[SparkSession, str], DataFrame]
    conflicts: tuple[str, ...]
    stream: Callable[[DataFrame, str, str], StreamingQuery]
    make: Callable[[SparkSession, str], None] = lambda spark, table: None


def settings_of(warehouse: str) -> dict[str, str]:
    """Return what a session needs for all of them."""
    return {
        "spark.sql.extensions": ",".join(EXTENSIONS.values()),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.catalog.spark_catalog": CATALOGS["delta"],
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": f"{warehouse}/paimon",
        "spark.sql.catalog.iceberg": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.iceberg.type": "hadoop",
        "spark.sql.catalog.iceberg.warehouse": f"{warehouse}/iceberg",
        "spark.sql.catalog.iceberg.cache-enabled": "false",
        "spark.test.warehouse": warehouse,
    }


def settings_of_one(form: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return what a session needs of what one for all of them has, where only one format's jars are there."""
    catalogs = tuple(f"spark.sql.catalog.{each}" for each in ("spark_catalog", *FORMATS) if each != form)
    own = {key: value for key, value in settings.items() if not key.startswith((*catalogs, "spark.sql.ext"))}
    if form in EXTENSIONS:
        own["spark.sql.extensions"] = EXTENSIONS[form]
    if form in CATALOGS:
        own["spark.sql.catalog.spark_catalog"] = CATALOGS[form]
    return own


def statements(form: str, warehouse: str, table: str) -> list[str]:
    """Return what ``{who}`` does to append to a table that is there; the last inserts the row ``{n}``."""
    if form == "hudi":
        # Sessions of one process share a catalog, in which one of two who name a table alike fails.
        return [
            f"create table {table}_{{who}} using hudi location '{warehouse}/{table}'",
            "set hoodie.spark.sql.insert.into.operation=insert",
            "set hoodie.parquet.small.file.limit=0",
            f"insert into {table}_{{who}} values ('{{who}}-{{n}}', '{{who}}', {{n}})",  # noqa: S608 - of a test's
        ]
    named = f"delta.`{warehouse}/{table}`" if form == "delta" else f"{form}.db.{table}"
    return [f"insert into {named} values ('{{who}}', {{n}})"]  # noqa: S608 - of a test's


def _path(spark: SparkSession, table: str) -> str:
    return f"{spark.conf.get('spark.test.warehouse')}/{table}"


def _delta_append(rows: DataFrame, table: str) -> None:
    rows.write.format("delta").mode("append").save(_path(rows.sparkSession, table))


def _delta_stream(rows: DataFrame, table: str, checkpoint: str) -> StreamingQuery:
    writer = rows.writeStream.format("delta").option("checkpointLocation", checkpoint)
    return writer.start(_path(rows.sparkSession, table))


def _delta_rows(spark: SparkSession, table: str) -> DataFrame:
    return spark.read.format("delta").load(_path(spark, table))


def _in_catalog(catalog: str) -> Format:
    def make(spark: SparkSession, table: str) -> None:
        spark.sql(f"create database if not exists {catalog}.db")
        spark.sql(f"create table if not exists {catalog}.db.{table} (who string, n int)")

    def append(rows: DataFrame, table: str) -> None:
        rows.writeTo(f"{catalog}.db.{table}").append()

    def read(spark: SparkSession, table: str) -> DataFrame:
        return spark.table(f"{catalog}.db.{table}")

    def stream(rows: DataFrame, table: str, checkpoint: str) -> StreamingQuery:
        writer = rows.writeStream.option("checkpointLocation", checkpoint)
        if catalog == "iceberg":
            return writer.toTable(f"iceberg.db.{table}")
        return writer.format("paimon").start(_path(rows.sparkSession, f"paimon/db.db/{table}"))

    return Format(append, read, _CONFLICTS[catalog], stream, make)


def _hudi(**options: str) -> Format:
    def said(table: str) -> dict[str, Any]:
        return {
            "hoodie.table.name": table,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.operation": "insert",
            **options,
        }

    def append(rows: DataFrame, table: str, mode: str = "append", **more: str) -> None:
        writer = _keyed(rows).write.format("hudi").options(**said(table) | more)
        writer.mode(mode).save(_path(rows.sparkSession, table))

    def stream(rows: DataFrame, table: str, checkpoint: str) -> StreamingQuery:
        writer = _keyed(rows).writeStream.format("hudi").options(**said(table))
        return writer.option("checkpointLocation", checkpoint).start(_path(rows.sparkSession, table))

    def read(spark: SparkSession, table: str) -> DataFrame:
        return spark.read.format("hudi").load(_path(spark, table))

    return Format(append, read, _CONFLICTS["hudi"], stream)


def _keyed(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("concat(who, '-', n) as id", "*")


# Another driver has completed, or rolled back, the clustering that this one was executing, or was about to.
_CLUSTERED = "HoodieClusteringException: unable to transition clustering inflight to complete"
_CLUSTERED_MEANWHILE = (
    "NoSuchElementException: No value present in Option\n"
    "\tat org.apache.hudi.common.util.Option.get(Option.java:93)\n"
    "\tat org.apache.hudi.table.action.cluster.SparkExecuteClusteringCommitActionExecutor"
)

# Another driver runs the same clean.
_CLEANED = ".clean.inflight already exists"

_CONFLICTS = {
    "hudi": ("HoodieWriteConflictException", _CLEANED, _CLUSTERED, _CLUSTERED_MEANWHILE),
    # Ten tries of its own, then this.
    "iceberg": ("CommitFailedException",),
    "paimon": ("Commit failed", "conflict"),
}

SERVICES_OF_HUDI = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "4",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "6",
    "hoodie.keep.max.commits": "12",
    "hoodie.keep.min.commits": "10",
    "hoodie.clean.commits.retained": "4",
}
"""Each writer does them all itself, soon."""

SMALL_FILES = {"hoodie.parquet.small.file.limit": str(100 * 1024 * 1024)}
"""Hudi's default, which ``hudi`` turns off: so that each insert rewrites the file of those before."""


def locked_by(zookeeper: str) -> dict[str, str]:
    """Return Hudi's options for several writers, by the lock that it has in ZooKeeper, at an address."""
    return {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
        "hoodie.write.lock.zookeeper.url": zookeeper,
        "hoodie.write.lock.zookeeper.base_path": "/hudi",
        "hoodie.write.lock.zookeeper.lock_key": "table",
    }


FORMATS: dict[str, Format] = {
    # The first one to come by makes the table: the others' first commits may be told so.
    "delta": Format(
        _delta_append,
        _delta_rows,
        ("ConcurrentAppendException", "MetadataChangedException", "ProtocolChangedException"),
        _delta_stream,
    ),
    "iceberg": _in_catalog("iceberg"),
    "paimon": _in_catalog("paimon"),
    # Each insert to a file group of its own: else most of them are Hudi's own conflicts.
    "hudi": _hudi(**{"hoodie.parquet.small.file.limit": "0"}),
    "hudi_mor": _hudi(
        **{
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            **SERVICES_OF_HUDI,
        }
    ),
}

THERE = ("delta", "iceberg") if IS_NEWER else tuple(FORMATS)
"""The formats of which there is a release for this PySpark."""
