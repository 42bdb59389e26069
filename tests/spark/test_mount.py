"""``mount``: what a session is that is mounted, in the JVM and in Python."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.child import CallError
from tests.service.processes import arguments_of_all
from tests.spark.drivers import JARS, JAVA, LONG, ROOT, Driver, Told, run_script, told_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(900)]

STOCK = "org.apache.hadoop.fs.s3a.S3AFileSystem"
WRITER = "2f1e9a7c-5d0b-4c44-9a35-6d1f0c1c7a10"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def driver(
    store: BucketServer, bucket: str, events: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    told = told_on(
        store,
        bucket,
        guarded=True,
        **{
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.redaction.regex": "(?i)password",
        },
    )
    told = told._replace(mount={**(told.mount or {}), "writer": WRITER})
    with Driver(told, tmp_path_factory.mktemp("driver") / "log") as driver:
        yield driver.wait()


def test_one_of_64_tasks_creates_a_name_and_all_are_of_one_writer(driver: Driver, bucket: str) -> None:
    said = driver.call("in_workers", name=f"{bucket}/t/_delta_log/00000000000000000000.json", tasks=64)
    assert len(said) == 64
    assert sum(each == f"{WRITER} won" for each in said) == 1
    assert sum(each == f"{WRITER} lost against {WRITER}" for each in said) == 63


def test_the_secret_is_in_no_list_of_processes_no_log_and_no_event(driver: Driver, events: Path) -> None:
    secret = driver.call("setting", key="fs.putifabsent.secret")
    assert len(secret) > 30
    shown = arguments_of_all()
    assert "pyspark-shell" in shown
    assert secret not in shown
    assert secret not in driver.log.read_text()
    logged = "".join(each.read_text() for each in events.iterdir())
    assert "fs.putifabsent.secret" in logged
    assert secret not in logged


def test_a_session_that_runs_already_is_not_mounted(driver: Driver) -> None:
    assert driver.call("mount_again") is None
    with pytest.raises(CallError, match="gs://"):
        driver.call("mount_again", scheme="gs")


def test_a_session_that_is_mounted_keeps_its_options(driver: Driver) -> None:
    driver.call("mount_with", arbiter="native", writer=WRITER)
    with pytest.raises(CallError, match="other options"):
        driver.call("mount_with", arbiter="ballot")


def test_hudi_takes_turns_unless_the_user_says_otherwise(driver: Driver) -> None:
    assert driver.call("hudi_default", key="hoodie.write.lock.provider").startswith("org.putifabsent.")


def test_local_files_are_guarded_though_hudi_opens_some_as_it_starts(tmp_path: Path) -> None:
    settings = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.jars": str(next(JARS.glob("hudi-*.jar"))),
    }
    with Driver(Told(settings, "file", {}), tmp_path / "log") as driver:
        driver.wait()
        assert driver.call("hudi_default", key="hoodie.write.lock.provider").startswith("org.putifabsent.")
        assert driver.call("opened", path=tmp_path.as_uri()).endswith(".GuardedLocalFileSystem")


def test_what_was_opened_without_the_guard_is_not_written_by(store: BucketServer, tmp_path: Path) -> None:
    with Driver(told_on(store, bucket := store.new_bucket(), guarded=True), tmp_path / "log") as driver:
        driver.wait()
        with pytest.raises(CallError):
            driver.call("count", path=f"s3a://{bucket}/none", options={"fs.s3a.impl": STOCK})
        # Hadoop keeps it for all.
        assert driver.call("opened", path=f"s3a://{bucket}/") == STOCK
        noticed = f"past the guard, for s3a:// was opened here without it, by {STOCK}.* restart"
        with pytest.raises(CallError, match=noticed):
            driver.call("append", form="delta", table="t", who="w", n=0)
        with pytest.raises(CallError, match=noticed):
            driver.call("mount_again")


def refused(told: Any, log: Path) -> CallError:
    with Driver(told, log) as driver, pytest.raises(CallError) as caught:
        driver.wait()
    return caught.value


def with_hudi_on_the_class_path(told: Any) -> dict[str, str]:
    """Return the settings of an image with Hudi's jar in ``SPARK_HOME/jars``: one class loader has both."""
    jars = told.settings["spark.jars"].split(",")
    hudi = next(each for each in jars if "hudi" in each)
    others = ",".join(each for each in jars if each != hudi)
    return {**told.settings, "spark.jars": others, "spark.driver.extraClassPath": hudi}


@LONG
def test_hudi_on_the_drivers_own_class_path_takes_turns(
    store: BucketServer, bucket: str, tmp_path: Path
) -> None:
    told = told_on(store, bucket, guarded=True)
    with Driver(told._replace(settings=with_hudi_on_the_class_path(told)), tmp_path / "log") as driver:
        driver.wait()
        driver.call("make", form="hudi", table="baked")
        driver.call("append", form="hudi", table="baked", who="a", n=1)
        assert ["a", 1] in driver.call("rows", form="hudi", table="baked")


