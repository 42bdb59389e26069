"""Plays every schedule of a few processes, and says which of them breaks a promise.

The processes are the shipped protocols themselves: generators that yield a request and are sent its outcome.
Between any two steps of one, the others may take theirs; each request may be applied and answered, applied
with its answer lost, lost before it is applied, or applied later, after its sender has gone on; and any
process may stop for ever. Equal states of world and processes are explored once.

A generator can't be copied, so a process is known by the outcomes that it has been sent, and is made anew by
replaying them. Two histories after which it goes on alike are one.

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

from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, timedelta
from enum import Enum
from itertools import count
from types import FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from putifabsent.backends.base import InMemory
from putifabsent.shim.requests import Both, Pause

if TYPE_CHECKING:
    from random import Random

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

        def begun(self, state: Any, request: Any) -> Hashable | None:
            """Return what is left of a request that begins now and ends later; None: all of it."""

    class Judge(Protocol):
        """What is promised, and whether a state keeps it."""

        def judge(self, world: World, state: Any, runs: tuple[ActorRun, ...]) -> str | None:
            """Return which promise is broken, or None."""


Outcomes: TypeAlias = "tuple[Any, ...]"

# So many histories that were taken for the same as another are followed one step further, to be sure.
_CHECKED = 3
_ALL_OF_IT = -1
_LATE = "applied late"
_NONE = object()


@dataclass(frozen=True)
class Actor:
    """One process."""

    name: str
    role: str  # what it does, for the judge: ``"create"``, ``"delete"``, ``"read"``, ``"other"``
    make: Callable[[], Generator[Any, Any, Any]]  # makes its protocol, the same each time
    token: str = ""
    follows: str | None = None  # the name of the process whose end it waits for before it begins
    # Whether the judge asks who had ended before it began, and who began after it had ended. Where he does
    # not, states that differ in nothing else are one.
    timed: bool = True


@dataclass(frozen=True)
class Faults:
    """How much may go wrong in one schedule."""

    lost: int = 0  # answers that get lost, of requests that were applied, or never were
    late: int = 0  # requests without an answer that are applied at any time afterwards, or never
    crashes: int = 0
    # How often one process backs off before its deadline comes; and as often before any share of it.
    pauses: int = 2


class ActorRun(NamedTuple):
    """One process's run so far."""

    actor: Actor
    # A bit for each timed process that had ended when this one began; None: it has not begun.
    after: int | None
    # What its protocol returned or raised; None: it is under way, or stopped for ever.
    ended: tuple[str, Any] | None


class Step(NamedTuple):
    """One step of a schedule: which process, which request, what became of it."""

    actor: str
    request: Any
    fate: str
    outcome: Any

    def __str__(self) -> str:
        return f"{self.actor:<10} {self.fate:<22} {self.request}\n{'':<33} -> {self.outcome}"


class State(NamedTuple):
    """Where the world and each process are, and how much may still go wrong."""

    world: int
    nodes: tuple[int, ...]
    after: tuple[int | None, ...]
    late: tuple[tuple[int, int, int, int], ...]
    lost_left: int
    late_left: int


class How(NamedTuple):
    """A step, by numbers: which process, what became of which request where it stood, which outcome."""

    actor: int
    fate: str
    node: int
    request: int
    outcome: int


Move: TypeAlias = "tuple[State, How]"
"""A step, and the state before its process hears the outcome: what it does then takes longer to find out."""

Came: TypeAlias = "dict[State, Move | None]"  # how each state was come to first; None for the start


class _Part(NamedTuple):
    """The outcome of one of two requests that are sent together."""

    second: bool
    outcome: Any


class _Request(NamedTuple):
    """A request, and what its sender may hear instead of its outcome."""

    request: Any
    lost: int | None  # the number of the outcome where its answer is lost; None: it is never sent
    changes: bool  # whether it matters when it is applied


@dataclass(slots=True)
class _Node:
    """A process after certain outcomes; each of its requests may be the next to be applied."""

    outcomes: Outcomes
    others: list[Outcomes] = field(default_factory=list)
    requests: tuple[_Request, ...] = ()
    parts: tuple[_Part, ...] = ()
    ended: tuple[str, Any] | None = None
    children: dict[tuple[int, int], int] = field(default_factory=dict)


