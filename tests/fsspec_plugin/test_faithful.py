"""What the wrapped filesystem has is there, and means the same; guarded names are guarded still."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
import zarr
from aiobotocore.session import AioSession
from fsspec.asyn import sync
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from s3fs import S3FileSystem

from putifabsent.errors import ConfigError, NameTaken
from putifabsent.fsspec_plugin import GuardedFileSystem, guard_protocol, unguard_protocol
from tests.stub import FaultStub
from tests.stub.clients import filesystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fsspec_plugin.grounds import Ground
    from tests.stub import Cloud

LOG = "_delta_log/00000000000000000001.json"
BODY = b"mine"

# --- a folder is not left by `..`


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Make a folder beside a secret."""
    (tmp_path / "secret").write_bytes(b"secret")
    inside = tmp_path / "base"
    inside.mkdir()
    (inside / "own").write_bytes(b"own")
    return inside


def by_plain_protocol(base: Path) -> Any:
    guard_protocol("file")
    try:
        return fsspec.filesystem("dir", path=str(base), target_protocol="file")
    finally:
        unguard_protocol("file")


FOLDERS: dict[str, Callable[[Path], Any]] = {
    "stock": lambda base: DirFileSystem(str(base), LocalFileSystem()),
    "piafile": lambda base: DirFileSystem(str(base), fsspec.filesystem("piafile")),
    "by another arbiter": lambda base: DirFileSystem(
        str(base), fsspec.filesystem("piafile", arbiter="ballot")
    ),
    "wrapping": lambda base: DirFileSystem(str(base), GuardedFileSystem(fs=LocalFileSystem())),
    "by target": lambda base: DirFileSystem(str(base), GuardedFileSystem(target_protocol="file")),
    "by options": lambda base: fsspec.filesystem("dir", path=str(base), target_protocol="piafile"),
    "by address": lambda base: fsspec.core.url_to_fs(f"dir::piafile://{base}")[0],
    "chained": lambda base: fsspec.core.url_to_fs(f"dir::putifabsent::file://{base}")[0],
    "plain protocol": by_plain_protocol,
}
OUT = "../secret"
LEAVING: dict[str, Callable[[Any, str], Any]] = {
    "cat": lambda fs, _: fs.cat(OUT),
    "cat several": lambda fs, _: fs.cat(["own", OUT]),
    "cat_file": lambda fs, _: fs.cat_file(OUT),
    "cat_ranges": lambda fs, _: fs.cat_ranges([OUT], [0], [1]),
    "steps inside": lambda fs, _: fs.cat("a/../../secret"),
    "open": lambda fs, _: fs.open(OUT).close(),
    "open to write": lambda fs, _: fs.open(OUT, "wb").close(),
    "pipe": lambda fs, _: fs.pipe({OUT: b"x"}),
    "pipe_file": lambda fs, _: fs.pipe_file(OUT, b"x"),
    "put": lambda fs, here: fs.put(here, OUT),
    "put_file": lambda fs, here: fs.put_file(here, OUT),
    "get": lambda fs, here: fs.get(OUT, here),
    "get_file": lambda fs, here: fs.get_file(OUT, here),
    "cp": lambda fs, _: fs.cp("own", OUT),
    "cp_file": lambda fs, _: fs.cp_file(OUT, "copy"),
    "mv": lambda fs, _: fs.mv("own", OUT),
    "mv in": lambda fs, _: fs.mv(OUT, "own"),
    "rm": lambda fs, _: fs.rm(OUT),
    "rm_file": lambda fs, _: fs.rm_file(OUT),
    "rm recursive": lambda fs, _: fs.rm("..", recursive=True),
    "touch": lambda fs, _: fs.touch(OUT),
    "ls": lambda fs, _: fs.ls(".."),
    "find": lambda fs, _: fs.find(".."),
    "walk": lambda fs, _: list(fs.walk("..")),
    "glob": lambda fs, _: fs.glob("../*"),
    "du": lambda fs, _: fs.du(".."),
    "info": lambda fs, _: fs.info(OUT),
    "exists": lambda fs, _: fs.exists(OUT),
    "mkdir": lambda fs, _: fs.mkdir("../x"),
}


