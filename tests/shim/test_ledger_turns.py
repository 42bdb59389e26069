"""A table's turn: what it costs, when it ends, and what its holder can't do any more."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.base import Created, Maybe, Refused
from putifabsent.errors import Fenced, OutcomeUnknown
from putifabsent.shim.ledger import turns
from putifabsent.shim.ledger.facts import Held, TurnName
from putifabsent.shim.ledger.records import Open
from tests.shim.ledger_runs import APPLIED, LOST, Run, completed_name, creation, kinds, requested
from tests.shim.ledger_tables import LIFE, completed, no_clock
from tests.shim.ledgers import Mutant

if TYPE_CHECKING:
    from putifabsent.shim.requests import Protocol

ONE = Open("1", "A", "o1")
TWO = Open("2", "B", "o2")
FIRST = completed("1", "first")(session="A")
SECOND = TurnName(LIFE, 2)
NO_RIGHTS = Refused(PermissionError("403"))


def test_a_turn_is_two_requests_to_take_and_two_to_give_back() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    held = run.takes(ledger, "t")
    assert held is not None
    assert (held, run.asked) == (SECOND, ["create 2", "list ledger"])
    assert run.releases(ledger, held)
    assert run.asked == ["create 3", "list ledger"]


def test_a_turn_that_another_has_is_not_had_by_trying() -> None:
    run = Run(ONE)
    run.takes(run.session("A"), "t")
    assert run.takes(run.session("B"), "u") is None
    assert run.asked == ["list ledger", f"get beats/{LIFE}.0000000002"]


def test_who_waits_for_a_turn_looks_but_for_the_next_record() -> None:
    run = Run(ONE)
    holder, waiter = run.session("A"), run.session("B")
    held = run.takes(holder, "t", lease=16.0)
    assert held is not None
    run.takes(waiter, "u")
    for _ in range(3):
        assert run.takes(waiter, "u") is None
        assert run.asked == ["get 3"]
    run.releases(holder, held)
    assert run.takes(waiter, "u") is not None


def test_who_waits_for_a_turn_of_a_removed_table_takes_the_next_one_s_soon() -> None:
    run = Run(ONE)
    run.takes(run.session("A"), "t", lease=16.0)
    waiter = run.session("B")
    run.takes(waiter, "u")
    run.remove_all()
    made = in_another_process(run, "A")
    turn = run.takes(made, "v")
    assert turn is not None
    run.releases(made, turn)
    run.time = 1.0
    assert run.takes(waiter, "u") is None
    run.time = 1.1
    assert run.takes(waiter, "u") is not None


def test_who_begins_reads_once_that_another_has_the_turn() -> None:
    run = Run(ONE)
    run.takes(run.session("A"), "t")
    waiter = run.session("B")
    run.time = 1.0
    assert run.play(begins(waiter, "another")) is None
    run.time = 2.0
    assert run.play(begins(waiter, "another")) is None
    assert run.asked == ["list ledger", f"get beats/{LIFE}.0000000002"]


@pytest.mark.parametrize("looks_at", [0.5, 1.0], ids=["by the next record", "by a listing"])
@pytest.mark.parametrize("opened", [(), (ONE,)], ids=["alone", "beside an instant"])
@pytest.mark.parametrize("is_given_back_after", range(8))
def test_who_begins_has_heard_who_is_in_the_way_of_a_turn_that_is_free(
    is_given_back_after: int, opened: tuple[Open, ...], looks_at: float
) -> None:
    run = Run(*opened)
    holder, waiter = run.session("A"), run.session("B")
    held = run.takes(holder, "t")
    assert held is not None
    assert run.play(begins(waiter, "another")) is None
    run.time = looks_at
    protocol, outcome = begins(waiter, "another"), None
    with suppress(StopIteration):
        for _ in range(is_given_back_after):
            outcome = run._outcome(protocol.send(outcome))
        run.play_aside(turns.release(holder, held, creation("r")))
        assert run.play_on(protocol, outcome) is None
    assert kinds(run).count("TURN") == 1


@pytest.mark.parametrize("opened", [(), (ONE,)], ids=["alone", "beside an instant"])
def test_who_begins_gets_a_turn_that_is_given_back_where_nobody_is_in_the_way(
    opened: tuple[Open, ...],
) -> None:
    run = Run(*opened)
    holder, waiter = run.session("A"), run.session("B")
    held = run.takes(holder, "t")
    assert held is not None
    assert run.play(begins(waiter)) is None
    run.releases(holder, held)
    assert run.play(begins(waiter)) is not None


def begins(ledger: Any, *others: str) -> Protocol[Any]:
    """Take the turn to begin what others are in the way of."""

    def in_the_way(_: Any) -> Protocol[tuple[str, ...]]:
        yield from ()
        return others

    return turns.take(ledger, "main", 10.0, creation("u"), clock=no_clock, waits=False, in_the_way=in_the_way)


def test_who_waits_gets_the_turn_when_it_is_given_back() -> None:
    run = Run(ONE)
    holder, waiter = run.session("A"), run.session("B")
    run.takes(holder, "t")
    protocol = turns.take(waiter, "main", 10.0, creation("u"), clock=no_clock)
    request = next(protocol)
    while type(request).__name__ != "Pause":
        request = protocol.send(run._outcome(request))
    run.releases(holder, SECOND)
    with pytest.raises(StopIteration) as ended:
        _go_on(run, protocol, request)
    assert ended.value.value.number == 4


def _go_on(run: Run, protocol: Any, request: Any) -> None:
    while True:
        request = protocol.send(run._outcome(request))


def test_who_waits_gives_up_at_the_deadline() -> None:
    run = Run(ONE)
    run.takes(run.session("A"), "t", lease=1e9)
    assert run.takes(run.session("B"), "u", waits=True) is None
    assert run.asked.count("pause") == 3


def test_a_turn_without_a_beat_is_broken_after_its_lease_on_the_watcher_s_clock() -> None:
    run = Run(ONE)
    run.takes(run.session("A"), "t", lease=10.0)
    watcher = run.session("B")
    for run.time in (100.0 + number * 1.25 for number in range(9)):
        assert run.takes(watcher, "u") is None
    run.time = 110.5
    assert run.takes(watcher, "u") is not None
    assert kinds(run) == ["OPEN", "TURN", "BREAK", "TURN"]


def test_a_sign_of_life_is_looked_for_now_and_then_and_before_a_turn_is_broken() -> None:
    run = Run(ONE)
    run.takes(run.session("A"), "t", lease=16.0)
    watcher = run.session("B")
    looks = []
    for run.time in (0.0, 0.5, 1.0, 1.5, 2.0, 2.6, 4.5, 6.4, 8.3, 10.2, 12.1, 14.0, 15.9, 16.1):
        run.takes(watcher, "u")
        looks.append(sum(each.startswith("get beats") for each in run.asked))
    assert looks == [1, 0, 0, 1, 0, *[1] * 9]
    assert kinds(run) == ["OPEN", "TURN", "BREAK", "TURN"]


def watches(run: Run, watcher: Any) -> None:
    """Have a session watch a turn, for no more time than its lease of ten seconds; the next look is later."""
    for run.time in (number * 1.25 for number in range(9)):
        assert run.takes(watcher, "u") is None
    run.time = 11.0


@pytest.mark.parametrize("waits", [False, True])
def test_who_hears_nothing_of_its_break_does_not_wait_beyond_the_deadline(waits: bool) -> None:
    run = Run(ONE)
    run.takes(run.session("A"), "t", lease=10.0)
    watcher = run.session("B")
    watches(run, watcher)
    for _ in range(100):
        run.fails("create 3", Maybe(LOST))
    assert run.takes(watcher, "u", waits=waits) is None
    assert len(run.failing) > 80


def test_a_beat_begins_the_watch_anew() -> None:
    run = Run(ONE)
    holder, watcher = run.session("A"), run.session("B")
    run.takes(holder, "t", lease=10.0)
    for run.time in map(float, range(40)):
        assert run.takes(watcher, "u") is None
        if run.time % 8 == 0:
            run.play(turns.beat(holder, SECOND, creation("b"), clock=no_clock))


def test_who_gives_signs_of_life_for_a_turn_that_was_broken_hears_so() -> None:
    run = Run(ONE)
    holder, watcher = run.session("A"), run.session("B")
    run.takes(holder, "t", lease=10.0)
    assert run.play(turns.beat(holder, SECOND, creation("b"), clock=no_clock))
    watches(run, watcher)
    assert run.takes(watcher, "u") is not None
    assert not run.play(turns.beat(holder, SECOND, creation("b"), clock=no_clock))


NEXT = pytest.mark.parametrize(
    "session", ["B", "A"], ids=["another session", "another thread of the session"]
)
"""Whose the turn is that has the same number in the table's next life."""


