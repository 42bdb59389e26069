"""Half of a guarded file is refused by every way in, before anything is sent, and the name stays free."""

from __future__ import annotations

import asyncio
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import Damaging
from putifabsent.backends.probe import BESIDE, NEEDED
from putifabsent.fsspec_plugin import GuardedFileSystem
from putifabsent.fsspec_plugin.remote import Remote
from tests.fsspec_plugin.hudi_tables import Writer, plan_of, records_of
from tests.stub.clients import filesystem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fsspec_plugin.grounds import Ground
    from tests.stub import FaultStub
    from tests.stub.server import Cloud

    Way = Callable[[Any, str, str, Path], Any]

WHOLE = b'{"commitInfo":{}}\n{"add":{"path":"a"}}\n'
HALF = WHOLE[:-4]
TOKEN = "5d5a9f4e-0a4c-4c1b-9d5c-3b6f6f0c2f11"


def source(here: Path) -> str:
    (here / "source").write_bytes(HALF)
    return str(here / "source")


def written(fs: Any, name: str) -> None:
    file = fs.open(name, "wb")
    file.write(HALF)
    file.close()


def written_in_a_transaction(fs: Any, name: str) -> None:
    with fs.transaction:
        written(fs, name)


WAYS: dict[str, Way] = {
    "pipe_file": lambda fs, name, _, here: fs.pipe_file(name, HALF),
    "pipe_file, create": lambda fs, name, _, here: fs.pipe_file(name, HALF, mode="create"),
    "pipe": lambda fs, name, _, here: fs.pipe({name: HALF}),
    "put_file": lambda fs, name, _, here: fs.put_file(source(here), name),
    "put": lambda fs, name, _, here: fs.put([source(here)], [name]),
    "open": lambda fs, name, _, here: written(fs, name),
    "a transaction": lambda fs, name, _, here: written_in_a_transaction(fs, name),
    "cp_file": lambda fs, name, temporary, here: fs.cp_file(temporary, name),
    "mv": lambda fs, name, temporary, here: fs.mv(temporary, name),
    "create_as": lambda fs, name, _, here: Remote(fs).create_as(name, HALF, TOKEN),
    "rename_as": lambda fs, name, temporary, here: Remote(fs).rename_as(temporary, name, TOKEN),
    "_pipe_file": lambda fs, name, _, here: asyncio.run(fs._pipe_file(name, HALF)),
    "_put_file": lambda fs, name, _, here: asyncio.run(fs._put_file(source(here), name)),
    "_cp_file": lambda fs, name, temporary, here: asyncio.run(fs._cp_file(temporary, name)),
    "_mv_file": lambda fs, name, temporary, here: asyncio.run(fs._mv_file(temporary, name)),
}


def let_through(ground: Ground, here: Path) -> set[str]:
    """Return the ways by which half a file gets a guarded name, or takes its source along."""
    through = set()
    for number, (way, go) in enumerate(WAYS.items()):
        if way.startswith("_") and ground.kind == "s3":
            continue  # its client knows one loop
        temporary, name = ground.name("temporary"), ground.log(2 * number)
        ground.write(temporary, HALF)
        fs = ground.mount(skip_instance_cache=True)
        try:
            go(fs, name, temporary, here)
        except Damaging as error:
            assert error.name == name  # noqa: PT017 - it is one of many ways
        else:
            through.add(way)
        if ground.is_there(name) or not ground.is_there(temporary):
            through.add(way)
            ground.around.rm_file(name)
    return through


def test_half_a_file_gets_no_name_by_any_way(ground: Ground, tmp_path: Path) -> None:
    assert let_through(ground, tmp_path) == set()
    ground.fs.pipe_file(ground.log(), WHOLE)
    assert ground.read(ground.log()) == WHOLE


