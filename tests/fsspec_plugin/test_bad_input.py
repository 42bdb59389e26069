"""What can't be done is said clearly, leaves nothing behind, and loses nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import NameTaken, OutcomeUnknown
from tests.fsspec_plugin import disks
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fsspec_plugin.grounds import Ground

    Way = Callable[[Any, str], Any]

BODY = b"mine"
NAME = f"bucket/t/_delta_log/{0:020d}.json"
KEY = NAME.partition("/")[2]


def by_open(fs: Any, name: str) -> None:
    with fs.open(name, "xb") as file:
        file.write(BODY)


def by_text(fs: Any, name: str) -> None:
    with fs.open(name, "x") as file:
        file.write(BODY.decode())


WAYS: dict[str, Way] = {
    "pipe_file": lambda fs, name: fs.pipe_file(name, BODY, mode="create"),
    "put_file": lambda fs, name: fs.put_file(__file__, name, mode="create"),
    "open": by_open,
    "open for text": by_text,
}


@pytest.fixture(params=WAYS)
def write(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


# --- names


def test_an_empty_path_is_refused(ground: Ground, write: Way) -> None:
    with pytest.raises((ValueError, IsADirectoryError), match=r"names no file|is a directory|a folder's"):
        write(ground.fs, "")
    with pytest.raises((ValueError, IsADirectoryError), match=r"names no file|is a directory|a folder's"):
        write(ground.fs, ground.url(""))
    assert ground.files() == []


@pytest.mark.parametrize("path", [b"/t/x", 5, 1.5, object()])
@pytest.mark.parametrize("way", ["pipe_file", "open", "cat_file", "exists", "explain"])
def test_what_is_no_path_is_a_type_error(ground: Ground, way: str, path: Any) -> None:
    arguments = {"pipe_file": (b"x",), "open": ("wb",)}.get(way, ())
    with pytest.raises(TypeError, match="a path must be"):
        getattr(ground.fs, way)(path, *arguments)


@pytest.mark.parametrize("way", ["ls", "find", "cat", "info", "rm"])
def test_no_path_is_not_the_root(ground: Ground, way: str) -> None:
    with pytest.raises(TypeError, match="a path must be"):
        getattr(ground.fs, way)(None)


@pytest.mark.parametrize("value", [5, True, [1, 2], "text", None, 1.5])
@pytest.mark.parametrize("way", ["pipe_file", "pipe", "_pipe_file", "write", "in a transaction"])
def test_what_are_no_bytes_is_a_type_error_and_nothing_is_written(
    memory: Ground, way: str, value: Any
) -> None:
    fs, name = memory.fs, memory.log()

    def writes() -> None:
        if way == "_pipe_file":
            asyncio.run(fs._pipe_file(name, value))
        elif way == "write":
            with fs.open(name, "wb") as file:
                file.write(value)
        elif way == "in a transaction":
            with fs.transaction:
                fs.pipe_file(name, value)
        else:
            getattr(fs, way)(name, value)

    with pytest.raises(TypeError):
        writes()
    assert memory.files() == []


@pytest.mark.parametrize(
    "mode", ["", "b", "t", "q", "+", "Create", "create", "wx", "rw", "wbb", "wtb", "wU", "w++", "bb"]
)
def test_a_mode_that_there_is_not_is_a_value_error(memory: Ground, mode: str) -> None:
    with pytest.raises(ValueError, match="mode"):
        memory.fs.open(memory.log(), mode)
    assert memory.files() == []


@pytest.mark.parametrize("mode", ["Create", "created", "", "w", None])
@pytest.mark.parametrize("way", ["pipe_file", "_pipe_file", "put_file", "_put_file"])
def test_a_put_that_creates_or_overwrites_says_which(
    memory: Ground, way: str, mode: Any, tmp_path: Path
) -> None:
    """Else a slip of the pen overwrites."""
    (tmp_path / "file").write_bytes(b"x")

    def puts(name: str) -> None:
        arguments = (name, b"x") if "pipe" in way else (str(tmp_path / "file"), name)
        asyncio.run(getattr(memory.fs, way)(*arguments, mode=mode))

    for name in (memory.log(), memory.name("file")):
        with pytest.raises(ValueError, match="mode must be 'create' or 'overwrite'"):
            puts(name)
    assert memory.files() == []


def test_a_bucket_is_no_name(s3: Ground, write: Way) -> None:
    with pytest.raises(OSError, match=r"names a bucket, and no object in it: 'lab'"):
        write(s3.fs, "lab")


@pytest.mark.parametrize("last", ["folder/", "new/", "folder//"])
def test_a_name_that_ends_with_a_slash_is_a_folders(ground: Ground, write: Way, last: str) -> None:
    ground.fs.makedirs(ground.name("folder"), exist_ok=True)
    with pytest.raises(IsADirectoryError, match=last):
        write(ground.fs, ground.name(last))
    assert ground.files() == []


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_a_directory_is_no_file(request: pytest.FixtureRequest, write: Way, kind: str) -> None:
    ground: Ground = request.getfixturevalue(kind)
    ground.fs.makedirs(ground.name("folder/inner"))
    for folder in ("folder", "folder/inner"):
        with pytest.raises(IsADirectoryError, match=folder):
            write(ground.fs, ground.name(folder))
    assert ground.files() == []
    assert ground.fs.isdir(ground.name("folder/inner"))


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_nothing_lies_in_a_file(request: pytest.FixtureRequest, write: Way, kind: str) -> None:
    ground: Ground = request.getfixturevalue(kind)
    ground.write(ground.name("file"), b"file")
    with pytest.raises((NotADirectoryError, FileNotFoundError), match="file/name"):
        write(ground.fs, ground.name("file/name"))
    assert ground.read(ground.name("file")) == b"file"


def test_a_missing_folder_is_told(local: Ground, write: Way) -> None:
    with pytest.raises(FileNotFoundError, match=r"its folder is not there: .*none/name"):
        write(local.fs, local.name("none/name"))
    assert local.files() == []


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("a/../b", r"has a '\.' or '\.\.'"),
        ("./b", r"has a '\.' or '\.\.'"),
        ("b/.", r"has a '\.' or '\.\.'"),
        ("..", r"has a '\.' or '\.\.'"),
        ("a\0b", "has a NUL"),
    ],
)
def test_a_name_that_servers_take_for_another_is_refused(
    ground: Ground, write: Way, last: str, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        write(ground.fs, ground.name(last))
    assert ground.files() == []


@pytest.mark.parametrize("last", ["x/../{}", "{}\0"])
def test_so_is_a_guarded_one_in_a_plain_write(ground: Ground, last: str) -> None:
    name = ground.name("_delta_log/") + last.format(f"{0:020d}.json")
    if ground.fs.explain(name).guarded:
        with pytest.raises(ValueError, match=r"has a"):
            ground.fs.pipe_file(name, BODY)
    ground.fs.pipe_file(ground.log(), BODY)
    assert ground.read(ground.log()) == BODY


def test_what_is_no_unicode_is_refused_where_keys_are(s3: Ground, write: Way) -> None:
    with pytest.raises(OSError, match=r"not valid Unicode.*\\udcff") as caught:
        write(s3.fs, s3.name("a\udcffb"))
    assert caught.value.errno == errno.EILSEQ
    assert s3.files() == []


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_what_is_no_unicode_is_a_name_on_disk(request: pytest.FixtureRequest, write: Way, kind: str) -> None:
    ground: Ground = request.getfixturevalue(kind)
    write(ground.fs, ground.name("a\udcffb"))
    assert ground.files() == ["a\udcffb"]
    with pytest.raises(FileExistsError):
        write(ground.fs, ground.name("a\udcffb"))


@pytest.mark.parametrize("letter", ["k", "\u00e9"])
def test_a_key_of_1025_bytes_is_refused(s3: Ground, write: Way, letter: str) -> None:
    key = s3.folder.partition("/")[2] + "/"
    key += letter * ((1025 - len(key)) // len(letter.encode()))
    key += "k" * (1025 - len(key.encode()))
    with pytest.raises(OSError, match="the key has 1025 bytes, more than 1024") as caught:
        write(s3.fs, f"lab/{key}")
    assert (caught.value.errno, caught.value.filename) == (errno.ENAMETOOLONG, f"lab/{key}")
    assert s3.files() == []


def test_a_key_of_1024_bytes_is_a_name(stub: FaultStub, on_stub: Any, write: Way) -> None:
    write(on_stub(), "bucket/" + "k" * 1024)
    assert ("bucket", "k" * 1024) in stub.objects


def test_a_name_too_long_for_the_disk_is_told(local: Ground, write: Way) -> None:
    with pytest.raises(OSError, match="kkk") as caught:
        write(local.fs, local.name("k" * 300))
    assert caught.value.errno == errno.ENAMETOOLONG
    assert local.files() == []
    assert local.around.ls(local.folder, detail=False) == [local.name("_delta_log")]


# --- S3


S3_WAYS: dict[str, Way] = {
    **WAYS,
    "by the other client": lambda fs, name: fs.pipe_file(name, BODY, mode="create", CacheControl="no-store"),
    "large": lambda fs, name: fs.pipe_file(name, BODY * 2**18, mode="create"),
}
SOURCES: dict[str, Way] = {
    "cp": lambda fs, name: fs.cp_file("bucket/source", name),
    "mv": lambda fs, name: fs.mv("bucket/source", name),
}


@pytest.fixture
def fs(stub: FaultStub, on_stub: Any) -> Any:
    made = on_stub(deadline=0.5)
    made.backend.largest_put = 2**18
    return made


@pytest.mark.parametrize("way", S3_WAYS)
def test_a_missing_bucket_is_told(stub: FaultStub, fs: Any, way: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"(?i)bucket.*'none/name'"):
        S3_WAYS[way](fs, "none/name")
    assert not stub.uploads


def test_a_missing_bucket_of_the_source_is_told(stub: FaultStub, fs: Any) -> None:
    for method in ("cp_file", "mv"):
        with pytest.raises(FileNotFoundError, match="'none/name'"):
            getattr(fs, method)("none/name", NAME)
    assert not stub.objects


def deny(stub: FaultStub, *ops: Op) -> None:
    for op in ops:
        stub.script(op, Fault.FORBIDDEN_403, forever=True)


@pytest.mark.parametrize("refused", [Op.PUT, Op.CREATE_UPLOAD, Op.PART, Op.COMPLETE])
@pytest.mark.parametrize("way", S3_WAYS)
def test_missing_rights_are_told(stub: FaultStub, fs: Any, way: str, refused: Op) -> None:
    if (refused is Op.PUT) is (way == "large"):
        refused, way = (Op.PUT, "open") if way == "large" else (refused, "large")
    deny(stub, refused)
    with pytest.raises(PermissionError, match="bucket/name") as caught:
        S3_WAYS[way](fs, "bucket/name")
    assert caught.value.__cause__ is not None
    assert stub.objects == {}
    assert not stub.uploads
    assert stub.ops.count(refused) <= 4, "what stays refused is not sent again"


@pytest.mark.parametrize("way", SOURCES)
@pytest.mark.parametrize("refused", [Op.HEAD, Op.GET, Op.PUT])
def test_missing_rights_on_the_way_lose_no_source(stub: FaultStub, fs: Any, way: str, refused: Op) -> None:
    stub.put("bucket", "source", BODY)
    deny(stub, refused)
    with pytest.raises(PermissionError, match=NAME if refused is Op.PUT else "bucket/source"):
        SOURCES[way](fs, NAME)
    assert stub.objects.keys() == {("bucket", "source")}


@pytest.mark.parametrize("way", SOURCES)
@pytest.mark.parametrize("refused", [Op.CREATE_UPLOAD, Op.PART_COPY, Op.COMPLETE])
def test_missing_rights_in_a_large_copy_leave_no_upload(
    stub: FaultStub, fs: Any, way: str, refused: Op
) -> None:
    stub.put("bucket", "source", BODY * 2**18)
    deny(stub, refused)
    with pytest.raises(PermissionError, match=NAME):
        SOURCES[way](fs, NAME)
    assert stub.objects.keys() == {("bucket", "source")}
    assert not stub.uploads


def test_a_source_that_may_not_be_removed_stays_and_the_rename_has_happened(stub: FaultStub, fs: Any) -> None:
    stub.put("bucket", "source", BODY)
    deny(stub, Op.DELETE)
    fs.mv("bucket/source", NAME)
    assert stub.objects.keys() == {("bucket", "source"), ("bucket", KEY)}


@pytest.mark.parametrize("way", WAYS)
def test_whoever_may_put_and_not_look_still_creates(stub: FaultStub, fs: Any, way: str) -> None:
    deny(stub, Op.HEAD)
    WAYS[way](fs, "bucket/name")
    assert stub.objects.keys() == {("bucket", "name")}


@pytest.mark.parametrize("way", WAYS)
def test_a_taken_name_that_may_not_be_looked_at_is_unknown(stub: FaultStub, fs: Any, way: str) -> None:
    """The store's "exists" may be about this very creation, by a proxy that sent it twice."""
    stub.put("bucket", "name", b"the winner's")
    deny(stub, Op.HEAD)
    with pytest.raises(OutcomeUnknown, match=r"can't be looked at.*resolve.*'bucket/name'") as caught:
        WAYS[way](fs, "bucket/name")
    assert isinstance(caught.value.__cause__, PermissionError)
    assert stub.objects["bucket", "name"].data == b"the winner's"


