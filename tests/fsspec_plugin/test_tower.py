"""Who begins a commit waits while another writes the same."""

from __future__ import annotations

import errno
import json
import uuid
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent import Fenced
from putifabsent.fsspec_plugin import telemetry
from putifabsent.fsspec_plugin.queues import Queues
from putifabsent.fsspec_plugin.remote import Remote
from putifabsent.fsspec_plugin.tower import Begins
from putifabsent.shim.formats.hudi_sets import NEWCOMER, OWN
from tests.fsspec_plugin.grounds import ground_of
from tests.fsspec_plugin.hudi_tables import table_in
from tests.fsspec_plugin.tower_drivers import (
    COMMIT,
    INSERT,
    NEAR,
    ON_EACH,
    Clock,
    Driver,
    F,
    G,
    another_replica,
    known,
    plan_of_clustering,
    stats,
)

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground


@pytest.fixture(params=NEAR)
def ground(request: pytest.FixtureRequest) -> Ground:
    return ground_of(request)


@ON_EACH
def test_who_would_write_the_same_waits_until_the_other_has_completed(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    waits = b.asks()
    assert waits.turn is None
    assert waits.behind == "300 of session a"
    a.completes("300", (F,), upon="1")
    b.begins("400", (F,))


def test_what_was_declared_is_kept_no_longer_than_its_instant_is_open(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    declared = b.writer.fs.guard.rules.tower._declared
    for instant in ("300", "400", "500"):
        a.begins(instant, (F,))
        assert b.asks().behind == f"{instant} of session a"
        assert len(declared) == 1
        a.completes(instant, (F,), upon="1")
        turn = b.asks().turn
        assert turn is not None
        b.remote.release_turn(b.root, turn)
    assert len(declared) == 0


def test_what_was_written_is_kept_for_as_long_as_it_tells_what_is_next(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    written = b.writer.fs.guard.rules.tower._written
    for instant in range(300, 320):
        a.begins(str(instant), (F,))
        assert b.asks().behind == f"{instant} of session a"
        a.completes(str(instant), (F,), upon="1")
        turn = b.asks().turn
        assert turn is not None
        b.remote.release_turn(b.root, turn)
    assert len(written) <= OWN + NEWCOMER


def test_for_how_long_somebody_waited_is_measured_once_when_it_goes_on(
    drivers: list[Driver], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(telemetry, "is_loaded", lambda: True)
    monkeypatch.setattr(telemetry, "instruments", lambda: SimpleNamespace(wait=lambda _, s: waits.append(s)))
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    for _ in range(3):
        assert b.asks().turn is None
        clock.now += 20
        a.beats("300")
    a.completes("300", (F,), upon="1")
    assert waits == []
    b.begins("400", (F,))
    assert waits == [60]


def test_who_writes_something_else_goes_on(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    known(a, b)
    a.begins("300", (F,))
    b.begins("400", (G,))
    a.completes("300")
    b.completes("400")


def test_what_is_not_declared_yet_is_guessed_by_what_the_session_has_written(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b)
    c.commits("250", (F,))
    a.writer.fs.pipe_file(a.writer.requested("300"), b"")
    a.beats("300")
    b.begins("350", (G,))
    assert c.asks().behind == "300 of session a"
    a.writer.fs.pipe_file(a.writer.inflight("300"), stats(("another",), 0))
    c.begins("400", (F,))


def test_of_whom_nothing_is_known_the_tables_last_commits_tell(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b)
    a.begins("300", (F,))
    assert c.asks().behind == "300 of session a"


def test_what_is_declared_is_read_where_the_table_has_it_since_its_upgrade(drivers: list[Driver]) -> None:
    a, b, c = drivers
    for last in ("090.commit.requested", "090.inflight", "090.commit"):
        a.writer.fs.pipe_file(f"{a.root}/.hoodie/{last}", b"{}" if last.endswith("t") else b"")
    known(a, b)
    c.commits("250", (F,))
    a.begins("300", ("another",))
    c.begins("400", (F,))


def test_who_deletes_partitions_may_delete_any(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    known(a, b)
    turn = a.asks().turn
    assert turn is not None
    a.beats("300")
    a.writer.fs.pipe_file(a.writer.requested("300", "replacecommit"), b"")
    a.remote.release_turn(a.root, turn)
    said = {"operationType": "DELETE_PARTITION", "partitionToWriteStats": {}}
    inflight = a.writer.requested("300", "replacecommit").replace("requested", "inflight")
    a.writer.fs.pipe_file(inflight, json.dumps(said).encode())
    assert b.asks().behind == "300 of session a"


def beside_another(a: Driver, b: Driver, c: Driver) -> None:
    """Have one begin a commit that goes on with what another has begun to write, which nobody could know."""
    known(a, b)
    for instant in ("210", "220", "230", "240"):
        b.commits(instant, (G,))
    a.begins("300", (F,))
    c.begins("350", (F, G))


@ON_EACH
def test_who_was_refused_is_expected_to_try_the_same_again(drivers: list[Driver]) -> None:
    a, b, c = drivers
    beside_another(a, b, c)
    c.gives_up("350")
    assert c.asks().behind == "300 of session a"
    another_replica(b, c)
    assert c.asks().behind == "300 of session a"
    assert b.asks().behind == "session c, which came before"
    a.completes("300", (F,), upon="1")
    c.begins("400", (F, G))
    c.completes("400", (F, G), upon="1")


def test_nor_is_it_forgotten_when_others_roll_that_back(drivers: list[Driver]) -> None:
    a, b, c = drivers
    beside_another(a, b, c)
    c.meets_another("350")
    b.writer.plans_rollback("360", "350")
    b.writer.fs.rm_file(b.writer.inflight("350"))
    assert c.asks().behind == "300 of session a"


def test_what_is_completed_costs_no_look_at_what_it_was_to_be(
    drivers: list[Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _, _ = drivers
    read = gets_of(a, monkeypatch)
    a.begins("100", (F,))
    turn = a.asks(None).turn
    assert turn is not None
    with a.remote.in_turn(a.writer.completed("100"), turn):
        a.completes("100", (F,))
    a.remote.release_turn(a.root, turn)
    assert [name for name in read if name.endswith(".inflight")] == []


def test_what_was_tried_tells_no_more_than_what_was_written_since(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b)
    c.begins("250", (F, G))
    c.gives_up("250")
    a.begins("300", (F,))
    assert c.asks().behind == "300 of session a"
    a.completes("300", (F,), upon="1")
    for instant in ("310", "320"):
        c.commits(instant, (G,))
    a.begins("400", (F,))
    c.begins("410", (G,))


def test_on_a_table_that_has_no_commit_one_goes_first(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    a.begins("100", inserts=1)
    assert b.asks().behind == "100 of session a"


def test_who_inserts_into_small_files_waits_for_others_who_do(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    for driver, instant in zip((a, b), ("100", "200"), strict=True):
        driver.begins(instant, inserts=1)
        driver.completes(instant, (F,), inserts=1, upon="1")
    a.begins("300", inserts=1)
    assert b.asks().behind == "300 of session a"


def test_who_begins_a_file_group_with_each_insert_waits_for_nobody(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    for n, driver in enumerate((a, b, a, b), start=1):
        driver.begins(f"{n}00", inserts=1)
        driver.completes(f"{n}00", (f"{n}{F}",), inserts=1)
    a.begins("500", inserts=1)
    b.begins("600", inserts=1)


@ON_EACH
def test_nobody_waits_for_who_is_dead(drivers: list[Driver], clock: Clock) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    waits(b, clock, 110)
    a.beats("300")
    waits(b, clock, 120)
    clock.now += 1
    assert b.asks().turn is not None


def waits(driver: Driver, clock: Clock, seconds: int) -> None:
    """Ask each ten seconds, and always in vain."""
    assert driver.asks().turn is None
    for _ in range(seconds // 10):
        clock.now += 10
        assert driver.asks().turn is None


def test_who_stood_still_with_its_watcher_is_not_taken_for_dead(drivers: list[Driver], clock: Clock) -> None:
    """As drivers and service do whose machine is paused: Hudi's heartbeat comes soon after they go on."""
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    waits(b, clock, 50)
    clock.now += 600
    waits(b, clock, 50)
    a.beats("300")
    waits(b, clock, 50)
    a.completes("300", (F,), upon="1")
    b.begins("400", (F,))


def test_who_looks_rarely_takes_the_dead_for_dead_nevertheless(drivers: list[Driver], clock: Clock) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    for _ in range(9):
        assert b.asks().turn is None
        clock.now += 600
    assert b.asks().turn is not None


@ON_EACH
def test_nor_for_who_has_given_up_or_was_rolled_back(drivers: list[Driver], ground: Ground) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    a.gives_up("300")
    b.begins("400", (F,))
    b.writer.plans_rollback("410", "400")
    c.begins("500", (F,))


def test_what_was_archived_is_asked_for_once(drivers: list[Driver], monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    for number in range(210, 220):
        a.commits(str(number), (F,))
    for number in range(210, 220):
        a.writer.fs.rm_file(a.writer.completed(str(number)))
    b.begins("300", (F,))
    read = gets_of(a, monkeypatch)
    polls = []
    for _ in range(2):
        read.clear()
        assert a.asks().turn is None
        polls.append(len(read))
    assert polls[0] >= 10
    assert polls[1] <= 1


def gets_of(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the files that are read from now on."""
    read: list[str] = []
    store = type(driver.writer.fs.backend)
    get = store.get

    def noted(store: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        read.append(name)
        return get(store, name, *args, **kwargs)

    monkeypatch.setattr(store, "get", noted)
    return read


def test_a_commit_where_nobody_else_writes_costs_one_listing_more(
    drivers: list[Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    sent: Counter[str] = Counter()
    store = type(a.writer.fs.backend)
    for kind in ("create", "head", "get", "list", "walk", "delete", "put", "publish"):
        call = getattr(store, kind)

        def counted(*args: Any, kind: str = kind, call: Any = call, **options: Any) -> Any:
            sent[kind] += 1
            return call(*args, **options)

        monkeypatch.setattr(store, kind, counted)
    tower, costs = a.writer.fs.guard.rules.tower, []
    a.commits("300", (F,))  # the first one sees what the other has written
    for instant, has in (("400", tower), ("500", None), ("600", tower)):
        a.writer.fs.guard.rules.tower = has
        sent.clear()
        a.commits(instant, (F,))
        costs.append(dict(sent))
    assert costs[0] == costs[2] == {**costs[1], "list": costs[1]["list"] + 1}


CLUSTERING = Begins(clusters=True, commits=2)


def test_a_clustering_is_planned_while_nobody_writes(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b)
    a.begins("300", (F,))
    assert b.asks(CLUSTERING).behind == "300 of session a"
    assert c.asks().behind == "300 of session a"  # and not for who clusters, who may want anything
    a.completes("300", (F,), upon="1")
    turn = b.asks(CLUSTERING).turn
    assert turn is not None
    b.remote.release_turn(b.root, turn)


def test_nobody_waits_to_plan_a_clustering_that_is_not_due(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    known(a, b)
    a.begins("300", (F,))
    turn = b.asks(Begins(clusters=True, commits=3)).turn
    assert turn is not None
    b.remote.release_turn(b.root, turn)
    b.writer.fs.pipe_file(b.writer.requested("400", "clustering"), plan_of_clustering(G))
    turn = b.asks(CLUSTERING).turn  # none was completed since that one was begun
    assert turn is not None


@pytest.mark.parametrize("action", ["clustering", "replacecommit"])  # since table version 8, and before
def test_who_would_write_what_is_being_clustered_waits_for_a_while(
    drivers: list[Driver], clock: Clock, action: str
) -> None:
    a, b, c = drivers
    known(a, b)
    requested = c.writer.requested("300", action)
    c.writer.fs.pipe_file(requested, plan_of_clustering(F))
    a.begins("350", (F,))  # who knows when it is performed
    a.completes("350", (F,), upon="1")
    c.writer.fs.pipe_file(requested.replace("requested", "inflight"), b"")
    b.begins("400", (G,))
    assert a.asks().behind == "300 of session c"
    waits(a, clock, 120)  # it has no heartbeat
    clock.now += 1
    b.beats("400")
    assert a.asks().turn is not None


def test_the_plan_of_a_clustering_that_nobody_performs_is_not_read(
    drivers: list[Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names all file groups that it replaces."""
    a, b, c = drivers
    known(a, b)
    requested = c.writer.requested("300", "clustering")
    c.writer.fs.pipe_file(requested, plan_of_clustering(F))
    read = gets_of(a, monkeypatch)
    a.begins("400", (F,))
    assert requested not in read


def test_who_commits_while_it_clusters_has_not_given_that_up(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b)
    requested = c.writer.requested("300", "clustering")
    c.writer.fs.pipe_file(requested, plan_of_clustering(F))
    c.writer.fs.pipe_file(requested.replace("requested", "inflight"), b"")
    c.commits("310", (G,))
    assert a.asks().behind == "300 of session c"


def test_nobody_waits_for_who_has_given_up_replacing_partitions(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    requested = a.writer.requested("300", "replacecommit")
    a.writer.fs.pipe_file(requested, b"")
    a.writer.fs.pipe_file(requested.replace("requested", "inflight"), stats((F,), 0))
    b.begins("400", (F,))


def test_the_same_call_again_has_the_same_turn_whatever_is_in_the_way(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    token = str(uuid.uuid4())
    mine = b.remote.take_turn(b.root, token, thread="main", lease=600.0, begins=Begins())
    assert mine.turn is not None
    assert b.remote.take_turn(b.root, token, thread="main", lease=600.0, begins=Begins()) == mine


def test_other_turns_wait_for_no_commit(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    taken = b.remote.take_turn(b.root, str(uuid.uuid4()), thread="main", lease=600.0)
    assert taken.turn is not None
    b.remote.release_turn(b.root, taken.turn)


@ON_EACH
def test_what_can_t_be_read_stops_nobody_for_good(drivers: list[Driver], ground: Ground) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    ground.around.makedirs(f"{a.root}/.hoodie/.putifabsent/slots", exist_ok=True)
    ground.write(f"{a.root}/.hoodie/.putifabsent/slots/0000000001~torn", b"{")
    ground.write(f"{a.root}/.hoodie/.putifabsent/slots/another", b"{}")
    a.begins("300", (F,))
    ground.write(a.writer.inflight("300"), b"torn")
    assert b.asks().behind == "300 of session a"
    a.completes("300", (F,), upon="1")
    b.begins("400", (F,))


def test_of_whom_nothing_is_known_does_not_wait_for_long(drivers: list[Driver], clock: Clock) -> None:
    a, b, c = drivers
    known(a, b)
    a.begins("300", (F,))
    for _ in range(5):
        assert c.asks().turn is None
        clock.now += 30
        a.beats("300")
    assert c.asks().turn is not None


def test_nobody_waits_for_long_for_who_writes_and_never_says_what(
    drivers: list[Driver], clock: Clock
) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    a.writer.fs.pipe_file(a.writer.requested("300"), b"")
    for _ in range(9):  # it may be finding out what it is going to write
        a.beats("300")
        assert b.asks().behind == "300 of session a"
        clock.now += 30
    a.beats("300")
    a.writer.fs.pipe_file(a.writer.inflight("300"), b"")
    b.commits("400", (F,))
    b.commits("500", (F,))


def test_who_has_given_up_waiting_waits_anew(drivers: list[Driver], clock: Clock) -> None:
    a, b, c = drivers
    known(a, b)
    a.begins("300", (F,))
    for _ in range(4):
        assert c.asks().turn is None
        clock.now += 61
        a.beats("300")


def test_nobody_waits_for_what_its_session_has_given_up(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))  # and goes on with its heartbeat
    assert b.asks().turn is None
    a.commits("400", (F,))
    b.begins("500", (F,))


@pytest.mark.parametrize(
    "said", [b'{"partitionToWriteStats": []}', b'{"partitionToWriteStats": {"dt=1": [null]}}']
)
def test_what_is_said_in_another_shape_stops_nobody(
    said: bytes, drivers: list[Driver], ground: Ground
) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    ground.write(a.writer.inflight("300"), said)
    assert b.asks().turn is not None


def test_whoever_may_not_look_waits_for_nobody(
    drivers: list[Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))

    def refused(*_: Any) -> Any:
        raise PermissionError(errno.EACCES, "s3:ListBucket")

    monkeypatch.setattr(Queues, "listed", refused)
    assert b.asks().turn is not None


@ON_EACH
def test_it_decides_nothing(drivers: list[Driver]) -> None:
    """Whoever was let pass by a wrong guess, or a tower that lies, is refused as ever."""
    a, b, _ = drivers
    known(a, b)
    a.begins("300", (F,))
    b.begins("400", (F,))  # it was expected to write G
    a.remote.take_turn(a.root, str(uuid.uuid4()), thread="main", lease=600.0)
    with pytest.raises(Fenced, match="session a has turn"):
        b.completes("400")


def test_it_is_there_for_those_who_ask_for_it(ground: Ground, root: str, clock: Clock) -> None:
    ground.around.makedirs(f"{root}/.hoodie/.heartbeat", exist_ok=True)
    a = Driver(ground, root, "a", clock)
    a.begins("100")
    b = ground.mount(writer_session="b", tower=False)
    turn = Remote(b).take_turn(root, str(uuid.uuid4()), thread="main", lease=600.0, begins=INSERT)
    assert turn.turn is not None


@pytest.mark.parametrize(
    ("begins", "waits"), [(INSERT, True), (COMMIT, False), (Begins(clusters=True), False)]
)
def test_unless_it_is_said_only_inserts_wait(
    begins: Begins, waits: bool, memory: Ground, clock: Clock
) -> None:
    root = table_in(memory)
    memory.around.makedirs(f"{root}/.hoodie/.heartbeat", exist_ok=True)
    a = Driver(memory, root, "a", clock)
    a.begins("100")
    b = Remote(memory.mount(writer_session="b"))
    taken = b.take_turn(root, str(uuid.uuid4()), thread="main", lease=600.0, begins=begins)
    assert (taken.turn is None) is waits
