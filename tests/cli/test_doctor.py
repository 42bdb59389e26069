"""``putifabsent doctor``: what it sees of a machine, a store and a service, and what it keeps to itself."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
import zipfile
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import requires, version
from threading import Thread
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from typer.testing import CliRunner

from putifabsent import __version__, doctor
from putifabsent.backends.base import Verdict as Probed
from putifabsent.backends.probe_cache import BESIDE, remember
from putifabsent.cli.app import app
from putifabsent.doctor import Check, Verdict, examine
from tests.service.callers import SECRET, answering

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

    from tests.servers import BucketServer

OK, WARNING, WRONG = Verdict.OK, Verdict.WARNING, Verdict.WRONG
KEY = "very-secret-indeed"


@pytest.fixture(autouse=True)
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return this package's adapter, on a machine that says nothing else."""
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "JAVA_HOME", "PUTIFABSENT_SERVICE_SECRET", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "lab",
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("putifabsent.backends.probe_cache._here", {})
    made = _jar(tmp_path / "putifabsent-hadoop.jar", __version__)
    monkeypatch.setattr(doctor, "jar", lambda: str(made))
    return made


def _jar(path: Path, version: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\nImplementation-Version: {version}\n"
        )
    return path


def _of(subject: str, checks: Iterator[Check]) -> Check:
    """Return the one check of that subject."""
    (found,) = [each for each in checks if each.subject == subject]
    return found


EMPTY = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


@contextmanager
def _answers(
    *, status: int = 200, late: float = 0.0, body: bytes = b"", **headers: str
) -> Iterator[tuple[str, list[str]]]:
    """Listen, and answer anything so, by a clock that is late; give the address and what was presented."""
    presented: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            presented.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - http.server's word

        def date_time_string(self, timestamp: float | None = None) -> str:
            return formatdate(time.time() - late, usegmt=True)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's word
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}", presented
        finally:
            listening.shutdown()
            thread.join()


def _nowhere() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


# --- packages


def test_each_optional_dependency_is_shown_with_its_version() -> None:
    names = {
        line.partition(">")[0].partition("[")[0] for line in requires("putifabsent") or () if "extra" in line
    }
    shown = _of("packages", examine()).found
    assert {name for name in names if f"{name} " not in shown} <= {"pypaimon", "localbucket"}
    assert _of("extras", examine()).found.startswith("all, ")


def test_a_package_older_than_its_extra_wants_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: "2024.9.0" if name == "s3fs" else version(name))
    found = _of("packages", examine())
    assert found.verdict is WRONG
    assert "s3fs 2024.9.0 is older than 2025.10" in found.found
    assert "s3" in found.do


def test_a_store_whose_client_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    found = _of("store", examine("s3://bucket/table"))
    assert found.verdict is WRONG
    assert found.do == "pip install 'putifabsent[s3]'"


# --- the store


@pytest.mark.parametrize(
    ("options", "verdict", "found"),
    [
        ({}, OK, "environment variables"),
        ({"key": "lab", "secret": KEY}, OK, "a key and its secret among the options"),
        ({"anon": True}, WARNING, "none: requests go out unsigned"),
        ({"profile": "nobody"}, WRONG, "The config profile (nobody) could not be found"),
    ],
)
def test_credentials_are_of_a_kind_and_never_shown(
    options: dict[str, Any], verdict: Verdict, found: str, moto: BucketServer
) -> None:
    checks = list(examine(f"s3://{moto.new_bucket()}/t", endpoint_url=moto.endpoint, **options))
    credentials = _of("credentials", iter(checks))
    assert (credentials.verdict, credentials.found) == (verdict, found)
    assert KEY not in repr(checks)


