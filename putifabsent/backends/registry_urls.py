"""Registries by URL, as ``docs/reference/arbiters.md`` and ``docs/how-to/clocks.md`` have them.

What is wrong in a URL is a ConfigError, without its credentials.
"""

from __future__ import annotations

import difflib
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import parse_qsl, unquote

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from putifabsent.backends.dynamodb import DynamoDBClaims
    from putifabsent.backends.redis import RedisLock
    from putifabsent.backends.registries import Counter

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

ARBITER = "PUTIFABSENT_ARBITER"  # the environment variable with the URL of the arbiter
SCHEMES = ("dynamodb", *REDIS_SCHEMES)  # what the URL of a registry that can be an arbiter may begin with
COUNTERS = (*SCHEMES, "postgresql", "zookeeper")  # what the URL of one that counts may begin with
_DYNAMODB_OPTIONS = ("region", "endpoint_url", "profile", "timeout")

_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_ENDPOINT = re.compile(r"https?://([^][/@?#:]+|\[[0-9a-f:.]+\])(:[0-9]+)?(/.*)?", re.IGNORECASE)


@dataclass(frozen=True)
class Parts:
    """A URL in its parts, login and options without escapes; the standard library's takes one host only."""

    scheme: str
    hosts: str
    path: str
    username: str | None = field(repr=False)
    password: str | None = field(repr=False)
    options: dict[str, str] = field(repr=False)


@dataclass(frozen=True)
class Servers:
    """Where a registry's servers are, and how they are spoken to."""

    shown: str  # their address for people, without credentials
    hosts: tuple[tuple[str, int], ...]
    path: str = ""  # what follows the hosts, with its first slash: a database, a folder
    username: str | None = field(default=None, repr=False)  # None: the client's own, if it has any
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)  # the client's own, as the URL has them
    timeout: float = 5.0  # seconds, for connecting and for one answer


def ask_environment(url: str | None) -> str:
    """Return ``url``, or what ``PUTIFABSENT_ARBITER`` says."""
    address = url or os.environ.get(ARBITER)
    if not address:
        raise ConfigError(
            f"no registry is named: give its URL, dynamodb://TABLE?region=..., or set {ARBITER}"
        )
    return address


def is_claims(url: str) -> bool:
    """Whether ``url`` is a registry of claims, and no lock."""
    return parts_of(url, SCHEMES).scheme == "dynamodb"


def open_claims(url: str) -> DynamoDBClaims:
    """Return the claims at ``url``; no request is sent yet."""
    parts = parts_of(url, SCHEMES)
    if parts.scheme != "dynamodb":
        raise ConfigError(f"{parts.scheme}:// is a lock, which decides nothing: claims are at dynamodb://")
    options = _table(parts)
    with _needing("dynamodb"):
        from putifabsent.backends.dynamodb import DynamoDBClaims
    return DynamoDBClaims(parts.hosts, **options)


def open_lock(url: str) -> RedisLock:
    """Return the lock at ``url``; no request is sent yet."""
    settings = redis_settings(url)
    with _needing("redis"):
        from putifabsent.backends.redis import RedisLock
    return RedisLock(settings)


def open_counter(url: str) -> Counter:
    """Return the counters at ``url``; no request is sent yet."""
    parts = parts_of(url, COUNTERS)
    if parts.scheme in REDIS_SCHEMES:
        settings = redis_settings(url)
        with _needing("redis"):
            from putifabsent.backends.redis import RedisCounter
        return RedisCounter(settings)
    if parts.scheme == "postgresql":
        with _needing("postgres"):
            import_module("psycopg")  # not only at the first instant
            from putifabsent.backends.postgres import PostgresCounter, postgres_settings
        return PostgresCounter(postgres_settings(url))
    if parts.scheme == "zookeeper":
        with _needing("zookeeper"):
            import_module("kazoo")
            from putifabsent.backends.zookeeper import ZooKeeperCounter, zookeeper_settings
        return ZooKeeperCounter(zookeeper_settings(url))
    options = _table(parts)
    with _needing("dynamodb"):
        from putifabsent.backends.dynamodb import DynamoDBCounter
    return DynamoDBCounter(parts.hosts, **options)


def _table(parts: Parts) -> dict[str, Any]:
    """Return what a URL of DynamoDB says of its table, apart from the name."""
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "dynamodb:// takes no credentials: they come from AWS's own chain (its variables, its files, "
            "the machine's role); ?profile=... chooses among them"
        )
    if parts.path.strip("/") or not _TABLE.fullmatch(parts.hosts):
        # It may be credentials, so it is not repeated.
        raise ConfigError("dynamodb:// wants the name of a table: 3 to 255 of A-Z a-z 0-9 _ - .")
    refuse_unknown(parts, _DYNAMODB_OPTIONS)
    options: dict[str, Any] = dict(parts.options)
    if "endpoint_url" in options and not _ENDPOINT.fullmatch(options["endpoint_url"]):
        raise ConfigError(
            "endpoint_url is an http:// or https:// address, and takes no credentials: they come from AWS's "
            "own chain"
        )
    return options | timeout_of(parts)


