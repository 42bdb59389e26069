"""Those who wait to begin a commit go in the order in which they came."""

from __future__ import annotations

import errno
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.fsspec_plugin import queues, tower
from tests.fsspec_plugin.grounds import ground_of
from tests.fsspec_plugin.hudi_tables import table_in
from tests.fsspec_plugin.tower_drivers import (
    NEAR,
    ON_EACH,
    Clock,
    Driver,
    F,
    G,
    another_replica,
    known,
    plan_of_clustering,
)

if TYPE_CHECKING:
    from tests.fsspec_plugin.grounds import Ground


@pytest.fixture(params=NEAR)
def ground(request: pytest.FixtureRequest) -> Ground:
    return ground_of(request)


@ON_EACH
def test_those_who_wait_go_in_the_order_in_which_they_came(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    assert b.asks().turn is None
    assert c.asks().turn is None
    a.completes("300", (F,), upon="1")
    assert c.asks().behind == "session b, which came before"
    assert a.asks().behind is not None
    b.commits("400", (F,))
    c.begins("500", (F,))


def test_who_has_several_before_it_rests_before_it_looks_again(
    drivers: list[Driver], clock: Clock, monkeypatch: pytest.MonkeyPatch, nobody_rests: float
) -> None:
    monkeypatch.setattr(tower, "_LONGEST_REST", nobody_rests)
    a, b, c = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    b.asks(), c.asks()  # by what the mount has read: only the queue
    said = [b.asks(), c.asks()]
    looks: list[object] = []
    for driver in (b, c):
        mount = driver.writer.fs.mount

        def run(*args: Any, of: Any = mount.run, **kwargs: Any) -> Any:
            looks.append(of)
            return of(*args, **kwargs)

        monkeypatch.setattr(mount, "run", run)
    assert c.asks() == said[1]
    assert looks == []
    assert b.asks() == said[0]  # the next one
    assert looks != []
    looks.clear()
    clock.now += 1
    assert c.asks() == said[1]
    assert looks != []


def test_nobody_overtakes_while_a_turn_changes_hands(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    c.commits("250", (F,))
    a.begins("300", (F,))
    assert (b.asks().turn, c.asks().turn) == (None, None)
    taken = a.remote.take_turn(a.root, str(uuid.uuid4()), thread="main", lease=600.0)
    assert taken.turn is not None
    with a.remote.in_turn(a.writer.completed("300"), taken.turn):
        a.completes("300", (F,), upon="1")
    assert c.asks().turn is None  # the turn is held, and nothing is open any more
    a.remote.release_turn(a.root, taken.turn)
    assert c.asks().behind == "session b, which came before"
    b.begins("400", (F,))


def test_what_nobody_waits_for_lets_nobody_overtake(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    c.commits("250", (F,))
    c.writer.fs.pipe_file(c.writer.requested("260", "compaction"), b"")
    a.begins("300", (F,))
    assert (b.asks().turn, c.asks().turn) == (None, None)
    a.completes("300", (F,), upon="1")
    assert c.asks().behind == "session b, which came before"


def test_who_is_in_nobodys_way_passes_those_who_wait(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b)
    c.commits("300", (F,))
    a.begins("400", (F,))
    assert c.asks().turn is None
    b.begins("500", (G,))


def test_a_wide_write_is_not_kept_waiting_by_narrow_ones(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b)
    c.commits("250", (F, G))
    a.begins("300", (F,))
    assert c.asks().turn is None
    assert b.asks().behind == "session c, which came before"
    a.completes("300", (F,), upon="1")
    assert a.asks().turn is None
    c.begins("400", (F, G))


@ON_EACH
def test_whoever_waits_no_more_is_passed_over(drivers: list[Driver], clock: Clock, ground: Ground) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    assert b.asks().turn is None
    assert c.asks().turn is None
    a.completes("300", (F,), upon="1")
    for _ in range(6):
        clock.now += 10
        assert c.asks().turn is None
    clock.now += 1
    # Seen by c for too long as it was.
    assert c.asks().turn is not None
    assert not ground.around.find(f"{a.root}/.hoodie/.putifabsent/slots")


def test_who_waits_for_the_dead_waits_anew_for_no_longer_when_the_service_is_started_again(
    drivers: list[Driver], clock: Clock
) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    assert b.asks().turn is None
    clock.now += 119
    another_replica(b)
    for _ in range(9):
        assert b.asks().turn is None
        clock.now += 15
    assert b.asks().turn is not None


@ON_EACH
def test_whoever_goes_on_waiting_keeps_its_place(drivers: list[Driver], clock: Clock) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    c.commits("250", (F,))
    a.begins("300", (F,))
    for _ in range(10):
        assert b.asks().turn is None
        assert c.asks().turn is None
        clock.now += 20
        a.beats("300")
    a.completes("300", (F,), upon="1")
    assert c.asks().behind == "session b, which came before"


def test_nobody_waits_behind_those_who_wait_for_it(drivers: list[Driver]) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    assert b.asks().turn is None
    a.begins("400", (F,))


def test_who_begins_each_commit_while_the_last_is_open_lets_those_who_came_before_pass(
    drivers: list[Driver],
) -> None:
    a, b, c = drivers
    known(a, b)
    c.commits("250", (F, G))
    a.begins("300", (F,))
    assert c.asks().turn is None
    another_replica(c)
    assert c.asks().turn is None
    a.begins("400", (F,))  # c may wait for what is open
    a.completes("300", (F,), upon="1")
    assert a.asks().behind == "session c, which came before"
    a.completes("400", (F,), upon="1")
    c.begins("500", (F, G))


def test_who_has_planned_a_clustering_overtakes_nobody(drivers: list[Driver]) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    c.commits("250", (F,))
    a.writer.fs.pipe_file(a.writer.requested("300", "clustering"), plan_of_clustering(G))
    b.begins("350", (F,))
    assert c.asks().turn is None
    b.completes("350", (F,), upon="1")
    assert a.asks().behind == "session c, which came before"
    c.begins("400", (F,))


def test_what_was_given_up_lets_nobody_wait_for_who_waits_for_it_for_long(
    drivers: list[Driver], clock: Clock
) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    c.commits("250", (F,))
    a.begins("300", (F,))
    assert c.asks().turn is None
    a.begins("400", (F,))  # and goes on with its heartbeat
    a.completes("300", (F,), upon="1")
    for _ in range(13):
        assert a.asks().turn is None
        assert c.asks().turn is None
        clock.now += 10
        a.beats("400")
    assert a.asks().turn is not None


@ON_EACH
def test_who_waits_while_the_table_is_removed_and_made_anew_goes_on(
    drivers: list[Driver], ground: Ground
) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    assert (b.asks().turn, c.asks().turn) == (None, None)
    a.writer.fs.rm(a.root, recursive=True)
    table_in(ground)
    ground.around.makedirs(f"{a.root}/.hoodie/.heartbeat", exist_ok=True)
    b.commits("400", (F,))
    c.commits("500", (F,))
    a.commits("600", (F,))
    assert not ground.around.find(f"{a.root}/.hoodie/.putifabsent/slots")


def test_who_takes_the_turn_for_something_else_waits_no_more(drivers: list[Driver], ground: Ground) -> None:
    a, b, _ = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    assert b.asks().turn is None
    assert ground.around.find(f"{a.root}/.hoodie/.putifabsent/slots")
    taken = b.remote.take_turn(b.root, str(uuid.uuid4()), thread="main", lease=600.0)
    assert taken.turn is not None
    assert not ground.around.find(f"{a.root}/.hoodie/.putifabsent/slots")


@ON_EACH
def test_what_somebody_said_in_the_queue_is_expected_until_it_declares_what_it_writes(
    drivers: list[Driver], clock: Clock
) -> None:
    a, b, c = drivers
    known(a, b)
    for instant in ("210", "220", "230", "240"):
        b.commits(instant, (G,))
    c.begins("250", (F, G))
    c.meets_another("250")
    b.writer.plans_rollback("260", "250")
    b.begins("300", (G,))
    assert c.asks().behind == "300 of session b"
    assert a.asks().behind == "session c, which came before"
    b.completes("300", (G,), upon="1")
    turn = c.asks().turn
    assert turn is not None
    c.beats("400")
    c.writer.fs.pipe_file(c.writer.requested("400"), b"")
    c.remote.release_turn(c.root, turn)
    assert a.asks().behind == "400 of session c"
    clock.now += 61
    c.beats("400")
    assert a.asks().turn is not None


def test_what_somebody_said_in_the_queue_does_not_hide_what_it_has_written_since(
    drivers: list[Driver],
) -> None:
    a, b, c = drivers
    known(a, b)
    c.commits("210", (G,))
    c.commits("220", (G,))
    b.begins("300", (G,))
    assert c.asks().behind == "300 of session b"
    a.commits("310", (F,))  # passes c, and sees what that wants
    b.completes("300", (G,), upon="1")
    c.commits("400", (F,))
    turn = c.asks().turn
    assert turn is not None
    c.beats("500")
    c.writer.fs.pipe_file(c.writer.requested("500"), b"")
    c.remote.release_turn(c.root, turn)
    assert a.asks().behind == "500 of session c"


@pytest.mark.parametrize(
    ("said", "waited_for"),
    [
        ({"wants": {"dt=1": [[F], 2]}}, True),  # as before entries said whom they came behind
        ({"wants": {"dt=1": [[G], 0]}, "since": "a later version"}, False),
        ({"wants": {"dt=1": [[G], 7]}}, True),
        ({"wants": {"dt=1": {"groups": [G]}}}, True),
        ({"wants": "a later version's"}, True),
    ],
)
def test_who_waits_in_another_version_is_waited_for_though_it_may_not_be_known_for_what(
    drivers: list[Driver], ground: Ground, said: dict[str, Any], waited_for: bool
) -> None:
    a, b, _ = drivers
    known(a, b)
    queue = f"{a.root}/.hoodie/.putifabsent/slots"
    ground.around.makedirs(queue, exist_ok=True)
    entry = {"session": "another", "thread": "main", **said}
    ground.write(f"{queue}/0000000001~another", json.dumps(entry).encode())
    assert (a.asks().behind == "session another, which came before") is waited_for


@ON_EACH
def test_whoever_may_not_remove_its_entry_says_that_it_waits_no_more(
    drivers: list[Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = drivers
    known(a, b, F, F)
    a.begins("300", (F,))
    assert b.asks().turn is None
    a.completes("300", (F,), upon="1")

    def refused(*_: Any) -> Any:
        raise PermissionError(errno.EACCES, "s3:DeleteObject")

    monkeypatch.setattr(queues, "removed", refused)
    b.commits("400", (F,))
    c.begins("500", (F,))
