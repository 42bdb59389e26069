"""Lock and ballot under test: the real protocol and wrong ones, and locks as bad as they come."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from putifabsent import shim
from putifabsent.backends.base import Creation, InMemory
from putifabsent.shim import ballot
from putifabsent.testing.explore import Faults, explore
from tests.mutation import Change
from tests.shim.ballots import NAME, judge
from tests.shim.imagined_registries import Forget, ImaginedLocks, Kind, Owner
from tests.shim.roles import actors_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from putifabsent.shim.requests import Protocol
    from putifabsent.testing.explore import Actor, ActorRun, Explored
    from tests.shim.ballots import Ground

LOCK: Any = "the lock"
"""Requests carry it; the world knows which one is meant."""
PLACE = "imagined://"


@dataclass(frozen=True)
class Scenario:
    """Who does what, and beside which lock.

    Attributes
    ----------
    name
        For people.
    roles
        As for ballots: ``c`` creates, behind the lock; ``d`` deletes, ``r`` reads, ``x`` cleans up, all
        without it. And ``f`` makes the lock forget who holds it.
    faults
        What may go wrong.
    kind
        What the lock is like.
    """

    name: str
    roles: str
    faults: Faults
    kind: Kind = "honest"

    def __str__(self) -> str:
        return self.name

    def actors(self, protocols: Any = ballot) -> list[Actor]:
        """Return the processes, which use these protocols."""
        return actors_of(self.roles, partial(_played, protocols))


def _played(protocols: Any, letter: str, token: str) -> tuple[str, Callable[[], Protocol[Any]]]:
    creation, body = Creation(token, "writer", NAME.state), InMemory(token.encode())
    return {
        "c": ("create", lambda: protocols.create_in_turn(NAME, body, creation, lock=LOCK, place=PLACE)),
        "d": ("delete", lambda: ballot.delete(NAME, creation)),
        "r": ("read", lambda: ballot.find(NAME, creation)),
        "x": ("other", lambda: ballot.clean(NAME, creation)),
        "f": ("other", _forgetting),
    }[letter]


def _forgetting() -> Any:
    yield Forget()


class Judge:
    """What the ballot promises, whatever the lock does; and that a lock in good order is given back."""

    def __init__(
        self,
        scenario: Scenario,
        ground: Ground,
        actors: list[Actor],
        *,
        shown: bool = True,
        hidden: bool = True,
    ) -> None:
        faults = scenario.faults
        # Whatever is late may hit what came after it; only a reader through the shim is sure then.
        shown, hidden = shown and not faults.late, hidden and not ground.slow_copies
        self._promised = judge(actors, (NAME,), shown=shown, hidden=hidden)
        self._undisturbed = not (faults.lost or faults.late or faults.crashes)

    def judge(self, world: Any, state: Any, runs: tuple[ActorRun, ...]) -> str | None:
        """Return which promise is broken, or None."""
        for each in runs:
            if each.ended is not None and isinstance(each.ended[1], PermissionError):
                return f"{each.actor.name} failed by its lock: {each.ended[1]!r}"
        owners = [holder.owner for _, holder in state if isinstance(holder, Owner)]
        if self._undisturbed and owners:
            return f"{owners} have ended, and hold the lock"
        return self._promised.judge(world, state, runs)


def play(scenario: Scenario, ground: Ground, protocols: Any = ballot, *, most: int | None = None) -> Explored:
    """Play all schedules of a scenario on a ground."""
    actors = scenario.actors(protocols)
    world = ImaginedLocks(ground.store(), scenario.kind)
    return explore(actors, world, Judge(scenario, ground, actors), scenario.faults, most=most)


SHORT = (
    Scenario("a creator alone, in trouble", "c", Faults(lost=2, late=1, crashes=1)),
    Scenario("two creators", "c c", Faults(pauses=1)),
    Scenario("two creators, one lost answer, one crash", "c c", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("two creators, one late request", "c c", Faults(late=1, pauses=1)),
    Scenario("two creators, the lock is lost at any time", "c c f", Faults(crashes=1, pauses=1)),
    Scenario("two creators, all are granted the lock", "c c", Faults(lost=1, crashes=1), "generous"),
    Scenario("two creators, nobody is granted it", "c c", Faults(lost=1, crashes=1, pauses=1), "busy"),
    Scenario("two creators, it refuses", "c c", Faults(lost=1, crashes=1), "refusing"),
    Scenario("a creator, and a creation that is deleted", "c cd", Faults(pauses=1)),
    Scenario("a creator, and a deletion, all are granted", "c cd", Faults(pauses=1), "generous"),
    Scenario("a creator after a deletion", "cdc", Faults(lost=1, crashes=1, pauses=1)),
    Scenario("a creator after a deletion, nobody is granted it", "cdc", Faults(lost=1, crashes=1), "busy"),
)
LONG = (
    Scenario("a creator, and a deletion, and clean-up", "cdx c", Faults(pauses=1), "generous"),
    Scenario("three creators", "c c c", Faults(pauses=1)),
    Scenario("three creators, the lock is lost at any time", "c c c f", Faults(crashes=1, pauses=1)),
    Scenario("three creators, all are granted it", "c c c", Faults(lost=1, crashes=1), "generous"),
    Scenario("two creators, it is lost twice, a late request", "c c f f", Faults(late=1, pauses=1)),
    Scenario("two creators, a deleter and a reader", "c c d r", Faults(crashes=1, pauses=1)),
    Scenario("the same, the lock is lost at any time", "c c d f", Faults(crashes=1, pauses=1)),
    Scenario("a creator, and a deletion, a lost answer", "cd c", Faults(lost=1, late=1, pauses=1)),
)


@dataclass(frozen=True)
class Mutant(Change):
    """One change of the protocol, or of what it asks the ballot.

    Attributes
    ----------
    found_by
        The scenario, or the scripted test, that finds it out.
    """

    found_by: str

    def protocols(self) -> ModuleType:
        """Return the protocol with this change."""
        return self.modules(shim, ("ballot_state", "ballot"))["ballot"]
