"""Every schedule of a few sessions at one table's ledger: none breaks a promise, no line can be left out."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from putifabsent.shim.ledger.facts import State
from putifabsent.testing.explore import Faults, wander
from tests.shim.ledger_judges import Judge
from tests.shim.ledger_mutants import MUTANTS
from tests.shim.ledger_scenarios import (
    A_TURN,
    B_TURN,
    LONG,
    MIDDLE,
    PRUNER,
    READER,
    RESTORE,
    SHORT,
    TAKER,
    THREE,
)
from tests.shim.ledger_tables import NAME
from tests.shim.ledgers import Mutant, Process, Scenario, play
from tests.shim.schedules import AT_RANDOM, MOST, SEEDS

if TYPE_CHECKING:
    from tests.conftest import Note

pytestmark = pytest.mark.exhaustive

BY_NAME = {scenario.name: scenario for scenario in (*SHORT, *MIDDLE)}


@pytest.mark.parametrize("scenario", SHORT, ids=str)
def test_no_schedule_breaks_a_promise(scenario: Scenario, note: Note) -> None:
    found = play(scenario)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete
    assert found.states > 100


@pytest.mark.proof
@pytest.mark.parametrize("scenario", MIDDLE, ids=str)
def test_no_longer_schedule_breaks_a_promise(scenario: Scenario, note: Note) -> None:
    found = play(scenario)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete


@pytest.mark.proof
@pytest.mark.parametrize("scenario", LONG, ids=str)
def test_no_schedule_of_many_breaks_a_promise(scenario: Scenario, note: Note) -> None:
    found = play(scenario, most=MOST)
    note(found)
    assert found.violation is None, found.violation


def at_random(schedules: int, seed: int) -> int:
    everything = Scenario(
        "everything",
        (
            A_TURN,
            B_TURN,
            Process("commit", "3", "C", warm=1),
            TAKER,
            RESTORE,
            Process("rollback", "2", "R"),
            PRUNER,
            READER,
        ),
        Faults(lost=3, late=2, crashes=2, pauses=4),
        THREE,
        every=4,
    )
    judge = Judge(NAME, State(every=everything.every))
    found = wander(
        everything.actors(),
        everything.world(),
        judge,
        everything.faults,
        random=Random(seed),
        schedules=schedules,
    )
    assert found.violation is None, f"seed {seed}:\n{found.violation}"
    return found.states


def test_no_schedule_at_random_does() -> None:
    assert at_random(6, seed=1) > 400


@pytest.mark.proof
@SEEDS
def test_no_schedule_of_many_at_random_does(seed: int, note: Note) -> None:
    # They are longer than those of one name.
    schedules = AT_RANDOM // 10
    note(f"{at_random(schedules, seed):,} states of {schedules:,} schedules")


DEEP = ("a turn of the next life passes", "an instant that was rolled back and begun anew goes back")
"""How mutants' names begin that are found out after some minutes."""


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(each, id=str(each), marks=pytest.mark.proof if each.name.startswith(DEEP) else ())
        for each in MUTANTS
    ],
)
def test_a_schedule_finds_out_each_mutant(mutant: Mutant) -> None:
    assert play(BY_NAME[mutant.scenario], mutant.protocols()).violation


def test_names_differ() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({scenario.name for scenario in (*SHORT, *MIDDLE, *LONG)}) == len(SHORT + MIDDLE + LONG)