@pytest.mark.parametrize("act", LEAVING)
@pytest.mark.parametrize("made", FOLDERS)
def test_no_call_leads_out_of_a_folder(base: Path, tmp_path_factory: Any, made: str, act: str) -> None:
    here = tmp_path_factory.mktemp("here") / "file"
    here.write_bytes(b"x")
    with pytest.raises(ValueError, match="escapes"):
        LEAVING[act](FOLDERS[made](base), str(here))
    assert [path.name for path in sorted(base.parent.iterdir())] == ["base", "secret"]
    assert (base.parent / "secret").read_bytes() == b"secret"
    assert (base / "own").read_bytes() == b"own"


def test_no_asynchronous_call_leads_out_of_a_folder(base: Path) -> None:
    fs = DirFileSystem(str(base), fsspec.filesystem("piafile"))

    async def leave(method: str, *args: Any) -> None:
        with pytest.raises(ValueError, match="escapes"):
            await getattr(fs, method)(*args)

    for method, *args in (
        ("_cat_file", OUT),
        ("_pipe_file", OUT, b"x"),
        ("_rm_file", OUT),
        ("_cp_file", "own", OUT),
    ):
        asyncio.run(leave(str(method), *args))
    assert (base.parent / "secret").read_bytes() == b"secret"


def test_an_asynchronous_folder_over_a_disk_is_refused_as_over_fsspec_s_own(base: Path) -> None:
    for fs in (LocalFileSystem(), fsspec.filesystem("piafile", asynchronous=True)):
        with pytest.raises(ValueError, match="non-async"):
            DirFileSystem(str(base), fs, asynchronous=True)


# --- options and caches


def test_a_client_s_session_reaches_it(stub: FaultStub) -> None:
    session = AioSession()
    fs = fsspec.filesystem("pias3", session=session, writer_session="mine", **stub.storage_options("s3"))
    assert fs.session is fs.fs.session is session
    assert fs.writer_session == "mine"


def test_the_former_word_for_the_writer_s_session_still_works() -> None:
    with pytest.warns(DeprecationWarning, match="writer_session"):
        fs = fsspec.filesystem("piamemory", session="former", skip_instance_cache=True)
    assert fs.writer_session == "former"
    assert not hasattr(fs, "session")


def test_a_session_that_no_client_takes_is_refused() -> None:
    with pytest.raises(ConfigError, match="session"):
        fsspec.filesystem("piamemory", session=object())


def test_a_fresh_filesystem_has_listed_nothing(stub: FaultStub, on_stub: Any) -> None:
    stub.put("bucket", "d/one", b"1")
    assert on_stub().ls("bucket/d", detail=False) == ["bucket/d/one"]
    stub.put("bucket", "d/two", b"2")
    assert len(on_stub().ls("bucket/d")) == 1
    assert len(on_stub(skip_instance_cache=True).ls("bucket/d")) == 2
    type(on_stub()).clear_instance_cache()
    assert len(on_stub().ls("bucket/d")) == 2


def test_what_is_wrapped_by_hand_is_made_anew_too(stub: FaultStub) -> None:
    options: dict[str, Any] = {"target_protocol": "s3", "target_options": stub.storage_options("s3")}
    first = GuardedFileSystem(**options)
    assert GuardedFileSystem(**options, skip_instance_cache=True).fs is not first.fs
    assert GuardedFileSystem(**options, guard=["x"]).fs is first.fs
    GuardedFileSystem.clear_instance_cache()
    assert GuardedFileSystem(**options).fs is not first.fs


