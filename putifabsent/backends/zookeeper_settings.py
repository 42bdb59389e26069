"""Where a ZooKeeper is, and how it is spoken to: what a URL says, apart from any client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["ZooKeeperSettings"]


@dataclass(frozen=True)
class ZooKeeperSettings:
    """Where a ZooKeeper is, and how it is spoken to.

    Attributes
    ----------
    shown
        Its address for people, without credentials.
    hosts
        Servers of the ensemble.
    path
        The folder in it that all nodes are below, with its slash; empty: the root.
    username, password
        Credentials of the ``digest`` scheme; None: none.
    timeout
        Seconds, for connecting, for one answer, and of the session.
    """

    shown: str
    hosts: tuple[tuple[str, int], ...]
    path: str = ""
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    timeout: float = 10.0

    def said(self) -> dict[str, Any]:
        """Return it as kazoo's parameters: it tries a request once."""
        said: dict[str, Any] = {
            "hosts": ",".join(f"{host}:{port}" for host, port in self.hosts) + self.path,
            "timeout": self.timeout,
            "command_retry": {"max_tries": 0},
        }
        if self.username is not None:
            said["auth_data"] = [("digest", f"{self.username}:{self.password or ''}")]
        return said
