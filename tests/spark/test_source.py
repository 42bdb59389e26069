"""``format("putifabsent")`` in real sessions of PySpark 4."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.functions import udf
from pyspark.sql.types import StructType

from putifabsent import ConfigError, Fenced
from putifabsent.spark.sets import Dataset, File
from putifabsent.spark.source import SetSource, Written, register
from tests.spark import jobs, offers
from tests.spark.jobs import append
from tests.spark.pages import run_page
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PATIENCE = 300
IDS = StructType().add("id", "long")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    running = jobs.session()
    yield running
    running.stop()


@pytest.fixture
def stub() -> Iterator[FaultStub]:
    with FaultStub() as running:
        yield running


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "dataset")


def load(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("putifabsent").load(path)


def ids(spark: SparkSession, path: str) -> list[int]:
    return sorted(row.id for row in load(spark, path).collect())


def files(path: str) -> list[Path]:
    return sorted((Path(path) / "_files").glob("*"))


# --- batches


def test_every_type_is_read_as_it_was_written(spark: SparkSession, path: str) -> None:
    row = {
        "a": True, "b": 1, "c": 1.5, "d": "x", "e": b"\x00", "f": decimal.Decimal("1.20"),
        "g": dt.date(2026, 1, 2), "h": dt.datetime(2026, 1, 2, 3, 4, 5, 6), "i": dt.datetime(2026, 1, 2),  # noqa: DTZ001
        "j": [1, None], "k": {"x": 1}, "l": {"m": [{"n": "x"}]}, "o": dt.timedelta(hours=1),
    }  # fmt: skip
    ddl = (
        "a boolean, b int, c double, d string, e binary, f decimal(10, 2), g date, h timestamp, "
        "i timestamp_ntz, j array<long>, k map<string, int>, l struct<m: array<struct<n: string>>>, "
        "o interval day to second"
    )
    frame = spark.createDataFrame([row, dict.fromkeys(row)], ddl)
    append(frame, path)
    kinds = [[(each.name, each.dataType) for each in of.schema] for of in (load(spark, path), frame)]
    assert kinds[0] == kinds[1]
    assert sorted(map(str, load(spark, path).collect())) == sorted(map(str, frame.collect()))


def test_jobs_of_one_session_keep_all_that_they_append(spark: SparkSession, path: str) -> None:
    with ThreadPoolExecutor(4, initializer=register, initargs=(spark,)) as pool:
        list(pool.map(lambda one: append(spark.range(10 * one, 10 * one + 10), path), range(6)))
    assert ids(spark, path) == list(range(60))


def test_drivers_keep_all_that_they_append(spark: SparkSession, path: str) -> None:
    drivers = [driver("append", path, *range(first, first + 30, 10)) for first in (0, 30)]
    try:
        assert [each.wait(PATIENCE) for each in drivers] == [0, 0]
    finally:
        for each in drivers:
            kill(each)
    assert ids(spark, path) == list(range(60))
    assert Dataset(path).state().last == 6


def test_a_driver_that_is_killed_before_its_commit_leaves_nothing_readable(
    spark: SparkSession, path: str
) -> None:
    append(spark.range(3), path)
    killed = driver("halt", path, 100)
    try:
        wait_for(Path(path).with_name(jobs.HALTED), killed)
    finally:
        kill(killed)
    assert len(files(path)) > len(Dataset(path).state().files), "it had written"
    assert ids(spark, path) == [0, 1, 2]
    append(spark.range(3, 5), path)
    assert ids(spark, path) == list(range(5))


def test_a_name_is_one_set_s_and_the_first_stays_as_it_is(spark: SparkSession, path: str) -> None:
    append(spark.range(3), path, set="daily-2026-11-22")
    before = files(path)
    with pytest.raises(PySparkException, match=r"NameTaken.*daily-2026-11-22"):
        append(spark.range(100), path, set="daily-2026-11-22")
    assert ids(spark, path) == [0, 1, 2]
    assert files(path) == before


def test_of_jobs_that_want_one_name_at_once_one_has_it(spark: SparkSession, path: str) -> None:
    start = threading.Barrier(3)

    def job(writer: int) -> bool:
        start.wait()
        try:
            append(spark.range(10 * writer, 10 * writer + 3), path, set="daily")
        except PySparkException as error:
            assert "NameTaken" in str(error)  # noqa: PT017 - another error is no loss
            return False
        return True

    with ThreadPoolExecutor(3, initializer=register, initargs=(spark,)) as pool:
        won = list(pool.map(job, range(3)))
    assert sum(won) == 1
    first = 10 * won.index(True)
    assert ids(spark, path) == [first, first + 1, first + 2]


def test_a_set_may_be_empty(spark: SparkSession, path: str) -> None:
    append(spark.range(0), path, set="daily")
    assert ids(spark, path) == []
    with pytest.raises(PySparkException, match="NameTaken"):
        append(spark.range(3), path, set="daily")


def test_an_overwrite_takes_the_place_of_all(spark: SparkSession, path: str) -> None:
    append(spark.range(3), path)
    load(spark, path).where("id > 0").write.format("putifabsent").mode("overwrite").save(path)
    assert ids(spark, path) == [1, 2]
    spark.createDataFrame([("x",)], "word string").write.format("putifabsent").mode("overwrite").save(path)
    assert [row.word for row in load(spark, path).collect()] == ["x"]


def test_an_overwrite_loses_nothing_that_was_committed_since_it_began(spark: SparkSession, path: str) -> None:
    append(spark.range(3), path)
    overwriting = SetSource(CaseInsensitiveDict({"path": path})).writer(IDS, overwrite=True)
    append(spark.range(3, 5), path)
    with pytest.raises(Fenced, match="1 more sets committed since this overwrite began"):
        overwriting.commit([])
    assert ids(spark, path) == list(range(5))


def test_an_overwrite_loses_nothing_that_was_committed_since_it_has_read(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    append(spark.range(1), path)
    reads, goes_on = tmp_path / "reads", tmp_path / "goes_on"
    for each in (reads, goes_on):
        os.mkfifo(each)

    def waits(_: int) -> bool:
        reads.write_text("")  # waits until it is read
        return not goes_on.read_text()

    overwriting = load(spark, path).where(udf(waits, "boolean")("id")).repartition(2)
    with ThreadPoolExecutor(1, initializer=register, initargs=(spark,)) as pool:
        job = pool.submit(overwriting.write.format("putifabsent").mode("overwrite").save, path)
        reads.read_text()
        append(spark.range(1, 3), path)
        goes_on.write_text("")
        with pytest.raises(PySparkException, match="had 1 more sets committed since this"):
            job.result()
    assert ids(spark, path) == [0, 1, 2]


def test_columns_of_another_dataset_fence_no_overwrite(path: str) -> None:
    Dataset(path).commit(offers.append())
    loaded = SetSource(CaseInsensitiveDict({"path": path})).schema()
    other = f"{path}-2"
    for _ in range(2):
        Dataset(other).commit(offers.append())
    SetSource(CaseInsensitiveDict({"path": other})).writer(loaded, overwrite=True).commit([])
    assert Dataset(other).state().replaced == 3


@pytest.mark.parametrize(
    "spelt", ["{}//dataset", "/{}/./dataset/", "file:{}//dataset//", "file:///{}/dataset"]
)
def test_an_overwrite_is_fenced_however_the_dataset_was_spelt(path: str, spelt: str, tmp_path: Path) -> None:
    Dataset(path).commit(offers.append())
    loaded = SetSource(CaseInsensitiveDict({"path": spelt.format(tmp_path)})).schema()
    Dataset(path).commit(offers.append())
    with pytest.raises(Fenced, match="1 more sets committed since this overwrite began"):
        SetSource(CaseInsensitiveDict({"path": path})).writer(loaded, overwrite=True)


def test_an_overwrite_takes_nothing_from_a_dataset_that_was_removed_and_made_again(path: str) -> None:
    Dataset(path).commit(offers.append())
    overwriting = SetSource(CaseInsensitiveDict({"path": path})).writer(IDS, overwrite=True)
    Dataset(path).fs.rm(f"{path}/_sets", recursive=True)
    kept = File("_files/kept", 1, 1)
    Dataset(path).fs.pipe_file(f"{path}/{kept.path}", b"k")
    Dataset(path).commit(offers.append(kept))
    with pytest.raises(Fenced, match="was removed, or made again, since this job began"):
        overwriting.commit([])
    assert Dataset(path).state().files == (kept,)


def test_a_job_that_fails_commits_nothing(spark: SparkSession, path: str) -> None:
    append(spark.range(3), path)
    with pytest.raises(PySparkException):
        append(spark.range(0, 10, 1, 2).selectExpr("if(id = 9, raise_error('no'), id) as id"), path)
    assert ids(spark, path) == [0, 1, 2]
    assert Dataset(path).state().last == 1


def test_what_a_failed_job_has_written_is_removed_only_if_it_was_never_offered(path: str) -> None:
    import pyarrow as pa

    dataset = Dataset(path)
    writer = SetSource(CaseInsensitiveDict({"path": path})).writer(IDS, overwrite=False)
    message = Written(dataset.write([pa.record_batch({"id": [1]})], 0), None)
    writer.abort([message])  # all tasks are done: a commit may have been tried
    assert len(files(path)) == 1
    writer.abort([message, None])
    assert files(path) == []


def test_another_schema_is_refused_before_anything_is_written(spark: SparkSession, path: str) -> None:
    append(spark.range(3), path)
    before = files(path)
    with pytest.raises(PySparkException, match=r"ConfigError.*'id' is long there, and string here"):
        append(spark.createDataFrame([("x",)], "id string"), path)
    assert files(path) == before


def test_only_the_columns_of_a_given_schema_are_read(spark: SparkSession, path: str) -> None:
    append(spark.createDataFrame([(1, "x")], "id long, word string"), path)
    read = spark.read.format("putifabsent").schema("word string").load(path)
    assert [row.asDict() for row in read.collect()] == [{"word": "x"}]
    with pytest.raises(PySparkException, match="has no column 'word' of type long"):
        spark.read.format("putifabsent").schema("word long").load(path).collect()


# --- lost answers


def on(stub: FaultStub) -> dict[str, str]:
    options = {**stub.storage_options("s3"), "arbiter": "native", "deadline": 2}
    return {"storage_options": json.dumps(options)}


def count(spark: SparkSession, stub: FaultStub) -> int:
    return int(spark.read.format("putifabsent").options(**on(stub)).load("s3a://bucket/d").count())


def test_a_job_whose_commit_s_answer_is_lost_is_committed_once(spark: SparkSession, stub: FaultStub) -> None:
    stub.script(Op.PUT, None, Fault.DROP_AFTER_APPLY)  # the file, then the record
    append(spark.range(0, 10, 1, 1), "s3a://bucket/d", **on(stub))
    assert count(spark, stub) == 10


def test_a_job_whose_commit_may_have_happened_keeps_its_files(spark: SparkSession, stub: FaultStub) -> None:
    stub.script(Op.PUT, None, Fault.DROP_AFTER_APPLY, Fault.DROP_BEFORE_APPLY, forever=True)
    stub.script(Op.HEAD, Fault.FORBIDDEN_403, forever=True)
    with pytest.raises(PySparkException, match="OutcomeUnknown"):
        append(spark.range(0, 10, 1, 1), "s3a://bucket/d", **on(stub))
    stub.script(Op.HEAD, None, forever=True)
    assert count(spark, stub) == 10, "it had happened"


# --- streams


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Path:
    """Give a folder of three files, each a batch."""
    folder = tmp_path / "source"
    for batch in range(3):
        more(spark, folder, 10 * batch)
    return folder


def more(spark: SparkSession, folder: Path, first: int) -> None:
    spark.range(first, first + 10, 1, 1).write.mode("append").parquet(str(folder))


def run(spark: SparkSession, source: Path, path: str, checkpoint: Path, **options: str) -> None:
    """Run a query until it has taken all that is there, a file a batch."""
    read = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(source))
    write = read.writeStream.format("putifabsent").options(**options)
    write.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(
        path
    ).awaitTermination()


def forget_commit(checkpoint: Path, batch: int) -> None:
    """Leave a checkpoint as a driver does that is killed after the sink's commit and before its own."""
    for name in (f"{batch}", f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink()


def test_a_stream_commits_a_set_a_batch(spark: SparkSession, source: Path, path: str, tmp_path: Path) -> None:
    run(spark, source, path, tmp_path / "checkpoint")
    assert ids(spark, path) == list(range(30))
    assert Dataset(path).state().last == 3


def test_a_stream_that_starts_again_adds_nothing_twice(
    spark: SparkSession, source: Path, path: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    run(spark, source, path, checkpoint)
    forget_commit(checkpoint, 2)
    more(spark, source, 30)
    run(spark, source, path, checkpoint)
    assert ids(spark, path) == list(range(40))
    assert len(files(path)) == 4


def test_a_second_query_adds_nothing_to_another_s_stream(
    spark: SparkSession, source: Path, path: str, tmp_path: Path
) -> None:
    run(spark, source, path, tmp_path / "checkpoint")
    with pytest.raises(PySparkException, match="give this one a stream of its own"):
        run(spark, source, path, tmp_path / "another")
    assert ids(spark, path) == list(range(30))
    assert len(files(path)) == 3


def test_queries_with_streams_of_their_own_share_a_dataset(
    spark: SparkSession, source: Path, path: str, tmp_path: Path
) -> None:
    for name in ("one", "another"):
        run(spark, source, path, tmp_path / name, set=name)
    assert ids(spark, path) == sorted([*range(30), *range(30)])


def test_two_queries_that_run_at_once_on_one_stream_add_each_batch_once(
    spark: SparkSession, source: Path, path: str, tmp_path: Path
) -> None:
    def query(checkpoint: str) -> bool:
        try:
            run(spark, source, path, tmp_path / checkpoint)
        except PySparkException as error:
            assert "give this one a stream of its own" in str(error)  # noqa: PT017 - nothing else may fail
            return False
        return True

    with ThreadPoolExecutor(2, initializer=register, initargs=(spark,)) as pool:
        assert sorted(pool.map(query, ["one", "another"])) == [False, True]
    assert ids(spark, path) == list(range(30))


def test_a_stream_that_would_replace_is_refused(spark: SparkSession, path: str) -> None:
    with pytest.raises(ConfigError, match="a stream appends"):
        SetSource(CaseInsensitiveDict({"path": path})).streamWriter(IDS, overwrite=True)


def follow(spark: SparkSession, path: str, target: str, checkpoint: Path) -> None:
    query = spark.readStream.format("putifabsent").load(path).writeStream.format("putifabsent")
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(
        target
    ).awaitTermination()


def test_a_stream_reads_each_set_once(spark: SparkSession, path: str, tmp_path: Path) -> None:
    target, checkpoint = str(tmp_path / "target"), tmp_path / "checkpoint"
    append(spark.range(3), path)
    append(spark.range(3, 5), path)
    follow(spark, path, target, checkpoint)
    assert ids(spark, target) == list(range(5))
    append(spark.range(5, 9), path)
    follow(spark, path, target, checkpoint)
    assert ids(spark, target) == list(range(9))


@pytest.mark.parametrize("sets", [1, 3], ids=["shorter", "longer"])
def test_a_stream_does_not_go_on_with_a_dataset_that_was_made_again(path: str, sets: int) -> None:
    def commit(many: int) -> None:
        for _ in range(many):
            Dataset(path).commit(offers.append())

    commit(2)
    reader = SetSource(CaseInsensitiveDict({"path": path})).streamReader(IDS)
    began = reader.latestOffset()
    reader.partitions(reader.initialOffset(), began)
    shutil.rmtree(path)
    commit(sets)
    with pytest.raises(Fenced, match="made again"):
        reader.partitions(began, reader.latestOffset())


def test_a_stream_that_runs_a_batch_again_reads_what_it_was_planned_with(path: str, tmp_path: Path) -> None:
    def commit(file: str) -> None:
        Dataset(path).fs.pipe_file(f"{path}/_files/{file}", b"rows")
        Dataset(path).commit(offers.append(File(f"_files/{file}", 1, 4)))

    commit("kept")
    reader = SetSource(CaseInsensitiveDict({"path": path})).streamReader(IDS)
    start = reader.latestOffset()
    shutil.copytree(path, tmp_path / "backup")
    commit("planned")
    end = reader.latestOffset()
    assert [part.value for part in reader.partitions(start, end)] == ["_files/planned"]
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "backup", path)
    commit("another")
    with pytest.raises(Fenced, match="made again"):
        reader.partitions(start, end)


def test_a_stream_begins_with_what_the_newest_overwrite_left(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    append(spark.range(3), path)
    spark.range(10, 12).write.format("putifabsent").mode("overwrite").save(path)
    append(spark.range(12, 14), path)
    follow(spark, path, str(tmp_path / "target"), tmp_path / "checkpoint")
    assert ids(spark, str(tmp_path / "target")) == [10, 11, 12, 13]


def test_a_stream_whose_source_is_overwritten_fails(spark: SparkSession, path: str, tmp_path: Path) -> None:
    target, checkpoint = str(tmp_path / "target"), tmp_path / "checkpoint"
    append(spark.range(3), path)
    follow(spark, path, target, checkpoint)
    spark.range(10, 12).write.format("putifabsent").mode("overwrite").save(path)
    with pytest.raises(PySparkException, match="was overwritten by set 2"):
        follow(spark, path, target, checkpoint)
    assert ids(spark, target) == [0, 1, 2]


# --- said wrongly


def test_nothing_committed_yet_is_said(spark: SparkSession, path: str) -> None:
    with pytest.raises(PySparkException, match="nothing has been committed yet"):
        load(spark, path)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": "/x", "sett": "daily"}, "no option 'sett': did you mean 'set'"),
        ({"path": "/x", "compression": "zstd"}, "no option 'compression': there are path, set"),
        ({}, "say where the dataset is"),
        ({"path": "x"}, "must be absolute"),
        ({"path": "/x", "storage_options": "{"}, "storage_options must be JSON"),
        ({"path": "/x", "storage_options": '{"arbitr": 1}'}, "did you mean 'arbiter'"),
    ],
)
def test_a_wrong_option_is_told(options: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        SetSource(CaseInsensitiveDict(options)).writer(IDS, overwrite=False)


def test_columns_of_one_name_are_refused(spark: SparkSession, path: str) -> None:
    with pytest.raises(PySparkException, match="two columns have one name"):
        append(spark.range(1).selectExpr("id", "id"), path)


# --- the documentation


def test_what_the_documentation_shows_runs(python: Path, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs/how-to/plain-parquet-spark.md"
    assert run_page(page, tmp_path, seconds=PATIENCE, python=python) == 0


# --- processes


def driver(*arguments: Any) -> subprocess.Popen[bytes]:
    """Start a job in a driver of its own, with a JVM of its own, in a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.jobs", *map(str, arguments)], start_new_session=True
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)


def wait_for(file: Path, process: subprocess.Popen[bytes]) -> None:
    pause = threading.Event()
    for _ in range(10 * PATIENCE):
        if file.exists():
            return
        assert process.poll() is None, "it has ended"
        pause.wait(0.1)
    pytest.fail(f"{file} did not come")