def test_a_submitted_job_with_hudi_on_its_class_path_is_told_where_the_jar_goes(
    store: BucketServer, bucket: str, tmp_path: Path
) -> None:
    settings = with_hudi_on_the_class_path(told_on(store, bucket, guarded=False))
    (tmp_path / "spark-defaults.conf").write_text(
        "\n".join(f"{key} {value}" for key, value in settings.items())
    )
    (tmp_path / "job.py").write_text(
        "from pyspark.sql import SparkSession\n"
        "from putifabsent.spark import mount\n"
        "mount(SparkSession.builder, 's3a', arbiter='native').getOrCreate()\n"
    )
    submit = Path(sys.executable).parent / "spark-submit"
    done = run_script(submit, tmp_path / "job.py", defaults=tmp_path, folder=tmp_path)
    assert done.returncode != 0
    # Spark prints there what its Python says.
    assert "Hudi's jar is on the driver's own class path" in done.stdout, done.stdout[-3000:]
    assert "--driver-class-path" in done.stdout


def test_every_way_to_the_same_store_is_guarded_or_refused(
    store: BucketServer, bucket: str, tmp_path: Path
) -> None:
    ways = {
        "spark.hadoop.fs.s3.impl": STOCK,
        "spark.hadoop.fs.s3n.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.hadoop.fs.cos.impl": STOCK,
    }
    with Driver(told_on(store, bucket, guarded=True, **ways), tmp_path / "log") as driver:
        driver.wait()
        name = f"{bucket}/twins/_delta_log/00000000000000000000.json"
        assert driver.call("create", path=f"s3a://{name}") is True
        assert driver.call("create", path=f"s3://{name}") is False
        for other in ("s3n", "cos"):
            with pytest.raises(CallError, match=f"{other}:// is not mounted"):
                driver.call("create", path=f"{other}://{name}")
        for key, way in {
            "fs.s3n.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "fs.cos.impl": STOCK,
            "fs.AbstractFileSystem.cos.impl": "org.apache.hadoop.fs.s3a.S3A",
        }.items():
            before = driver.call("setting", key=key)
            driver.call("change", key=key, value=way)
            with pytest.raises(
                CallError, match=rf"{key.split('.')[-2]}:// leads to the same stores by {way}"
            ):
                driver.call("mount_again")
            driver.call("change", key=key, value=before)
        driver.call("mount_again")
        for key, way in {
            "fs.mine.impl": STOCK,
            "spark.sql.catalog.lake.hadoop.fs.mine.impl": STOCK,
            "fs.AbstractFileSystem.mine.impl": "org.apache.hadoop.fs.s3a.S3A",
        }.items():
            driver.call("sql", query=f"SET {key}={way}")
            noticed = f"past the guard, for mine:// leads to guarded stores by {way}"
            with pytest.raises(CallError, match=noticed):
                driver.call("parquet", path=f"mine://{bucket}/rows", rows=1)
            driver.call("sql", query=f"RESET {key}")
        with pytest.raises(CallError, match="past the guard, for mine:// leads to guarded stores"):
            driver.call("parquet", path=f"mine://{bucket}/rows", rows=1, options={"fs.mine.impl": STOCK})
        driver.call("parquet", path=f"s3a://{bucket}/twins/rows", rows=1)


def test_where_a_store_is_does_not_change_while_a_session_runs(driver: Driver, bucket: str) -> None:
    path, elsewhere = f"s3a://{bucket}/places/rows", "http://127.0.0.1:9"
    driver.call("change", key="fs.s3a.impl.disable.cache", value="false")
    driver.call("parquet", path=path, rows=1)
    before = driver.call("setting", key="fs.s3a.endpoint")
    driver.call("change", key="fs.s3a.endpoint", value=elsewhere)
    with pytest.raises(CallError, match=r"past the guard, for fs\.s3a\.endpoint was changed"):
        driver.call("parquet", path=path, rows=1)
    driver.call("change", key="fs.s3a.endpoint", value=before)
    of_a_bucket = "fs.s3a.bucket.another.endpoint"
    noticed = f"past the guard, for {of_a_bucket} says where a store is, and came after the start"
    with pytest.raises(CallError, match=noticed):
        driver.call("parquet", path=path, rows=1, options={of_a_bucket: elsewhere})
    driver.call("sql", query=f"SET {of_a_bucket}={elsewhere}")
    with pytest.raises(CallError, match=noticed):
        driver.call("parquet", path=path, rows=1)
    driver.call("sql", query=f"RESET {of_a_bucket}")
    # The context has as many settings as before.
    driver.call("change", key="fs.s3a.impl.disable.cache", value=None)
    driver.call("change", key=of_a_bucket, value=elsewhere)
    with pytest.raises(CallError, match=noticed):
        driver.call("parquet", path=path, rows=1)
    driver.call("change", key=of_a_bucket, value=None)
    # Of a store that is not mounted it may be said.
    driver.call("parquet", path=path, rows=1, options={"fs.gs.storage.root.url": elsewhere})
    assert driver.call("count", path=path) == 2


