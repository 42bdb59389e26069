"""Plays every schedule of a few processes, and says which of them breaks a promise.

The processes are the shipped protocols themselves: generators that yield a request and are sent its outcome.
Between any two steps of one, the others may take theirs; each request may be applied and answered, applied
with its answer lost, lost before it is applied, or applied later, after its sender has gone on; and any
process may stop for ever. A generator can't be copied, so a process is known by the outcomes that it has been
sent, and is made anew by replaying them; equal states of world and processes are explored once.

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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from putifabsent.shim.requests import Pause
from putifabsent.testing.fingerprints import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
    from random import Random
    from typing import Protocol

    class World(Protocol):
        """What requests are applied to; a state is any value that can be hashed."""

        @property
        def initial(self) -> Hashable:
            """The state before the first request."""

        def apply(self, state: Any, request: Any) -> tuple[Hashable, Any]:
            """Return the state after a request, and the outcome of it."""

        def unanswered(self, request: Any) -> Any:
            """Return the outcome of a request whose answer was lost; None for what is never sent."""

        def changes(self, request: Any) -> bool:
            """Whether the request may change the state, so that it matters when it is applied."""

    class Judge(Protocol):
        """What is promised, and whether a state keeps it."""

        def judge(self, world: World, state: Any, told: tuple[Told, ...]) -> str | None:
            """Return which promise is broken, or None."""


__all__ = ["Actor", "Explored", "Faults", "Told", "explore", "wander"]

Outcomes: TypeAlias = "tuple[Any, ...]"

# So many histories that were taken for the same as another are followed one step further, to be sure.
_CHECKED = 3


@dataclass(frozen=True)
class Actor:
    """One process.

    Attributes
    ----------
    name
        For people.
    role
        What it does, for the judge: ``"create"``, ``"delete"``, ``"read"``, ``"other"``.
    make
        Makes its protocol, the same each time.
    token
        Of its creation.
    """

    name: str
    role: str
    make: Callable[[], Generator[Any, Any, Any]]
    token: str = ""


@dataclass(frozen=True)
class Faults:
    """How much may go wrong in one schedule.

    Attributes
    ----------
    lost
        Answers that get lost, of requests that were applied, or never were.
    late
        Requests without an answer that are applied at any time afterwards, or never.
    crashes
        Processes that stop for ever.
    pauses
        How often one process backs off before its deadline comes.
    """

    lost: int = 0
    late: int = 0
    crashes: int = 0
    pauses: int = 2


class Told(NamedTuple):
    """What one process has been told so far.

    Attributes
    ----------
    actor
        The process.
    after
        A bit for each process that had ended when this one began; None: it has not begun.
    ended
        What its protocol returned or raised; None: it is under way, or stopped for ever.
    """

    actor: Actor
    after: int | None
    ended: tuple[str, Any] | None


class Step(NamedTuple):
    """One step of a schedule: which process, which request, what became of it."""

    actor: str
    request: Any
    fate: str
    outcome: Any

    def __str__(self) -> str:
        return f"{self.actor:<10} {self.fate:<22} {self.request}\n{'':<33} -> {self.outcome}"


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
    """

    states: int = 0
    steps: int = 0
    violation: str | None = None
    complete: bool = True


class _State(NamedTuple):
    world: int
    nodes: tuple[int, ...]
    after: tuple[int | None, ...]
    late: tuple[tuple[int, int], ...]
    lost_left: int
    late_left: int


@dataclass(slots=True)
class _Node:
    """A process after certain outcomes."""

    outcomes: Outcomes
    others: list[Outcomes] = field(default_factory=list)
    request: Any = None
    ended: tuple[str, Any] | None = None
    children: dict[int, int] = field(default_factory=dict)


