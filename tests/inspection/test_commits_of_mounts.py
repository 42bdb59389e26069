"""A mount lets no commit by that would hurt its table, however it comes; those of real writers it creates."""

from __future__ import annotations

import asyncio
import io
import json
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec.asyn import get_loop

from putifabsent.errors import ConfigError, Damaging
from putifabsent.fsspec_plugin import GuardedFileSystem
from putifabsent.fsspec_plugin.remote import Remote
from putifabsent.inspection import Kind, inspect
from putifabsent.inspection.inspecting import Commits
from putifabsent.shim.formats.hudi_files import writes_in
from putifabsent.shim.policy import Policy
from putifabsent.timeline import HudiTimeline, read
from tests.fsspec_plugin.children import in_a_child
from tests.inspection.tables import Delta, Late, Paimon, delta_log, packed
from tests.stub import FaultStub

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.inspection.conftest import Place

ARBITERS = ["native", "ballot"]


def _streamed(fs: Any, path: str) -> None:
    with fs.open(path, "wb") as file:
        file.write(fs.cat_file(f"{path}.tmp"))


COMMITS: dict[str, Callable[[Any, str], None]] = {
    "written": lambda fs, path: fs.pipe_file(path, fs.cat_file(f"{path}.tmp")),
    "renamed": lambda fs, path: fs.mv(f"{path}.tmp", path),
    "streamed": _streamed,
    "awaited": lambda fs, path: asyncio.run(fs._pipe_file(path, fs.cat_file(f"{path}.tmp"))),
}


@pytest.mark.parametrize("arbiter", ARBITERS)
@pytest.mark.parametrize("how", COMMITS)
def test_a_mount_refuses_what_would_hurt_and_creates_what_would_not(
    place: Place, delta: Delta, how: str, arbiter: str
) -> None:
    fs = GuardedFileSystem(fs=place.fs, inspect="commits", arbiter=arbiter, skip_instance_cache=True)
    path = f"{place.root}/{delta_log(2)}"
    delta.write(f"{delta_log(2)}.tmp", json.dumps({"add": {"path": "d"}}))
    with pytest.raises(Damaging, match="the table has a file that is not there, added by commit 2"):
        COMMITS[how](fs, path)
    assert not fs.exists(path)
    delta.write("d")
    COMMITS[how](fs, path)
    assert fs.cat_file(path) == json.dumps({"add": {"path": "d"}}).encode()


class Broken(Exception):
    """Of a wrapper around a stream."""


