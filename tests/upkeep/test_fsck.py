"""What dead writers leave is found, and mended so that all readers agree; what is young is left alone."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.base import Refused
from putifabsent.errors import ConfigError, NameTaken
from putifabsent.shim.ledger.facts import State
from putifabsent.shim.ledger.records import marker_of
from putifabsent.shim.leftovers import What
from putifabsent.upkeep import drop, fsck, leave
from tests.fsspec_plugin.hudi_tables import Writer, records_of, table_in
from tests.stepped import stepped
from tests.upkeep.writers import Writers, all_readers_agree, mounted

if TYPE_CHECKING:
    from putifabsent.upkeep import Checked
    from tests.fsspec_plugin.grounds import Ground
    from tests.upkeep.writers import Deed

pytestmark = pytest.mark.timeout(300)

TABLE_FILE = "name-first"
# What rests on how an arbiter keeps its state alone. Over each store, and under a lock, the dead are mended.
EACH_KIND = pytest.mark.parametrize("table", ["memory-ballot", "local-claims"], indirect=True)


def check(ground: Ground, **options: Any) -> Checked:
    return fsck(mounted(ground), ground.folder, **{"grace": 0, **options})


def whats(checked: Checked) -> set[What]:
    return {each.what for each in checked.found}


def begun(ground: Ground) -> Any:
    """Return a mount of a table that has a name, and so a record of its arbiter."""
    fs = mounted(ground)
    fs.pipe_file(ground.name(TABLE_FILE), b"first")
    return fs


def test_what_killed_creators_leave_is_mended(table: Ground) -> None:
    begun(table)
    names = Writers(table, killed=True).each_death("create", before=str)
    found = check(table)
    assert {What.ABANDONED, What.UNPUBLISHED} <= whats(found)
    assert found.after == found.found, "looking mends nothing"
    assert check(table).found == found.found
    assert check(table, repair=True).after == []
    assert check(table).found == []
    there = all_readers_agree(table)
    for path, token in names:
        assert there.get(path, token.encode()) == token.encode()
    assert {name.rpartition("-")[2] for name in there} >= {"first", "alive"}, "what was acknowledged is there"
    assert {path in there for path, _ in names} == {True, False}


def test_what_killed_deleters_leave_is_mended(table: Ground) -> None:
    fs = begun(table)
    names = Writers(table, killed=True).each_death(
        "delete", before=lambda last: fs.pipe_file(table.name(last), b"old")
    )
    assert {What.ENDED, What.COPY} <= whats(check(table))
    assert check(table, repair=True).after == []
    assert check(table).found == []
    there = all_readers_agree(table)
    assert {path in there for path, _ in names} == {True, False}
    assert table.name("name-delete-alive") not in there


@EACH_KIND
def test_a_name_that_was_mended_can_be_created_if_it_is_free(table: Ground) -> None:
    fs = begun(table)
    names = Writers(table).each_death("create", before=str)
    check(table, repair=True)
    there = all_readers_agree(table)
    for path, _ in names:
        if path in there:
            with pytest.raises(NameTaken):
                fs.pipe_file(path, b"new")
        else:
            fs.pipe_file(path, b"new")
            assert table.read(path) == b"new"
    assert check(table).found == []


def test_a_table_that_is_as_it_should_be_has_nothing(table: Ground) -> None:
    fs = begun(table)
    fs.pipe_file(table.name("name-1"), b"1")
    fs.rm_file(table.name("name-1"))
    fs.pipe_file(table.name("name-1"), b"again")
    found = check(table)
    assert whats(found) <= {What.ENDED}, "a ballot's keys stay until they are cleaned up"
    assert check(table, repair=True).after == []
    assert all_readers_agree(table)[table.name("name-1")] == b"again"


@EACH_KIND
def test_what_is_young_is_left_to_its_writers(table: Ground) -> None:
    begun(table)
    Writers(table).each_death("create", before=str)
    found = check(table, grace=3600, repair=True)
    assert found.found == []
    assert found.busy > 0
    assert check(table).found


def created_beside_repair(ground: Ground, deed: Deed, at: int) -> int:
    """Repair the table just before one step of a creator; return how many steps that takes."""
    taken = 0

    def step(number: int) -> None:
        nonlocal taken
        taken = number
        if number == at:
            check(ground, repair=True)

    mounted(ground).perform(stepped(deed.protocol(), step))
    return taken


@pytest.mark.parametrize("table", ["memory-ballot", "local-claims", "local-redis"], indirect=True)
def test_a_creator_goes_on_beside_repair(table: Ground) -> None:
    """Whenever that comes between two of its steps, its creation is there."""
    fs = begun(table)
    at, taken = 1, 1
    while at <= taken:
        deed = Writers(table).deed("create", f"name-{at}")
        taken = created_beside_repair(table, deed, at)
        assert table.read(deed.path) == fs.cat_file(deed.path) == deed.token.encode()
        at += 1
    assert at > 6
    check(table, repair=True)
    assert check(table).found == []
    assert len(all_readers_agree(table)) == at


def test_a_name_whose_bytes_are_gone_is_freed_only_where_that_is_wanted(table: Ground) -> None:
    fs = begun(table)
    lost = table.name("name-lost")
    fs.pipe_file(lost, b"gone")
    token = token_of(fs, lost)
    for name in table.around.find(table.folder):
        if token in name.rpartition("/")[2] and not name.rpartition("/")[2].startswith("A~"):
            table.around.rm_file(name)
    table.around.rm_file(lost)
    found = check(table, repair=True)
    assert whats(found) == {What.LOST}
    assert found.after == found.found
    assert check(table, repair=True, free_lost=True).after == []
    assert not fs.exists(lost)
    fs.pipe_file(lost, b"new")
    assert all_readers_agree(table)[lost] == b"new"


def test_a_plain_name_that_was_removed_round_the_shim_is_published_again(table: Ground) -> None:
    fs = begun(table)
    path = table.name("name-1")
    fs.pipe_file(path, b"1")
    table.around.rm_file(path)
    assert [(each.name, each.what) for each in check(table).found] == [(path, What.UNPUBLISHED)]
    assert check(table, repair=True).after == []
    assert table.read(path) == b"1"


def test_bytes_of_a_ballot_that_were_removed_are_copied_back(local: Ground) -> None:
    ground = replace(local, arbiter="ballot")
    fs = begun(ground)
    path = ground.name("name-1")
    fs.pipe_file(path, b"1")
    token = token_of(fs, path)
    for name in ground.around.find(ground.folder):
        if name.rpartition("/")[2].startswith("P~") and token in name:
            ground.around.rm_file(name)
    assert fs.cat_file(path) == b"1"
    assert whats(check(ground)) == {What.UNBACKED}
    assert check(ground, repair=True).after == []
    assert all_readers_agree(ground)[path] == b"1"


def test_a_guarded_name_that_was_written_over_is_published_again(s3: Ground) -> None:
    ground = replace(s3, arbiter="ballot")
    fs = begun(ground)
    path = ground.name("name-1")
    fs.pipe_file(path, b"1")
    ground.write(path, b"another tool's")
    assert whats(check(ground)) == {What.REPLACED}
    assert check(ground, repair=True).after == []
    assert all_readers_agree(ground)[path] == b"1"


def test_what_nothing_guards_may_be_written_over(table: Ground) -> None:
    fs = begun(table)
    path = table.name("mine")
    with fs.open(path, "xb") as file:
        file.write(b"1")
    fs.pipe_file(path, b"2")
    assert check(table).found == []
    assert check(table, repair=True).after == []
    assert table.read(path) == fs.cat_file(path) == b"2"


def test_a_temporary_file_goes_when_it_is_old(local: Ground) -> None:
    fs = mounted(replace(local, arbiter="native"))
    state = f"{local.folder}/.putifabsent"
    os.mkdir(state)  # noqa: PTH102 - as the store itself
    paths = [f"{state}/{uuid.uuid4()}.{uuid.uuid4().hex}" for _ in range(2)]
    for path in paths:
        local.write(path, b"half")
    os.utime(paths[0], (0, 0))
    assert [each.path for each in fsck(fs, local.folder).found] == [paths[0]]
    assert fsck(fs, local.folder, repair=True).after == []
    assert [local.is_there(path) for path in paths] == [False, True]


def test_the_entries_of_a_queue_go_when_nobody_has_written_them_for_long(local: Ground) -> None:
    fs = mounted(replace(local, arbiter="native"))
    with fs.slot(local.folder):
        queue = f"{local.folder}/.putifabsent/slots"
        (held,) = local.around.find(queue)
        left = f"{queue}/0000000001~left"
        local.write(left, b"{}")
        os.utime(left, (0, 0))
        assert [(each.what, each.path) for each in fsck(fs, local.folder).found] == [(What.NEEDLESS, left)]
        assert fsck(fs, local.folder, repair=True).after == []
        assert local.around.find(queue) == [held]


def test_a_mount_by_another_arbiter_is_refused(table: Ground) -> None:
    begun(table)
    with pytest.raises(ConfigError, match="the store itself"):
        check(replace(table, arbiter="native"), repair=True)


def test_a_part_of_a_table_is_refused(disk: Ground) -> None:
    fs = mounted(disk)
    fs.pipe_file(disk.log(), b"{}")
    with pytest.raises(ConfigError, match=f"name the table itself, {disk.folder}"):
        fsck(fs, f"{disk.folder}/_delta_log")
    assert fsck(fs, disk.folder).names == 1


def test_names_of_formats_are_looked_after_like_others(disk: Ground) -> None:
    """Their state lies in the table's root, and some are several names of one identity."""
    fs = mounted(disk)
    folder = f"{disk.folder}/metadata"
    fs.makedirs(folder)
    for name in (disk.log(0), f"{folder}/v1.metadata.json", f"{folder}/v2.gz.metadata.json"):
        fs.pipe_file(name, b"{}")
        disk.around.rm_file(name)
    found = check(disk)
    assert {each.what for each in found.found} == {What.UNPUBLISHED}
    assert found.names == 3
    assert check(disk, repair=True).after == []
    assert len(all_readers_agree(disk)) == 3


