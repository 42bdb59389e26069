"""The queue of those who want to write, request by request: each has one place, and one at a time goes on."""

from __future__ import annotations

import errno
import random
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import count, product
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.base import Creation, Entry, Listed, Refused
from putifabsent.backends.memory import MemoryStore
from putifabsent.fsspec_plugin import queues
from putifabsent.fsspec_plugin.queues import Asker, Queues, Watch
from putifabsent.shim import drive
from putifabsent.shim.formats.hudi_sets import Part
from putifabsent.shim.requests import Delete, Get, List, Pause, Put, StoreTime, perform
from tests.fsspec_plugin.tower_drivers import F, G, another_replica, known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from putifabsent.backends.base import Body, PutOutcome, Store
    from tests.fsspec_plugin.grounds import Ground
    from tests.fsspec_plugin.tower_drivers import Clock, Driver

TABLE = "table"
EPOCH = datetime(2026, 1, 1, tzinfo=timezone.utc)


def test_of_two_who_come_at_once_one_has_it(memory: Ground) -> None:
    """Whatever the order of their requests."""
    store, queues = memory.mount().mount.store, Queues()

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


class TimedStore(MemoryStore):
    """Objects in memory, whose times are those of our clock."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        super().__init__(store.fs)
        self._clock = clock

    def put(self, name: str, body: Body, creation: Creation) -> PutOutcome:
        outcome = super().put(name, body, creation)
        self.fs.store[name].created = EPOCH + timedelta(seconds=self._clock.now)
        return outcome


class Taker:
    """Somebody who takes a slot, request by request, beside others of its process."""

    def __init__(
        self, store: Store, folder: str, who: str, clock: Clock, *, beside: Taker | None = None
    ) -> None:
        self.asker, self.creation = Asker(folder, who, ""), Creation(who, who, folder)
        self.queues: Queues = Queues(clock) if beside is None else beside.queues
        self.has = False
        self.waited: float | None = None
        self._store = store
        self._steps = self.queues.take(self.asker, None, self.creation)
        self.request: Any = next(self._steps)

    def goes_on(self, kind: type = Pause) -> Taker:
        """Go on to the next request of a kind, or to the end."""
        while not self.has:
            self.steps()
            if isinstance(self.request, kind):
                break
        return self

    def steps(self) -> None:
        """Have one request performed."""
        is_pause = isinstance(self.request, Pause)
        try:
            self.request = self._steps.send(True if is_pause else perform(self.request, self._store))
        except StopIteration as end:
            self.has, self.waited = not end.value.behind, end.value.seconds

    def beats(self) -> None:
        """Show that it lives while it has the slot."""
        drive.run(self.queues.wait(self.asker, None, [], self.creation), self._store, 30.0)

    def leaves(self) -> None:
        self.has = False
        drive.run(self.queues.leave(self.asker, self.creation), self._store, 30.0)


@pytest.fixture
def takers(memory: Ground, clock: Clock) -> Callable[..., Taker]:
    store = memory.mount().mount.store
    return partial(Taker, TimedStore(store, clock), memory.name(TABLE), clock=clock)


def test_of_two_one_has_it_however_late_an_entry_arrives(takers: Callable[..., Taker]) -> None:
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


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_order_of_their_requests_no_two_of_many_have_it(
    takers: Callable[..., Taker], seed: int
) -> None:
    draw = random.Random(seed)
    newcomers = (takers(f"{number}") for number in count())
    there = [next(newcomers) for _ in range(3)]
    for _ in range(300):
        # Some are slow.
        which = min(int(draw.expovariate(2.0)), 2)
        if not there[which].has:
            there[which].steps()
        elif draw.random() < 0.5:
            there[which].leaves()
            there[which] = next(newcomers)
        assert sum(each.has for each in there) <= 1


def test_nobody_goes_behind_who_has_seen_its_entry(takers: Callable[..., Taker]) -> None:
    first = takers("first").goes_on()
    second = takers("second").goes_on(Put).goes_on(List)
    third = takers("third").goes_on()
    second.goes_on()
    first.leaves()
    assert not third.goes_on().has
    assert second.goes_on().has


def stopped(takers: Callable[..., Taker], clock: Clock, at: type) -> list[Taker]:
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
    takers: Callable[..., Taker], clock: Clock, at: type
) -> None:
    _, second, third, fourth = stopped(takers, clock, at)
    assert not second.goes_on().has
    third.leaves()
    assert not second.goes_on().has
    assert fourth.goes_on().has


@pytest.mark.parametrize("seconds", [50.0, 61.0, 130.0, 86_400.0])
@pytest.mark.parametrize("at", [Pause, Put])
def test_those_who_stood_still_together_keep_their_order(
    takers: Callable[..., Taker], clock: Clock, at: type, seconds: float
) -> None:
    """The last of them asks first when they go on, and for seconds alone."""
    first, second, third = (takers(who).goes_on() for who in ("first", "second", "third"))
    clock.now += 16
    first.beats()
    second.goes_on()
    third.goes_on(at)
    clock.now += seconds
    for _ in range(16):
        assert not third.goes_on().has
        clock.now += 0.5
    first.beats()
    assert not second.goes_on().has
    for _ in range(200):
        assert not third.goes_on().has
        clock.now += 0.5
        first.beats()
        second.goes_on()
    first.leaves()
    if at is Pause:
        assert not third.goes_on().has
    assert second.goes_on().has


def test_who_comes_as_its_process_goes_on_is_behind_those_who_stood_still_in_it(
    takers: Callable[..., Taker], clock: Clock
) -> None:
    first = takers("first").goes_on()
    second = takers("second", beside=first).goes_on()
    clock.now += 130
    third = takers("third", beside=first).goes_on()
    first.beats()
    second.goes_on()
    first.leaves()
    assert not third.goes_on().has
    assert second.goes_on().has


def test_those_who_stood_still_together_keep_their_order_though_their_service_went_on(
    takers: Callable[..., Taker], clock: Clock, memory: Ground
) -> None:
    first = takers("first").goes_on()
    second = takers("second", beside=first).goes_on()
    another = Taker(memory.mount().mount.store, memory.name("another"), "another", clock, beside=first)
    another.goes_on()
    for _ in range(13):
        clock.now += 10
        drive.run(first.queues.listed(another.asker.folder), memory.mount().mount.store, 30.0)
    for _ in range(8):
        assert not second.goes_on().has
        clock.now += 0.5
    first.beats()
    clock.now += 20
    assert not second.goes_on().has


def names(store: Store, folder: str) -> list[str]:
    return [each.name for each in sorted(perform(List(folder), store).entries)]


def test_of_two_entries_of_one_waiter_the_later_is_its_place(memory: Ground, clock: Clock) -> None:
    """As two replicas write them that have not seen each other's."""
    store, folder = memory.mount().mount.store, memory.name(TABLE)
    asker, other = Asker(folder, "a", "main"), Asker(folder, "b", "main")
    creation = Creation("token", "a", folder)
    one, another = Queues(clock), Queues(clock)
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

    monkeypatch.setattr(queues, "removed", refused)
    for each in (Queues(clock), Queues(clock)):
        seen = drive.run(each.listed(folder, asker), store, 30.0)
        drive.run(each.wait(asker, None, seen, creation), store, 30.0)
        drive.run(each.leave(asker, creation), store, 30.0)
    assert len(names(store, folder)) == 2


