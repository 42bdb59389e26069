"""For names that nobody guards, the guarded filesystem sends what s3fs sends, and answers what it answers."""

from __future__ import annotations

import datetime as dt
import gc
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec.spec import AbstractBufferedFile

from tests.fsspec_plugin.test_async import closed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stub import FaultStub, Request

    Act = Callable[[Any, Path], Any]

THEN = dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc)
OBJECTS = {
    "d/one": b"first\nline\n",
    "d/two": b"0123456789",
    "d/sub/three": b"3" * 100,
    "d/sub/deeper/four": b"4",
    "other/five": b"5" * 6 * 2**20,
}
PART = 5 * 2**20
OF_THESE_TESTS = {"default_fill_cache": True}
"""What it is anyway: other tests have other instances, and what they leave behind forgets no listing."""
# Of the headers, those that say what is asked for; the others say who asks, and when.
MEANT = ("range", "content-type", "content-length", "if-none-match", "if-match", "cache-control")


def text(fs: Any, mode: str, data: str) -> Any:
    with fs.open("bucket/d/text", mode) as file:
        return file.write(data)


def binary(fs: Any, mode: str, *pieces: bytes, **options: Any) -> Any:
    with fs.open("bucket/d/binary", mode, **options) as file:
        return [file.write(piece) for piece in pieces]


def lines(fs: Any, **options: Any) -> Any:
    with fs.open("bucket/d/one", "r", **options) as file:
        return file.readlines()


def pieces(fs: Any, **options: Any) -> Any:
    with fs.open("bucket/other/five", "rb", **options) as file:
        file.seek(PART)
        return file.read(2500), file.tell(), file.size, file.readuntil(b"5", blocks=10)


def broken(fs: Any) -> None:
    with fs.open("bucket/d/binary", "wb") as file:
        file.write(b"x" * (PART + 1))
        raise RuntimeError("on the way")


def in_a_transaction(fs: Any) -> None:
    with fs.transaction:
        binary(fs, "wb", b"x")
        text(fs, "w", "y")


def in_a_failing_transaction(fs: Any) -> None:
    with fs.transaction:
        binary(fs, "wb", b"x")
        raise RuntimeError("on the way")


def mapping(fs: Any) -> Any:
    found = fs.get_mapper("bucket/d")
    found["new"] = b"x"
    del found["one"]
    return sorted(found), found["two"], "three" in found


def source(folder: Path, last: str = "file", size: int = 10) -> str:
    (folder / last).write_bytes(b"u" * size)
    return str(folder / last)


def tree(folder: Path) -> str:
    for last in ("t/a", "t/u/b"):
        (folder / last).parent.mkdir(parents=True, exist_ok=True)
        (folder / last).write_bytes(last.encode())
    return str(folder / "t")


def got(fs: Any, folder: Path, what: Any, **options: Any) -> Any:
    fs.get(what, f"{folder}/got/", **options)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / "got").rglob("*"))
        if path.is_file()
    }


