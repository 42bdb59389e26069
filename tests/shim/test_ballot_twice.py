"""One creation that runs twice at once: a proxy repeats the call, or who hears no answer asks elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Creation, InMemory
from putifabsent.shim import ballot
from putifabsent.testing.explore import Actor, Faults, explore
from tests.shim.ballots import GROUNDS, NAME

if TYPE_CHECKING:
    from putifabsent.testing.explore import ActorRun, Explored

MOST = 20_000


class OneWins:
    """Judges that no two creations are acknowledged."""

    def judge(self, world: Any, state: Any, runs: tuple[ActorRun, ...]) -> str | None:
        """Return which promise is broken, or None."""
        del world, state
        won = {each.actor.token for each in runs if each.ended is not None and each.ended[0] == "returned"}
        return f"{sorted(won)} have won" if len(won) > 1 else None


def creating(name: str, token: str, first_try: int) -> Actor:
    creation = Creation(token, "writer", NAME.state, first_try=first_try)
    make = lambda: ballot.create(NAME, InMemory(token.encode()), creation)  # noqa: E731
    return Actor(name, "create", make, token, timed=False)


def played(again: int) -> Explored:
    actors = [creating("other", "a", 0), creating("first", "b", 0), creating("again", "b", again)]
    return explore(actors, GROUNDS[1].store(), OneWins(), Faults(pauses=1), most=MOST)


def test_one_creation_that_runs_twice_at_once_takes_no_name_from_another() -> None:
    found = played(again=1)
    assert found.violation is None, found.violation
    assert found.states >= MOST


def test_by_keys_of_one_name_it_would() -> None:
    assert played(again=0).violation is not None
