"""Writers that are killed at a chosen step of their own code, like a machine that loses its power.

Between any two steps the writer can die. A step of a :class:`Will` is one line that a store's modules
execute.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from types import FrameType

    from putifabsent.backends.base import Store

_SECONDS = 60
_IDLE_SECONDS = 3600


def die() -> None:
    """Die."""
    os.kill(os.getpid(), signal.SIGKILL)


class Doom(Protocol):
    """What a doomed writer is to do."""

    def live(self, make: Callable[[], Store], places: frozenset[str], last: int) -> int:
        """Do it, and return how many steps that took; :func:`die` before the ``last``."""


class Will(NamedTuple):
    """What a doomed writer is to do with a store before it dies."""

    work: Callable[[Store], object]  # it must pickle

    def live(self, make: Callable[[], Store], places: frozenset[str], last: int) -> int:
        taken, counting = 0, False

        def step(_: FrameType, event: str, __: object) -> Any:
            nonlocal taken
            if event == "line" and counting:
                taken += 1
                if taken == last:
                    die()
            return step

        def enter(frame: FrameType, _: str, __: object) -> Any:
            module = frame.f_globals.get("__name__")
            return step if {module, f"{module}:{frame.f_code.co_name}"} & places else None

        # Before the store is made: its own threads are traced from their first line only.
        threading.settrace(enter)
        sys.settrace(enter)
        store = make()
        counting = True
        self.work(store)
        return taken


class Doomed(NamedTuple):
    """Starts writers that die, each with a store of its own."""

    fork: Callable[[Doom, int], tuple[int, int | None]]
    """Has a writer live, up to a step (from 1): returns how many it took, and its exit code."""

    def steps(self, will: Doom) -> int:
        """Let a writer live, and return how many steps it took."""
        steps, code = self.fork(will, 0)
        if code != 0:
            raise RuntimeError(f"a writer that was to live ended with {code}")
        return steps

    def die(self, will: Doom, step: int) -> int | None:
        """Kill a writer just before it takes ``step`` (from 1), and return its exit code."""
        return self.fork(will, step)[1]


@contextmanager
def doomed(make: Callable[[], Store], places: Sequence[str] = ()) -> Iterator[Doomed]:
    """Give what starts doomed writers, each with a store of its own; what makes that must pickle.

    Lines in ``places`` are steps of a :class:`Will`: full names of modules, or ``"module:function"``.

    A fresh (spawned) process imports what the store needs, uses none of it, and forks each writer: so a
    writer costs a fork, and inherits neither locks nor connections.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as nursery:
        steps_in = frozenset(places)
        yield Doomed(lambda will, step: nursery.submit(_fork, make, steps_in, will, step).result())


def _fork(make: Callable[[], Store], places: frozenset[str], will: Doom, step: int) -> tuple[int, int | None]:
    signal.alarm(_IDLE_SECONDS)  # whoever wants writers may have been killed, and not be heard of again
    context = multiprocessing.get_context("fork")
    taken = context.RawValue("q", 0)

    def live() -> None:
        signal.alarm(_SECONDS)
        taken.value = will.live(make, places, step)
        os._exit(0)  # whatever threads the store has

    writer = context.Process(target=live)
    writer.start()
    writer.join()
    return taken.value, writer.exitcode
