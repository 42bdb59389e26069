"""Every schedule of a few processes of one name, decided by the bucket alone, on every kind of store."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from putifabsent.shim import ballot
from putifabsent.testing.explore import Faults, wander
from tests.shim.ballot_mutants import MUTANTS
from tests.shim.ballots import (
    EXPIRED,
    GROUNDS,
    LONG,
    MIDDLE,
    READ_ONLY,
    REMOVED,
    SHORT,
    Mutant,
    Scenario,
    judge,
    play,
    played,
)
from tests.shim.schedules import AT_RANDOM, MOST, SEEDS

if TYPE_CHECKING:
    from tests.conftest import Note
    from tests.shim.ballots import Ground

pytestmark = pytest.mark.exhaustive


@pytest.mark.parametrize(("scenario", "ground"), played(SHORT))
def test_no_schedule_breaks_a_promise(scenario: Scenario, ground: Ground, note: Note) -> None:
    found = play(ballot, scenario, ground)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete
    assert found.states > 100


@pytest.mark.proof
@pytest.mark.parametrize(("scenario", "ground"), played(MIDDLE))
def test_no_longer_schedule_breaks_a_promise(scenario: Scenario, ground: Ground, note: Note) -> None:
    found = play(ballot, scenario, ground)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete


@pytest.mark.parametrize(("scenario", "ground"), played(READ_ONLY, most=2))
def test_who_may_not_write_reads_what_was_acknowledged(
    scenario: Scenario, ground: Ground, note: Note
) -> None:
    found = play(ballot, scenario, ground)
    note(found)
    assert found.violation is None, found.violation
    assert found.states > 100


@pytest.mark.parametrize("scenario", REMOVED, ids=str)
def test_no_removal_round_the_shim_has_two_creators_win(scenario: Scenario, note: Note) -> None:
    found = play(ballot, scenario, GROUNDS[0])
    note(found)
    assert found.violation is None, found.violation
    assert found.states > 100


@pytest.mark.parametrize(("scenario", "ground"), played(EXPIRED, most=2))
def test_a_name_that_goes_for_good_goes_like_any_other(
    scenario: Scenario, ground: Ground, note: Note
) -> None:
    found = play(ballot, scenario, ground)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete
    assert found.states > 100


@pytest.mark.proof
@pytest.mark.parametrize(("scenario", "ground"), played(LONG, most=2))
def test_no_schedule_of_many_breaks_a_promise(scenario: Scenario, ground: Ground, note: Note) -> None:
    found = play(ballot, scenario, ground, most=MOST)
    note(found)
    assert found.violation is None, found.violation


def at_random(schedules: int, seed: int) -> int:
    everything = Scenario("everything", "cdc c cdx r d x", Faults(lost=3, late=2, crashes=2, pauses=3))
    states = 0
    for number, ground in enumerate(GROUNDS):
        actors = everything.actors(ballot)
        held = judge(actors, everything.names, shown=False, hidden=False)
        found = wander(
            actors,
            ground.store(),
            held,
            everything.faults,
            random=Random(seed + number),
            schedules=schedules // len(GROUNDS),
        )
        assert found.violation is None, f"seed {seed + number}, on {ground}:\n{found.violation}"
        states += found.states
    return states


def test_no_schedule_at_random_does() -> None:
    assert at_random(60, seed=1) > 2_000


@pytest.mark.proof
@SEEDS
def test_no_schedule_of_many_at_random_does(seed: int, note: Note) -> None:
    note(f"{at_random(AT_RANDOM, seed):,} states of {AT_RANDOM:,} schedules")


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_found_out(mutant: Mutant) -> None:
    protocols = mutant.protocols()
    scenario = next(
        each
        for each in (*SHORT, *MIDDLE, *READ_ONLY, *REMOVED, *EXPIRED, *LONG)
        if each.name == mutant.scenario
    )
    found = (play(protocols, scenario, ground).violation for ground in GROUNDS)
    assert any(found), f"{scenario} does not find out that {mutant}"
