"""A lock that is left alone for a while once it was lost, so that nobody waits for it name after name."""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from putifabsent.backends.registries import Lock, Maybe, Refused, TryAgain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from putifabsent.backends.registries import AcquireOutcome, ReleaseOutcome

_log = logging.getLogger(__name__)
T = TypeVar("T")

REST = 30.0  # seconds: six times what an answer of Redis is waited for


class RestingLock(Lock):
    """A lock that is called only as long as it answers: one for each mount, or for all of them.

    Refused, not reached, not answered: from then on it rests for :data:`REST` seconds, and whoever calls gets
    ``TryAgain`` at once. When the rest is over, one caller tries it. So a lock that is gone costs one caller
    its time-out, now and then, instead of every creation. The failure is warned of once, and once more only
    after it has answered.
    """

    def __init__(self, lock: Lock, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = lock
        self._clock = clock
        self._lost: Exception | None = None
        self._until = 0.0
        # Whoever pops it warns. No lock of Python's: a forked child might find it locked for ever.
        self._warnings = deque([True], maxlen=1)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._lock!r}>"

    def acquire(self, key: str, owner: str, lease: float) -> AcquireOutcome:
        return self._run(lambda: self._lock.acquire(key, owner, lease))

    async def acquire_async(self, key: str, owner: str, lease: float) -> AcquireOutcome:
        return await self._run_async(lambda: self._lock.acquire_async(key, owner, lease))

    def release(self, key: str, owner: str) -> ReleaseOutcome:
        """Ask, unless it rests: then the lease ends by itself."""
        return self._run(lambda: self._lock.release(key, owner))

    async def release_async(self, key: str, owner: str) -> ReleaseOutcome:
        return await self._run_async(lambda: self._lock.release_async(key, owner))

    def identity(self) -> str:
        return self._lock.identity()

    def check(self) -> None:
        """Ask whether it is there, and may be used, whether it rests or not."""
        self._lock.check()

    def _run(self, ask: Callable[[], T]) -> T | TryAgain | Maybe:
        if resting := self._resting():
            return resting
        try:
            return self._recorded(ask())
        except ValueError:
            raise  # the request makes no sense
        except Exception as error:  # noqa: BLE001 - whatever befalls a lock, no creation fails by it
            return self._recorded(Maybe(error))

    async def _run_async(self, ask: Callable[[], Awaitable[T]]) -> T | TryAgain | Maybe:
        if resting := self._resting():
            return resting
        try:
            return self._recorded(await ask())
        except ValueError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            return self._recorded(Maybe(error))

    def _resting(self) -> TryAgain | None:
        """Say so, if it rests; whoever finds the rest over tries it for all others."""
        if self._lost is None:
            return None
        now = self._clock()
        if now < self._until:
            return TryAgain(self._lost)
        self._until = now + REST
        return None

    def _recorded(self, outcome: T) -> T:
        if not isinstance(outcome, (TryAgain, Refused, Maybe)):
            if self._lost is not None:
                self._lost = None
                self._warnings.append(True)
                _log.info("the lock at %s answers again", self.identity())
            return outcome
        self._until = self._clock() + REST
        self._lost = outcome.error if isinstance(outcome, Refused) else outcome.cause
        with suppress(IndexError):
            self._warnings.pop()
            _log.warning(
                "the lock at %s is lost (%s): creations go on without it, and it is tried again in %g s. No "
                "name is at risk, for it decides nothing; writers who meet may need more requests",
                self.identity(),
                self._lost,
                REST,
            )
        return outcome
