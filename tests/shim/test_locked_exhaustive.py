"""Every schedule of a few processes beside a lock, however bad it is: the ballot's promises hold in all."""

from __future__ import annotations

import inspect
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.shim import ballot
from putifabsent.testing.explore import Faults, wander
from tests.shim import test_locked
from tests.shim.ballots import GROUNDS, played
from tests.shim.imagined_registries import ImaginedLocks
from tests.shim.locked_mutants import MUTANTS
from tests.shim.lockers import LONG, SHORT, Judge, Mutant, Scenario, play
from tests.shim.schedules import AT_RANDOM, MOST, SEEDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Note
    from tests.shim.ballots import Ground
    from tests.shim.imagined_registries import Kind

pytestmark = pytest.mark.exhaustive

KINDS: tuple[Kind, ...] = ("honest", "generous", "busy", "refusing")
# More than any of the short ones has.
MOST_OF_SHORT = 100_000
SCRIPTED = [name for name in vars(test_locked) if name.startswith("test_")]


@pytest.mark.parametrize(("scenario", "ground"), played(SHORT, most=2))
def test_no_schedule_breaks_a_promise(scenario: Scenario, ground: Ground, note: Note) -> None:
    found = play(scenario, ground)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete
    assert 100 < found.states < MOST_OF_SHORT


@pytest.mark.proof
@pytest.mark.parametrize(("scenario", "ground"), played(LONG, most=2))
def test_no_schedule_of_many_breaks_a_promise(scenario: Scenario, ground: Ground, note: Note) -> None:
    found = play(scenario, ground, most=MOST)
    note(found)
    assert found.violation is None, found.violation


def at_random(schedules: int, seed: int) -> int:
    states = 0
    places = [(kind, ground) for kind in KINDS for ground in GROUNDS]
    for number, (kind, ground) in enumerate(places):
        faults = Faults(lost=3, late=2, crashes=2, pauses=3)
        everything = Scenario("everything", "cdc c cdx f r d f", faults, kind)
        actors = everything.actors()
        found = wander(
            actors,
            ImaginedLocks(ground.store(), kind),
            Judge(everything, ground, actors, shown=False, hidden=False),
            faults,
            random=Random(seed + number),
            schedules=schedules // len(places),
        )
        assert found.violation is None, f"seed {seed + number}, {kind}, on {ground}:\n{found.violation}"
        states += found.states
    return states


def test_no_schedule_at_random_does() -> None:
    assert at_random(48, seed=1) > 2_000


@pytest.mark.proof
@SEEDS
def test_no_schedule_of_many_at_random_does(seed: int, note: Note) -> None:
    note(f"{at_random(AT_RANDOM, seed):,} states of {AT_RANDOM:,} schedules")


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_found_out(mutant: Mutant) -> None:
    if mutant.found_by.startswith("test_"):
        assert fails(mutant.found_by, mutant.protocols())
        return
    scenario = next(each for each in SHORT if each.name == mutant.found_by)
    found = (play(scenario, ground, mutant.protocols(), most=MOST_OF_SHORT) for ground in GROUNDS[2:])
    # A schedule without an end is no end of waiting.
    assert any(each.violation or not each.complete for each in found), (
        f"{scenario} does not find out that {mutant}"
    )


def test_a_mutant_that_changes_nothing_is_not_found_out() -> None:
    text = "yield from glance(name, creation)"
    same = Mutant("nothing", "ballot", text, text, "")
    assert [name for name in SCRIPTED if fails(name, same.protocols())] == []
    for scenario in (SHORT[1], SHORT[-1]):
        assert play(scenario, GROUNDS[0], same.protocols()).violation is None


def test_the_names_of_mutants_differ() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_protocol_itself_fails_no_scripted_test() -> None:
    assert len(SCRIPTED) > 15
    assert [name for name in SCRIPTED if fails(name, ballot)] == []


def fails(name: str, protocols: Any) -> bool:
    """Whether a scripted test fails on a protocol, with any of its parameters."""
    test = getattr(test_locked, name)
    for arguments in _parameters(test):
        try:
            test(protocols, **arguments)
        except (Exception, KeyboardInterrupt, pytest.fail.Exception):  # noqa: BLE001 - it fails in any way
            return True
    return False


def _parameters(test: Any) -> Iterator[dict[str, Any]]:
    marks = getattr(test, "pytestmark", [])
    if not marks:
        assert list(inspect.signature(test).parameters) == ["protocols"]
        yield {}
    for mark in marks:
        for value in mark.args[1]:
            yield {mark.args[0]: value}
