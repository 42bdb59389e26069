"""HTTP: the secret, the limits, the routes, the metrics; and a server's life, from its socket to its end.

What a call does stands in ``calls``. Metrics are in the text format of Prometheus, version 0.0.4:
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hmac
import ipaddress
import logging
import re
import signal
import socket
import threading
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from aiohttp import StreamReader, web
from pydantic import ValidationError

from putifabsent import __version__
from putifabsent.service.connections import (
    SECONDS,
    Certificate,
    Connection,
    Stranger,
    Strangers,
    more_descriptors,
)
from putifabsent.service.mounts import Caller, Mounts
from putifabsent.service.wire import CALLS, Call, Doing, Kind, failed, wrong
from putifabsent.shim.drive import asleep_too

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from putifabsent.service.settings import Settings

SESSION, WRITER = "putifabsent-session", "putifabsent-writer"  # headers of every call: for whom it is made
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LONGEST_HEADER = 200
_LONGEST_CALL = 65_536
_LARGEST_AT_ONCE = 4  # so many bodies of the largest size fit into memory; or more smaller ones
_PATIENCE = 30.0
"""So many seconds beyond ``body_seconds`` a call may wait: together, by default, the adapter's deadline."""

_SIGNS = frozenset({"turns/beat", "turns/release"})
_SIGNS_AT_ONCE = 8
_BACKLOG = 1024
# So long callers have to notice that the service is about to end.
_LEAVING_SECONDS = 1.0
# So long what has been sent meanwhile may be on its way.
_CROSSING_SECONDS = 0.2

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: from a request to a store nearby to a mount's deadline."""

_log = logging.getLogger(__name__)

Response: TypeAlias = tuple[int, dict[str, Any]]  # what a call is answered: a status of HTTP, and JSON


class Unbegun(Exception):
    """A call is not begun, and why."""


class Lane:
    """Calls of a kind, so many at once; others wait. ``inside`` counts these, and those being read, too."""

    def __init__(self, at_once: int, name: str) -> None:
        self.inside = 0
        self.pool = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self._turns = asyncio.Semaphore(at_once)

    async def run(self, work: Callable[[], Response], begins: Callable[[], object]) -> Response:
        """Work in a thread, when it is its turn; just before, ``begins`` may raise :class:`Unbegun`."""
        async with self._turns:
            await asyncio.sleep(0)  # a connection that has closed is seen to be
            begins()
            return await asyncio.get_running_loop().run_in_executor(self.pool, work)