def test_a_ledger_is_looked_after_with_its_table(disk: Ground) -> None:
    fs = mounted(disk)
    instant = hudi_table(disk)
    for step in ("commit.requested", "commit.inflight"):
        fs.pipe_file(f"{instant}.{step}", b"")
    fs.pipe_file(f"{instant}_20260101000000001.commit", b"{}")
    records = disk.around.glob(f"{disk.folder}/.hoodie/.putifabsent/ledger/*.0000000001")
    record = records[0]
    disk.around.rm_file(record)
    assert [(each.name, each.what) for each in check(disk).found] == [(record, What.UNPUBLISHED)]
    assert check(disk, repair=True).after == []
    assert disk.is_there(record)


def test_a_name_too_long_for_a_key_is_found_by_itself(disk: Ground) -> None:
    fs = begun(disk)
    long = disk.name(f"name-{'x' * 230}")
    fs.pipe_file(long, b"1")
    assert check(disk).found == []
    assert check(disk).names == 2


def hudi_table(ground: Ground) -> str:
    """Make a Hudi table of the new layout; return where an instant of it begins."""
    folder = f"{ground.folder}/.hoodie"
    ground.around.makedirs(f"{folder}/timeline")
    ground.write(f"{folder}/hoodie.properties", b"hoodie.table.version=8\nhoodie.timeline.layout.version=2\n")
    return f"{folder}/timeline/20260101000000000"


