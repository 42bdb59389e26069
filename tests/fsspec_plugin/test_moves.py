"""Moving: no way of a file or a folder into a table replaces a guarded name, whichever client moves."""

from __future__ import annotations

import asyncio
import gzip
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from putifabsent import NameTaken
from putifabsent.backends.local import LocalStore
from putifabsent.fsspec_plugin import GuardedFileSystem
from tests.stub import Cloud, Op, Step
from tests.stub.clients import filesystem

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground
    from tests.stub import FaultStub

WINNER = b"the winner's"
LATE = b"too late"
LOG = f"_delta_log/{0:020d}.json"


@pytest.fixture
def gcs(stub: FaultStub) -> Any:
    """Return a guarded gcsfs, which has an ``mv`` of its own."""
    return GuardedFileSystem(fs=filesystem(stub, "gcs"), arbiter="native", skip_instance_cache=True)


def held(stub: FaultStub) -> dict[str, bytes]:
    return {key: each.data for (_, key), each in stub.objects.items()}


# --- local disk ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["run[3]", "really?", "a*"])
@pytest.mark.parametrize("target", [LOG, "_delta_log", "_delta_log/"])
def test_on_disk_a_path_is_a_plain_name_whatever_it_holds(local: Ground, folder: str, target: str) -> None:
    fs, table = local.fs, local.name(folder)
    name, source = f"{table}/{LOG}", f"{table}/{LOG.rpartition('/')[2]}"
    fs.makedirs(f"{table}/_delta_log")
    fs.pipe_file(name, WINNER)
    local.write(source, LATE)
    with pytest.raises(NameTaken):
        fs.mv(source, f"{table}/{target}")
    assert (local.read(name), local.read(source)) == (WINNER, LATE)
    fs.rm_file(name)
    fs.mv(source, f"{table}/{target}")
    assert local.read(name) == LATE
    assert fs.backend.head(name).holder.token is not None


@pytest.mark.parametrize(
    "way", ["get_file", "get", "get all", "get several", "download", "_get_file", "_get"]
)
def test_on_disk_what_is_got_replaces_no_guarded_name(local: Ground, way: str) -> None:
    """There the local side is guarded, too."""
    fs, source, name = local.fs, local.name(f"stage/{LOG}"), local.name(LOG)
    fs.makedirs(local.name("stage/_delta_log"))
    local.write(source, LATE)

    def gets() -> None:
        if way == "get all":
            fs.get(f"{local.folder}/stage/_delta_log/", f"{local.folder}/_delta_log/", recursive=True)
        elif way == "get several":
            fs.get([source], [name])
        elif way.startswith("_"):
            asyncio.run(getattr(fs, way)(source, name))
        else:
            getattr(fs, way)(source, name)

    gets()
    assert (local.read(name), fs.backend.head(name).holder.writer) == (LATE, fs.writer)
    fs.rm_file(name)
    fs.pipe_file(name, WINNER)
    with pytest.raises(NameTaken):
        gets()
    assert local.read(name) == WINNER


def test_on_disk_what_nobody_guards_is_got_as_before(local: Ground) -> None:
    fs, source = local.fs, local.name("a")
    local.write(source, WINNER)
    for _ in range(2):
        fs.get_file(source, local.name("b"))
        fs.get(source, local.name("c"))
    with Path(local.name("d")).open("wb") as file:
        fs.get_file(source, file)
    assert [local.read(local.name(each)) for each in "bcd"] == [WINNER] * 3
    fs.makedirs(local.name("folder"))
    fs.get_file(local.name("folder"), local.name("another"))
    assert fs.isdir(local.name("another"))


