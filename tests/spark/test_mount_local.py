"""``mount`` on local files, in each line of PySpark: no jar but the adapter's is needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from shutil import which
from socket import gethostname
from typing import TYPE_CHECKING

import fsspec
import pytest

from putifabsent.errors import ConfigError
from tests.child import CallError
from tests.service.callers import SECRET
from tests.service.processes import serving
from tests.spark.drivers import ROOT, Driver, Told, driving, together
from tests.spark.races import check, stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Note

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


SETTINGS = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Driver]]:
    settings = {**SETTINGS, "spark.test.warehouse": tmp_path_factory.mktemp("lake").as_uri()}
    with driving([Told(settings, "file", {})] * 2, tmp_path_factory.mktemp("drivers")) as drivers:
        yield drivers


def test_a_batch_is_processed_by_one_of_two_queries(drivers: list[Driver], note: Note) -> None:
    drivers[0].call("stream", checkpoint="stream", batches=1)
    check(stream(drivers, "stream", 4), note)


def test_a_new_checkpoint_is_one_querys(drivers: list[Driver], note: Note) -> None:
    check(stream(drivers, "new", 2), note)


def test_a_query_goes_on_where_it_was_stopped(drivers: list[Driver]) -> None:
    first = drivers[0].call("stream", checkpoint="again", batches=2)
    then = drivers[1].call("stream", checkpoint="again", batches=2)
    assert first["failed"] is then["failed"] is None
    # What one has committed the other does not commit again, and it leaves none out.
    assert set(first["batches"]).isdisjoint(then["batches"])
    assert then["batches"][0] <= first["batches"][-1] + 2


def test_plain_files_are_written_as_ever(drivers: list[Driver], tmp_path: Path) -> None:
    for driver in drivers:
        driver.call("parquet", path=(tmp_path / "plain").as_uri(), rows=100)
    assert drivers[0].call("count", path=(tmp_path / "plain").as_uri()) == 200


def test_drivers_of_one_folder_are_two_writers(drivers: list[Driver]) -> None:
    writers = {driver.call("setting", key="fs.putifabsent.writer") for driver in drivers}
    sessions = {driver.call("setting", key="fs.putifabsent.session") for driver in drivers}
    assert len(writers) == len(sessions) == 2


def test_the_data_sources_are_registered_where_spark_has_the_api(
    drivers: list[Driver], tmp_path: Path
) -> None:
    path = (tmp_path / "sets").as_uri()
    if not drivers[0].call("has_data_sources"):
        pytest.skip("PySpark 3.5 has no data sources in Python")
    together(partial(each.call, "parquet", path=path, rows=10, source="putifabsent") for each in drivers)
    assert drivers[0].call("count", path=path, source="putifabsent") == 20
    (log := tmp_path / "table/_delta_log").mkdir(parents=True)
    (log / "00000000000000000000.json").write_text('{"commitInfo": {}}')
    table = (tmp_path / "table").as_uri()
    assert drivers[0].call("count", path=table, source="putifabsent-timeline") == 1


def test_a_builder_may_be_used_again_and_keeps_no_secret(tmp_path: Path) -> None:
    with Driver(Told(SETTINGS, "file", {}), tmp_path / "log") as driver:
        first, second, kept = driver.wait().call("restart", settings=SETTINGS, scheme="file")
        assert first
        assert second
        assert first != second
        assert kept is None
        driver.signal(signal.SIGKILL)


def test_executors_that_cannot_reach_the_service_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"secret": SECRET, "mounts": [{"prefix": "file:"}]}
    monkeypatch.setenv("PUTIFABSENT_SERVICE_SECRET", SECRET)
    hosts = {"driver": "127.0.0.1", "executor": "127.0.0.9"}
    here = f"127.0.0.1 localhost {gethostname()}"
    for who, address in hosts.items():
        (tmp_path / who).write_text(f"{here}\n{address} coordination.test\n")
    settings = {
        **SETTINGS,
        "spark.master": "local-cluster[1,1,1024]",
        "spark.task.maxFailures": "1",
        "spark.hadoop.fs.putifabsent.deadline": "2s",
        **{f"spark.{who}.extraJavaOptions": f"-Djdk.net.hosts.file={tmp_path / who}" for who in hosts},
    }
    with serving(told) as (_, listens):
        address = listens.replace("127.0.0.1", "coordination.test")
        with Driver(Told(settings, "file", {"service": address}), tmp_path / "log") as driver:
            assert driver.wait().call("create", path=(tmp_path / "by_the_driver").as_uri())
            with pytest.raises(CallError, match=f"{address} can't be reached"):
                driver.call("parquet", path=(tmp_path / "table").as_uri(), rows=10)
            driver.signal(signal.SIGKILL)
    assert not list(tmp_path.glob("table/**/*.parquet"))


def test_a_pattern_of_the_user_s_own_hides_the_secret_of_a_running_service(
    address: str, tmp_path: Path
) -> None:
    (events := tmp_path / "events").mkdir()
    settings = {
        **SETTINGS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.redaction.regex": "(?i)password",
    }
    with Driver(Told(settings, "file", {"service": address}), tmp_path / "log") as driver:
        driver.wait()
    logged = "".join(each.read_text() for each in events.rglob("[!.]*") if each.is_file())
    assert "fs.putifabsent.secret" in logged
    assert SECRET not in logged


def test_a_machine_without_java_is_said(tmp_path: Path) -> None:
    program = "from pyspark.sql import SparkSession; from putifabsent.spark import mount;"
    # What Spark's own scripts want.
    for name in ("bash", "dirname", "ps"):
        (tmp_path / name).symlink_to(str(which(name)))
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", program + "mount(SparkSession.builder, 'file').getOrCreate()"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={**environment, "PATH": str(tmp_path)},
    )
    assert "ConfigError: the driver's JVM did not start" in done.stderr
    assert "JAVA_HOME" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("variable", "options"),
    [
        (None, {"spark.remote": "sc://localhost"}),
        (None, {"spark.remote": "local[2]"}),
        ("SPARK_REMOTE", {}),
        ("SPARK_CONNECT_MODE_ENABLED", {}),
        (None, {"spark.api.mode": "Connect"}),
    ],
    ids=["an address", "a server of its own", "the environment", "connect alone", "a mode"],
)
def test_a_client_of_spark_connect_is_told_that_its_server_is_to_be_guarded(
    variable: str | None, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    from putifabsent.spark import mount

    if variable is not None:
        monkeypatch.setenv(variable, "sc://localhost")
    builder = mount(SparkSession.Builder().config(map=options), "file")
    with pytest.raises(ConfigError, match="start the server with the lines of `putifabsent spark-conf`"):
        builder.getOrCreate()


def test_a_key_of_hadoop_s_without_sparks_prefix_is_refused() -> None:
    from pyspark.sql import SparkSession

    from putifabsent.spark import mount

    builder = SparkSession.Builder().config("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    with pytest.raises(ConfigError, match=r"say spark\.hadoop\.fs\.file\.impl"):
        mount(builder, "file").getOrCreate()


def test_a_session_does_not_reach_stores_by_what_an_earlier_one_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from putifabsent.spark.mounting import _tell_python

    monkeypatch.setattr("fsspec.config.conf", {"pias3": {"profile": "the user's"}})
    _tell_python({"s3a": [{"options": {"key": "first", "token": "first"}}]})
    assert fsspec.config.conf["pias3"] == {"profile": "the user's", "key": "first", "token": "first"}
    _tell_python({"s3a": [{"options": {"key": "second"}}]})
    assert fsspec.config.conf["pias3"] == {"profile": "the user's", "key": "second"}
    _tell_python({})
    assert fsspec.config.conf["pias3"] == {"profile": "the user's"}


def test_an_older_adapter_in_the_way_of_this_one_is_told(tmp_path: Path) -> None:
    """By a JVM that has an older ``SessionGuard``, as an image may have it: it knows nothing of the look."""
    older = tmp_path / "org" / "putifabsent" / "hadoop"
    older.mkdir(parents=True)
    source = tmp_path / "SessionGuard.java"
    source.write_text("package org.putifabsent.hadoop; public class SessionGuard {}")
    subprocess.run([str(which("javac")), "-d", str(tmp_path), str(source)], check=True, timeout=120)
    program = (
        "from pyspark.sql import SparkSession; from putifabsent.spark import mount;"
        "mount(SparkSession.builder.master('local[1]'), 'file').getOrCreate()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
        env={**os.environ, "SPARK_DIST_CLASSPATH": str(tmp_path)},
    )
    assert "ConfigError: the adapter on the driver's class path is older" in done.stderr.splitlines()[-1]


IMPL = "fs.file.impl"
STOCK = "org.apache.hadoop.fs.LocalFileSystem"


def test_settings_that_lead_past_the_guard_are_noticed_before_the_next_write(
    drivers: list[Driver], tmp_path: Path
) -> None:
    driver, path = drivers[0], (tmp_path / "later").as_uri()
    driver.call("parquet", path=path, rows=1)
    refused = rf"past the guard, for {IMPL} was changed "
    with pytest.raises(CallError, match=refused + "among its own options"):
        driver.call("parquet", path=path, rows=1, options={IMPL: STOCK})
    driver.call("parquet", path=path, rows=1, options={IMPL: driver.call("setting", key=IMPL)})

    driver.call("sql", query=f"SET {IMPL}={STOCK}")
    with pytest.raises(CallError, match=refused + r"in the session's settings: spark\.conf\.unset"):
        driver.call("parquet", path=path, rows=1)
    driver.call("sql", query=f"RESET {IMPL}")
    driver.call("parquet", path=path, rows=1)

    guarded = driver.call("setting", key=IMPL)
    driver.call("change", key=IMPL, value=STOCK)
    with pytest.raises(CallError, match=refused + "in the context's Hadoop configuration"):
        driver.call("parquet", path=path, rows=1)
    driver.call("change", key=IMPL, value=guarded)
    driver.call("parquet", path=path, rows=1)
    assert driver.call("count", path=path) == 4


def test_a_catalogs_own_settings_of_hadoops_are_noticed_too(drivers: list[Driver], tmp_path: Path) -> None:
    driver, path = drivers[0], (tmp_path / "table").as_uri()
    key = f"spark.sql.catalog.lake.hadoop.{IMPL}"
    driver.call("sql", query=f"SET {key}={STOCK}")
    with pytest.raises(CallError, match=f"past the guard, for {key} was changed in the session's settings"):
        driver.call("parquet", path=path, rows=1)
    driver.call("sql", query=f"SET {key}={driver.call('setting', key=IMPL)}")
    driver.call("parquet", path=path, rows=1)
    driver.call("sql", query=f"RESET {key}")


@pytest.mark.parametrize("key", ["fs.putifabsent.address", "fs.AbstractFileSystem.file.impl"])
def test_the_service_is_not_exchanged_either(drivers: list[Driver], key: str, tmp_path: Path) -> None:
    driver = drivers[1]
    before = driver.call("setting", key=key)
    driver.call("change", key=key, value="http://127.0.0.1:9")
    try:
        with pytest.raises(CallError, match=f"past the guard, for {key} was changed"):
            driver.call("parquet", path=(tmp_path / "table").as_uri(), rows=1)
    finally:
        driver.call("change", key=key, value=before)
    driver.call("parquet", path=(tmp_path / "table").as_uri(), rows=1)