def after_a_removal(session: str) -> tuple[Run, Any, TurnName]:
    """A session has a turn of a table that was removed; in the next one there is another of that number."""
    run = Run()
    former = run.session("A")
    turn = run.takes(former, "t", lease=10.0)
    assert turn is not None
    run.remove_all()
    run.takes(in_another_process(run, session), "u", lease=10.0)
    return run, former, turn


def in_another_process(run: Run, session: str) -> Any:
    """Return what a session knows that may have other processes, too."""
    ledger = run.session(session, has_read=False)
    ledger.lane.name = "another"
    return ledger


def beats_of_a_removed_table(beat: Any, session: str) -> tuple[bool, bool]:
    """Whether the former holder hears that it has the turn, and whether that keeps the next one's."""
    run, former, turn = after_a_removal(session)
    heard = run.play(beat(former, turn, creation("b"), clock=no_clock))
    return heard, any("/beats/" in name for name in run.things())


@NEXT
def test_a_turn_of_a_removed_table_keeps_nobody_s_of_the_next_one(session: str) -> None:
    assert beats_of_a_removed_table(turns.beat, session) == (False, False)


def test_a_beat_that_looks_at_the_number_and_the_session_is_found_out() -> None:
    mutant = Mutant(
        "another life's turn of the same number",
        "ledger/turns",
        "state.turn_name == turn",
        "held.number == turn.number",
        "the test above",
    )
    assert beats_of_a_removed_table(mutant.protocols().beat, "A") == (True, True)


