"""Registries by URL: which one, where, and how; what is wrong in one is said without its credentials.

==========================================  ==========================================================
``dynamodb://TABLE?region=...``             a table for claims and counters
``redis://[USER:PASSWORD@]HOST[:PORT][/DB]``   a Redis or Valkey server
``rediss://...``                            the same, encrypted
``unix://[USER:PASSWORD@]/PATH[?db=DB]``    the same, by its socket
``redis+sentinel://HOST[:PORT],.../SERVICE[/DB]``   the primary that sentinels name
``redis+cluster://HOST[:PORT],...``         a cluster
==========================================  ==========================================================
"""

from __future__ import annotations

import difflib
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from putifabsent.backends.redis_settings import RedisSettings
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from putifabsent.backends.counters import Counter
    from putifabsent.backends.redis_settings import Topology
    from putifabsent.backends.registries import Claims, Lock

__all__ = [
    "ARBITER",
    "SCHEMES",
    "ask_environment",
    "is_claims",
    "open_claims",
    "open_counter",
    "open_lock",
    "redis_settings",
]

ARBITER = "PUTIFABSENT_ARBITER"
"""The environment variable with the URL of the arbiter."""

_REDIS: dict[str, tuple[Topology, bool]] = {
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
SCHEMES = ("dynamodb", *_REDIS)
"""What a registry's URL may begin with."""

_DYNAMODB_OPTIONS = ("region", "endpoint_url", "profile", "timeout")
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")

_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_PORT = 6379
_SENTINEL_PORT = 26379
# What is not understood may be a part of a password: it is not repeated.
_ESCAPED = "; in a user's name or password write : / @ ? as %3A %2F %40 %3F"
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class _Parts:
    """A URL in its parts; the standard library's takes one host only."""

    scheme: str
    hosts: str
    path: str
    username: str | None = field(repr=False)
    password: str | None = field(repr=False)
    options: dict[str, str] = field(repr=False)


def ask_environment(url: str | None) -> str:
    """Return ``url``, or what ``PUTIFABSENT_ARBITER`` says.

    Raises
    ------
    ConfigError
        Neither says anything.
    """
    said = url or os.environ.get(ARBITER)
    if not said:
        raise ConfigError(
            f"no registry is named: give its URL, dynamodb://TABLE?region=..., or set {ARBITER}"
        )
    return said


def is_claims(url: str) -> bool:
    """Whether ``url`` is a registry of claims, and no lock.

    Raises
    ------
    ConfigError
        It is neither; the message names the nearest scheme.
    """
    return _parts(url).scheme == "dynamodb"


def open_claims(url: str) -> Claims:
    """Return the claims at ``url``; nothing is asked of them yet.

    Raises
    ------
    ConfigError
        What is wrong with the URL, without its credentials.
    """
    parts = _parts(url)
    if parts.scheme != "dynamodb":
        raise ConfigError(f"{parts.scheme}:// is a lock, which decides nothing: claims are at dynamodb://")
    said = _table(parts)
    with _needing("dynamodb"):
        from putifabsent.backends.dynamodb import DynamoDBClaims
    return DynamoDBClaims(parts.hosts, **said)


def open_lock(url: str) -> Lock:
    """Return the lock at ``url``; nothing is asked of it yet.

    Raises
    ------
    ConfigError
        What is wrong with the URL, without its credentials.
    """
    settings = redis_settings(url)
    with _needing("redis"):
        from putifabsent.backends.redis import RedisLock
    return RedisLock(settings)


def open_counter(url: str) -> Counter:
    """Return the counters at ``url``; nothing is asked of them yet.

    Raises
    ------
    ConfigError
        What is wrong with the URL, without its credentials.
    """
    parts = _parts(url)
    if parts.scheme in _REDIS:
        settings = redis_settings(url)
        with _needing("redis"):
            from putifabsent.backends.redis_counter import RedisCounter
        return RedisCounter(settings)
    said = _table(parts)
    with _needing("dynamodb"):
        from putifabsent.backends.dynamodb_counter import DynamoDBCounter
    return DynamoDBCounter(parts.hosts, **said)


def redis_settings(url: str) -> RedisSettings:
    """Return what a URL of Redis says, with the credentials of the environment where it has none.

    Raises
    ------
    ConfigError
        What is wrong with the URL, without its credentials.
    """
    parts = _parts(url)
    if parts.scheme not in _REDIS:
        raise ConfigError(f"{parts.scheme}:// has no locks: they are at {', '.join(_REDIS)}")
    topology, is_tls = _REDIS[parts.scheme]
    _refuse_unknown(
        parts,
        (
            "timeout",
            *(("db",) if topology == "socket" else ()),
            *(_TLS_OPTIONS if is_tls else ()),
            *(_SENTINEL_OPTIONS if topology == "sentinel" else ()),
        ),
    )
    said: dict[str, Any] = {
        "username": parts.username or os.environ.get("PUTIFABSENT_REDIS_USERNAME"),
        "password": parts.password or os.environ.get("PUTIFABSENT_REDIS_PASSWORD"),
    }
    if topology == "socket":
        if parts.hosts or not parts.path.strip("/"):
            raise ConfigError("unix:// wants the path of a socket: unix:///run/redis.sock")
        said |= {"path": unquote(parts.path), "db": _number(parts.options.get("db", "0"), "db")}
        shown = f"unix://{parts.path}?db={said['db']}"
    else:
        said["hosts"] = _hosts(parts, _SENTINEL_PORT if topology == "sentinel" else _PORT)
        said |= _place(parts, topology)
        hosts = ",".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in said["hosts"])
        steps = {"server": ["db"], "sentinel": ["service", "db"], "cluster": []}[topology]
        shown = "/".join([f"{parts.scheme}://{hosts}", *(str(said[step]) for step in steps)])
    if topology == "sentinel":
        for option in _SENTINEL_OPTIONS:
            said[option] = parts.options.get(option) or os.environ.get(f"PUTIFABSENT_{option.upper()}")
    timeout = _timeout(parts)
    if timeout is not None:
        said["timeout"] = timeout
    if is_tls:
        said |= {"is_tls": True, "tls": _tls(parts)}
    return RedisSettings(shown, topology, **said)