def test_missing_credentials_are_told(stub: FaultStub, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    fs = fsspec.filesystem("pias3", arbiter="native", endpoint_url=stub.url("s3"), skip_instance_cache=True)
    for write in WAYS.values():
        with pytest.raises(PermissionError, match="credentials: 'bucket/name'"):
            write(fs, "bucket/name")
    assert Op.PUT not in stub.ops


def test_a_server_that_is_not_there_is_told(free_port: int) -> None:
    fs = fsspec.filesystem(
        "pias3",
        arbiter="native",
        key="k",
        secret="s",
        endpoint_url=f"http://127.0.0.1:{free_port}",
        deadline=0.1,
    )
    with pytest.raises(OSError, match="bucket") as caught:
        fs.pipe_file("bucket/name", BODY, mode="create")
    links = [str(caught.value)]
    link: BaseException | None = caught.value
    while (link := link.__cause__ or link.__context__ if link else None) is not None:
        links.append(str(link))
    assert str(free_port) in "".join(links), "the error, or what led to it, says who did not answer"


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


# --- local disk


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, disks.Report]]:
    """Return what writes on a bad disk, once for all tests, and says what came of it there."""

    @cache
    def report(trouble: str) -> tuple[Path, disks.Report]:
        place = tmp_path_factory.mktemp("disk")
        return place, disks.report(trouble, place)

    return report