class _Numbered:
    """Values that are known by numbers; equal ones have one."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, value: Any) -> int:
        # To a dictionary 1 and True are one, and so are two tuples of different types.
        found = self._numbers.setdefault((type(value), value), len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found


class Graph:
    """States and the steps between them, from :attr:`start` on."""

    def __init__(self, actors: Sequence[Actor], world: World, faults: Faults) -> None:
        self.actors = tuple(actors)
        numbers = {actor.name: 1 << i for i, actor in enumerate(self.actors)}
        self._awaited = [numbers[each.follows] if each.follows else 0 for each in self.actors]
        timed = sum(1 << i for i, each in enumerate(self.actors) if each.timed)
        self._judged = [timed if each.timed else 0 for each in self.actors]
        self.world = world
        self.faults = faults
        self.worlds = _Numbered()
        self._outcomes = _Numbered()
        self._rests = _Numbered()
        self.nodes: list[_Node] = []
        self._node_ids: dict[Hashable, int] = {}
        self._applied: dict[tuple[int, int, int, int, int], tuple[int, int]] = {}
        first = self.worlds.number(world.initial)
        roots = tuple(self._node(number, ()) for number in range(len(self.actors)))
        nobody = (None,) * len(self.actors)
        self.start = State(first, roots, nobody, (), faults.lost, faults.late)

    def runs(self, state: State) -> tuple[ActorRun, ...]:
        """Return each process's run so far."""
        return tuple(
            ActorRun(actor, after, self.nodes[node].ended)
            for actor, after, node in zip(self.actors, state.after, state.nodes, strict=True)
        )

    def under_way(self, state: State) -> int:
        """Return how many processes have begun and not ended."""
        begun = zip(state.nodes, state.after, strict=True)
        return sum(after is not None and self.nodes[node].ended is None for node, after in begun)

    def take(self, move: Move) -> State:
        """Return the state after a move."""
        (world, nodes, after, late, lost_left, late_left), (i, fate, _, which, outcome) = move
        if fate != _LATE:
            nodes = (*nodes[:i], self._child(i, nodes[i], which, outcome), *nodes[i + 1 :])
        return State(world, nodes, after, late, lost_left, late_left)

    def moves(self, state: State) -> Iterator[Move]:
        """Yield each step that may be taken."""
        world, nodes, begun, late, lost_left, late_left = state
        done = sum(1 << i for i, node in enumerate(nodes) if self.nodes[node].ended is not None)
        for i, at in enumerate(nodes):
            if done >> i & 1:
                continue
            after = begun
            if after[i] is None:
                if self._awaited[i] & ~done:
                    continue
                after = (*after[:i], done & self._judged[i], *after[i + 1 :])
            for which, (request, lost, changes) in enumerate(self.nodes[at].requests):
                applied, outcome = self._apply(world, i, at, which)
                how = How(i, "answered", at, which, outcome)
                yield State(applied, nodes, after, late, lost_left, late_left), how
                if lost is None:
                    continue
                if lost_left:
                    how = How(i, "lost before it applied", at, which, lost)
                    yield State(world, nodes, after, late, lost_left - 1, late_left), how
                    if applied != world:
                        how = How(i, "applied, answer lost", at, which, lost)
                        yield State(applied, nodes, after, late, lost_left - 1, late_left), how
                if late_left and changes:
                    pending = tuple(sorted((*late, (i, at, which, self._begun(world, request)))))
                    how = How(i, "not applied yet", at, which, lost)
                    yield State(world, nodes, after, pending, lost_left, late_left - 1), how
        yield from self._landings(state)

    def _landings(self, state: State) -> Iterator[Move]:
        """Yield each request that may be applied late."""
        world, nodes, begun, late, lost_left, late_left = state
        for place, (i, at, which, rest) in enumerate(late):
            applied, outcome = self._apply(world, i, at, which, rest)
            others = (*late[:place], *late[place + 1 :])
            how = How(i, _LATE, at, which, outcome)
            yield State(applied, nodes, begun, others, lost_left, late_left), how

    def step(self, how: How) -> Step:
        """Return a step for people."""
        i, fate, at, which, outcome = how
        request = self.nodes[at].requests[which].request
        return Step(self.actors[i].name, request, fate, self._outcomes.values[outcome])

    def _child(self, i: int, at: int, which: int, outcome: int) -> int:
        """Return where a process stands after an outcome."""
        node = self.nodes[at]
        child = node.children.get((which, outcome))
        if child is None:
            answer = self._outcomes.values[outcome]
            if node.parts:
                answer = node.parts[which]._replace(outcome=answer)
            child = self._node(i, (*node.outcomes, answer))
            for other in node.others:
                if self._node(i, (*other, answer)) != child:
                    raise AssertionError(f"two histories of {self.actors[i].name} were taken for one")
            node.children[which, outcome] = child
        return child

    def _begun(self, world: int, request: Any) -> int:
        rest = self.world.begun(self.worlds.values[world], request)
        return _ALL_OF_IT if rest is None else self._rests.number(rest)

    def _apply(self, world: int, i: int, at: int, which: int, rest: int = _ALL_OF_IT) -> tuple[int, int]:
        key = (world, i, at, which, rest)
        found = self._applied.get(key)
        if found is None:
            whole = rest == _ALL_OF_IT
            request = self.nodes[at].requests[which].request if whole else self._rests.values[rest]
            after, outcome = self.world.apply(self.worlds.values[world], request)
            found = self._applied[key] = self.worlds.number(after), self._outcomes.number(outcome)
        return found

    def _request(self, request: Any) -> _Request:
        lost = self.world.unanswered(request)
        if lost is None:
            return _Request(request, None, changes=False)
        return _Request(request, self._outcomes.number(lost), self.world.changes(request))

    def _node(self, i: int, outcomes: Outcomes) -> int:
        """Replay a process, and return it as it stands then. Pauses take no time: the schedule has none."""
        node = _Node(outcomes)
        protocol = self.actors[i].make()
        pauses: Counter[float] = Counter()
        given = iter(outcomes)
        parts: dict[bool, Any] = {}
        requests: tuple[Any, ...] = ()
        try:
            request = next(protocol)
            while True:
                if isinstance(request, Pause):
                    pauses[request.share] += 1
                    request = protocol.send(pauses[request.share] <= self.faults.pauses)
                    continue
                outcome = next(given, _NONE)
                if outcome is _NONE:
                    requests, node.parts = _open(request, parts)
                    break
                if isinstance(outcome, _Part):
                    parts[outcome.second] = outcome.outcome
                    if len(parts) == 1:
                        continue
                    outcome, parts = (parts[False], parts[True]), {}
                request = protocol.send(outcome)
        except StopIteration as end:
            node.ended = ("returned", end.value)
        except Exception as error:  # noqa: BLE001 - what it means is the judge's business
            node.ended = ("raised", error)
        _let_go(node)
        key = _fingerprint((i, dict(pauses), node.ended, requests, parts, protocol))
        found = self._node_ids.setdefault(key, len(self.nodes))
        if found == len(self.nodes):
            node.requests = tuple(self._request(each) for each in requests)
            self.nodes.append(node)
        elif len(others := self.nodes[found].others) < _CHECKED and outcomes != self.nodes[found].outcomes:
            others.append(outcomes)
        return found