ACTS: dict[str, Act] = {
    # writing
    "pipe": lambda fs, _: fs.pipe("bucket/d/new", b"x"),
    "pipe several": lambda fs, _: fs.pipe({"bucket/d/new": b"x", "bucket/d/one": b"y"}),
    "pipe_file": lambda fs, _: fs.pipe_file("bucket/d/one", b"x"),
    "pipe_file with parameters": lambda fs, _: fs.pipe_file("bucket/d/one", b"x", ContentType="text/x"),
    "pipe_file large": lambda fs, _: fs.pipe_file("bucket/d/new", b"x" * (PART + 9), chunksize=PART),
    "write_text": lambda fs, _: fs.write_text("bucket/d/new", "täxt"),
    "write_bytes": lambda fs, _: fs.write_bytes("bucket/d/new", b"x"),
    "put_file": lambda fs, here: fs.put_file(source(here), "bucket/d/new"),
    "put_file with a type": lambda fs, here: fs.put_file(source(here, "page.html"), "bucket/d/page.html"),
    "put_file large": lambda fs, here: fs.put_file(
        source(here, size=PART + 9), "bucket/d/new", chunksize=PART
    ),
    "put_file of a folder": lambda fs, here: fs.put_file(str(here), "bucket/d/new"),
    "put": lambda fs, here: fs.put(source(here), "bucket/d/"),
    "put recursive": lambda fs, here: fs.put(tree(here), "bucket/d/", recursive=True),
    "upload": lambda fs, here: fs.upload(source(here), "bucket/d/new"),
    "cp": lambda fs, _: fs.cp("bucket/d/one", "bucket/d/new"),
    "cp into a folder": lambda fs, _: fs.cp("bucket/d/one", "bucket/other/"),
    "cp_file": lambda fs, _: fs.cp_file("bucket/d/one", "bucket/d/new"),
    "cp of nothing": lambda fs, _: fs.cp("bucket/d/none", "bucket/d/new"),
    "copy recursive": lambda fs, _: fs.copy("bucket/d", "bucket/e", recursive=True),
    "copy of several": lambda fs, _: fs.copy(
        ["bucket/d/one", "bucket/d/two"], ["bucket/e/one", "bucket/e/two"]
    ),
    "mv": lambda fs, _: fs.mv("bucket/d/one", "bucket/d/new"),
    "mv into a folder": lambda fs, _: fs.mv("bucket/d/one", "bucket/d/sub"),
    "mv of a pattern": lambda fs, _: fs.mv("bucket/d/*o*", "bucket/e/"),
    "rename": lambda fs, _: fs.rename("bucket/d/one", "bucket/d/new"),
    "touch": lambda fs, _: fs.touch("bucket/d/one")["ETag"],
    "touch without truncating": lambda fs, _: fs.touch("bucket/d/one", truncate=False),
    "open wb": lambda fs, _: binary(fs, "wb", b"x", b"yz"),
    "open wb large": lambda fs, _: binary(fs, "wb", b"x" * PART, b"y" * PART, b"z", block_size=PART),
    "open wb with parameters": lambda fs, _: binary(fs, "wb", b"x", ContentType="text/x"),
    "open wb compressed": lambda fs, _: binary(fs, "wb", b"", compression="bz2"),
    "open wb that breaks": lambda fs, _: broken(fs),
    "open w": lambda fs, _: text(fs, "w", "täxt\n"),
    "open ab": lambda fs, _: (binary(fs, "wb", b"x"), binary(fs, "ab", b"y"), fs.cat("bucket/d/binary")),
    "open ab large": lambda fs, _: fs.open("bucket/other/five", "ab").close(),
    "open of a mode that s3fs has not": lambda fs, _: binary(fs, "r+b", b"x"),
    "transaction": lambda fs, _: in_a_transaction(fs),
    "transaction that fails": lambda fs, _: in_a_failing_transaction(fs),
    "get_mapper": lambda fs, _: mapping(fs),
    # ending
    "rm": lambda fs, _: fs.rm("bucket/d/one"),
    "rm recursive": lambda fs, _: fs.rm("bucket/d", recursive=True),
    "rm several": lambda fs, _: fs.rm(["bucket/d/one", "bucket/d/two"]),
    "rm of nothing": lambda fs, _: fs.rm("bucket/d/none"),
    "rm_file": lambda fs, _: fs.rm_file("bucket/d/one"),
    "delete": lambda fs, _: fs.delete("bucket/d/one"),
    "rmdir": lambda fs, _: fs.rmdir("bucket/d"),
    "mkdir": lambda fs, _: fs.mkdir("bucket/new"),
    "mkdir of a bucket": lambda fs, _: fs.mkdir("another"),
    "makedirs": lambda fs, _: fs.makedirs("bucket/new", exist_ok=True),
    # looking
    "ls": lambda fs, _: fs.ls("bucket/d"),
    "ls of names": lambda fs, _: fs.ls("bucket/d", detail=False),
    "ls of a file": lambda fs, _: fs.ls("bucket/d/one"),
    "ls of nothing": lambda fs, _: fs.ls("bucket/none"),
    "ls of buckets": lambda fs, _: [each["name"] for each in fs.ls("")],
    "ls twice": lambda fs, _: (fs.ls("bucket/d"), fs.ls("bucket/d"), fs.ls("bucket/d", refresh=True)),
    "ls by address": lambda fs, _: fs.ls("s3://bucket/d", detail=False),
    "find": lambda fs, _: fs.find("bucket"),
    "find in detail": lambda fs, _: fs.find("bucket/d", detail=True, withdirs=True),
    "find to a depth": lambda fs, _: fs.find("bucket", maxdepth=2),
    "find by prefix": lambda fs, _: fs.find("bucket/d", prefix="t"),
    "glob": lambda fs, _: fs.glob("bucket/d/**/t*"),
    "glob in detail": lambda fs, _: fs.glob("bucket/*/*e", detail=True),
    "walk": lambda fs, _: [(root, sorted(a), sorted(b)) for root, a, b in fs.walk("bucket/d")],
    "walk in detail": lambda fs, _: list(fs.walk("bucket/d", detail=True, maxdepth=1)),
    "du": lambda fs, _: (fs.du("bucket"), fs.du("bucket/d", total=False)),
    "expand_path": lambda fs, _: sorted(fs.expand_path("bucket/d", recursive=True)),
    "info": lambda fs, _: fs.info("bucket/d/one"),
    "info of a folder": lambda fs, _: fs.info("bucket/d"),
    "info of a bucket": lambda fs, _: fs.info("bucket"),
    "info of nothing": lambda fs, _: fs.info("bucket/d/none"),
    "exists": lambda fs, _: [fs.exists(each) for each in ("bucket/d/one", "bucket/d", "bucket/x", "x")],
    "isfile": lambda fs, _: [fs.isfile(each) for each in ("bucket/d/one", "bucket/d", "bucket/x")],
    "isdir": lambda fs, _: [fs.isdir(each) for each in ("bucket/d/one", "bucket/d", "bucket/x", "bucket")],
    "size": lambda fs, _: (fs.size("bucket/d/one"), fs.sizes(["bucket/d/one", "bucket/d/two"])),
    "checksum": lambda fs, _: (fs.checksum("bucket/d/one"), fs.checksum("bucket/d/one", refresh=True)),
    "modified": lambda fs, _: (fs.modified("bucket/d/one"), fs.modified("bucket/d/one", refresh=True)),
    "ukey": lambda fs, _: fs.ukey("bucket/d/one"),
    # reading
    "cat": lambda fs, _: fs.cat("bucket/d/one"),
    "cat several": lambda fs, _: fs.cat(["bucket/d/one", "bucket/d/two"]),
    "cat of a pattern": lambda fs, _: fs.cat("bucket/d/*"),
    "cat of nothing": lambda fs, _: fs.cat("bucket/d/none"),
    "cat omitting": lambda fs, _: fs.cat(["bucket/d/one", "bucket/d/none"], on_error="omit"),
    "cat_file": lambda fs, _: fs.cat_file("bucket/d/two"),
    "cat_file of a range": lambda fs, _: (
        fs.cat_file("bucket/d/two", start=2, end=5),
        fs.cat_file("bucket/d/two", 2),
        fs.cat_file("bucket/d/two", start=-3),
        fs.cat_file("bucket/d/two", end=-3),
    ),
    "cat_ranges": lambda fs, _: fs.cat_ranges(["bucket/d/two"] * 3, [0, 3, 8], [2, 5, 10]),
    "head and tail": lambda fs, _: (fs.head("bucket/d/two", 3), fs.tail("bucket/d/two", 3)),
    "read_text": lambda fs, _: (fs.read_text("bucket/d/one"), fs.read_bytes("bucket/d/two", start=1)),
    "read_block": lambda fs, _: fs.read_block("bucket/d/one", 0, 7, delimiter=b"\n"),
    "open rb": lambda fs, _: pieces(fs),
    "open rb in small blocks": lambda fs, _: pieces(fs, block_size=1000, cache_type="bytes"),
    "open rb of nothing": lambda fs, _: fs.open("bucket/d/none", "rb"),
    "open r": lambda fs, _: (lines(fs), lines(fs, encoding="latin-1", newline="")),
    "get_file": lambda fs, here: (
        fs.get_file("bucket/d/one", str(here / "one")),
        (here / "one").read_bytes(),
    ),
    "get": lambda fs, here: got(fs, here, "bucket/d/one"),
    "get recursive": lambda fs, here: got(fs, here, "bucket/d", recursive=True),
    "get of a pattern": lambda fs, here: got(fs, here, "bucket/d/*o*"),
    "download": lambda fs, here: fs.download("bucket/d/one", str(here / "one")),
    "sign": lambda fs, _: fs.sign("bucket/d/one", expiration=60).partition("?")[0],
}
ASYNC: dict[str, Callable[[Any, Path], Any]] = {
    "_pipe_file": lambda fs, _: fs._pipe_file("bucket/d/one", b"x"),
    "_pipe": lambda fs, _: fs._pipe({"bucket/d/one": b"x", "bucket/d/new": b"y"}),
    "_put_file": lambda fs, here: fs._put_file(source(here), "bucket/d/new"),
    "_put": lambda fs, here: fs._put(tree(here), "bucket/d/", recursive=True),
    "_cp_file": lambda fs, _: fs._cp_file("bucket/d/one", "bucket/d/new"),
    "_copy": lambda fs, _: fs._copy("bucket/d", "bucket/e", recursive=True),
    "_mv_file": lambda fs, _: fs._mv_file("bucket/d/one", "bucket/d/new"),
    "_rm": lambda fs, _: fs._rm("bucket/d", recursive=True),
    "_rm_file": lambda fs, _: fs._rm_file("bucket/d/one"),
    "_ls": lambda fs, _: fs._ls("bucket/d"),
    "_find": lambda fs, _: fs._find("bucket/d"),
    "_glob": lambda fs, _: fs._glob("bucket/**/t*"),
    "_info": lambda fs, _: fs._info("bucket/d/one"),
    "_exists": lambda fs, _: fs._exists("bucket/d/none"),
    "_cat_file": lambda fs, _: fs._cat_file("bucket/d/two", start=1, end=4),
    "_cat": lambda fs, _: fs._cat(["bucket/d/one", "bucket/d/two"]),
    "_cat_ranges": lambda fs, _: fs._cat_ranges(["bucket/d/two"] * 2, [0, 3], [2, 5]),
    "_get": lambda fs, here: fs._get("bucket/d", f"{here}/got/", recursive=True),
    "_du": lambda fs, _: fs._du("bucket/d"),
    "_expand_path": lambda fs, _: fs._expand_path("bucket/d", recursive=True),
}


