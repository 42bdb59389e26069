"""Mounts with ``salt="slices"``: no two sessions write one base file, and readers see the one that counts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import ConfigError, Fenced, NameTaken
from putifabsent.shim.formats.hudi_salt import salted
from tests.fsspec_plugin.children import in_a_child, pipe_file
from tests.fsspec_plugin.hudi_tables import Writer, table_in
from tests.fsspec_plugin.test_async import closed
from tests.stub import FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.fsspec_plugin.steps import Steps
    from tests.fsspec_plugin.grounds import Ground

ZOMBIE, LIVING = b"a zombie's", b"the living one's file"


def mounted(ground: Ground, root: str, session: str) -> Writer:
    return Writer(ground.mount(writer_session=session, salt="slices"), root)


@pytest.fixture
def salt() -> str:
    return "slices"


def taken_over(a: Writer, b: Writer) -> str:
    """Let both write one name: ``a``, which pauses, and ``b``, which takes the instant over."""
    a.fs.pipe_file(a.requested("100"), b"")
    a.fs.pipe_file(a.inflight("100"), b"")
    a.fs.pipe_file(a.slice_of("100"), ZOMBIE)
    b.fs.pipe_file(b.inflight("100"), b"")
    b.fs.pipe_file(b.slice_of("100"), LIVING)
    return a.slice_of("100")


def physical(ground: Ground, root: str) -> dict[str, bytes]:
    """Return what another program sees in the table's only partition."""
    return {name: ground.read(name) for name in ground.around.find(f"{root}/dt=1")}


# --- writing ------------------------------------------------------------------------------------------------


def test_two_sessions_that_choose_one_name_make_two_files(
    ground: Ground, root: str, a: Writer, b: Writer
) -> None:
    name = taken_over(a, b)
    assert physical(ground, root) == {salted(name, "a"): ZOMBIE, salted(name, "b"): LIVING}
    assert a.fs.cat_file(name) == ZOMBIE
    assert b.fs.cat_file(name) == LIVING


def _opened(fs: Any, name: str, _: Path) -> None:
    with fs.open(name, "wb") as file:
        file.write(LIVING)


def _put(fs: Any, name: str, folder: Path) -> None:
    (folder / "x").write_bytes(LIVING)
    fs.put_file(folder / "x", name)


def _copied(fs: Any, name: str, _: Path) -> None:
    fs.pipe_file(f"{name}.temporary", LIVING)
    fs.cp_file(f"{name}.temporary", name)


def _moved(fs: Any, name: str, _: Path) -> None:
    fs.pipe_file(f"{name}.temporary", LIVING)
    fs.mv(f"{name}.temporary", name)
    assert not fs.exists(f"{name}.temporary")


def _in_a_transaction(fs: Any, name: str, _: Path) -> None:
    with fs.transaction, fs.open(name, "wb") as file:
        file.write(LIVING)


@pytest.mark.parametrize(
    "write",
    [
        lambda fs, name, _: fs.pipe_file(name, LIVING),
        lambda fs, name, _: fs.pipe({name: LIVING}),
        lambda fs, name, _: fs.pipe_file(name, LIVING, mode="create"),
        _opened,
        _put,
        _copied,
        _moved,
        _in_a_transaction,
    ],
)
def test_every_way_of_writing_leads_to_the_session_s_own_file(
    memory: Ground, tmp_path: Path, write: Callable[[Any, str, Path], None]
) -> None:
    root = table_in(memory)
    a = mounted(memory, root, "a")
    write(a.fs, a.slice_of("100"), tmp_path)
    name = a.slice_of("100")
    if memory.around.exists(f"{name}.temporary"):
        memory.around.rm_file(f"{name}.temporary")
    assert physical(memory, root) == {salted(name, "a"): LIVING}
    assert a.fs.cat_file(name) == LIVING


def test_a_rename_on_disk_leads_there_too(local: Ground) -> None:
    root = table_in(local)
    a = mounted(local, root, "a")
    _moved(a.fs, a.slice_of("100"), Path())
    assert physical(local, root) == {salted(a.slice_of("100"), "a"): LIVING}


def test_an_explicit_create_is_one_for_its_session(memory: Ground) -> None:
    root = table_in(memory)
    a, b = (mounted(memory, root, session) for session in "ab")
    for each in (a, b):
        each.fs.pipe_file(each.slice_of("100"), LIVING, mode="create")
    with pytest.raises(NameTaken):
        a.fs.pipe_file(a.slice_of("100"), ZOMBIE, mode="create")