class Memory:
    """Bytes for bodies that are longer than a call; who comes first gets them first."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._order = asyncio.Lock()
        self._freed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        """Wait until so many bytes are free, and have them."""
        async with self._order:
            while self._free < size:
                self._freed.clear()
                await self._freed.wait()
            self._free -= size
        try:
            yield
        finally:
            self._free += size
            self._freed.set()


class Service:
    """Answers calls, so many at once; ``ConfigError``: there is no such clock."""

    def __init__(self, settings: Settings, mounts: Mounts) -> None:
        self._settings = settings
        self._mounts = mounts
        self._secrets = [f"Bearer {each.get_secret_value()}".encode() for each in settings.secret]
        self._tally = Tally()
        self._clock = None if settings.clock is None else settings.clock.clock()
        self._work = Lane(settings.concurrency, "putifabsent-service")
        # Whoever they wait for needs a thread, too, and so do the writers of all other tables.
        self._waiters = threading.Semaphore(settings.concurrency // 2)
        # A sign of life that waits for others' creations may come after its turn was broken.
        self._signs = Lane(_SIGNS_AT_ONCE, "putifabsent-signs")
        self._memory = Memory(_LARGEST_AT_ONCE * settings.largest_body)
        self.draining = False

    async def end(self, app: web.Application) -> None:
        """Begin nothing that still waits."""
        del app
        for lane in (self._work, self._signs):
            lane.pool.shutdown(wait=False, cancel_futures=True)

    async def drain(self, server: web.Server, strangers: Strangers) -> None:
        """Begin nothing more, and give callers a moment to hear so.

        A connection that closes just as a call comes leaves its caller not knowing what became of the call.
        So those in use close with an answer; then those that are not, with one to what may be on its way.
        """
        self.draining = True

        async def gone(seconds: float) -> None:
            loop = asyncio.get_running_loop()
            until = loop.time() + seconds
            while (server.connections or strangers) and loop.time() < until:  # noqa: ASYNC110 - nobody tells when one closes
                await asyncio.sleep(0.02)

        await gone(_LEAVING_SECONDS)
        for each in server.connections:
            cast("Connection", each).leave()
        await gone(_CROSSING_SECONDS)

    async def health(self, request: web.Request) -> web.Response:
        """Say whether calls are welcome; nobody need know the secret for that."""
        del request
        status = HTTPStatus.SERVICE_UNAVAILABLE if self.draining else HTTPStatus.OK
        body = {"status": "draining" if self.draining else "ok", "version": __version__}
        return web.json_response(body, status=status)

    async def metrics(self, request: web.Request) -> web.Response:
        """Say what was answered."""
        del request
        return web.Response(text=self._tally.text(), headers={"Content-Type": CONTENT_TYPE})

    async def call(self, name: str, kind: Kind, request: web.Request) -> web.Response:
        """Answer a call; whoever goes away while it is being done does not stop it."""
        came, tally = asleep_too(), self._tally
        lane = self._signs if name in _SIGNS else self._work
        if self.draining or lane.inside >= self._settings.concurrency + self._settings.waiting:
            why = "it is about to end" if self.draining else "too many calls are waiting"
            answer = _unbegun(why)
            if kind.has_body:
                await self._heard_out(request)
        else:
            lane.inside += 1
            tally.inside += 1
            try:
                begins = partial(_begins, request, came, self._settings.body_seconds + _PATIENCE)
                answer = await self._done(name, kind, request, lane, begins)
            except Unbegun as why_not:
                answer = _unbegun(str(why_not))
            finally:
                lane.inside -= 1
                tally.inside -= 1
        if self.draining:
            answer.force_close()
        tally.add(name, answer.status, asleep_too() - came)
        return answer

    async def _heard_out(self, request: web.Request) -> None:
        """Let a caller send all that it has to send: before that it hears but a connection that ends."""
        with contextlib.suppress(asyncio.TimeoutError, ConnectionError):
            await asyncio.wait_for(_dropped(request.content), self._settings.body_seconds)

    async def _done(
        self, name: str, kind: Kind, request: web.Request, lane: Lane, begins: Callable[[], None]
    ) -> web.Response:
        most = self._settings.largest_body if kind.has_body else _LONGEST_CALL
        size = most if request.content_length is None else request.content_length
        if size > most:
            return _too_long(size, most)
        # Whoever sends slowly keeps nobody from working.
        async with self._memory.of(size) if size > _LONGEST_CALL else contextlib.nullcontext():
            try:
                body = await asyncio.wait_for(request.read(), self._settings.body_seconds)
            except asyncio.TimeoutError:
                return _answer(HTTPStatus.REQUEST_TIMEOUT, "request", "the body did not come in time")
            except web.HTTPRequestEntityTooLarge as error:
                return _answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "request", error.text or error.reason)
            except ConnectionError:  # nobody hears this
                return _answer(HTTPStatus.REQUEST_TIMEOUT, "request", "the caller has gone")
            self._tally.read(name, len(body))
            if len(body) > most:
                return _too_long(len(body), most)
            try:
                call = (
                    kind.model.model_validate(dict(request.query))
                    if kind.has_body
                    else kind.model.model_validate_json(body)
                )
                caller = _caller(request)
            except ValueError as error:
                why = wrong(error, "the body") if isinstance(error, ValidationError) else str(error)
                return _answer(HTTPStatus.BAD_REQUEST, "request", why)
            status, response = await lane.run(partial(self._do, kind, call, body, caller), begins)
            self._tally.turns_awaited += name == "turns/take" and response.get("turn", "") is None
            self._tally.turns_broken += name == "turns/beat" and response.get("held") is False
            return web.json_response(response, status=status)

    def _do(self, kind: Kind, call: Call, body: bytes, caller: Caller) -> Response:
        try:
            most = self._settings.largest_body
            doing = Doing(call, body, self._mounts, caller, most, self._clock, self._waiters)
            return HTTPStatus.OK, kind.do(doing)
        except Exception as error:  # noqa: BLE001 - every error is an answer
            status, answer = failed(error)
            if status == HTTPStatus.INTERNAL_SERVER_ERROR:
                _log.exception("a call of %s failed", call.path)
            return status, answer

    @web.middleware
    async def checked(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse whoever has not the secret, before anything of the request is read."""
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        is_known = any(hmac.compare_digest(given, each) for each in self._secrets)
        if is_known and isinstance(request.protocol, Connection):
            request.protocol.was.known()
        answer: web.StreamResponse
        if not (is_known or request.path == "/v1/health"):
            answer = _answer(HTTPStatus.UNAUTHORIZED, "secret", "the secret is missing, or wrong")
        else:
            try:
                answer = await handler(request)
            except web.HTTPException as error:
                answer = _answer(HTTPStatus(error.status), "request", error.reason)
        if not is_known:
            answer.force_close()
        return answer


