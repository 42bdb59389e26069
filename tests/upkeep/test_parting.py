"""A table leaves its arbiter, changes it, or is gone: what was decided stays, nothing is decided twice."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fsspec.implementations.local import LocalFileSystem

from putifabsent.backends.local import LocalStore
from putifabsent.errors import ConfigError, NameTaken
from putifabsent.upkeep import drop, fsck, leave, ledger_of, migrate
from putifabsent.upkeep.checking import Table
from tests.backends.dynamodb_servers import registry_at
from tests.fsspec_plugin.grounds import decided_by
from tests.fsspec_plugin.hudi_tables import Writer, table_in
from tests.golden.worlds import FakeClaims
from tests.stepped import stepped
from tests.upkeep.test_fsck import hudi_table
from tests.upkeep.writers import Stopped, Writers, all_readers_agree, fresh, mounted

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground

pytestmark = pytest.mark.timeout(300)


def begun(ground: Ground) -> Any:
    """Return a mount of a table with a name, another that was created twice, and one that was deleted."""
    fs = mounted(ground)
    for name in ("name-1", "name-2", "name-3"):
        fs.pipe_file(ground.name(name), b"old")
    for name in ("name-2", "name-3"):
        fs.rm_file(ground.name(name))
    fs.pipe_file(ground.name("name-2"), b"new")
    return fs


THERE = {"name-1": b"old", "name-2": b"new"}


def there(ground: Ground) -> dict[str, bytes]:
    return {name.rpartition("/")[2]: data for name, data in all_readers_agree(ground).items()}


def kept(ground: Ground) -> list[str]:
    return [name for name in ground.around.find(ground.folder) if "/.putifabsent/" in name]


def check(fs: Any, path: str) -> list[Any]:
    return fsck(fs, path, grace=0).found


def by(ground: Ground, arbiter: str) -> Ground:
    return replace(ground, arbiter=arbiter)


@pytest.fixture
def another_registry(registry: str) -> str:
    """Return the address of a registry that has never heard of the table."""
    return registry_at(parse_qs(urlsplit(registry).query)["endpoint_url"][0])


def test_a_table_that_was_left_is_its_plain_names(table: Ground) -> None:
    fs = begun(table)
    names = Writers(table).each_death("create", before=str)
    table.around.rm_file(table.name("name-1"))
    removed = leave(fs, table.folder)
    assert removed > 0
    assert kept(table) == []
    native = by(table, "native")
    found = there(native)
    assert found.items() >= THERE.items()
    assert len(found) > len(THERE) + 1
    assert len(found) < len(THERE) + 1 + len(names)


def test_a_store_whose_clock_is_ahead_is_settled_like_any_other(disk: Ground) -> None:
    fs = begun(disk)
    for name in kept(disk):
        os.utime(name, (2**32, 2**32))
    disk.around.rm_file(disk.name("name-1"))
    leave(fs, disk.folder)
    assert there(by(disk, "native")) == THERE


def test_the_store_decides_of_a_table_that_was_left(disk: Ground) -> None:
    leave(begun(disk), disk.folder)
    native = mounted(by(disk, "native"))
    with pytest.raises(NameTaken):
        native.pipe_file(disk.name("name-1"), b"again")
    native.pipe_file(disk.name("name-3"), b"free")


@pytest.mark.parametrize("verb", [leave, drop])
def test_it_can_be_done_again(table: Ground, verb: Any) -> None:
    fs = begun(table)
    if verb is drop:
        fs.rm(table.folder, recursive=True)
    assert verb(fs, table.folder) > 0
    assert verb(fs, table.folder) == 0


def test_who_leaves_a_table_while_another_does_finds_it_left(table: Ground) -> None:
    fs = begun(table)
    found = Table(fs, table.folder)
    leave(fs, table.folder)
    found.remove(sorted(found.kept))
    assert kept(table) == []
    assert there(table) == THERE


def test_what_can_not_be_published_keeps_the_table_as_it_is(table: Ground) -> None:
    fs = begun(table)
    for name in table.around.find(table.folder):
        last = name.rpartition("/")[2]
        if name == table.name("name-1") or ("/name-1/" in name and not last.startswith("A~")):
            table.around.rm_file(name)
    before = kept(table)
    with pytest.raises(OSError, match=r"name-1 \(lost\) are left"):
        leave(fs, table.folder)
    assert {name for name in before if "/name-1/" in name or "/arbiters/" in name} <= set(kept(table))


@pytest.mark.parametrize("verb", [leave, drop, check])
def test_what_can_not_be_listed_is_not_taken_for_what_is_not_there(
    local: Ground, verb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = begun(by(local, "ballot"))
    before = kept(local)
    ls = LocalFileSystem.ls

    def failing(self: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        if path.endswith("/ballot"):
            raise OSError(errno.EIO, "the disk fails", path)
        return ls(self, path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "ls", failing)
        with pytest.raises(OSError, match="the disk fails"):
            verb(fs, local.folder)
    assert kept(local) == before


MOVES = [("ballot", "registry"), ("registry", "ballot"), ("lock", "registry"), ("ballot", "native")]


@pytest.mark.parametrize(("old", "new"), MOVES)
def test_a_table_that_moves_keeps_what_was_decided(
    local: Ground, old: str, new: str, request: pytest.FixtureRequest
) -> None:
    def arbiter(word: str) -> str:
        return word if word in ("ballot", "native") else str(request.getfixturevalue(word))

    before, after = by(local, arbiter(old)), by(local, arbiter(new))
    fs = begun(before)
    Writers(before).each_death("create", before=str)
    migrate(fs, mounted(after), local.folder)
    found = there(after)
    assert found.items() >= THERE.items()
    to = mounted(after)
    for name in found:
        with pytest.raises(NameTaken):
            to.pipe_file(local.name(name), b"again")
    to.pipe_file(local.name("name-3"), b"free")
    to.rm_file(local.name("name-1"))
    to.pipe_file(local.name("name-1"), b"another life")
    assert there(after) == {**found, "name-1": b"another life", "name-3": b"free"}
    fsck(to, local.folder, repair=True, grace=0)
    assert there(after) == {**found, "name-1": b"another life", "name-3": b"free"}


@pytest.mark.parametrize("new", ["native", "another_registry"])
@pytest.mark.parametrize("old", ["ballot", "registry"])
def test_a_mount_by_the_old_arbiter_is_refused_afterwards(
    local: Ground, old: str, new: str, request: pytest.FixtureRequest
) -> None:
    before, after = (
        by(local, each if each in ("ballot", "native") else request.getfixturevalue(each))
        for each in (old, new)
    )
    migrate(begun(before), mounted(after), local.folder)
    with pytest.raises(ConfigError, match="must let the same one decide"):
        mounted(fresh(before)).pipe_file(local.name("name-9"), b"")
    mounted(fresh(after)).pipe_file(local.name("name-9"), b"")


def test_a_mount_by_the_store_is_refused_after_a_move_of_a_table_of_which_nothing_was_kept(
    local: Ground,
) -> None:
    ballot, native = by(local, "ballot"), by(local, "native")
    begun(native)
    for name in kept(local):
        local.around.rm_file(name)
    migrate(mounted(fresh(native)), mounted(ballot), local.folder)
    with pytest.raises(ConfigError, match="must let the same one decide"):
        mounted(fresh(native)).pipe_file(local.name("name-9"), b"")
    mounted(fresh(ballot)).pipe_file(local.name("name-9"), b"")


def test_a_table_that_was_moved_to_the_store_itself_moves_on(local: Ground) -> None:
    ballot, native = by(local, "ballot"), by(local, "native")
    migrate(begun(ballot), mounted(native), local.folder)
    assert migrate(mounted(fresh(native)), mounted(fresh(ballot)), local.folder) == 1
    with pytest.raises(ConfigError, match="must let the same one decide"):
        mounted(fresh(native)).pipe_file(local.name("name-9"), b"")
    mounted(fresh(ballot)).pipe_file(local.name("name-9"), b"")
    assert there(ballot) == {**THERE, "name-9": b""}


def test_what_says_that_the_store_decides_goes_with_its_table(local: Ground) -> None:
    ballot, native = by(local, "ballot"), by(local, "native")
    migrate(begun(ballot), mounted(native), local.folder)
    fs = mounted(fresh(native))
    drop(fs, local.folder)
    assert len(kept(local)) == 1
    for name in local.around.find(local.folder):
        if "/.putifabsent/" not in name:
            local.around.rm_file(name)
    assert drop(fs, local.folder) == 1
    mounted(fresh(ballot)).pipe_file(local.name("name-1"), b"another life")


def test_a_table_that_moves_leaves_no_incarnation_behind_that_could_hide_a_name(
    local: Ground, registry: str
) -> None:
    """A copy says of which incarnation it is; to another arbiter that says nothing."""
    ballot, claims = by(local, "ballot"), by(local, registry)
    migrate(begun(ballot), mounted(claims), local.folder)
    deed = Writers(claims).deed("create", "name-1")

    def stop(number: int) -> None:
        if number == 3:  # its bytes are put, and it has seen that the name is taken
            raise Stopped

    with pytest.raises(Stopped):
        mounted(claims).perform(stepped(deed.protocol(), stop))
    assert any("/claims/" in name for name in kept(local))
    fsck(mounted(claims), local.folder, repair=True, grace=0)
    assert there(claims) == THERE


def test_a_registry_that_knew_the_table_before_is_refused(local: Ground, registry: str) -> None:
    claims, ballot = by(local, registry), by(local, "ballot")
    migrate(begun(claims), mounted(ballot), local.folder)
    with pytest.raises(ConfigError, match=r"knows names in .* from before"):
        migrate(mounted(ballot), mounted(claims), local.folder)
    assert there(ballot) == THERE


def test_a_migration_that_was_cut_off_stops_both_arbiters_and_can_be_done_again(
    local: Ground, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ballot, claims = by(local, "ballot"), by(local, registry)
    fs = begun(ballot)

    class CutOff(Exception):
        pass

    def fails(*_: object) -> None:
        raise CutOff

    with monkeypatch.context() as patch:
        patch.setattr("putifabsent.upkeep.checking.Table.remove", fails)
        with pytest.raises(CutOff):
            migrate(fs, mounted(claims), local.folder)
    for ground in (ballot, claims):
        with pytest.raises(ConfigError):
            fsck(mounted(ground), local.folder)
    migrate(mounted(ballot), mounted(claims), local.folder)
    assert there(claims) == THERE


@pytest.mark.parametrize(("old", "new"), [("ballot", "claims"), ("claims", "ballot")])
def test_a_migration_that_was_cut_off_names_the_table_whose_writers_have_begun(
    local: Ground, old: str, new: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = (decided_by(each, local, request) for each in (old, new))
    for table in ("first", "second"):
        local.around.makedirs(local.name(table))
        mounted(before).pipe_file(local.name(f"{table}/name-1"), table.encode())
    delete = LocalStore.delete

    def up_to_the_second(store: LocalStore, name: str, *version: Any) -> Any:
        if "second/.putifabsent/arbiters" in name:
            raise Stopped
        return delete(store, name, *version)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete", up_to_the_second)
        with pytest.raises(Stopped):
            migrate(mounted(before), mounted(after), local.folder)
    mounted(after).pipe_file(local.name("first/name-2"), b"by the new arbiter")
    with pytest.raises(ConfigError, match=r"/first: nothing is to be moved there; move others in"):
        migrate(mounted(before), mounted(after), local.folder)
    migrate(mounted(before), mounted(after), local.name("second"))
    found = {Path(name).relative_to(local.folder).as_posix() for name in all_readers_agree(after)}
    assert found == {"first/name-1", "first/name-2", "second/name-1"}


@pytest.mark.parametrize("new", ["ballot", "claims"])
def test_a_table_that_has_moved_and_whose_writers_have_begun_is_not_to_be_moved_again(
    local: Ground, new: str, request: pytest.FixtureRequest
) -> None:
    old = decided_by("claims" if new == "ballot" else "ballot", local, request)
    after = decided_by(new, local, request)
    migrate(begun(old), mounted(after), local.folder)
    mounted(after).pipe_file(local.name("name-3"), b"by the new arbiter")
    with pytest.raises(ConfigError, match=r"decides already .* nothing is to be moved there"):
        migrate(mounted(old), mounted(after), local.folder)


def test_a_lock_is_no_other_arbiter(local: Ground, lock: str) -> None:
    ballot, locked = by(local, "ballot"), by(local, lock)
    fs = begun(ballot)
    before = kept(local)
    assert migrate(fs, mounted(locked), local.folder) == 0
    assert len(kept(local)) <= len(before)
    assert there(locked) == THERE


def test_a_table_that_is_gone_is_dropped_with_its_end_marks(table: Ground) -> None:
    fs = begun(table)
    fs.rm(table.folder, recursive=True)
    assert kept(table), "removing keeps the end marks"
    drop(fs, table.folder)
    assert kept(table) == []


def test_nothing_on_disk_shows_that_there_was_a_table_that_was_dropped(disk: Ground) -> None:
    fs, instant = mounted(disk), hudi_table(disk)
    fs.pipe_file(f"{instant}.commit.requested", b"")
    of_metadata = hudi_table(replace(disk, folder=disk.name(".hoodie/metadata")))
    fs.pipe_file(f"{of_metadata}.deltacommit.requested", b"")
    fs.pipe_file(disk.name("name-1"), b"1")
    fs.rm(disk.folder, recursive=True)
    assert Path(disk.folder).exists(), "the arbiter's end marks are in it"
    drop(fs, disk.folder)
    assert not Path(disk.folder).exists()


def test_what_a_killed_drop_has_left_of_a_ledger_is_dropped(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, fs = table_in(memory), memory.mount()
    Writer(fs, root).commits("100")
    for name in memory.around.find(root):
        if "/.putifabsent/" not in name:
            memory.around.rm_file(name)
    delete = type(fs.backend).delete

    def until_the_bodies(self: Any, name: str, *version: Any) -> Any:
        if "/bodies/" in name:
            raise Stopped
        return delete(self, name, *version)

    with monkeypatch.context() as patch:
        patch.setattr(type(fs.backend), "delete", until_the_bodies)
        with pytest.raises(Stopped):
            drop(fs, root)
    assert len(kept(memory)) == 1
    assert drop(fs, root) == 1
    assert kept(memory) == []


def test_a_table_in_which_a_name_lives_is_not_dropped(table: Ground) -> None:
    fs = begun(table)
    before = kept(table)
    with pytest.raises(OSError, match="live"):
        drop(fs, table.folder)
    assert kept(table) == before


def test_a_table_that_is_not_cleaned_up_is_not_dropped(table: Ground) -> None:
    fs = begun(table)
    table.around.rm_file(table.name("name-1"))
    with pytest.raises(OSError, match="are left"):
        drop(fs, table.folder)
    fs.cat_file(table.name("name-1"))


@pytest.mark.parametrize("new", ["native", "registry"])
def test_a_ledger_goes_on_by_another_arbiter(local: Ground, new: str, request: pytest.FixtureRequest) -> None:
    ballot = by(local, "ballot")
    after = by(local, new if new == "native" else request.getfixturevalue(new))
    fs, instant = mounted(ballot), hudi_table(ballot)
    fs.pipe_file(f"{instant}.commit.requested", b"")
    migrate(fs, mounted(after), local.folder)
    assert not any("/ballot/" in name for name in kept(local))
    to = mounted(fresh(after))
    with pytest.raises(OSError, match="20260101000000000"):
        to.pipe_file(f"{instant}.deltacommit.requested", b"")
    to.pipe_file(f"{instant}.commit.inflight", b"")
    to.pipe_file(f"{instant}_20260101000000001.commit", b"{}")
    assert check(to, local.folder) == []


def test_a_table_that_left_a_registry_is_mounted_with_it_again_when_it_was_dropped(
    local: Ground, registry: str
) -> None:
    """Its claims say that records are where they are not any more; who goes on by them hears what to do."""
    claims = by(local, registry)
    fs, instant = mounted(claims), hudi_table(claims)
    fs.pipe_file(f"{instant}.commit.requested", b"")
    leave(fs, local.folder)
    to = mounted(fresh(claims))
    with pytest.raises(OSError, match="end the ledger by `putifabsent drop`"):
        to.pipe_file(f"{instant}.commit.inflight", b"")
    drop(to, local.folder)
    to = mounted(fresh(claims))
    to.pipe_file(f"{instant}.commit.inflight", b"")
    to.pipe_file(f"{instant}_20260101000000001.commit", b"{}")
    assert check(to, local.folder) == []
    with pytest.raises(NameTaken):
        to.pipe_file(f"{instant}.commit.requested", b"")


@pytest.mark.parametrize("inside", ["", "/ledger"])
def test_what_is_kept_of_a_table_is_no_table(memory: Ground, inside: str) -> None:
    """What the ledger alone knows would go with it: the plain names, which must show it, lie elsewhere."""
    root = table_in(memory)
    fs = memory.mount()
    name = Writer(fs, root).commits("100", b"rows")
    memory.around.rm_file(name)  # as it is before it is published
    for call in (leave, drop, check, ledger_of):
        with pytest.raises(ConfigError, match=f"name the table itself, {root}$"):
            call(fs, f"{root}/.hoodie/.putifabsent{inside}")
    drop(fs, root)
    assert memory.read(name) == b"rows"


def test_a_file_is_no_table(local: Ground) -> None:
    fs = begun(by(local, "ballot"))
    for call in (leave, drop, check):
        with pytest.raises(ConfigError, match="is a file: give the folder of its table"):
            call(fs, local.name("name-1"))


def test_where_the_store_decides_there_is_nothing_to_leave(local: Ground) -> None:
    fs = mounted(by(local, "native"))
    fs.pipe_file(local.name("name-1"), b"1")
    assert leave(fs, local.folder) == drop(fs, local.folder) == 0
    assert local.read(local.name("name-1")) == b"1"


@pytest.fixture(params=["ballot", "claims"])
def table_of_names(request: pytest.FixtureRequest, local: Ground, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """Return a table on disk, whose files keep what they say of their creation when they are copied."""
    if request.param == "ballot":
        return by(local, "ballot")
    claims = FakeClaims()
    monkeypatch.setattr("putifabsent.fsspec_plugin.stores.open_claims", lambda _: claims)
    return fresh(by(local, "dynamodb://claims?region=eu-west-1"))


@pytest.fixture
def backup(table_of_names: Ground, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Begin that table, and copy it without what its arbiter keeps."""
    begun(table_of_names)
    folder = tmp_path_factory.mktemp("backup") / "t"
    ignored = shutil.ignore_patterns(".putifabsent")
    return Path(shutil.copytree(table_of_names.folder, folder, ignore=ignored))


