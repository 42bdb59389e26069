"""Locks in Redis, Valkey and what speaks their protocol: ``SET NX PX``, and three scripts of a few lines.

Redis forgets: a primary that fails before its replica has heard of a lock is replaced by one that has not.
So such a lock only decides who goes first. Sources: Redis' documentation of ``SET``, of scripting, and of
replication ("asynchronous by default").
"""

from __future__ import annotations

import math
import uuid
from typing import TYPE_CHECKING, Any, ClassVar

from redis.exceptions import RedisError

from putifabsent.backends.identities import bad_identity
from putifabsent.backends.per_process import PerProcess
from putifabsent.backends.redis_servers import NotSentError, servers_of
from putifabsent.backends.redis_words import meaning
from putifabsent.backends.refusals import require_answer
from putifabsent.backends.registries import Acquired, Free, Held, Lock, Released

if TYPE_CHECKING:
    from putifabsent.backends.redis_settings import RedisSettings
    from putifabsent.backends.registries import AcquireOutcome, ExtendOutcome, ReleaseOutcome

__all__ = ["RedisLock"]

PREFIX = "putifabsent:lock:"
"""What every key of ours begins with: a Redis may serve other programs, too."""

# A script runs alone and whole, and is one request. Each answers {0 for done, 1 for held, 2 for free; who;
# milliseconds}.
_TOLD = "return {1, redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}"
_ACQUIRE = f"""
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return {{0}} end
{_TOLD}
"""
_IF_MINE = f"""
local by = redis.call('GET', KEYS[1])
if not by then return {{2}} end
if by ~= ARGV[1] then {_TOLD} end
"""
_EXTEND = f"{_IF_MINE}redis.call('PEXPIRE', KEYS[1], ARGV[2])\nreturn {{0}}\n"
_RELEASE = f"{_IF_MINE}redis.call('DEL', KEYS[1])\nreturn {{0}}\n"

_DONE, _HELD, _FREE = range(3)

_CHECK_LEASE = 10.0


class RedisLock(Lock):
    """Locks in one Redis, or what speaks its protocol.

    Parameters
    ----------
    settings
        Where it is.
    """

    kind: ClassVar[str] = "redis"

    def __init__(self, settings: RedisSettings) -> None:
        self._shown = settings.shown
        self._servers = PerProcess(lambda: servers_of(settings))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._shown}>"

    def acquire(self, key: str, owner: str, lease: float) -> AcquireOutcome:
        """``SET NX PX``; where it is held, who holds it and for how long, in the same answer."""
        told = self._told(_ACQUIRE, key, owner, _milliseconds(lease))
        return Acquired() if told is _DONE else told

    def extend(self, key: str, owner: str, lease: float) -> ExtendOutcome:
        """Compare, and ``PEXPIRE``."""
        told = self._told(_EXTEND, key, owner, _milliseconds(lease))
        return Acquired() if told is _DONE else told

    def release(self, key: str, owner: str) -> ReleaseOutcome:
        """Compare, and ``DEL``."""
        told = self._told(_RELEASE, key, owner)
        return Released() if told is _DONE else told

    def identity(self) -> str:
        """Return the address, without credentials."""
        return self._shown

    def check(self) -> None:
        """Take a lock that nobody else asks for, and end it."""
        key, owner = f"check:{uuid.uuid4()}", str(uuid.uuid4())
        for outcome in (self.acquire(key, owner, _CHECK_LEASE), self.release(key, owner)):
            require_answer(outcome, "Redis", self._shown)

    def _told(self, script: str, key: str, owner: str, *milliseconds: int) -> Any:
        if refused := bad_identity(key, "key"):
            return refused
        name = f"{PREFIX}{key}"
        try:
            answer = self._servers().send(name, "EVAL", script, 1, name, owner, *milliseconds)
        except (RedisError, NotSentError, OSError) as error:
            return meaning(error, self._shown)
        said = answer[0]
        if said == _HELD:
            return Held(answer[1].decode(errors="replace"), answer[2] / 1000 if answer[2] >= 0 else math.inf)
        return Free() if said == _FREE else _DONE


def _milliseconds(lease: float) -> int:
    if not 0.001 <= lease < math.inf:
        raise ValueError(f"a lease is some time, in seconds, not {lease!r}")
    return int(lease * 1000)