def test_what_was_listed_can_be_forgotten_by_hand(stub: FaultStub, on_stub: Any) -> None:
    fs = on_stub(skip_instance_cache=True)
    stub.put("bucket", "d/one", b"1")
    assert len(fs.ls("bucket/d")) == 1
    assert fs.dircache is fs.fs.dircache
    assert "bucket/d" in fs.dircache
    stub.put("bucket", "d/two", b"2")
    fs.dircache.clear()
    assert len(fs.ls("bucket/d")) == 2
    stub.put("bucket", "d/three", b"3")
    fs.invalidate_cache("pias3://bucket/d")
    assert len(fs.ls("bucket/d")) == 3


# --- roots


@pytest.mark.parametrize("address", ["piamemory://", "piamemory:///", "putifabsent::memory://"])
def test_a_root_is_an_address(address: str) -> None:
    fs, path = fsspec.core.url_to_fs(address)
    assert path == fsspec.core.url_to_fs(address.replace("pia", "").replace("putifabsent::", ""))[1]
    mapper = fsspec.get_mapper(address)
    try:
        mapper["at-a-root"] = b"x"
        assert mapper["at-a-root"] == fs.cat_file("/at-a-root") == b"x"
        assert "at-a-root" in list(mapper)
    finally:
        MemoryFileSystem.store.pop("/at-a-root", None)


def test_a_root_is_of_the_same_filesystem() -> None:
    assert fsspec.core.url_to_fs("piamemory://")[0] is fsspec.filesystem("piamemory")


@pytest.mark.parametrize("address", ["memory:///", "s3://", "file:///"])
def test_a_root_s_address_has_the_options_that_it_has_unguarded(address: str) -> None:
    protocol = address.partition("://")[0]
    stock, guarded = map(fsspec.get_filesystem_class, (protocol, f"pia{protocol}"))
    assert guarded._get_kwargs_from_urls(f"pia{address}") == stock._get_kwargs_from_urls(address)


@pytest.mark.parametrize("protocol", ["abfs", "az", "piaaz"])
def test_an_account_is_known_by_an_address(protocol: str) -> None:
    address = f"{protocol}://container@account.dfs.core.windows.net/file"
    if protocol != "piaaz":
        guard_protocol(protocol)
    try:
        cls = fsspec.get_filesystem_class(protocol)
        assert cls._get_kwargs_from_urls(address) == {"account_name": "account"}
        assert cls._strip_protocol(address) == "container/file"
    finally:
        unguard_protocol(protocol)


@pytest.mark.parametrize("protocol", ["s3", "gs", "az"])
def test_the_root_of_an_object_store_is_an_address(protocol: str) -> None:
    options = {"gs": {"token": "anon"}, "az": {"account_name": "a", "account_key": "a2V5"}}.get(protocol, {})
    assert fsspec.core.url_to_fs(f"pia{protocol}://", **options)[1] == ""


# --- a local disk


def test_it_is_the_same_disk(local: Ground) -> None:
    stock, name, nothing = LocalFileSystem(), local.name("file"), local.name("broken")
    stock.pipe_file(name, b"x")
    Path(nothing).symlink_to(local.name("nowhere"))
    for fs in (local.fs, GuardedFileSystem(fs=LocalFileSystem())):
        assert fs.fsid == stock.fsid
        assert fs._isfilestore() == stock._isfilestore()
        assert fs.local_file is stock.local_file
        assert fs.async_impl is stock.async_impl
        for path in (name, nothing, local.name("nowhere")):
            assert fs.lexists(path) == stock.lexists(path)
            assert fs.islink(path) == stock.islink(path)
        fs.chmod(name, 0o640)
        assert stock.info(name)["mode"] & 0o777 == 0o640
    assert local.fs.lexists(local.url(name))
    assert fsspec.open_local(local.url(name)) == name


