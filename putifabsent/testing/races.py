"""Races: many writers want each of many names at the same time; whose win was acknowledged.

A writer takes part through a *contender*: given a name and bytes, it prepares all that can be prepared
(it stages the bytes, it writes the source of a rename) and returns the one step that decides. All writers
take that step together, name by name.
"""

from __future__ import annotations

import math
import multiprocessing
import signal
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, TypeVar

from putifabsent.backends.base import (
    STATE_FOLDER,
    Created,
    Creation,
    Exists,
    InMemory,
    Refused,
    Staged,
    Store,
    TryAgain,
)
from putifabsent.shim.requests import Complete, Create, Discard, Request, Stage, perform

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")

Attempt: TypeAlias = Callable[[], None]
"""The step that decides: it returns for a win, and raises FileExistsError for a loss."""

Contender: TypeAlias = Callable[[str, bytes], Attempt]
"""Prepares one creation of a name from these bytes, and returns what is left to do."""

Ask: TypeAlias = Callable[[Request], Any]
"""Has a store perform a request, and returns the outcome."""

_GRACE = 10
_SENDS = 20


@dataclass(frozen=True, slots=True)
class Raced:
    """What came of one name."""

    name: str
    winners: tuple[int, ...]  # the writers, by number, whose creation was acknowledged
    losers: int  # how many got the answer that it exists
    errors: tuple[str, ...]  # what the others got


@dataclass(frozen=True, slots=True)
class Race:
    """What came of a race."""

    names: tuple[Raced, ...]  # each name's outcome, in the order of the race
    writers: int
    size: int  # bytes of each body
    seconds: float  # from the start of the first writer to the end of the last
    failures: tuple[str, ...] = ()  # processes that could not take part, and why

    @property
    def errors(self) -> tuple[str, ...]:
        """All that was neither a win nor a loss, with its name."""
        return (*self.failures, *(f"{raced.name}: {error}" for raced in self.names for error in raced.errors))

    def problems(self, read: Callable[[str], bytes | None] | None = None) -> list[str]:
        """Say what contradicts "exactly one winner, and its bytes"; an empty list is what one hopes for.

        ``read`` returns the bytes under a name, or None: a way round the code that was raced. Without it only
        the winners are counted.
        """
        found = list(self.failures)
        for raced in self.names:
            answered = len(raced.winners) + raced.losers + len(raced.errors)
            if answered != self.writers:
                found.append(
                    f"{raced.name}: {self.writers - answered} of {self.writers} writers had no answer"
                )
            if len(raced.winners) != 1:
                found.append(f"{raced.name}: {len(raced.winners)} winners: {sorted(raced.winners)}")
            elif read is not None and read(raced.name) != body_of(raced.name, raced.winners[0], self.size):
                found.append(f"{raced.name}: what can be read is not what its winner wrote")
        return found


def race(
    make: Callable[[], Any],
    names: Iterable[str],
    *,
    threads: int = 8,
    processes: int = 0,
    size: int = 64,
    seconds: float = 120.0,
) -> Race:
    """Have ``max(processes, 1) * threads`` writers create each name, all at the same time.

    ``make`` makes what a process writes through: a :class:`~putifabsent.backends.base.Store`, an fsspec
    filesystem, or a contender. It is called once a process; for other processes, which share nothing with
    this one, it must pickle. The names are full ones, none of which is there; their folders are. Bodies of
    ``size`` bytes differ by :func:`body_of`. After so many ``seconds`` what is not done counts as unanswered,
    and processes are killed.

    Nothing is raised for a store that has two winners: what is returned says so.
    """
    job = _Job(make, tuple(names), threads, size, seconds)
    began = time.monotonic()
    if processes:
        answers = _in_processes(job, processes)
    else:
        answers = [_write(job, 0, threading.Barrier(threads), began + seconds)]
    winners: defaultdict[str, list[int]] = defaultdict(list)
    errors: defaultdict[str, list[str]] = defaultdict(list)
    losers: defaultdict[str, int] = defaultdict(int)
    for name, writer, error in (each for answer in answers if isinstance(answer, list) for each in answer):
        if error is None:
            winners[name].append(writer)
        elif error:
            errors[name].append(error)
        else:
            losers[name] += 1
    return Race(
        tuple(Raced(name, tuple(winners[name]), losers[name], tuple(errors[name])) for name in job.names),
        max(processes, 1) * threads,
        size,
        time.monotonic() - began,
        tuple(f"process {number}: {why}" for number, why in enumerate(answers) if isinstance(why, str)),
    )


