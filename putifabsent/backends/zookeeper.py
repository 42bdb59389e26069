"""Counters in ZooKeeper: a node each, set only while it has the version that was last seen.

So whoever has seen its last version moves it by one request. Where others have moved it since, the server
says so, and the next call reads the node right before it sets it: a pause between them would lose again.
Its time is the leader's, when it made the change (``mtime``).

A node that was removed and made anew comes to the same versions again. So it has a child, its *life*, named
by the transaction that made the node (``czxid``), and is set only while that is there, in one transaction:
a node can't be removed and keep a child.

A server that a client reads from may lag behind, but never behind the last answer to that client's own
session: after "another version" it knows that one. Sources: the ZooKeeper programmer's guide ("Consistency
Guarantees", "ZooKeeper Stat Structure"), its ``KeeperException.Code``, kazoo's manual.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import quote

from putifabsent.backends import base
from putifabsent.backends.concurrency import PerProcess
from putifabsent.backends.registries import LARGEST, Advanced, Counter, at_its_end, bad_step
from putifabsent.backends.registry_urls import hosts_of, parts_of, refuse_unknown, servers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kazoo.protocol.states import ZnodeStat

    from putifabsent.backends.registries import AdvanceOutcome
    from putifabsent.backends.registry_urls import Servers

_PORT = 2181
_TIMEOUT = 10.0

NO_NODE = -101
BAD_VERSION = -103
NODE_EXISTS = -110

_READ_ONLY = -119
# A connection or an answer lost, a session that has expired or moved.
_LOST = (-4, -7, -112, -118)
# No right, an access list that is none, credentials that are wrong.
_FORBIDDEN = (-102, -114, -115)


class NotSentError(ConnectionError):
    """There is no connection now, so nothing was sent."""


def code_of(error: Exception) -> int | None:
    """Return the server's code; None: there is none."""
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else None


def outcome_of(error: Exception, where: str) -> base.TryAgain | base.Refused | base.Maybe:
    """Say what a request's failure means; whatever has no code, a time-out too, says nothing of it."""
    code = code_of(error)
    message = f"ZooKeeper refuses: {type(error).__name__}"
    if code in _FORBIDDEN:
        return base.refused(errno.EACCES, message, where, error)
    if code == _READ_ONLY or isinstance(error, NotSentError):
        return base.TryAgain(error)
    if code is None or code in _LOST:
        return base.Maybe(error)
    return base.refused(errno.EINVAL, message, where, error)


def zookeeper_settings(url: str) -> Servers:
    """Return what a URL of ZooKeeper says: its path is the folder that all nodes are below."""
    parts = parts_of(url, ("zookeeper",))
    refuse_unknown(parts, ("timeout",))
    return servers_of(parts, hosts_of(parts, _PORT), parts.path.rstrip("/"), "ZOOKEEPER", _TIMEOUT)


def parameters_of(servers: Servers) -> dict[str, Any]:
    """Return kazoo's parameters: it tries a request once, and the session has the same time-out."""
    parameters: dict[str, Any] = {
        "hosts": ",".join(f"{host}:{port}" for host, port in servers.hosts),
        "timeout": servers.timeout,
        "command_retry": {"max_tries": 0},
    }
    if servers.username is not None:
        parameters["auth_data"] = [("digest", f"{servers.username}:{servers.password or ''}")]
    return parameters


FOLDER = "/putifabsent/counters"  # where the nodes are, below the address's own path
_PASSED = (BAD_VERSION, NO_NODE, NODE_EXISTS)  # somebody else was faster
_ELSEWHERE = (0, -2)  # in a transaction: another part of it has failed
_ANY = -1
"""A node that is to have this version is set whatever it has; a version that is counted on comes to it."""

_FIRST = b"0"


class Seen(NamedTuple):
    """A counter as it was last seen."""

    version: int
    last: int
    life: str