def test_log_files_and_the_metadata_table_s_files_keep_their_names(memory: Ground) -> None:
    a = mounted(memory, table_in(memory), "a")
    of_metadata = f"{a.root}/.hoodie/metadata/files/files-0000-0_1-0-1_100.hfile"
    for name in (a.log_of("100"), of_metadata, f"{a.root}/dt=1/other_1-0-1_100.txt"):
        a.fs.pipe_file(name, LIVING)
        assert memory.read(name) == LIVING


def test_a_process_that_is_given_a_filesystem_writes_for_the_one_that_gave_it(local: Ground) -> None:
    writer = Writer(local.mount(salt="slices"), table_in(local))
    writer.begins("100")
    name = writer.slice_of("100", "2-0-2")
    assert in_a_child("spawn", pipe_file, writer.fs, name, LIVING, {}) == "won"
    assert writer.fs.cat_file(name) == LIVING
    assert salted(name, writer.fs.writer_session) in physical(local, writer.root)


# --- reading ------------------------------------------------------------------------------------------------


def test_a_reader_is_given_the_file_of_who_has_the_instant(
    a: Writer, b: Writer, reader: Writer, tmp_path: Path
) -> None:
    name = taken_over(a, b)
    for _ in range(2):
        fs = reader.fs
        assert fs.cat_file(name) == fs.cat(name) == fs.read_bytes(name) == LIVING
        assert fs.cat_file(name, start=1, end=3) == LIVING[1:3]
        assert fs.cat_ranges([name], [1], [3]) == [LIVING[1:3]]
        with fs.open(name) as file:
            assert file.read() == LIVING
        fs.get_file(name, tmp_path / "got")
        assert (tmp_path / "got").read_bytes() == LIVING
        fs.cp_file(name, f"{reader.root}/copy")
        assert fs.cat_file(f"{reader.root}/copy") == LIVING
        assert fs.exists(name)
        assert fs.isfile(name)
        assert fs.size(name) == fs.info(name)["size"] == len(LIVING)
        assert fs.info(name)["name"].endswith("_1-0-1_100.parquet")
        if not reader.fs.exists(reader.completed("100")):
            b.completes("100")


def test_listings_show_the_recorded_name_once_as_the_file_that_counts(
    a: Writer, b: Writer, reader: Writer
) -> None:
    name = taken_over(a, b)
    b.completes("100")
    fs, folder = reader.fs, f"{reader.root}/dt=1"
    for path in (folder, name):
        (listed,) = fs.ls(path, detail=True)
        assert (listed["name"], listed["size"]) == (name, len(LIVING))
        assert fs.ls(path, detail=False) == fs.find(path) == [name]
        assert fs.find(path, detail=True)[name]["size"] == len(LIVING)
    assert fs.find(reader.root, maxdepth=2)[-1] == name
    assert fs.glob(f"{folder}/*.parquet") == fs.glob(f"{reader.root}/**/*.parquet") == [name]
    last = name.rpartition("/")[2]
    assert [files for _, _, files in fs.walk(folder)] == [[last]]
    ((_, _, details),) = fs.walk(folder, detail=True)
    assert details[last]["size"] == len(LIVING)
    assert fs.du(folder) == len(LIVING)


def test_a_mount_without_the_option_sees_the_salted_names(ground: Ground, a: Writer, b: Writer) -> None:
    name = taken_over(a, b)
    plain = ground.mount(writer_session="plain")
    assert sorted(plain.ls(f"{a.root}/dt=1", detail=False)) == sorted(salted(name, each) for each in "ab")
    assert not plain.exists(name)


def test_what_another_process_has_completed_is_the_writer_s(ground: Ground, a: Writer, b: Writer) -> None:
    a.begins("100")
    b.completes("100")
    assert b.fs.cat_file(a.slice_of("100")) == b"100"
    assert b.fs.ls(f"{a.root}/dt=1", detail=False) == [a.slice_of("100")]
    assert mounted(ground, a.root, "c").fs.cat_file(a.slice_of("100")) == b"100"


def test_what_is_older_than_the_option_is_read_as_it_is(ground: Ground, root: str, reader: Writer) -> None:
    older = Writer(ground.mount(writer_session="older"), root)
    older.commits("100")
    assert reader.fs.cat_file(older.slice_of("100")) == b"100"
    assert reader.fs.ls(f"{root}/dt=1", detail=False) == [older.slice_of("100")]


