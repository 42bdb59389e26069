"""Addresses: chains with other filesystems, guarded plain protocols, and the way back to an address."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import putifabsent
from putifabsent import ConfigError, NameTaken
from putifabsent.fsspec_plugin import GuardedFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fsspec_plugin.grounds import Ground

BODY = b"mine"
PLAIN = {"memory": ("memory",), "local": ("file", "local"), "s3": ("s3", "s3a")}


def write(address: str, **options: Any) -> None:
    with fsspec.open(address, "wb", **options) as file:
        file.write(BODY)


# --- the address of a name


def test_an_address_leads_back_to_its_name(ground: Ground) -> None:
    fs = ground.fs
    address = fs.unstrip_protocol(ground.log())
    assert address == ground.url(ground.log())
    again, name = url_to_fs(address, arbiter=ground.arbiter, **ground.options)
    assert (again, name) == (fs, ground.log())
    assert fs.unstrip_protocol(address) == address
    assert again.unstrip_protocol(name) == address


def test_an_address_may_be_said_wherever_a_name_may(ground: Ground) -> None:
    fs = ground.fs
    fs.pipe_file(ground.url(ground.log()), BODY)
    assert fs.cat_file(ground.url(ground.log())) == fs.cat(ground.url(ground.log())) == BODY
    assert fs.ls(ground.url(ground.name("_delta_log")), detail=False) == [ground.log()]
    assert fs.find(ground.url(ground.folder)) == [ground.log()]
    assert fs.info(ground.url(ground.log()))["name"] == ground.log()
    assert [root for root, _, _ in fs.walk(ground.url(ground.name("_delta_log")))] == [
        ground.name("_delta_log")
    ]
    fs.cp_file(ground.url(ground.log()), ground.url(ground.name("copy")))
    fs.mv(ground.url(ground.name("copy")), ground.url(ground.name("moved")))
    assert ground.read(ground.name("moved")) == BODY
    with pytest.raises(NameTaken) as caught:
        fs.mv(ground.url(ground.name("moved")), ground.url(ground.log()))
    assert caught.value.name == ground.log()
    fs.rm([ground.url(ground.name("moved"))])
    fs.rm(ground.url(ground.log()))
    assert ground.files() == []


def test_several_files_are_opened_by_one_address(ground: Ground) -> None:
    options = {"arbiter": "native", **ground.options}
    with fsspec.open_files(f"{ground.url(ground.folder)}/part-*", "wb", num=3, **options) as files:
        for file in files:
            file.write(BODY)
    assert ground.files() == ["part-0", "part-1", "part-2"]
    names = [ground.url(ground.log(number)) for number in (0, 1)]
    with fsspec.open_files(names, "wb", **options) as files:
        for file in files:
            file.write(BODY)
    with pytest.raises(NameTaken):
        fsspec.open_files(names, "wb", **options)[1].open()
    with fsspec.open_files(f"{ground.url(ground.folder)}/_delta_log/*", "rb", **options) as files:
        assert [file.read() for file in files] == [BODY, BODY]


def test_a_local_address_makes_its_folders(local: Ground) -> None:
    """fsspec.open does so for every writer."""
    write(f"piafile://{local.folder}/new/_delta_log/{0:020d}.json")
    with pytest.raises(NameTaken):
        write(f"piafile://{local.folder}/new/_delta_log/{0:020d}.json")


# --- chains


def test_a_chain_guards_the_next_filesystem(ground: Ground) -> None:
    address = f"putifabsent::{ground.plain}://{ground.log()}"
    options: dict[str, Any] = {ground.plain: dict(ground.options), "arbiter": "native"}
    write(address, **options)
    with pytest.raises(NameTaken):
        write(address, **options)
    assert ground.read(ground.log()) == BODY
    fs, name = url_to_fs(address, **options)
    assert isinstance(fs, GuardedFileSystem)
    assert name == ground.log()
    assert fs.unstrip_protocol(name) == address
    with fsspec.open(address, "rb", **options) as file:
        assert file.read() == BODY


def test_a_chain_takes_the_options_of_the_mount(ground: Ground) -> None:
    address = f"putifabsent::{ground.plain}://{ground.name('data')}"
    options: dict[str, Any] = {
        ground.plain: dict(ground.options),
        "putifabsent": {"guard": ["**/data"], "arbiter": "native"},
    }
    write(address, **options)
    with pytest.raises(NameTaken):
        write(address, **options)
    with pytest.raises(ConfigError, match="did you mean 'guard'"):
        write(address, **{**options, "putifabsent": {"gaurd": "x"}})


def test_a_chain_ends_in_what_can_be_guarded() -> None:
    with pytest.raises(ConfigError, match="can't be guarded"):
        fsspec.open("putifabsent::data:text/plain,x", "rb")


def test_a_directory_over_a_guarded_filesystem_is_guarded(ground: Ground) -> None:
    fs = fsspec.filesystem("dir", path=ground.folder, fs=ground.fs)
    last = ground.log().removeprefix(ground.folder + "/")
    with fs.open(last, "wb") as file:
        file.write(BODY)
    again_by: list[Callable[[], Any]] = [
        lambda: fs.open(last, "wb"),
        lambda: fs.pipe_file(last, b"x"),
        lambda: fs.cp_file(last, last),
        lambda: fs.touch(last),
    ]
    for again in again_by:
        with pytest.raises(NameTaken):
            again()
    assert fs.cat_file(last) == ground.read(ground.log()) == BODY
    assert fs.ls("_delta_log", detail=False) == [last]
    assert fs.find("") == [last]


@pytest.mark.parametrize("cache", ["simplecache", "filecache"])
def test_a_cache_over_a_guarded_filesystem_is_guarded(
    ground: Ground, cache: str, tmp_path_factory: Any
) -> None:
    address = f"{cache}::{ground.url(ground.log())}"
    options: dict[str, Any] = {
        ground.protocol: {"arbiter": "native", **ground.options},
        cache: {"cache_storage": str(tmp_path_factory.mktemp("cache"))},
    }
    write(address, **options)
    assert ground.read(ground.log()) == BODY
    with fsspec.open(address, "rb", **options) as file:
        assert file.read() == BODY
    with pytest.raises(NameTaken):
        write(address, **options)
    assert ground.read(ground.log()) == BODY


def test_an_archive_in_a_guarded_filesystem_is_read(ground: Ground) -> None:
    import zipfile

    options = {ground.protocol: {"arbiter": "native", **ground.options}}
    with ground.fs.open(ground.name("x.zip"), "xb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("member", BODY)
    with fsspec.open(f"zip://member::{ground.url(ground.name('x.zip'))}", "rb", **options) as file:
        assert file.read() == BODY


# --- plain protocols


@pytest.fixture
def plain(ground: Ground) -> Iterator[str]:
    """Guard the plain protocol of the store, and undo it."""
    putifabsent.guard_protocol(ground.plain)
    yield ground.plain
    putifabsent.unguard_protocol(ground.plain)


def test_a_plain_protocol_can_be_guarded(ground: Ground, plain: str) -> None:
    address = f"{plain}://{ground.log()}"
    options = {"arbiter": "native", **ground.options}
    write(address, **options)
    with pytest.raises(NameTaken):
        write(address, **options)
    fs, name = url_to_fs(address, **options)
    assert isinstance(fs, GuardedFileSystem)
    assert (name, fs.unstrip_protocol(name)) == (ground.log(), address)
    assert fs.cat_file(address) == BODY
    assert fsspec.filesystem(plain, **options) is fs
    assert pickle.loads(pickle.dumps(fs)) == fs


def test_a_plain_filesystem_takes_the_options_of_a_mount(ground: Ground, plain: str) -> None:
    fs = fsspec.filesystem(plain, guard=["**/data"], arbiter="native", **ground.options)
    fs.pipe_file(ground.name("data"), BODY)
    with pytest.raises(NameTaken):
        fs.pipe_file(ground.name("data"), BODY)
    with pytest.raises(ConfigError, match="unknown option 'gard'"):
        fsspec.filesystem(plain, gard=[], **ground.options)


def test_what_was_guarded_can_be_let_go(ground: Ground) -> None:
    before = fsspec.get_filesystem_class(ground.plain)
    putifabsent.guard_protocol(ground.plain)
    guarded = fsspec.filesystem(ground.plain, arbiter="native", **ground.options)
    putifabsent.unguard_protocol(ground.plain)
    assert fsspec.get_filesystem_class(ground.plain) is before
    plain = fsspec.filesystem(ground.plain, **ground.options)
    assert not isinstance(plain, GuardedFileSystem)
    plain.pipe_file(ground.log(), BODY)
    plain.pipe_file(ground.log(), b"again")
    with pytest.raises(NameTaken):
        guarded.pipe_file(ground.log(), BODY)


@pytest.mark.parametrize("protocol", [each for names in PLAIN.values() for each in names])
def test_every_name_of_a_protocol_is_guarded_by_itself(protocol: str) -> None:
    putifabsent.guard_protocol(protocol)
    assert issubclass(fsspec.get_filesystem_class(protocol), GuardedFileSystem)
    putifabsent.unguard_protocol(protocol)
    assert not issubclass(fsspec.get_filesystem_class(protocol), GuardedFileSystem)


def test_guarding_twice_and_letting_go_twice_is_harmless() -> None:
    for _ in range(2):
        putifabsent.guard_protocol("memory")
    for _ in range(2):
        putifabsent.unguard_protocol("memory")
    assert fsspec.get_filesystem_class("memory") is MemoryFileSystem


def test_letting_go_leaves_alone_what_others_registered() -> None:
    class Mine(LocalFileSystem):
        """Somebody's own."""

    before = fsspec.get_filesystem_class("local")
    fsspec.register_implementation("local", Mine, clobber=True)
    try:
        putifabsent.unguard_protocol("local")
        assert fsspec.get_filesystem_class("local") is Mine
        putifabsent.guard_protocol("local")
        putifabsent.unguard_protocol("local")
        assert fsspec.get_filesystem_class("local") is Mine, "what was there before comes back"
    finally:
        fsspec.register_implementation("local", before, clobber=True)


