"""HTTP: the secret, the limits, the routes. What a call does is said in ``calls``."""

from __future__ import annotations

import asyncio
import hmac
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from time import perf_counter
from typing import TYPE_CHECKING

from aiohttp import web
from pydantic import ValidationError

from putifabsent.service.calls import CALLS, Doing
from putifabsent.service.mounts import Caller
from putifabsent.service.tally import CONTENT_TYPE, Tally
from putifabsent.service.wire import failed, wrong
from putifabsent.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from putifabsent.service.calls import Kind
    from putifabsent.service.mounts import Mounts
    from putifabsent.service.settings import Settings
    from putifabsent.service.wire import Call

__all__ = ["SESSION", "WRITER", "application"]

SESSION, WRITER = "putifabsent-session", "putifabsent-writer"
"""Headers of every call: for whom it is made."""

_LONGEST_HEADER = 200
_LONGEST_CALL = 65_536
_log = logging.getLogger(__name__)


class Service:
    """Answers calls, so many at once.

    Parameters
    ----------
    settings
        What it is told.
    mounts
        Its filesystems.

    Raises
    ------
    ConfigError
        There is no such clock.
    """

    def __init__(self, settings: Settings, mounts: Mounts) -> None:
        self._settings = settings
        self._mounts = mounts
        self._secret = f"Bearer {settings.secret.get_secret_value()}".encode()
        self._turns = asyncio.Semaphore(settings.concurrency)
        self._tally = Tally()
        self._clock = None if settings.clock is None else settings.clock.clock()
        self._pool = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="putifabsent-service")
        self.draining = False

    async def life(self, app: web.Application) -> AsyncIterator[None]:
        """Live as long as the application does."""
        del app
        yield
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def drain(self, app: web.Application) -> None:
        """Begin nothing more."""
        del app
        self.draining = True

    async def health(self, request: web.Request) -> web.Response:
        """Say whether calls are welcome; nobody need know the secret for that."""
        del request
        status = HTTPStatus.SERVICE_UNAVAILABLE if self.draining else HTTPStatus.OK
        said = {"status": "draining" if self.draining else "ok", "version": __version__}
        return web.json_response(said, status=status)

    async def metrics(self, request: web.Request) -> web.Response:
        """Say what was answered."""
        del request
        return web.Response(text=self._tally.text(), headers={"Content-Type": CONTENT_TYPE})

    async def call(self, name: str, kind: Kind, request: web.Request) -> web.Response:
        """Answer a call; whoever has gone away meanwhile does not stop it."""
        began, tally = perf_counter(), self._tally
        if self.draining or tally.inside >= self._settings.concurrency + self._settings.waiting:
            why = "it is about to end" if self.draining else "too many calls are waiting"
            answer = _answer(HTTPStatus.SERVICE_UNAVAILABLE, "busy", f"nothing was done: {why}")
            answer.headers["Retry-After"] = "1"
        else:
            tally.inside += 1
            try:
                async with self._turns:
                    answer = await self._done(name, kind, request)
            finally:
                tally.inside -= 1
        tally.add(name, answer.status, perf_counter() - began)
        return answer

    async def _done(self, name: str, kind: Kind, request: web.Request) -> web.Response:
        try:
            body = await asyncio.wait_for(request.read(), self._settings.body_seconds)
        except asyncio.TimeoutError:
            return _answer(HTTPStatus.REQUEST_TIMEOUT, "request", "the body did not come in time")
        except web.HTTPRequestEntityTooLarge as error:
            return _answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "request", error.text or error.reason)
        self._tally.read(name, len(body))
        most = self._settings.largest_body if kind.has_body else _LONGEST_CALL
        if len(body) > most:
            why = f"{len(body)} bytes are more than the {most} that such a call may have"
            return _answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "request", why)
        try:
            said = _said(kind, request, body)
            caller = _caller(request)
        except ValueError as error:
            return _answer(HTTPStatus.BAD_REQUEST, "request", _wrong(error))
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(self._do, kind, said, body, caller))

    def _do(self, kind: Kind, said: Call, body: bytes, caller: Caller) -> web.Response:
        try:
            doing = Doing(said, body, self._mounts, caller, self._settings.largest_body, self._clock)
            return web.json_response(kind.do(doing))
        except Exception as error:  # noqa: BLE001 - every error is an answer
            status, answer = failed(error)
            if status == HTTPStatus.INTERNAL_SERVER_ERROR:
                _log.exception("a call of %s failed", said.path)
            return web.json_response(answer, status=status)

    @web.middleware
    async def checked(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse whoever has not the secret, before anything of the request is read."""
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if request.path != "/v1/health" and not hmac.compare_digest(given, self._secret):
            return _answer(HTTPStatus.UNAUTHORIZED, "secret", "the secret is missing, or wrong")
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _answer(HTTPStatus(error.status), "request", error.reason)


def application(settings: Settings, mounts: Mounts) -> web.Application:
    """Return the service as an aiohttp application; it must be made in the loop that runs it.

    Raises
    ------
    ConfigError
        There is no such clock.
    """
    service = Service(settings, mounts)
    most = max(settings.largest_body, _LONGEST_CALL)
    app = web.Application(middlewares=[service.checked], client_max_size=most)
    app.cleanup_ctx.append(service.life)
    app.on_shutdown.append(service.drain)
    app.router.add_get("/v1/health", service.health)
    app.router.add_get("/v1/metrics", service.metrics)
    for name, kind in CALLS.items():
        app.router.add_post(f"/v1/{name}", partial(service.call, name, kind))
    return app


def _said(kind: Kind, request: web.Request, body: bytes) -> Call:
    if kind.has_body:
        return kind.model.model_validate(dict(request.query))
    return kind.model.model_validate_json(body)


def _caller(request: web.Request) -> Caller:
    said = [request.headers.get(header, "") for header in (SESSION, WRITER)]
    for header, value in zip((SESSION, WRITER), said, strict=True):
        if not (value and value.isascii() and value.isprintable() and len(value) <= _LONGEST_HEADER):
            msg = f"the header {header} must say a UUID"
            raise ValueError(msg)
    return Caller(*said)


def _wrong(error: ValueError) -> str:
    return wrong(error, "the body") if isinstance(error, ValidationError) else str(error)


def _answer(status: HTTPStatus, kind: str, message: str) -> web.Response:
    return web.json_response({"error": kind, "message": message}, status=status)