_SERVICE = web.AppKey("service", Service)


def application(settings: Settings, mounts: Mounts) -> web.Application:
    """Return the service as an aiohttp application; it must be made in the loop that runs it."""
    service = Service(settings, mounts)
    most = max(settings.largest_body, _LONGEST_CALL)
    app = web.Application(middlewares=[service.checked], client_max_size=most)
    app.on_cleanup.append(service.end)
    app[_SERVICE] = service
    app.router.add_get("/v1/health", service.health)
    app.router.add_get("/v1/metrics", service.metrics)
    for name, kind in CALLS.items():
        app.router.add_post(f"/v1/{name}", partial(service.call, name, kind))
    return app


async def _dropped(content: StreamReader) -> None:
    while await content.readany():
        pass


def _begins(request: web.Request, came: float, patience: float) -> None:
    """Raise ``Unbegun`` where nobody waits for a call any more: meanwhile it may have been made anew."""
    if request.transport is None or request.transport.is_closing():
        raise Unbegun("the caller has gone")
    if asleep_too() - came > patience:
        raise Unbegun(f"the call came more than {patience:g} s ago")


def _unbegun(why: str) -> web.Response:
    answer = _answer(HTTPStatus.SERVICE_UNAVAILABLE, "busy", f"nothing was done: {why}")
    answer.headers["Retry-After"] = "1"
    return answer


def _too_long(size: int, most: int) -> web.Response:
    why = f"{size} bytes are more than the {most} that such a call may have"
    return _answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "request", why)


def _caller(request: web.Request) -> Caller:
    values = [request.headers.get(header, "") for header in (SESSION, WRITER)]
    if not _UUID.fullmatch(values[0]):
        raise ValueError(f"the header {SESSION} must say a UUID, made for one process's life")
    for header, value in zip((SESSION, WRITER), values, strict=True):
        if not (value and value.isascii() and value.isprintable() and len(value) <= _LONGEST_HEADER):
            raise ValueError(f"the header {header} must say a UUID")
    return Caller(*values)


def _answer(status: HTTPStatus, kind: str, message: str) -> web.Response:
    return web.json_response({"error": kind, "message": message}, status=status)


@dataclass
class Tally:
    """Counts answers, as :meth:`text` says."""

    inside: int = 0
    turns_awaited: int = 0
    turns_broken: int = 0
    _answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    _below: Counter[tuple[str, float]] = field(default_factory=Counter)
    _seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _bytes: Counter[str] = field(default_factory=Counter)

    def add(self, call: str, status: int, seconds: float) -> None:
        """Count an answer, with its status of HTTP, and the seconds from the call to it."""
        self._answers[call, status] += 1
        self._seconds[call] += seconds
        for bound in _BOUNDS:
            self._below[call, bound] += seconds <= bound

    def read(self, call: str, size: int) -> None:
        """Count the bytes of a call's body."""
        self._bytes[call] += size

    def text(self) -> str:
        """Return all counts, as Prometheus reads them."""
        answers = [
            f'{{call="{call}",status="{status}"}} {count}'
            for (call, status), count in sorted(self._answers.items())
        ]
        sizes = [f'{{call="{call}"}} {size}' for call, size in sorted(self._bytes.items())]
        seconds = []
        for call in sorted(self._seconds):
            number = sum(count for (of, _), count in self._answers.items() if of == call)
            below = {str(bound): self._below[call, bound] for bound in _BOUNDS} | {"+Inf": number}
            seconds += [f'_bucket{{call="{call}",le="{bound}"}} {count}' for bound, count in below.items()]
            seconds += [f'_sum{{call="{call}"}} {self._seconds[call]}', f'_count{{call="{call}"}} {number}']
        inside, awaited, broken = ([f" {n}"] for n in (self.inside, self.turns_awaited, self.turns_broken))
        waits = "Asks for a turn that were answered by whom to wait for."
        lines = []
        for name, kind, meaning, samples in (
            ("calls_inside", "gauge", "Calls that are being worked on, or wait.", inside),
            ("turns_awaited_total", "counter", waits, awaited),
            ("turns_broken_total", "counter", "Signs of life that came after their turn was broken.", broken),
            ("calls_total", "counter", "Calls that were answered, by the status of HTTP.", answers),
            ("call_bytes_total", "counter", "Bytes of the bodies of calls.", sizes),
            ("call_seconds", "histogram", "From a call to its answer.", seconds),
        ):
            lines += [f"# HELP putifabsent_{name} {meaning}", f"# TYPE putifabsent_{name} {kind}"]
            lines += [f"putifabsent_{name}{each}" for each in samples]
        return "\n".join(lines) + "\n"


