"""Every schedule of a few processes that claim one name: none breaks a promise, no line can be left out."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from putifabsent.testing.explore import Faults, wander
from tests.shim.claimant_mutants import MUTANTS
from tests.shim.claimants import EXPIRED, LONG, REMOVED, SHORT, STORES, Kind, Mutant, Scenario, explored

if TYPE_CHECKING:
    from tests.conftest import Note

pytestmark = pytest.mark.exhaustive

BY_NAME = {scenario.name: scenario for scenario in (*SHORT, *REMOVED, *EXPIRED)}


@pytest.mark.parametrize("scenario", SHORT, ids=str)
def test_no_schedule_breaks_a_promise(scenario: Scenario, note: Note) -> None:
    found = explored(scenario)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete
    assert found.states > 100


@pytest.mark.parametrize("scenario", REMOVED, ids=str)
def test_no_removal_round_the_shim_has_two_creators_win(scenario: Scenario, note: Note) -> None:
    found = explored(scenario)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete
    assert found.states > 100


@pytest.mark.parametrize("scenario", EXPIRED, ids=str)
def test_a_name_that_goes_for_good_goes_like_any_other(scenario: Scenario, note: Note) -> None:
    found = explored(scenario)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete
    assert found.states > 100


@pytest.mark.proof
@pytest.mark.parametrize("scenario", LONG, ids=str)
def test_no_schedule_of_many_breaks_a_promise(scenario: Scenario, note: Note) -> None:
    found = explored(scenario)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete


@pytest.mark.parametrize("store", STORES)
def test_schedules_at_random_go_deeper_and_a_seed_plays_them_again(store: Kind) -> None:
    deep = Scenario("deep", "cdcx cldc r", Faults(lost=3, late=2, crashes=2, pauses=4), store)
    actors = deep.actors()
    found = [
        wander(actors, deep.world(), deep.judge(actors), deep.faults, random=Random(7), schedules=200)
        for _ in range(2)
    ]
    assert found[0].violation is None, found[0].violation
    assert found[0] == found[1]
    assert found[0].states > 5000


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_schedule_finds_out_each_mutant(mutant: Mutant) -> None:
    assert explored(BY_NAME[mutant.scenario], mutant.protocols()).violation


def test_a_registry_that_forgets_the_dead_is_found_out() -> None:
    # As one with a time to live would: a claim that was sent twice makes a deleted name live again.
    found = explored(BY_NAME["deletion and re-creation"], forgets=True)
    assert found.violation is not None
    assert "its bytes are None" in found.violation


def test_names_differ() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({scenario.name for scenario in (*SHORT, *LONG)}) == len(SHORT) + len(LONG)


def test_a_mutant_whose_text_is_gone_is_no_mutant() -> None:
    with pytest.raises(LookupError, match="0 times"):
        Mutant("of nothing", "claims", "no such text", "", "two creators").protocols()
