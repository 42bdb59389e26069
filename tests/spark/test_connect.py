"""Spark Connect: its server is guarded by the lines of ``putifabsent spark-conf``, for all of its clients."""

from __future__ import annotations

import json
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from putifabsent.spark.settings import defaults, jar
from tests.spark.applications import (
    CONNECT,
    HOME,
    SETTINGS,
    TAKEN,
    appended,
    conf,
    connect_options,
    submitted,
)
from tests.spark.drivers import Driver, Told, run_script

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CLIENT = """
    import json, sys
    from pyspark.sql.connect.session import SparkSession

    said = []
    for _ in range(2):
        session = SparkSession.builder.remote(sys.argv[1]).create()
        try:
            session.range(4).write.mode("append").parquet(sys.argv[2])
            said.append(None)
        except Exception as error:
            said.append(str(error))
        session.stop()
    print(json.dumps(said))
"""
MOUNTING = """
    from pyspark.sql.connect.session import SparkSession
    from putifabsent.spark import mount

    mount(SparkSession.builder, "file")
"""


def test_of_two_clients_of_a_server_and_another_application_one_creates_a_name(
    address: str, tmp_path: Path
) -> None:
    (client := tmp_path / "client.py").write_text(dedent(CLIENT))
    files, here = tmp_path / "files", conf(tmp_path / "conf", defaults(["file"], address, jar()))
    with submitted(CONNECT, connect_options, HOME, here) as port:
        asking = (sys.executable, client, f"sc://127.0.0.1:{port}", files.as_uri())
        done = run_script(*asking, defaults=here, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = json.loads(done.stdout.strip().splitlines()[-1])
    assert first is None
    assert TAKEN in second
    with Driver(Told(SETTINGS, "file", {"service": address}), tmp_path / "log") as other:
        assert not appended(other.wait(), files)


def test_a_builder_of_a_client_is_not_mounted(tmp_path: Path) -> None:
    (client := tmp_path / "client.py").write_text(dedent(MOUNTING))
    done = run_script(sys.executable, client, defaults=tmp_path, folder=tmp_path)
    assert "ConfigError: a Spark Connect client can't mount" in done.stderr