def test_where_no_ledger_says_whose_file_counts_nobody_is_given_one(memory: Ground) -> None:
    root = table_in(memory)
    name = Writer(None, root).slice_of("100")
    for session in "ab":
        memory.write(salted(name, session), session.encode())
    fs = mounted(memory, root, "reader").fs
    with pytest.raises(OSError, match="2 sessions have written it"):
        fs.cat_file(name)
    assert fs.ls(f"{root}/dt=1", detail=False) == [name]


def test_a_name_that_nobody_has_written_is_not_there(ground: Ground, reader: Writer) -> None:
    name = reader.slice_of("100")
    assert not reader.fs.exists(name)
    assert not reader.fs.isfile(name)
    with pytest.raises(FileNotFoundError):
        reader.fs.cat_file(name)
    with pytest.raises(FileNotFoundError):
        reader.fs.info(name)


def test_a_guarded_name_is_created_from_the_file_that_counts(
    ground: Ground, a: Writer, b: Writer, reader: Writer
) -> None:
    name = taken_over(a, b)
    reader.fs.cp_file(name, ground.log(0))
    assert ground.read(ground.log(0)) == LIVING
    b.fs.mv(name, ground.log(1))
    assert ground.read(ground.log(1)) == LIVING
    assert not b.fs.exists(name)


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_a_folder_that_is_moved_is_read_by_the_same_names(request: pytest.FixtureRequest, kind: str) -> None:
    ground: Ground = request.getfixturevalue(kind)
    root = table_in(ground)
    a, b = (mounted(ground, root, session) for session in "ab")
    name = taken_over(a, b)
    b.completes("100")
    there = ground.name("elsewhere")
    b.fs.mv(f"{a.root}/dt=1", there, recursive=True)
    assert b.fs.ls(there, detail=False) == [f"{there}/{name.rpartition('/')[2]}"]
    assert b.fs.cat_file(f"{there}/{name.rpartition('/')[2]}") == LIVING


# --- removing -----------------------------------------------------------------------------------------------


def test_an_owner_that_reconciles_removes_its_own_and_what_it_has_taken_over(
    ground: Ground, root: str, a: Writer, b: Writer
) -> None:
    name = taken_over(a, b)
    b.fs.rm_file(name)
    assert physical(ground, root) == {}
    assert not b.fs.exists(name)


@pytest.mark.parametrize("is_completed", [False, True])
def test_who_was_taken_over_removes_its_own_alone(
    ground: Ground, root: str, a: Writer, b: Writer, is_completed: bool
) -> None:
    name = taken_over(a, b)
    if is_completed:
        b.completes("100")
    a.fs.rm(name)
    assert physical(ground, root) == {salted(name, "b"): LIVING}


def test_nobody_removes_what_another_is_writing(b: Writer, reader: Writer) -> None:
    b.begins("100")
    with pytest.raises(Fenced, match="session b"):
        reader.fs.rm_file(b.slice_of("100"))
    assert b.fs.exists(b.slice_of("100"))


def test_a_rollback_of_what_was_given_up_removes_all_of_it(
    ground: Ground, root: str, a: Writer, b: Writer, reader: Writer
) -> None:
    name = taken_over(a, b)
    reader.plans_rollback("200", of="100")
    reader.fs.rm([name])
    assert physical(ground, root) == {}


def test_a_rollback_that_takes_a_commit_for_a_failed_one_removes_nothing(
    ground: Ground, root: str, a: Writer, reader: Writer
) -> None:
    a.commits("100")
    reader.plans_rollback("200", of="100")
    with pytest.raises(Fenced, match="no failed instant"):
        reader.fs.rm_file(a.slice_of("100"))
    assert list(physical(ground, root)) == [salted(a.slice_of("100"), "a")]


@pytest.mark.parametrize("recursive", [False, True])
def test_a_cleaner_removes_all_of_a_completed_one(
    ground: Ground, root: str, a: Writer, b: Writer, reader: Writer, recursive: bool
) -> None:
    name = taken_over(a, b)
    b.completes("100")
    reader.fs.rm(name, recursive=recursive)
    assert physical(ground, root) == {}


def test_a_folder_goes_with_all_that_is_in_it(ground: Ground, root: str, a: Writer, b: Writer) -> None:
    taken_over(a, b)
    b.fs.rm(f"{root}/dt=1", recursive=True)
    assert physical(ground, root) == {}


