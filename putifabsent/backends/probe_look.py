"""How a probe looks at names, waits, and lets many begin at once."""

from __future__ import annotations

import threading
import time
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from putifabsent.backends.base import Absent, Found, Got, Maybe, Refused, TryAgain
from putifabsent.backends.probe_evidence import Seen, brief
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from putifabsent.backends.base import Store

__all__ = ["ENOUGH", "Patience", "error_of", "look", "together", "unless_not_the_store_s"]

ENOUGH = 8
"""Once a fault was found, so many races say how often."""

T = TypeVar("T")

_TRIES = 5
_FIRST_PAUSE = 0.05
# Rights, a missing bucket, a path that can't be: they say nothing about what the store guarantees.
_NOT_THE_STORES = (
    PermissionError,
    FileNotFoundError,
    NotADirectoryError,
    IsADirectoryError,
    ConfigError,
)


class Patience:
    """For so many seconds, and a few tries of the same."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be begun."""
        return time.monotonic() > self._ends

    def may_try_again(self, number: int) -> bool:
        """Wait after try ``number`` (from 0), and say whether another one is to follow."""
        if number + 1 >= _TRIES or self.is_over:
            return False
        time.sleep(_FIRST_PAUSE * 2**number)
        return True

    def certainly(self, ask: Callable[[], T]) -> T:
        """Ask until the answer is certain, a few times at most; only what may be asked twice."""
        for number in count():
            outcome = ask()
            if not isinstance(outcome, (TryAgain, Maybe)) or not self.may_try_again(number):
                return outcome
        raise AssertionError


def look(store: Store, name: str, patience: Patience) -> Seen:
    """Read a name; a store that can't be read can't be probed."""
    for number in count():
        seen = store.head(name)
        if isinstance(seen, Absent):
            return Seen(None, None)
        got = store.get(name) if isinstance(seen, Found) else seen
        if isinstance(seen, Found) and isinstance(got, Got):
            return Seen(seen.holder.token, got.data)
        if isinstance(got, Refused):
            raise got.error
        if not patience.may_try_again(number):
            cause = got.cause if isinstance(got, TryAgain) else None
            why = f"the store can't be probed, for it does not answer: {brief(cause)}"
            raise ConnectionError(why) from cause
    raise AssertionError


def together(pool: ThreadPoolExecutor, steps: Sequence[Callable[[], T]]) -> list[T]:
    """Take all steps at once, each in a thread of its own, and return what came of them."""
    barrier = threading.Barrier(len(steps))

    def take(step: Callable[[], T]) -> T:
        barrier.wait()
        return step()

    try:
        return list(pool.map(take, steps))
    except BaseException:
        # Interrupted: whoever waits for the others would wait for ever.
        barrier.abort()
        raise


def unless_not_the_store_s(outcome: T) -> T:
    """Return ``outcome``, or raise what it was refused for if that is the mount's affair."""
    if isinstance(outcome, Refused) and isinstance(outcome.error, _NOT_THE_STORES):
        raise outcome.error
    return outcome


def error_of(outcome: object) -> Exception:
    """Return the exception that an outcome tells of."""
    error = getattr(outcome, "error", None) or getattr(outcome, "cause", None)
    return error if isinstance(error, Exception) else OSError(f"it answered {type(outcome).__name__}")
