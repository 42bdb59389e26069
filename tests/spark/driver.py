"""A Spark driver of its own process, told what to do by lines of JSON on standard input.

It answers each line with one line of JSON on standard output.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.writers import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

PR_SET_PDEATHSIG = 1
_WRITTEN: dict[str, Any] = {}


def main() -> None:
    # Whoever has started this one may be killed while it is in a call, and sees nothing of that.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Whatever else prints must not get among the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    spark = session(json.loads(sys.stdin.readline()))
    answers.write(json.dumps({"ready": spark.version}) + "\n")
    for line in sys.stdin:
        said = json.loads(line)
        try:
            answer = {"answer": CALLS[said.pop("call")](spark, **said)}
        except Exception as error:  # noqa: BLE001 - whoever asked decides what it means
            answer = {"error": type(error).__name__, "message": str(error)}
        answers.write(json.dumps(answer) + "\n")
    spark.stop()


def session(told: dict[str, Any]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.config(map=told["settings"])
    if told["mount"] is not None:
        from putifabsent.spark import mount

        builder = mount(builder, told["scheme"], **told["mount"])
    return builder.getOrCreate()


def make(spark: SparkSession, form: str, table: str) -> None:
    FORMATS[form].make(spark, table)


def append(spark: SparkSession, form: str, table: str, who: str, n: int, **options: str) -> None:
    save(spark, form, table, [(who, n)], **options)


def save(spark: SparkSession, form: str, table: str, rows: list[tuple[str, int]], **options: str) -> None:
    frame = spark.createDataFrame([tuple(row) for row in rows], "who string, n int").coalesce(1)
    FORMATS[form].append(frame, table, **options)


def rows(spark: SparkSession, form: str, table: str) -> list[tuple[str, int]]:
    found = FORMATS[form].rows(spark, table)
    # Of a table whose commits are all lost Hudi does not even know the columns.
    return [tuple(row) for row in found.select("who", "n").collect()] if found.columns else []


def stream(spark: SparkSession, checkpoint: str, batches: int) -> dict[str, Any]:
    """Run a streaming query; say which batches it has committed, and what ended it."""
    writer = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 1)
        .load()
        .writeStream.foreachBatch(lambda frame, number: frame.collect())
        .option("checkpointLocation", f"{spark.conf.get('spark.test.warehouse')}/{checkpoint}")
    )
    try:
        query = writer.start()
    except Exception as error:  # noqa: BLE001 - Spark has several classes for it, by release
        return {"batches": [], "failed": str(error)}

    def committed() -> list[int]:
        return sorted({each["batchId"] for each in query.recentProgress if each["numInputRows"]})

    while query.isActive and len(committed()) < batches:
        time.sleep(0.1)
    # What it says when it is stopped is not told: Spark does not know all clients' words for that.
    ended = None if query.isActive else query.exception()
    query.stop()
    return {"batches": committed(), "failed": None if ended is None else str(ended)}


def parquet(
    spark: SparkSession, path: str, rows: int, source: str = "parquet", options: dict[str, str] | None = None
) -> None:
    data = spark.range(rows).repartition(2).write.format(source).options(**options or {})
    data.mode("append").save(path)


def read(spark: SparkSession, path: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.read.parquet(path).collect()]


def parquet_in_sessions(spark: SparkSession, path: str) -> list[str | None]:
    """Append in a session of each kind that a process can have; return what each was told, None: nothing."""
    from putifabsent.spark import mount

    again = mount(spark.builder.config("spark.sql.shuffle.partitions", "3"), "file").getOrCreate()
    said: list[str | None] = []
    for session in (spark, spark.newSession(), again):
        try:
            parquet(session, path, 4)
            said.append(None)
        except Exception as error:  # noqa: BLE001 - whoever asked decides what it means
            said.append(str(error))
    return said


def stream_files(spark: SparkSession, path: str, batches: int) -> None:
    """Run a streaming query, ten rows a batch, that writes files, until it has committed so many batches."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().select("value")
    writer = rows.writeStream.format("parquet").option("checkpointLocation", f"{path}-checkpoint")
    _run(writer.start(path), batches)