def token_of(fs: Any, path: str) -> str:
    """Return the token of the creation that holds a name."""
    with pytest.raises(NameTaken) as caught:
        fs.pipe_file(path, b"")
    assert caught.value.holder is not None
    return str(caught.value.holder.token).partition(".")[0]


def test_names_that_have_ended_cost_a_registry_nothing_more(local: Ground, registry: str) -> None:
    ground = replace(local, arbiter=registry)
    fs = begun(ground)
    for number in range(3):
        fs.pipe_file(ground.name(f"name-{number}"), b"old")
        fs.rm_file(ground.name(f"name-{number}"))
    assert check(ground).names == 1
    ground.write(ground.name("name-1"), b"another tool's, and new")
    assert check(ground).names == 2


def test_bodies_of_killed_committers_are_removed_when_their_instants_are_over(memory: Ground) -> None:
    root = table_in(memory)
    state = f"{root}/.hoodie/.putifabsent"
    memory.around.pipe_file(f"{state}/ledger/-life", marker_of(State(life="one", past=frozenset({"099"}))))
    Writer(memory.mount(), root).commits("100")
    killed = f"{state}/bodies/099~killed.0"
    for body in (killed, f"{state}/bodies/101~busy.0"):
        memory.around.pipe_file(body, b"")
    found = fsck(memory.mount(), root)
    assert [(each.what, each.path) for each in found.found] == [(What.NEEDLESS, killed)]
    assert fsck(memory.mount(), root, repair=True).after == []
    left = [name.rpartition("/")[2].partition("~")[0] for name in memory.around.find(f"{state}/bodies")]
    assert left == ["100", "101"]


