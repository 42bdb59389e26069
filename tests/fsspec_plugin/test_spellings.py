"""A guarded name is guarded however it is said: in steps, or with a version."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import NameTaken
from putifabsent.fsspec_plugin import GuardedFileSystem
from putifabsent.fsspec_plugin.paths import spelled_out
from tests.stub.clients import filesystem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stub import FaultStub
    from tests.stub.server import Cloud

    Mount = Callable[..., Any]

WINNER = b"the winner's"
LATE = b"too late"
LAST = f"{0:020d}.json"
NAME = f"bucket/t/_delta_log/{LAST}"
CLOUDS: list[Cloud] = ["s3", "gcs", "azure"]
STEPS = [
    f"bucket/t/_delta_log/x/../{LAST}",
    f"bucket/t/_delta_log/./{LAST}",
    f"bucket/t/x/.././_delta_log/{LAST}",
    f"bucket/t/_delta_log/x//../../{LAST}",
    f"bucket/x/../../bucket/t/_delta_log/{LAST}",
    f"./bucket/t/_delta_log/{LAST}",
]
VERSIONS: list[tuple[Cloud, str]] = [
    ("s3", "?versionId=x"),
    ("s3", "?versionId="),
    ("azure", "?versionid=x"),
    ("gcs", "#1234"),
    ("gcs", "?generation=1234"),
]


@pytest.fixture
def mount(stub: FaultStub) -> Mount:
    def mounted(cloud: Cloud, **options: Any) -> Any:
        wrapped = filesystem(stub, cloud, **options)
        return GuardedFileSystem(fs=wrapped, arbiter="native", skip_instance_cache=True)

    return mounted


def written(fs: Any, name: str, data: bytes) -> None:
    with fs.open(name, "wb") as file:
        file.write(data)


def ways(fs: Any, name: str, here: Path) -> list[Callable[[], Any]]:
    (here / "file").write_bytes(LATE)
    return [
        lambda: fs.pipe_file(name, LATE),
        lambda: fs.pipe_file(name, LATE, mode="create"),
        lambda: fs.pipe({name: LATE}),
        lambda: fs.put_file(str(here / "file"), name),
        lambda: fs.put(str(here / "file"), name),
        lambda: fs.cp_file("bucket/source", name),
        lambda: fs.mv("bucket/source", name),
        lambda: fs.touch(name),
        lambda: fs.touch(name, truncate=False),
        lambda: written(fs, name, LATE),
        lambda: asyncio.run(fs.open_async(name, "wb")),
    ]


@pytest.mark.parametrize("said", STEPS)
@pytest.mark.parametrize("cloud", CLOUDS)
def test_no_steps_lead_round_the_guard(
    stub: FaultStub, mount: Mount, cloud: Cloud, said: str, tmp_path: Path
) -> None:
    """Azure's client takes them: it would write the guarded name."""
    fs = mount(cloud)
    fs.pipe_file(NAME, WINNER)
    stub.put("bucket", "source", LATE)
    before = dict(stub.objects)
    for write in ways(fs, said, tmp_path):
        with pytest.raises(ValueError, match="say the name it stands for"):
            write()
    assert stub.objects == before


def test_steps_in_names_that_nobody_guards_are_the_wrapped_filesystems(stub: FaultStub, mount: Mount) -> None:
    mount("s3").pipe_file("bucket/t/x/../data", LATE)
    assert [key for _, key in stub.objects] == ["t/x/../data"]
    assert mount("s3").explain(f"bucket/t/.hoodie/{LAST}").path == f"bucket/t/.hoodie/{LAST}"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_source_that_is_said_in_steps_is_not_guessed(stub: FaultStub, mount: Mount, cloud: Cloud) -> None:
    fs = mount(cloud)
    stub.put("bucket", "source", LATE)
    for copy in (fs.cp_file, fs.mv):
        with pytest.raises(ValueError, match="say the name it stands for"):
            copy("bucket/x/../source", NAME)
    assert [key for _, key in stub.objects] == ["source"]


@pytest.mark.parametrize(("cloud", "version"), VERSIONS)
def test_a_version_of_a_guarded_name_can_not_be_written(
    stub: FaultStub, mount: Mount, cloud: Cloud, version: str, tmp_path: Path
) -> None:
    """The client cuts it off and writes the name, even where it knows nothing of versions."""
    fs = mount(cloud, **({"version_aware": True} if cloud == "gcs" else {}))
    fs.pipe_file(NAME, WINNER)
    stub.put("bucket", "source", LATE)
    before = dict(stub.objects)
    for write in ways(fs, NAME + version, tmp_path):
        with pytest.raises(ValueError, match="a version can't be written"):
            write()
    assert stub.objects == before
    assert fs.explain(NAME + version).guarded


@pytest.mark.parametrize(("cloud", "version"), VERSIONS)
def test_a_version_is_not_created(mount: Mount, stub: FaultStub, cloud: Cloud, version: str) -> None:
    fs = mount(cloud, **({"version_aware": True} if cloud == "gcs" else {}))
    with pytest.raises(ValueError, match="a version can't be written"):
        fs.pipe_file(f"bucket/data{version}", LATE, mode="create")
    assert stub.objects == {}


@pytest.mark.parametrize(("cloud", "version"), VERSIONS)
def test_a_guarded_name_is_not_copied_from_a_version(
    stub: FaultStub, mount: Mount, cloud: Cloud, version: str
) -> None:
    """Only the newest could be had: the wrong bytes would stay."""
    fs = mount(cloud, **({"version_aware": True} if cloud == "gcs" else {}))
    stub.put("bucket", "source", LATE)
    with pytest.raises(ValueError, match="names one version"):
        fs.cp_file(f"bucket/source{version}", NAME)
    with pytest.raises((ValueError, FileNotFoundError)):  # to `mv` a question mark is a pattern
        fs.mv(f"bucket/source{version}", NAME)
    assert [key for _, key in stub.objects] == ["source"]


@pytest.mark.parametrize(
    ("cloud", "suffix"), [("s3", "#1"), ("s3", "?versionid=x"), ("azure", "?versionId=x"), ("gcs", "#1")]
)
def test_what_no_client_cuts_off_belongs_to_the_name(
    stub: FaultStub, mount: Mount, cloud: Cloud, suffix: str
) -> None:
    fs = mount(cloud)
    fs.pipe_file(f"bucket/data{suffix}", LATE, mode="create")
    with pytest.raises(NameTaken):
        fs.pipe_file(f"bucket/data{suffix}", LATE, mode="create")
    assert [key for _, key in stub.objects] == [f"data{suffix}"]


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        ("b/a/../c", "b/c"),
        ("b//a/./c", "b//a/c"),
        ("b/a//../c", "b/a/c"),
        ("../../b/c", "b/c"),
        ("b/..a/.b/c..", "b/..a/.b/c.."),
        ("/b/c", "b/c"),
    ],
)
def test_steps_are_taken_as_an_address_takes_them(path: str, spelled: str) -> None:
    assert spelled_out(path, "azure") == spelled
    assert spelled_out(path, "memory") == path