def stream_into(spark: SparkSession, form: str, table: str, batches: int) -> None:
    """Run a streaming query, ten rows a batch, into a table, until it has committed so many batches."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    rows = source.selectExpr("'stream' who", "cast(value as int) n")
    _run(
        FORMATS[form].stream(rows, table, f"{spark.conf.get('spark.test.warehouse')}/{table}-stream"), batches
    )


def _run(query: StreamingQuery, batches: int) -> None:
    while query.isActive and sum(each["numInputRows"] for each in query.recentProgress) < 10 * batches:
        time.sleep(0.1)
    query.stop()
    if (ended := query.exception()) is not None:
        raise ended


def executors(spark: SparkSession) -> int:
    """Count the executors that there are, beside the driver."""
    jsc = spark.sparkContext._jsc
    assert jsc is not None
    return len(jsc.sc().statusTracker().getExecutorInfos()) - 1


def parquet_of_killed(spark: SparkSession, path: str, name: str) -> None:
    """Write rows by two tasks, of which the first creates a guarded name, and then kills its executor."""

    def creating(batches: Any) -> Any:
        import fsspec
        from pyspark import TaskContext

        from putifabsent import NameTaken

        context = TaskContext.get()
        assert context is not None
        fs = fsspec.filesystem("piafile")
        for batch in batches:
            writer = fs.writer
            if context.partitionId() == 0:
                try:
                    fs.pipe_file(name, os.urandom(8).hex().encode())
                except NameTaken as taken:
                    writer = taken.holder.writer if taken.holder else None
                if context.attemptNumber() == 0:
                    # The parent of Python's daemon, which has forked this worker.
                    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
                    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
                    time.sleep(600)
            yield batch.assign(writer=writer, attempt=context.attemptNumber())

    rows = spark.range(0, 4, 1, 2).mapInPandas(creating, "id long, writer string, attempt int")
    rows.write.mode("append").parquet(path)


def write_random(spark: SparkSession, path: str, mebibytes: int) -> None:
    """Write numbers that can't be compressed, as Parquet files of 128 MiB."""
    from pyspark.sql.functions import rand

    numbers = spark.range(0, mebibytes << 14, 1, max(1, mebibytes // 128))
    numbers.select(*(rand(seed).alias(f"c{seed}") for seed in range(8))).write.mode("overwrite").parquet(path)


def read_random(spark: SparkSession, path: str) -> float:
    """Read all of that, and return its mean."""
    columns = " + ".join(f"c{seed}" for seed in range(8))
    row = spark.read.parquet(path).selectExpr(f"avg({columns}) / 8").first()
    assert row is not None
    return float(row[0])


def count(
    spark: SparkSession, path: str, source: str = "parquet", options: dict[str, str] | None = None
) -> int:
    counted: int = spark.read.format(source).options(**options or {}).load(path).count()
    return counted


def has_data_sources(spark: SparkSession) -> bool:
    return hasattr(spark, "dataSource")


def pids(spark: SparkSession) -> dict[str, int]:
    jvm = spark._jvm
    assert jvm is not None
    return {"python": os.getpid(), "jvm": int(jvm.java.lang.ProcessHandle.current().pid())}


def setting(spark: SparkSession, key: str) -> str | None:
    jsc = spark.sparkContext._jsc
    assert jsc is not None
    value: str | None = jsc.hadoopConfiguration().get(key)
    return value


def change(spark: SparkSession, key: str, value: str | None) -> None:
    """Change what Hadoop is told, while the session runs; None: it is told no more."""
    jsc = spark.sparkContext._jsc
    assert jsc is not None
    if value is None:
        jsc.hadoopConfiguration().unset(key)
    else:
        jsc.hadoopConfiguration().set(key, value)


def sql(spark: SparkSession, query: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.sql(query).collect()]


def create(spark: SparkSession, path: str, body: str = "e30=") -> bool:
    """Create a file as the JVM's writers do, of bytes in base 64 (``{}``); return whether this driver did."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm
    name = jvm.org.apache.hadoop.fs.Path(path)
    fs = name.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    try:
        stream = fs.create(name, False)
        stream.write(bytearray(b64decode(body)))
        stream.close()
    except Py4JJavaError as error:
        if "FileAlreadyExistsException" not in str(error.java_exception):
            raise
        return False
    return True


def opened(spark: SparkSession, path: str) -> str:
    """Return the class of filesystem that the JVM's writers get for a path."""
    jvm: Any = spark._jvm
    fs = jvm.org.apache.hadoop.fs.Path(path).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    kind: str = fs.getClass().getName()
    return kind


def delete(spark: SparkSession, path: str) -> bool:
    """Remove a folder as the JVM's programs do."""
    jvm: Any = spark._jvm
    name = jvm.org.apache.hadoop.fs.Path(path)
    removed: bool = name.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).delete(name, True)
    return removed


def in_workers(spark: SparkSession, name: str, tasks: int, protocol: str = "pias3") -> list[str]:
    """Have so many tasks create one guarded name through fsspec, in Python; return what each was told."""

    def creating(batches: Any) -> Any:
        import fsspec
        import pandas as pd

        from putifabsent import NameTaken

        for _ in batches:
            fs = fsspec.filesystem(protocol)
            try:
                fs.pipe_file(name, os.urandom(8).hex().encode())
                said = "won"
            except NameTaken as taken:
                said = f"lost against {taken.holder.writer if taken.holder else None}"
            yield pd.DataFrame({"said": [said], "writer": [fs.writer]})

    frame = spark.range(0, tasks, 1, tasks).mapInPandas(creating, "said string, writer string")
    return [f"{row.writer} {row.said}" for row in frame.collect()]


def pages(spark: SparkSession) -> str | None:
    """Return where its pages are."""
    url: str | None = spark.sparkContext.uiWebUrl
    return url


def mount_again(spark: SparkSession, scheme: str = "s3a", service: str | None = None) -> None:
    from putifabsent.spark import mount

    again = mount(spark.builder, scheme, service=service).getOrCreate()
    assert again.sparkContext is spark.sparkContext


def mount_with(spark: SparkSession, **options: Any) -> None:
    from putifabsent.spark import mount

    mount(spark.builder, "s3a", **options).getOrCreate()


def restart(spark: SparkSession, settings: dict[str, str], scheme: str) -> list[str | None]:
    """Make two more sessions by one builder; return their secrets, and the one that it has then."""
    from pyspark.sql import SparkSession

    from putifabsent.spark import mount

    spark.stop()
    builder = mount(SparkSession.builder.config(map=settings), scheme)
    secrets = []
    for _ in range(2):
        again = builder.getOrCreate()
        assert again.range(3).count() == 3
        secrets.append(setting(again, "fs.putifabsent.secret"))
        again.stop()
    return [*secrets, builder._options.get("spark.hadoop.fs.putifabsent.secret")]


def hudi_default(spark: SparkSession, key: str) -> str | None:
    jvm: Any = spark._jvm
    defaults = jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration.getGlobalProps()
    value: str | None = defaults.getProperty(key)
    return value


def _hudi(spark: SparkSession, table: str, **options: str) -> tuple[Any, ...]:
    """Return Hudi's view of a table, its engine, and its options with the session's defaults."""
    jvm: Any = spark._jvm
    at = f"{spark.conf.get('spark.test.warehouse')}/{table}"
    conf = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(spark._jsc.hadoopConfiguration())
    meta = (
        jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder().setConf(conf).setBasePath(at).build()
    )
    said = jvm.java.util.Properties()
    said.putAll(jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration.getGlobalProps())
    for key, value in options.items():
        said.setProperty(key, value)
    config = jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder().withPath(at).withProps(said).build()
    context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(spark._jsc)
    return meta, context, config


def hudi_admin(spark: SparkSession, table: str, command: str, said: list[str], **options: str) -> None:
    """Have Hudi's client roll back, save or restore."""
    jvm: Any = spark._jvm
    _, context, config = _hudi(spark, table, **options)
    client = jvm.org.apache.hudi.client.SparkRDDWriteClient(context, config)
    try:
        getattr(client, command)(*said)
    finally:
        client.close()


def hudi_last(spark: SparkSession, table: str) -> str:
    """Return the last completed commit of a table."""
    timeline = _hudi(spark, table)[0].getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    last: str = timeline.lastInstant().get().requestedTime()
    return last


def hudi_becomes(spark: SparkSession, table: str, version: int) -> None:
    """Upgrade or downgrade a table."""
    jvm: Any = spark._jvm
    change = jvm.org.apache.hudi.table.upgrade
    meta, context, config = _hudi(spark, table, **{"hoodie.write.table.version": str(version)})
    helper = change.SparkUpgradeDowngradeHelper.getInstance()
    wanted = jvm.org.apache.hudi.common.table.HoodieTableVersion.fromVersionCode(version)
    change.UpgradeDowngrade(meta, config, context, helper).run(wanted, None)


def paimon_writes(
    spark: SparkSession, table: str, key: str, rows: list[tuple[int, str]], compact: bool | None = None
) -> None:
    """Write rows by Paimon's own interface, and compact a bucket, fully or its newest; commit nothing yet."""
    jvm: Any = spark._jvm
    paimon = jvm.org.apache.paimon
    options = paimon.options.Options()
    options.set("warehouse", spark.conf.get("spark.sql.catalog.paimon.warehouse"))
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    catalog = paimon.catalog.CatalogFactory.createCatalog(
        paimon.catalog.CatalogContext.create(options, hadoop)
    )
    found = catalog.getTable(paimon.catalog.Identifier.create("db", table))
    builder = paimon.table.sink.BatchWriteBuilderImpl(found)
    write = builder.newWrite().withIOManager(paimon.disk.IOManager.create(tempfile.mkdtemp()))
    for number, word in rows:
        fields = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 2)
        fields[0], fields[1] = number, paimon.data.BinaryString.fromString(word)
        write.write(paimon.data.GenericRow.of(fields))
    if compact is not None:
        write.compact(paimon.data.BinaryRow.EMPTY_ROW, 0, compact)
    _WRITTEN[key] = (builder.newCommit(), write.prepareCommit())
    write.close()


