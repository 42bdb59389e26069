"""Every schedule of a few sessions at a ledger over an arbiter breaks no promise; no line can be left out."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.shim.composed import Mutant, Scenario, play, play_at_random
from tests.shim.composed_mutants import MUTANTS
from tests.shim.composed_scenarios import EVERYTHING, LONG, SHORT
from tests.shim.schedules import AT_RANDOM, MOST, SEEDS

if TYPE_CHECKING:
    from tests.conftest import Note

pytestmark = pytest.mark.exhaustive

BY_NAME = {str(scenario): scenario for scenario in (*SHORT, *LONG)}


@pytest.mark.parametrize("scenario", SHORT, ids=str)
def test_no_schedule_breaks_a_promise(scenario: Scenario, note: Note) -> None:
    found = play(scenario)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete
    assert found.states > 100


@pytest.mark.proof
@pytest.mark.parametrize("scenario", LONG, ids=str)
def test_no_schedule_of_many_breaks_a_promise(scenario: Scenario, note: Note) -> None:
    found = play(scenario, most=MOST)
    note(found)
    assert found.violation is None, found.violation


def at_random(scenario: Scenario, schedules: int, seed: int) -> int:
    found = play_at_random(scenario, random=Random(seed), schedules=schedules)
    assert found.violation is None, f"seed {seed}:\n{found.violation}"
    return found.states


@pytest.mark.parametrize("scenario", EVERYTHING[2:4], ids=str)
def test_no_schedule_at_random_does(scenario: Scenario) -> None:
    assert at_random(scenario, 1, seed=1) > 100


@pytest.mark.proof
@pytest.mark.parametrize("scenario", EVERYTHING, ids=str)
@SEEDS
def test_no_schedule_of_many_at_random_does(scenario: Scenario, seed: int, note: Note) -> None:
    schedules = AT_RANDOM // 40
    note(f"{at_random(scenario, schedules, seed):,} states of {schedules:,} schedules")


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_schedule_finds_out_each_mutant(mutant: Mutant) -> None:
    assert play(BY_NAME[mutant.scenario], mutant.protocols()).violation


def test_names_differ() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({str(scenario) for scenario in (*SHORT, *LONG)}) == len(SHORT) + len(LONG)
