"""A proxy by which requests go wrong as scheduled: what is behind it is real, and so are lost connections."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from putifabsent.lab.servers import CHUNK, LossyProxy, is_interim

if TYPE_CHECKING:
    from collections.abc import Coroutine

Speech: TypeAlias = Literal["dynamodb", "files", "http", "postgres", "redis", "zookeeper"]


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request."""

    applies: bool  # whether the server gets it. If so, it has answered before the client sees anything.
    says: bytes = b""  # what is answered instead; nothing: the connection is closed
    late: bool = False  # whether it is closed only when the proxy ends
    resets: bool = False  # whether it is reset instead, which clients tell by another error
    held: bool = False  # whether the server gets it only when the proxy is calmed, unless the client is gone
    stays: bool = False  # whether what is held gets there although the client is gone


LOST_ANSWER = Fault(applies=True)
LOST_REQUEST = Fault(applies=False)
LATE = Fault(applies=True, late=True)
HELD = Fault(applies=True, held=True)
DELAYED = Fault(applies=True, held=True, stays=True)


def reset(connection: asyncio.WriteTransport) -> None:
    """Reset a connection, as a network device does that has forgotten it."""
    linger = struct.pack("ii", 1, 0)  # what is left to be sent is not: see socket(7)
    connection.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    connection.abort()


@dataclass
class Request:
    """One request as it arrived."""

    kind: str  # the word that schedules know it by: a method, a command, an operation
    data: bytes  # all of it, where the server is DynamoDB. Elsewhere it may be large, and is not kept.


class _Protocol(NamedTuple):
    """As much of a protocol as it takes to find its requests."""

    kinds: Callable[[bytes], list[str]]  # of the requests that begin in what a client has sent at once
    head_ends: bytes = b""  # what must be there before their kinds are known
    is_whole: Callable[[bytes], bool] = bool  # whether all of a request is there
    is_interim: Callable[[bytes], bool] = lambda _: False
    """Whether what the server has sent is no answer, and has none behind it."""
    alternates: bool = False  # whether whatever comes before an answer is more of the same request


def _is_whole(data: bytes) -> bool:
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\ncontent-length: *(\d+)", head)
    return len(body) >= int(length[1] if length else 0)


def _method_and_ending(data: bytes) -> list[str]:
    method, path = data.split(b" ", 2)[:2]
    name = path.partition(b"?")[0].rpartition(b"/")[2]
    _, dot, ending = name.rpartition(b".")
    # A key that is made of a token ends with any number.
    kind = b"~" if b"~" in name else dot + ending
    return [f"{method.decode('latin-1')} {kind.decode('latin-1')}"]


def _target(data: bytes) -> list[str]:
    found = re.search(rb"(?i)\nx-amz-target: *\w+\.(\w+)", data.partition(b"\r\n\r\n")[0])
    return [found[1].decode() if found else ""]


def _changes(data: bytes) -> list[str]:
    """Look for ``setData``, alone or in a transaction, in each frame's word after its length and number."""
    found = []
    while data:
        found += ["setData"] if data[8:12] in (b"\0\0\0\5", b"\0\0\0\x0e") else []
        data = data[4 + int.from_bytes(data[:4], "big") :]
    return found


def _is_a_ping(data: bytes) -> bool:
    return data[4:8] == b"\xff\xff\xff\xfe" and len(data) == 4 + int.from_bytes(data[:4], "big")


_COMMAND = re.compile(rb"\*\d+\r\n\$\d+\r\n(\w+)\r\n")
_HTTP = _Protocol(
    lambda data: [data.partition(b" ")[0].decode("latin-1")],
    b"\r\n\r\n",
    _is_whole,
    is_interim,
    alternates=True,
)
_PROTOCOLS: dict[Speech, _Protocol] = {
    "dynamodb": _HTTP._replace(kinds=_target),
    "files": _HTTP._replace(kinds=_method_and_ending),
    "http": _HTTP,
    "postgres": _Protocol(lambda data: ["INSERT"] if b"INSERT INTO" in data else []),
    "redis": _Protocol(lambda data: [word.decode().upper() for word in _COMMAND.findall(data)]),
    "zookeeper": _Protocol(_changes, is_interim=_is_a_ping),
}


@dataclass
class _Exchange:
    """Of one connection: what it waits for, and what is to go wrong with the answer."""

    request: Request = field(default_factory=lambda: Request("", b""))
    fault: Fault | None = None
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    has_turn: bool = False