def test_a_paused_rollback_spares_what_a_later_owner_has_written(memory: Ground) -> None:
    """The pause is a fake: it lies where the rollback looks at the ledger."""
    root = table_in(memory)
    a, b, slow = (mounted(memory, root, session) for session in ("a", "b", "slow"))
    a.begins("100")
    slow.plans_rollback("200", of="100")
    look = slow.fs.guard.salts.owner

    def paused(*args: Any, **kwargs: Any) -> Steps[Any]:
        owner = yield from look(*args, **kwargs)
        b.completes("200")  # the rollback is finished by another
        b.fs.pipe_file(b.inflight("100"), b"")
        b.fs.pipe_file(b.slice_of("100"), LIVING)
        return owner

    slow.fs.guard.salts.owner = paused
    slow.fs.rm_file(a.slice_of("100"))
    assert b.fs.cat_file(b.slice_of("100")) == LIVING


# --- on the wire --------------------------------------------------------------------------------------------


def test_it_costs_what_the_documentation_says(stub: FaultStub) -> None:
    options = {"arbiter": "native", "salt": "slices", **stub.storage_options("s3")}
    a, reader = (
        Writer(fsspec.filesystem("pias3", writer_session=session, **options), "bucket/t")
        for session in ("a", "reader")
    )
    a.fs.pipe_file("bucket/t/.hoodie/hoodie.properties", b"hoodie.table.version=9")
    a.commits("100")
    name = a.slice_of("100")
    assert reader.fs.cat_file(name) == b"100"

    def sent(act: Callable[[], Any]) -> list[Op]:
        seen = len(stub.requests)
        act()
        return [each.op for each in stub.requests[seen:]]

    by_hand = fsspec.filesystem("s3", **stub.storage_options("s3"))
    assert sent(lambda: reader.fs.cat_file(name)) == [
        Op.HEAD,
        *sent(lambda: by_hand.cat_file(salted(name, "a"))),
    ]
    assert sent(lambda: reader.fs.ls("bucket/t/dt=1")) == [Op.LIST]
    a.begins("200")
    assert sent(lambda: a.fs.pipe_file(a.slice_of("200", "2-0-2"), b"")) == [Op.PUT]
    assert sent(lambda: reader.fs.rm_file(name)) == [
        *[Op.LIST, Op.LIST, Op.GET, Op.LIST],
        *[Op.LIST, Op.DELETE],
    ]


# --- asynchronously; said wrongly ---------------------------------------------------------------------------


def test_asynchronously_it_is_the_same(memory: Ground) -> None:
    root = table_in(memory)

    async def life() -> None:
        a, b, reader = (
            Writer(
                fsspec.filesystem("piamemory", asynchronous=True, writer_session=session, salt="slices"), root
            )
            for session in ("a", "b", "reader")
        )
        name = a.slice_of("100")
        await a.fs._pipe_file(a.requested("100"), b"")
        await a.fs._pipe_file(a.inflight("100"), b"")
        await a.fs._pipe_file(name, ZOMBIE)
        await b.fs._pipe_file(b.inflight("100"), b"")
        await b.fs._pipe_file(f"{root}/temporary", LIVING)
        await b.fs._mv_file(f"{root}/temporary", name)
        assert physical(memory, root) == {salted(name, "a"): ZOMBIE, salted(name, "b"): LIVING}
        assert await reader.fs._cat_file(name) == LIVING
        assert await reader.fs._ls(f"{root}/dt=1", detail=False) == [name]
        assert await reader.fs._find(f"{root}/dt=1") == [name]
        assert await reader.fs._glob(f"{root}/dt=1/*") == [name]
        assert [files async for _, _, files in reader.fs._walk(f"{root}/dt=1")] == [[name.rpartition("/")[2]]]
        assert await reader.fs._exists(name)
        await b.fs._rm_file(name)
        assert not await reader.fs._exists(name)
        for each in (a, b, reader):
            await closed(each.fs)

    asyncio.run(life())


@pytest.mark.parametrize("salt", ["slice", "", 1, True])
def test_a_salt_is_one_that_is_known(salt: Any) -> None:
    with pytest.raises(ConfigError, match="salt must be one of"):
        fsspec.filesystem("piamemory", salt=salt)


def test_off_is_the_default(memory: Ground) -> None:
    writer = Writer(memory.mount(salt="off"), table_in(memory))
    writer.begins("100")
    assert memory.read(writer.slice_of("100")) == b"100"