@contextmanager
def _needing(extra: str) -> Iterator[None]:
    """Import what an extra has, or say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'putifabsent[{extra}]'") from error


@dataclass(frozen=True)
class RedisSettings(Servers):
    """Where a Redis is, and how it is spoken to: the server, the sentinels, or some of a cluster's nodes."""

    topology: Topology = "server"
    service: str = ""  # what the sentinels call the primary
    db: int = 0
    is_tls: bool = False
    tls: Mapping[str, Any] = field(default_factory=dict)  # redis-py's ``ssl_`` options
    sentinel_username: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)


def redis_settings(url: str) -> RedisSettings:
    """Return what a URL of Redis says, with the credentials of the environment where it has none."""
    parts = parts_of(url, SCHEMES)
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
        "hosts": (),
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
    return RedisSettings(where, topology=topology, **options)


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


# --- a URL in its parts

# What is not understood may be a part of a password: it is not repeated.
_ESCAPED = "; in a user's name or password write : / @ ? as %3A %2F %40 %3F"


def parts_of(url: str, schemes: tuple[str, ...]) -> Parts:
    """Part a URL that begins with one of these schemes."""
    scheme, found, rest = url.partition("://")
    scheme = scheme.lower()
    if not found or scheme not in schemes:
        # What is no URL may be a password: it is not repeated.
        near = difflib.get_close_matches(scheme, schemes, n=1) if found else []
        hint = f"did you mean {near[0]}://? " if near else ""
        raise ConfigError(f"this is no URL of a registry: {hint}It begins with {', '.join(schemes)}, and ://")
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    login, _, hosts = authority.rpartition("@")
    username, _, password = login.partition(":")
    options = dict(parse_qsl(query, keep_blank_values=True))
    return Parts(scheme, hosts, slash + path, unquote(username) or None, unquote(password) or None, options)


def refuse_unknown(parts: Parts, known: Iterable[str]) -> None:
    """Raise for an option that nobody knows, and name the nearest."""
    known = tuple(known)
    for option in parts.options:
        if option not in known:
            if any("@" in text for text in (*parts.options, *parts.options.values())):
                # A password with a question mark: its rest would be taken for options, and shown.
                raise ConfigError(f"the {parts.scheme}:// URL has an @ in its options{_ESCAPED}")
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f": there are {', '.join(known)}"
            raise ConfigError(f"unknown option {option!r} in a {parts.scheme}:// URL{hint}")


def hosts_of(parts: Parts, port: int) -> tuple[tuple[str, int], ...]:
    """Return its hosts, with this port where none is given."""
    if "@" in parts.path:
        # A password with a slash: what comes before it would be taken for a host, and shown.
        raise ConfigError(f"the {parts.scheme}:// URL has an @ in its path{_ESCAPED}")
    found = []
    for each in parts.hosts.split(","):
        # An IPv6 address has colons of its own, in brackets.
        bracketed, bracket, tail = each.rpartition("]")
        host, _, number = tail.partition(":") if not bracket else (f"{bracketed}]", "", tail.lstrip(":"))
        if not host.strip("[]"):
            raise ConfigError(f"a {parts.scheme}:// URL names its host, or several with commas between them")
        found.append((unquote(host.strip("[]")), number_of(number, "port") if number else port))
    return tuple(found)


def shown(hosts: Iterable[tuple[str, int]]) -> str:
    """Return hosts as a URL has them."""
    return ",".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in hosts)


def servers_of(
    parts: Parts, hosts: tuple[tuple[str, int], ...], path: str, program: str, timeout: float
) -> Servers:
    """Return what a URL says of a program's servers, and the environment of the credentials that it lacks."""
    return Servers(
        f"{parts.scheme}://{shown(hosts)}{path}",
        hosts,
        path,
        parts.username or os.environ.get(f"PUTIFABSENT_{program}_USERNAME"),
        parts.password or os.environ.get(f"PUTIFABSENT_{program}_PASSWORD"),
        {key: value for key, value in parts.options.items() if key != "timeout"},
        timeout_of(parts).get("timeout", timeout),
    )


def timeout_of(parts: Parts) -> dict[str, float]:
    """Return the option ``timeout``, in seconds, where it is given."""
    text = parts.options.get("timeout")
    if text is None:
        return {}
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        shown = _ESCAPED if "@" in text else f", not {text!r}"
        raise ConfigError(f"timeout must be a positive number of seconds{shown}")
    return {"timeout": seconds}


def number_of(text: str, what: str) -> int:
    """Return a number, without its sign."""
    if not (text.isascii() and text.isdigit()):
        # It may be a password with a colon or a slash that was not escaped.
        raise ConfigError(f"the {what} in the URL is no number{_ESCAPED}")
    return int(text)
