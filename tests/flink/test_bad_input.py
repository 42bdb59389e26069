"""Where the guard would be missing, or got past, Flink says so before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from putifabsent.flink import FlinkSettings
from tests.child import CallError
from tests.flink.cluster import Cluster
from tests.flink.programs import FORMATS, Program
from tests.servers.process import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.flink.cluster import Release

pytestmark = [pytest.mark.flink, pytest.mark.timeout(300)]


def said_at_start(cluster: Cluster) -> str:
    """Return what a job manager that does not start has logged."""
    cluster.start_job_manager()
    try:
        cluster.job_manager.leash.wait(60)
    finally:
        cluster.job_manager.kill()
    return "".join(each.read_text() for each in (cluster.home / "log").glob("*standalonesession*.log"))


def test_a_plug_in_that_would_go_past_the_guard_is_refused(
    release: Release, told: FlinkSettings, tmp_path: Path
) -> None:
    plugins = release.jars.glob("flink-s3-fs-hadoop-*.jar")
    said = said_at_start(Cluster(release, tmp_path, told, plugins=plugins))
    assert "s3:// is guarded, and what Flink or Paimon writes there would go past the guard" in said
    assert "org.apache.flink.fs.s3hadoop.S3FileSystemFactory" in said


def test_a_loader_of_paimons_that_would_go_past_the_guard_is_refused(
    release: Release, told: FlinkSettings, tmp_path: Path
) -> None:
    libraries = release.jars.glob("paimon-s3-*.jar")
    said = said_at_start(Cluster(release, tmp_path, told, libraries=libraries))
    assert "s3:// is guarded, and what Flink or Paimon writes there would go past the guard" in said
    assert "org.apache.paimon.s3.S3Loader" in said


def test_an_adapter_without_hadoop_is_refused(release: Release, told: FlinkSettings, tmp_path: Path) -> None:
    said = said_at_start(Cluster(release, tmp_path, told, hadoop=False))
    assert "no Hadoop that it could guard: set HADOOP_CLASSPATH" in said


def test_settings_that_guard_nothing_are_refused(
    release: Release, told: FlinkSettings, tmp_path: Path
) -> None:
    site = {key: value for key, value in told.site.items() if not key.endswith(("s3a.impl", "s3.impl"))}
    said = said_at_start(Cluster(release, tmp_path, FlinkSettings(site, told.config)))
    assert "Hadoop's settings guard no scheme by it: set HADOOP_CONF_DIR" in said


def test_flinks_own_settings_that_would_go_past_the_guard_are_refused(
    release: Release, told: FlinkSettings, tmp_path: Path
) -> None:
    config = {**told.config, "flink.hadoop.fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    said = said_at_start(Cluster(release, tmp_path, FlinkSettings(told.site, config)))
    assert "Flink's own settings change fs.s3a.impl" in said
    assert "remove flink.hadoop.fs.s3a.impl from config.yaml" in said


def failed(release: Release, told: FlinkSettings, folder: Path, bucket: str, **more: str) -> str:
    """Return what a program hears whose service can't be asked."""
    site: Mapping[str, str] = {**told.site, **{f"fs.putifabsent.{key}": value for key, value in more.items()}}
    cluster = Cluster(release, folder, FlinkSettings(site, told.config))
    with Program(cluster, folder / "log") as program, pytest.raises(CallError) as heard:
        FORMATS["paimon"].made(program, f"s3a://{bucket}/{folder.name}")
    return heard.value.message


def test_a_service_that_is_not_there_is_named(
    release: Release, told: FlinkSettings, tmp_path: Path, bucket: str
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    said = failed(release, told, tmp_path, bucket, address=nowhere, deadline="2s")
    assert f"the coordination service at {nowhere} can't be reached" in said


def test_a_wrong_secret_is_refused(
    release: Release, told: FlinkSettings, tmp_path: Path, bucket: str
) -> None:
    said = failed(release, told, tmp_path, bucket, secret="another secret of sixteen")
    assert "the secret is missing, or wrong" in said
