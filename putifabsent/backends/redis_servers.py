"""Ways to the Redis server that holds a key: one server, the primary that sentinels name, a cluster.

redis-py's own ``execute_command`` sends again in several places. Here a connection is taken from its pool,
the command written once, and one answer read.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import Connection, ConnectionPool, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import (
    AskError,
    MovedError,
    RedisClusterException,
    RedisError,
    ResponseError,
)
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from putifabsent.backends.redis_settings import RedisSettings

__all__ = ["NotSentError", "Servers", "servers_of"]

_CONNECTIONS = 1024
_MOVES = 5


class NotSentError(Exception):
    """No byte of the command has left; the cause says why."""


class Servers(ABC):
    """Sends a command about one key to the server that holds it, once."""

    @abstractmethod
    def send(self, key: str, *command: str | int) -> Any:
        """Return the answer.

        Raises
        ------
        NotSentError
            Nobody took the command.
        redis.exceptions.ResponseError
            The server refused the command, and changed nothing.
        redis.exceptions.RedisError
            The answer was lost.
        """


class _Pool(Servers):
    """One server, or whichever one the pool's own connections find."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def send(self, key: str, *command: str | int) -> Any:
        del key
        return _ask(self._pool, command)


class _Cluster(Servers):
    """Each key on the node that has its slot; a node that has it no more names another one."""

    def __init__(self, nodes: Sequence[tuple[str, int]], options: Mapping[str, Any]) -> None:
        self._nodes = nodes
        self._options = options
        self._found: Any = None
        self._finding = threading.Lock()

    def send(self, key: str, *command: str | int) -> Any:
        cluster = self._cluster()
        asked: AskError | None = None
        for _ in range(_MOVES):
            try:
                node = cluster.get_node_from_key(key) if asked is None else _named(cluster, asked)
                pool = cluster.get_redis_connection(node).connection_pool
            except (RedisError, RedisClusterException, OSError) as error:
                raise NotSentError(str(error)) from error
            try:
                return _ask(pool, command, asking=asked is not None)
            except MovedError:
                asked = None
                self._look_again(cluster)
            except AskError as error:
                asked = error
            except RedisError:
                # The next command finds whoever has taken over.
                self._look_again(cluster)
                raise
            except NotSentError:
                self._look_again(cluster)
                raise
        raise NotSentError("the slot of the key moved on and on")

    def _cluster(self) -> Any:
        with self._finding:
            if self._found is None:
                nodes = [ClusterNode(host, port) for host, port in self._nodes]
                try:
                    self._found = RedisCluster(startup_nodes=nodes, **self._options)
                except (RedisError, RedisClusterException, OSError) as error:
                    raise NotSentError(str(error)) from error
            return self._found

    def _look_again(self, cluster: Any) -> None:
        with self._finding:
            try:
                cluster.nodes_manager.initialize()
            except (RedisError, RedisClusterException, OSError):
                # Found anew by the next command, from the nodes that were given.
                self._found = None


def servers_of(settings: RedisSettings) -> Servers:
    """Return the way to the servers; nothing is asked of them yet."""
    timeouts = {"socket_timeout": settings.timeout, "socket_connect_timeout": settings.timeout}
    every: dict[str, Any] = {
        **timeouts,
        "retry": Retry(NoBackoff(), 0),
        # The newer protocol's servers may speak without being asked.
        "protocol": 2,
    }
    tls = dict(settings.tls)
    data = {
        **every,
        "username": settings.username,
        "password": settings.password,
        "max_connections": _CONNECTIONS,
    }
    if settings.topology == "cluster":
        return _Cluster(settings.hosts, {**data, **({"ssl": True, **tls} if settings.is_tls else {})})
    data["db"] = settings.db
    if settings.topology == "sentinel":
        secure = {"ssl": True, **tls} if settings.is_tls else {}
        login = {"username": settings.sentinel_username, "password": settings.sentinel_password}
        sentinel = Sentinel(list(settings.hosts), sentinel_kwargs={**every, **login, **secure})
        return _Pool(SentinelConnectionPool(settings.service, sentinel, **data, **secure))
    if settings.topology == "socket":
        return _Pool(ConnectionPool(connection_class=UnixDomainSocketConnection, path=settings.path, **data))
    host, port = settings.hosts[0]
    kind = SSLConnection if settings.is_tls else Connection
    return _Pool(ConnectionPool(connection_class=kind, host=host, port=port, **data, **tls))


def _ask(pool: Any, command: Sequence[str | int], *, asking: bool = False) -> Any:
    try:
        connection = pool.get_connection()
    except (RedisError, OSError) as error:
        raise NotSentError(str(error)) from error
    try:
        if asking:
            connection.send_command("ASKING", check_health=False)
            connection.read_response()
        connection.send_command(*command, check_health=False)
        return connection.read_response()
    except ResponseError:
        raise
    except BaseException:
        # An answer may still come, which the next command must not take for its own.
        connection.disconnect()
        raise
    finally:
        pool.release(connection)


def _named(cluster: Any, asked: AskError) -> Any:
    node = cluster.get_node(host=asked.host, port=asked.port)
    return node or ClusterNode(asked.host, asked.port)
