"""A slot: who would write the same do so one after the other, and nobody waits for the dead for long."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.fsspec_plugin import queues, telemetry
from putifabsent.fsspec_plugin.queues import Asker, Queues, queue_of
from putifabsent.shim.requests import Pause
from tests.fsspec_plugin.children import in_a_child
from tests.fsspec_plugin.test_async import closed
from tests.fsspec_plugin.tower_drivers import F, known
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fsspec_plugin.grounds import Ground
    from tests.fsspec_plugin.tower_drivers import Driver

SHORT = 0.05
TABLE = "table"


@pytest.fixture
def fs(ground: Ground) -> Any:
    return ground.mount(writer_session="a")


@pytest.fixture
def other(ground: Ground) -> Any:
    return ground.mount(writer_session="b")


@pytest.fixture
def table(ground: Ground) -> str:
    ground.around.makedirs(ground.name(TABLE), exist_ok=True)
    return ground.name(TABLE)


def is_free(fs: Any, table: str, partitions: list[str] | None = None) -> bool:
    try:
        with fs.slot(table, partitions=partitions, timeout=SHORT):
            return True
    except TimeoutError:
        return False


def entries(ground: Ground, fs: Any, table: str) -> list[str]:
    folder = queue_of(fs.mount.walk(fs.guard.ledgers.table_for_turns(table)).state)
    return list(ground.around.find(folder))


@pytest.mark.parametrize(
    ("one", "another", "meet"),
    [
        (None, None, True),
        (["day=1"], ["day=1"], True),
        (["day=1", "day=2"], ["/day=2/"], True),
        (["day=1"], None, True),
        (["day=1"], ["day=2"], False),
        (["day=1"], ["day=10"], False),
        (["year=1"], ["year=1/day=1"], True),
        (["year=1/day=1"], ["year=1/day=2"], False),
        (["day=1/../day=2"], ["./day=2"], True),
        (["."], ["day=1"], True),
        ([""], ["day=1"], True),
    ],
)
def test_who_would_write_the_same_waits_until_the_slot_is_given_back(
    ground: Ground,
    fs: Any,
    other: Any,
    table: str,
    one: list[str] | None,
    another: list[str] | None,
    meet: bool,
) -> None:
    with fs.slot(table, partitions=one):
        assert is_free(other, table, another) is not meet
        assert is_free(fs, table, another) is not meet  # threads of one process, too
    assert is_free(other, table, another)
    assert entries(ground, fs, table) == []


def test_the_table_s_own_path_may_be_in_front_of_a_folder(fs: Any, table: str) -> None:
    with fs.slot(table, partitions=[f"{table}/day=1"]):
        assert not is_free(fs, table, ["day=1"])
        assert is_free(fs, table, ["day=2"])
    with fs.slot(table, partitions=[table]):
        assert not is_free(fs, table, ["day=2"])


def test_who_waits_in_vain_is_told_for_whom(fs: Any, other: Any, table: str) -> None:
    held = fs.slot(table)
    with (
        held,
        pytest.raises(TimeoutError, match=f"for 0.05 s: session {fs.writer}/"),
        other.slot(table, timeout=SHORT),
    ):
        pass


def test_slots_are_had_in_the_order_in_which_they_were_asked_for(
    ground: Ground, fs: Any, other: Any, table: str
) -> None:
    had: list[int] = []

    def work(number: int) -> None:
        with other.slot(table, partitions=[f"day={number % 2}", "all"], timeout=30.0):
            had.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    with fs.slot(table):
        for number, thread in enumerate(threads):
            thread.start()
            while len(entries(ground, fs, table)) < number + 2:
                time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert had == [0, 1, 2, 3]


def test_for_how_long_somebody_waited_for_a_slot_is_measured(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(telemetry, "is_loaded", lambda: True)
    monkeypatch.setattr(telemetry, "instruments", lambda: SimpleNamespace(wait=lambda _, s: waits.append(s)))
    fs = memory.mount()
    for seconds in (None, 3.5):

        def takes(*_: Any, seconds: float | None = seconds) -> Any:
            yield Pause(0)
            return queues.Waited([], seconds)

        monkeypatch.setattr(Queues, "take", takes)
        with fs.slot(memory.name(TABLE)):
            pass
    assert waits == [3.5]


def test_a_writer_of_hudi_s_waits_for_a_slot_that_its_commit_would_meet(
    drivers: list[Driver], root: str
) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    with a.writer.fs.slot(root, partitions=["dt=2"]):
        b.begins("300", (F,))
        b.completes("300", (F,), upon="1")
    with a.writer.fs.slot(root, partitions=["dt=1"]):
        assert f"session {a.writer.fs.writer}/" in str(b.asks().behind)
    b.begins("400", (F,))


def hold(folder: str, pipe: Any) -> None:
    """Hold a slot until the end."""
    with fsspec.filesystem("piafile").slot(folder):
        pipe.send("held")
        time.sleep(600)


def test_a_slot_whose_holder_was_killed_is_passed_over_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "LIFELESS", 0.5)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=hold, args=(str(tmp_path), there), daemon=True)
    child.start()
    assert here.poll(60)
    fs = fsspec.filesystem("piafile")
    assert not is_free(fs, str(tmp_path))
    child.kill()
    child.join()
    with fs.slot(str(tmp_path), timeout=30.0):
        pass
    assert not [each for each in tmp_path.rglob("slots/*") if each.is_file()]


def dead(ground: Ground, fs: Any, table: str) -> None:
    """Leave an entry behind whose holder has ended without a word."""
    slot = fs.slot(table)
    slot.__enter__()
    slot._held.over.set()


def test_who_asks_again_and_again_for_a_moment_watches_for_long(
    ground: Ground, fs: Any, other: Any, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "LIFELESS", 0.5)
    dead(ground, fs, table)
    assert not is_free(other, table)
    time.sleep(0.6)
    assert is_free(other, table)
    assert entries(ground, fs, table) == []


def test_who_comes_long_after_the_holder_has_died_waits_for_no_one(
    ground: Ground, fs: Any, other: Any, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(ground, fs, table)
    monkeypatch.setattr(queues, "LIFELESS", 0.4)
    time.sleep(1.1)  # S3 tells whole seconds
    assert is_free(other, table)
    assert entries(ground, fs, table) == []


def test_an_entry_whose_time_is_ahead_is_passed_over_and_nobody_else(tmp_path: Path) -> None:
    def new() -> Any:
        return fsspec.filesystem("piafile", skip_instance_cache=True)

    folder = str(tmp_path)
    died = new().slot(folder, partitions=["day=1"])
    died.__enter__()
    died._held.over.set()
    (entry,) = tmp_path.rglob("slots/*~*")
    os.utime(entry, (entry.stat().st_mtime + 600,) * 2)
    with new().slot(folder, partitions=["day=2"]):
        assert not entry.exists()
        assert not is_free(new(), folder, ["day=2"])
    assert is_free(new(), folder, ["day=1"])


def test_who_has_no_entry_removes_nothing_by_the_store_s_times(tmp_path: Path) -> None:
    fs, folder = fsspec.filesystem("piafile"), str(tmp_path)
    with fs.slot(folder):
        (entry,) = tmp_path.rglob("slots/*~*")
        ahead = entry.with_name("0000000009~ahead")
        ahead.write_bytes(b"{}")
        os.utime(ahead, (entry.stat().st_mtime + 600,) * 2)
        fs.mount.run(Queues().listed(str(entry.parent), Asker(str(entry.parent), "b", "")))
        assert entry.exists()


def test_a_sign_of_life_that_is_under_way_is_not_there_after_the_end(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "WRITTEN_EACH", 0.01)
    fs, table = memory.mount(), memory.name(TABLE)
    run, begun, ended = fs.mount.run, threading.Event(), threading.Event()

    def slowly(*args: Any, **options: Any) -> Any:
        is_a_sign = options.get("deadline") == queues.LIFELESS
        if is_a_sign:
            begun.set()
            time.sleep(0.2)
        try:
            return run(*args, **options)
        finally:
            if is_a_sign:
                ended.set()

    monkeypatch.setattr(fs.mount, "run", slowly)
    with fs.slot(table):
        assert begun.wait(30)
    assert ended.wait(30)
    assert entries(memory, fs, table) == []


def test_a_holder_whose_entry_was_removed_while_it_was_paused_has_its_place_again(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "WRITTEN_EACH", 0.01)
    fs, table = memory.mount(), memory.name(TABLE)
    with fs.slot(table):
        first = entries(memory, fs, table)
        memory.around.rm(first[0])
        while not entries(memory, fs, table):
            time.sleep(0.01)
        assert entries(memory, fs, table) == first
    assert entries(memory, fs, table) == []


def test_a_slot_whose_entry_was_lost_on_its_way_is_seen_by_others() -> None:
    with FaultStub() as stub:
        fs = fsspec.filesystem("pias3", **stub.storage_options("s3"))
        stub.script(Op.PUT, Fault.DROP_BEFORE_APPLY)
        with fs.slot("bucket/table"):
            assert not is_free(fs, "bucket/table")


async def test_who_is_cancelled_while_it_comes_leaves_nothing_behind() -> None:
    with FaultStub() as stub:
        fs = fsspec.filesystem(
            "pias3", asynchronous=True, **stub.storage_options("s3"), skip_instance_cache=True
        )
        stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)

        async def comes() -> None:
            async with fs.slot("bucket/table"):
                pass

        task = asyncio.create_task(comes())
        await asyncio.to_thread(stub.wait_for, Op.PUT)
        task.cancel()
        stub.release()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [key for _, key in stub.objects if "/slots/" in key] == []
        await closed(fs)


async def test_who_is_cancelled_while_it_waits_leaves_the_queue() -> None:
    with FaultStub() as stub:
        fs = fsspec.filesystem(
            "pias3", asynchronous=True, **stub.storage_options("s3"), skip_instance_cache=True
        )

        def queue() -> list[str]:
            return [key for _, key in list(stub.objects) if "/slots/" in key]

        def both_came() -> None:
            while len(queue()) < 2:
                time.sleep(0.01)

        async def comes() -> None:
            async with fs.slot("bucket/table"):
                pass

        async with fs.slot("bucket/table"):
            task = asyncio.create_task(comes())
            await asyncio.to_thread(both_came)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(queue()) == 1
        assert queue() == []
        await closed(fs)


def leaves(slot: Any, table: str) -> bool:
    """Leave a parent's slot in a child; return whether it is free then."""
    slot.__exit__(None, None, None)
    return is_free(fsspec.filesystem("piafile", skip_instance_cache=True), table)