@LONG
def test_what_a_catalog_alone_tells_hadoop_is_refused(
    store: BucketServer, bucket: str, tmp_path: Path
) -> None:
    key = "spark.sql.catalog.lake.hadoop.fs.s3a.impl"
    told = told_on(store, bucket, guarded=True, **{key: STOCK})
    assert "say spark.hadoop.fs.s3a.impl" in refused(told, tmp_path / "log").message


@pytest.mark.parametrize("way", ["a plug-in of Paimon's", pytest.param("Hudi's storage", marks=LONG)])
def test_a_format_that_goes_round_hadoop_s_filesystem_is_refused(
    way: str, store: BucketServer, bucket: str, tmp_path: Path
) -> None:
    told = told_on(store, bucket, guarded=True)
    if way == "Hudi's storage":
        settings = {**told.settings, "spark.hadoop.hoodie.storage.class": "org.example.Storage"}
        says = "Hudi writes by org.example.Storage: leave hoodie.storage.class out"
    else:
        settings = {**told.settings, "spark.jars": f"{told.settings['spark.jars']},{plugin(tmp_path)}"}
        says = "Paimon writes to s3a:// by OwnClient"
    assert says in refused(told._replace(settings=settings), tmp_path / "log").message


def plugin(folder: Path) -> Path:
    """Compile a loader of Paimon's files that Java finds as a service."""
    source = ROOT / "tests" / "spark" / "java" / "OwnClient.java"
    paimon = next(JARS.glob("paimon-*.jar"))
    services = folder / "classes" / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.paimon.fs.FileIOLoader").write_text("OwnClient\n")
    subprocess.run([JAVA / "javac", "-cp", paimon, "-d", folder / "classes", source], check=True)
    subprocess.run([JAVA / "jar", "cf", folder / "plugin.jar", "-C", folder / "classes", "."], check=True)
    return folder / "plugin.jar"


@LONG
def test_a_store_without_a_filesystem_is_said(store: BucketServer, bucket: str, tmp_path: Path) -> None:
    told = told_on(store, bucket, guarded=True, **{"spark.jars": ""})
    assert "hadoop-aws:3." in refused(told, tmp_path / "log").message


def test_a_service_that_does_not_start_is_said(store: BucketServer, bucket: str, tmp_path: Path) -> None:
    told = told_on(store, bucket, guarded=True)._replace(mount={"arbitre": "native"})
    assert "did not start" in refused(told, tmp_path / "log").message


def test_without_its_service_a_session_writes_nothing_unguarded(
    store: BucketServer, bucket: str, tmp_path: Path
) -> None:
    told = told_on(store, bucket, guarded=True, **{"spark.hadoop.fs.putifabsent.deadline": "2s"})
    with Driver(told, tmp_path / "log") as driver:
        driver.wait()
        address = driver.call("setting", key="fs.putifabsent.address")
        driver.call("append", form="delta", table="alone", who="w", n=0)
        driver.call("end_service")
        with pytest.raises(CallError) as caught:
            driver.call("append", form="delta", table="alone", who="w", n=1)
        assert address.removeprefix("http://") in caught.value.message
        assert driver.call("rows", form="delta", table="alone") == [["w", 0]]
        driver.signal(signal.SIGKILL)


@LONG  # workers of a standalone cluster do in test_cluster.py
def test_executors_of_their_own_processes_reach_the_service(
    store: BucketServer, bucket: str, tmp_path: Path
) -> None:
    told = told_on(store, bucket, guarded=True, **{"spark.master": "local-cluster[2,1,1024]"})
    with Driver(told, tmp_path / "log") as driver:
        driver.wait()
        for form in ("delta", "hudi"):
            for n in range(2):
                driver.call("append", form=form, table=f"cluster_{form}", who="w", n=n)
            assert sorted(driver.call("rows", form=form, table=f"cluster_{form}")) == [["w", 0], ["w", 1]]
        said = driver.call("in_workers", name=f"{bucket}/c/_delta_log/00000000000000000000.json", tasks=16)
        assert sum(each.endswith(" won") for each in said) == 1
        assert json.dumps(said).count(driver.call("setting", key="fs.putifabsent.writer")) == 16 + 15
