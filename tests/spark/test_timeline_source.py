"""``format("putifabsent-timeline")`` in a real session of PySpark 4."""

from __future__ import annotations

import json
import re
import tarfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import CaseInsensitiveDict

from putifabsent import ConfigError
from putifabsent.spark.timelines import TimelineSource, register
from putifabsent.timeline import read
from tests.spark import jobs
from tests.spark.drivers import LONG
from tests.spark.pages import run_page
from tests.stub import FaultStub
from tests.timeline.tables import Hudi, Paimon

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FIXTURES = Path(__file__).parents[1] / "timeline" / "fixtures"
TABLES = ["hudi_cow", "hudi_mor", "hudi_upgraded", "hudi_v6", "paimon", "delta"]
T = [f"2026010112000000{n}" for n in range(10)]
C = [f"2026010113000000{n}" for n in range(10)]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    running = jobs.session()
    register(running)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack what Hudi, Paimon and Delta have written."""
    folder = tmp_path_factory.mktemp("tables")
    for name in TABLES:
        with tarfile.open(FIXTURES / f"{name}.tar.xz") as packed:
            packed.extractall(folder, filter="data")
    return folder


def load(spark: SparkSession, path: object, **options: Any) -> DataFrame:
    return spark.read.format("putifabsent-timeline").options(**options).load(str(path))


def told(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return rows as what can be compared: Spark tells times without their zone."""
    return Counter(str({key: _epoch(value) for key, value in row.items()}) for row in rows)


def _epoch(value: Any) -> Any:
    return value.timestamp() if hasattr(value, "timestamp") else value


def read_by_spark(spark: SparkSession, path: object, **options: Any) -> Counter[str]:
    return told(row.asDict() for row in load(spark, path, **options).collect())


def hudi(folder: Path) -> Hudi:
    """Write a table of six archived instants in three files, and an active one."""
    table = Hudi(fsspec.filesystem("file"), str(folder))
    files = {}
    for n in (1, 3, 5):
        name = f"{T[n]}_{T[n + 1]}_0.parquet"
        files[name] = table.archive(name, [(T[m], C[m], "commit", None, None) for m in (n, n + 1)])
    table.manifest(1, files)
    table.commit(T[7], C[7])
    return table


def tear(table: Hudi) -> str:
    """Overwrite a file of the history, and return its path."""
    path = f"{table.root}/.hoodie/timeline/history/{T[3]}_{T[4]}_0.parquet"
    table.fs.pipe_file(path, b"\0" * table.fs.size(path))
    return path


# --- what is read


@pytest.mark.parametrize("name", TABLES)
def test_the_rows_are_those_of_one_process(spark: SparkSession, real: Path, name: str) -> None:
    timeline = read(str(real / name))
    expected = told(timeline.table().to_pylist())
    assert read_by_spark(spark, real / name) == expected
    frame = load(spark, real / name, partitions=3)
    assert told(row.asDict() for row in frame.collect()) == expected
    assert frame.columns == [column for column, _ in timeline.COLUMNS]


@pytest.mark.parametrize("name", ["hudi_cow", "hudi_v6", "paimon"])
def test_what_is_active_and_what_is_archived_can_be_read_alone(
    spark: SparkSession, real: Path, name: str
) -> None:
    timeline = read(str(real / name))
    active, archived = (
        told(each.row() for each in found) for found in (timeline.active(), timeline.history())
    )
    assert read_by_spark(spark, real / name, history="archived", partitions=2) == archived
    assert read_by_spark(spark, real / name, history=False, partitions=2) == active
    assert read_by_spark(spark, real / name, history="active") == active


def test_a_part_is_a_task(spark: SparkSession, tmp_path: Path) -> None:
    hudi(tmp_path / "t")
    counts = {
        most: load(spark, tmp_path / "t", partitions=most).rdd.glom().map(len).collect() for most in (1, 2, 3)
    }
    assert {most: len(each) for most, each in counts.items()} == {1: 1, 2: 2, 3: 3}
    assert {most: sum(each) for most, each in counts.items()} == {1: 7, 2: 7, 3: 7}
    assert counts[3] == [3, 2, 2], "what is active comes with the first part"


def test_what_a_table_has_none_of_is_no_row(spark: SparkSession, tmp_path: Path) -> None:
    Hudi(fsspec.filesystem("file"), str(tmp_path / "t"))
    assert load(spark, tmp_path / "t").count() == 0
    assert load(spark, tmp_path / "t", history="archived").count() == 0


def test_only_the_columns_of_a_given_schema_are_read(spark: SparkSession, tmp_path: Path) -> None:
    hudi(tmp_path / "t")
    some = spark.read.format("putifabsent-timeline").schema("action string, time string")
    found = some.load(str(tmp_path / "t")).where("not time < '20260101120000005'").collect()
    assert sorted(row.asDict()["time"] for row in found) == [T[5], T[6], T[7]]
    assert found[0].__fields__ == ["action", "time"]


def test_a_table_is_read_by_sql(spark: SparkSession, tmp_path: Path) -> None:
    hudi(tmp_path / "t")
    load(spark, tmp_path / "t").createOrReplaceTempView("timeline")
    query = "SELECT archived, count(*) AS n FROM timeline GROUP BY archived ORDER BY archived"
    assert [tuple(row) for row in spark.sql(query).collect()] == [(False, 1), (True, 6)]