@pytest.mark.parametrize(
    ("trouble", "error", "number", "told"),
    [
        ("full", "OSError", errno.ENOSPC, "No space left"),
        ("no inodes", "OSError", errno.ENOSPC, "No space left"),
        ("read-only", "OSError", errno.EROFS, "Read-only"),
        ("broken", "OSError", errno.EIO, "Input/output error"),
        ("no attributes", "UnsafeStore", None, "has no extended attributes, .* keep the table on one"),
        ("no links", "UnsafeStore", None, "has no hard links, .* keep the table on one"),
        ("two disks", "UnsafeStore", None, "another filesystem than .* keep all folders of the table on one"),
    ],
)
def test_a_disk_that_can_not_keep_a_name_says_so(
    reported: Callable[[str], tuple[Path, disks.Report]],
    trouble: str,
    error: str,
    number: int | None,
    told: str,
) -> None:
    place, seen = reported(trouble)
    assert seen.outcomes.keys() == {"pipe_file", "open", "put_file", "cp_file", "mv", "taken"}, seen
    for way, (kind, code, message) in seen.outcomes.items():
        if way == "taken":
            continue
        assert (kind, code) == (error, number), way
        assert str(place / disks.FREE) in message, f"{way} names its file"
        assert re.search(told, message), message
    assert seen.files == {disks.TAKEN: "the winner's", "source": "source"}
    assert seen.folders == ["t", "t/_delta_log", "u", "u/_delta_log"], "no state folder is left"