def _let_go(node: _Node) -> None:
    """Let go of the frames that errors came through: they hold every state that was visited."""
    answers = [each.outcome if isinstance(each, _Part) else each for each in node.outcomes]
    for value in (*(getattr(each, "cause", None) for each in answers), *(node.ended or ())):
        error = value
        while isinstance(error, BaseException):
            error.__traceback__ = None
            error = error.__cause__ or error.__context__


def _open(request: Any, parts: dict[bool, Any]) -> tuple[tuple[Any, ...], tuple[_Part, ...]]:
    """Return what of a request is still to be answered, and which parts these are."""
    if not isinstance(request, Both):
        return (request,), ()
    left = [second for second in (False, True) if second not in parts]
    return tuple(request[second] for second in left), tuple(_Part(second, None) for second in left)


@dataclass
class Explored:
    """What was found."""

    states: int = 0
    steps: int = 0
    # The first broken promise, with the schedule that leads to it; None where there is none.
    violation: str | None = None
    complete: bool = True  # whether every schedule was played, within the faults allowed
    schedule: tuple[Step, ...] = ()  # the steps that lead to the violation

    def __str__(self) -> str:
        return f"all {self.states:,} states" if self.complete else f"{self.states:,} states"


def explore(
    actors: Sequence[Actor], world: World, judge: Judge, faults: Faults, *, most: int | None = None
) -> Explored:
    """Play all schedules, the short ones first, or so many that ``most`` states were seen.

    The judge is called on every state in which no more processes are under way than may crash.
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
                came[following] = (state, move[1])
                waiting.append(following)
    return explored


def wander(
    actors: Sequence[Actor], world: World, judge: Judge, faults: Faults, *, random: Random, schedules: int
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
            came.setdefault(state, (before, move[1]))
            explored.steps += 1
    return explored


def _violates(graph: Graph, judge: Judge, came: Came, state: State, explored: Explored) -> bool:
    """Write down which promise a state breaks, if any, and the schedule that leads there."""
    if graph.under_way(state) > graph.faults.crashes:
        return False
    broken = judge.judge(graph.world, graph.worlds.values[state.world], graph.runs(state))
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


# --- what a suspended protocol will do depends on where it stands and on its variables: a value for both

_PLAIN = (str, bytes, int, float, bool, type(None), Enum, date, timedelta)
# What is distinguished by its identity stays alive, so that no other object gets its address.
_kept: dict[int, Any] = {}
# Of what is looked at now: frames share most of it, and each is looked at once. It is kept, as above.
_seen: dict[int, tuple[Any, Hashable]] = {}
_ways: dict[type, Callable[[Any], Hashable]] = {}


def _fingerprint(value: Any) -> Hashable:
    """Return a value that is equal for two suspended protocols only if they go on alike.

    It sees variables, not the hidden state of iterators and context managers; a loop's variable must tell
    where the loop stands. The explorer checks what it takes for the same against that.
    """
    _seen.clear()
    return _each((value,))[0]


def _way(kind: type) -> Callable[[Any], Hashable]:
    """Return what takes the fingerprints of a class's instances."""
    if issubclass(kind, _PLAIN):
        return _itself
    for kinds, parts in _PARTS:
        if issubclass(kind, kinds):
            return lambda value: (kind, parts(value))
    if is_dataclass(kind):
        names = [each.name for each in fields(kind)]
        return lambda value: (kind, _each([getattr(value, name) for name in names]))
    return lambda value: (kind, _identity(value))


