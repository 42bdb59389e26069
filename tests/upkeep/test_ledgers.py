"""What a table's ledger has come to, as people are shown it; and how `drop` ends one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.base import Refused
from putifabsent.errors import ConfigError
from putifabsent.shim.formats.hudi_salt import salted
from putifabsent.shim.ledger.facts import EVERY, State
from putifabsent.shim.ledger.records import marker_of
from putifabsent.upkeep import Begun, TableLedger, drop, fsck, ledger_of
from tests.fsspec_plugin.grounds import decided_by
from tests.fsspec_plugin.hudi_tables import Writer, records_of, table_in

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground

pytestmark = pytest.mark.timeout(300)

NOW, NEXT, AHEAD = "20200101000000000", "20200101000000001", "29990101000000000"


@pytest.fixture(params=["local-native", "memory-native", "s3-native", "local-ballot", "local-claims"])
def ground(request: pytest.FixtureRequest) -> Ground:
    kind, arbiter = request.param.split("-")
    return decided_by(arbiter, request.getfixturevalue(kind), request)


@pytest.fixture
def a(ground: Ground) -> Writer:
    return Writer(ground.mount(writer_session="a"), table_in(ground))


def shown(ground: Ground, root: str) -> TableLedger:
    found = ledger_of(ground.mount(writer_session="reader"), root)
    assert found is not None
    return found


def marker(ground: Ground, root: str) -> str:
    return f"{root}/.hoodie/.putifabsent/ledger/-life"


def bytes_of(ground: Ground) -> dict[str, bytes]:
    return {name: ground.read(name) for name in ground.around.find(ground.folder)}


def test_open_instants_are_shown_with_their_owner_action_and_record(ground: Ground, a: Writer) -> None:
    a.commits(NOW)
    a.begins(NEXT)
    found = shown(ground, a.root)
    assert found.open == (Begun(NEXT, "a", "commit", 3),)
    assert (found.number, found.checkpoint, found.listed, found.ended) == (3, 0, 3, 0)
    assert (found.whole, found.by_name, found.horizon, found.ahead) == (1, 0, "", ())
    assert found.life
    assert found.half_removed is None


def test_a_taken_over_instant_is_its_new_owner_s(ground: Ground, a: Writer) -> None:
    a.begins(NOW)
    b = ground.mount(writer_session="b")
    b.pipe_file(a.inflight(NOW), b"")
    assert shown(ground, a.root).open == (Begun(NOW, "b", "commit", 1),)


def test_the_turn_that_is_held_is_shown(ground: Ground, a: Writer) -> None:
    assert ledger_of(a.fs, a.root) is None
    with a.fs.turn(a.root, lease=7):
        turn = shown(ground, a.root).turn
    assert turn is not None
    assert (turn.number, turn.session, turn.thread, turn.lease) == (1, "a", "MainThread", 7)
    assert shown(ground, a.root).turn is None


def test_a_table_that_is_no_hudi_table_has_its_ledger_in_its_root(local: Ground) -> None:
    with local.fs.turn(local.folder):
        found = ledger_of(local.fs, local.folder)
    assert found is not None
    assert found.folder == local.name(".putifabsent/ledger")


def test_nothing_is_written_by_who_looks(ground: Ground, a: Writer) -> None:
    a.commits(NOW)
    ground.around.rm_file(a.completed(NOW))
    before = bytes_of(ground)
    shown(ground, a.root)
    assert bytes_of(ground) == before


def test_a_table_without_a_ledger_has_none(ground: Ground, a: Writer) -> None:
    assert ledger_of(a.fs, a.root) is None


def test_a_mistyped_path_is_an_error(ground: Ground, a: Writer) -> None:
    with pytest.raises(ConfigError, match="nothing is there"):
        ledger_of(a.fs, f"{a.root}x")


def test_a_part_of_a_table_is_an_error_that_names_the_table(local: Ground) -> None:
    a = Writer(local.mount(writer_session="a"), table_in(local))
    a.commits(NOW)
    with pytest.raises(ConfigError, match="is a part of a table"):
        ledger_of(a.fs, f"{a.root}/.hoodie/timeline")


def test_a_mount_by_another_arbiter_than_the_writers_is_refused(local: Ground) -> None:
    root = table_in(local)
    Writer(local.mount(writer_session="a", arbiter="ballot"), root).begins(NOW)
    with pytest.raises(ConfigError, match="another mount of the table"):
        ledger_of(local.fs, root)


def test_instants_ahead_of_the_store_s_time_are_named(ground: Ground, a: Writer) -> None:
    a.begins(AHEAD)
    a.commits(NOW)
    assert shown(ground, a.root).ahead == (AHEAD,)


def test_the_horizon_and_names_that_are_only_remembered_are_shown(memory: Ground) -> None:
    root = table_in(memory)
    past = frozenset(f"{year}0101000000000" for year in range(2000, 2010)) | {AHEAD}
    state = State(number=EVERY, life="l-1", horizon="19990101000000000", past=past, first="1")
    memory.write(marker(memory, root), marker_of(state))
    found = shown(memory, root)
    assert (found.horizon, found.by_name, found.whole) == ("19990101000000000", 11, 0)
    assert found.ahead == (AHEAD,)
    assert (found.life, found.number) == ("l-1", EVERY)


def test_records_of_lives_that_are_over_are_counted_apart(memory: Ground) -> None:
    a = Writer(memory.mount(writer_session="a"), table_in(memory))
    a.begins(NOW)
    memory.write(f"{a.root}/.hoodie/.putifabsent/ledger/earlier-1.0000000007", b"{}")
    found = shown(memory, a.root)
    assert (found.number, found.listed, found.ended) == (1, 1, 1)


def half_removed(ground: Ground) -> Writer:
    """Return the writer of a table with two commits and an open instant, whose first record is gone."""
    a = Writer(ground.mount(writer_session="a"), table_in(ground))
    a.commits(NOW)
    a.begins(NEXT)
    [first] = ground.around.glob(f"{a.root}/.hoodie/.putifabsent/ledger/*.0000000001")
    ground.around.rm_file(first)
    return a


def test_of_a_ledger_that_is_half_removed_that_is_shown_and_how_it_ends(memory: Ground) -> None:
    found = shown(memory, half_removed(memory).root)
    assert found.half_removed is not None
    assert "putifabsent drop" in found.half_removed
    assert (found.number, found.listed) == (3, 2)


# --- drop -------------------------------------------------------------------------------------------------


def kept(ground: Ground) -> list[str]:
    return [name for name in ground.around.find(ground.folder) if "/.putifabsent/" in name]


def begun_anew(ground: Ground, root: str) -> Any:
    """Return what a writer of another session finds possible after that."""
    b = Writer(ground.mount(writer_session="b"), root)
    b.commits("20200102000000000")
    return records_of(ground, root)


def test_a_ledger_that_is_dropped_begins_anew_and_its_table_stays(memory: Ground) -> None:
    a = Writer(memory.mount(writer_session="a"), table_in(memory))
    name = a.commits(NOW, b"{}")
    before = {each for each in memory.around.find(a.root) if "/.putifabsent/" not in each}
    assert drop(memory.fs, memory.folder) > 0
    assert {*memory.around.find(a.root)} == before
    assert memory.read(name) == b"{}"
    assert begun_anew(memory, a.root) == ["OPEN", "COMPLETE"]


def test_who_waits_in_the_queue_of_a_dropped_ledger_is_forgotten(memory: Ground) -> None:
    root = table_in(memory)
    Writer(memory.mount(writer_session="a"), root).commits(NOW)
    memory.write(f"{root}/.hoodie/.putifabsent/slots/0000000001~dead", b"{}")
    drop(memory.fs, memory.folder)
    assert kept(memory) == []


def test_what_a_ledger_has_decided_is_published_before_it_is_dropped(memory: Ground) -> None:
    a = Writer(memory.mount(writer_session="a"), table_in(memory))
    name = a.commits(NOW, b"{}")
    memory.around.rm_file(name)  # as it is before it is published
    drop(memory.fs, memory.folder)
    assert memory.read(name) == b"{}"
    assert kept(memory) == []


def test_a_ledger_with_a_rollback_that_has_not_ended_is_not_dropped(memory: Ground) -> None:
    a = Writer(memory.mount(writer_session="a"), table_in(memory))
    name = a.commits(NOW, b"{}")
    published, details = memory.read(name), memory.around.store[name]
    a.plans_rollback(NEXT, of=NOW)
    a.fs.rm_file(name)
    memory.around.store[name] = details  # as it is between the UNDO and the removal
    assert published == b"{}"
    before = kept(memory)
    with pytest.raises(OSError, match="rolled back, and not removed yet"):
        drop(memory.fs, memory.folder)
    assert kept(memory) == before


def test_a_ledger_that_alone_says_whose_salted_file_counts_is_not_dropped(memory: Ground) -> None:
    root = table_in(memory)
    a, b = (Writer(memory.mount(writer_session=each, salt="slices"), root) for each in "ab")
    a.begins(NOW)
    b.fs.pipe_file(b.inflight(NOW), b"")  # takes it over
    b.fs.pipe_file(b.slice_of(NOW), b"b")
    b.completes(NOW)
    late = salted(a.slice_of(NOW), "a")
    with pytest.raises(OSError, match=f"whose salted file counts: remove what does not, {late}"):
        drop(memory.fs, memory.folder)
    assert kept(memory)
    memory.around.rm_file(late)
    drop(memory.fs, memory.folder)
    assert a.fs.cat_file(a.slice_of(NOW)) == b"b"


def test_a_half_removed_ledger_is_dropped_and_bodies_stay_that_nobody_can_tell_of(memory: Ground) -> None:
    a = half_removed(memory)
    drop(memory.fs, memory.folder)
    assert {name.rpartition("/.putifabsent/")[2].partition("/")[0] for name in kept(memory)} == {"bodies"}
    assert begun_anew(memory, a.root) == ["OPEN", "COMPLETE"]


def test_a_half_removed_ledger_that_alone_proves_a_commit_is_not_dropped(memory: Ground) -> None:
    a = half_removed(memory)
    [name] = memory.around.glob(f"{a.root}/.hoodie/timeline/{NOW}_*.commit")
    [body] = memory.around.glob(f"{a.root}/.hoodie/.putifabsent/bodies/{NOW}~*")
    memory.around.rm_file(name)
    with pytest.raises(OSError, match="completed, and not there: copy their bytes"):
        drop(memory.fs, memory.folder)
    memory.around.copy(body, name)
    drop(memory.fs, memory.folder)
    assert memory.read(name) == b"{}"


def test_a_ledger_of_a_table_that_is_gone_is_dropped_and_publishes_nothing(memory: Ground) -> None:
    a = Writer(memory.mount(writer_session="a"), table_in(memory))
    a.commits(NOW)
    for name in memory.around.find(memory.folder):
        if "/.putifabsent/" not in name:
            memory.around.rm_file(name)
    drop(memory.fs, memory.folder)
    assert memory.around.find(memory.folder) == []


def test_the_marker_goes_first(memory: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    a = Writer(memory.mount(writer_session="a"), table_in(memory))
    a.commits(NOW)
    removed: list[str] = []

    def remove(_: object, paths: list[str]) -> int:
        removed.extend(paths)
        return len(paths)

    monkeypatch.setattr("putifabsent.upkeep.checking.Table.remove", remove)
    drop(memory.fs, memory.folder)
    assert removed[0] == marker(memory, a.root)
    assert len(removed) > 1


def test_a_ledger_of_records_alone_is_dropped_whoever_decides_and_begins_anew(ground: Ground) -> None:
    for _ in range(3):
        fs = ground.mount(skip_instance_cache=True)  # a writer of its own, which has read nothing
        with fs.turn(ground.folder) as turn:
            assert turn.number == 1
        drop(fs, ground.folder)
        assert kept(ground) == []


def test_a_drop_that_failed_half_way_can_be_called_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = ground.mount(skip_instance_cache=True)
    with fs.turn(ground.folder):
        pass
    delete, left = fs.backend.delete, [2]

    def fails(*asked: Any) -> Any:
        left[0] -= 1
        return Refused(PermissionError("403")) if left[0] < 0 else delete(*asked)

    with monkeypatch.context() as patch:
        patch.setattr(fs.backend, "delete", fails)
        with pytest.raises(PermissionError):
            drop(fs, ground.folder)
    drop(fs, ground.folder)
    assert kept(ground) == []


def test_a_repair_that_dies_over_a_ledger_whose_folder_was_emptied_leaves_one_ledger(memory: Ground) -> None:
    a = Writer(memory.mount(writer_session="a", arbiter="ballot"), table_in(memory))
    for number in range(EVERY + 2):
        a.begins(f"20200101000000{number:03}")
    fsck(a.fs, a.root, repair=True, grace=0)
    folder = f"{a.root}/.hoodie/.putifabsent/ledger"
    whole = ledger_of(a.fs, a.root)
    assert whole is not None
    names = len(memory.around.find(folder)) - 1  # the note of its form is no name
    assert (whole.number, names) == (EVERY + 3, 5)
    for survivors in range(names):
        for path in memory.around.find(folder):
            memory.around.rm_file(path)
        seen: list[str] = []

        def dies(_: int, __: int, path: str, seen: list[str] = seen, at: int = survivors) -> None:
            seen += [path] if path.startswith(folder) else []
            if len(seen) > at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fsck(
                memory.mount(writer_session="f", arbiter="ballot"),
                a.root,
                repair=True,
                grace=0,
                progress=dies,
            )
        found = ledger_of(memory.mount(writer_session="n", arbiter="ballot"), a.root)
        assert found is not None
        assert (found.life, found.number, found.half_removed) == (whole.life, whole.number, None)