def test_a_table_that_is_restored_where_it_was_dropped_is_all_there(
    table_of_names: Ground, backup: Path
) -> None:
    ground = table_of_names
    fs = mounted(ground)
    fs.rm(ground.folder, recursive=True)
    drop(fs, ground.folder)
    shutil.copytree(backup, ground.folder, dirs_exist_ok=True)
    assert check(mounted(fresh(ground)), ground.folder) == []
    assert there(ground) == THERE
    with pytest.raises(NameTaken):
        mounted(ground).pipe_file(ground.name("name-1"), b"again")


def test_what_is_restored_and_does_not_say_of_which_creation_it_is_is_there(
    table_of_names: Ground, backup: Path
) -> None:
    ground = table_of_names
    fs = mounted(ground)
    fs.rm_file(ground.name("name-1"))
    shutil.copyfile(backup / "name-1", ground.name("name-1"))
    fsck(fs, ground.folder, grace=0, repair=True)
    assert there(ground) == THERE
    with pytest.raises(NameTaken):
        mounted(ground).pipe_file(ground.name("name-1"), b"again")


@pytest.mark.parametrize("copied", [shutil.copy2, shutil.copyfile], ids=["with metadata", "without"])
def test_a_table_that_others_have_removed_is_dropped_and_restored(
    table_of_names: Ground, backup: Path, copied: Any
) -> None:
    ground = table_of_names
    mounted(ground).pipe_file(ground.name("name-4"), b"later than the backup")
    shutil.rmtree(ground.folder)
    Path(ground.folder).mkdir()
    drop(mounted(fresh(ground)), ground.folder)
    shutil.copytree(backup, ground.folder, dirs_exist_ok=True, copy_function=copied)
    assert check(mounted(fresh(ground)), ground.folder) == []
    assert there(ground) == THERE
    mounted(ground).pipe_file(ground.name("name-4"), b"anew")
