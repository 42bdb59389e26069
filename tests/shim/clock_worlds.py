"""Processes that take instants, in any interleaving, in a world whose time only a test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone, tzinfo
from typing import TYPE_CHECKING, Any

from putifabsent.backends.registries import (
    Acquired,
    Advanced,
    Counter,
    Free,
    Held,
    Lock,
    Maybe,
    Released,
    TryAgain,
)
from putifabsent.clocks import LocalCounter
from putifabsent.shim.requests import Pause, Sleep, perform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from putifabsent.backends.registries import AcquireOutcome, AdvanceOutcome, ReleaseOutcome
    from putifabsent.shim.requests import Protocol

START = 1_800_000_000_000
"""Milliseconds since 1970."""

NO_STORE: Any = None
"""What requests of counters and locks are performed on."""

LOST = ConnectionResetError("the answer was lost")


def millis_of(instant: str, zone: tzinfo | None = timezone.utc) -> int:
    """Read an instant as Python does: milliseconds since 1970, of two such times the first."""
    at = datetime.strptime(f"{instant}000", "%Y%m%d%H%M%S%f").replace(tzinfo=zone)
    return round(at.timestamp() * 1000)


@dataclass
class World:
    """True time, in seconds since :data:`START`."""

    now: float = 0.0

    @property
    def millis(self) -> int:
        """It, in milliseconds since 1970."""
        return START + int(self.now * 1000)


@dataclass
class Host:
    """A machine: a steady clock, and a wall clock that may be wrong, and is mended.

    Attributes
    ----------
    off
        Seconds by which the wall clock differs from the true time; so it may.
    wrong
        Seconds by which it is wrong beyond that, each until a moment of the world.
    """

    world: World
    off: float = 0.0
    wrong: tuple[tuple[float, float], ...] = ()

    @property
    def is_mended(self) -> bool:
        """Whether the wall clock is right, and stays so."""
        return all(until <= self.world.now for until, _ in self.wrong)

    def wall(self) -> float:
        """Seconds since 1970, as it has them."""
        wrong = next((by for until, by in self.wrong if self.world.now < until), 0.0)
        return START / 1000 + self.world.now + self.off + wrong

    def counter(self) -> LocalCounter:
        """Return the counter of a process that starts there now."""
        return LocalCounter(lambda: int(self.wall() * 10**9), lambda: int(self.world.now * 10**9))


class Server(Counter):
    """A counter behind a network that loses answers, with a clock of its own."""

    forgets = False

    def __init__(self, world: World, draw: Random | None = None, *, behind: int = 0) -> None:
        self.world = world
        self.draw = draw
        self.behind = behind
        self.last = 0
        self.asked: list[tuple[int, int]] = []

    def clock(self) -> int:
        """Milliseconds, as it has them."""
        return self.world.millis - self.behind

    def advance(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        self.asked.append((floor, count))
        fate = self.draw.random() if self.draw else 1.0
        if fate < 0.1:
            return TryAgain(LOST)
        if fate < 0.2:
            return Maybe(LOST)
        self.last = max(self.last, floor) + count
        return Maybe(LOST) if fate < 0.3 else Advanced(self.last, self.clock())

    def identity(self) -> str:
        return "a server"


class OneLock(Lock):
    """A lock that can be lost at any time, unnoticed, and whose answers can be."""

    def __init__(self, draw: Random, *, loses: bool = True) -> None:
        self.draw = draw
        self.loses = loses
        self.owner: str | None = None

    def _lost(self) -> bool:
        if not self.loses:
            return False
        if self.draw.random() < 0.1:
            self.owner = None
        return self.draw.random() < 0.1

    def acquire(self, key: str, owner: str, lease: float) -> AcquireOutcome:
        lost = self._lost()
        had, self.owner = self.owner, self.owner or owner
        if lost:
            return Maybe(LOST)
        return Acquired() if had is None else Held(had)

    def release(self, key: str, owner: str) -> ReleaseOutcome:
        lost, had = self._lost(), self.owner
        if had == owner:
            self.owner = None
        if lost:
            return Maybe(LOST)
        return Released() if had == owner else Free() if had is None else Held(had)

    def identity(self) -> str:
        return "a lock"


@dataclass(frozen=True)
class Taken:
    """One call: the steps it began after and ended before, what it got, and when.

    ``right`` says whether its host's clock was right when it had waited for the last time.
    """

    begun: int
    ended: int
    numbers: Sequence[int]
    at: float
    right: bool = True


@dataclass
class Process:
    """Makes one call after the other, each step when it is its turn."""

    world: World
    call: Callable[[], Protocol[Sequence[int]]]
    left: int
    host: Host | None = None
    ready: float = 0.0
    taken: list[Taken] = field(default_factory=list)
    _steps: Any = None
    _request: Any = None
    _begun: int = 0
    _right: bool = True
    _waited: bool = False

    def step(self, number: int) -> None:
        """Perform one request."""
        if self._steps is None:
            self._steps, self._begun = self.call(), number
            self._request = next(self._steps)
            return
        request = self._request
        outcome: Any = True
        if self._waited:
            self._right = self.host is None or self.host.is_mended
        self._waited = isinstance(request, Sleep)
        if isinstance(request, Sleep):
            self.ready = self.world.now + request.seconds
        elif isinstance(request, Pause):
            self.ready = self.world.now + 0.05
        else:
            outcome = perform(request, NO_STORE)
        try:
            self._request = self._steps.send(outcome)
        except StopIteration as end:
            # What is waited for ends only then.
            at = max(self.ready, self.world.now)
            self.taken.append(Taken(self._begun, number, end.value, at, self._right))
            self._steps, self.left = None, self.left - 1


def play(world: World, processes: list[Process], draw: Random) -> list[Taken]:
    """Let them take turns, by chance, until all calls are answered."""
    number = 0
    while living := [each for each in processes if each.left]:
        able = [each for each in living if each.ready <= world.now]
        if not able:
            world.now = min(each.ready for each in living)
            continue
        number += 1
        draw.choice(able).step(number)
        world.now += draw.choice((0.0, 0.0001, 0.001, 0.02))
    return [taken for each in processes for taken in each.taken]


def unique(taken: list[Taken]) -> bool:
    """Whether no number was given twice."""
    numbers = [number for each in taken for number in each.numbers]
    return len(set(numbers)) == len(numbers)


def in_order(taken: list[Taken]) -> bool:
    """Whether every call that begins after another was answered has higher numbers."""
    highest, ended = 0, sorted(taken, key=lambda each: each.ended)
    for each in sorted(taken, key=lambda each: each.begun):
        while ended and ended[0].ended < each.begun:
            highest = max(highest, ended.pop(0).numbers[-1])
        if each.numbers[0] <= highest:
            return False
    return True