def wrapped(fs: Any, path: str, body: bytes) -> None:
    """Write half of a commit through a wrapper that fails, and closes the stream nevertheless."""
    with fs.open(path, "wb") as file, io.BufferedWriter(file) as wrapper:
        wrapper.write(body[: len(body) // 2])
        raise Broken


@pytest.mark.parametrize(
    "name", ["raced_hudi", "raced_hudi_mor", "raced_delta", "raced_paimon", "killed_hudi", "hudi_v6"]
)
def test_what_fails_in_a_wrapper_around_a_stream_publishes_nothing(tmp_path: Path, name: str) -> None:
    root = packed(name, tmp_path)
    stock = fsspec.filesystem("file")
    records = [each for each in read(root).active() if each.row().get("state") in (None, "completed")]
    path = records[-1].row()["path"]
    body = stock.cat_file(path)
    for fs in (stock, fsspec.filesystem("piafile", skip_instance_cache=True)):
        stock.rm_file(path)
        with pytest.raises((Broken, Damaging)):
            wrapped(fs, path, body)
        assert stock.exists(path) is (fs is stock)
        if fs is stock:
            assert Kind.UNREADABLE in [each.kind for each in inspect(root, data=False).damage]
    GuardedFileSystem(fs=stock, skip_instance_cache=True).pipe_file(path, body)


def test_a_mount_looks_at_no_more_than_is_asked_for(place: Place, delta: Delta) -> None:
    fs = GuardedFileSystem(fs=place.fs, inspect="off", skip_instance_cache=True)
    fs.pipe_file(f"{place.root}/{delta_log(2)}", json.dumps({"add": {"path": "d"}}).encode())
    with pytest.raises(ConfigError, match="inspect must be 'commits' or 'off', not 'all'"):
        GuardedFileSystem(fs=place.fs, inspect="all", skip_instance_cache=True)


def test_an_asynchronous_mount_judges_commits_too(place: Place, tmp_path: Path) -> None:
    async def commit() -> None:
        fs = GuardedFileSystem(
            target_protocol="memory", inspect="commits", asynchronous=True, skip_instance_cache=True
        )
        table = f"{place.root}/_delta_log"
        await fs._pipe_file(f"{table}/{0:020d}.json", b'{"add": {"path": "d"}}')

    with pytest.raises(Damaging, match="added by commit 0"):
        asyncio.run(commit())


def test_a_command_overwrites_unjudged_and_nobody_else_does(place: Place, paimon: Paimon) -> None:
    fs = GuardedFileSystem(fs=place.fs, inspect="commits", arbiter="native", skip_instance_cache=True)
    paimon.commit(3, "c", upon=("a",))
    late = Late(place, "snapshot/snapshot-3")
    with pytest.raises(Damaging, match="was not committed upon snapshot 2"):
        Remote(fs).create_as(late.path, late.body, str(uuid.uuid4()))
    assert Remote(fs).create_as(late.path, late.body, str(uuid.uuid4()), overwrite=True)


def test_a_forked_child_waits_for_no_thread_of_its_parents(place: Place) -> None:
    fs = GuardedFileSystem(fs=place.fs, inspect="commits", skip_instance_cache=True)
    commits: Any = fs.guard.commits
    with commits._lock:
        child = os.fork()
        if not child:
            os._exit(not commits._lock.acquire(timeout=5))
        assert os.waitpid(child, 0)[1] == 0


# Real writers' tables


def cleaned(timeline: Any, root: str) -> list[str]:
    """Return the slices that instants of a Hudi table have written; a cleaner may have removed some since."""
    if not isinstance(timeline, HudiTimeline):
        return []
    said = [timeline.details(each).metadata for each in timeline.active()]
    writes = [write for each in said if each is not None for write in writes_in(each.value)]
    return [
        "/".join(part for part in (root, write.group.partition, last) if part)
        for write in writes
        for last in write.lasts
    ]


@pytest.mark.parametrize(
    "name", ["raced_hudi", "raced_hudi_mor", "raced_delta", "raced_paimon", "killed_hudi"]
)
def test_no_commit_of_a_real_writer_is_refused(tmp_path: Path, name: str) -> None:
    root = packed(name, tmp_path)
    fs = fsspec.filesystem("file")
    timeline = read(root)
    records = sorted(
        (each for each in timeline.active() if each.row().get("state") in (None, "completed")),
        key=lambda each: each.key("completed"),
    )
    paths = [each.row()["path"] for each in records]
    bodies = {path: fs.cat_file(path) for path in paths}
    missing = [each for each in cleaned(timeline, root) if not fs.exists(each)]
    for each in missing:
        fs.touch(each)
    for path in paths:
        fs.rm_file(path)
    commits = Commits(lambda: fs)
    for path, body in bodies.items():
        commits.check(Policy("auto").classify(path), body)
        fs.pipe_file(path, body)
    assert len(bodies) > 3


def judged_at_once(tables: int) -> list[str]:
    """Commit to some tables at once in a loop that has a thread of its own; return what is there then."""
    with FaultStub() as stub:
        options: dict[str, Any] = {"arbiter": "native", "inspect": "commits", **stub.storage_options("s3")}
        fs = fsspec.filesystem("pias3", **options)
        get_loop().set_default_executor(ThreadPoolExecutor(1))
        for number in range(tables):
            for key, said in (("f.parquet", {}), (delta_log(0), {"metaData": {"id": "x"}})):
                stub.put("bucket", f"t{number}/{key}", json.dumps(said).encode())
        add = {"add": {"path": "f.parquet", "size": 2, "dataChange": True, "partitionValues": {}}}
        fs.pipe({f"bucket/t{number}/{delta_log(1)}": json.dumps(add).encode() for number in range(tables)})
        return [key for _, key in stub.objects if key.endswith(delta_log(1))]


def test_as_many_commits_are_judged_at_once_as_there_are() -> None:
    """By a new client, too, which needs a thread of the loop's own for its first request."""
    assert len(in_a_child("spawn", judged_at_once, 4)) == 4