@pytest.mark.parametrize("trouble", ["full", "no inodes", "read-only", "no attributes", "no links"])
def test_a_name_that_is_taken_on_a_bad_disk_is_taken(
    reported: Callable[[str], tuple[Path, disks.Report]], trouble: str
) -> None:
    kind, _, message = reported(trouble)[1].outcomes["taken"]
    assert kind == "NameTaken", message


def test_a_temporary_folder_that_is_full_is_told(tmp_path: Path) -> None:
    """Large bodies wait there until they are complete."""
    seen = disks.report("full temporary folder", tmp_path)
    kind, code, message = seen.outcomes["open"]
    assert (kind, code) == ("OSError", errno.ENOSPC)
    assert str(tmp_path / disks.FREE) in message
    assert "TMPDIR" in message
    assert not [folder for folder in seen.folders if ".putifabsent" in folder]


def test_a_symbolic_link_takes_a_name_and_one_to_nothing_is_told(local: Ground, tmp_path: Path) -> None:
    target = tmp_path / "target"
    Path(local.log()).symlink_to(target)
    for write in (local.fs.pipe_file, local.fs.pipe):
        with pytest.raises(OSError, match="a symbolic link to nothing") as caught:
            write(local.log(), b"mine")
        assert not isinstance(caught.value, FileExistsError)
    target.write_bytes(b"another's")
    with pytest.raises(NameTaken):
        local.fs.pipe_file(local.log(), b"mine")
    assert target.read_bytes() == b"another's"


