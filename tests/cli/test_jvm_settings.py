"""``putifabsent spark-conf`` and ``flink-conf``: settings for who does not mount from Python."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from putifabsent.cli.app import app
from putifabsent.errors import ConfigError
from putifabsent.flink import FlinkSettings
from putifabsent.spark.settings import service_settings

if TYPE_CHECKING:
    from typer.testing import Result

ADDRESS = ("--address", "http://10.0.0.7:8976")


@pytest.fixture(autouse=True)
def _jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("putifabsent.spark.jar", lambda: "/site/putifabsent-hadoop.jar")


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_every_line_is_one_of_spark_defaults() -> None:
    result = _run("spark-conf", "s3a", *ADDRESS)
    lines = [line.split() for line in result.stdout.splitlines() if line and not line.startswith("#")]
    assert result.exit_code == 0
    assert {len(line) for line in lines} == {2}
    assert dict(lines)["spark.hadoop.fs.putifabsent.address"] == "http://10.0.0.7:8976"


def test_a_program_reads_the_same() -> None:
    printed = json.loads(_run("spark-conf", "s3a", "gs", *ADDRESS, "--json").stdout)
    assert printed["spark"]["spark.jars"] == "/site/putifabsent-hadoop.jar"
    assert printed["spark"]["spark.hadoop.fs.gs.impl"] == printed["spark"]["spark.hadoop.fs.s3a.impl"]
    assert "hoodie.write.lock.provider" in printed["hudi"]


def test_a_scheme_that_is_not_known_is_a_wrong_use() -> None:
    result = _run("spark-conf", "hdfs", *ADDRESS, "--json")
    assert result.exit_code == 2
    assert "hdfs://" in json.loads(result.stdout)["message"]


@pytest.mark.parametrize("more", ["/base", "//", "?", "?tenant=1", "#", "#part"])
@pytest.mark.parametrize("command", ["spark-conf", "flink-conf"])
def test_an_address_says_nothing_that_would_be_left_out(command: str, more: str) -> None:
    result = _run(command, "s3a", "--address", f"http://h:1, https://h:2{more}", "--json")
    assert result.exit_code == 2
    assert f"https://h:2{more} is no address" in json.loads(result.stdout)["message"]


@pytest.mark.parametrize("user", ["user:hidden@", "hidden@", "hidden,hidden@", "user:hidden/hidden@"])
def test_the_user_info_of_an_address_is_refused_and_said_nowhere(user: str) -> None:
    with pytest.raises(ConfigError, match="h:2 is no address") as refused:
        service_settings(f"http://h:1,http://{user}h:2", "secret")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("address", ["h:1", "ftp://h:1", "", "http://h:1,", "http://"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="say http://HOST:PORT"):
        service_settings(address, "secret")


@pytest.mark.parametrize("address", ["http://h:1", "https://h/", "http://[::1]:8976, http://h-2.example:1"])
def test_an_address_is_passed_on_as_it_is_said(address: str) -> None:
    assert service_settings(address, "secret")["fs.putifabsent.address"] == address


# --- Flink


def test_the_output_is_a_core_site() -> None:
    result = _run("flink-conf", "s3a", "gs", *ADDRESS)
    site = ET.fromstring(result.stdout)  # noqa: S314 - our own
    found = {each.findtext("name"): each.findtext("value") for each in site.iter("property")}
    assert result.exit_code == 0
    assert found["fs.s3a.impl"] == found["fs.gs.impl"] == "org.putifabsent.hadoop.GuardedFileSystem"
    assert found["fs.putifabsent.address"] == "http://10.0.0.7:8976"
    assert found["fs.putifabsent.secret"] == "${env.PUTIFABSENT_SERVICE_SECRET}"


def test_each_cluster_is_a_session_of_its_own() -> None:
    sites = [json.loads(_run("flink-conf", "s3a", *ADDRESS, "--json").stdout)["core-site.xml"] for _ in "12"]
    assert len({each["fs.putifabsent.session"] for each in sites}) == 2


def test_what_goes_elsewhere_is_said_beside_it() -> None:
    result = _run("flink-conf", "s3a", *ADDRESS)
    assert "/site/putifabsent-hadoop.jar" in result.stderr
    assert "fs.allowed-fallback-filesystems: s3a" in result.stderr


def test_a_character_of_xml_in_a_setting_is_written_so() -> None:
    site = ET.fromstring(FlinkSettings({"key": "a&b"}, {}).site_as_xml())  # noqa: S314 - our own
    assert "a&b" in [each.text for each in site.iter("value")]


def test_a_program_reads_what_goes_into_each_file() -> None:
    printed = json.loads(_run("flink-conf", "s3a", "gs", *ADDRESS, "--json").stdout)
    assert printed["lib"] == "/site/putifabsent-hadoop.jar"
    assert printed["config.yaml"] == {"fs.allowed-fallback-filesystems": "s3a;gs"}
    assert "fs.s3a.impl" in printed["core-site.xml"]


@pytest.mark.parametrize(("scheme", "why"), [("hdfs", "hdfs://"), ("file", "a class of its own")])
def test_a_scheme_that_flink_cannot_have_guarded_is_a_wrong_use(scheme: str, why: str) -> None:
    result = _run("flink-conf", scheme, *ADDRESS, "--json")
    assert result.exit_code == 2
    assert why in json.loads(result.stdout)["message"]
