"""Canaries: neither the service's secret nor the store's is in anything that others can read."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.child import CallError
from tests.servers import VersityGW
from tests.servers.s3 import KEY
from tests.service.processes import arguments_of_all
from tests.spark.drivers import Driver, told_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(900)]

PAGES = ("environment/", "executors/", "executors/threadDump/?executorId=driver", "jobs/", "SQL/")


@pytest.fixture(scope="module")
def canary() -> Iterator[str]:
    """Return the store's secret, which its server and the driver's environment know."""
    canary = secrets.token_hex()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.servers.s3.SECRET", canary)
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", canary)
        patch.setenv("PYTHONFAULTHANDLER", "1")
        yield canary


@pytest.fixture(scope="module")
def store(canary: str) -> Iterator[BucketServer]:
    """Run an S3 server whose secret is the canary."""
    with VersityGW() as store:
        assert store.storage_options["secret"] == canary
        yield store


@pytest.fixture(scope="module")
def bucket(store: BucketServer) -> str:
    return store.new_bucket()


@pytest.fixture
def driver(store: BucketServer, bucket: str, tmp_path: Path) -> Iterator[Driver]:
    """Run a driver that logs all, shows its pages, and leaves a dump when it crashes."""
    more = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": tmp_path.as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.log.level": "DEBUG",
        "spark.driver.extraJavaOptions": f"-XX:ErrorFile={tmp_path}/crash",
    }
    told = told_on(store, bucket, guarded=True, **more)
    # They are in the environment: what a program says to PySpark, PySpark itself says to its JVM.
    settings = {key: value for key, value in told.settings.items() if not key.endswith(".key")}
    with Driver(told._replace(settings=settings), tmp_path / "log") as driver:
        yield driver.wait()


def answered(address: str, secret: str | None = None) -> str:
    """Return what an address answers, an error included."""
    request = urllib.request.Request(address)  # noqa: S310 - on loopback
    if secret is not None:
        request.add_header("Authorization", f"Bearer {secret}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return str(error.read().decode())


def sent(address: str, what: bytes) -> str:
    """Return what a service answers to bytes."""
    host, _, port = urlsplit(address).netloc.partition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(what)
        answer = b""
        with suppress(OSError):
            while more := connection.recv(2**16):
                answer += more
    return answer.decode()


def test_no_secret_is_in_what_others_can_read(
    driver: Driver, canary: str, bucket: str, tmp_path: Path
) -> None:
    secret, address = (driver.call("setting", key=f"fs.putifabsent.{each}") for each in ("secret", "address"))
    pages = driver.call("pages")
    shown: dict[str, str] = {}

    # What is done well.
    driver.call("make", form="delta", table="t")
    driver.call("append", form="delta", table="t", who="a", n=1)
    driver.call("in_workers", name=f"{bucket}/t/_delta_log/00000000000000000002.json", tasks=2)
    # What goes wrong.
    for number, (form, table) in enumerate([("delta", "../nowhere"), ("parquet?", "t")]):
        with pytest.raises(CallError) as caught:
            driver.call("append", form=form, table=table, who="a", n=1)
        shown[f"error {number}"] = caught.value.message
    shown["garbage"] = sent(address, f"GET / HTTP/1.1\r\nAuthorization: Bearer {secret}\0\r\n\r\n".encode())
    shown["wrong secret"] = answered(f"{address}/v1/metrics", secret[:-1])
    # What is shown.
    shown["metrics"] = answered(f"{address}/v1/metrics", secret)
    shown |= {each: answered(f"{pages}/{each}") for each in PAGES}
    [application] = json.loads(answered(f"{pages}/api/v1/applications"))
    shown["api"] = answered(f"{pages}/api/v1/applications/{application['id']}/environment")
    # The server of this test is told its secret so.
    others = (each for each in arguments_of_all().splitlines() if "versitygw" not in each)
    shown["processes"] = "\n".join(others)
    # What a crash leaves.
    service = driver.service()
    assert service is not None
    for process in (service, driver.call("pids")["jvm"]):
        os.kill(process, signal.SIGSEGV)
    crash = tmp_path / "crash"
    while not (crash.exists() and crash.read_text(errors="replace").endswith("END.\n")):
        time.sleep(0.1)
    shown |= {each.name: each.read_text(errors="replace") for each in tmp_path.iterdir()}

    expected = {
        "metrics": "putifabsent_calls_total",
        "environment/": "fs.putifabsent.secret",
        "api": "fs.putifabsent.secret",
        "processes": "pyspark-shell",
        "wrong secret": "the secret is missing",
        "garbage": "this is no request",
        "log": "Segmentation fault",
        "crash": "SIGSEGV",
        f"{application['id']}.inprogress": "SparkListenerEnvironmentUpdate",
    }
    assert [what for what, said in expected.items() if said not in shown[what]] == []
    for what, text in shown.items():
        assert text, what
        for of, hidden in (("service", secret), ("store", canary)):
            assert [line[:1000] for line in text.splitlines() if hidden in line] == [], (what, of)