@pytest.mark.parametrize(
    ("forgetful", "ways"),
    [
        ("putifabsent.fsspec_plugin.guard", {"pipe_file", "put_file", "open", "create_as", "_pipe_file"}),
        ("putifabsent.shim.create", {"cp_file", "mv", "rename_as", "_cp_file", "_mv_file"}),
    ],
)
def test_a_door_that_does_not_look_is_convicted(
    forgetful: str, ways: set[str], memory: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{forgetful}.check_whole", lambda name, body: None)
    assert let_through(memory, tmp_path) >= ways


@pytest.mark.parametrize("way", ["pipe_file", "open", "_pipe_file"])
def test_nothing_is_sent_for_half_a_file(stub: FaultStub, tmp_path: Path, way: str) -> None:
    fs = GuardedFileSystem(fs=filesystem(stub, "s3"), arbiter="native", skip_instance_cache=True)
    fs.mount.relied["bucket"] = {*NEEDED, *BESIDE}
    with pytest.raises(Damaging):
        WAYS[way](fs, "bucket/t/_delta_log/00000000000000000000.json", "", tmp_path)
    assert {request.method for request in stub.requests} <= {
        "HEAD"
    }  # which `open` sends before it is written
    assert len(stub.requests) == (way == "open")


def test_a_large_half_that_has_gone_ahead_leaves_nothing(s3: Ground) -> None:
    line = b'{"add":{"path":"%s"}}\n' % (b"x" * 2**20)
    file = s3.fs.open(s3.log(), "wb")
    for _ in range(24):
        file.write(line)
    file.write(line[:-3])
    with pytest.raises(Damaging):
        file.close()
    assert not s3.is_there(s3.log())


@pytest.mark.parametrize("way", ["cp_file", "mv", "rename_as"])
@pytest.mark.parametrize(
    "cloud",
    ["s3", pytest.param("gcs", marks=pytest.mark.clouds), pytest.param("azure", marks=pytest.mark.clouds)],
)
def test_half_a_source_that_the_store_would_copy_by_itself_is_refused_before(
    stub: FaultStub, cloud: Cloud, way: str, tmp_path: Path
) -> None:
    fs = GuardedFileSystem(fs=filesystem(stub, cloud), arbiter="native", skip_instance_cache=True)
    fs.backend.largest_put = len(HALF) - 1
    name = f"bucket/t/_delta_log/{0:020d}.json"
    for body in HALF, WHOLE:
        stub.put("bucket", "t/temporary", body)
        if body == HALF:
            with pytest.raises(Damaging):
                WAYS[way](fs, name, "bucket/t/temporary", tmp_path)
            assert {request.method for request in stub.requests} <= {"HEAD", "GET"}
        else:
            WAYS[way](fs, name, "bucket/t/temporary", tmp_path)
    assert stub.objects["bucket", name.partition("/")[2]].data == WHOLE


@pytest.mark.parametrize("way", ["cp_file", "mv"])
@pytest.mark.parametrize("ground", ["local-native", "s3-native"], indirect=True)
def test_of_a_large_source_the_ends_are_looked_at(ground: Ground, way: str, tmp_path: Path) -> None:
    line = b'{"add":{"path":"%s"}}\n' % (b"x" * 2**20)
    temporary = ground.name("temporary")
    ground.write(temporary, line * 17 + line[:-3])
    with pytest.raises(Damaging):
        WAYS[way](ground.fs, ground.log(), temporary, tmp_path)
    assert ground.is_there(temporary)
    assert not ground.is_there(ground.log())
    ground.write(temporary, line * 18)
    WAYS[way](ground.fs, ground.log(), temporary, tmp_path)
    assert ground.read(ground.log()) == line * 18


def test_half_a_commit_is_no_record_and_the_instant_goes_on(ground: Ground, a: Writer) -> None:
    body = plan_of("100")
    a.begins("100")
    before = records_of(ground, a.root)
    with pytest.raises(Damaging, match="sync marker"):
        a.completes("100", body[:-1])
    with pytest.raises(Damaging, match="there are none"):
        a.completes("100", b"")
    assert records_of(ground, a.root) == before
    a.completes("100", body)
    assert ground.read(a.completed("100")) == body


def test_a_touched_name_is_empty_where_its_format_may_be(ground: Ground, a: Writer) -> None:
    ground.fs.touch(ground.log())
    a.fs.touch(a.requested("100"))
    with pytest.raises(Damaging):
        a.fs.touch(a.completed("100"))


def test_the_refusal_pickles() -> None:
    error = pickle.loads(pickle.dumps(Damaging("t/name", "why")))
    assert (error.name, error.reason, error.filename) == ("t/name", "why", "t/name")
    assert isinstance(error, OSError)


def test_a_loop_is_not_held_up_by_a_look_at_many_bytes(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[threading.Thread] = []
    monkeypatch.setattr(
        "putifabsent.fsspec_plugin.guard.check_whole",
        lambda name, body: looked.append(threading.current_thread()),
    )
    asyncio.run(memory.fs._pipe_file(memory.log(), b"x" * 2**20))
    assert looked != [threading.main_thread()]
