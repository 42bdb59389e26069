"""A table's turn: who has it completes alone, and who was paused past its lease completes nothing."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from queue import Queue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent import Fenced
from putifabsent.backends.base import Creation, InMemory
from putifabsent.fsspec_plugin import ledgers
from putifabsent.fsspec_plugin.remote import Remote
from putifabsent.shim.ledger.book import record_at
from putifabsent.shim.ledger.facts import State
from putifabsent.shim.ledger.records import marker_of
from putifabsent.shim.requests import Both, Publish, perform
from tests import fault_proxy as proxied
from tests.fsspec_plugin.children import in_a_child, in_children
from tests.fsspec_plugin.hudi_tables import Writer, records_of, table_in
from tests.fsspec_plugin.test_async import closed
from tests.fsspec_plugin.tower_drivers import Clock
from tests.stub import Fault, FaultStub, Op
from tests.vouching import vouch

if TYPE_CHECKING:
    from putifabsent.backends.base import Body, PutOutcome
    from tests.fsspec_plugin.grounds import Ground

SHORT = 0.05
LONG = 600.0


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no holder give a sign of life, as one whose process is stopped."""
    monkeypatch.setattr(ledgers, "_BEATS_A_LEASE", SHORT / LONG)


def test_a_turn_is_one_s_until_it_is_given_back(ground: Ground, a: Writer, b: Writer) -> None:
    with a.fs.turn(a.root, lease=LONG) as turn:
        assert turn.number == 1
        with pytest.raises(TimeoutError, match="session a"), b.fs.turn(b.root, timeout=SHORT):
            pass
    with b.fs.turn(b.root, lease=LONG):
        pass
    assert records_of(ground, a.root) == ["TURN", "RELEASE", "TURN", "RELEASE"]