def paimon_commits(spark: SparkSession, key: str) -> None:
    commit, messages = _WRITTEN.pop(key)
    commit.commit(messages)


def sabotage(spark: SparkSession, how: str | None, commits: str, flag: str = "") -> None:
    """Have something go wrong when the next commit is created that has one of these names; see Saboteur."""
    jvm: Any = spark._jvm
    jsc: Any = spark.sparkContext._jsc
    jvm.Saboteur.wrap(spark.conf.get("spark.test.warehouse"), jsc.hadoopConfiguration())
    jvm.Saboteur.set(how, commits, flag)


def begin_at(spark: SparkSession, table: str, millis: int) -> None:
    """Have Hudi's next instant of a table begin at this time, whatever the clock says."""
    jvm: Any = spark._jvm
    jvm.FixedTime.set(f"{spark.conf.get('spark.test.warehouse')}/{table}", millis)


def end_service(spark: SparkSession) -> None:
    from putifabsent.spark import mounting

    assert mounting._companion is not None
    mounting._companion.end()


CALLS = {
    call.__name__: call
    for call in (
        make,
        append,
        save,
        rows,
        stream,
        parquet,
        read,
        parquet_in_sessions,
        parquet_of_killed,
        stream_files,
        stream_into,
        executors,
        write_random,
        read_random,
        count,
        has_data_sources,
        pids,
        setting,
        change,
        sql,
        create,
        opened,
        delete,
        in_workers,
        pages,
        mount_again,
        mount_with,
        restart,
        hudi_default,
        hudi_admin,
        hudi_last,
        hudi_becomes,
        paimon_writes,
        paimon_commits,
        sabotage,
        begin_at,
        end_service,
    )
}


if __name__ == "__main__":
    main()
