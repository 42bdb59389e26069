"""Locks and counters in Redis, Valkey and what speaks their protocol, in scripts of a few lines.

Redis forgets: a primary that fails before its replica has heard of a lock is replaced by one that has not, so
a lock only decides who goes first; nor has it heard of a counter's step, and gives the same numbers again,
unless the floor has passed them. Losing a lock costs time alone, so one that is lost is left alone for a
while (:class:`RestingLock`).

redis-py's own ``execute_command`` sends again in several places. Here a connection is taken from its pool,
the command written once, and one answer read.

Sources: Redis' documentation of ``SET``, of scripting (a script runs alone and whole; its numbers are
doubles; since Redis 5 it may write after it has looked at the time), and of replication ("asynchronous by
default").
"""

from __future__ import annotations

import errno
import logging
import math
import re
import threading
import time
import uuid
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from redis import exceptions
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import Connection, ConnectionPool, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from putifabsent.backends import base
from putifabsent.backends.concurrency import PerProcess
from putifabsent.backends.registries import (
    LARGEST,
    Acquired,
    Advanced,
    Counter,
    Free,
    Held,
    Lock,
    Released,
    bad_identity,
    bad_step,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from putifabsent.backends.registries import AcquireOutcome, AdvanceOutcome, ReleaseOutcome
    from putifabsent.backends.registry_urls import RedisSettings

_log = logging.getLogger(__name__)
T = TypeVar("T")

_FORBIDDEN = (
    exceptions.AuthenticationError,
    exceptions.AuthenticationWrongNumberOfArgsError,
    exceptions.AuthorizationError,
    exceptions.NoPermissionError,
)
_PASSES = (
    exceptions.BusyLoadingError,
    exceptions.ClusterDownError,
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.TryAgainError,
)
_READ_ONLY = "READONLY "
# Older versions of redis-py know some of these only of a cluster, and none of a script's.
_PASSING_CODES = (
    *("BUSY ", "CLUSTERDOWN ", "MASTERDOWN ", "MISCONF ", "NOREPLICAS ", "OOM ", "TRYAGAIN ", "UNKILLABLE "),
    _READ_ONLY,
)
# What Redis before 7, and Dragonfly, say before the error of a command in a script.
_IN_A_SCRIPT = re.compile(r"Error running script .*?: -")


def outcome_of(error: Exception, where: str) -> base.TryAgain | base.Refused | base.Maybe:
    """Say what one failed command means."""
    # What looks for a cluster's nodes keeps to itself why it found none.
    denied = next((link for link in _links(error) if isinstance(link, _FORBIDDEN)), None)
    if denied is not None:
        return base.refused(errno.EACCES, f"Redis refuses: {denied}", where, denied)
    if isinstance(error, NotSentError):
        return base.TryAgain(error)
    # A sentinel's connection words a primary that has become a replica in its own way.
    if isinstance(error, _PASSES) or isinstance(error.__context__, exceptions.ReadOnlyError):
        return base.TryAgain(error)
    if isinstance(error, exceptions.ResponseError):
        if _message_of(error).startswith(_PASSING_CODES):
            return base.TryAgain(error)
        return base.refused(errno.EINVAL, f"Redis refuses: {error}", where, error)
    return base.Maybe(error)


def _message_of(error: exceptions.ResponseError) -> str:
    return _IN_A_SCRIPT.sub("", str(error), count=1)


def _links(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


_CONNECTIONS = 1024
_MOVES = 5


class NotSentError(Exception):
    """No byte of the command has left; the cause says why."""


class _Cluster:
    """Each key on the node that has its slot; a node that has it no more names another one."""

    def __init__(self, nodes: Sequence[tuple[str, int]], options: Mapping[str, Any]) -> None:
        self._nodes = nodes
        self._options = options
        self._found: Any = None
        self._finding = threading.Lock()

    def send(self, key: str, *command: str | int) -> Any:
        cluster = self._cluster()
        redirect: exceptions.AskError | None = None
        for _ in range(_MOVES):
            try:
                if redirect is None:
                    node = cluster.get_node_from_key(key)
                else:
                    host, port = redirect.host, redirect.port
                    node = cluster.get_node(host=host, port=port) or ClusterNode(host, port)
                pool = cluster.get_redis_connection(node).connection_pool
            except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
                raise NotSentError(str(error)) from error
            try:
                return _ask(pool, key, *command, asking=redirect is not None)
            except exceptions.MovedError:
                redirect = None
                self._look_again(cluster)
            except exceptions.AskError as error:
                redirect = error
            except (NotSentError, exceptions.RedisError):
                # The next command finds whoever has taken over.
                self._look_again(cluster)
                raise
        raise NotSentError("the slot of the key moved on and on")

    def _cluster(self) -> Any:
        with self._finding:
            if self._found is None:
                nodes = [ClusterNode(host, port) for host, port in self._nodes]
                try:
                    self._found = RedisCluster(startup_nodes=nodes, **self._options)
                except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
                    raise NotSentError(str(error)) from error
            return self._found

    def _look_again(self, cluster: Any) -> None:
        with self._finding:
            try:
                cluster.nodes_manager.initialize()
            except (exceptions.RedisError, exceptions.RedisClusterException, OSError):
                # Found anew by the next command, from the nodes that were given.
                self._found = None


def sender_of(settings: RedisSettings) -> Callable[..., Any]:
    """Return what sends a command, given its key and its words, once, and returns the answer.

    ``NotSentError``: nobody took the command; redis-py's ``ResponseError``: the server refused it, and
    changed nothing; its ``RedisError``: the answer was lost.
    """
    every: dict[str, Any] = {
        "socket_timeout": settings.timeout,
        "socket_connect_timeout": settings.timeout,
        "retry": Retry(NoBackoff(), 0),
        # The newer protocol's servers may send without a request.
        "protocol": 2,
    }
    secure = {"ssl": True, **settings.tls} if settings.is_tls else {}
    data = {
        **every,
        "username": settings.username,
        "password": settings.password,
        "max_connections": _CONNECTIONS,
    }
    if settings.topology == "cluster":
        return _Cluster(settings.hosts, {**data, **secure}).send
    data["db"] = settings.db
    if settings.topology == "sentinel":
        login = {"username": settings.sentinel_username, "password": settings.sentinel_password}
        sentinel = Sentinel(list(settings.hosts), sentinel_kwargs={**every, **login, **secure})
        return partial(_ask, SentinelConnectionPool(settings.service, sentinel, **data, **secure))
    if settings.topology == "socket":
        where: dict[str, Any] = {"connection_class": UnixDomainSocketConnection, "path": settings.path}
    else:
        kind = SSLConnection if settings.is_tls else Connection
        host, port = settings.hosts[0]
        where = {"connection_class": kind, "host": host, "port": port, **settings.tls}
    return partial(_ask, ConnectionPool(**where, **data))


def _ask(pool: Any, _: str, *command: str | int, asking: bool = False) -> Any:
    """Send a command, whatever its key, by a connection of the pool."""
    try:
        connection = pool.get_connection()
    except (exceptions.RedisError, OSError) as error:
        raise NotSentError(str(error)) from error
    try:
        if asking:
            connection.send_command("ASKING", check_health=False)
            connection.read_response()
        connection.send_command(*command, check_health=False)
        return connection.read_response()
    except exceptions.ResponseError as error:
        if isinstance(error, exceptions.ReadOnlyError) or _message_of(error).startswith(_READ_ONLY):
            # Who was a primary keeps its connections: new ones find who has its address now.
            connection.disconnect()
            pool.disconnect(inuse_connections=False)
        raise
    except BaseException:
        # An answer may still come, which the next command must not take for its own.
        connection.disconnect()
        raise
    finally:
        pool.release(connection)


PREFIX = "putifabsent:lock:"  # what every key of a lock begins with: a Redis may serve other programs, too

# A script runs alone and whole, and is one request. Each answers {0 for done, 1 for held, 2 for free; who}.
_ACQUIRE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return {0} end
return {1, redis.call('GET', KEYS[1])}
"""
_IF_MINE = """
local by = redis.call('GET', KEYS[1])
if not by then return {2} end
if by ~= ARGV[1] then return {1, by} end
"""
_RELEASE = f"{_IF_MINE}redis.call('DEL', KEYS[1])\nreturn {{0}}\n"

_DONE, _HELD, _FREE = range(3)

_CHECK_LEASE = 10.0


class _InRedis:
    """What is in one Redis, or in what speaks its protocol."""

    def __init__(self, settings: RedisSettings) -> None:
        self._shown = settings.shown
        self._sender = PerProcess(lambda: sender_of(settings))

    def identity(self) -> str:
        return self._shown


class RedisLock(_InRedis, Lock):
    """Locks in one Redis, or what speaks its protocol."""

    def acquire(self, key: str, owner: str, lease: float) -> AcquireOutcome:
        """``SET NX PX``; where it is held, who holds it, in the same answer."""
        outcome = self._run(_ACQUIRE, key, owner, _milliseconds(lease))
        return Acquired() if outcome is _DONE else outcome

    def release(self, key: str, owner: str) -> ReleaseOutcome:
        """Compare, and ``DEL``."""
        outcome = self._run(_RELEASE, key, owner)
        return Released() if outcome is _DONE else outcome

    def check(self) -> None:
        """Take a lock that nobody else asks for, and end it; OSError: it can't be reached, or used."""
        key, owner = f"check:{uuid.uuid4()}", str(uuid.uuid4())
        for outcome in (self.acquire(key, owner, _CHECK_LEASE), self.release(key, owner)):
            if isinstance(outcome, base.Refused):
                raise outcome.error
            if isinstance(outcome, (base.TryAgain, base.Maybe)):
                why = f"Redis did not answer, or not now: {outcome.cause}"
                raise ConnectionError(errno.EIO, why, self._shown) from outcome.cause

    def _run(self, script: str, key: str, owner: str, *milliseconds: int) -> Any:
        if refused := bad_identity(key, "key"):
            return refused
        name = f"{PREFIX}{key}"
        try:
            answer = self._sender()(name, "EVAL", script, 1, name, owner, *milliseconds)
        except (exceptions.RedisError, NotSentError, OSError) as error:
            return outcome_of(error, self._shown)
        code = answer[0]
        if code == _HELD:
            return Held(answer[1].decode(errors="replace"))
        return Free() if code == _FREE else _DONE


def _milliseconds(lease: float) -> int:
    if not 0.001 <= lease < math.inf:
        raise ValueError(f"a lease is some time, in seconds, not {lease!r}")
    return int(lease * 1000)


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

    def release(self, key: str, owner: str) -> ReleaseOutcome:
        """Ask, unless it rests: then the lease ends by itself."""
        return self._run(lambda: self._lock.release(key, owner))

    async def acquire_async(self, key: str, owner: str, lease: float) -> AcquireOutcome:
        return await self._in_thread(super().acquire_async(key, owner, lease))

    async def release_async(self, key: str, owner: str) -> ReleaseOutcome:
        return await self._in_thread(super().release_async(key, owner))

    def identity(self) -> str:
        return self._lock.identity()

    def _run(self, ask: Callable[[], T]) -> T | base.TryAgain | base.Maybe:
        if resting := self._resting():
            return resting
        try:
            return self._recorded(ask())
        except ValueError:
            raise  # the request makes no sense
        except Exception as error:  # noqa: BLE001 - whatever befalls a lock, no creation fails by it
            return self._recorded(base.Maybe(error))

    async def _in_thread(self, asking: Coroutine[Any, Any, T]) -> T | base.Maybe:
        try:
            return await asking
        except RuntimeError as error:  # no more threads
            return self._recorded(base.Maybe(error))

    def _resting(self) -> base.TryAgain | None:
        """Say so, if it rests; whoever finds the rest over tries it for all others."""
        if self._lost is None:
            return None
        now = self._clock()
        if now < self._until:
            return base.TryAgain(self._lost)
        self._until = now + REST
        return None

    def _recorded(self, outcome: T) -> T:
        if not isinstance(outcome, (base.TryAgain, base.Refused, base.Maybe)):
            if self._lost is not None:
                self._lost = None
                self._warnings.append(True)
                _log.info("the lock at %s answers again", self.identity())
            return outcome
        self._until = self._clock() + REST
        self._lost = outcome.error if isinstance(outcome, base.Refused) else outcome.cause
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


_COUNTER_PREFIX = "putifabsent:counter:"

_ADVANCE = f"""
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
last = math.max(last, tonumber(ARGV[1])) + tonumber(ARGV[2])
if last > {LARGEST} then return redis.error_reply('ERR the counter is at its end') end
redis.call('SET', KEYS[1], string.format('%.0f', last))
local time = redis.call('TIME')
return {{last, time[1] * 1000 + math.floor(time[2] / 1000)}}
"""


class RedisCounter(_InRedis, Counter):
    """Counters in one Redis, or what speaks its protocol."""

    forgets: ClassVar[bool] = True

    def advance(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """``EVAL``: ``GET``, the larger of it and the floor, ``SET``, ``TIME``."""
        if refused := bad_step(name, floor, count):
            return refused
        key = f"{_COUNTER_PREFIX}{name}"
        try:
            return Advanced(*self._sender()(key, "EVAL", _ADVANCE, 1, key, floor, count))
        except (exceptions.RedisError, NotSentError, OSError) as error:
            return outcome_of(error, self._shown)
