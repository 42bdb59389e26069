"""Plays every schedule of a few processes, and says which of them breaks a promise.

The processes are the shipped protocols themselves: generators that yield a request and are sent its outcome.
Between any two steps of one, the others may take theirs; each request may be applied and answered, applied
with its answer lost, lost before it is applied, or applied later, after its sender has gone on; and any
process may stop for ever. Equal states of world and processes are explored once.

::

    def creating(token):
        return lambda: native.create(NAME, InMemory(token.encode()), creation_of(token), largest_put=99)

    explored = explore(
        [Actor("one", "create", creating("a"), "a"), Actor("two", "create", creating("b"), "b")],
        ImaginedStore(),
        LinearName(reader, NAME.path, {"a": b"a", "b": b"b"}),
        Faults(lost=1, crashes=1),
    )
    assert not explored.violation, explored.violation
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from putifabsent.testing.graph import Actor, Faults, Graph, Step, Told

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random
    from typing import Protocol

    from putifabsent.testing.graph import Came, State, World

    class Judge(Protocol):
        """What is promised, and whether a state keeps it."""

        def judge(self, world: World, state: Any, told: tuple[Told, ...]) -> str | None:
            """Return which promise is broken, or None."""


__all__ = ["Actor", "Explored", "Faults", "Step", "Told", "explore", "wander"]


@dataclass
class Explored:
    """What was found.

    Attributes
    ----------
    states
        Different states that were visited.
    steps
        Steps between them.
    violation
        The first broken promise, with the schedule that leads to it; None where there is none.
    complete
        Whether every schedule was played, within the faults allowed.
    schedule
        The steps that lead to the violation.
    """

    states: int = 0
    steps: int = 0
    violation: str | None = None
    complete: bool = True
    schedule: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return f"all {self.states:,} states" if self.complete else f"{self.states:,} states"


def explore(
    actors: Sequence[Actor],
    world: World,
    judge: Judge,
    faults: Faults,
    *,
    most: int | None = None,
) -> Explored:
    """Play all schedules, the short ones first.

    Parameters
    ----------
    actors
        The processes.
    world
        What their requests are applied to.
    judge
        Is asked of every state in which no more processes are under way than may crash.
    faults
        How much may go wrong.
    most
        States after which it is enough; None: all of them.
    """
    graph = Graph(actors, world, faults)
    explored = Explored()
    came: Came = {graph.start: None}
    waiting = deque([graph.start])
    while waiting:
        if explored.states == most:
            explored.complete = False
            return explored
        state = waiting.popleft()
        explored.states += 1
        if _violates(graph, judge, came, state, explored):
            explored.complete = False
            return explored
        for move in graph.moves(state):
            explored.steps += 1
            following = graph.take(move)
            if following not in came:
                came[following] = (state, move.how)
                waiting.append(following)
    return explored


def wander(
    actors: Sequence[Actor],
    world: World,
    judge: Judge,
    faults: Faults,
    *,
    random: Random,
    schedules: int,
) -> Explored:
    """Play schedules at random, for what is too large to be played in full; a seed plays them again."""
    graph = Graph(actors, world, faults)
    explored = Explored(complete=False)
    seen: set[State] = set()
    for _ in range(schedules):
        state = graph.start
        came: Came = {state: None}
        while True:
            if state not in seen:
                seen.add(state)
                explored.states += 1
                if _violates(graph, judge, came, state, explored):
                    return explored
            moves = list(graph.moves(state))
            if not moves:
                break
            before, move = state, random.choice(moves)
            state = graph.take(move)
            came.setdefault(state, (before, move.how))
            explored.steps += 1
    return explored


def _violates(graph: Graph, judge: Judge, came: Came, state: State, explored: Explored) -> bool:
    """Write down which promise a state breaks, if any, and the schedule that leads there."""
    told = graph.told(state)
    under_way = sum(each.after is not None and each.ended is None for each in told)
    if under_way > graph.faults.crashes:
        return False
    broken = judge.judge(graph.world, graph.worlds[state.world], told)
    if broken is None:
        return False
    explored.schedule = _schedule(graph, came, state)
    explored.violation = "\n".join((broken, *map(str, explored.schedule)))
    return True


def _schedule(graph: Graph, came: Came, state: State) -> tuple[Step, ...]:
    steps: list[Step] = []
    link = came[state]
    while link is not None:
        state, how = link
        steps.append(graph.step(how))
        link = came[state]
    return tuple(reversed(steps))
