"""Hudi's tables through the filesystem: what unique names can't decide, their ledger does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import Fenced, NameTaken, OutcomeUnknown
from putifabsent.backends.base import Refused
from putifabsent.fsspec_plugin.hudi import Hudi
from putifabsent.shim.formats.hudi_layout import was_moved
from tests.fsspec_plugin.children import in_a_child, pipe_file
from tests.fsspec_plugin.grounds import EVERYWHERE, by_turns, ground_of
from tests.fsspec_plugin.hudi_tables import Writer, plan_of, records_of, table_in
from tests.fsspec_plugin.test_async import closed
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from putifabsent.shim.requests import Protocol
    from tests.fsspec_plugin.grounds import Ground

BODY = b'{"the": "commit"}'


@pytest.fixture(params=EVERYWHERE)
def ground(request: pytest.FixtureRequest) -> Ground:
    return ground_of(request)


def test_a_commit_is_decided_by_the_ledger_and_published_under_its_name(ground: Ground, a: Writer) -> None:
    name = a.commits("100", BODY)
    assert records_of(ground, a.root) == ["OPEN", "COMPLETE"]
    assert ground.read(name) == a.fs.cat_file(name) == BODY
    assert a.timeline() == ["100.commit.requested", "100.inflight", "100_1009.commit"]


def test_an_instant_is_one_writer_s_whatever_its_action(a: Writer, b: Writer) -> None:
    a.begins("100")
    with pytest.raises(NameTaken):
        b.fs.pipe_file(b.requested("100", "clean"), b"")


def test_who_was_taken_over_completes_nothing_and_writes_no_slice(a: Writer, b: Writer) -> None:
    a.begins("100")
    b.fs.pipe_file(b.inflight("100"), b"")
    with pytest.raises(Fenced, match="session b"):
        a.completes("100")
    with pytest.raises(Fenced):
        a.fs.pipe_file(a.slice_of("100", "2-0-2"), b"the zombie's")
    name = b.completes("100", BODY)
    assert a.fs.cat_file(name) == BODY
    assert not a.fs.exists(a.slice_of("100", "2-0-2"))


def test_who_was_rolled_back_completes_nothing(a: Writer, b: Writer) -> None:
    a.begins("100")
    b.plans_rollback("200", of="100")
    with pytest.raises(Fenced, match="rolled back"):
        a.completes("100")
    assert not a.fs.exists(a.completed("100"))
    b.fs.rm_file(b.slice_of("100"))


def test_a_rollback_that_takes_a_commit_for_a_failed_one_removes_nothing_of_it(a: Writer, b: Writer) -> None:
    a.begins("100")
    name = a.completes("100", BODY)
    b.plans_rollback("200", of="100")
    with pytest.raises(Fenced, match="no failed instant"):
        b.fs.rm_file(b.slice_of("100"))
    assert a.fs.cat_file(a.slice_of("100")) == b"100"
    assert a.fs.cat_file(name) == BODY


def test_a_restore_undoes_a_commit_before_it_removes_it(ground: Ground, a: Writer, b: Writer) -> None:
    name = a.commits("100", BODY)
    b.plans_rollback("200", of="100")
    b.fs.rm_file(name)
    b.fs.rm_file(b.slice_of("100"))
    assert records_of(ground, a.root) == ["OPEN", "COMPLETE", "OPEN", "UNDO"]
    assert not a.fs.exists(name)
    assert name.rpartition("/")[2] not in a.timeline()


def test_an_archiver_takes_nothing_back_though_a_dead_rollback_names_it(
    ground: Ground, a: Writer, b: Writer
) -> None:
    name = a.commits("100", BODY)
    a.commits("150")
    b.plans_rollback("200", of="100")  # which it took for pending; then it died
    for each in (a.requested("100"), a.inflight("100"), name):
        a.fs.rm_file(each)
    assert "UNDO" not in records_of(ground, a.root)
    with pytest.raises(Fenced, match="no failed instant"):
        b.fs.rm_file(b.slice_of("100"))
    assert a.fs.cat_file(a.slice_of("100")) == b"100"
    assert not a.fs.exists(name)


def test_a_rollback_whose_plan_says_nothing_is_refused(a: Writer) -> None:
    with pytest.raises(OSError, match="no plan of a rollback"):
        a.fs.pipe_file(a.requested("200", "rollback"), b"not avro")
    assert not a.fs.exists(a.requested("200", "rollback"))


def test_what_a_dead_writer_has_not_published_is_listed_found_and_read(
    ground: Ground, a: Writer, b: Writer
) -> None:
    name = a.commits("100", BODY)
    ground.around.rm_file(name)  # as it is before it is published
    last = name.rpartition("/")[2]
    assert last in b.timeline()
    assert b.fs.exists(name)
    assert b.fs.isfile(name)
    assert b.fs.info(name)["name"].endswith(last)
    assert b.fs.info(name)["size"] == len(BODY)
    assert b.fs.cat_file(name) == BODY
    assert b.fs.cat([name])[name] == BODY
    with b.fs.open(name) as file:
        assert file.read() == BODY
    assert [each for each in b.fs.find(b.root) if each.endswith(last)] == [name]
    assert name in b.fs.glob(f"{b.root}/.hoodie/timeline/*.commit")
    assert name in b.fs.glob(f"{b.root}/**")
    assert [last in files for at, _, files in b.fs.walk(b.root) if at.endswith("timeline")] == [True]


LOOKS: dict[str, Callable[[Writer, str], bool]] = {
    "ls": lambda writer, name: name.rpartition("/")[2] in writer.timeline(),
    "exists": lambda writer, name: bool(writer.fs.exists(name)),
    "cat_file": lambda writer, name: bool(writer.fs.cat_file(name) == BODY),
    "find": lambda writer, name: name in writer.fs.find(writer.root),
}


@by_turns(
    "look_of", [*((look, "") for look in LOOKS), *((look, "pruned") for look in LOOKS)], *EVERYWHERE[1:]
)
def test_what_is_published_while_it_is_looked_for_is_listed_and_read(
    ground: Ground, a: Writer, b: Writer, monkeypatch: pytest.MonkeyPatch, look_of: tuple[str, str]
) -> None:
    look, is_pruned = look_of
    name = a.commits("100", BODY)
    [body] = ground.around.find(f"{a.root}/.hoodie/.putifabsent/bodies")
    ground.around.rm_file(name)  # as it is before it is published

    def published_meanwhile(path: str, undone: Collection[str]) -> Protocol[bool]:
        if is_pruned and not ground.is_there(name):
            Writer(ground.mount(writer_session="other"), a.root).commits("200")
            ground.around.rm_file(body)
        ground.write(name, BODY)
        return was_moved(path, undone)

    monkeypatch.setattr("putifabsent.fsspec_plugin.hudi.was_moved", published_meanwhile)
    assert LOOKS[look](b, name)
    assert ground.is_there(name)


def test_what_was_published_since_it_was_not_there_is_read(
    ground: Ground, a: Writer, b: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = a.commits("100", BODY)
    ground.around.rm_file(name)
    looks = Hudi.timeline

    def others_went_on(rules: Hudi, folder: str) -> Any:
        if not ground.is_there(name):
            b.commits("200")
        return looks(rules, folder)

    monkeypatch.setattr(Hudi, "timeline", others_went_on)
    assert ground.mount(writer_session="reader").cat_file(name) == BODY


def test_the_next_commit_publishes_what_a_dead_writer_has_not(ground: Ground, a: Writer, b: Writer) -> None:
    name = a.commits("100", BODY)
    ground.around.rm_file(name)
    b.commits("200")
    assert ground.read(name) == BODY


def test_an_archiver_removes_what_is_published(ground: Ground, a: Writer, b: Writer) -> None:
    first = a.commits("100")
    a.commits("200")
    b.fs.rm([b.requested("100"), b.inflight("100"), first])
    assert b.timeline() == ["200.commit.requested", "200.inflight", "200_2009.commit"]
    assert not ground.around.exists(first)
    assert not b.fs.exists(first)
    with pytest.raises(FileNotFoundError):
        b.fs.cat_file(first)


def test_a_completed_name_that_is_older_than_the_shim_goes_by_its_name(ground: Ground, a: Writer) -> None:
    ground.write(a.requested("100"), b"")
    ground.write(a.inflight("100"), b"")
    name = a.completes("100", BODY)
    with pytest.raises(NameTaken):
        a.fs.pipe_file(name, b"another")
    assert records_of(ground, a.root) == []
    a.fs.rm_file(name)
    assert not a.fs.exists(name)


def test_a_rename_is_judged_by_where_it_leads(ground: Ground, a: Writer) -> None:
    a.begins("100")
    temporary = f"{a.completed('100')}.5b2a"
    a.fs.pipe_file(temporary, BODY)
    a.fs.mv(temporary, a.completed("100"))
    assert records_of(ground, a.root) == ["OPEN", "COMPLETE"]
    assert ground.read(a.completed("100")) == BODY
    assert not a.fs.exists(temporary)


def test_an_inflight_that_is_renamed_takes_the_instant_over(a: Writer, b: Writer) -> None:
    a.begins("100")
    b.fs.pipe_file(f"{b.inflight('100')}.5b2a", b"")
    b.fs.mv(f"{b.inflight('100')}.5b2a", b.inflight("100"))
    with pytest.raises(Fenced):
        a.completes("100")


def test_savepoints_and_the_metadata_table_go_by_their_names(ground: Ground, a: Writer, b: Writer) -> None:
    a.commits("100")
    before = records_of(ground, a.root)
    b.fs.pipe_file(f"{b.root}/.hoodie/timeline/100.savepoint.inflight", b"")
    b.fs.pipe_file(b.completed("100", action="savepoint"), b"{}")
    b.fs.makedirs(f"{b.root}/.hoodie/metadata/.hoodie/timeline", exist_ok=True)
    b.fs.pipe_file(f"{b.root}/.hoodie/metadata/.hoodie/timeline/100.deltacommit.requested", b"")
    assert records_of(ground, a.root) == before


@pytest.mark.parametrize(("version", "is_judged"), [(6, False), (8, True)])
def test_log_files_below_version_8_share_their_base_file_s_instant(
    memory: Ground, version: int, is_judged: bool
) -> None:
    root = table_in(memory, version)
    a, b = (Writer(memory.mount(writer_session=session), root) for session in "ab")
    a.begins("100")
    if is_judged:
        with pytest.raises(Fenced):
            b.fs.pipe_file(b.log_of("100"), b"")
    else:
        b.fs.pipe_file(b.log_of("100"), b"")


def test_a_table_that_was_upgraded_while_a_session_idled_keeps_the_log_files_of_its_commits(
    memory: Ground,
) -> None:
    root = table_in(memory, version=6)
    a, idle = (Writer(memory.mount(writer_session=session), root) for session in ("a", "idle"))
    idle.fs.pipe_file(idle.log_of("050"), b"")
    idle.fs.rm_file(idle.log_of("050"))
    memory.write(f"{root}/.hoodie/hoodie.properties", b"hoodie.table.version=9\n")
    a.begins("100")
    a.fs.pipe_file(a.log_of("100"), b"")
    a.completes("100")
    a.plans_rollback("200", of="100")
    with pytest.raises(Fenced, match="no failed instant"):
        idle.fs.rm_file(idle.log_of("100"))


def test_an_unknown_outcome_of_a_commit_is_resolved_later(a: Writer, b: Writer) -> None:
    name = a.commits("100", BODY)
    with pytest.raises(NameTaken) as taken:
        a.fs.pipe_file(name, b"once more")
    holder = taken.value.holder
    assert holder is not None
    found = b.fs.resolve(name, holder.token)
    assert found is not None
    assert found.token == holder.token
    with pytest.raises(NameTaken):
        b.fs.resolve(name, "another's")


def test_a_process_that_is_given_a_filesystem_works_for_the_one_that_gave_it(local: Ground) -> None:
    writer = Writer(local.mount(), table_in(local))
    writer.begins("100")
    assert in_a_child("spawn", pipe_file, writer.fs, writer.slice_of("100", "2-0-2"), BODY, {}) == "won"
    zombie = Writer(local.mount(writer_session="another"), writer.root)
    outcome = in_a_child("spawn", pipe_file, zombie.fs, writer.slice_of("100", "3-0-3"), BODY, {})
    assert isinstance(outcome, Fenced)


def test_a_table_that_is_removed_takes_its_ledger_along(memory: Ground) -> None:
    root = table_in(memory)
    a, b = (Writer(memory.mount(writer_session=session), root) for session in "ab")
    a.begins("100")
    b.begins("200")
    a.fs.rm(root, recursive=True)
    table_in(memory)
    b.commits("100")
    a.commits("200")
    assert records_of(memory, root) == ["OPEN", "COMPLETE", "OPEN", "COMPLETE"]


def wait_for_pruning() -> None:
    for thread in threading.enumerate():
        if thread.name == "putifabsent-prune":
            thread.join()


def test_records_behind_a_checkpoint_go(memory: Ground) -> None:
    root = table_in(memory)
    a = Writer(memory.mount(writer_session="a"), root)
    for number in range(100, 170):
        a.commits(str(number))
        wait_for_pruning()
    assert len(records_of(memory, root)) < 2 * 64
    assert len(a.timeline()) == 3 * 70
    b = Writer(memory.mount(writer_session="b"), root)
    b.commits("200")
    with pytest.raises(NameTaken):
        b.fs.pipe_file(b.requested("165"), b"")


def test_asynchronously_it_is_the_same(memory: Ground) -> None:
    root = table_in(memory)

    async def life() -> None:
        a, b = (
            Writer(fsspec.filesystem("piamemory", asynchronous=True, writer_session=session), root)
            for session in "ab"
        )
        name = a.completed("100")
        await a.fs._pipe_file(a.requested("100"), b"")
        await a.fs._pipe_file(a.inflight("100"), b"")
        await a.fs._pipe_file(a.slice_of("100"), b"")
        with pytest.raises(Fenced):
            await b.fs._pipe_file(b.slice_of("100", "2-0-2"), b"")
        await a.fs._pipe_file(name, BODY)
        memory.around.rm_file(name)
        assert await b.fs._cat_file(name) == BODY
        assert name in await b.fs._ls(f"{root}/.hoodie/timeline", detail=False)
        assert name in await b.fs._find(root)
        assert name in await b.fs._glob(f"{root}/**")
        await b.fs._pipe_file(b.requested("200", "rollback"), plan_of("100"))
        await b.fs._rm_file(name)
        assert not await a.fs._exists(name)
        assert not await a.fs._isfile(name)
        await closed(a.fs)
        await closed(b.fs)

    asyncio.run(life())


# --- removing, moving, and what fails ---------------------------------------------------------------------


def test_everything_below_a_hudi_folder_is_found(ground: Ground, a: Writer) -> None:
    name = a.commits("100", BODY)
    ground.around.rm_file(name)
    below = f"{a.root}/.hoodie"
    for found in (
        a.fs.find(below),
        a.fs.find(a.root),
        a.fs.glob(f"{below}/**"),
        a.fs.expand_path(f"{below}/timeline/*"),
    ):
        assert name in found
        assert not any(".putifabsent" in each for each in found)
    assert a.fs.du(below) >= len(BODY)


@pytest.mark.parametrize("how", ["file", "list", "glob", "timeline"])
def test_a_recursive_removal_of_names_asks_the_ledger(ground: Ground, a: Writer, b: Writer, how: str) -> None:
    a.commits("100")
    a.begins("200")
    paths = {
        "file": b.requested("200"),
        "list": [b.requested("200"), b.inflight("200")],
        # On local disk there are no patterns.
        "glob": f"{b.root}/.hoodie/timeline/200*"
        if ground.kind != "local"
        else b.fs.glob(f"{b.root}/**/200*"),
        "timeline": f"{b.root}/.hoodie/timeline",
    }
    b.fs.rm(paths[how], recursive=True)
    assert "FREE" in records_of(ground, a.root)
    ground.around.makedirs(f"{a.root}/.hoodie/timeline", exist_ok=True)
    with pytest.raises(Fenced):
        a.completes("200")
    assert not b.fs.exists(b.requested("200"))


def test_a_table_that_is_removed_leaves_nothing_to_the_next_one(ground: Ground, a: Writer) -> None:
    name = a.commits("100")
    a.fs.rm(a.root, recursive=True)
    assert not a.fs.exists(name)
    table_in(ground)
    a.commits("200")
    assert not a.fs.exists(name)
    assert [each for each in a.timeline() if each.endswith(".commit")] == ["200_2009.commit"]


def test_what_is_moved_away_is_undone(ground: Ground, a: Writer, b: Writer) -> None:
    name = a.commits("100", BODY)
    a.fs.mv(name, f"{name}.bak")
    b.commits("200")
    assert not a.fs.exists(name)
    assert ground.read(f"{name}.bak") == BODY


def test_a_creation_that_was_refused_can_be_tried_again(local: Ground) -> None:
    writer = Writer(local.fs, table_in(local))
    local.around.rmdir(f"{writer.root}/.hoodie/timeline")
    with pytest.raises(FileNotFoundError):
        writer.fs.pipe_file(writer.requested("100"), b"")
    local.around.mkdir(f"{writer.root}/.hoodie/timeline")
    writer.commits("100")


def test_calls_that_fail_take_nothing_over(a: Writer, b: Writer) -> None:
    a.begins("100")
    with pytest.raises(NameTaken):
        b.fs.pipe_file(b.inflight("100"), b"", mode="create")
    with pytest.raises(FileNotFoundError):
        b.fs.put_file("/nowhere/at-all", b.inflight("100"))
    with contextlib.suppress(FileNotFoundError):  # an object store says nothing
        b.fs.rm_file(f"{b.root}/.hoodie/timeline/100.commit.inflight")
    a.completes("100")


def test_a_folder_that_is_gone_is_forgotten(local: Ground) -> None:
    root = table_in(local)
    writer = Writer(local.fs, root)
    writer.begins("100")
    local.around.rm(root, recursive=True)
    table_in(local)
    with pytest.raises(FileNotFoundError):
        writer.fs.pipe_file(writer.requested("200"), b"")
    writer.commits("300")


@pytest.mark.parametrize("ground", ["memory-claims"], indirect=True)
def test_what_a_life_that_was_removed_round_the_shim_has_claimed_goes_whatever_its_clock(
    ground: Ground,
) -> None:
    root = table_in(ground)
    a = Writer(ground.mount(writer_session="a"), root)
    for instant in ("100", "900"):  # the second by a clock that is fast
        a.commits(instant)
    ground.around.rm(root, recursive=True)
    table_in(ground)
    claimed = {each for each in living(ground, root) if "/timeline/" in each}
    assert len(claimed) == 2
    for number in range(200, 240):
        a.commits(str(number))
        wait_for_pruning()
    assert not claimed & living(ground, root)
    assert {each for each in living(ground, root) if "/timeline/2" in each}


def living(ground: Ground, root: str) -> set[str]:
    """Return the names below a table's root whose claims live, as its registry says."""
    fs = ground.mount()
    return {name for name, claim in fs.perform(fs.decider.remembered(root)).items() if claim.live}


