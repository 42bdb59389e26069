"""What another process asks of a mount: by each store and each arbiter, under a token of its own."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.backends.base import InMemory, TryAgain
from putifabsent.errors import Fenced, NameTaken, OutcomeUnknown, UnsafeStore
from putifabsent.fsspec_plugin import ledgers
from putifabsent.fsspec_plugin.remote import Admission, Remote, Taken
from tests.fsspec_plugin.hudi_tables import Writer, table_in
from tests.stub import Fault, Op

if TYPE_CHECKING:
    from putifabsent.errors import Holder
    from tests.fsspec_plugin.grounds import Ground
    from tests.stub import FaultStub

T = "20260101000000000"
UUID = "2f1e9a7c-5d0b-4c44-9a35-6d1f0c1c7a10"


def token() -> str:
    return str(uuid.uuid4())


def test_a_creation_is_known_by_the_callers_token(ground: Ground) -> None:
    mine = token()
    assert Remote(ground.fs).create_as(ground.log(), b"mine", mine)
    holder = ground.mount(skip_instance_cache=True).resolve(ground.log(), mine)
    assert holder.token == mine
    with pytest.raises(NameTaken) as caught:
        Remote(ground.fs).create_as(ground.log(), b"theirs", token())
    assert caught.value.holder is not None
    assert caught.value.holder.token == mine
    assert ground.read(ground.log()) == b"mine"


@pytest.mark.parametrize("ground", ["memory-ballot", "memory-claims"], indirect=True)
def test_a_call_that_comes_twice_at_once_has_keys_of_its_own_each_time(ground: Ground) -> None:
    mine = token()
    for number in range(2):  # of one name it would be luck how they meet
        assert Remote(ground.fs).create_as(ground.log(number), b"mine", mine)
    found = ground.around.find(ground.folder)
    tries = {each.rpartition(f"{mine}.")[2] for each in found if f"{mine}." in each}
    assert len(tries) == 2


@pytest.mark.parametrize("ground", ["memory-native", "memory-ballot"], indirect=True)
def test_who_decides_says_of_a_creation_that_another_run_of_it_has_made_it(ground: Ground) -> None:
    mount, mine = ground.fs.mount, token()
    name, decides = ground.fs.guard.explain(ground.log()), ground.fs.guard.ledgers.new
    creating = [
        decides(name).arbiter.create(name, InMemory(b"{}"), mount.under(mine, name)) for _ in range(2)
    ]
    assert [mount.run(each).again for each in creating] == [False, True]


def test_a_holder_that_was_there_before_is_as_old_as_the_store_says(on_stub: Any, stub: FaultStub) -> None:
    before = datetime.now(timezone.utc) - timedelta(hours=1)
    stub.put("bucket", "t/_delta_log/00000000000000000000.json", b"{}", last_modified=before)
    with pytest.raises(NameTaken) as taken:
        Remote(on_stub()).resolve_as("bucket/t/_delta_log/00000000000000000000.json", token())
    assert taken.value.holder is not None
    assert taken.value.holder.age == pytest.approx(3600, abs=60)


def resolved(ground: Ground, name: str, of: str) -> Holder | None:
    """Return who holds a name, as who asks for a creation is told."""
    try:
        return Remote(ground.fs).resolve_as(name, of)
    except NameTaken as taken:
        return taken.holder


def test_one_that_came_after_a_deletion_is_younger_than_the_creation_that_it_followed(ground: Ground) -> None:
    name, mine, theirs = ground.log(), token(), token()
    began = time.monotonic()
    Remote(ground.fs).create_as(name, b"mine", mine)
    ground.fs.rm_file(name)
    Remote(ground.mount(skip_instance_cache=True)).create_as(name, b"theirs", theirs)
    told = resolved(ground, name, mine)
    if told is None:  # ballots have kept whose it was
        assert ground.arbiter != "native"
        return
    assert told.token == theirs
    assert told.age is None or told.age <= time.monotonic() - began


def test_so_is_one_from_another_object(ground: Ground) -> None:
    mine, source = token(), ground.name("source")
    ground.write(source, b"mine")
    assert Remote(ground.fs).rename_as(source, ground.log(), mine)
    assert ground.mount(skip_instance_cache=True).resolve(ground.log(), mine).token == mine
    assert ground.read(ground.log()) == b"mine"
    assert not ground.is_there(source)


def test_a_rename_that_comes_twice_is_done_both_times(ground: Ground) -> None:
    mine, source, name = token(), ground.name("source"), ground.log()
    ground.write(source, b"mine")
    for _ in range(2):
        assert Remote(ground.mount(skip_instance_cache=True)).rename_as(source, name, mine)
    for free_or_taken in (ground.log(1), name):
        with pytest.raises(FileNotFoundError):
            Remote(ground.fs).rename_as(source, free_or_taken, token())


def test_what_is_moved_away_is_no_pattern(ground: Ground) -> None:
    there = {}
    for table in ("t1", "t[1]"):
        root = ground.name(table)
        for folder in (".hoodie/timeline", "dt=1"):
            ground.around.makedirs(f"{root}/{folder}", exist_ok=True)
        ground.write(f"{root}/.hoodie/hoodie.properties", b"hoodie.table.version=9\n")
        there[table] = Writer(ground.fs, root).commits("100", table.encode())
    away = ground.name("away")
    assert Remote(ground.fs).rename_as(there["t[1]"], away, token())
    assert ground.read(away) == b"t[1]"
    assert ground.fs.cat_file(there["t1"]) == b"t1"
    assert not ground.fs.exists(there["t[1]"])


def test_what_nothing_guards_is_left_alone(ground: Ground) -> None:
    source, name = ground.name("source"), ground.name("data.parquet")
    ground.write(source, b"bytes")
    assert Remote(ground.fs).admit(name) == Admission(guarded=False)
    assert not Remote(ground.fs).create_as(name, b"bytes", token())
    assert not Remote(ground.fs).rename_as(source, name, token())
    assert ground.is_there(source)
    assert not ground.is_there(name)


def test_a_taken_name_is_not_admitted_or_not_created(ground: Ground) -> None:
    assert Remote(ground.fs).admit(ground.log()) == Admission(guarded=True)
    Remote(ground.fs).create_as(ground.log(), b"mine", token())

    def late() -> None:
        # Where another than the store decides, nobody looks before the creation.
        Remote(ground.fs).admit(ground.log())
        Remote(ground.fs).create_as(ground.log(), b"theirs", token())

    with pytest.raises(NameTaken):
        late()
    assert ground.read(ground.log()) == b"mine"


def replaced(ground: Ground, last: str) -> str:
    """Return a name that a command of its format overwrites, with its folder."""
    name = ground.name(last)
    ground.around.makedirs(name.rpartition("/")[0], exist_ok=True)
    return name


def overwrite(ground: Ground, name: str, value: bytes) -> None:
    assert Remote(ground.fs).admit(name, overwrite=True) == Admission(guarded=True)
    assert Remote(ground.fs).create_as(name, value, token(), overwrite=True)


@pytest.mark.parametrize("last", ["t/.hoodie/timeline/1.compaction.requested", "w/db.db/t/schema/schema-0"])
def test_what_a_command_of_its_format_overwrites_is_overwritten_where_the_call_says_so(
    ground: Ground, last: str
) -> None:
    name = replaced(ground, last)
    overwrite(ground, name, b"one")
    overwrite(ground, name, b"two")
    assert ground.read(name) == b"two"
    with pytest.raises(NameTaken):
        Remote(ground.fs).create_as(name, b"three", token())
    with pytest.raises(NameTaken):
        ground.fs.pipe_file(name, b"three")
    assert ground.read(name) == b"two"


def test_overwriting_with_the_same_bytes_leaves_the_creation_as_it_is(ground: Ground) -> None:
    name, mine = replaced(ground, "w/db.db/t/schema/schema-0"), token()
    Remote(ground.fs).create_as(name, b"one", mine)
    overwrite(ground, name, b"one")
    assert getattr(Remote(ground.fs).resolve_as(name, mine), "token", None) == mine


def test_nothing_else_is_overwritten_whatever_the_call_says(ground: Ground) -> None:
    Remote(ground.fs).create_as(ground.log(), b"mine", token())
    with pytest.raises(NameTaken):
        overwrite(ground, ground.log(), b"theirs")
    assert ground.read(ground.log()) == b"mine"


def test_a_snapshot_that_has_expired_is_written_again_in_place_and_not_by_a_rename(ground: Ground) -> None:
    replaced(ground, "w/db.db/t/schema/schema-0")
    ground.fs.pipe_file(ground.name("w/db.db/t/schema/schema-0"), b"{}")
    name = replaced(ground, "w/db.db/t/snapshot/snapshot-3")
    ground.write(ground.name("w/db.db/t/snapshot/snapshot-7"), b"{}")
    ground.write(ground.name("late"), b"{}")
    with pytest.raises((NameTaken, OutcomeUnknown)):
        Remote(ground.fs).rename_as(ground.name("late"), name, token())
    if ground.is_there(name):  # it may have expired: nothing is removed then
        ground.fs.rm_file(name)
    assert Remote(ground.fs).create_as(name, b"{}", token())


def test_a_store_that_can_not_decide_removes_nothing_first(liar: FaultStub) -> None:
    options = liar.storage_options("s3")
    around = fsspec.filesystem("s3", use_listings_cache=False, **options)
    name = f"bucket/{uuid.uuid4()}/snapshot/snapshot-1"
    around.pipe_file(name, b'{"id": 1}')
    remote = Remote(fsspec.filesystem("pias3", formats=["paimon"], **options))
    with pytest.raises(UnsafeStore):
        remote.create_as(name, b'{"id": 2}', token(), overwrite=True)
    assert around.cat_file(name) == b'{"id": 1}'


def test_an_overwritten_plan_is_executed_by_who_comes_then(ground: Ground, root: str) -> None:
    plan = f"{root}/.hoodie/timeline/{T}.compaction.requested"
    planner, admin, executor = (
        ground.mount(writer_session=f"5b1d0e6a-0000-4000-8000-00000000000{n}") for n in (1, 2, 3)
    )
    planner.pipe_file(plan, b"all of it")
    assert Remote(admin).create_as(plan, b"less", token(), overwrite=True)
    assert ground.read(plan) == b"less"
    executor.pipe_file(f"{root}/.hoodie/timeline/{T}.compaction.inflight", b"")
    executor.pipe_file(f"{root}/.hoodie/timeline/{T}_{T}.commit", b"{}")
    assert ground.read(f"{root}/.hoodie/timeline/{T}_{T}.commit") == b"{}"
    with pytest.raises(Fenced):  # it goes on with a plan that is no more
        planner.pipe_file(f"{root}/.hoodie/timeline/{T}_{T}1.commit", b"{}")


def test_a_turn_is_kept_by_its_name_alone(ground: Ground, root: str) -> None:
    a, b = (Writer(ground.mount(writer_session=session), root) for session in "ab")
    a.begins(T)
    turn = str(Remote(a.fs).take_turn(root, UUID, thread="main", lease=60.0).turn)
    assert Remote(a.fs).take_turn(root, UUID, thread="main", lease=60.0) == Taken(turn)
    theirs = token()
    assert Remote(b.fs).take_turn(root, theirs, thread="main", lease=60.0).behind == "turn 2, session a"
    assert Remote(a.fs).beat_turn(root, turn)
    with pytest.raises(Fenced):
        a.completes(T)
    # Another instance for the same session, as after a restart of who serves it.
    again = Writer(ground.mount(writer_session="a", skip_instance_cache=True), root)
    with Remote(again.fs).in_turn(again.completed(T), turn):
        again.completes(T)
    assert Remote(again.fs).release_turn(root, turn)
    assert not Remote(again.fs).release_turn(root, turn)
    assert Remote(b.fs).take_turn(root, theirs, thread="main", lease=60.0).turn not in (None, turn)


def test_who_has_long_been_alone_with_a_table_hears_so(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (Writer(memory.mount(writer_session=each), table_in(memory)) for each in "ab")
    now = 0.0
    monkeypatch.setattr("putifabsent.fsspec_plugin.ledgers.asleep_too", lambda: now)

    def alone(writer: Writer = a) -> bool:
        taken = Remote(writer.fs).take_turn(writer.root, token(), thread="", lease=60.0)
        assert Remote(writer.fs).release_turn(writer.root, str(taken.turn))
        return taken.alone

    a.begins(T)
    assert not alone()  # it may have come a moment after another
    now += 61
    assert alone()
    assert not alone(b)
    assert not alone()
    now += 61
    assert alone()
    assert not alone(b)  # another's instant is open
    b.begins(T.replace("2026", "2027"))
    assert not alone()
    now += 61
    assert not alone()


def test_who_read_no_more_of_others_than_a_checkpoint_of_its_own_session_is_not_alone(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of several services of a session reads what another of them has written, after another session."""
    mine, too, b = (
        Writer(memory.mount(writer_session=each, skip_instance_cache=True), table_in(memory))
        for each in "aab"
    )
    now = 0.0
    monkeypatch.setattr("putifabsent.fsspec_plugin.ledgers.asleep_too", lambda: now)

    def alone(writer: Writer) -> bool:
        taken = Remote(writer.fs).take_turn(writer.root, token(), thread="", lease=60.0)
        assert Remote(writer.fs).release_turn(writer.root, str(taken.turn))
        return taken.alone

    alone(mine)
    now += 61
    assert alone(mine)
    alone(b)
    for _ in range(64):
        alone(too)
    assert not alone(mine)