@pytest.fixture
def start(stub: FaultStub) -> Callable[[], None]:
    """Have the stub hold the same objects again, and forget all requests."""

    def fresh() -> None:
        stub.reset()
        stub.call(lambda state: state.buckets.intersection_update({"bucket"}))
        for key, data in OBJECTS.items():
            stub.put("bucket", key, data, last_modified=THEN)

    return fresh


def asked(request: Request) -> tuple[Any, ...]:
    """Return what a request asks for; ids of uploads are the stub's."""
    query = {key: value for key, value in request.query.items() if key != "uploadId"}
    headers = {key: value for key, value in request.headers.items() if key in MEANT or "amz-acl" in key}
    return request.op.name, request.bucket, request.key, sorted(query.items()), sorted(headers.items())


def told(result: Any) -> Any:
    """Return a result without the time at which a test ran, and without the objects that hold it."""
    if isinstance(result, AbstractBufferedFile):
        return type(result).__name__
    if isinstance(result, dict):
        return {key: told(value) for key, value in result.items() if key not in ("LastModified", "date")}
    if isinstance(result, (list, tuple)):
        return [told(each) for each in result]
    return result


def stored(stub: FaultStub) -> dict[Any, Any]:
    return {name: (each.data, each.metadata, each.content_type) for name, each in stub.objects.items()}