def test_a_forked_child_that_leaves_the_block_leaves_the_slot_to_its_parent(local: Ground) -> None:
    fs, table = local.mount(), local.folder
    with fs.slot(table) as slot:
        assert in_a_child("fork", leaves, slot, table) is False
        assert not is_free(fs, table)
    assert is_free(fs, table)


def test_a_slot_of_a_table_that_is_removed_meanwhile_ends_with_it(
    ground: Ground, fs: Any, other: Any, table: str
) -> None:
    ground.write(f"{table}/file", b"")
    with fs.slot(table):
        other.rm(table, recursive=True)
    assert entries(ground, fs, table) == []
    ground.around.makedirs(table, exist_ok=True)
    assert is_free(other, table)


def test_who_is_interrupted_when_it_has_just_come_leaves_nothing_behind(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, table = memory.mount(), memory.name(TABLE)
    walk, interruptions = fs.mount.walk, [KeyboardInterrupt()]

    def interrupted(steps: Any) -> Any:
        walk(steps)
        if interruptions:
            raise interruptions.pop()

    slot = fs.slot(table)
    monkeypatch.setattr(fs.mount, "walk", interrupted)
    with pytest.raises(KeyboardInterrupt):
        slot.__enter__()
    monkeypatch.undo()
    assert entries(memory, fs, table) == []
    with slot:
        assert not is_free(fs, table)


def test_a_slot_is_held_for_as_long_as_its_holder_lives(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "LIFELESS", 0.4)
    monkeypatch.setattr(queues, "WRITTEN_EACH", 0.05)
    fs, table = memory.mount(), memory.name(TABLE)
    with fs.slot(table), pytest.raises(TimeoutError), fs.slot(table, timeout=1.2):
        pass


def test_asynchronously_tasks_wait_for_each_other(memory: Ground) -> None:
    had: list[int] = []

    async def life() -> None:
        fs = fsspec.filesystem("piamemory", asynchronous=True)
        table = memory.name(TABLE)

        async def beside() -> None:
            async with fs.slot(table):
                had.append(2)

        async with fs.slot(table):
            task = asyncio.create_task(beside())
            await asyncio.sleep(SHORT)
            had.append(1)
        await task

    asyncio.run(life())
    assert had == [1, 2]


def test_who_gives_up_waiting_leaves_the_queue(ground: Ground, fs: Any, other: Any, table: str) -> None:
    with fs.slot(table):
        assert not is_free(other, table)
        assert len(entries(ground, fs, table)) == 1


def test_tasks_can_t_enter_one_slot_at_the_same_time(memory: Ground) -> None:
    async def life() -> tuple[Any, Any]:
        slot = fsspec.filesystem("piamemory", asynchronous=True).slot(memory.name(TABLE), timeout=SHORT)

        async def enters() -> None:
            async with slot:
                await asyncio.sleep(SHORT)

        return await asyncio.gather(enters(), enters(), return_exceptions=True)

    first, second = asyncio.run(life())
    assert first is None
    assert isinstance(second, RuntimeError)


def test_a_slot_is_entered_once_at_a_time(memory: Ground) -> None:
    slot = memory.mount().slot(memory.name(TABLE))
    with slot:
        assert " held in" in repr(slot)
        assert " not held" not in repr(slot)
        with pytest.raises(RuntimeError, match=r"is held already: ask fs\.slot for another one"), slot:
            pass
        assert " not held" not in repr(slot)
    assert " not held" in repr(slot)
    with slot:
        pass


@pytest.mark.parametrize(
    ("partitions", "error", "said"),
    [
        ("day=1", TypeError, r"give a list of names, such as \['day=1'\]"),
        (b"day=1", TypeError, r"partitions is b'day=1': give a list of names, such as \['day=1'\]"),
        ({"day": 1}, TypeError, r"partitions is \{'day': 1\}: give a list of names, such as \['day=1'\]"),
        ([b"day=1"], TypeError, r"partitions has b'day=1': give names, such as 'day=1'"),
        ([20260101], TypeError, "partitions has 20260101: give names, such as 'day=1'"),
        ([None], TypeError, "partitions has None: give names, such as 'day=1'"),
        ([], ValueError, "leave it out for a slot of the whole table"),
        (["day=1", "../other"], ValueError, r"'\.\./other' is not in .*: give its name from there"),
        (["s3://bucket/table/day=1"], ValueError, "is not in .*: give its name from there"),
    ],
)
def test_bad_partitions_are_told(memory: Ground, partitions: Any, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        memory.mount().slot(memory.name(TABLE), partitions=partitions)


def test_without_a_folder_there_is_no_queue(tmp_path: Path) -> None:
    slot = fsspec.filesystem("piafile").slot(str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match=r"there is no folder for its queue: .*none"), slot:
        pass