class FaultProxy(LossyProxy):
    """Passes on all that is sent, but for the requests that are to go wrong. ``with`` starts it, and ends it.

    ``upstream`` is where the real server is: ``http://HOST:PORT/PATH``, or ``HOST:PORT`` where it does not
    speak HTTP. ``fault`` goes wrong with a ``share`` of the requests, from 0 to 1, which may be set while the
    proxy runs; without one, only what is scheduled does. ``one_at_a_time`` is for a server that decides
    nothing when two requests meet (moto).

    By the ``speech`` a request's kind is a method of HTTP (of ``"files"`` with the ending of the name that it
    is about, ``"HEAD .parquet"``, or ``"PUT ~"``), an operation of DynamoDB, a command of Redis, or a step of
    a counter: ``"INSERT"`` in PostgreSQL, ``"setData"`` in ZooKeeper.

    ``requests`` are all that have come, and ``lost`` says with how many something went wrong.
    """

    def __init__(
        self,
        upstream: str,
        fault: Fault | None = None,
        *,
        share: float = 1.0,
        seed: int | None = None,
        host: str = "127.0.0.1",
        speech: Speech = "http",
        one_at_a_time: bool = False,
    ) -> None:
        self._protocol = _PROTOCOLS[speech]
        self._keeps = speech == "dynamodb"
        at = upstream if self._protocol.alternates else f"http://{upstream}"
        super().__init__(at, share=share, seed=seed, host=host)
        self._scripts: defaultdict[str, deque[Fault | None]] = defaultdict(deque)
        self._always: dict[str, Fault] = {"": fault} if fault else {}
        self._calmed = asyncio.Event()
        self._turn = asyncio.Lock() if one_at_a_time else None
        self.requests: list[Request] = []

    def script(self, kind: str, *faults: Fault | None) -> None:
        """Have the next requests of a kind go wrong, one each; at None nothing does."""
        self._scripts[kind].extend(faults)

    def always(self, fault: Fault, kind: str = "") -> None:
        """Have all requests (of a kind) go wrong for which nothing is scheduled."""
        self._always[kind] = fault

    def calm(self) -> int:
        """Have nothing scheduled go wrong any more, and let go what is held; return how much was left."""
        left = sum(map(len, self._scripts.values()))
        self._scripts.clear()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._let_go)
        return left

    def _let_go(self) -> None:
        self._calmed.set()
        self._calmed = asyncio.Event()

    def sent(self, *kinds: str) -> list[str]:
        """Return the kinds of what has come; those named, or all."""
        return [each.kind for each in self.requests if not kinds or each.kind in kinds]

    def _pumps(
        self,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None]]:
        exchange = _Exchange()
        exchange.answered.set()
        ask = partial(self._ask, exchange, client, to_server, to_client)
        answer = partial(self._answer, exchange, server, to_client)
        return self._in_turn(exchange, ask), self._in_turn(exchange, answer)

    async def _in_turn(self, exchange: _Exchange, pump: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await pump()
        finally:
            self._release(exchange)

    async def _ask(
        self,
        exchange: _Exchange,
        client: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
        to_client: asyncio.StreamWriter,
    ) -> None:
        while data := await client.read(CHUNK):
            if exchange.answered.is_set() or not self._protocol.alternates:
                while self._protocol.head_ends not in data and (more := await client.read(CHUNK)):
                    data += more
                exchange.request, fault = self._took(data)
                if fault and fault.held:
                    data, fault = await self._hold(data, client, stays=fault.stays)
                if fault and not fault.applies:
                    if not fault.says:
                        return
                    while not self._protocol.is_whole(data) and (more := await client.read(CHUNK)):
                        data += more
                    to_client.write(fault.says)
                    continue
                exchange.fault = exchange.fault or fault
                exchange.answered.clear()
                if self._turn and not exchange.has_turn:
                    exchange.has_turn = await self._turn.acquire()
            elif self._keeps:
                exchange.request.data += data
            to_server.write(data)
            await to_server.drain()
        # What the server has is answered, although its client is gone.
        await exchange.answered.wait()

    async def _hold(
        self, data: bytes, client: asyncio.StreamReader, *, stays: bool
    ) -> tuple[bytes, Fault | None]:
        """Wait until the proxy is calmed or the client is gone; return what has come, and what goes wrong."""
        calmed = asyncio.create_task(self._calmed.wait())
        try:
            while not calmed.done():
                reading = asyncio.create_task(client.read(CHUNK))
                try:
                    await asyncio.wait({calmed, reading}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    reading.cancel()
                    await asyncio.wait({reading})
                more = b"" if reading.cancelled() else reading.result()
                if not (more or calmed.done()):
                    if not stays:
                        return data, LOST_REQUEST
                    await calmed
                data += more
        finally:
            calmed.cancel()
        return data, None

    def _took(self, data: bytes) -> tuple[Request, Fault | None]:
        """Take down what has come; return the last of it, and what is to go wrong."""
        request, fault = Request("", b""), None
        for kind in self._protocol.kinds(data):
            request = Request(kind, data if self._keeps else b"")
            self.requests.append(request)
            self.received += 1
            scripted = self._scripts[kind]
            always = self._always.get(kind) or self._always.get("")
            drawn = always if self._random.random() < self.share else None
            fault = fault or (scripted.popleft() if scripted else drawn)
        self.lost += fault is not None
        return request, fault

    async def _answer(
        self, exchange: _Exchange, server: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        while data := await server.read(CHUNK):
            if not (exchange.answered.is_set() or self._protocol.is_interim(data)):
                self._release(exchange)
                fault, exchange.fault = exchange.fault, None
                if fault and fault.late:
                    await self._over.wait()
                if fault:
                    to_client.write(fault.says)
                    await to_client.drain()
                    if fault.resets:
                        reset(to_client.transport)
                    return
                exchange.answered.set()
            to_client.write(data)
            await to_client.drain()

    def _release(self, exchange: _Exchange) -> None:
        if self._turn and exchange.has_turn:
            exchange.has_turn = False
            self._turn.release()