def _parts(url: str) -> _Parts:
    scheme, found, rest = url.partition("://")
    scheme = scheme.lower()
    if not found or scheme not in SCHEMES:
        # What is no URL may be a password: it is not repeated.
        near = difflib.get_close_matches(scheme, SCHEMES, n=1) if found else []
        hint = f"did you mean {near[0]}://? " if near else ""
        raise ConfigError(f"this is no URL of a registry: {hint}It begins with {', '.join(SCHEMES)}, and ://")
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    login, _, hosts = authority.rpartition("@")
    username, _, password = login.partition(":")
    options = dict(parse_qsl(query, keep_blank_values=True))
    return _Parts(scheme, hosts, slash + path, unquote(username) or None, unquote(password) or None, options)


def _table(parts: _Parts) -> dict[str, Any]:
    """Return what a URL of DynamoDB says of its table, apart from the name."""
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "dynamodb:// takes no credentials: they come from AWS's own chain (its variables, its files, "
            "the machine's role); ?profile=... chooses among them"
        )
    if parts.path.strip("/") or not _TABLE.fullmatch(parts.hosts):
        # It may be credentials, so it is not repeated.
        raise ConfigError("dynamodb:// wants the name of a table: 3 to 255 of A-Z a-z 0-9 _ - .")
    _refuse_unknown(parts, _DYNAMODB_OPTIONS)
    said: dict[str, Any] = dict(parts.options)
    if "endpoint_url" in said:
        _refuse_odd_endpoint(said["endpoint_url"])
    if "timeout" in said:
        said["timeout"] = _timeout(parts)
    return said


def _refuse_unknown(parts: _Parts, known: Iterable[str]) -> None:
    known = tuple(known)
    for option in parts.options:
        if "@" in option:
            raise ConfigError(f"the {parts.scheme}:// URL has an @ in its options{_ESCAPED}")
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f": there are {', '.join(known)}"
            raise ConfigError(f"unknown option {option!r} in a {parts.scheme}:// URL{hint}")


def _refuse_odd_endpoint(endpoint: str) -> None:
    try:
        address = urlsplit(endpoint)
        is_odd = address.scheme not in ("http", "https") or not address.hostname
        has_login = address.username is not None
    except ValueError:
        is_odd, has_login = True, False
    if has_login:
        raise ConfigError("endpoint_url takes no credentials: they come from AWS's own chain")
    if is_odd:
        raise ConfigError(f"endpoint_url must be an http:// or https:// address, not {endpoint!r}")


def _hosts(parts: _Parts, port: int) -> tuple[tuple[str, int], ...]:
    found = []
    for each in parts.hosts.split(","):
        # An IPv6 address has colons of its own, in brackets.
        bracketed, bracket, tail = each.rpartition("]")
        host, _, said = tail.partition(":") if not bracket else (f"{bracketed}]", "", tail.lstrip(":"))
        if not host.strip("[]"):
            raise ConfigError(f"a {parts.scheme}:// URL names its host, or several with commas between them")
        found.append((unquote(host.strip("[]")), _number(said, "port") if said else port))
    if len(found) > 1 and _REDIS[parts.scheme][0] == "server":
        raise ConfigError(f"{parts.scheme}:// has one host; for more see redis+sentinel and redis+cluster")
    return tuple(found)


def _place(parts: _Parts, topology: Topology) -> dict[str, Any]:
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
    return {"service": service, "db": _number(steps[0], "database") if steps else 0}


def _tls(parts: _Parts) -> dict[str, Any]:
    said: dict[str, Any] = {key: parts.options[key] for key in _TLS_OPTIONS if key in parts.options}
    checks = str(said.get("ssl_check_hostname", "true")).lower()
    if checks not in _BOOLEANS:
        raise ConfigError("ssl_check_hostname is true or false")
    if said.get("ssl_cert_reqs", "required") not in ("required", "optional", "none"):
        raise ConfigError("ssl_cert_reqs is required, optional or none")
    trusts_anyone = said.get("ssl_cert_reqs") == "none"
    return {
        "ssl_cert_reqs": "required",
        **said,
        "ssl_check_hostname": _BOOLEANS[checks] and not trusts_anyone,
    }


def _timeout(parts: _Parts) -> float | None:
    said = parts.options.get("timeout")
    if said is None:
        return None
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"timeout must be a positive number of seconds, not {said!r}")
    return seconds


@contextmanager
def _needing(extra: str) -> Iterator[None]:
    """Import what an extra has, or say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'putifabsent[{extra}]'") from error


def _number(said: str, what: str) -> int:
    if not (said.isascii() and said.isdigit()):
        # It may be a password with a colon or a slash that was not escaped.
        raise ConfigError(
            f"the {what} in the URL is no number; in a password write : / @ ? as %3A %2F %40 %3F"
        )
    return int(said)