def test_no_credentials_at_all_are_wrong(moto: BucketServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    checks = list(examine(f"s3://{moto.new_bucket()}/t", endpoint_url=moto.endpoint))
    assert _of("credentials", iter(checks)).verdict is WRONG
    assert "bucket" not in {each.subject for each in checks}, "there is nobody to ask as"


def test_a_bucket_is_there_or_not(moto: BucketServer) -> None:
    there, missing = (
        _of("bucket", examine(f"s3://{bucket}/t", endpoint_url=moto.endpoint))
        for bucket in (moto.new_bucket(), "missing-bucket")
    )
    assert (there.verdict, missing.verdict) == (OK, WRONG)
    assert missing.found.startswith("missing-bucket: ")


def test_an_endpoint_that_nobody_answers_at_is_wrong() -> None:
    checks = list(examine("s3://bucket/t", endpoint_url=_nowhere()))
    assert _of("endpoint", iter(checks)).verdict is WRONG
    assert "clock" not in {each.subject for each in checks}


def test_a_password_in_an_endpoint_is_not_shown() -> None:
    at = _nowhere().replace("://", f"://me:{KEY}@")
    assert KEY not in repr(list(examine("s3://bucket/t", address=at, endpoint_url=at)))


@pytest.mark.parametrize(
    ("late", "verdict", "found"),
    [
        (0, OK, "within 5 s of the store's"),
        (300, WARNING, "s ahead of the store"),
        (-300, WARNING, "s behind the store"),
        (3600, WRONG, "s ahead of the store"),
    ],
)
def test_the_clock_is_compared_with_the_store_s(late: float, verdict: Verdict, found: str) -> None:
    with _answers(late=late, body=EMPTY) as (endpoint, _):
        clock = _of("clock", examine("s3://bucket/t", endpoint_url=endpoint))
    assert clock.verdict is verdict
    assert found in clock.found


@pytest.mark.parametrize(("theirs", "verdict"), [("eu-west-1", WARNING), ("us-east-1", OK)])
def test_a_bucket_of_another_region_is_noticed(
    theirs: str, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with _answers(body=EMPTY, x_amz_bucket_region=theirs) as (endpoint, _):
        region = _of("region", examine("s3://bucket/t", endpoint_url=endpoint))
    assert region.verdict is verdict
    assert theirs in region.found


@pytest.mark.parametrize(
    ("safe", "verdict"), [(None, WARNING), (True, OK), (False, WRONG)], ids=["unknown", "safe", "unsafe"]
)
@pytest.mark.parametrize(
    ("arbiter", "wanted", "others"),
    [("auto", ("put", "complete"), BESIDE), ("ballot", BESIDE, ("put", "complete"))],
)
def test_what_a_probe_has_found_is_told(
    arbiter: str,
    wanted: tuple[str, ...],
    others: tuple[str, ...],
    safe: bool | None,
    verdict: Verdict,
    moto: BucketServer,
) -> None:
    bucket = moto.new_bucket()
    found = {word: Probed(word, not safe, "seen") for word in others}
    if safe is not None:
        found |= {word: Probed(word, safe, "seen") for word in wanted}
    remember("s3", moto.endpoint, bucket, found)
    check = _of("arbiter", examine(f"s3://{bucket}/t", endpoint_url=moto.endpoint, arbiter=arbiter))
    assert check.verdict is verdict


def test_a_disk_is_looked_at_and_not_written_to(tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert _of("store", examine(str(tmp_path))).verdict is OK
    assert "is not there yet" in _of("store", examine(str(tmp_path / "t"))).found
    (tmp_path / "file").touch()
    assert _of("store", examine(str(tmp_path / "file"))).verdict is WRONG
    (tmp_path / "file").unlink()
    assert sorted(tmp_path.rglob("*")) == before


# --- Spark


def test_a_table_whose_other_mounts_name_another_arbiter_is_wrong(tmp_path: Path) -> None:
    fsspec.filesystem("piafile", arbiter="ballot").pipe_file(f"{tmp_path}/name", b"mine", mode="create")
    check = _of("arbiter", examine(str(tmp_path)))
    assert check.verdict is WRONG
    assert "another mount of the table ballot" in check.found
    assert _of("arbiter", examine(str(tmp_path), arbiter="ballot")).verdict is OK


def test_an_adapter_of_another_version_is_noticed(tmp_path: Path, jar: Path) -> None:
    assert _of("adapter", examine()).found == f"{__version__}, {jar}"
    _jar(jar, "0.0.1")
    assert _of("adapter", examine()).verdict is WARNING
    jar.write_bytes(b"half a download")
    assert _of("adapter", examine()).verdict is WRONG


@pytest.mark.parametrize(
    ("printed", "verdict"),
    [('openjdk version "17.0.15" 2025', OK), ('java version "1.8.0_402"', WRONG), ("no Java", WRONG)],
)
def test_the_java_that_spark_would_start_is_named(
    printed: str, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert _of("Java", examine()).verdict is verdict
    monkeypatch.delenv("SPARK_HOME")
    assert _of("Java", examine()).verdict is not WRONG, "only Spark wants one"


@pytest.mark.parametrize(
    ("jars", "subject", "verdict"),
    [
        ([], "Spark's jars", OK),
        (["putifabsent-hadoop.jar"], "Spark's jars", OK),
        (["putifabsent-hadoop.jar", "putifabsent-hadoop-copy.jar"], "Spark's jars", WARNING),
        (["hudi-spark3.5-bundle_2.12-1.0.2.jar"], "Hudi's bundle", WARNING),
    ],
)
def test_jars_on_spark_s_class_path_are_seen(
    jars: list[str],
    subject: str,
    verdict: Verdict,
    tmp_path: Path,
    jar: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "spark" / "jars"
    folder.mkdir(parents=True)
    for name in jars:
        (folder / name).write_bytes(jar.read_bytes())
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    assert _of(subject, examine()).verdict is verdict


def test_a_spark_home_that_is_empty_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "")
    assert "Spark's jars" not in {each.subject for each in examine()}


def test_hudi_s_bundle_beside_the_adapter_is_as_it_should_be(
    tmp_path: Path, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "spark" / "jars"
    folder.mkdir(parents=True)
    for name in ("hudi-spark3.5-bundle_2.12-1.0.2.jar", "putifabsent-hadoop.jar"):
        (folder / name).write_bytes(jar.read_bytes())
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    assert "Hudi's bundle" not in {each.subject for each in examine()}


def test_another_adapter_that_spark_would_load_is_wrong(
    tmp_path: Path, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, other = tmp_path / "spark", tmp_path / "old" / "putifabsent-hadoop.jar"
    for folder in (home / "jars", home / "conf", other.parent):
        folder.mkdir(parents=True)
    _jar(other, "0.0.1")
    (home / "conf" / "spark-defaults.conf").write_text(f"# jars\nspark.jars  /x/a.jar,{other}\n")
    monkeypatch.setenv("SPARK_HOME", str(home))
    found = _of("Spark's jars", examine())
    assert found.verdict is WRONG
    assert str(other) in found.found
    assert str(jar) in found.do


def test_a_session_of_all_applications_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("spark.hadoop.fs.putifabsent.writer  here\n")
    assert "Spark's session" not in {each.subject for each in examine()}
    defaults.write_bytes(
        b"# caf\xe9\nspark.hadoop.fs.putifabsent.session  2f1e9a7c-5d0b-4c44-9a35-6d1f0c1c7a10\n"
    )
    assert _of("Spark's session", examine()).verdict is WRONG


# --- the service


@pytest.mark.parametrize(("presents", "verdict"), [(SECRET, OK), ("wrong" * 5, WRONG), ("", WARNING)])
async def test_a_service_is_asked_and_its_secret_tried(
    presents: str, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUTIFABSENT_SERVICE_SECRET", presents)
    async with answering({"secret": SECRET, "mounts": [{"prefix": f"file:{tmp_path}"}]}) as address:
        checks = await asyncio.to_thread(lambda: list(examine(address=address)))
    assert _of("service", iter(checks)) == Check("service", OK, f"{address} answers, version {__version__}")
    assert _of("secret", iter(checks)).verdict is verdict
    assert SECRET not in repr(checks)


def test_of_several_services_each_is_asked() -> None:
    found = [each.found for each in examine(address="http://127.0.0.1:1, http://127.0.0.1:2")]
    assert [each.split(": ")[0] for each in found if each.startswith("http://127")] == [
        "http://127.0.0.1:1",
        "http://127.0.0.1:2",
    ]


def test_where_a_service_is_comes_from_spark_s_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = _nowhere()
    (tmp_path / "spark-defaults.conf").write_text(f"spark.hadoop.fs.putifabsent.address = {at}\n")
    assert "service" not in {each.subject for each in examine()}
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    found = _of("service", examine())
    assert (found.verdict, found.found) == (WRONG, f"{at}: Connection refused")


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]"])
def test_who_is_no_service_never_hears_the_secret(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUTIFABSENT_SERVICE_SECRET", SECRET)
    with _answers(body=body) as (address, presented):
        assert _of("service", examine(address=address)).verdict is WRONG
    assert presented == [""]


def test_a_redirect_is_not_followed() -> None:
    with (
        _answers(body=b'{"status": "ok", "version": "9"}') as (elsewhere, presented),
        _answers(status=302, Location=elsewhere) as (address, _),
    ):
        assert _of("service", examine(address=address)).verdict is WRONG
    assert presented == []


# --- the command


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_it_exits_with_1_where_something_is_wrong_and_a_program_reads_what() -> None:
    well = _run("memory://t")
    assert well.exit_code == 0, well.output
    assert well.stdout.endswith("All is well.\n")
    ill = _run("s3://bucket/t", "--endpoint-url", _nowhere(), "--json")
    assert ill.exit_code == 1
    checks = {each["subject"]: each for each in json.loads(ill.stdout)}
    assert checks["endpoint"]["verdict"] == "wrong"
    assert checks["endpoint"].keys() == {"subject", "verdict", "found", "do"}


def test_a_wrong_option_is_a_wrong_use() -> None:
    assert _run("hdfs://host/t").exit_code == 2
    assert _run("memory://t", "-o", "formts=paimon").exit_code == 2


def test_it_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("putifabsent.cli.screen._WIDTH", 80)
    shown = _run("s3://bucket/t", "--endpoint-url", _nowhere()).stdout
    assert max(map(len, shown.splitlines())) <= 80