def test_ballots_of_records_that_nobody_has_seen_go_behind_a_checkpoint(memory: Ground) -> None:
    root = table_in(memory)
    writer = Writer(memory.mount(arbiter="ballot"), root)
    for number in range(100, 135):
        writer.commits(str(number))
    state = f"{root}/.hoodie/.putifabsent"
    shelf = f"{state}/ballot/.putifabsent%2Fledger"
    (life,) = {
        name.rpartition("/")[2].partition(".")[0] for name in memory.around.find(f"{state}/ledger")
    } - {
        "-life",
        "9999999936",
    }
    dead = f"{shelf}/{life}.0000000007/P~0000000001~0000000000~dead.0"
    memory.around.pipe_file(dead, b"{}")
    fsck(memory.mount(arbiter="ballot"), root, repair=True, grace=0)
    assert not memory.around.exists(dead)
    writer.commits("200")


def test_repair_removes_the_records_that_writers_without_the_right_have_left(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = table_in(memory)
    writer = Writer(memory.mount(), root)
    monkeypatch.setattr(writer.fs.guard.ledgers, "_prune", lambda _: None)
    for number in range(100, 140):
        writer.commits(str(number))
    assert len(records_of(memory, root)) > 64
    fsck(memory.mount(), root, repair=True)
    assert len(records_of(memory, root)) < 64
    Writer(memory.mount(), root).commits("200")


@EACH_KIND
def test_who_may_not_delete_mends_all_else_and_hears_why_the_rest_is_left(
    table: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = begun(table)
    Writers(table, killed=True).each_death(
        "delete", before=lambda last: fs.pipe_file(table.name(last), b"old")
    )
    fs.pipe_file(table.name("name-last"), b"new")
    table.around.rm_file(table.name("name-last"))
    with monkeypatch.context() as patch:
        patch.setattr(type(fs.backend), "delete", lambda *_: Refused(PermissionError("s3:DeleteObject")))
        checked = check(table, repair=True)
        with pytest.raises(PermissionError, match="DeleteObject"):
            leave(fs, table.folder)
    assert What.UNPUBLISHED in whats(checked)
    assert {each.what for each in checked.after} == {What.ENDED, What.COPY}
    assert checked.refused == "s3:DeleteObject"
    assert table.read(table.name("name-last")) == b"new"
    assert check(table, repair=True).after == []


@pytest.mark.parametrize("arbiter", ["native", "ballot"])
def test_a_commit_that_nothing_shows_is_published(memory: Ground, arbiter: str) -> None:
    ground, root = replace(memory, arbiter=arbiter), table_in(memory)
    name = Writer(ground.mount(), root).commits("100", b"rows")
    memory.around.rm_file(name)  # as it is before it is published
    checked = check(ground)
    assert [(each.what, each.name) for each in checked.after] == [(What.UNPUBLISHED, name)]
    assert check(ground, grace=3600).busy == 1
    assert check(ground, repair=True).after == []
    assert memory.read(name) == b"rows"
    assert check(ground).found == []


def test_a_completed_name_that_another_tool_has_removed_is_told_and_left(memory: Ground) -> None:
    ballot, root = replace(memory, arbiter="ballot"), table_in(memory)
    writer = Writer(ballot.mount(), root)
    name = writer.commits("100", b"rows")
    writer.commits("101")
    memory.around.rm_file(name)
    checked = check(ballot, repair=True)
    assert [(each.what, each.name) for each in checked.after] == [(What.REMOVED, name)]
    with pytest.raises(OSError, match=r"/100_.*\(removed\)"):
        leave(ballot.mount(), root)
    memory.around.copy(checked.after[0].path, name)
    assert check(ballot, repair=True).after == []


def test_a_commit_that_was_undone_by_who_died_before_its_name_was_gone_is_removed(memory: Ground) -> None:
    root = table_in(memory)
    writer = Writer(memory.mount(), root)
    name = writer.commits("100")
    undone = memory.around.store[name]
    writer.plans_rollback("101", of="100")
    writer.fs.rm_file(name)
    memory.around.store[name] = undone
    assert [(each.what, each.name) for each in check(memory).after] == [(What.COPY, name)]
    assert check(memory, repair=True).after == []
    assert not memory.around.exists(name)


def in_the_place_of(ground: Ground, name: str, thing: str) -> None:
    """Have another tool put something where a name was to be shown."""
    ground.around.rm_file(name)
    if thing == "link":
        Path(name).symlink_to("/nowhere")
    elif thing == "folder":
        ground.around.makedirs(name)
    else:
        ground.write(name, b"another tool's")


@pytest.mark.parametrize("what", ["local-file", "local-folder", "local-link", "memory-folder"])
def test_what_keeps_a_commit_from_being_shown_is_found_however_young_and_writers_hear_what_to_do(
    what: str, request: pytest.FixtureRequest
) -> None:
    kind, thing = what.split("-")
    ground: Ground = request.getfixturevalue(kind)
    root = table_in(ground)
    name = Writer(ground.mount(writer_session="a"), root).commits("100", b"rows")
    in_the_place_of(ground, name, thing)
    later = Writer(ground.mount(writer_session="b"), root)
    with pytest.raises(OSError, match=f"(move .* away|remove it): '{name}'"):
        later.commits("101")
    for repair in (False, True):
        checked = check(ground, grace=3600, repair=repair)
        assert [(each.what, each.name) for each in checked.after] == [(What.BLOCKED, name)]
    with pytest.raises(OSError, match=r"away|remove it"):
        drop(ground.mount(), root)
    (ground.around.rmdir if thing == "folder" else ground.around.rm_file)(name)
    assert [each.what for each in check(ground).found] == [What.UNPUBLISHED]
    assert check(ground, repair=True).after == []
    assert ground.read(name) == b"rows"
    later.completes("101")


def test_what_stores_write_over_is_replaced_in_the_place_of_a_commit(memory: Ground) -> None:
    root = table_in(memory)
    name = Writer(memory.mount(), root).commits("100", b"rows")
    in_the_place_of(memory, name, "file")
    assert [each.what for each in check(memory).after] == [What.REPLACED]
    assert check(memory, repair=True).after == []
    assert memory.read(name) == b"rows"


@pytest.mark.parametrize("thing", ["file", "folder", "link"])
def test_what_is_in_the_place_of_one_name_keeps_no_other_from_being_mended(disk: Ground, thing: str) -> None:
    fs, names = begun(disk), [disk.log(number) for number in range(2)]
    for name in names:
        fs.pipe_file(name, name.encode())
    in_the_place_of(disk, names[0], thing)
    disk.around.rm_file(names[1])
    checked = check(disk, repair=True)
    assert [(each.what, each.name) for each in checked.after] == [(What.BLOCKED, names[0])]
    assert disk.read(names[1]) == names[1].encode()
    with pytest.raises(OSError, match=r"\(blocked\)"):
        drop(fs, disk.folder)


def test_what_was_pending_before_the_ledger_began_is_not_forgotten(memory: Ground) -> None:
    """It is completed by its name: what an arbiter keeps of that is nobody's to remove."""
    ballot, root = replace(memory, arbiter="ballot"), table_in(memory)
    timeline = f"{root}/.hoodie/timeline"
    memory.write(f"{timeline}/099.compaction.requested", b"plan")
    compactor = ballot.mount()
    compactor.pipe_file(f"{timeline}/099.compaction.inflight", b"")
    name = f"{timeline}/099_100.commit"
    compactor.pipe_file(name, b"rows")
    Writer(ballot.mount(), root).commits("101")
    [bytes_] = [each for each in memory.around.find(root) if "ballot/timeline/099_100.commit/P~" in each]
    kept = memory.around.store[bytes_]
    for each in (name, bytes_):
        memory.around.rm_file(each)
    assert [each.what for each in check(ballot, repair=True).after] == [What.LOST]
    memory.around.store[bytes_] = kept  # as a version of a bucket's is restored
    assert check(ballot, repair=True).after == []
    assert memory.read(name) == b"rows"


@pytest.mark.parametrize("repair", [False, True])
def test_a_ledger_that_is_half_removed_is_found_and_left(memory: Ground, repair: bool) -> None:
    root = table_in(memory)
    Writer(memory.mount(), root).commits("100")
    [first] = memory.around.glob(f"{root}/.hoodie/.putifabsent/ledger/*.0000000001")
    memory.around.rm_file(first)
    checked = fsck(memory.mount(), root, repair=repair)
    assert [(each.what, each.path) for each in checked.found] == [
        (What.HALF_REMOVED, f"{root}/.hoodie/.putifabsent/ledger")
    ]
    assert checked.after == checked.found


def test_a_table_whose_ledger_is_half_removed_leaves_its_arbiter_so_that_the_ledger_can_end(
    memory: Ground,
) -> None:
    ballot, root = replace(memory, arbiter="ballot"), table_in(memory)
    writer = Writer(ballot.mount(), root)
    writer.commits("100")
    for name in memory.around.find(f"{root}/.hoodie/.putifabsent"):
        if ".0000000001" in name:
            memory.around.rm_file(name)
    checked = fsck(ballot.mount(), root, repair=True, free_lost=True, grace=0)
    assert {each.what for each in checked.after} == {What.HALF_REMOVED}
    leave(ballot.mount(), root)
    drop(memory.mount(), root)
    Writer(memory.mount(), root).commits("200")