class _Graph:
    """States and the steps between them, each computed once."""

    def __init__(self, actors: Sequence[Actor], world: World, faults: Faults) -> None:
        self.actors = tuple(actors)
        self.world = world
        self.faults = faults
        self.worlds: list[Any] = []
        self._world_ids: dict[Hashable, int] = {}
        self._outcomes: list[Any] = []
        self._outcome_ids: dict[Any, int] = {}
        self.nodes: list[_Node] = []
        self._node_ids: dict[Hashable, int] = {}
        self._applied: dict[tuple[int, int, int], tuple[int, int]] = {}
        first = self._world_id(world.initial)
        roots = tuple(self._node(number, ()) for number in range(len(self.actors)))
        nobody = (None,) * len(self.actors)
        self.start = _State(first, roots, nobody, (), faults.lost, faults.late)

    def told(self, state: _State) -> tuple[Told, ...]:
        """Return what each process has been told."""
        return tuple(
            Told(actor, after, self.nodes[node].ended)
            for actor, after, node in zip(self.actors, state.after, state.nodes, strict=True)
        )

    def steps(self, state: _State) -> Iterator[tuple[_State, tuple[int, str, int, int]]]:
        """Yield each state that may follow, and by which step: process, fate, its node, outcome."""
        done = sum(1 << i for i, node in enumerate(state.nodes) if self.nodes[node].ended is not None)
        for i, at in enumerate(state.nodes):
            node = self.nodes[at]
            if node.ended is not None:
                continue
            after = state.after
            if after[i] is None:
                after = (*after[:i], done, *after[i + 1 :])
            world, outcome = self._apply(state.world, i, at)
            begun = state._replace(after=after)
            yield self._after(begun._replace(world=world), i, outcome), (i, "answered", at, outcome)
            unanswered = self.world.unanswered(node.request)
            if unanswered is None:
                continue
            lost = self._outcome_id(unanswered)
            if state.lost_left:
                fewer = begun._replace(lost_left=state.lost_left - 1)
                yield self._after(fewer, i, lost), (i, "lost before it applied", at, lost)
                if world != state.world:
                    yield (
                        self._after(fewer._replace(world=world), i, lost),
                        (i, "applied, answer lost", at, lost),
                    )
            if state.late_left and self.world.changes(node.request):
                pending = tuple(sorted((*state.late, (i, at))))
                fewer = begun._replace(late_left=state.late_left - 1, late=pending)
                yield self._after(fewer, i, lost), (i, "not applied yet", at, lost)
        for place, (i, at) in enumerate(state.late):
            world, outcome = self._apply(state.world, i, at)
            rest = (*state.late[:place], *state.late[place + 1 :])
            yield state._replace(world=world, late=rest), (i, "applied late", at, outcome)

    def step(self, how: tuple[int, str, int, int]) -> Step:
        """Return a step for people."""
        i, fate, at, outcome = how
        return Step(self.actors[i].name, self.nodes[at].request, fate, self._outcomes[outcome])

    def _after(self, state: _State, i: int, outcome: int) -> _State:
        node = self.nodes[state.nodes[i]]
        child = node.children.get(outcome)
        if child is None:
            told = self._outcomes[outcome]
            child = self._node(i, (*node.outcomes, told))
            for other in node.others:
                if self._node(i, (*other, told)) != child:
                    raise AssertionError(f"two histories of {self.actors[i].name} were taken for one")
            node.children[outcome] = child
        return state._replace(nodes=(*state.nodes[:i], child, *state.nodes[i + 1 :]))

    def _apply(self, world: int, i: int, at: int) -> tuple[int, int]:
        key = (world, i, at)
        found = self._applied.get(key)
        if found is None:
            after, outcome = self.world.apply(self.worlds[world], self.nodes[at].request)
            found = self._applied[key] = self._world_id(after), self._outcome_id(outcome)
        return found

    def _world_id(self, world: Hashable) -> int:
        found = self._world_ids.setdefault(world, len(self.worlds))
        if found == len(self.worlds):
            self.worlds.append(world)
        return found

    def _outcome_id(self, outcome: Any) -> int:
        found = self._outcome_ids.setdefault(outcome, len(self._outcomes))
        if found == len(self._outcomes):
            self._outcomes.append(outcome)
        return found

    def _node(self, i: int, outcomes: Outcomes) -> int:
        """Replay a process, and return it as it stands then. Pauses take no time: the schedule has none."""
        node = _Node(outcomes)
        protocol = self.actors[i].make()
        pauses = 0
        given = iter(outcomes)
        try:
            request = next(protocol)
            while True:
                if isinstance(request, Pause):
                    pauses += 1
                    request = protocol.send(pauses <= self.faults.pauses)
                    continue
                try:
                    outcome = next(given)
                except StopIteration:
                    node.request = request
                    break
                request = protocol.send(outcome)
        except StopIteration as end:
            node.ended = ("returned", end.value)
        except Exception as error:  # noqa: BLE001 - what it means is the judge's business
            node.ended = ("raised", error)
        key = (i, pauses, fingerprint(node.ended), fingerprint(node.request), fingerprint(protocol))
        found = self._node_ids.setdefault(key, len(self.nodes))
        if found == len(self.nodes):
            self.nodes.append(node)
        elif len(others := self.nodes[found].others) < _CHECKED and outcomes != self.nodes[found].outcomes:
            others.append(outcomes)
        return found


def explore(
    actors: Sequence[Actor],
    world: World,
    judge: Judge,
    faults: Faults,
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
    """
    graph = _Graph(actors, world, faults)
    explored = Explored()
    came: dict[_State, tuple[_State, tuple[int, str, int, int]] | None] = {graph.start: None}
    waiting = deque([graph.start])
    while waiting:
        state = waiting.popleft()
        explored.states += 1
        broken = _judged(graph, judge, state)
        if broken is not None:
            explored.violation = f"{broken}\n{_schedule(graph, came, state)}"
            explored.complete = False
            return explored
        for following, how in graph.steps(state):
            explored.steps += 1
            if following not in came:
                came[following] = (state, how)
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
    graph = _Graph(actors, world, faults)
    explored = Explored(complete=False)
    seen: set[_State] = set()
    for _ in range(schedules):
        state = graph.start
        came: dict[_State, tuple[_State, tuple[int, str, int, int]] | None] = {state: None}
        while True:
            if state not in seen:
                seen.add(state)
                explored.states += 1
                broken = _judged(graph, judge, state)
                if broken is not None:
                    explored.violation = f"{broken}\n{_schedule(graph, came, state)}"
                    return explored
            following = list(graph.steps(state))
            if not following:
                break
            before = state
            state, how = random.choice(following)
            came.setdefault(state, (before, how))
            explored.steps += 1
    return explored


def _judged(graph: _Graph, judge: Judge, state: _State) -> str | None:
    told = graph.told(state)
    under_way = sum(each.after is not None and each.ended is None for each in told)
    if under_way > graph.faults.crashes:
        return None
    return judge.judge(graph.world, graph.worlds[state.world], told)


def _schedule(
    graph: _Graph, came: dict[_State, tuple[_State, tuple[int, str, int, int]] | None], state: _State
) -> str:
    steps: list[str] = []
    link = came[state]
    while link is not None:
        state, how = link
        steps.append(str(graph.step(how)))
        link = came[state]
    return "\n".join(reversed(steps))
