"""The commit, what publishes it and what takes it back: each answer, and exactly the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.base import Created, InMemory, Maybe, Refused, TryAgain
from putifabsent.errors import Fenced, NameTaken, OutcomeUnknown, PutIfAbsentError
from putifabsent.shim.ledger import calls, completion
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.book import Lane
from putifabsent.shim.ledger.records import Open
from tests.shim.ledger_judges import shown
from tests.shim.ledger_runs import APPLIED, LOST, Run, completed_name, creation, kinds, undo
from tests.shim.ledger_tables import ROOT, SMALL, STATE, TIMELINE, completed

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.shim.ledger.book import Ledger

ONE = Open("1", "A", "o1")
TWO = Open("2", "B", "o2")
FIRST = completed("1", "first")(session="A")
NO_RIGHTS = Refused(PermissionError("403"))
SHOWN = "timeline/1_19.commit"


def opens(instant: str, session: str, token: str) -> Any:
    return lambda state: Open(instant, session, token) if instant not in state.open else None


def test_a_completion_is_five_requests_and_one_more_where_another_s_is_before_it() -> None:
    run = Run(ONE, TWO, Open("3", "B", "o3"))
    ledger = run.session("B")
    path = "timeline/2_29.commit"
    alone = ["put bodies/2~c.0", f"head {path}", "create 4", "list ledger", f"publish {path}"]
    assert run.completes(ledger, "2", "c") == Created("c")
    assert run.asked == alone
    run.completes(ledger, "3", "d")
    assert len(run.asked) == 5
    run.play(append(run.session("A"), opens("4", "A", "o4"), creation("o4")))
    other = run.session("A")
    run.completes(other, "1", "e")
    assert run.asked[2] == "head timeline/3_39.commit"
    assert len(run.asked) == 6


def test_a_commit_that_runs_twice_at_once_has_one_body_for_all_and_an_undo_leaves_no_other_to_copy() -> None:
    run = Run(ONE)
    first, second = run.session("A"), run.session("A")
    second.lane = Lane("another")
    path = f"{TIMELINE}/1_19.commit"

    def completing(ledger: Ledger, first_try: int) -> Any:
        own = creation("c")._replace(first_try=first_try)
        return completion.complete(ledger, path, "1", InMemory(b"c"), own, turn=None, largest_publish=SMALL)

    run.fails("create 2", None, lambda: run.play_aside(completing(first, 1)))
    assert run.play(completing(second, 2)) == Created("c")
    assert second.state == run.session("A").state
    made = run.play(undo(second, "1", creation("u")))
    run.play(completion.remove(second, path, "1", made))
    # Whoever has read the record before copies this one, however late.
    assert ".hoodie/.putifabsent/bodies/1~c.1" not in run.things()


def test_what_a_dead_writer_has_completed_is_published_before_the_next() -> None:
    run = Run(ONE, TWO, FIRST)
    run.state = frozenset(each for each in run.state if "/timeline/" not in each[0])
    run.completes(run.session("B"), "2", "c")
    properties = ["get hoodie.properties", "get hoodie.properties.backup", "get hoodie.properties"]
    expected = ["head timeline/1_19.commit", *properties, "publish timeline/1_19.commit", "create 4"]
    assert run.asked[2:8] == expected
    assert run.things()[".hoodie/timeline/1_19.commit"].data == b"first"


def test_another_object_in_its_place_does_not_pass_for_what_a_dead_writer_has_completed() -> None:
    run = Run(ONE, TWO, FIRST)
    run.put(completed_name("1"), "another")
    run.completes(run.session("B"), "2", "c")
    assert run.asked[2:5] == ["head timeline/1_19.commit", "publish timeline/1_19.commit", "create 4"]
    assert run.things()[".hoodie/timeline/1_19.commit"].data == b"first"


def test_the_body_of_an_unanswered_put_is_put_under_another_key() -> None:
    run = Run(ONE)
    run.fails("put bodies/1~c.0", Maybe(LOST))
    run.completes(run.session("A"), "1", "c")
    assert [each for each in run.asked if each.startswith("put")] == ["put bodies/1~c.0", "put bodies/1~c.1"]


def test_a_plain_name_that_went_round_the_shim_is_taken() -> None:
    run = Run(ONE)
    run.put(completed_name("1"), "other")
    with pytest.raises(NameTaken) as caught:
        run.completes(run.session("A"), "1", "c")
    assert caught.value.holder is not None
    assert caught.value.holder.token == "other"
    assert kinds(run) == ["OPEN"]
    assert ".hoodie/.putifabsent/bodies/1~c.0" not in run.things()


def test_an_instant_is_completed_once() -> None:
    run = Run(ONE, FIRST)
    with pytest.raises(NameTaken) as caught:
        run.play(_completes_again(run.session("A")))
    assert caught.value.holder is not None
    assert caught.value.holder.token == "first"
    with pytest.raises(Fenced, match="completed by session A"):
        run.play(_completes_again(run.session("B")))


def _completes_again(ledger: Any) -> Any:
    path, body = f"{TIMELINE}/1_20.commit", InMemory(b"again")
    return completion.complete(ledger, path, "1", body, creation("again"), turn=None, largest_publish=99)


def test_what_the_store_can_not_copy_is_refused_at_once() -> None:
    run = Run(ONE)
    body = InMemory(bytes(100))
    protocol = completion.complete(
        run.session("A"), completed_name("1"), "1", body, creation("c"), turn=None, largest_publish=99
    )
    with pytest.raises(OSError, match="copies no more than 99 bytes"):
        run.play(protocol)
    assert run.asked == []


def test_no_answer_to_the_record_is_unknown_by_the_plain_name_and_resolved_by_it() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    run.fails("create 2", APPLIED)
    run.patience = 0
    with pytest.raises(OutcomeUnknown) as caught:
        run.completes(ledger, "1", "c")
    assert (caught.value.name, caught.value.token) == (completed_name("1"), "c")
    assert ".hoodie/.putifabsent/bodies/1~c.0" in run.things()
    holder = run.play(completion.resolve(run.session("X"), completed_name("1"), creation("c")))
    assert holder.token == "c"
    with pytest.raises(NameTaken):
        run.play(completion.resolve(run.session("X"), completed_name("1"), creation("other")))
    assert run.play(completion.resolve(run.session("X"), completed_name("7"), creation("c"))) is None


def test_a_completion_whose_record_is_forgotten_is_resolved_by_its_copy() -> None:
    run = Run(ONE)
    run.put(completed_name("0"), "c")
    ledger = run.session("A")
    holder = run.play(completion.resolve(ledger, completed_name("0"), creation("c")))
    assert holder.token == "c"
    with pytest.raises(NameTaken):
        run.play(completion.resolve(ledger, completed_name("0"), creation("other")))


def test_a_completion_that_can_not_be_published_in_time_is_won_all_the_same() -> None:
    run = Run(ONE)
    run.fails("publish timeline/1_19.commit", Maybe(LOST))
    run.patience = 0
    assert run.completes(run.session("A"), "1", "c") == Created()
    reader = run.session("L")
    assert shown(reader, TIMELINE, []) == [completed_name("1")]
    key = calls.view(reader, TIMELINE).late[completed_name("1")]
    assert run.things()[key.removeprefix(f"{ROOT.removesuffix('.hoodie')}")].data == b"c"
    run.play(completion.settle(reader, creation("s")))
    assert run.things()[".hoodie/timeline/1_19.commit"].data == b"c"


def test_a_completion_that_the_store_refuses_to_publish_is_unknown() -> None:
    run = Run(ONE)
    run.fails("publish timeline/1_19.commit", NO_RIGHTS)
    with pytest.raises(OutcomeUnknown, match="can't be published"):
        run.completes(run.session("A"), "1", "c")


def test_what_goes_wrong_after_the_record_is_unknown_whatever_it_is() -> None:
    run = Run(ONE, republishes=False)
    path = completed_name("1")
    run.fails("publish timeline/1_19.commit", None, first=lambda: run.put(path, "somebody"))
    ledger = run.session("A")
    run.fails("head timeline/1_19.commit", None)
    run.fails("head timeline/1_19.commit", NO_RIGHTS)
    with pytest.raises(OutcomeUnknown, match="it is completed, and then there was PermissionError"):
        run.completes(ledger, "1", "c")


@pytest.mark.parametrize("step", ["create 2", "list ledger", "publish timeline/1_19.commit"])
def test_an_interruption_once_the_record_was_sent_carries_the_plain_name_and_the_token(step: str) -> None:
    run = Run(ONE)
    ledger = run.session("A")
    run.fails(step, None, first=_interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        run.completes(ledger, "1", "c")
    unknown = caught.value.__cause__
    assert isinstance(unknown, OutcomeUnknown)
    assert (unknown.name, unknown.token) == (completed_name("1"), "c")
    assert ".hoodie/.putifabsent/bodies/1~c.0" in run.things()


def test_an_interruption_before_the_record_was_sent_is_just_one() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    run.fails("put bodies/1~c.0", None, first=_interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        run.completes(ledger, "1", "c")
    assert caught.value.__cause__ is None


def _interrupted() -> None:
    raise KeyboardInterrupt


def test_a_refused_body_completes_nothing() -> None:
    run = Run(ONE)
    run.fails("put bodies/1~c.0", NO_RIGHTS)
    with pytest.raises(PermissionError, match="403"):
        run.completes(run.session("A"), "1", "c")
    assert kinds(run) == ["OPEN"]


@pytest.mark.parametrize("seen", [NO_RIGHTS, TryAgain(LOST)], ids=["refused", "lost"])
def test_a_plain_name_that_can_not_be_looked_at_completes_nothing(seen: Any) -> None:
    run = Run(ONE)
    run.fails("head timeline/1_19.commit", seen)
    run.fails("head timeline/1_19.commit", NO_RIGHTS)
    with pytest.raises(PermissionError, match="403"):
        run.completes(run.session("A"), "1", "c")
    assert kinds(run) == ["OPEN"]
    assert ".hoodie/.putifabsent/bodies/1~c.0" not in run.things()


def test_a_disk_that_has_an_undone_life_under_the_name_makes_way() -> None:
    run = Run(ONE, FIRST, republishes=False)
    ledger = run.session("A")
    undone = run.play(undo(ledger, "1", creation("u")))
    assert undone is not None
    run.play(append(ledger, lambda _: Open("1", "A", "o"), creation("o")))
    assert run.completes(ledger, "1", "c") == Created("c")
    path = "timeline/1_19.commit"
    assert run.asked[-5:] == [f"publish {path}", f"head {path}", f"delete {path}", "pause", f"publish {path}"]


def test_on_a_disk_what_is_not_the_ledger_s_does_not_make_way() -> None:
    run = Run(ONE, republishes=False)
    path = completed_name("1")
    run.fails("publish timeline/1_19.commit", None, first=lambda: run.put(path, "somebody"))
    with pytest.raises(OutcomeUnknown, match="move that file away"):
        run.completes(run.session("A"), "1", "c")


def test_what_is_undone_is_not_shown_and_not_published_again() -> None:
    run = Run(ONE, FIRST)
    ledger = run.session("A")
    made = run.play(undo(ledger, "1", creation("u")))
    assert run.asked == ["create 3", "list ledger"]
    names = [completed_name("1")]
    assert shown(run.session("L"), TIMELINE, names) == []
    run.play(completion.remove(ledger, completed_name("1"), "1", made))
    assert run.asked == [
        "delete bodies/1~first.0",
        "head timeline/1_19.commit",
        "delete timeline/1_19.commit",
    ]
    run.play(completion.settle(run.session("X"), creation("s")))
    assert ".hoodie/timeline/1_19.commit" not in run.things()
    assert run.play(undo(ledger, "1", creation("v"))) == made
    assert kinds(run) == ["OPEN", "COMPLETE", "UNDO"]


def test_removing_an_earlier_life_spares_a_later_one_under_the_same_name() -> None:
    run = Run(ONE, FIRST)
    ledger = run.session("A")
    earlier = run.play(undo(ledger, "1", creation("u")))
    run.play(append(ledger, lambda _: Open("1", "A", "o"), creation("o")))
    run.completes(ledger, "1", "c")
    run.play(completion.remove(ledger, completed_name("1"), "1", earlier))
    assert run.things()[".hoodie/timeline/1_19.commit"].data == b"c"


def test_the_ledger_can_be_read_again_after_a_busy_moment() -> None:
    run = Run(ONE)
    run.fails("list ledger", TryAgain(LOST))
    run.fails("get 1", TryAgain(LOST))
    assert run.session("A").state.number == 1


def test_names_in_records_go_with_a_table_that_is_moved() -> None:
    run = Run(ONE)
    ledger = run.session("A")
    assert (ledger.root, ledger.folder) == (ROOT, f"{STATE}/ledger")
    run.completes(ledger, "1", "c")
    [made] = run.session("X").state.completions.values()
    assert (made.name, made.body) == ("timeline/1_19.commit", ".putifabsent/bodies/1~c.0")


@pytest.mark.parametrize(
    ("found", "lacks"),
    [
        ({"1", "2", "3", "4"}, False),
        ({"2", "3", "4"}, False),  # archived
        ({"1", "3", "4"}, True),  # it was published between two pages
        ({"1", "2", "3"}, True),
        (set(), True),
    ],
)
def test_what_was_listed_before_the_ledger_was_read_may_lack_a_name(found: set[str], lacks: bool) -> None:
    view = calls.View("t", {"4": "body"}, ("1", "2", "3"), frozenset(), frozenset())
    assert view.lacks(found) == lacks


def completes_as_it_is_removed(then: Callable[[Run], None]) -> tuple[Run, Exception]:
    """Remove a table when a completion of ``1`` was just won, and shown by another; return the error."""
    run = Run(ONE)
    owner = run.session("A")

    def meanwhile() -> None:
        run.remove_all()
        run.put(completed_name("1"), "c", b"c")
        then(run)

    run.fails("list ledger", None, first=meanwhile)
    with pytest.raises(PutIfAbsentError) as caught:
        run.completes(owner, "1", "c")
    return run, caught.value


def test_who_hears_that_its_table_was_removed_has_left_nothing_that_others_have_shown() -> None:
    run, error = completes_as_it_is_removed(lambda _: None)
    assert isinstance(error, Fenced)
    assert f".hoodie/{SHOWN}" not in run.things()


def test_what_is_another_s_under_the_name_stays_when_the_table_was_removed() -> None:
    run, error = completes_as_it_is_removed(lambda run: run.put(completed_name("1"), "another"))
    assert isinstance(error, Fenced)
    assert run.things()[f".hoodie/{SHOWN}"].token == "another"


def test_what_others_may_have_shown_and_can_not_be_withdrawn_is_unknown() -> None:
    _, error = completes_as_it_is_removed(lambda run: run.fails(f"head {SHOWN}", NO_RIGHTS))
    assert isinstance(error, OutcomeUnknown)
    assert (error.name, error.token) == (completed_name("1"), "c")
    assert "can't be withdrawn" in error.reason
