"""Timelines through guarded filesystems: plain ones, and those where each session keeps its own instants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from obstore.fsspec import FsspecStore

from putifabsent.shim.formats.hudi_salt import salt_of
from putifabsent.timeline import HudiTimeline, check_steps, files, read
from tests.stub import FaultStub
from tests.timeline.tables import Delta, Hudi, Paimon, avro

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

T1, T2 = "20260101120000001", "20260101120000002"
C1 = "20260101120100001"


@pytest.fixture
def deciding_nothing() -> Iterator[FaultStub]:
    with FaultStub(conditions="ignored") as running:
        yield running


def test_a_guarded_filesystem_reads_it_as_well(tmp_path: Path) -> None:
    fs = fsspec.filesystem("piafile")
    table = Hudi(fs, str(tmp_path / "t"))
    table.commit(T1, C1)
    (instant,) = read(f"piafile://{table.root}").records()
    assert (instant.action, instant.salt) == ("commit", "")


def test_snapshots_and_commits_are_read_through_one_as_well(tmp_path: Path) -> None:
    fs = fsspec.filesystem("piafile")
    Paimon(fs, str(tmp_path / "p")).snapshot(1)
    Delta(fs, str(tmp_path / "d")).commit(0, {"commitInfo": {"operation": "WRITE"}})
    found = [read(f"{tmp_path}/{last}", fs=fs).table().column("action").to_pylist() for last in "pd"]
    assert found == [["APPEND"], ["WRITE"]]


@pytest.fixture(params=["obstore", "simplecache"])
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, str]:
    """A filesystem whose own ranges are no way to read whole files, and a folder there."""
    if request.param == "obstore":
        return FsspecStore("file"), str(tmp_path)
    cache = str(tmp_path / "cache")
    return fsspec.filesystem("simplecache", target_protocol="file", cache_storage=cache), str(tmp_path)


def test_a_filesystem_that_has_no_ranges_without_ends_reads_it_as_well(whole: tuple[Any, str]) -> None:
    fs, folder = whole
    fs.pipe_file(f"{folder}/0", b"0")
    assert list(files.read(fs, [f"{folder}/0", f"{folder}/expired"])) == [(f"{folder}/0", b"0")]


def test_what_others_have_written_is_seen_though_the_filesystem_caches_listings() -> None:
    with FaultStub() as stub:
        mine, others = (
            fsspec.filesystem("s3", skip_instance_cache=True, **stub.storage_options("s3")) for _ in range(2)
        )
        table = Hudi(others, "bucket/t")
        timeline = read("bucket/t", fs=mine)
        table.commit(T1, C1)
        assert [each.time for each in timeline.active()] == [T1]
        table.put(f"{T2}.commit.requested")
        assert [each.time for each in timeline.active()] == [T1, T2]


def test_instants_that_sessions_keep_side_by_side_are_read_by_all_in_one_order(
    deciding_nothing: FaultStub,
) -> None:
    options = deciding_nothing.storage_options("s3")
    root = "bucket/t"
    plain = fsspec.filesystem("s3", **options)
    Hudi(plain, root)
    sessions = ("one", "another")
    mounts = {
        each: fsspec.filesystem("pias3", salt="keep-both", writer_session=each, **options)
        for each in sessions
    }
    folder = f"{root}/.hoodie/timeline"
    for session, fs in mounts.items():
        for last in (f"{T1}.commit.requested", f"{T1}.inflight", f"{T1}_{C1}.commit"):
            fs.pipe_file(f"{folder}/{last}", avro(session) if last.endswith("t") else b"")
    mounts["one"].pipe_file(f"{folder}/{T2}.commit.requested", b"")

    expected = [(T1, salt, "completed") for salt in sorted(map(salt_of, sessions))] + [
        (T2, salt_of("one"), "requested")
    ]
    whose = {salt_of(each): each for each in sessions}
    for fs in (plain, *mounts.values()):
        timeline = HudiTimeline(fs, root)
        found = list(timeline.active())
        assert [(each.time, each.salt, each.state.value) for each in found] == expected
        told = {each.salt: timeline.details(each).metadata for each in found[:2]}
        assert {salt: said and said.value["operationType"] for salt, said in told.items()} == whose
        assert check_steps(found) == []