def test_who_may_not_delete_hears_it_once_and_tries_again_after_ten_minutes(
    memory: Ground, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store, folder, queues = memory.mount().mount.store, memory.name(TABLE), Queues(clock)

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


def test_of_many_who_come_at_once_each_reads_one_entry_before_it_goes_behind(memory: Ground) -> None:
    store, folder = memory.mount().mount.store, memory.name(TABLE)

    takes = [
        Queues().take(Asker(folder, each, ""), None, Creation(each, each, folder)) for each in "abcdefgh"
    ]
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
        take = Queues().take(Asker(folder, who, ""), None, Creation(who, who, folder))
        reads.append(0)
        answer: Any = None
        with suppress(StopIteration):
            while not isinstance(request := take.send(answer), Pause):
                reads[-1] += isinstance(request, Get)
                answer = perform(request, store)
    assert reads == [0, 1, 2, 3, 4, 5, 6, 6, 6]


def test_who_has_others_before_it_looks_once_more_at_its_deadline(takers: Callable[..., Taker]) -> None:
    assert takers("first").goes_on().has
    assert takers("second").goes_on().request.cut


def test_who_waits_says_so_after_5_s_and_then_each_minute(
    takers: Callable[[str], Taker], clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = takers("first").goes_on(), takers("second").goes_on()
    said = []
    for now in range(1, 130):
        clock.now = now
        first.beats()
        second.goes_on()
        said += [(now, each) for each in caplog.messages]
        caplog.clear()
    assert [now for now, _ in said] == [5, 65, 125]
    assert said[1][1].startswith("second has waited 65 s in ")
    assert said[1][1].endswith(f"/{TABLE}: for session first")
    first.leaves()
    assert second.goes_on().has
    assert caplog.messages == []
    assert (first.waited, second.waited) == (None, 129)


def test_of_each_place_the_last_entry_is_remembered(takers: Callable[[str], Taker], clock: Clock) -> None:
    """Each may name a thousand file groups."""
    first, second = takers("first").goes_on(), takers("second").goes_on()
    for now in range(1, 200, 16):
        clock.now = now
        first.beats()
        second.goes_on()
    assert not second.has
    assert len(second.queues._waiters) <= 2


def test_what_is_looked_at_is_remembered_however_much_comes_and_goes_beside_it(clock: Clock) -> None:
    """A clustering that nobody goes on with may be pending for a thousand commits, and is waited for once."""
    watch = Watch(clock)
    for commit in range(2000):
        clock.now = commit
        watch.unchanged(f"commit {commit}", None)
        seconds = watch.unchanged("a clustering", None)
    assert seconds == 1999


def test_who_has_become_the_next_asks_often_again(memory: Ground) -> None:
    """And who has many before it asks seldom."""
    store, queues, folder = memory.mount().mount.store, Queues(), memory.name(TABLE)

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


def test_whoever_only_looks_goes_by_the_time_of_the_store_where_that_tells_it() -> None:
    """By the entries' own times the only one lives, however old it is, and none beside one that is ahead."""
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def seen(*seconds: float) -> list[int]:
        entries = [Entry(f"t/slots/{n}~x", now + timedelta(seconds=each)) for n, each in enumerate(seconds)]
        look, answer = Queues().listed("t/slots"), None
        while True:
            try:
                request = look.send(answer)
            except StopIteration as end:
                return [entries.index(each) for each in end.value]
            answer = now if isinstance(request, StoreTime) else Listed(tuple(entries))

    assert seen() == []
    assert seen(-600) == []
    assert seen(-10, 600, -5) == [0, 2]


def test_an_entry_has_no_more_than_some_kilobytes_however_much_is_to_be_written() -> None:
    """It is written anew four times a minute, and read by all who wait."""
    wide = {f"dt={day}": Part(frozenset({F, G})) for day in range(5000)}
    put = next(Queues().wait(Asker("t/slots", "a", ""), wide, [], Creation("token", "a", "t")))
    assert isinstance(put, Put)
    assert len(put.body.whole()) < 100_000


def test_an_entry_that_was_refused_is_tried_again_at_the_next_call() -> None:
    queues, asker = Queues(), Asker("t/slots", "a", "")
    for _ in range(2):
        waits = queues.wait(asker, None, [], Creation("token", "a", "t"))
        assert isinstance(next(waits), Put)
        with pytest.raises(PermissionError):
            waits.send(Refused(PermissionError("read only")))


def test_a_place_is_kept_when_it_can_t_be_written_anew(clock: Clock) -> None:
    queues, asker = Queues(clock), Asker("t/slots", "a", "")
    creation = Creation("token", "a", "t")
    place = next(queues.wait(asker, None, [], creation))
    assert isinstance(place, Put)
    clock.now += 16
    waits = queues.wait(asker, None, [], creation)
    assert isinstance(next(waits), Put)
    with pytest.raises(OSError, match="no space"):
        waits.send(Refused(OSError(errno.ENOSPC, "no space")))
    assert next(queues.leave(asker, creation)) == Delete(place.name)


def test_a_waiter_has_one_place_whichever_replica_it_asks(drivers: list[Driver], ground: Ground) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    c.commits("250", (F,))
    a.begins("300", (F,))
    for _ in range(3):
        assert b.asks().turn is None
        another_replica(b)
    assert c.asks().turn is None
    assert len(ground.around.find(f"{a.root}/.hoodie/.putifabsent/slots")) == 2
    a.completes("300", (F,), upon="1")
    b.commits("400", (F,))  # by a replica that has never written its entry
    c.begins("500", (F,))


def test_those_who_wait_keep_their_order_when_the_service_is_started_again(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    c.commits("250", (F,))
    a.begins("300", (F,))
    assert (b.asks().turn, c.asks().turn) == (None, None)
    another_replica(b, c)
    a.completes("300", (F,), upon="1")
    assert c.asks().behind == "session b, which came before"
    b.begins("400", (F,))


def test_what_another_replica_has_removed_is_no_place_any_more(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    c.commits("250", (F,))
    a.begins("300", (F,))
    assert b.asks().turn is None
    first = b.writer.fs.guard.rules.tower
    another_replica(b)
    a.completes("300", (F,), upon="1")
    b.begins("400", (F,))
    assert c.asks().turn is None
    b.completes("400", (F,), upon="1")
    b.writer.fs.guard.rules.tower = first
    assert b.asks().behind == "session c, which came before"
