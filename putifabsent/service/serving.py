"""A server's life: it listens, says where, and ends when it is told to, after what it has begun."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import ssl
import threading
from typing import TYPE_CHECKING

from aiohttp import web

from putifabsent.errors import ConfigError
from putifabsent.service.app import application
from putifabsent.service.mounts import Mounts

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.service.settings import Settings

__all__ = ["serve"]

_log = logging.getLogger(__name__)


def serve(
    settings: Settings, ready: Callable[[str], object], until: Callable[[], object] | None = None
) -> None:
    """Serve until SIGTERM or SIGINT, or as long as somebody wants it; then finish what was begun.

    Parameters
    ----------
    settings
        What it is told.
    ready
        Is told its address as soon as it listens.
    until
        Returns when the service is not wanted any more; signals, which may be meant for all of a group, do
        not end it then.

    Raises
    ------
    ConfigError
        A mount or the clock can't be made, or the certificate can't be read.
    OSError
        It can't listen there, or what it has inherited is no socket.
    """
    # They outlive the loop: s3fs, which has one of its own, closes its sessions badly inside another.
    mounts = Mounts(settings.mounts)
    asyncio.run(_serve(settings, mounts, ready, until))


async def _serve(
    settings: Settings, mounts: Mounts, ready: Callable[[str], object], until: Callable[[], object] | None
) -> None:
    tls = _tls(settings)
    if tls is None and not _is_loopback(settings.host):
        _log.warning("%s is no loopback address: without TLS, others may read the secret", settings.host)
    # No access log: addresses hold names, and tokens.
    runner = web.AppRunner(
        application(settings, mounts),
        access_log=None,
        shutdown_timeout=settings.drain_seconds,
        handle_signals=False,
    )
    await runner.setup()
    try:
        await _site(runner, settings, tls).start()
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, ended.set if until is None else _go_on)
        if until is not None:
            _watch(until, loop, ended)
        host, port = runner.addresses[0][:2]
        ready(f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}")
        await ended.wait()
    finally:
        await runner.cleanup()


def _site(runner: web.AppRunner, settings: Settings, tls: ssl.SSLContext | None) -> web.BaseSite:
    if settings.fd is None:
        return web.TCPSite(runner, settings.host, settings.port, ssl_context=tls)
    return web.SockSite(runner, socket.socket(fileno=settings.fd), ssl_context=tls)


def _go_on() -> None:
    """Whoever wants the service may have got the signal too, and have work to finish."""


def _watch(until: Callable[[], object], loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    def watch() -> None:
        until()
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    # Nobody waits for it: a read can't be interrupted.
    threading.Thread(target=watch, name="putifabsent-until", daemon=True).start()


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except OSError as error:
        raise ConfigError(f"the certificate {settings.certificate} can't be used: {error}") from error
    return context


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