def _itself(value: Any) -> Hashable:
    plain: Hashable = value
    return plain


def _identity(value: Any) -> int:
    _kept[id(value)] = value
    return id(value)


def _each(values: Iterable[Any]) -> tuple[Hashable, ...]:
    found = []
    for value in values:
        kind = type(value)
        way = _ways.get(kind)
        if way is None:
            way = _ways[kind] = _way(kind)
        if way is _itself:  # as most are: a call for each would be most of the time
            found.append(value)
            continue
        seen = _seen.get(id(value))
        if seen is None:
            seen = _seen[id(value)] = value, way(value)
        found.append(seen[1])
    return tuple(found)


def _items(values: dict[Any, Any]) -> Hashable:
    return frozenset(zip(_each(values), _each(values.values()), strict=True))


def _function(value: FunctionType) -> Hashable:
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    return value.__code__, _each([*cells, value.__defaults__])


def _frames(protocol: GeneratorType[Any, Any, Any]) -> Hashable:
    found: list[Hashable] = []
    link: Any = protocol
    while isinstance(link, GeneratorType) and link.gi_frame is not None:
        frame = link.gi_frame
        names = {name: value for name, value in frame.f_locals.items() if value is not link.gi_yieldfrom}
        found.append((link.gi_code, frame.f_lasti, _items(names)))
        link = link.gi_yieldfrom
    return tuple(found)


_PARTS: tuple[tuple[Any, Callable[[Any], Hashable]], ...] = (
    (GeneratorType, _frames),
    ((tuple, list), _each),
    ((set, frozenset), lambda value: frozenset(_each(value))),
    (dict, _items),
    (BaseException, lambda error: (_each(error.args), _items(error.__dict__))),
    (InMemory, lambda body: body.data),
    (FunctionType, _function),
    (MethodType, lambda method: (method.__func__.__code__, _each((method.__self__,)))),
    (count, repr),
)
