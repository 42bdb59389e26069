"""A package has the adapter for the JVM, or is not built: wheels and sdists, from a checkout or an sdist."""

from __future__ import annotations

import os
import re
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.wheel import JAR, ROOT, build, clone

if TYPE_CHECKING:
    from pathlib import Path


def test_who_goes_by_aiohttp_gets_one_that_sends_nothing_twice() -> None:
    extras = dict(re.findall(r"^(\w+) = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    going = {name for name, needs in extras.items() if re.search(r'"(aiobotocore|aiohttp|s3fs)\b', needs)}
    assert going == {"dynamodb", "s3", "service"}
    assert all('"aiohttp>=3.12"' in extras[name] for name in going)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy what a clone has, and what packages are made of."""
    return clone(tmp_path / "checkout")


def wheel_in(folder: Path) -> dict[str, bytes]:
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(folder: Path) -> list[str]:
    """Build a wheel, and return its metadata."""
    done = build(folder, "wheel")
    assert done.returncode == 0, done.stderr
    (found,) = (text for name, text in wheel_in(folder).items() if name.endswith(".dist-info/METADATA"))
    return found.decode().splitlines()


def without_a_jdk(folder: Path) -> dict[str, str]:
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    return {"PATH": str(empty), "JAVA_HOME": ""}


def test_a_wheel_of_an_sdist_has_the_jar_and_needs_no_jdk(checkout: Path, tmp_path: Path) -> None:
    (checkout / JAR).write_bytes(b"the jar")
    assert build(checkout, "sdist", **without_a_jdk(checkout)).returncode == 0
    (sdist,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("putifabsent-*")
    assert (unpacked / "hadoop/mvnw").exists()
    assert (unpacked / "hadoop/.mvn/wrapper/maven-wrapper.properties").exists()
    done = build(unpacked, "wheel", **without_a_jdk(unpacked))
    assert done.returncode == 0, done.stderr
    assert wheel_in(unpacked)[JAR] == b"the jar"


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_without_the_jar_and_a_jdk_nothing_is_built_and_what_to_do_is_said(checkout: Path, kind: str) -> None:
    done = build(checkout, kind, **without_a_jdk(checkout))
    assert done.returncode != 0
    assert "install one (11 or later), or set PUTIFABSENT_WITHOUT_JAR=1" in done.stderr
    assert not list((checkout / "dist").glob("*"))


def test_a_jar_older_than_its_sources_is_none(checkout: Path) -> None:
    (checkout / JAR).write_bytes(b"the jar")
    os.utime(checkout / JAR, (0, 0))
    assert build(checkout, "wheel", **without_a_jdk(checkout)).returncode != 0


def test_who_wants_no_spark_gets_a_wheel_without_a_jdk(checkout: Path) -> None:
    done = build(checkout, "wheel", PUTIFABSENT_WITHOUT_JAR="1", **without_a_jdk(checkout))
    assert done.returncode == 0, done.stderr
    wheel = wheel_in(checkout)
    assert JAR not in wheel
    assert "putifabsent/__init__.py" in wheel


def test_who_wants_no_spark_gets_no_jar_that_lies_there(checkout: Path) -> None:
    (checkout / JAR).write_bytes(b"an old jar")
    done = build(checkout, "wheel", PUTIFABSENT_WITHOUT_JAR="1")
    assert done.returncode == 0, done.stderr
    assert JAR not in wheel_in(checkout)


@pytest.mark.spark
@pytest.mark.formats
def test_a_checkout_builds_the_jar_that_its_wheel_has_the_same_each_time(checkout: Path) -> None:
    done = build(checkout, "wheel")
    assert done.returncode == 0, done.stderr
    jar = wheel_in(checkout)[JAR]
    assert jar.startswith(b"PK")
    assert jar == (ROOT / JAR).read_bytes()


def test_packages_say_where_the_project_is_if_who_builds_them_does(checkout: Path, tmp_path: Path) -> None:
    (checkout / JAR).write_bytes(b"the jar")
    assert not [line for line in metadata(checkout) if line.startswith("Project-URL")]
    at = {"PUTIFABSENT_REPOSITORY": "https://example.org/o/p.git"}
    assert build(checkout, "sdist", **at).returncode == 0
    (sdist,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("putifabsent-*")
    lines = metadata(unpacked)
    version = next(line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))
    assert "Project-URL: Source, https://example.org/o/p" in lines
    assert f"Project-URL: Changelog, https://example.org/o/p/blob/v{version}/CHANGELOG.md" in lines


def test_an_address_that_is_none_on_the_web_is_refused(checkout: Path) -> None:
    (checkout / JAR).write_bytes(b"the jar")
    done = build(checkout, "sdist", PUTIFABSENT_REPOSITORY="git@example.org:o/p.git")
    assert "is no address on the web: give one that begins with https://" in done.stderr