def test_a_call_that_is_repeated_while_it_runs_takes_nothing_away_from_itself(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy sends it twice; the first is refused for a turn that is over when the second comes."""
    a = Writer(memory.mount(writer_session="a"), table_in(memory))
    a.begins(T)
    turn, mine = str(Remote(a.fs).take_turn(a.root, UUID, thread="main", lease=60.0).turn), token()
    store, removes, goes_on = a.fs.mount.store, threading.Event(), threading.Event()
    delete, publish = store.delete, store.publish

    def deleted(name: str, *version: Any) -> Any:
        if "/bodies/" in name:
            removes.set()
            goes_on.wait(60)
        return delete(name, *version)

    def published(*arguments: Any) -> Any:
        goes_on.set()
        first.join(60)
        return publish(*arguments)

    def create() -> None:
        with pytest.raises(Fenced):
            Remote(a.fs).create_as(a.completed(T), b"{}", mine)

    monkeypatch.setattr(store, "delete", deleted)
    monkeypatch.setattr(store, "publish", published)
    first = threading.Thread(target=create)
    first.start()
    assert removes.wait(60)
    assert Remote(a.fs).release_turn(a.root, turn)
    with suppress(OutcomeUnknown):
        Remote(a.fs).create_as(a.completed(T), b"{}", mine)
    goes_on.set()
    first.join(60)
    assert Remote(a.fs).create_as(a.completed(T), b"{}", mine)
    assert memory.read(a.completed(T)) == b"{}"


def test_a_commit_that_moves_away_is_its_ledgers_business(ground: Ground, root: str) -> None:
    writer = Writer(ground.fs, root)
    completed = writer.commits(T)
    bodies = f"{root}/.hoodie/.putifabsent/bodies"
    assert ground.around.find(bodies)
    assert Remote(ground.fs).rename_as(completed, ground.log(), token())
    assert not ground.around.find(bodies)
    assert completed.rpartition("/")[2] not in writer.timeline()
    assert ground.read(ground.log()) == b"{}"


def test_a_salted_slice_is_admitted_under_its_salted_name_alone(ground: Ground, root: str) -> None:
    a = Writer(ground.mount(writer_session="5b1d0e6a-0000-4000-8000-000000000001", salt="slices"), root)
    a.begins(T)
    admitted = Remote(a.fs).admit(a.slice_of(T))
    assert (admitted.guarded, admitted.also) == (False, None)
    assert ground.read(str(admitted.at)) == T.encode()


def test_who_was_rolled_back_and_reads_nothing_more_writes_slices_for_a_minute_at_most(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As executors do whose driver has died. Who begins the instant anew would list their slices."""
    now = time.monotonic()
    monkeypatch.setattr(ledgers, "asleep_too", lambda: now)
    a, b = (Writer(memory.mount(writer_session=each), table_in(memory)) for each in "ab")
    a.begins("100")
    b.fs.rm_file(b.inflight("100"))
    now += 59
    a.fs.pipe_file(a.slice_of("100", "2-0-2"), b"before anybody could know")
    now += 1
    with pytest.raises(Fenced, match="rolled back"):
        a.fs.pipe_file(a.slice_of("100", "3-0-3"), b"the zombie's")
    with pytest.raises(Fenced, match="rolled back"):
        Remote(a.fs).admit(a.slice_of("100", "4-0-4"))


def test_an_owner_who_writes_for_long_lists_its_ledger_once_a_minute(
    stub: FaultStub, on_stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(ledgers, "asleep_too", lambda: now)
    fs = on_stub(skip_instance_cache=True)
    fs.pipe_file("bucket/t/.hoodie/hoodie.properties", b"hoodie.table.version=9")
    writer = Writer(fs, "bucket/t")
    writer.begins("100")
    now += 60
    seen = len(stub.requests)
    for number in range(3):
        fs.pipe_file(writer.slice_of("100", f"{number}-0-2"), b"")
    assert [each.op for each in stub.requests[seen:]] == [Op.LIST, Op.PUT, Op.PUT, Op.PUT]


def test_an_owner_who_may_not_list_any_more_goes_by_what_it_has_read(
    stub: FaultStub, on_stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(ledgers, "asleep_too", lambda: now)
    fs = on_stub(skip_instance_cache=True)
    fs.pipe_file("bucket/t/.hoodie/hoodie.properties", b"hoodie.table.version=9")
    writer = Writer(fs, "bucket/t")
    writer.begins("100")
    now += 60
    stub.script(Op.LIST, Fault.FORBIDDEN_403)
    fs.pipe_file(writer.slice_of("100", "1-0-2"), b"its own")
    assert fs.cat_file(writer.slice_of("100", "1-0-2")) == b"its own"


def test_while_a_ledger_can_not_be_listed_one_slice_a_minute_waits_for_it(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(ledgers, "asleep_too", lambda: now)
    writer = Writer(memory.mount(deadline=0.1, skip_instance_cache=True), table_in(memory))
    writer.begins("100")
    unanswered: list[str] = []

    def lists(folder: str, *_: Any) -> TryAgain:
        unanswered.append(folder)
        return TryAgain(TimeoutError())

    monkeypatch.setattr(writer.fs.backend, "list", lists)
    waited: list[bool] = []
    for seconds in (60, 0, 59, 1):
        now += seconds
        before = len(unanswered)
        writer.fs.pipe_file(writer.slice_of("100", f"{len(waited)}-0-2"), b"")
        waited.append(len(unanswered) > before)
    assert waited == [True, False, False, True]