def test_a_beat_is_its_own_session_s() -> None:
    run = Run(ONE)
    run.takes(run.session("A"), "t")
    assert not run.play(turns.beat(run.session("B"), SECOND, creation("b"), clock=no_clock))
    assert not run.releases(run.session("B"), SECOND)


@NEXT
def test_a_turn_of_a_removed_table_is_not_given_back_in_the_next_one(session: str) -> None:
    run, former, turn = after_a_removal(session)
    assert not run.releases(former, turn)
    assert run.session("X").state.turn == Held(1, session, "main", 10.0)


def test_nothing_is_completed_in_the_next_table_in_a_turn_of_the_one_that_was_removed() -> None:
    run, former, turn = after_a_removal("A")
    run.creates(former, requested("5"), "o5")
    with pytest.raises(Fenced, match="the table was removed since turn 1 was taken"):
        run.creates(former, completed_name("5"), "c5", turn=turn)
    assert not run.session("X").state.completions


def breaks_as_the_table_is_made_anew(takes: Any, session: str) -> tuple[Run, Any]:
    """A watcher would break a turn; the table is removed, and in the next one there is another."""
    run = Run(takes=takes)
    watcher = run.session("B")
    run.takes(run.session("A"), "t", lease=10.0)
    watches(run, watcher)

    def another() -> None:
        run.remove_all()
        next_one = in_another_process(run, session)
        run.play_aside(turns.take(next_one, "main", 10.0, creation("c"), clock=no_clock))

    run.fails("create ledger/lane-A-1.0000000002", None, first=another)
    return run, run.takes(watcher, "u")