@pytest.mark.parametrize("arbiter", ["native", "ballot"])
def test_no_name_on_a_disk_is_a_pattern(local: Ground, arbiter: str) -> None:
    fs = local.mount(arbiter=arbiter)
    for name in ("a[1]", "a1", "p[2]/f", "p2/f", "m[3]", "m3"):
        local.around.makedirs(local.name(name).rpartition("/")[0], exist_ok=True)
        fs.pipe_file(local.name(name), name.encode())
    fs.rm(local.name("a[1]"))
    fs.rm(local.name("p[2]"), recursive=True)
    fs.mv(local.name("m[3]"), local.name("n"))
    with pytest.raises(FileNotFoundError):
        fs.rm(local.name("*"))
    assert local.files() == ["a1", "m3", "n", "p2/f"]


def test_a_source_may_be_an_address(local: Ground, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(BODY)
    for number, address in enumerate((f"file://{tmp_path}/source", f"piafile://{tmp_path}/source")):
        local.fs.put_file(address, local.name("plain"))
        local.fs.put_file(address, local.log(number))
        assert local.read(local.name("plain")) == local.read(local.log(number)) == BODY


def test_options_have_the_places_that_they_have_unguarded(tmp_path: Path) -> None:
    fs = fsspec.get_filesystem_class("piafile")(True)
    fs.pipe_file(f"{tmp_path}/folder/_delta_log/{0:020}.json", b"{}")
    assert pickle.loads(pickle.dumps(fs)).fs.auto_mkdir is True


def test_its_own_address_is_one_of_its_names() -> None:
    fs = fsspec.filesystem("putifabsent", target_protocol="memory")
    fs.pipe_file("/addressed/a", BODY)
    assert fs.cat_file(fs.unstrip_protocol("/addressed/a")) == BODY


def test_what_every_filesystem_takes_reaches_the_wrapped_one() -> None:
    made = fsspec.filesystem("putifabsent", target_protocol="s3", use_listings_cache=False, batch_size=7)
    assert (made.dircache.use_listings_cache, made.batch_size) == (False, 7)


def test_both_work_in_the_loop_that_is_given() -> None:
    loop = asyncio.new_event_loop()
    chained = fsspec.filesystem("putifabsent", target_protocol="s3", loop=loop)
    for fs in (fsspec.filesystem("pias3", loop=loop), chained):
        assert fs.loop is fs.fs.loop is loop
    loop.close()


def test_what_only_looks_guarded_in_memory_can_be_changed(memory: Ground) -> None:
    name = memory.name("offsets/0")  # with no `metadata` beside it
    memory.fs.pipe_file(name, b"abc")
    with memory.fs.open(name, "r+b") as file:
        file.write(b"x")
    assert memory.read(name) == b"xbc"


def test_a_compressed_file_says_where_it_is(memory: Ground) -> None:
    with memory.fs.open(memory.log(), "xb", compression="gzip") as file:
        file.write(b"abc")
        assert file.tell() == 3
        assert file.name == memory.log()


def test_links_are_made(local: Ground) -> None:
    local.fs.pipe_file(local.name("file"), b"x")
    local.fs.symlink(local.url(local.name("file")), local.name("soft"))
    local.fs.link(local.name("file"), local.url(local.name("hard")))
    assert local.fs.islink(local.name("soft"))
    assert local.fs.cat_file(local.name("soft")) == b"x"
    assert os.stat(local.name("hard")).st_nlink == 2  # noqa: PTH116 - of a string


@pytest.mark.parametrize("method", ["link", "symlink"])
def test_no_link_has_or_leads_to_a_guarded_name(local: Ground, method: str) -> None:
    fs, other, taken, free = local.fs, local.name("other"), local.log(1), local.log(2)
    fs.pipe_file(other, b"x")
    fs.pipe_file(taken, b"1")
    for source, target in ((other, free), (other, taken), (taken, local.name("alias"))):
        with pytest.raises(io.UnsupportedOperation, match="guarded"):
            getattr(fs, method)(source, target)
    assert local.read(taken) == b"1"
    assert not fs.lexists(free)
    assert not fs.lexists(local.name("alias"))


def test_folders_are_made_where_that_is_set_later(local: Ground) -> None:
    fs = local.mount(skip_instance_cache=True)
    assert fs.auto_mkdir is False
    fs.auto_mkdir = True
    fs.pipe_file(local.name("new/file"), b"x")
    fs.pipe_file(local.name(f"newer/{LOG}"), b"x")
    assert fs.fs.auto_mkdir is True


def test_what_only_the_wrapped_filesystem_has_is_set_there(on_stub: Any) -> None:
    fs = on_stub()
    for value in (True, False):
        fs.version_aware = value
        assert fs.fs.version_aware is value
        assert fs.version_aware is value
    fs.of_mine = 1
    assert fs.of_mine == 1
    assert not hasattr(fs.fs, "of_mine")
    assert fs.storage_options != fs.fs.storage_options


@pytest.mark.parametrize("plain", [False, True])
def test_a_class_has_the_data_of_the_wrapped_class(monkeypatch: pytest.MonkeyPatch, plain: bool) -> None:
    protocol = "memory" if plain else "piamemory"
    if plain:
        guard_protocol(protocol)
    try:
        cls, made = fsspec.get_filesystem_class(protocol), fsspec.filesystem(protocol)
        assert cls.store is MemoryFileSystem.store
        monkeypatch.setattr(MemoryFileSystem, "store", MemoryFileSystem.store)
        cls.store = {}
        assert cls.store is MemoryFileSystem.store is made.store
        assert not hasattr(cls, "nothing")
    finally:
        unguard_protocol(protocol)


def test_a_default_set_on_a_class_is_that_of_later_filesystems(
    monkeypatch: pytest.MonkeyPatch, stub: FaultStub
) -> None:
    cls: Any = fsspec.get_filesystem_class("pias3")
    monkeypatch.setattr(cls, "cachable", False)
    monkeypatch.setattr(S3FileSystem, "default_block_size", S3FileSystem.default_block_size)
    before = cls(**stub.storage_options("s3"))
    had = before.default_block_size
    cls.default_block_size = 2**30
    assert cls(**stub.storage_options("s3")).default_block_size == 2**30
    assert before.default_block_size == had < 2**30


# --- a synchronous filesystem


@pytest.mark.parametrize("protocol", ["piafile", "piamemory"])
def test_references_into_a_synchronous_filesystem_are_read(
    request: pytest.FixtureRequest, protocol: str
) -> None:
    ground: Ground = request.getfixturevalue(protocol.removeprefix("pia").replace("file", "local"))
    ground.fs.pipe_file(ground.name("chunk"), b"\x01\x00\x02\x00")
    array = {
        "zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<i2", "compressor": None, "filters": None,
        "fill_value": 0, "order": "C",
    }  # fmt: skip
    references = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        "a/.zarray": json.dumps(array),
        "a/0": [ground.url(ground.name("chunk")), 0, 4],
    }
    fs = fsspec.filesystem("reference", fo=references, remote_protocol=protocol, asynchronous=True)
    group: Any = zarr.open_group(zarr.storage.FsspecStore(fs, path=""), mode="r", zarr_format=2)
    assert group["a"][:].tolist() == [1, 2]