def seen(stub: FaultStub, outcome: Any) -> dict[str, Any]:
    # Sorted, for much is sent at the same time.
    requests = sorted(asked(request) for request in stub.requests)
    return {"requests": requests, "result": told(outcome), "stored": stored(stub), "open": len(stub.uploads)}


def test_a_nested_folder_is_moved(stub: FaultStub, start: Callable[[], None]) -> None:
    """The newest s3fs itself does not: it misses what it has moved already."""
    fs = fsspec.filesystem("pias3", arbiter="native", **stub.storage_options("s3"))
    fs.invalidate_cache()
    start()
    before = {name.removeprefix("bucket/d") for name in fs.find("bucket/d")}
    fs.mv("bucket/d", "bucket/e", recursive=True)
    assert {name.removeprefix("bucket/e") for name in fs.find("bucket/e")} == before
    assert fs.find("bucket/d") == []


@pytest.mark.parametrize("act", ACTS)
def test_it_asks_and_answers_as_s3fs_does(
    stub: FaultStub, start: Callable[[], None], act: str, tmp_path: Path
) -> None:
    saw = {}
    for protocol, own in (("s3", {}), ("pias3", {"arbiter": "native"})):
        fs = fsspec.filesystem(protocol, **stub.storage_options("s3"), **OF_THESE_TESTS, **own)
        fs.invalidate_cache()
        start()
        (tmp_path / protocol).mkdir()
        try:
            outcome = ACTS[act](fs, tmp_path / protocol)
        except Exception as error:  # noqa: BLE001 - an error is an answer, too
            outcome = (type(error).__name__, str(error).replace(str(tmp_path / protocol), ""))
        saw[protocol] = seen(stub, outcome)
    assert saw["pias3"] == saw["s3"]


