"""Runs a protocol against a store, synchronously or asynchronously, until its deadline.

The drivers perform requests and keep the clock; they decide nothing. The schedule of pauses is tenacity's.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, TypeVar

from putifabsent.backends.base import Staged, Store
from putifabsent.shim.requests import Both, Pause, Protocol, Request, Since, Sleep, perform, perform_async

T = TypeVar("T")
Step = TypeVar("Step")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0


def run(
    protocol: Protocol[T], store: Store, deadline: float, note: Callable[[Request], object] | None = None
) -> T:
    """Run a fresh ``protocol`` to its end.

    No further attempt is begun after ``deadline`` seconds: from now, and, since what decides is sent only
    then, from the end of the first staging. A request under way is cut off by the store's own time-out.
    ``note`` is called with each request, before it is performed.
    """
    first_staging, began, first_sent = True, time.monotonic(), asleep_too()

    def step(request: Request) -> object:
        nonlocal first_staging, began, first_sent
        if note is not None:
            note(request)
        if isinstance(request, (Pause, Sleep)):
            seconds = _seconds(request, began, deadline)
            if seconds is not None:
                time.sleep(seconds)
            return seconds is not None
        if isinstance(request, Since):
            return asleep_too() - first_sent
        if isinstance(request, Both):
            return _both(request, store)
        outcome = perform(request, store)
        if first_staging and isinstance(outcome, Staged):
            first_staging, began, first_sent = False, time.monotonic(), asleep_too()
        return outcome

    return walk(protocol, step)


async def run_async(
    protocol: Protocol[T], store: Store, deadline: float, note: Callable[[Request], object] | None = None
) -> T:
    """Run ``protocol`` to its end, asynchronously; as :func:`run`.

    A cancellation goes through the protocol, too, and stays a cancellation.
    """
    first_staging, began, first_sent = True, time.monotonic(), asleep_too()

    async def step(request: Request) -> object:
        nonlocal first_staging, began, first_sent
        if note is not None:
            note(request)
        if isinstance(request, (Pause, Sleep)):
            seconds = _seconds(request, began, deadline)
            if seconds is not None:
                await asyncio.sleep(seconds)
            return seconds is not None
        if isinstance(request, Since):
            return asleep_too() - first_sent
        if isinstance(request, Both):
            return await _both_async(request, store)
        outcome = await perform_async(request, store)
        if first_staging and isinstance(outcome, Staged):
            first_staging, began, first_sent = False, time.monotonic(), asleep_too()
        return outcome

    return await walk_async(protocol, step)


def walk(steps: Generator[Step, Any, T], perform: Callable[[Step], object]) -> T:
    """Perform what a generator yields, one after the other, until it ends.

    Errors, interruptions too, go to the generator, which knows what had been done.
    """
    resume: Callable[[], Step] = partial(next, steps)
    while True:
        try:
            while True:  # in here also between two steps
                resume = partial(steps.send, perform(resume()))
        except StopIteration as end:
            value: T = end.value
            return value
        except BaseException as error:
            if getgeneratorstate(steps) == GEN_CLOSED:  # it has ended by it
                del resume  # or its error holds this frame, and that the error, and all that was under way
                raise
            resume = partial(steps.throw, error)


async def walk_async(steps: Generator[Step, Any, T], perform: Callable[[Step], Awaitable[object]]) -> T:
    """:func:`walk`, asynchronously."""
    resume: Callable[[], Step] = partial(next, steps)
    while True:
        try:
            while True:
                resume = partial(steps.send, await perform(resume()))
        except StopIteration as end:
            value: T = end.value
            return value
        except BaseException as error:
            if getgeneratorstate(steps) == GEN_CLOSED:
                del resume
                raise
            resume = partial(steps.throw, error)


def asleep_too() -> float:
    """Return the seconds of a clock that goes on while the machine sleeps, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _both(both: Both, store: Store) -> tuple[object, object]:
    """Perform the second in a thread meanwhile, where there is a network to wait for."""
    second: list[Any] = []
    failed: list[BaseException] = []

    def look() -> None:
        try:
            second.append(perform(both.second, store))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            failed.append(error)

    thread = threading.Thread(target=look, daemon=True)
    if store.endpoint() is None or not _started(thread):
        return perform(both.first, store), perform(both.second, store)
    first = perform(both.first, store)
    thread.join()
    for error in failed:
        raise error
    return first, second[0]


def _started(thread: threading.Thread) -> bool:
    try:
        thread.start()
    except RuntimeError:  # there are too many, or the interpreter is on its way out
        return False
    return True


async def _both_async(both: Both, store: Store) -> tuple[object, object]:
    second = asyncio.ensure_future(perform_async(both.second, store))
    try:
        return await perform_async(both.first, store), await second
    finally:
        second.cancel()


def _seconds(wanted: Pause | Sleep, began: float, deadline: float) -> float | None:
    """Return the seconds to wait, or None where the deadline, or a pause's share of it, comes first."""
    if isinstance(wanted, Sleep):
        return wanted.seconds if time.monotonic() + wanted.seconds < began + deadline else None
    end = began + wanted.share * deadline
    left = end - time.monotonic()
    # Imported here, for a creation that is answered at once needs no schedule.
    from tenacity import RetryCallState, Retrying, wait_random_exponential

    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = wanted.attempt
    seconds = wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE)(state)
    if wanted.cut and left > 0:
        return min(seconds, left)
    return seconds if time.monotonic() + seconds < end else None