def test_an_asynchronous_filesystem_is_one(on_stub: Any) -> None:
    assert on_stub().async_impl is True


# --- what only the wrapped filesystem has


def test_what_s3_says_of_a_name_is_said(stub: FaultStub, on_stub: Any) -> None:
    fs, stock = on_stub(), fsspec.filesystem("s3", **stub.storage_options("s3"))
    for name in ("bucket/x", f"bucket/t/{LOG}"):
        fs.pipe_file(name, b"x")
        assert fs.metadata(f"pias3://{name}") == stock.metadata(name)
        assert fs.split_path(f"pias3://{name}") == stock.split_path(name)
        assert fs.url(name).partition("?")[0] == stock.url(name).partition("?")[0]
        assert fs.url(path=name).partition("?")[0] == stock.url(name).partition("?")[0]
    assert (fs.key, fs.version_aware) == (stock.key, stock.version_aware)


async def test_it_is_said_asynchronously(stub: FaultStub) -> None:
    fs = fsspec.filesystem("pias3", asynchronous=True, arbiter="native", **stub.storage_options("s3"))
    session = await fs.set_session()
    try:
        await fs._pipe_file("bucket/x", b"x", Metadata={"a": "1"})
        assert await fs._getxattr("pias3://bucket/x", "a") == "1"
        assert "bucket/x" in await fs._url("pias3://bucket/x")
        for refused in (fs._merge(f"bucket/t/{LOG}", ["bucket/x"]), fs._setxattr(f"bucket/t/{LOG}", a="1")):
            with pytest.raises(io.UnsupportedOperation, match="guarded"):
                await refused
    finally:
        await session.close()