@pytest.mark.parametrize("write", ["pipe_file", "_pipe_file"])
def test_what_can_not_be_looked_at_is_not_taken_for_absent(
    local: Ground, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """A name is guarded with evidence beside it: where that can't be seen, it is not written at all."""
    name, evidence = local.name("t/snapshot/snapshot-1"), local.name("t/schema/schema-0")
    for file in (name, evidence):
        local.around.makedirs(file.rpartition("/")[0], exist_ok=True)
        local.write(file, b"another's")
    stat = os.stat

    def broken(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        if path == evidence:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return stat(path, *args, **kwargs)

    fs = local.mount(skip_instance_cache=True, asynchronous=write == "_pipe_file")
    monkeypatch.setattr(os, "stat", broken)
    with pytest.raises(OSError, match="Input/output") as caught:
        asyncio.run(fs._pipe_file(name, b"mine")) if write == "_pipe_file" else fs.pipe_file(name, b"mine")
    assert caught.value.errno == errno.EIO
    assert local.read(name) == b"another's"


def test_a_file_in_the_place_of_a_folder_is_no_loss(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").write_bytes(b"")
    fs = fsspec.filesystem("piafile", auto_mkdir=True)
    with pytest.raises(NotADirectoryError):
        fs.pipe_file(f"{tmp_path}/_delta_log/{0:020d}.json", b"{}")