@pytest.mark.parametrize("act", ["open of a mode that s3fs has not", "open rb of nothing", "cat of nothing"])
@pytest.mark.parametrize("protocol", ["s3", "pias3"])
def test_what_has_failed_is_gone_and_forgets_no_listing_later(
    stub: FaultStub, start: Callable[[], None], protocol: str, act: str, tmp_path: Path
) -> None:
    """A file of s3fs that could not be opened does so when it is collected: whenever, in whichever thread."""
    fs = fsspec.filesystem(protocol, **stub.storage_options("s3"))
    fs.invalidate_cache()
    start()
    gc.collect()
    gc.disable()
    try:
        with pytest.raises((FileNotFoundError, NotImplementedError)):
            ACTS[act](fs, tmp_path)
        fs.ls("bucket/d")
    finally:
        gc.enable()
    gc.collect()
    assert "bucket/d" in fs.dircache


async def test_it_does_so_asynchronously(stub: FaultStub, start: Callable[[], None], tmp_path: Path) -> None:
    saw: dict[str, dict[str, Any]] = {"s3": {}, "pias3": {}}
    for protocol, own in (("s3", {}), ("pias3", {"arbiter": "native"})):
        options = {**stub.storage_options("s3"), "asynchronous": True, "skip_instance_cache": True}
        fs = fsspec.filesystem(protocol, **options, **own)
        for name, act in ASYNC.items():
            fs.invalidate_cache()
            start()
            here = tmp_path / protocol / name
            here.mkdir(parents=True)
            saw[protocol][name] = seen(stub, await act(fs, here))
        await (closed(fs) if protocol == "pias3" else fs._s3.close())
    assert saw["pias3"] == saw["s3"]


def test_the_comparison_sees_a_difference(stub: FaultStub, start: Callable[[], None]) -> None:
    fs = fsspec.filesystem("pias3", arbiter="native", **stub.storage_options("s3"))
    saws = []
    for name in ("bucket/d/new", f"bucket/d/_delta_log/{0:020d}.json"):
        start()
        fs.pipe_file(name, b"x")
        saws.append(seen(stub, None))
    assert saws[0] != saws[1]