ROUND: dict[str, Callable[[Any, str], Any]] = {
    "merge": lambda fs, name: fs.merge(name, ["bucket/x"]),
    "merge by name": lambda fs, name: fs.merge(path=f"pias3://{name}", filelist=["bucket/x"]),
    "setxattr": lambda fs, name: fs.setxattr(name, a="1"),
    "url": lambda fs, name: fs.url(name, client_method="put_object"),
    "url by place": lambda fs, name: fs.url(name, 60, "put_object"),
    "sign": lambda fs, name: fs.sign(name, client_method="put_object"),
    "mv_file": lambda fs, name: fs.mv_file("bucket/x", name),
}


@pytest.mark.parametrize("way", [way for way in ROUND if way != "mv_file"])
@pytest.mark.parametrize("there", [True, False])
def test_nothing_of_its_own_writes_a_guarded_name(
    stub: FaultStub, on_stub: Any, way: str, there: bool
) -> None:
    fs, name = on_stub(), f"bucket/t/{LOG}"
    fs.pipe_file("bucket/x", b"x")
    if there:
        fs.pipe_file(name, b"mine")
    before = len(stub.requests)
    with pytest.raises(io.UnsupportedOperation, match="guarded"):
        ROUND[way](fs, name)
    assert len(stub.requests) == before


def test_a_rename_of_gcs_is_a_creation(stub: FaultStub) -> None:
    gcs = GuardedFileSystem(fs=filesystem(stub, "gcs"), arbiter="native", skip_instance_cache=True)
    gcs.pipe_file("bucket/x", b"x")
    gcs.pipe_file(f"bucket/t/{LOG}", b"mine")
    with pytest.raises(NameTaken):
        ROUND["mv_file"](gcs, f"bucket/t/{LOG}")
    assert gcs.cat_file(f"bucket/t/{LOG}") == b"mine"