@pytest.mark.parametrize("lies", ["an old listing", "a proxy that does not find its store"])
def test_who_sees_no_table_yet_takes_no_turn_of_another_ledger(lies: str) -> None:
    not_found = proxied.Fault(applies=False, says=b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    with FaultStub() as stub, proxied.FaultProxy(stub.storage_options("s3")["endpoint_url"]) as proxy:
        options = {"arbiter": "native", "skip_instance_cache": True, **stub.storage_options("s3")}
        a = fsspec.filesystem("pias3", writer_session="a", **options)
        b = fsspec.filesystem("pias3", writer_session="b", **{**options, "endpoint_url": proxy.endpoint})
        stub.put("bucket", "t/rows", b"")
        if lies == "an old listing":
            b.ls("bucket/t")
        stub.put("bucket", "t/.hoodie/hoodie.properties", b"hoodie.table.version=8\n")
        with a.turn("bucket/t", lease=LONG):
            if lies != "an old listing":
                proxy.script("HEAD", not_found)
                proxy.script("GET", not_found)
            with pytest.raises(TimeoutError, match="session a"), b.turn("bucket/t", timeout=SHORT):
                pass


def test_while_somebody_has_the_turn_nobody_else_completes(a: Writer, b: Writer) -> None:
    a.begins("100")
    b.begins("200")
    with a.fs.turn(a.root, lease=LONG):
        with pytest.raises(Fenced, match="session a has turn"):
            b.completes("200")
        a.completes("100")
    b.completes("200")


def test_who_gets_the_turn_finds_in_the_store_what_was_completed_before_it(
    ground: Ground, a: Writer, b: Writer
) -> None:
    name = a.commits("100")
    ground.around.rm_file(name)  # as it is before it is published
    # Hudi lists the store, and compares its commit with what it finds there, as soon as it has its lock.
    assert Remote(b.fs).take_turn(b.root, str(uuid.uuid4()), thread="main", lease=LONG).turn is not None
    assert ground.is_there(name)


def test_who_was_paused_past_the_lease_completes_nothing(a: Writer, b: Writer, paused: None) -> None:
    del paused
    a.begins("100")
    turn = a.fs.turn(a.root, lease=SHORT)
    turn.__enter__()
    with b.fs.turn(b.root, lease=LONG):
        with pytest.raises(Fenced, match="session b has turn"):
            a.completes("100")
        b.commits("200")
    with pytest.raises(Fenced, match="no turn is held"):
        a.completes("100")
    with pytest.raises(Fenced, match="was broken"):
        turn.__exit__(None, None, None)
    a.completes("100")


def test_who_was_paused_hears_so_though_its_table_is_one_of_very_many(
    memory: Ground, paused: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del paused
    monkeypatch.setattr(ledgers, "_MOST_READ", 1)
    a, b = (Writer(memory.mount(writer_session=each), table_in(memory)) for each in "ab")
    broken = pytest.raises(Fenced, match="was broken")
    with broken, a.fs.turn(a.root, lease=SHORT), b.fs.turn(b.root), a.fs.turn(memory.name("another")):
        pass


def test_who_gives_signs_of_life_is_not_broken(memory: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    root = table_in(memory)
    a, b = (memory.mount(writer_session=session) for session in "ab")
    beats: Queue[bytes] = Queue()
    put = a.backend.put

    def noted(name: str, body: Body, creation: Creation) -> PutOutcome:
        outcome: PutOutcome = put(name, body, creation)
        if name.startswith(f"{root}/.hoodie/.putifabsent/beats/"):
            beats.put(memory.read(name))
        return outcome

    monkeypatch.setattr(a.backend, "put", noted)
    with a.turn(root, lease=1.0) as turn:
        assert len({beats.get() for _ in range(3)}) == 3  # the pytest time-out ends it
        with pytest.raises(TimeoutError), b.turn(root, timeout=SHORT):
            pass
        assert turn.number is not None


def test_a_turn_is_a_thread_s_own(memory: Ground) -> None:
    writer = Writer(memory.fs, table_in(memory))
    for instant in ("100", "200"):
        writer.begins(instant)
    failed: list[BaseException] = []

    def beside() -> None:
        try:
            writer.completes("200")
        except Fenced as error:
            failed.append(error)

    with writer.fs.turn(writer.root, lease=LONG):
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        writer.completes("100")
    assert len(failed) == 1


def test_what_a_call_of_many_files_completes_is_in_the_turn(s3: Ground) -> None:
    writer = Writer(s3.fs, table_in(s3))
    for instant in ("100", "200"):
        writer.begins(instant)
    names = [writer.completed(instant) for instant in ("100", "200")]
    with writer.fs.turn(writer.root, lease=LONG):
        writer.fs.pipe(dict.fromkeys(names, b"{}"))
    assert set(writer.fs.cat(names)) == set(names)


def test_a_turn_does_not_wait_for_itself(memory: Ground) -> None:
    root = table_in(memory)
    with (
        memory.fs.turn(root),
        pytest.raises(RuntimeError, match="already"),
        memory.fs.turn(f"{root}/.hoodie"),
    ):
        pass


def test_other_tables_have_turns_when_they_are_used(memory: Ground) -> None:
    table = memory.name("paimon")
    with memory.mount(writer_session="a").turn(table):
        assert memory.is_there(f"{table}/.putifabsent/ledger/-life")
        with pytest.raises(TimeoutError), memory.mount(writer_session="b").turn(table, timeout=SHORT):
            pass


def test_a_table_that_is_still_to_be_made_has_its_turn_by_its_hudi_folder(memory: Ground) -> None:
    root = memory.name("t")
    a, b = (memory.mount(writer_session=session) for session in "ab")
    with a.turn(f"{root}/.hoodie"):
        table_in(memory)
        with pytest.raises(TimeoutError), b.turn(root, timeout=0):
            pass


def test_a_turn_whose_signs_of_life_can_not_begin_is_given_back(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = table_in(memory)

    def refuses(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuses)
        with pytest.raises(RuntimeError, match="new thread"):
            memory.fs.turn(root).__enter__()
    with memory.fs.turn(root, timeout=0):
        pass


def test_a_fork_that_leaves_the_block_gives_nothing_back(local: Ground) -> None:
    fs, root = local.mount(writer_session="a"), table_in(local)
    turn = fs.turn(root, lease=LONG)
    with turn:
        assert in_a_child("fork", leaves, turn) == "left"
        with pytest.raises(TimeoutError), local.mount(writer_session="b").turn(root, timeout=0):
            pass


def leaves(turn: ledgers.Turn) -> str:
    """Leave the block of a turn that the parent has taken."""
    turn.__exit__(None, None, None)
    return "left"


def test_asynchronously_a_turn_is_a_task_s_own(memory: Ground) -> None:
    root = table_in(memory)

    async def life() -> None:
        fs = fsspec.filesystem("piamemory", asynchronous=True, writer_session="a")
        writer = Writer(fs, root)
        for instant in ("100", "200"):
            await fs._pipe_file(writer.requested(instant), b"")

        async def beside() -> None:
            await fs._pipe_file(writer.completed("200"), b"{}")

        async with fs.turn(root, lease=LONG) as turn:
            assert turn.number is not None
            held = ledgers.turns_held.get()
            await fs._pipe_file(writer.completed("100"), b"{}")
        assert not ledgers.turns_held.get()
        assert held
        await beside()
        await closed(fs)

    asyncio.run(life())


def counts_up(protocol: str, root: str, who: int, times: int) -> list[str]:
    """Commit what the newest commit says, and one more; return what was acknowledged."""
    fs = fsspec.filesystem(protocol, deadline=120)
    writer = Writer(fs, root)
    made = []
    for number in range(times):
        instant = f"{10 * number + who + 1000}"
        writer.begins(instant)
        with fs.turn(root, lease=LONG, timeout=120):
            values = [int(fs.cat_file(name)) for name in fs.glob(f"{root}/.hoodie/timeline/*.commit")]
            writer.completes(instant, str(max(values, default=0) + 1).encode())
        made.append(writer.completed(instant))
    return made


def test_an_asynchronous_client_s_turn_gives_signs_of_life() -> None:
    """Its loop may be busy: they go by another client."""

    async def hold(stub: FaultStub) -> set[str]:
        options = {"arbiter": "native", "asynchronous": True, "skip_instance_cache": True}
        fs = fsspec.filesystem("pias3", writer_session="a", **options, **stub.storage_options("s3"))
        seen: set[str] = set()
        async with fs.turn("bucket/t", lease=0.9):
            while len(seen) < 2:  # the pytest time-out ends it
                await asyncio.sleep(0.05)
                seen |= {found.data.decode() for (_, key), found in stub.objects.items() if "/beats/" in key}
        return seen

    with FaultStub() as stub:
        vouch(stub.url("s3"))
        assert len(asyncio.run(hold(stub))) == 2


@pytest.mark.parametrize(("op", "before"), [(Op.PUT, 0), (Op.LIST, 1)])
def test_who_is_cancelled_while_it_takes_a_turn_keeps_nobody_waiting(op: Op, before: int) -> None:
    async def comes_and_goes(stub: FaultStub) -> None:
        options = {"arbiter": "native", "asynchronous": True, "skip_instance_cache": True}
        fs = fsspec.filesystem("pias3", writer_session="a", **options, **stub.storage_options("s3"))
        async with fs.turn("bucket/t"):
            pass
        seen = stub.ops.count(op)
        stub.script(op, *[None] * before, Fault.TIMEOUT_AFTER_APPLY)
        turn = fs.turn("bucket/t", lease=LONG)
        task = asyncio.ensure_future(turn.__aenter__())
        await asyncio.to_thread(stub.wait_for, op, seen + before + 1)
        task.cancel()
        stub.release()
        with pytest.raises(asyncio.CancelledError):
            await task
        await closed(fs)

    with FaultStub() as stub:
        vouch(stub.url("s3"))
        asyncio.run(comes_and_goes(stub))
        other = fsspec.filesystem(
            "pias3", arbiter="native", skip_instance_cache=True, **stub.storage_options("s3")
        )
        with other.turn("bucket/t", timeout=5):
            pass


def test_commits_under_different_names_do_not_lose_each_other(local: Ground) -> None:
    root = table_in(local)
    writers, times = 4, 5
    acknowledged = in_children(
        "spawn", counts_up, [(local.protocol, root, who, times) for who in range(writers)]
    )
    names = [name for each in acknowledged for name in each]
    assert len(names) == writers * times
    assert sorted(int(local.read(name)) for name in names) == list(range(1, writers * times + 1))
    with pytest.raises(Fenced, match="was completed by session"):
        local.fs.pipe_file(names[0], b"{}")


@pytest.mark.parametrize("ground", ["memory-ballot", "memory-claims", "memory-redis"], indirect=True)
def test_a_life_whose_first_writer_died_before_anybody_could_see_its_marker_goes_on(ground: Ground) -> None:
    root = table_in(ground)
    dead, living = (ground.mount(writer_session=session) for session in ("dead", "living"))
    with living.turn(f"{root}-other"):
        pass  # its mounts have agreed, and its store was tried
    name = record_at(f"{root}/.hoodie/.putifabsent/ledger/-life")
    assert name is not None
    marker = InMemory(marker_of(State(life="dead-1")))
    creation = Creation(str(uuid.uuid4()), "writer", name.state)
    creating = dead.decider.create(name, marker, creation)
    request = next(creating)
    while not isinstance(request, Publish):
        parts = request if isinstance(request, Both) else (request,)
        outcomes = tuple(perform(each, dead.backend) for each in parts)
        request = creating.send(outcomes if isinstance(request, Both) else outcomes[0])
    creating.close()
    assert not ground.is_there(name.path)
    with living.turn(root) as turn:
        assert turn.number == 1
    assert ground.is_there(name.path)


def test_one_lock_may_be_many_threads(memory: Ground, paused: None) -> None:
    """Whoever leaves gives back its own turn, though another thread has entered the same object since."""
    del paused
    root = table_in(memory)
    lock = memory.mount(writer_session="a").turn(root, lease=SHORT, timeout=10)
    left: list[BaseException | None] = []
    entered, ended = threading.Event(), threading.Event()

    def second() -> None:
        with lock:
            entered.set()
            ended.wait(10)
        left.append(None)

    thread = threading.Thread(target=second)
    lock.__enter__()
    thread.start()
    assert entered.wait(10)
    with pytest.raises(Fenced, match="was broken"):
        lock.__exit__(None, None, None)
    with pytest.raises(TimeoutError), memory.mount(writer_session="b").turn(root, timeout=0):
        pass
    ended.set()
    thread.join()
    assert left == [None]
    assert lock.number is None


def test_a_sign_of_life_that_hangs_keeps_no_other_back(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = table_in(memory)
    fs = memory.mount(writer_session="a")
    beats, goes_on = Queue[str](), threading.Event()
    put = fs.backend.put

    def hangs(name: str, body: Body, creation: Creation) -> PutOutcome:
        if name.startswith(f"{root}/.hoodie/.putifabsent/beats/"):
            beats.put(name)
            if beats.qsize() == 1:
                goes_on.wait(30)
        outcome: PutOutcome = put(name, body, creation)
        return outcome

    monkeypatch.setattr(fs.backend, "put", hangs)
    with fs.turn(root, lease=0.3):
        while beats.qsize() < 3:  # the pytest time-out ends it
            time.sleep(0.01)
        assert not goes_on.is_set()
        goes_on.set()


def test_who_removes_the_table_in_its_turn_leaves_quietly(ground: Ground, a: Writer, b: Writer) -> None:
    a.commits("100")
    with a.fs.turn(a.root, lease=LONG):
        a.fs.rm(a.root, recursive=True)
    table_in(ground)
    a.commits("200")
    turn = a.fs.turn(a.root, lease=LONG)
    turn.__enter__()
    b.fs.rm(b.root, recursive=True)
    table_in(ground)
    b.commits("300")
    with pytest.raises(Fenced, match="the table was removed since turn"):
        turn.__exit__(None, None, None)


@pytest.mark.parametrize("lease", [0, -1, float("nan"), float("inf"), 3601])
def test_a_lease_ends(memory: Ground, lease: float) -> None:
    with pytest.raises(ValueError, match="3600 at most"):
        memory.fs.turn(memory.name("t"), lease=lease)


def test_a_turn_that_was_broken_is_not_answered_to_who_asks_again(memory: Ground, paused: None) -> None:
    del paused
    root = table_in(memory)
    token = str(uuid.uuid4())
    lost = Remote(memory.mount(writer_session="a"))
    assert lost.take_turn(root, token, thread="main", lease=SHORT).turn is not None
    with (
        memory.mount(writer_session="b").turn(root, lease=LONG),
        pytest.raises(Fenced, match="ask for another"),
    ):
        lost.take_turn(root, token, thread="main", lease=SHORT)


def test_who_is_interrupted_when_it_has_just_taken_a_turn_keeps_nobody_waiting_for_long(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, table = memory.mount(), memory.name("table")
    fs.makedirs(table)
    walk = fs.mount.walk

    def interrupted(steps: Any) -> None:
        walk(steps)
        raise KeyboardInterrupt

    turn = fs.turn(table, lease=0.5)
    monkeypatch.setattr(fs.mount, "walk", interrupted)
    with pytest.raises(KeyboardInterrupt):
        turn.__enter__()
    monkeypatch.undo()
    with fs.turn(table, timeout=30.0) as another:
        assert another.number is not None


def test_a_service_that_stood_still_for_longer_than_a_lease_breaks_no_living_driver_s_turn(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits is heard first when it goes on, and then the sign of life that came meanwhile."""
    a, b = (Writer(memory.mount(writer_session=each), table_in(memory)) for each in "ab")
    holder, waiter = Remote(a.fs), Remote(b.fs)
    clock, theirs = Clock(), str(uuid.uuid4())
    monkeypatch.setattr(ledgers, "time", SimpleNamespace(monotonic=clock))
    a.begins("20260101120000000")
    taken = holder.take_turn(a.root, str(uuid.uuid4()), thread="main", lease=60.0)
    for clock.now in (0.0, 5.0, 10.0, 15.0, 600.0):
        assert waiter.take_turn(b.root, theirs, thread="main", lease=60.0).turn is None
    assert holder.beat_turn(a.root, str(taken.turn))
    with holder.in_turn(a.completed("20260101120000000"), str(taken.turn)):
        a.completes("20260101120000000")
    for clock.now in (604.0 + number * 7.5 for number in range(9)):
        assert waiter.take_turn(b.root, theirs, thread="main", lease=60.0).turn is None
    clock.now = 664.5
    assert waiter.take_turn(b.root, theirs, thread="main", lease=60.0).turn is not None
