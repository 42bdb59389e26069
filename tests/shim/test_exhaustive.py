"""Every schedule of a few writers of one name: none makes one of them hear what is not so."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.base import Creation, Deleted, InMemory
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.names import ordinary
from putifabsent.shim.requests import Delete, Head, read
from putifabsent.testing.explore import Actor, Faults, explore, wander
from putifabsent.testing.imagined import ImaginedStore, LinearName, Operation, is_linear
from tests.shim.mutants import MUTANTS, Mutant
from tests.shim.scripted import REAL, Shim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.shim.requests import Protocol
    from putifabsent.testing.explore import Explored
    from tests.conftest import Note

NAME = ordinary("bucket/t/name")


def reading() -> Protocol[Any]:
    seen = yield from read(Head(NAME.path), lambda error: OutcomeUnknown(NAME.path, "", str(error)))
    return seen


def deleting() -> Protocol[None]:
    outcome = yield Delete(NAME.path)
    if not isinstance(outcome, Deleted):
        raise OutcomeUnknown(NAME.path, "")


def actor(shim: Shim, letter: str, token: str) -> Actor:
    def create(largest_put: int) -> Protocol[Any]:
        creation = Creation(token, "writer", NAME.state)
        return shim.create(NAME, InMemory(token.encode()), creation, largest_put=largest_put)

    role, make = {
        "c": ("create", lambda: create(99)),
        "C": ("create", lambda: create(0)),
        "d": ("delete", deleting),
        "r": ("read", reading),
    }[letter]
    return Actor(token, role, make, token)


SCENARIOS = {
    "two creators, one crash, a lost and a late answer": ("cc", Faults(lost=1, late=1, crashes=1)),
    "three creators": ("ccc", Faults(lost=1, late=1, crashes=1)),
    "two creators, a deleter and a reader": ("ccdr", Faults(lost=1, crashes=1)),
    "a creator among deleters": ("cdd", Faults(lost=1, late=1, crashes=1)),
    "deletion and re-creation": ("ccdd", Faults(lost=2, crashes=1)),
    "two creators of large bodies": ("CC", Faults(lost=2, late=1, crashes=1)),
    "a large body, a small one, a deleter": ("Ccd", Faults(lost=1, late=1, crashes=1)),
}


def explored(shim: Shim, scenario: str, store: ImaginedStore | None = None) -> Explored:
    roles, faults = SCENARIOS[scenario]
    actors = [actor(shim, letter, f"{letter}{number}") for number, letter in enumerate(roles)]
    bodies = {each.token: each.token.encode() for each in actors}
    judge = LinearName(reading, NAME.path, bodies, revives=True)
    return explore(actors, store or ImaginedStore(), judge, faults)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_schedule_breaks_a_promise(scenario: str, note: Note) -> None:
    found = explored(REAL, scenario)
    note(found)
    assert found.violation is None, found.violation
    assert found.complete
    assert found.states > 100


def test_schedules_at_random_go_deeper_and_a_seed_plays_them_again() -> None:
    actors = [actor(REAL, letter, f"{letter}{number}") for number, letter in enumerate("cCcddrr")]
    bodies = {each.token: each.token.encode() for each in actors}
    judge = LinearName(reading, NAME.path, bodies, revives=True)
    faults = Faults(lost=3, late=2, crashes=2)
    found = [
        wander(actors, ImaginedStore(), judge, faults, random=Random(7), schedules=500) for _ in range(2)
    ]
    assert found[0].violation is None, found[0].violation
    assert found[0] == found[1]
    assert found[0].states > 5000
    liar = ImaginedStore(conditions=False)
    assert wander(actors, liar, judge, faults, random=Random(7), schedules=500).violation is not None


def test_a_store_that_ignores_the_condition_is_found_out_with_the_schedule() -> None:
    found = explored(REAL, "three creators", ImaginedStore(conditions=False))
    assert found.violation is not None
    assert "no order of these explains" in found.violation
    assert found.violation.count("Create(name='bucket/t/name'") == 2, "the shortest way to two winners"


# The others do harm with large bodies, renames, refusals or interruptions: random histories find those.
KILLED = {
    "anybody's token is taken for mine",
    "exists is a loss without a look",
    "a 404 proves that the creation failed",
    "the deadline is a failure",
}


@pytest.mark.parametrize("mutant", [each for each in MUTANTS if each.name in KILLED], ids=str)
def test_a_mutant_is_found_out_by_a_schedule(mutant: Mutant) -> None:
    shim = mutant.shim()
    assert any(explored(shim, scenario).violation for scenario in SCENARIOS)


def operations(*said: tuple[str, str, str | None, str | None, int]) -> tuple[Operation, ...]:
    return tuple(Operation(*each) for each in said)


WON_BOTH = operations(("create", "a", "done", None, 0), ("create", "b", "done", None, 0))
IMPOSSIBLE: Sequence[tuple[str, tuple[Operation, ...], str | None]] = [
    ("two winners of a name that nobody deletes", WON_BOTH, "b"),
    ("a loser beaten by nobody", operations(("create", "a", "taken", None, 0)), None),
    ("a loser beaten by another than it was told", operations(
        ("create", "a", "taken", "c", 0), ("create", "b", "done", None, 0)), "b"),
    ("a winner that nobody finds", operations(("create", "a", "done", None, 0)), None),
    ("a reader who misses what was there before", operations(
        ("create", "a", "done", None, 0), ("read", "r", "absent", None, 1)), "a"),
    ("a deleted name that is there", operations(
        ("create", "a", "done", None, 0), ("delete", "d", "done", None, 1)), "a"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "told", "final"), IMPOSSIBLE, ids=[what for what, *_ in IMPOSSIBLE])
def test_what_can_not_be_has_no_order(what: str, told: tuple[Operation, ...], final: str | None) -> None:
    assert not is_linear(told, final), what


def test_what_can_be_has_one() -> None:
    deleted_between = (*WON_BOTH, Operation("delete", "d", "done", None, 0))
    assert is_linear(deleted_between, "b")
    assert is_linear(deleted_between, "a")
    assert is_linear(operations(("create", "a", None, None, 0)), None)
    assert is_linear(operations(("create", "a", None, None, 0)), "a")
    landed_late = operations(("create", "a", "done", None, 0), ("delete", "d", "done", None, 1))
    assert is_linear(landed_late, "a", revives=True)
