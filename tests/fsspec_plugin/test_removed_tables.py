"""A table that is removed through the shim goes whole, however that is called; one that stays goes on."""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import ConfigError, Fenced, NameTaken
from putifabsent.fsspec_plugin import ledgers
from putifabsent.fsspec_plugin.remote import Remote
from tests.fsspec_plugin.hudi_tables import Writer, table_in

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground

NATIVE = ("memory-native", "s3-native", "local-native")
FIRST, SECOND, THIRD = "20260101120000000", "20260101120100000", "20260101120200000"


@pytest.mark.parametrize("ground", NATIVE[:2], indirect=True)
@pytest.mark.parametrize("pattern", ["t", "t*", "[t]", "*"])
def test_nothing_of_a_table_stays_whether_a_pattern_or_a_path_names_it(
    pattern: str, ground: Ground, a: Writer, b: Writer
) -> None:
    a.commits(FIRST)
    a.begins(SECOND)
    b.fs.rm(f"{ground.folder}/{pattern}", recursive=True)
    assert ground.around.find(ground.folder) == []
    table_in(ground)
    b.commits(FIRST)
    assert b.timeline()[-1] == b.completed(FIRST).rpartition("/")[2]


def test_what_is_deeper_than_is_removed_goes_on(memory: Ground) -> None:
    root = table_in(memory)
    a, b = (Writer(memory.mount(writer_session=each), root) for each in "ab")
    a.begins(FIRST)
    b.timeline()
    with pytest.raises(OSError, match="not empty"):
        b.fs.rm(root, recursive=True, maxdepth=1)
    a.completes(FIRST)
    assert a.completed(FIRST).rpartition("/")[2] in b.timeline()


@pytest.mark.parametrize("ground", [*NATIVE, "memory-redis", "local-claims"], indirect=True)
def test_who_has_removed_a_table_completes_nothing_in_the_next_one_that_it_had_begun(
    ground: Ground, a: Writer, b: Writer
) -> None:
    a.commits(FIRST)
    a.begins(SECOND)
    a.fs.rm(a.root, recursive=True)
    table_in(ground)
    b.commits(THIRD)
    with pytest.raises(Fenced, match="the table was removed since"):
        a.fs.pipe_file(a.slice_of(SECOND, "2-0-2"), b"a zombie's")
    with pytest.raises(Fenced, match="removed with its table"):
        a.completes(SECOND)
    assert [each for each in b.timeline() if SECOND in each] == []
    a.commits(SECOND)


@pytest.mark.parametrize("ground", [NATIVE[0], "memory-redis"], indirect=True)
def test_nor_does_a_service_that_was_started_again_in_a_turn_of_the_table_before(
    ground: Ground, root: str, b: Writer
) -> None:
    old, new = (Writer(ground.mount(writer_session="a", skip_instance_cache=True), root) for _ in range(2))
    old.begins(FIRST)
    turn = str(Remote(old.fs).take_turn(root, str(uuid.uuid4()), thread="main", lease=600.0).turn)
    b.fs.rm(root, recursive=True)
    table_in(ground)
    with Remote(new.fs).in_turn(new.completed(FIRST), turn), pytest.raises(Fenced, match="was removed since"):
        new.completes(FIRST)
    assert b.timeline() == []


def test_a_folder_that_is_found_to_be_gone_leaves_nothing_to_the_next_table_either(local: Ground) -> None:
    a, b = (Writer(local.mount(writer_session=each), table_in(local)) for each in "ab")
    a.begins(FIRST)
    local.around.rm(a.root, recursive=True)
    local.around.makedirs(f"{a.root}/.hoodie")
    with pytest.raises(FileNotFoundError):
        a.fs.pipe_file(a.requested(SECOND), b"")
    table_in(local)
    b.commits(SECOND)
    with pytest.raises(Fenced, match="removed with its table"):
        a.completes(FIRST)


def tables_of(ground: Ground, number: int) -> list[str]:
    ground.around.mv(table_in(ground), ground.name("0"), recursive=True)
    for each in range(1, number):
        ground.around.cp(ground.name("0"), ground.name(str(each)), recursive=True)
    return [ground.name(str(each)) for each in range(number)]


def test_of_very_many_tables_it_is_remembered_what_was_begun_in_them(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "_MOST_READ", 2)
    fs, roots = memory.mount(writer_session="a", skip_instance_cache=True), tables_of(memory, 4)
    writers = [Writer(fs, root) for root in roots]
    for each in writers:
        each.begins(FIRST)
    writers[3].completes(FIRST)
    writers[1].completes(FIRST)
    assert [root for root in roots if fs.guard.ledgers.known(f"{root}/.hoodie/.putifabsent")] == [
        roots[1],
        roots[3],
    ]
    memory.around.rm(f"{roots[0]}/.hoodie/.putifabsent", recursive=True)
    Writer(memory.mount(writer_session="b"), roots[0]).commits(SECOND)
    with pytest.raises(Fenced, match="removed with its table"):
        writers[0].completes(FIRST)


def test_of_a_table_in_use_it_is_remembered_however_many_others_come(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "MOST_KNOWN", 2)
    fs, roots = memory.mount(writer_session="a", skip_instance_cache=True), tables_of(memory, 4)
    first, *others = (Writer(fs, root) for root in roots)
    first.begins(FIRST)
    for each in others:
        each.begins(FIRST)
    fs.rm(first.root, recursive=True)
    memory.around.cp(others[0].root, first.root, recursive=True)
    memory.around.rm(f"{first.root}/.hoodie/.putifabsent", recursive=True)
    Writer(memory.mount(writer_session="b"), first.root).commits(SECOND)
    with pytest.raises(Fenced, match="removed with its table"):
        first.completes(FIRST)