def test_other_names_are_merged(stub: FaultStub, on_stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fs, merged = on_stub(), []
    monkeypatch.setattr(fs.fs, "merge", lambda path, filelist, **_: merged.append((path, filelist)))
    fs.merge("pias3://bucket/whole", ["pias3://bucket/a", "bucket/b"])
    assert merged == [("bucket/whole", ["bucket/a", "bucket/b"])]


class Newer(MemoryFileSystem):
    """A release that this package has not seen."""

    cachable = False

    def overwrite_all(self) -> None:
        """Do what nobody knows."""


def test_a_method_that_nobody_has_judged_is_not_there() -> None:
    fs = GuardedFileSystem(fs=Newer())
    assert not hasattr(fs, "overwrite_all")
    with pytest.raises(AttributeError, match=r"fs\.fs\.overwrite_all"):
        fs.overwrite_all()
    fs.fs.overwrite_all()


@pytest.mark.parametrize("on_error", ["ignore", "omit"])
def test_a_copy_skips_what_is_not_there_by_the_wrapped_filesystem_s_words(
    memory: Ground, on_error: str
) -> None:
    source, none, target = map(memory.name, ("source", "none", "target"))
    memory.write(source, BODY)
    for fs in (memory.fs.fs, memory.fs):
        fs.copy([none, source], [memory.name("t"), target], on_error=on_error)
        assert fs.cat_file(target) == BODY


def test_files_are_got_by_paths_and_into_open_ones(memory: Ground, tmp_path: Path) -> None:
    memory.write(memory.name("source"), BODY)
    into: Any = [tmp_path / "got", io.BytesIO()]
    memory.fs.get([memory.name("source")] * 2, into)
    assert (into[0].read_bytes(), into[1].getvalue()) == (BODY, BODY)


def test_memory_s_store_is_there(memory: Ground) -> None:
    memory.fs.pipe_file(memory.name("x"), b"x")
    assert memory.fs.store is MemoryFileSystem.store
    assert memory.name("x") in memory.fs.store


# --- what a wrapped filesystem does its own way


@pytest.mark.parametrize("cloud", ["s3", "gcs", "azure"])
@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("bucket/d", {}),
        ("bucket/d", {"recursive": True}),
        ("bucket/d/", {"recursive": True}),
        ("bucket/d/*", {}),
        (["bucket/d/one", "bucket/d/no"], {}),
        ("bucket/no", {}),
    ],
)
def test_patterns_and_folders_are_what_they_are_to_the_wrapped_filesystem(
    stub: FaultStub, cloud: Cloud, path: Any, options: dict[str, Any]
) -> None:
    for key in ("d/one", "d/sub/two"):
        stub.put("bucket", key, b"x")
    stock = filesystem(stub, cloud)
    stock.invalidate_cache()
    fs = GuardedFileSystem(fs=stock, arbiter="native")

    def found(by: Any) -> Any:
        try:
            return sorted(by.expand_path(path, **options))
        except FileNotFoundError as error:
            return type(error)

    assert found(fs) == found(stock)


@pytest.mark.parametrize("cloud", ["s3", "gcs", "azure"])
def test_a_walk_goes_the_same_way_awaited(stub: FaultStub, cloud: Cloud) -> None:
    for key in ("d/one", "d/sub/two"):
        stub.put("bucket", key, b"x")
    fs = GuardedFileSystem(fs=filesystem(stub, cloud), arbiter="native")

    async def awaited() -> list[Any]:
        return [each async for each in fs._walk("bucket/d")]

    assert sync(fs.loop, awaited) == list(fs.walk("bucket/d"))
    assert [files for _, _, files in fs.walk("bucket/d")] == [["one"], ["two"]]


@pytest.mark.parametrize("cloud", ["s3", "gcs", "azure"])
def test_what_was_listed_before_neither_unguards_a_name_nor_hides_it(cloud: Cloud) -> None:
    with FaultStub() as stub:
        fs = GuardedFileSystem(filesystem(stub, cloud, use_listings_cache=True), arbiter="native")
        stub.put("bucket", "ck/sources/0", b"{}")
        fs.ls("bucket/ck")
        stub.put("bucket", "ck/metadata", b"{}")  # only with that is `offsets` a query's
        fs.pipe_file("bucket/ck/offsets/0", b"{}")
        with pytest.raises(NameTaken):
            fs.pipe_file("bucket/ck/offsets/0", BODY)
        for number in (1, 2):
            assert len(fs.ls("bucket/ck/offsets")) == number
            with fs.open(f"bucket/ck/offsets/{number}", "wb") as file:
                file.write(b"{}")
            assert fs.cat_file(f"bucket/ck/offsets/{number}") == b"{}"
        assert len(fs.ls("bucket/ck/offsets")) == 3