def body_of(name: str, writer: int, size: int) -> bytes:
    """Return the bytes that a writer creates a name with: ``size`` of them, like no other writer's."""
    line = f"{writer} wrote {name}\n".encode()
    return (line * (size // len(line) + 1))[: max(size, len(str(writer)) + 1)]


class _Outcome(NamedTuple):
    """What a writer's step returned: no error is a win, an empty one a loss."""

    name: str
    writer: int
    error: str | None


_Answer: TypeAlias = "list[_Outcome] | str"
"""What a process's writers got; or why it could not take part."""


class _Job(NamedTuple):
    """What each process of a race does."""

    make: Callable[[], Any]
    names: tuple[str, ...]
    threads: int
    size: int
    seconds: float


def _contender(made: Any) -> Contender:
    if isinstance(made, Store):
        return through_requests(lambda request: perform(request, made))
    contender: Contender = made if callable(made) else partial(_pipes, made)
    return contender


def _write(job: _Job, first: int, gate: threading.Barrier, ends: float) -> list[_Outcome]:
    """Have this process's writers create the names; the ``first`` is the number of the first of them."""
    contender = _contender(job.make())
    outcomes: list[_Outcome] = []

    def write(writer: int) -> None:
        try:
            for name in job.names:
                attempt, error = _tried(partial(contender, name, body_of(name, writer, job.size)))
                gate.wait(max(ends - time.monotonic(), 0.001))
                if attempt is not None:
                    _, error = _tried(attempt)
                outcomes.append(_Outcome(name, writer, error))
        except threading.BrokenBarrierError:
            return  # somebody's time is over: the rest is unanswered

    writers = [
        threading.Thread(target=write, args=(first + number,), daemon=True) for number in range(job.threads)
    ]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join(max(ends - time.monotonic(), 0.001))
    return list(outcomes)


def _tried(step: Callable[[], T]) -> tuple[T | None, str | None]:
    try:
        return step(), None
    except FileExistsError:
        return None, ""
    except Exception as error:  # noqa: BLE001 - a race reports what happened
        return None, f"{type(error).__name__}: {error}"


def _in_processes(job: _Job, processes: int) -> list[_Answer]:
    context, most = multiprocessing.get_context("spawn"), math.ceil(job.seconds) + _GRACE
    with ProcessPoolExecutor(1, context, signal.alarm, (most,)) as nursery:
        try:
            return nursery.submit(_fork_writers, job, processes).result()
        except BrokenProcessPool:
            return ["it died"] * processes


def _fork_writers(job: _Job, processes: int) -> list[_Answer]:
    """Fork the processes of a race from one that has imported what they need, and used none of it."""
    fork = multiprocessing.get_context("fork")
    gate, ends = fork.Barrier(processes), time.monotonic() + job.seconds
    writers = []
    for first in range(0, processes * job.threads, job.threads):
        reading, writing = fork.Pipe(duplex=False)
        writer = fork.Process(target=_take_part, args=(job, first, gate, writing))
        writer.start()
        writing.close()  # else those that are forked next keep it open when this one has died
        writers.append((writer, reading))
    try:
        return [_received(reading, ends - time.monotonic()) for _, reading in writers]
    finally:
        for writer, _ in writers:
            writer.kill()


def _received(reading: Connection, seconds: float) -> _Answer:
    try:
        answer: _Answer = reading.recv() if reading.poll(max(seconds, 0)) else "it was not ready in time"
    except EOFError:
        return "it died"
    return answer


def _take_part(job: _Job, first: int, processes: Any, writing: Connection) -> None:
    """Be one process of a race: its threads gather, then it waits for the other processes."""
    signal.alarm(math.ceil(job.seconds) + _GRACE)
    gather = threading.Barrier(job.threads, action=partial(processes.wait, job.seconds))
    try:
        writing.send(_write(job, first, gather, time.monotonic() + job.seconds))
    except Exception as error:  # noqa: BLE001 - the race says why this process could not take part
        processes.abort()
        writing.send(f"{type(error).__name__}: {error}")


# --- contenders


def creation_of(name: str, **extra: Any) -> Creation:
    """Return a fresh creation of ``name``, with the state folder beside it."""
    return Creation(str(uuid.uuid4()), str(uuid.uuid4()), f"{name.rpartition('/')[0]}/{STATE_FOLDER}", extra)


def through_requests(ask: Ask, *, mixed: bool = False) -> Contender:
    """Return a contender that asks a store itself, with no protocol above it.

    What decides is a create; if ``mixed``, that and the completion of a staged upload by turns.
    """
    turns = cycle((_creates, _completes) if mixed else (_creates,))
    # `next` on a cycle is one step, whatever threads there are.
    return lambda name, data: next(turns)(ask, name, data)


def _creates(ask: Ask, name: str, data: bytes) -> Attempt:
    request = Create(name, InMemory(data), creation_of(name))

    def attempt() -> None:
        for _ in range(_SENDS):
            outcome = ask(request)
            if not isinstance(outcome, TryAgain):
                break
        tell(name, outcome)

    return attempt


def _completes(ask: Ask, name: str, data: bytes) -> Attempt:
    request = Stage(name, InMemory(data), creation_of(name))

    def stage() -> Staged:
        staged = ask(request)
        return staged if isinstance(staged, Staged) else _fail(name, staged)

    first = stage()

    def attempt() -> None:
        staged = first
        for _ in range(_SENDS):
            outcome = ask(Complete(staged))
            if not isinstance(outcome, Created):
                ask(Discard(staged))
            if not isinstance(outcome, TryAgain):
                break
            staged = stage()
        tell(name, outcome)

    return attempt


def _pipes(fs: Any, name: str, data: bytes) -> Attempt:
    return partial(fs.pipe_file, name, data, mode="create")


def tell(name: str, outcome: object) -> None:
    """Tell a race what an outcome means: anything but a win and a loss is an error."""
    if isinstance(outcome, Exists):
        raise FileExistsError(name)
    if not isinstance(outcome, Created):
        _fail(name, outcome)


def _fail(name: str, outcome: object) -> NoReturn:
    cause = outcome.error if isinstance(outcome, Refused) else getattr(outcome, "cause", None)
    raise RuntimeError(f"{type(outcome).__name__} for {name}: {cause}") from cause