@pytest.mark.parametrize("session", ["C", "A"])
def test_a_turn_that_was_not_watched_is_not_broken_in_place_of_a_removed_table_s(session: str) -> None:
    run, got = breaks_as_the_table_is_made_anew(turns.take, session)
    assert got is None
    assert run.session("X").state.turn == Held(1, session, "main", 10.0)


def test_a_watcher_who_breaks_by_the_number_alone_is_found_out() -> None:
    mutant = Mutant(
        "another life's turn of the same number",
        "ledger/turns",
        "state.turn_name != turn",
        "(state.turn and state.turn.number) != turn.number",
        "the test above",
    )
    assert breaks_as_the_table_is_made_anew(mutant.protocols().take, "A")[1] is not None


def watch_with_an_old_clock(takes: Any) -> Any:
    """The holder's clock shows a time long past; the watcher has looked for no time at all."""
    run = Run(ONE, takes=takes)
    holder, watcher = run.session("A"), run.session("B")
    run.takes(holder, "t", lease=10.0)
    run.play(turns.beat(holder, SECOND, creation("b"), clock=no_clock))
    run.time = 5000.0
    return run.takes(watcher, "u") or run.takes(watcher, "u")


def test_the_holder_s_clock_says_nothing() -> None:
    assert watch_with_an_old_clock(turns.take) is None


def test_a_watcher_who_goes_by_the_holder_s_clock_is_found_out() -> None:
    mutant = Mutant(
        "broken by the holder's clock",
        "ledger/turns",
        "silent = watched.silent + min(now - watched.looked, ",
        "silent = now - float(watched.beat or 0) + min(0.0, ",
        "the test above",
    )
    assert watch_with_an_old_clock(mutant.protocols().take) is not None


def test_a_broken_holder_can_not_complete() -> None:
    run = Run(ONE, TWO)
    paused, breaker = run.session("A"), run.session("B")
    assert run.takes(paused, "t", lease=-1.0) is not None
    run.takes(breaker, "u")
    mine = run.takes(breaker, "u")
    assert mine is not None
    assert run.completes(breaker, "2", "theirs", turn=mine) == Created("theirs")
    assert run.releases(breaker, mine)
    with pytest.raises(Fenced, match="names turn 3, and no turn is held"):
        run.completes(paused, "1", "mine", turn=TurnName(LIFE, 3))
    assert not run.releases(paused, TurnName(LIFE, 3), "too-late")


def test_nobody_completes_beside_a_turn() -> None:
    run = Run(ONE, TWO)
    held = run.takes(run.session("A"), "t")
    assert held is not None
    with pytest.raises(Fenced, match="session A has turn 3"):
        run.completes(run.session("B"), "2", "t2")
    with pytest.raises(Fenced, match="the turn of another session"):
        run.completes(run.session("B"), "2", "t3", turn=held)


def test_a_turn_goes_on_after_a_completion() -> None:
    run = Run(ONE, Open("2", "A", "o2"))
    ledger = run.session("A")
    held = run.takes(ledger, "t")
    assert held is not None
    run.completes(ledger, "1", "c1", turn=held)
    run.completes(ledger, "2", "c2", turn=held)
    assert run.releases(ledger, held)


def test_a_turn_that_is_watched_elsewhere_is_still_that_of_who_asks_by_its_token() -> None:
    run = Run()
    turn = run.takes(run.session("A"), "t")
    elsewhere = in_another_process(run, "A")
    assert run.takes(elsewhere, "u") is None
    assert run.takes(elsewhere, "t") == turn


def test_a_turn_whose_taking_had_no_answer_is_asked_for_again_by_its_token() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    run.fails("create 2", APPLIED)
    run.patience = 0
    with pytest.raises(OutcomeUnknown):
        run.takes(ledger, "t")
    run.patience = 3
    held = run.takes(ledger, "t")
    assert held == SECOND
