"""A schedule, played once more on a live filesystem: by the processes themselves, or letter by letter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tests.models.requests import LOST
from tests.models.storage import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.testing.explore import Actor, Step
    from tests.models.storage import Place


class Grounds(Protocol):
    """Makes an empty place."""

    def __call__(self, *, shim: bool) -> Place:
        """Return it, with the shim or without."""


class Played(NamedTuple):
    """One step, as it went this time."""

    actor: str
    request: Any
    outcome: Any

    def __str__(self) -> str:
        return f"{self.actor:<10} {self.request}\n{'':<10} -> {self.outcome}"


class Replay:
    """Processes that take their steps in the order of a schedule.

    Attributes
    ----------
    played
        What they did, and what came of it.
    ended
        What each process that came to its end has said; it takes no more steps.
    """

    def __init__(self, schedule: Sequence[Step], actors: Sequence[Actor], place: Place) -> None:
        self.played: list[Played] = []
        self.ended: dict[str, Any] = {}
        self._place = place
        self._processes = {actor.name: actor.make() for actor in actors}
        self._requests = {name: next(process) for name, process in self._processes.items()}
        for step in schedule:
            self.step(step.actor, step.fate)

    def step(self, name: str, fate: str = "") -> None:
        """Let one process take a step; its connection breaks where it broke in the schedule."""
        if name in self.ended:
            return
        request = self._requests[name]
        outcome = LOST
        if not (request.loses and fate == "lost before it applied"):
            outcome = request.at(self._place.of(name))
        if request.loses and fate == "applied, answer lost":
            outcome = LOST
        self.played.append(Played(name, request, outcome))
        try:
            self._requests[name] = self._processes[name].send(outcome)
        except StopIteration as end:
            self.ended[name] = end.value

    def finish(self) -> None:
        """Let each process come to its end, one after the other."""
        for name in self._processes:
            while name not in self.ended:
                self.step(name)

    def __str__(self) -> str:
        return "\n".join(map(str, self.played))


def send_again(schedule: Sequence[Step], place: Place) -> list[Played]:
    """Make the requests of a schedule, each as it was, whatever became of those before."""
    return [Played(step.actor, step.request, step.request.at(place.of(step.actor))) for step in schedule]


def fill(place: Place, state: State) -> None:
    """Begin with what is there before the schedule."""
    for name, data in sorted(state.files):
        place.fs.pipe_file(place.root + name, data)
    place.facts.update(state.facts)
    place.log.extend(state.log)


def state_of(place: Place) -> State:
    """Return what is there after it."""
    return State(frozenset(place.files().items()), frozenset(place.facts.items()), tuple(place.log))