@pytest.mark.parametrize("protocol", ["http", "pias3", "", "S3"])
def test_a_protocol_that_nobody_can_guard_is_refused(protocol: str) -> None:
    with pytest.raises(ConfigError, match="can't be guarded: choose one of"):
        putifabsent.guard_protocol(protocol)


IN_ANOTHER_PROCESS = """
import pickle, sys
import fsspec

name = sys.argv[1]
plain = fsspec.filesystem("file")
plain.pipe_file(name, b"one")
plain.pipe_file(name, b"two")
print(type(plain).__name__)

guarded = pickle.loads(sys.stdin.buffer.read())
try:
    guarded.pipe_file(name, b"three")
except FileExistsError as error:
    print(type(error).__name__)
print(type(fsspec.filesystem("file")).__name__)
"""


def test_another_process_is_guarded_only_where_it_is_told(local: Ground) -> None:
    putifabsent.guard_protocol("file")
    try:
        guarded = pickle.dumps(fsspec.filesystem("file", arbiter="native"))
    finally:
        putifabsent.unguard_protocol("file")
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS, local.log()],
        input=guarded,
        capture_output=True,
        env=dict(os.environ),
        timeout=60,
        check=True,
    )
    assert done.stdout.decode().split() == ["LocalFileSystem", "NameTaken", "LocalFileSystem"]
    assert local.read(local.log()) == b"two"