def serve(
    settings: Settings, ready: Callable[[str], object], until: Callable[[], object] | None = None
) -> None:
    """Serve until SIGTERM or SIGINT, or as long as somebody wants it; then finish what was begun.

    ``ready`` is called with its address as soon as it listens. ``until`` returns when the service is not
    wanted any more; signals, which may be meant for all of a group, do not end it then. ``ConfigError``: a
    mount or the clock can't be made, or the certificate can't be read; ``OSError``: it can't listen there, or
    what it has inherited is no socket.
    """
    # They outlive the loop: s3fs, which has one of its own, closes its sessions badly inside another.
    mounts = Mounts(settings.mounts)
    asyncio.run(_serve(settings, mounts, ready, until))
    if until is not None:
        mounts.give_turns_back()


async def _serve(
    settings: Settings, mounts: Mounts, ready: Callable[[str], object], until: Callable[[], object] | None
) -> None:
    more_descriptors()
    async with listening(settings, mounts) as address:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            # Whoever wants the service may have got the signal too, and have work to finish.
            loop.add_signal_handler(each, ended.set if until is None else lambda: None)
        if until is not None:
            _watch(until, loop, ended)
        # What is there now stays: full collections, which hold every call up, need not look through it.
        gc.collect()
        gc.freeze()
        ready(address)
        await ended.wait()


@contextlib.asynccontextmanager
async def listening(settings: Settings, mounts: Mounts) -> AsyncIterator[str]:
    """Answer calls; in the end, finish what was begun. Returns the address; errors as for :func:`serve`."""
    tls = None if settings.certificate is None else Certificate(settings.certificate, settings.key)
    if tls is None and not _is_loopback(settings.host):
        _log.warning("%s is no loopback address: without TLS, others may read the secret", settings.host)
    app = application(settings, mounts)
    runner = web.AppRunner(app, shutdown_timeout=settings.drain_seconds, handle_signals=False)
    await runner.setup()
    answers, strangers = cast("web.Server", runner.server), Strangers()
    try:
        server = await _server(partial(Stranger, answers, strangers), settings, tls)
        try:
            host, port = server.sockets[0].getsockname()[:2]
            yield f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
        finally:
            server.close()
            await app[_SERVICE].drain(answers, strangers)
            strangers.drop()
    finally:
        await runner.cleanup()


async def _server(
    meets: Callable[[], asyncio.Protocol], settings: Settings, tls: Certificate | None
) -> asyncio.Server:
    def renewing() -> asyncio.Protocol:
        """Meet a stranger: its handshake is next."""
        if tls is not None:
            tls.renew()
        return meets()

    listen = partial(
        asyncio.get_running_loop().create_server,
        renewing,
        ssl=None if tls is None else tls.context,
        ssl_handshake_timeout=None if tls is None else SECONDS,
        backlog=_BACKLOG,
    )
    if settings.fd is None:
        return await listen(settings.host, settings.port)
    return await listen(sock=socket.socket(fileno=settings.fd))


def _watch(until: Callable[[], object], loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    def watch() -> None:
        until()
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    # Nobody waits for it: a read can't be interrupted.
    threading.Thread(target=watch, name="putifabsent-until", daemon=True).start()


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
