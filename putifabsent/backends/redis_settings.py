"""Where a Redis is, and how it is spoken to: what a URL says, apart from any client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RedisSettings", "Topology"]

Topology: TypeAlias = Literal["server", "socket", "sentinel", "cluster"]


@dataclass(frozen=True)
class RedisSettings:
    """Where a Redis is, and how it is spoken to.

    Attributes
    ----------
    shown
        Its address for people, without credentials.
    topology
        One server, one server by its socket, sentinels that name the primary, or a cluster.
    hosts
        The server, the sentinels, or some of the cluster's nodes.
    path
        The socket's.
    service
        What the sentinels call the primary.
    db
        The database's number; a cluster has only 0.
    is_tls, tls
        Whether connections are encrypted, and redis-py's ``ssl_`` options.
    username, password, sentinel_username, sentinel_password
        Credentials, of the servers and of the sentinels.
    timeout
        Seconds, for connecting and for one answer.
    """

    shown: str
    topology: Topology = "server"
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    service: str = ""
    db: int = 0
    is_tls: bool = False
    tls: Mapping[str, Any] = field(default_factory=dict)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)
    timeout: float = 5.0
