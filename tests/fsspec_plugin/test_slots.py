"""A slot: who would write the same do so one after the other, and nobody waits for the dead for long."""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import os
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from putifabsent.backends.base import Creation, Refused
from putifabsent.fsspec_plugin import slots
from putifabsent.fsspec_plugin.slots import Asker, Slots, queue_of
from putifabsent.shim import drive
from putifabsent.shim.requests import Delete, Get, List, Pause, Put, perform
from tests.fsspec_plugin.test_async import closed
from tests.fsspec_plugin.test_tower import F, clock, drivers, known
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from putifabsent.backends.base import Store
    from tests.fsspec_plugin.grounds import Ground
    from tests.fsspec_plugin.test_tower import Clock, Driver

__all__ = ["clock", "drivers"]

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
    folder = queue_of(fs.mount.walk(fs.guard.ledgers.table_for_turns(table)))
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
    monkeypatch.setattr(slots, "LIFELESS", 0.5)
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
    monkeypatch.setattr(slots, "LIFELESS", 0.5)
    dead(ground, fs, table)
    assert not is_free(other, table)
    time.sleep(0.6)
    assert is_free(other, table)
    assert entries(ground, fs, table) == []


def test_who_comes_long_after_the_holder_has_died_waits_for_no_one(
    ground: Ground, fs: Any, other: Any, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(ground, fs, table)
    monkeypatch.setattr(slots, "LIFELESS", 0.4)
    time.sleep(1.1)  # S3 tells whole seconds
    assert is_free(other, table)
    assert entries(ground, fs, table) == []


def test_of_two_who_come_at_once_one_has_it(memory: Ground) -> None:
    """Whatever the order of their requests."""
    store, queues = memory.mount().mount.store, Slots()

    def holders(folder: str, order: Iterable[int]) -> list[int]:
        takes = [
            queues.take(Asker(folder, each, ""), None, Creation(each, each, folder))
            for each in ("one", "another")
        ]
        answers: list[Any] = [None, None]
        have, polls = [], [0, 0]
        for which in order:
            if which in have or polls[which] == 9:
                continue
            try:
                request = takes[which].send(answers[which])
            except StopIteration:
                have.append(which)
                continue
            is_pause = isinstance(request, Pause)
            polls[which] += is_pause
            answers[which] = True if is_pause else perform(request, store)
        return have

    found = [
        holders(memory.name(str(number)), [*order, *(0, 1) * 80])
        for number, order in enumerate(product((0, 1), repeat=9))
    ]
    assert [len(each) for each in found] == [1] * len(found)


class Taker:
    """Somebody who takes a slot, request by request."""

    def __init__(self, store: Store, folder: str, who: str, clock: Clock) -> None:
        self.asker, self.creation = Asker(folder, who, ""), Creation(who, who, folder)
        self.queues = Slots(clock)
        self.has = False
        self._store = store
        self._steps = self.queues.take(self.asker, None, self.creation)
        self.request: Any = next(self._steps)

    def goes_on(self, kind: type = Pause) -> Taker:
        """Go on to the next request of a kind, or to the end."""
        while not self.has:
            is_pause = isinstance(self.request, Pause)
            answer = True if is_pause else perform(self.request, self._store)
            try:
                self.request = self._steps.send(answer)
            except StopIteration as end:
                self.has = not end.value
                break
            if isinstance(self.request, kind):
                break
        return self

    def beats(self) -> None:
        """Show that it lives while it has the slot."""
        drive.run(self.queues.wait(self.asker, None, [], self.creation), self._store, 30.0)

    def leaves(self) -> None:
        self.has = False
        drive.run(self.queues.leave(self.asker, self.creation), self._store, 30.0)


@pytest.fixture
def takers(memory: Ground, clock: Clock) -> Callable[[str], Taker]:
    return partial(Taker, memory.mount().mount.store, memory.name(TABLE), clock=clock)


def test_of_two_one_has_it_however_late_an_entry_arrives(takers: Callable[[str], Taker]) -> None:
    first = takers("first").goes_on()
    late = takers("late").goes_on(Put)
    second, third = takers("second").goes_on(), takers("third").goes_on()
    first.leaves()
    assert second.goes_on().has
    second.leaves()
    assert third.goes_on().has
    assert not late.goes_on().has
    third.leaves()
    assert late.goes_on().has


def test_nobody_goes_behind_who_has_seen_its_entry(takers: Callable[[str], Taker]) -> None:
    first = takers("first").goes_on()
    second = takers("second").goes_on(Put).goes_on(List)
    third = takers("third").goes_on()
    second.goes_on()
    first.leaves()
    assert not third.goes_on().has
    assert second.goes_on().has


def stopped(takers: Callable[[str], Taker], clock: Clock, at: type) -> list[Taker]:
    """Let a second one stop at a request for a minute, while a first, a third and a fourth live."""
    found = [takers(who).goes_on() for who in ("first", "second", "third", "fourth")]
    first, second, third, fourth = found
    if at is not Pause:
        clock.now += 16
        second.goes_on(at)
    for _ in range(62):
        clock.now += 1
        first.beats()
        third.goes_on()
        fourth.goes_on()
    first.leaves()
    assert third.goes_on().has
    return found


@pytest.mark.parametrize("at", [Pause, Put])
def test_who_was_stopped_for_long_comes_back_behind_those_who_came_meanwhile(
    takers: Callable[[str], Taker], clock: Clock, at: type
) -> None:
    _, second, third, fourth = stopped(takers, clock, at)
    assert not second.goes_on().has
    third.leaves()
    assert not second.goes_on().has
    assert fourth.goes_on().has


def names(store: Store, folder: str) -> list[str]:
    return [each.name for each in sorted(perform(List(folder), store).entries)]


def test_of_two_entries_of_one_waiter_the_later_is_its_place(memory: Ground, clock: Clock) -> None:
    """As two replicas write them that have not seen each other's."""
    store, folder = memory.mount().mount.store, memory.name(TABLE)
    asker, other = Asker(folder, "a", "main"), Asker(folder, "b", "main")
    creation = Creation("token", "a", folder)
    one, another = Slots(clock), Slots(clock)
    drive.run(one.wait(asker, None, [], creation), store, 30.0)
    seen = drive.run(one.listed(folder), store, 30.0)
    drive.run(another.wait(other, None, seen, creation), store, 30.0)
    _, of_other = drive.run(one.listed(folder), store, 30.0)
    drive.run(another.wait(asker, None, [of_other], creation), store, 30.0)
    assert len(names(store, folder)) == 3
    drive.run(one.listed(folder, asker), store, 30.0)
    assert names(store, folder)[0] == of_other.name
    assert len(names(store, folder)) == 2
    drive.run(one.leave(asker, creation), store, 30.0)
    assert names(store, folder) == [of_other.name]


def test_what_was_left_by_who_may_not_remove_it_is_nobody_s_place(
    memory: Ground, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, folder = memory.mount().mount.store, memory.name(TABLE)
    asker, creation = Asker(folder, "a", "main"), Creation("token", "a", folder)

    def refused(*_: Any) -> Any:
        raise PermissionError(errno.EACCES, "s3:DeleteObject")

    monkeypatch.setattr(slots, "removed", refused)
    for queues in (Slots(clock), Slots(clock)):
        seen = drive.run(queues.listed(folder, asker), store, 30.0)
        drive.run(queues.wait(asker, None, seen, creation), store, 30.0)
        drive.run(queues.leave(asker, creation), store, 30.0)
    assert len(names(store, folder)) == 2


def test_who_may_not_delete_hears_it_once_and_tries_again_after_ten_minutes(
    memory: Ground, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store, folder, queues = memory.mount().mount.store, memory.name(TABLE), Slots(clock)

    def comes_and_goes(who: str) -> int:
        """Take a slot and leave it; return how often something was to be removed."""
        asker, creation, tries = Asker(folder, who, ""), Creation(who, who, folder), 0
        for protocol in (queues.take(asker, None, creation), queues.leave(asker, creation)):
            answer: Any = None
            with suppress(StopIteration):
                while True:
                    request = protocol.send(answer)
                    is_delete = isinstance(request, Delete)
                    tries += is_delete
                    denied = Refused(PermissionError(errno.EACCES, "s3:DeleteObject"))
                    answer = denied if is_delete else perform(request, store)
        return tries

    tries = []
    for number in range(12):
        tries.append(comes_and_goes(str(number)))
        clock.now += 61
    assert tries == [1, *[0] * 9, 1, 0]
    (warning,) = caplog.messages
    assert folder in warning
    assert "run `putifabsent fsck --repair`" in warning


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
        fs.mount.run(Slots().listed(str(entry.parent), Asker(str(entry.parent), "b", "")))
        assert entry.exists()


def test_of_many_who_come_at_once_each_reads_one_entry_before_it_goes_behind(memory: Ground) -> None:
    store, folder = memory.mount().mount.store, memory.name(TABLE)

    takes = [Slots().take(Asker(folder, each, ""), None, Creation(each, each, folder)) for each in "abcdefgh"]
    answers: list[Any] = [None] * len(takes)
    for kind in (List, Put, List, Get):
        requests = [take.send(answer) for take, answer in zip(takes, answers, strict=True)]
        assert {type(each) for each in requests} == {kind}
        answers = [perform(each, store) for each in requests]
    requests = [take.send(answer) for take, answer in zip(takes, answers, strict=True)]
    assert [type(each) for each in requests].count(Delete) == len(takes) - 1


def test_who_has_many_before_it_reads_no_more_entries_than_its_pauses_grow_by(memory: Ground) -> None:
    store, folder = memory.mount().mount.store, memory.name(TABLE)
    reads = []
    for who in "abcdefghi":
        take = Slots().take(Asker(folder, who, ""), None, Creation(who, who, folder))
        reads.append(0)
        answer: Any = None
        with suppress(StopIteration):
            while not isinstance(request := take.send(answer), Pause):
                reads[-1] += isinstance(request, Get)
                answer = perform(request, store)
    assert reads == [0, 1, 2, 3, 4, 5, 6, 6, 6]


def test_who_has_others_before_it_looks_once_more_at_its_deadline(takers: Callable[[str], Taker]) -> None:
    assert takers("first").goes_on().has
    assert takers("second").goes_on().request.cut


def test_who_has_become_the_next_asks_often_again(memory: Ground) -> None:
    """And who has many before it asks seldom."""
    store, queues, folder = memory.mount().mount.store, Slots(), memory.name(TABLE)

    def creation(who: str) -> Creation:
        return Creation(who, who, folder)

    def takes(who: str) -> Iterator[int]:
        """Take a place; give each pause that is made while others are before."""
        take = queues.take(Asker(folder, who, ""), None, creation(who))
        answer: Any = None
        with suppress(StopIteration):
            while True:
                request = take.send(answer)
                if isinstance(request, Pause):
                    yield request.attempt
                answer = True if isinstance(request, Pause) else perform(request, store)

    waiting = [takes(str(number)) for number in range(9)]
    assert [next(each, 0) for each in waiting] == [0, 1, 2, 3, 4, 5, 6, 6, 6]
    assert [next(waiting[2]) for _ in range(7)] == [2, 3, 4, 5, 6, 6, 6]
    drive.run(queues.leave(Asker(folder, "0", ""), creation("0")), store, 30.0)
    assert [next(waiting[2]) for _ in range(7)] == [1, 2, 3, 4, 4, 4, 4]


def test_a_sign_of_life_that_is_under_way_is_not_there_after_the_end(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_WRITTEN_EACH", 0.01)
    fs, table = memory.mount(), memory.name(TABLE)
    run, begun, ended = fs.mount.run, threading.Event(), threading.Event()

    def slowly(*args: Any, beside: bool = False, **options: Any) -> Any:
        if beside:
            begun.set()
            time.sleep(0.2)
        try:
            return run(*args, beside=beside, **options)
        finally:
            if beside:
                ended.set()

    monkeypatch.setattr(fs.mount, "run", slowly)
    with fs.slot(table):
        assert begun.wait(30)
    assert ended.wait(30)
    assert entries(memory, fs, table) == []


def test_a_holder_whose_entry_was_removed_while_it_was_paused_has_its_place_again(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_WRITTEN_EACH", 0.01)
    fs, table = memory.mount(), memory.name(TABLE)
    with fs.slot(table):
        first = entries(memory, fs, table)
        memory.around.rm(first[0])
        while not entries(memory, fs, table):
            time.sleep(0.01)
        assert entries(memory, fs, table) == first
    assert entries(memory, fs, table) == []


def test_an_entry_that_was_refused_is_tried_again_at_the_next_call() -> None:
    queues, asker = Slots(), Asker("t/slots", "a", "")
    for _ in range(2):
        waits = queues.wait(asker, None, [], Creation("token", "a", "t"))
        assert isinstance(next(waits), Put)
        with pytest.raises(PermissionError):
            waits.send(Refused(PermissionError("read only")))


def test_a_place_is_kept_when_it_can_t_be_written_anew(clock: Clock) -> None:
    queues, asker = Slots(clock), Asker("t/slots", "a", "")
    creation = Creation("token", "a", "t")
    place = next(queues.wait(asker, None, [], creation))
    assert isinstance(place, Put)
    clock.now += 16
    waits = queues.wait(asker, None, [], creation)
    assert isinstance(next(waits), Put)
    with pytest.raises(OSError, match="no space"):
        waits.send(Refused(OSError(errno.ENOSPC, "no space")))
    assert next(queues.leave(asker, creation)) == Delete(place.name)


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


def test_a_slot_is_held_for_as_long_as_its_holder_lives(
    memory: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "LIFELESS", 0.4)
    monkeypatch.setattr(slots, "_WRITTEN_EACH", 0.05)
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