def test_on_disk_a_large_file_is_never_in_memory_as_a_whole(
    local: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, body = local.fs, bytes(range(250)) * 100_000
    local.write(local.name("a"), body)
    read: list[int] = []

    def pread(file: int, length: int, offset: int) -> bytes:
        read.append(length)
        return real(file, length, offset)

    real = os.pread
    monkeypatch.setattr(os, "pread", pread)
    monkeypatch.delattr(LocalStore, "get")
    fs.cp_file(local.name("a"), local.log(0))
    fs.mv(local.name("a"), local.log(1))
    assert len(body) > fs.backend.largest_put >= max(read)
    assert (local.read(local.log(0)), local.read(local.log(1))) == (body, body)
    assert not local.is_there(local.name("a"))


def test_on_disk_a_file_that_nobody_guards_is_renamed(local: Ground) -> None:
    local.write(local.name("a"), WINNER)
    inode = Path(local.name("a")).stat().st_ino
    local.fs.mv(local.name("a"), local.name("b"))
    assert Path(local.name("b")).stat().st_ino == inode


def test_on_disk_a_folder_is_renamed_as_a_whole(local: Ground) -> None:
    fs = local.mount(guard=["**/anything/**", "**/anything"])
    fs.makedirs(local.name("from/deep"))
    local.write(local.name("from/deep/file"), WINNER)
    inode = Path(local.name("from/deep/file")).stat().st_ino
    fs.mv(local.name("from"), local.name("anything"), recursive=True)
    assert Path(local.name("anything/deep/file")).stat().st_ino == inode
    assert not local.is_there(local.name("from"))


@pytest.mark.parametrize("into", ["t", "t/", "t/_delta_log"])
def test_on_disk_a_folder_that_is_moved_onto_a_table_replaces_nothing(local: Ground, into: str) -> None:
    """Both in their own place and beside it."""
    for table, data in (("stage", LATE), ("t", WINNER)):
        local.fs.makedirs(local.name(f"{table}/_delta_log"))
        local.fs.pipe_file(local.name(f"{table}/{LOG}"), data)
    if into == "t/_delta_log":
        local.fs.mv(local.name("stage/_delta_log"), local.name(into))
    else:
        with pytest.raises(OSError, match="exists"):
            local.fs.mv(local.name("stage/_delta_log"), local.name(into))
        assert local.read(local.name(f"stage/{LOG}")) == LATE
    assert local.read(local.name(f"t/{LOG}")) == WINNER


def test_on_disk_a_table_takes_the_place_of_one_that_was_removed(local: Ground) -> None:
    fs = local.mount(arbiter="ballot", auto_mkdir=True)
    for table in ("backup", "t"):
        fs.pipe_file(local.name(f"{table}/{LOG}"), WINNER)
    fs.rm(local.name("t"), recursive=True)
    fs.mv(local.name("backup"), local.name("t"), recursive=True)
    assert fs.find(local.folder) == [local.name(f"t/{LOG}")]


def test_on_disk_a_folder_never_takes_the_place_of_a_guarded_name(local: Ground) -> None:
    local.fs.pipe_file(local.log(), WINNER)
    local.fs.makedirs(local.name("folder"))
    with pytest.raises(OSError, match="exists"):
        local.fs.mv(local.name("folder"), local.log())
    assert local.read(local.log()) == WINNER


def test_on_disk_a_link_to_a_folder_never_takes_the_place_of_a_guarded_name(local: Ground) -> None:
    local.fs.pipe_file(local.log(), WINNER)
    local.fs.makedirs(local.name("folder"))
    Path(local.name("link")).symlink_to(local.name("folder"))
    with pytest.raises(OSError, match="link"):
        local.fs.mv(local.name("link"), local.log())
    assert local.read(local.log()) == WINNER
    assert Path(local.name("link")).is_symlink()


@pytest.mark.parametrize("ground", ["memory-native", "s3-native", "local-ballot"], indirect=True)
def test_a_move_to_a_depth_loses_nothing_that_is_deeper(ground: Ground) -> None:
    ground.fs.pipe_file(ground.log(), b"{}")
    with pytest.raises(ValueError, match="would lose what is deeper"):
        ground.fs.mv(ground.folder, f"{ground.folder}-moved", recursive=True, maxdepth=1)
    assert ground.read(ground.log()) == b"{}"


@pytest.mark.parametrize("ground", ["s3-native", "s3-ballot", "local-ballot"], indirect=True)
@pytest.mark.parametrize("target", ["new", "there/"])
def test_what_is_committed_while_a_table_is_moved_goes_along(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    fs, source, names = ground.fs, ground.name("t"), [f"_delta_log/{number:020d}.json" for number in range(3)]
    late, copy = ground.mount(skip_instance_cache=True), GuardedFileSystem.copy
    for folder in source, ground.name("there"):
        ground.around.makedirs(f"{folder}/_delta_log", exist_ok=True)
    fs.pipe({f"{source}/{name}": b"{}" for name in names[:2]})
    ground.write(ground.name("there/other"), b"other")

    def another_commits(*args: Any, **options: Any) -> Any:
        done = copy(*args, **options)
        monkeypatch.undo()
        ground.around.makedirs(f"{source}/part", exist_ok=True)
        ground.write(f"{source}/part/data", b"data")
        late.pipe_file(f"{source}/{names[2]}", b"{}")
        return done

    monkeypatch.setattr(GuardedFileSystem, "copy", another_commits)
    fs.mv(source, ground.name(target), recursive=True)
    moved = ground.name(target) + "t" * target.endswith("/")
    kept = sorted(name for name in fs.find(moved) if not name.endswith("/other"))
    assert kept == sorted(f"{moved}/{name}" for name in [*names, "part/data"])
    assert fs.find(source) == []


def test_on_disk_an_asynchronous_move_into_a_folder_creates_there(local: Ground) -> None:
    fs = local.mount(asynchronous=True, skip_instance_cache=True)
    last = local.log().rpartition("/")[2]
    local.write(local.log(), WINNER)
    local.write(local.name(last), LATE)
    with pytest.raises(NameTaken):
        asyncio.run(fs._mv_file(local.name(last), local.name("_delta_log")))
    assert local.read(local.log()) == WINNER
    local.fs.rm(local.log())
    asyncio.run(fs._mv_file(local.name(last), local.name("_delta_log")))
    assert local.read(local.log()) == LATE


# --- a client with an `mv` of its own -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "recursive"),
    [
        ("bucket/stage/_delta_log", "bucket/t/", True),
        ("bucket/stage/_delta_log/", "bucket/t/_delta_log", True),
        ("bucket/stage", "bucket/t", True),
        ("bucket/stage/_delta_log/*.json", "bucket/t/_delta_log/", False),
        (f"bucket/stage/{LOG}", f"bucket/t/{LOG}", True),
        (f"bucket/stage/{LOG}", "bucket/t/_delta_log/", False),
        ([f"bucket/stage/{LOG}"], [f"bucket/t/{LOG}"], False),
    ],
)
def test_no_move_of_gcsfs_replaces_a_guarded_name(
    stub: FaultStub, gcs: Any, source: Any, target: Any, recursive: bool
) -> None:
    gcs.pipe_file(f"bucket/t/{LOG}", WINNER)
    stub.put("bucket", f"stage/{LOG}", LATE)
    into = f"t/stage/{LOG}" if source == "bucket/stage" else None  # the folder exists: it goes inside
    if into:
        gcs.pipe_file(f"bucket/{into}", WINNER)
    with pytest.raises(NameTaken):
        gcs.mv(source, target, recursive=recursive)
    expected = {f"t/{LOG}": WINNER, f"stage/{LOG}": LATE, **({into: WINNER} if into else {})}
    assert held(stub) == expected


def test_a_folder_on_gcs_is_moved_with_all_that_is_below_it(stub: FaultStub, gcs: Any) -> None:
    for key in (LOG, "part", "deep/er/part"):
        stub.put("bucket", f"stage/{key}", key.encode())
    gcs.mv("bucket/stage", "bucket/t", recursive=True)
    assert held(stub) == {f"t/{key}": key.encode() for key in (LOG, "part", "deep/er/part")}
    assert gcs.backend.head(f"bucket/t/{LOG}").holder.token is not None


def test_an_object_that_is_named_as_a_folder_is_moved_with_it(stub: FaultStub, gcs: Any) -> None:
    for key in ("stage/a/b", "stage/a"):
        stub.put("bucket", key, key.encode())
    gcs.mv("bucket/stage", "bucket/t", recursive=True)
    assert held(stub) == {"t/a/b": b"stage/a/b", "t/a": b"stage/a"}


def test_a_folder_whose_file_can_not_be_copied_stays(stub: FaultStub, gcs: Any) -> None:
    """A missing bucket says "not found", as does a folder that is no object."""
    stub.put("bucket", "stage/part", LATE)
    with pytest.raises(FileNotFoundError):
        gcs.mv("bucket/stage", "no-such-bucket/t", recursive=True)
    assert held(stub) == {"stage/part": LATE}


@pytest.mark.parametrize("size", [8, 20 * 2**20], ids=["small", "large"])
def test_a_source_that_is_a_folder_as_well_is_not_copied_round_the_guard(
    stub: FaultStub, on_stub: Any, size: int
) -> None:
    fs, new = on_stub(skip_instance_cache=True), b"b" * size
    stub.put("bucket", "src", b"a" * size)
    stub.put("bucket", "src/child", b"")
    stub.put("bucket", f"t/{LOG}", WINNER)
    if size == 8:
        gone = Step(
            before=lambda store: store.delete("bucket", "src"),
            after=lambda store: store.put("bucket", "src", new),
        )
        stub.script(Op.GET, gone)
    else:
        stub.script(Op.PART_COPY, Step(before=lambda store: store.put("bucket", "src", new)))
    with pytest.raises(FileNotFoundError):
        fs.cp_file("bucket/src", f"bucket/t/{LOG}")
    assert stub.objects["bucket", f"t/{LOG}"].data == WINNER


@pytest.mark.parametrize("way", ["put", "parts"])
@pytest.mark.parametrize("cloud", get_args(Cloud))
def test_an_object_s_own_metadata_and_type_go_with_it(
    stub: FaultStub, cloud: Cloud, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, name = filesystem(stub, cloud), "bucket/t/claimed"
    fs = GuardedFileSystem(fs=plain, arbiter="native", guard=["**/claimed"], skip_instance_cache=True)
    monkeypatch.setattr(type(fs.backend), "largest_put", 3 if way == "parts" else 16)
    own = {"who": "me", "putifabsenttoken": "another's"}
    stub.call(lambda state: state.put("bucket", "src", WINNER, own, content_type="text/plain"))
    fs.mv("bucket/src", name)
    made = stub.objects["bucket", "t/claimed"]
    assert (made.data, made.metadata["who"], made.content_type) == (WINNER, "me", "text/plain")
    assert made.metadata["putifabsenttoken"] != "another's"


@pytest.mark.parametrize(("arbiter", "largest"), [("native", 2**20), ("native", 16), ("ballot", 2**20)])
@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "deflate"])
@pytest.mark.parametrize("cloud", ["gcs", "azure"])
def test_what_is_kept_compressed_is_moved_as_it_is_read(
    stub: FaultStub,
    monkeypatch: pytest.MonkeyPatch,
    cloud: Cloud,
    encoding: str,
    arbiter: str,
    largest: int,
) -> None:
    """GCS, or the client, unpacks it: more bytes come than the store says that it has."""
    fs = GuardedFileSystem(fs=filesystem(stub, cloud), arbiter=arbiter, skip_instance_cache=True)
    monkeypatch.setattr(type(fs.backend), "largest_put", largest)
    commit, own = b'{"commitInfo":{}}' * 99, {"who": "me"}
    packed = gzip.compress(commit) if encoding != "deflate" else zlib.compress(commit)[2:-4]
    stub.call(lambda state: state.put("bucket", "t/source", packed, own, encoding=encoding))
    fs.mv("bucket/t/source", f"bucket/t/{LOG}")
    assert fs.cat_file(f"bucket/t/{LOG}") == commit
    assert arbiter != "native" or stub.objects["bucket", f"t/{LOG}"].metadata["who"] == "me"
    assert not fs.exists("bucket/t/source")
