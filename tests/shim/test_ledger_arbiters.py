"""A ledger over an arbiter that is not the store: what goes round the shim, and who died, leave no doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.ballot_state import folder_of
from putifabsent.shim.ledger.appending import append
from putifabsent.shim.ledger.book import Lane, Ledger, prune
from putifabsent.shim.ledger.facts import State
from putifabsent.shim.ledger.records import Open
from putifabsent.shim.requests import List, Publish
from putifabsent.testing.explore import Faults
from tests.shim.composed import LEDGER_FOLDER, MARKER, REAL_FAMILY, TABLE, Scenario
from tests.shim.ledger_judges import alone
from tests.shim.ledger_runs import creation
from tests.shim.ledger_tables import NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.shim.requests import Protocol
    from tests.shim.composed import Decides

BEFORE = (Open("1", "A", "o1"), Open("2", "A", "o2"))
EVERY = 4


class Run:
    """A table whose ledger an arbiter decides about, with two records."""

    def __init__(self, by: Decides) -> None:
        self.world = Scenario("", by, (), Faults(), BEFORE, EVERY).world()
        self.state: Any = self.world.initial
        self.arbiter = REAL_FAMILY.arbiter_of(by)
        self.meanwhile: Callable[[], None] | None = None
        self.keys = ""

    def session(self, name: str) -> Ledger:
        """Return what a session knows, who has read the ledger."""
        ledger = Ledger(NAME, name, self.arbiter, Lane(f"lane-{name}"), state=State(every=EVERY))
        self.play(ledger.current(creation("reading")))
        return ledger

    def play(self, protocol: Protocol[Any]) -> Any:
        """Run a protocol to its end."""
        returned, _ = alone(protocol, self, None)
        return returned

    def apply(self, _: Any, request: Any) -> tuple[Any, Any]:
        """Apply a request; before the one that shows whether a record is won, have something happen."""
        is_accepted = any(name.startswith(f"{self.keys}/A~") for name, _ in self.state)
        looks = isinstance(request, List) and request.folder == self.keys and is_accepted
        if self.meanwhile is not None and (looks or isinstance(request, Publish)):
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        self.state, outcome = self.world.apply(self.state, request)
        return None, outcome

    def happens_after_the_vote(self, ledger: Ledger, number: int, what: Callable[[], None]) -> None:
        """Have something happen when a record may be decided, and its writer does not know yet."""
        self.keys, self.meanwhile = folder_of(ledger.record(number)), what

    def lose(self, gone: Callable[[str], bool]) -> None:
        """Remove objects, round the shim."""
        self.state = frozenset(each for each in self.state if not gone(each[0]))


@pytest.fixture(params=["ballot", "claims"])
def run(request: pytest.FixtureRequest) -> Run:
    return Run(request.param)


def opens(instant: str, session: str) -> Callable[[State], Open | None]:
    record = Open(instant, session, f"o{instant}")
    return lambda state: None if instant in state.open else record


def test_whose_table_is_removed_while_a_record_is_decided_begins_again_in_the_next_life(run: Run) -> None:
    ledger = run.session("B")
    before = ledger.state.life
    run.happens_after_the_vote(ledger, 3, lambda: run.lose(lambda name: name.startswith(TABLE)))
    assert run.play(append(ledger, opens("3", "B"), creation("o3"))) == 1
    assert ledger.state.life != before
    assert set(run.session("C").state.open) == {"3"}


def test_whose_record_is_forgotten_behind_a_checkpoint_is_told_by_that_whether_it_counts(run: Run) -> None:
    ledger, other = run.session("B"), run.session("C")

    def pass_by() -> None:
        assert run.play(append(other, opens("4", "C"), creation("o4"))) == 5
        for number in (1, 2, 3):
            run.play(run.arbiter.forget(ledger.record(number), creation("pruning")))

    run.happens_after_the_vote(ledger, 3, pass_by)
    assert run.play(append(ledger, opens("3", "B"), creation("o3"))) == 3
    assert set(run.session("D").state.open) == {"1", "2", "3", "4"}


def test_while_its_life_goes_on_what_is_unknown_of_a_record_stays_so() -> None:
    run = Run("ballot")
    ledger = run.session("B")
    run.happens_after_the_vote(ledger, 3, lambda: run.lose(lambda name: name.startswith(f"{run.keys}/")))
    with pytest.raises(OutcomeUnknown, match="ballots were removed"):
        run.play(append(ledger, opens("3", "B"), creation("o3")))


def test_a_life_whose_marker_is_decided_and_hidden_goes_on(run: Run) -> None:
    # By a slow deletion of the one before; or somebody removes the table, and begins with what all can see.
    run.lose(lambda name: name == MARKER.path)
    ledger = run.session("B")
    assert set(ledger.state.open) == {"1", "2"}
    assert run.play(append(ledger, opens("3", "B"), creation("o3"))) == 3


def test_a_ledger_whose_folder_was_emptied_round_the_shim_goes_on_as_one(run: Run) -> None:
    idle = run.session("A")
    for instant in ("3", "4", "5"):
        run.play(append(idle, opens(instant, "A"), creation(f"o{instant}")))
    run.play(prune(idle, creation("pruning")))
    run.lose(lambda name: name.startswith(f"{LEDGER_FOLDER}/"))
    comer = run.session("B")
    assert comer.state == idle.state
    assert run.play(append(comer, opens("6", "B"), creation("o6"))) == 7
    assert run.play(append(idle, opens("7", "A"), creation("o7"))) == 9
    assert set(run.session("C").state.open) == {"1", "2", "3", "4", "5", "6", "7"}


def test_nobody_brings_back_the_marker_of_a_table_that_is_being_removed(run: Run) -> None:
    run.lose(lambda name: name == MARKER.path)
    ledger = run.session("B")
    run.play(append(ledger, opens("3", "B"), creation("o3")))
    assert MARKER.path not in dict(run.state)
