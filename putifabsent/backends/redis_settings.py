"""Where a Redis is, and how it is spoken to: what a URL says, with no client imported."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import unquote

from putifabsent.backends.url_parts import (
    Parts,
    hosts_of,
    number_of,
    parts_of,
    refuse_unknown,
    shown,
    timeout_of,
)
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

Topology: TypeAlias = Literal["server", "socket", "sentinel", "cluster"]


REDIS_SCHEMES: dict[str, tuple[Topology, bool]] = {
    "redis": ("server", False),
    "rediss": ("server", True),
    "valkey": ("server", False),
    "valkeys": ("server", True),
    "unix": ("socket", False),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
}
"""What the URL of a Redis may begin with: how its servers stand together, and whether it is encrypted."""

_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_PORT = 6379
_SENTINEL_PORT = 26379
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class RedisSettings:
    """Where a Redis is, and how it is spoken to."""

    shown: str  # its address for people, without credentials
    topology: Topology = "server"
    hosts: tuple[tuple[str, int], ...] = ()  # the server, the sentinels, or some of the cluster's nodes
    path: str = ""  # the socket's
    service: str = ""  # what the sentinels call the primary
    db: int = 0
    is_tls: bool = False
    tls: Mapping[str, Any] = field(default_factory=dict)  # redis-py's ``ssl_`` options
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)
    timeout: float = 5.0  # seconds, for connecting and for one answer


def redis_settings(url: str) -> RedisSettings:
    """Return what a URL of Redis says, with the credentials of the environment where it has none."""
    parts = parts_of(url, ("dynamodb", *REDIS_SCHEMES))
    if parts.scheme not in REDIS_SCHEMES:
        raise ConfigError(f"{parts.scheme}:// has no locks: they are at {', '.join(REDIS_SCHEMES)}")
    topology, is_tls = REDIS_SCHEMES[parts.scheme]
    refuse_unknown(
        parts,
        (
            "timeout",
            *(("db",) if topology == "socket" else ()),
            *(_TLS_OPTIONS if is_tls else ()),
            *(_SENTINEL_OPTIONS if topology == "sentinel" else ()),
        ),
    )
    options: dict[str, Any] = {
        "username": parts.username or os.environ.get("PUTIFABSENT_REDIS_USERNAME"),
        "password": parts.password or os.environ.get("PUTIFABSENT_REDIS_PASSWORD"),
    }
    if topology == "socket":
        if parts.hosts or not parts.path.strip("/"):
            raise ConfigError("unix:// wants the path of a socket: unix:///run/redis.sock")
        options |= {"path": unquote(parts.path), "db": number_of(parts.options.get("db", "0"), "db")}
        where = f"unix://{parts.path}?db={options['db']}"
    else:
        options["hosts"] = hosts_of(parts, _SENTINEL_PORT if topology == "sentinel" else _PORT)
        if len(options["hosts"]) > 1 and topology == "server":
            raise ConfigError(
                f"{parts.scheme}:// has one host; for more see redis+sentinel and redis+cluster"
            )
        options |= _place(parts, topology)
        hosts = shown(options["hosts"])
        steps = {"server": ["db"], "sentinel": ["service", "db"], "cluster": []}[topology]
        where = "/".join([f"{parts.scheme}://{hosts}", *(str(options[step]) for step in steps)])
    if topology == "sentinel":
        for option in _SENTINEL_OPTIONS:
            options[option] = parts.options.get(option) or os.environ.get(f"PUTIFABSENT_{option.upper()}")
    options |= timeout_of(parts)
    if is_tls:
        options |= {"is_tls": True, "tls": _tls(parts)}
    return RedisSettings(where, topology, **options)


def _place(parts: Parts, topology: Topology) -> dict[str, Any]:
    steps = [unquote(step) for step in parts.path.split("/") if step]
    if topology == "sentinel":
        if not steps:
            raise ConfigError(
                f"{parts.scheme}://HOSTS/SERVICE: it lacks the service, as the sentinels call it"
            )
        service, *steps = steps
    else:
        service = ""
    if len(steps) > 1 or (steps and topology == "cluster"):
        raise ConfigError(f"the path of the {parts.scheme}:// URL has too many steps")
    return {"service": service, "db": number_of(steps[0], "database") if steps else 0}


def _tls(parts: Parts) -> dict[str, Any]:
    options: dict[str, Any] = {key: parts.options[key] for key in _TLS_OPTIONS if key in parts.options}
    checks = str(options.get("ssl_check_hostname", "true")).lower()
    if checks not in _BOOLEANS:
        raise ConfigError("ssl_check_hostname is true or false")
    if options.get("ssl_cert_reqs", "required") not in ("required", "optional", "none"):
        raise ConfigError("ssl_cert_reqs is required, optional or none")
    trusts_anyone = options.get("ssl_cert_reqs") == "none"
    return {
        "ssl_cert_reqs": "required",
        **options,
        "ssl_check_hostname": _BOOLEANS[checks] and not trusts_anyone,
    }
