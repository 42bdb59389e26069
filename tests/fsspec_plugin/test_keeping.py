"""Mounts with ``salt="keep-both"``: on a store that decides nothing, all is kept, and read in one order."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import ConfigError, NameTaken, UnsafeStore
from putifabsent.shim.formats.hudi_salt import kept_as, salt_of
from tests.fsspec_plugin.children import commit_at_once, in_children
from tests.fsspec_plugin.hudi_tables import Writer, table_in
from tests.fsspec_plugin.test_async import closed
from tests.stub import Fault, FaultStub, Op
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fsspec_plugin.grounds import Ground

TIMELINE = ".hoodie/timeline"


@pytest.fixture(params=["memory", "local", "s3"])
def ground(request: pytest.FixtureRequest) -> Ground:
    found: Ground = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def salt() -> str:
    return "keep-both"


@pytest.fixture(scope="module")
def deciding_nothing() -> Iterator[FaultStub]:
    with FaultStub(conditions="ignored") as running:
        vouch(running.url("s3"))
        yield running


def order_of(writer: Writer) -> list[tuple[str, str]]:
    """Return the instants that a reader sees, and whose they are, in its order."""
    listed = writer.fs.ls(f"{writer.root}/{TIMELINE}", detail=True)
    return [(each["name"].rpartition("/")[2].partition(".")[0][:3], each["salt"]) for each in listed]


def test_of_64_writers_of_one_instant_all_are_kept_and_all_readers_see_one_order(
    deciding_nothing: FaultStub,
) -> None:
    options = deciding_nothing.storage_options("s3")
    around = fsspec.filesystem("s3", **options)
    root = "bucket/t64"
    around.pipe_file(f"{root}/.hoodie/hoodie.properties", b"hoodie.table.version=9\n")
    sessions = [f"session-{number}" for number in range(64)]
    calls = [(options, root, sessions[start::4]) for start in range(4)]
    assert in_children("spawn", commit_at_once, calls) == [[], [], [], []]

    salts = sorted(map(salt_of, sessions))
    for session in ("reader", "another", *sessions[:3]):
        reader = Writer(fsspec.filesystem("pias3", writer_session=session, salt="keep-both", **options), root)
        assert order_of(reader) == [("100", salt) for salt in salts for _ in range(3)]
        listed = reader.fs.ls(f"{root}/{TIMELINE}", detail=True)
        completed = [each for each in listed if "_1009.commit" in each["name"]]
        said = [reader.fs.cat_file(each["name"]).decode() for each in completed]
        assert list(map(salt_of, said)) == salts
    assert len(around.find(f"{root}/dt=1")) == 64


def test_where_nothing_decides_only_such_a_mount_writes(deciding_nothing: FaultStub) -> None:
    options = {"arbiter": "auto", **deciding_nothing.storage_options("s3")}
    with pytest.raises(UnsafeStore):
        fsspec.filesystem("pias3", **options).pipe_file(f"bucket/t1/{TIMELINE}/100.commit.requested", b"")
    fs = fsspec.filesystem("pias3", salt="keep-both", writer_session="a", **options)
    Writer(fs, "bucket/t1").commits("100")
    assert sorted(fs.find(f"bucket/t1/{TIMELINE}")) == [
        f"bucket/t1/{TIMELINE}/{last}" for last in ("100.commit.requested", "100.inflight", "100_1009.commit")
    ]


def test_what_one_session_alone_has_made_is_read_by_its_name(
    ground: Ground, a: Writer, reader: Writer
) -> None:
    name = a.commits("100", b"the commit")
    assert ground.read(kept_as(name, "a")) == b"the commit"
    assert not ground.is_there(name)
    for each in (a, reader):
        assert each.timeline() == ["100.commit.requested", "100.inflight", "100_1009.commit"]
        assert each.fs.cat_file(name) == b"the commit"
        assert each.fs.exists(name)
        assert each.fs.info(name)["name"] == name
        assert each.fs.ls(name, detail=False) == each.fs.find(name) == [name]
        assert name in each.fs.glob(f"{a.root}/{TIMELINE}/*.commit")
        assert each.fs.cat_file(a.slice_of("100")) == b"100"
    assert not ground.around.exists(f"{a.root}/.hoodie/.putifabsent")


def test_of_two_each_reads_its_own_and_everybody_both(a: Writer, b: Writer, reader: Writer) -> None:
    name = a.commits("100", b"a's")
    b.commits("100", b"b's")
    assert a.fs.cat_file(name) == b"a's"
    assert b.fs.cat_file(name) == b"b's"
    assert a.fs.cat_file(kept_as(name, "b")) == b"b's"
    with pytest.raises(OSError, match="2 sessions have created it"):
        reader.fs.cat_file(name)
    listed = reader.fs.ls(f"{a.root}/{TIMELINE}", detail=True)
    said = {each["salt"]: reader.fs.cat_file(each["name"]) for each in listed if ".commit~" in each["name"]}
    assert said == {salt_of("a"): b"a's", salt_of("b"): b"b's"}
    assert order_of(reader) == order_of(a) == order_of(b)


def test_what_is_older_than_the_option_comes_first(ground: Ground, a: Writer, reader: Writer) -> None:
    ground.write(a.requested("100"), b"older")
    assert reader.fs.cat_file(a.requested("100")) == b"older"
    a.fs.pipe_file(a.requested("100"), b"a's")
    assert order_of(reader) == [("100", ""), ("100", salt_of("a"))]


def test_a_session_makes_a_name_once(a: Writer) -> None:
    name = a.commits("100", b"first")
    with pytest.raises(NameTaken) as taken:
        a.fs.pipe_file(name, b"second")
    with pytest.raises(NameTaken):
        a.fs.open(name, "wb")
    assert a.fs.cat_file(name) == b"first"
    holder = taken.value.holder
    assert holder is not None
    assert holder.token is not None
    assert a.fs.resolve(name, holder.token).token == holder.token


def test_a_session_writes_over_its_own_inflight_instant(ground: Ground, a: Writer, b: Writer) -> None:
    for each, body in ((a, b"a's first"), (b, b"b's"), (a, b"a's")):
        each.fs.pipe_file(each.inflight("100"), body)
    assert ground.read(kept_as(a.inflight("100"), "a")) == a.fs.cat_file(a.inflight("100")) == b"a's"
    assert b.fs.cat_file(b.inflight("100")) == b"b's"


def test_it_is_renamed_to_as_well(ground: Ground, a: Writer) -> None:
    temporary = f"{a.completed('100')}.5b2a"
    a.fs.pipe_file(temporary, b"the commit")
    a.fs.mv(temporary, a.completed("100"))
    assert ground.read(kept_as(a.completed("100"), "a")) == b"the commit"
    assert not ground.is_there(temporary)


def test_who_removes_a_name_removes_what_it_reads_there(a: Writer, b: Writer, reader: Writer) -> None:
    for each in (a, b):
        each.commits("100", b"{}")
    with pytest.raises(OSError, match="2 sessions"):
        reader.fs.rm_file(a.completed("100"))
    with pytest.raises(OSError, match="2 sessions"):
        reader.fs.rm_file(a.slice_of("100"))
    for name in (a.completed("100"), a.slice_of("100")):
        a.fs.rm(name)
        assert reader.fs.exists(name)
        reader.fs.rm_file(name)
        assert not b.fs.exists(name)


def test_the_metadata_table_s_instants_are_kept_too(ground: Ground, a: Writer, b: Writer) -> None:
    name = f"{a.root}/.hoodie/metadata/{TIMELINE}/100.deltacommit.requested"
    if ground.kind == "local":
        ground.around.makedirs(name.rpartition("/")[0])
    for each, body in ((a, b"a's"), (b, b"b's")):
        each.fs.pipe_file(name, body)
    assert a.fs.cat_file(name) == b"a's"
    assert b.fs.cat_file(name) == b"b's"
    a.fs.rm_file(name)
    assert a.fs.cat_file(name) == b"b's"


def test_a_lost_answer_is_no_second_instant(deciding_nothing: FaultStub) -> None:
    options = deciding_nothing.storage_options("s3")
    fs = fsspec.filesystem("pias3", salt="keep-both", writer_session="a", **options)
    deciding_nothing.script(Op.PUT, Fault.DROP_AFTER_APPLY)
    name = f"bucket/t2/{TIMELINE}/100.commit.requested"
    fs.pipe_file(name, b"plan")
    assert fs.cat_file(name) == b"plan"


def test_asynchronously_it_is_the_same(memory: Ground) -> None:
    root = table_in(memory)

    async def life() -> None:
        a, b = (
            Writer(
                fsspec.filesystem("piamemory", asynchronous=True, writer_session=each, salt="keep-both"), root
            )
            for each in "ab"
        )
        name = a.completed("100")
        await a.fs._pipe_file(name, b"a's")
        await b.fs._pipe_file(name, b"b's")
        assert await a.fs._cat_file(name) == b"a's"
        assert sorted([name, kept_as(name, "b")]) == sorted(
            await a.fs._ls(f"{root}/{TIMELINE}", detail=False)
        )
        assert kept_as(name, "b") in await a.fs._find(root)
        await a.fs._rm_file(name)
        assert await a.fs._cat_file(name) == b"b's"
        for each in (a, b):
            await closed(each.fs)

    asyncio.run(life())


def test_a_mount_says_once_what_it_waives(memory: Ground, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "putifabsent"):
        fs: Any = memory.mount(writer_session="one that warns", salt="keep-both")
        Writer(fs, table_in(memory)).commits("100")
    assert [each.message for each in caplog.records if "not unique" in each.message] == [
        caplog.records[0].message
    ]


@pytest.mark.parametrize("arbiter", ["ballot", "redis://localhost/0"])
def test_with_an_arbiter_there_is_no_need_for_it(arbiter: str) -> None:
    with pytest.raises(ConfigError, match="no arbiter can be had"):
        fsspec.filesystem("piamemory", arbiter=arbiter, salt="keep-both")
