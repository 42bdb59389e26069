"""Counters in Redis, Valkey and what speaks their protocol: a script of a few lines.

Redis forgets: a primary that fails before its replica has heard of a step is replaced by one that gives the
same numbers again, unless the floor has passed them. Sources: Redis' documentation of scripting (a script
runs alone and whole; its numbers are doubles; since Redis 5 it may write after it has looked at the time),
and of replication ("asynchronous by default").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from redis.exceptions import RedisError

from putifabsent.backends.counters import LARGEST, Advanced, Counter, bad_step
from putifabsent.backends.per_process import PerProcess
from putifabsent.backends.redis_servers import NotSentError, servers_of
from putifabsent.backends.redis_words import meaning
from putifabsent.backends.refusals import require_answer

if TYPE_CHECKING:
    from putifabsent.backends.counters import AdvanceOutcome
    from putifabsent.backends.redis_settings import RedisSettings

__all__ = ["RedisCounter"]

PREFIX = "putifabsent:counter:"
"""What every key of ours begins with: a Redis may serve other programs, too."""

_ADVANCE = f"""
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
last = math.max(last, tonumber(ARGV[1])) + tonumber(ARGV[2])
if last > {LARGEST} then return redis.error_reply('ERR the counter is at its end') end
redis.call('SET', KEYS[1], string.format('%.0f', last))
local time = redis.call('TIME')
return {{last, time[1] * 1000 + math.floor(time[2] / 1000)}}
"""


class RedisCounter(Counter):
    """Counters in one Redis, or what speaks its protocol.

    Parameters
    ----------
    settings
        Where it is.
    """

    kind: ClassVar[str] = "redis"
    forgets: ClassVar[bool] = True

    def __init__(self, settings: RedisSettings) -> None:
        self._shown = settings.shown
        self._servers = PerProcess(lambda: servers_of(settings))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._shown}>"

    def advance(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """``EVAL``: ``GET``, the larger of it and the floor, ``SET``, ``TIME``."""
        if refused := bad_step(name, floor, count):
            return refused
        key = f"{PREFIX}{name}"
        try:
            return Advanced(*self._servers().send(key, "EVAL", _ADVANCE, 1, key, floor, count))
        except (RedisError, NotSentError, OSError) as error:
            return meaning(error, self._shown)

    def identity(self) -> str:
        """Return the address, without credentials."""
        return self._shown

    def check(self) -> None:
        """Advance a counter of its own."""
        require_answer(self.advance("#check", 0), "Redis", self._shown)