def test_who_decides_about_the_next_table_is_asked_anew(memory: Ground) -> None:
    fs = memory.fs
    fs.pipe_file(memory.log(), b"{}")
    fs.rm(memory.folder, recursive=True)
    memory.mount(arbiter="ballot").pipe_file(memory.log(), b"{}")
    with pytest.raises(ConfigError, match="ballot"):
        fs.pipe_file(memory.log(1), b"{}")


class Foretold(str):
    """A folder's name; while it is looked at another thread finds one more table."""

    __slots__ = ("tables",)
    tables: Any

    def __format__(self, how: str) -> str:
        plain = super().__format__(how)
        self.tables[f"{plain}-more-{len(self.tables)}"] = None
        return plain


def test_a_table_is_removed_while_other_threads_find_more_tables(memory: Ground) -> None:
    root = table_in(memory)
    a, b = (Writer(memory.mount(writer_session=each), root) for each in "ab")
    a.begins(FIRST)
    b.timeline()
    assert b.fs.guard.rules is not None
    tables = b.fs.guard.rules._tables
    elsewhere = Foretold(memory.name("other"))
    elsewhere.tables = tables
    tables[elsewhere] = None
    b.fs.rm(root, recursive=True)
    assert memory.files() == []


BESIDE = {
    "an Iceberg table's, now Paimon's": ("t/metadata/v1.metadata.json", {}, {"t/schema/schema-0": b"{}"}),
    "a query's, now anybody's": ("t/offsets/0", {"t/metadata": b"{}"}, {}),
}
"""A name; what makes it a format's; and what stands beside it when it is nobody's."""


@pytest.mark.parametrize("what", BESIDE)
def test_what_made_a_name_a_formats_is_forgotten_with_its_table(what: str, memory: Ground) -> None:
    last, with_it, without_it = BESIDE[what]
    fs, name = memory.fs, memory.name(last)
    fs.pipe({memory.name(each): body for each, body in with_it.items()})
    fs.pipe_file(name, b"{}")
    with pytest.raises(NameTaken):
        fs.pipe_file(name, b"[]")
    fs.rm(memory.name("t"), recursive=True)
    fs.pipe({memory.name(each): body for each, body in without_it.items()})
    for body in (b"first", b"second"):
        fs.pipe_file(name, body)
        assert memory.read(name) == body


def copied(ground: Ground, source: str, target: str) -> None:
    """Copy a table as an operator would, round the shim; on disks with attributes, as ``cp -a`` does."""
    if ground.kind == "local":
        shutil.copytree(source, target)
    else:
        ground.around.cp(source, target, recursive=True)


@pytest.mark.parametrize("ground", NATIVE, indirect=True)
def test_who_knows_more_of_a_table_than_the_copy_in_its_place_reads_it_anew(
    ground: Ground, root: str, a: Writer, b: Writer, reader: Writer
) -> None:
    a.commits("20260101120000000")
    copied(ground, root, ground.name("aside"))
    a.commits("20260101120100000")
    a.begins("20260101120200000")
    ground.around.rm(root, recursive=True)
    copied(ground, ground.name("aside"), root)
    b.commits("20260101120300000")
    with b.fs.turn(root):
        reader.begins("20260101120400000")
        with pytest.raises(TimeoutError), a.fs.turn(root, timeout=0):
            pytest.fail("two have one turn")
    with pytest.raises(Fenced, match="removed"):
        a.completes("20260101120200000")
    a.commits("20260101120500000")
    assert a.timeline() == b.timeline()


@pytest.mark.parametrize("arbiter", ["native", "ballot"])
def test_who_commits_to_a_copy_without_attributes_is_told_of_it_and_what_to_do(
    local: Ground, arbiter: str
) -> None:
    root, copy = table_in(local), local.name("copy")
    committed = Writer(local.mount(arbiter=arbiter), root).commits("20260101120000000")
    shutil.copytree(root, copy, copy_function=shutil.copyfile)
    writer = Writer(local.mount(arbiter=arbiter, skip_instance_cache=True), copy)
    with pytest.raises(OSError, match="copied it without its attributes: move that file away") as caught:
        writer.commits("20260101120100000")
    assert caught.value.filename == committed.replace(root, copy)
    local.around.mv(caught.value.filename, local.name("away"))
    writer.commits("20260101120200000")
    assert local.read(caught.value.filename) == b"{}"


@pytest.mark.parametrize("ground", ["s3-ballot", "s3-claims"], indirect=True)
def test_another_table_takes_the_place_of_one_that_was_removed(ground: Ground) -> None:
    old, new, entry = ground.name("old"), ground.name("new"), f"_delta_log/{0:020d}.json"
    for table in (old, new):
        ground.fs.pipe_file(f"{table}/{entry}", b"{}")
    assert ground.fs.isdir(new)
    ground.fs.rm(new, recursive=True)
    assert [ground.fs.isdir(new), ground.fs.exists(new)] == [False, False]
    ground.fs.mv(old, new, recursive=True)
    assert ground.fs.find(ground.folder) == [f"{new}/{entry}"]
    assert ground.fs.info(new)["type"] == "directory"
    ground.around.rm(f"{new}/{entry}")
    assert ground.fs.isdir(new), "it is not published, and lives"
