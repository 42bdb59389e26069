"""Processes that take instants from one source, and record when."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any, NamedTuple

import putifabsent

__all__ = ["Taken", "Taking", "taken_by"]


class Taking(NamedTuple):
    """How often each process asks, for how many instants at once, and with what options of the clock."""

    calls: int
    at_once: int = 1
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


class Taken(NamedTuple):
    """One call.

    Attributes
    ----------
    process
        Whose.
    begun, ended
        Nanoseconds, by the machine's steady clock, which all its processes share.
    instants
        What it got.
    """

    process: int
    begun: int
    ended: int
    instants: list[str]


def taken_by(processes: int, source: str, taking: Taking) -> list[Taken]:
    """Return what all calls of so many processes got, which begin together."""
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(processes)
    with context.Pool(processes, _begin, (gate,)) as pool:
        asked = [(number, source, taking) for number in range(processes)]
        return [taken for each in pool.starmap(_take, asked, chunksize=1) for taken in each]


_gate: Any = None


def _begin(gate: Any) -> None:
    global _gate  # noqa: PLW0603 - a pool hands nothing else on
    _gate = gate


def _take(process: int, source: str, taking: Taking) -> list[Taken]:
    clock = putifabsent.clock(source, **taking.options)
    _gate.wait(60)
    taken = []
    for _ in range(taking.calls):
        begun = time.monotonic_ns()
        instants = clock.instants(taking.at_once) if taking.at_once > 1 else [clock.instant()]
        taken.append(Taken(process, begun, time.monotonic_ns(), instants))
    return taken