def test_a_commit_is_acknowledged_though_nothing_can_be_removed_beside_it(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more threads, or an interpreter that is about to end."""
    root = table_in(memory)
    a = Writer(memory.mount(writer_session="a"), root)

    def no_more(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_more)
        for number in range(100, 170):
            a.commits(str(number))
    before = len(records_of(memory, root))
    for number in range(170, 200):
        a.commits(str(number))
    wait_for_pruning()
    assert len(records_of(memory, root)) < before


def test_who_may_not_delete_says_so_once_and_commits(
    memory: Ground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = table_in(memory)
    a = Writer(memory.mount(writer_session="a"), root)
    monkeypatch.setattr(a.fs.backend, "delete", lambda *_: Refused(PermissionError("403")))
    for number in range(100, 200):
        a.commits(str(number))
        wait_for_pruning()
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len([each for each in said if "s3:DeleteObject" in each]) == 1
    assert len(a.timeline()) == 3 * 100


def test_slices_where_no_table_is_cost_one_look(stub: FaultStub) -> None:
    fs = on_stub(stub)
    name = Writer(fs, "bucket/not/a/table").slice_of("100")
    fs.pipe_file(name, b"")
    seen = len(stub.requests)
    fs.pipe_file(name, b"")
    assert [each.op for each in stub.requests[seen:]] == [Op.PUT]


def test_a_table_is_looked_for_once_however_many_partitions_it_has(stub: FaultStub) -> None:
    fs = on_stub(stub)
    fs.pipe_file("bucket/t/.hoodie/hoodie.properties", b"hoodie.table.version=9")
    writer = Writer(fs, "bucket/t")
    writer.begins("100")
    first, second = (writer.slice_of("100").replace("/t/", f"/t/{day}/a/b/c/d/e/f/") for day in (1, 2))
    fs.pipe_file(first, b"")
    seen = len(stub.requests)
    fs.pipe_file(second, b"")
    assert [each.op for each in stub.requests[seen:]] == [Op.PUT]


def test_a_version_of_a_slice_is_not_written(stub: FaultStub) -> None:
    fs = on_stub(stub)
    with pytest.raises(ValueError, match="names one version"):
        fs.pipe_file(f"{Writer(fs, 'bucket/t').slice_of('100')}?versionId=x", b"")


# --- on the wire ------------------------------------------------------------------------------------------


def on_stub(stub: FaultStub) -> Any:
    return fsspec.filesystem("pias3", arbiter="native", **stub.storage_options("s3"))


def test_a_warm_commit_costs_what_the_protocol_says(stub: FaultStub) -> None:
    fs = on_stub(stub)
    fs.pipe_file("bucket/t/.hoodie/hoodie.properties", b"hoodie.table.version=9")
    writer = Writer(fs, "bucket/t")
    writer.commits("100")
    seen = len(stub.requests)
    writer.fs.pipe_file(writer.requested("200"), b"")
    requested = [each.op for each in stub.requests[seen:]]
    assert requested == [Op.PUT, Op.LIST, Op.PUT]
    seen = len(stub.requests)
    writer.fs.pipe_file(writer.inflight("200"), b"")
    writer.fs.pipe_file(writer.slice_of("200"), b"")
    assert [each.op for each in stub.requests[seen:]] == [Op.PUT, Op.PUT]
    seen = len(stub.requests)
    writer.completes("200")
    completed = [each.op for each in stub.requests[seen:]]
    assert set(completed[:2]) == {Op.PUT, Op.HEAD}
    assert completed[2:] == [Op.PUT, Op.LIST, Op.COPY]


def test_a_lost_answer_to_the_record_of_a_commit_is_settled_by_its_token(stub: FaultStub) -> None:
    fs = on_stub(stub)
    fs.pipe_file("bucket/t/.hoodie/hoodie.properties", b"hoodie.table.version=9")
    writer = Writer(fs, "bucket/t")
    writer.begins("100")
    stub.script(Op.PUT, None, Fault.DROP_AFTER_APPLY)
    name = writer.completes("100", BODY)
    assert fs.cat_file(name) == BODY


def test_an_unknown_outcome_speaks_of_the_name_that_was_said(stub: FaultStub) -> None:
    fs = fsspec.filesystem("pias3", arbiter="native", deadline=0.3, **stub.storage_options("s3"))
    fs.pipe_file("bucket/t/.hoodie/hoodie.properties", b"hoodie.table.version=9")
    writer = Writer(fs, "bucket/t")
    writer.commits("100")
    stub.script(Op.PUT, Fault.DROP_AFTER_APPLY, forever=True)
    with pytest.raises(OutcomeUnknown) as unknown:
        fs.pipe_file(writer.requested("200"), b"")
    assert unknown.value.filename == writer.requested("200")