class ZooKeeperCounter(Counter):
    """Counters in one ZooKeeper ensemble; ``connect`` begins a session, by default kazoo's."""

    forgets: ClassVar[bool] = False

    def __init__(self, servers: Servers, connect: Callable[[], Any] | None = None) -> None:
        self._shown = servers.shown
        # Not by a chroot: ZooKeeper makes none, and kazoo only its last part.
        self._folder = servers.path + FOLDER
        self._connect: Callable[[], Nodes] = connect or (lambda: Nodes(servers))
        self._nodes = PerProcess(self._connect)
        self._seen: dict[str, Seen] = {}

    def advance(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """``setData`` with the version that was seen; where none was, ``getData``, or ``create``."""
        if refused := bad_step(name, floor, count):
            return refused
        try:
            nodes = self._nodes()
            if nodes.is_denied:
                self._nodes = PerProcess(self._connect)
                nodes = self._nodes()
        except Exception as error:  # noqa: BLE001 - nothing was sent: there is no session
            outcome = outcome_of(error, self._shown)
            return base.TryAgain(error) if isinstance(outcome, base.Maybe) else outcome
        path = f"{self._folder}/c-{quote(name, safe='')}"  # with no slash of its own, and never a dot alone
        known = self._seen.get(name)
        seen = known or self._learnt(nodes, name, path)
        if not isinstance(seen, Seen):
            return seen
        if seen.version == _ANY:
            self._seen.pop(name, None)
            why = f"{path} was set 2**32 - 1 times: set it to {seen.last} once more, while nobody counts"
            return base.refused(errno.EOVERFLOW, why, self._shown)
        last = max(seen.last, floor) + count
        if last > LARGEST:
            ended = at_its_end(name)
            self._seen.pop(name, None)
            # What was seen before may be of a node that was made anew: the next call looks.
            return base.Refused(ended) if known is None else base.TryAgain(ended)
        try:
            stat = nodes.set(path, str(last).encode(), seen.version, seen.life)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            self._seen.pop(name, None)
            if code_of(error) == NO_NODE:
                learnt = self._learnt(nodes, name, path, _alive)
                return base.TryAgain(error) if isinstance(learnt, Seen) else learnt
            return base.TryAgain(error) if code_of(error) == BAD_VERSION else outcome_of(error, self._shown)
        self._seen[name] = Seen(stat.version, last, seen.life)
        return Advanced(last, stat.mtime)

    def identity(self) -> str:
        return self._shown

    def _learnt(
        self, nodes: Nodes, name: str, path: str, look: Callable[[Nodes, str], Seen] | None = None
    ) -> Seen | base.TryAgain | base.Refused:
        """Look where a counter is, or make it; nothing is moved."""
        self._seen.pop(name, None)
        try:
            seen = self._seen[name] = (look or _looked)(nodes, path)
        except ValueError as error:
            why = f"the node {path} is no counter: it has other than digits"
            return base.refused(errno.EINVAL, why, name, error)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            outcome = base.TryAgain(error) if code_of(error) in _PASSED else outcome_of(error, self._shown)
            return base.TryAgain(error) if isinstance(outcome, base.Maybe) else outcome
        return seen


class Nodes:
    """Requests about nodes, each sent once, with its time-out.

    kazoo's session has a thread that keeps it, and connects again by itself, but sends nothing twice.
    """

    def __init__(self, servers: Servers) -> None:
        from kazoo.client import KazooClient
        from kazoo.exceptions import AuthFailedError
        from kazoo.protocol.states import KeeperState
        from kazoo.security import CREATOR_ALL_ACL

        self._seconds, self._refusal = servers.timeout, AuthFailedError
        # What is made with credentials is theirs alone; ZooKeeper's own default is everybody's.
        acl = None if servers.username is None else CREATOR_ALL_ACL
        client = self._client = KazooClient(default_acl=acl, **parameters_of(servers))
        denied = self._denied = threading.Event()

        # It has nothing of this one, which would be kept by the client's thread.
        def listen(_: object) -> None:
            if client.client_state == KeeperState.AUTH_FAILED:
                denied.set()

        client.add_listener(listen)
        try:
            client.start(timeout=servers.timeout)
        except BaseException:
            # Else its thread goes on connecting.
            client.stop()
            client.close()
            raise
        # Its thread does not know that nobody asks any more.
        weakref.finalize(self, _leave, client, os.getpid()).atexit = False

    @property
    def is_denied(self) -> bool:
        """Whether a server has refused the credentials: kazoo connects again, or not, and never says so."""
        return self._denied.is_set()

    def get(self, path: str) -> tuple[bytes, ZnodeStat]:
        found: tuple[bytes, ZnodeStat] = self._answer(self._client.get_async, path)
        return found

    def set(self, path: str, value: bytes, version: int, life: str) -> ZnodeStat:
        """Set it while it has this version, and the other node is there; return its new state."""
        both = self._client.transaction()
        both.check(life, _ANY)
        both.set_data(path, value, version)
        results = self._answer(both.commit_async)
        for each in results:
            if isinstance(each, Exception) and code_of(each) not in _ELSEWHERE:
                raise each
        return results[-1]

    def create(self, path: str, value: bytes) -> None:
        """Make it, and the folders above it."""
        self._answer(self._client.create_async, path, value, makepath=True)

    def mark(self, path: str) -> None:
        """Make a node in one that is there."""
        self._answer(self._client.create_async, path)

    def _answer(self, send: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if self.is_denied:
            raise self._refusal
        if not self._client.connected:
            # kazoo would keep it, and send it when nobody waits for it any more.
            raise NotSentError(errno.ENOTCONN, "ZooKeeper is being connected to")
        return send(*arguments, **options).get(timeout=self._seconds)


def _looked(nodes: Nodes, path: str) -> Seen:
    """Return where a counter is; one that is not there is made."""
    try:
        value, stat = nodes.get(path)
    except Exception as error:
        if code_of(error) != NO_NODE:
            raise
        nodes.create(path, _FIRST)
        return _alive(nodes, path)
    return Seen(stat.version, int(value), _life(path, stat))


def _alive(nodes: Nodes, path: str) -> Seen:
    """Return where a counter is, and give it its life; by what was read right now, and not before."""
    value, stat = nodes.get(path)
    seen = Seen(stat.version, int(value), _life(path, stat))
    try:
        nodes.mark(seen.life)
    except Exception as error:
        if code_of(error) != NODE_EXISTS:
            raise
    return seen


def _life(path: str, stat: ZnodeStat) -> str:
    return f"{path}/life-{stat.czxid:x}"


def _leave(client: Any, pid: int) -> None:
    """End a session on another thread: the client waits for the server's farewell."""
    if pid == os.getpid():
        with suppress(RuntimeError):  # no thread begins while Python ends
            threading.Thread(target=client.stop, daemon=True).start()
