"""Spark as it is deployed: by spark-submit, as a SQL server, from an image, on executors that come and go."""

from __future__ import annotations

import re
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from putifabsent.spark.settings import defaults, jar
from tests.child import CallError
from tests.spark.applications import (
    GUARD,
    SETTINGS,
    TAKEN,
    THRIFT,
    compiled,
    conf,
    image,
    submitted,
    thrift_options,
)
from tests.spark.drivers import LONG, Driver, Told, run_script

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(300)]

PROGRAMS = Path(sys.executable).parent
CONSTANT = "2f1e9a7c-5d0b-4c44-9a35-6d1f0c1c7a10"


@LONG
def test_a_python_job_is_not_run_in_a_standalone_cluster_itself(tmp_path: Path) -> None:
    (tmp_path / "job.py").touch()
    (tmp_path / "spark-defaults.conf").touch()
    submit = (PROGRAMS / "spark-submit", "--master", "spark://127.0.0.1:1", "--deploy-mode", "cluster")
    done = run_script(*submit, tmp_path / "job.py", defaults=tmp_path, folder=tmp_path)
    assert done.returncode != 0
    assert "not supported for python applications on standalone clusters" in done.stderr


# --- SQL, without Python


@LONG
def test_of_two_sessions_of_a_thrift_server_and_spark_sql_one_creates_a_name(
    address: str, tmp_path: Path
) -> None:
    (table := tmp_path / "table").mkdir()
    lines = defaults(["file"], address, jar())
    baked = {key: value for key, value in lines.items() if not value.endswith(".jar")}
    plain = conf(tmp_path / "plain", lines)
    insert = (
        f"create temporary view t (n int) using csv options (path '{table.as_uri()}');\n"
        "insert into t values (1);\n"
    )
    with submitted(
        THRIFT, thrift_options, image(tmp_path / "home", [Path(jar())]), conf(tmp_path / "baked", baked)
    ) as port:
        url = f"jdbc:hive2://127.0.0.1:{port}"
        script = tmp_path / "two_sessions.sql"
        script.write_text(f"{insert}!connect {url} '' ''\n{insert}")
        beeline = (PROGRAMS / "beeline", "--force=true", "-u", url, "-f", script)
        clients = run_script(*beeline, defaults=plain, folder=tmp_path).stderr
    assert clients.count("Connected to: Spark SQL") == 2, clients
    assert len(re.findall("^Error: ", clients, re.MULTILINE)) == 1, clients
    assert TAKEN in clients
    own = run_script(PROGRAMS / "spark-sql", "-e", insert, defaults=plain, folder=tmp_path)
    assert own.returncode != 0
    assert TAKEN in own.stderr
    past = f"set fs.file.impl=org.apache.hadoop.fs.LocalFileSystem;\n{insert}"
    late = run_script(PROGRAMS / "spark-sql", "-e", past, defaults=plain, folder=tmp_path)
    assert late.returncode != 0
    assert "this would go past the guard" in late.stderr


# --- applications in Java and Scala


@pytest.mark.parametrize("language", ["java", pytest.param("scala", marks=LONG)])
def test_of_two_applications_on_the_jvm_one_creates_a_name(
    address: str, tmp_path: Path, language: str
) -> None:
    lines = conf(tmp_path / "conf", defaults(["file"], address, jar()))
    table = (tmp_path / "table").as_uri()
    submit = (
        PROGRAMS / "spark-submit",
        "--class",
        "Appends",
        compiled(f"Appends.{language}", tmp_path / "classes"),
        table,
    )
    first, second = (run_script(*submit, defaults=lines, folder=tmp_path) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert second.returncode != 0
    assert TAKEN in second.stderr


# --- Python's own sessions


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Run an application that guards what every job of Spark's writes."""
    with Driver(Told(SETTINGS, "file", GUARD), tmp_path_factory.mktemp("driver") / "log") as driver:
        yield driver.wait()


def test_of_all_sessions_of_a_process_one_creates_a_name(driver: Driver, tmp_path: Path) -> None:
    said = driver.call("parquet_in_sessions", path=(tmp_path / "files").as_uri())
    assert [None if each is None else TAKEN in each for each in said] == [None, True, True]


@LONG
def test_a_driver_that_was_killed_is_started_again_and_each_row_is_there_once(
    driver: Driver, tmp_path: Path
) -> None:
    path = (tmp_path / "rows").as_uri()
    with Driver(Told(SETTINGS, "file", {}), tmp_path / "log") as victim, ThreadPoolExecutor(1) as pool:
        killed = pool.submit(victim.wait().call, "stream_files", path=path, batches=1000)
        while len(list(tmp_path.glob("rows-checkpoint/commits/[0-9]*"))) < 3:
            assert not killed.done(), killed.exception()
            time.sleep(0.01)
        victim.signal(signal.SIGKILL)
        assert isinstance(killed.exception(), CallError)
    driver.call("stream_files", path=path, batches=3)
    values = [row["value"] for row in driver.call("read", path=path)]
    assert sorted(values) == list(range(len(values)))
    assert len(values) >= 60


def test_an_application_has_a_session_of_its_own_whatever_the_defaults_say(
    address: str, tmp_path: Path
) -> None:
    lines = defaults(["file"], address, jar())
    settings = {**SETTINGS, **lines, "spark.hadoop.fs.putifabsent.session": CONSTANT}
    with Driver(Told(settings, "file", {}), tmp_path / "log") as driver:
        driver.wait()
        assert driver.call("setting", key="fs.putifabsent.address") == address
        assert driver.call("setting", key="fs.putifabsent.session") != CONSTANT
        driver.call("mount_again", scheme="file", service=f"{address}/")
        with pytest.raises(CallError, match=f"guard by the service at {address}, not by http://127.0.0.1:9:"):
            driver.call("mount_again", scheme="file", service="http://127.0.0.1:9")


# --- executors that come and go


@pytest.fixture(scope="module")
def elastic(master: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Run an application that has executors only while it has tasks for them."""
    settings = {
        **SETTINGS,
        "spark.master": master,
        "spark.executor.memory": "512m",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
    }
    with Driver(Told(settings, "file", {}), tmp_path_factory.mktemp("elastic") / "log") as driver:
        yield driver.wait()


def log_entry(folder: Path) -> str:
    """Make a folder of Delta's log, and return a name in it that its writers never overwrite."""
    (folder / "_delta_log").mkdir(parents=True)
    return str(folder / "_delta_log" / "00000000000000000000.json")


def test_executors_that_are_allocated_later_are_of_the_same_writer(elastic: Driver, tmp_path: Path) -> None:
    writer = elastic.call("setting", key="fs.putifabsent.writer")
    creating = partial(
        elastic.call, "in_workers", name=log_entry(tmp_path / "table"), tasks=4, protocol="piafile"
    )
    first = creating()
    while elastic.call("executors"):
        time.sleep(0.1)
    then = creating()
    lost = f"{writer} lost against {writer}"
    assert sorted(first) == [lost] * 3 + [f"{writer} won"]
    assert then == [lost] * 4


def test_a_task_whose_executor_was_killed_is_repeated_by_the_same_writer(
    elastic: Driver, tmp_path: Path
) -> None:
    path = (tmp_path / "rows").as_uri()
    elastic.call("parquet_of_killed", path=path, name=log_entry(tmp_path / "table"))
    rows = sorted(elastic.call("read", path=path), key=itemgetter("id"))
    writer = elastic.call("setting", key="fs.putifabsent.writer")
    assert [(row["id"], row["writer"]) for row in rows] == [(id_, writer) for id_ in range(4)]
    assert rows[0]["attempt"] > 0