def test_times_are_the_same_whatever_the_session_s_zone(spark: SparkSession, tmp_path: Path) -> None:
    table = Paimon(fsspec.filesystem("file"), str(tmp_path / "t"))
    table.snapshot(1, timeMillis=1_700_000_000_123)
    (row,) = load(spark, tmp_path / "t").selectExpr("unix_millis(committed) AS millis").collect()
    assert row.millis == 1_700_000_000_123


def test_a_store_is_reached_as_by_a_mount(spark: SparkSession) -> None:
    with FaultStub() as stub:
        options = stub.storage_options("s3")
        table = Hudi(fsspec.filesystem("s3", skip_instance_cache=True, **options), "bucket/t")
        table.commit(T[1], C[1])
        said = json.dumps({**options, "arbiter": "native"})
        for url in ("pias3://bucket/t", "s3a://bucket/t"):
            (row,) = load(spark, url, storage_options=said).collect()
            assert (row.time, row.path) == (T[1], f"bucket/t/.hoodie/timeline/{T[1]}_{C[1]}.commit")


# --- what can't be read


def test_what_is_torn_fails_the_job_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = tear(hudi(tmp_path / "t"))
    with pytest.raises(PySparkException, match=rf"torn, or no history.*{re.escape(Path(path).name)}"):
        load(spark, tmp_path / "t", partitions=2).collect()


def test_what_is_torn_is_a_row_where_that_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    path = tear(hudi(tmp_path / "t"))
    frame = load(spark, tmp_path / "t", problems=True, partitions=2)
    rows = frame.where("problem IS NULL").select("time").collect()
    assert sorted(row.time for row in rows) == [T[1], T[2], T[5], T[6], T[7]]
    (problem,) = frame.where("problem IS NOT NULL").select("path", "problem.*", "time").collect()
    assert (problem.path, problem.trouble, problem.time) == (path, "unreadable", None)
    assert problem.reason.startswith("it is torn")


def test_what_is_missing_when_it_is_planned_is_a_row_too(spark: SparkSession, tmp_path: Path) -> None:
    table = hudi(tmp_path / "t")
    name = f"{T[3]}_{T[4]}_0.parquet"
    table.fs.rm_file(f"{table.root}/.hoodie/timeline/history/{name}")
    with pytest.raises(PySparkException, match="manifest_1 names it"):
        load(spark, tmp_path / "t").collect()
    told = load(spark, tmp_path / "t", problems=True).where("problem IS NOT NULL").select("problem.trouble")
    assert [row.trouble for row in told.collect()] == ["missing"]


def test_no_table_is_said_when_it_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="ConfigError: there is no table at"):
        load(spark, tmp_path / "nowhere")


def test_a_table_of_an_unknown_version_is_refused_when_it_is_loaded(
    spark: SparkSession, tmp_path: Path
) -> None:
    Hudi(fsspec.filesystem("file"), str(tmp_path / "t"), 10)
    with pytest.raises(PySparkException, match=r"ConfigError: .*can be read"):
        load(spark, tmp_path / "t")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"historie": "true"}, "no option 'historie': did you mean 'history'"),
        ({"order": "completed"}, "no option 'order': there are path, format, history"),
        ({"history": "yes"}, "history must be one of true, false, active, archived, not 'yes'"),
        ({"problems": "raise"}, "problems must be one of true, false"),
        ({"partitions": "0"}, "1 or more, not '0'"),
        ({"partitions": "-1"}, "1 or more, not '-1'"),
        ({"format": "lance"}, "not of 'lance'"),
        ({"format": "delta"}, "there is no Delta table"),
        ({"path": "t"}, "must be absolute"),
        ({"storage_options": "{"}, "storage_options must be JSON"),
    ],
)
def test_a_wrong_option_is_told(tmp_path: Path, options: dict[str, str], expected: str) -> None:
    hudi(tmp_path / "t")
    with pytest.raises(ConfigError, match=expected):
        TimelineSource(CaseInsensitiveDict({"path": str(tmp_path / "t"), **options})).schema()


def test_without_a_path_it_is_said_how_to_give_one() -> None:
    with pytest.raises(ConfigError, match=r"load\(path\)"):
        TimelineSource(CaseInsensitiveDict({})).schema()


@pytest.mark.parametrize(
    ("schema", "options", "expected"),
    [
        ("when string", {}, "no column 'when' of type string"),
        ("time long", {}, "no column 'time' of type bigint"),
        ("problem string", {}, "no column 'problem'"),
        ("time string", {"problems": "true"}, "has no column 'problem' for them"),
    ],
)
def test_a_schema_of_something_else_is_refused(
    spark: SparkSession, tmp_path: Path, schema: str, options: dict[str, str], expected: str
) -> None:
    hudi(tmp_path / "t")
    frame = spark.read.format("putifabsent-timeline").schema(schema).options(**options)
    with pytest.raises(PySparkException, match=expected):
        frame.load(str(tmp_path / "t")).collect()


# --- the documentation


@LONG
def test_what_the_documentation_shows_runs(python: Path, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs/how-to/timelines-spark.md"
    assert run_page(page, tmp_path, seconds=300, python=python) == 0
