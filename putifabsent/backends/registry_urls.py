"""Registries by URL: which one, where, and how.

What is wrong in a URL is a ConfigError, without its credentials.

==========================================  ==========================================================
``dynamodb://TABLE?region=...``             a table for claims and counters
``redis://[USER:PASSWORD@]HOST[:PORT][/DB]``   a Redis or Valkey server
``rediss://...``                            the same, encrypted
``unix://[USER:PASSWORD@]/PATH[?db=DB]``    the same, by its socket
``redis+sentinel://HOST[:PORT],.../SERVICE[/DB]``   the primary that sentinels name
``redis+cluster://HOST[:PORT],...``         a cluster
``postgresql://[USER:PASSWORD@]HOST[:PORT]/DB``   a PostgreSQL server, for counters alone
``zookeeper://[USER:PASSWORD@]HOST[:PORT],...[/PATH]``   a ZooKeeper ensemble, for counters alone
==========================================  ==========================================================
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from putifabsent.backends.redis_settings import REDIS_SCHEMES, redis_settings
from putifabsent.backends.url_parts import parts_of, refuse_unknown, timeout_of
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.backends.counters import Counter
    from putifabsent.backends.registries import Claims, Lock
    from putifabsent.backends.url_parts import Parts

ARBITER = "PUTIFABSENT_ARBITER"  # the environment variable with the URL of the arbiter
SCHEMES = ("dynamodb", *REDIS_SCHEMES)  # what the URL of a registry that can be an arbiter may begin with
COUNTERS = (*SCHEMES, "postgresql", "zookeeper")  # what the URL of one that counts may begin with
_DYNAMODB_OPTIONS = ("region", "endpoint_url", "profile", "timeout")

_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")


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


def open_claims(url: str) -> Claims:
    """Return the claims at ``url``; no request is sent yet."""
    parts = parts_of(url, SCHEMES)
    if parts.scheme != "dynamodb":
        raise ConfigError(f"{parts.scheme}:// is a lock, which decides nothing: claims are at dynamodb://")
    options = _table(parts)
    with _needing("dynamodb"):
        from putifabsent.backends.dynamodb import DynamoDBClaims
    return DynamoDBClaims(parts.hosts, **options)


def open_lock(url: str) -> Lock:
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
    if "endpoint_url" in options:
        _refuse_odd_endpoint(options["endpoint_url"])
    return options | timeout_of(parts)


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


@contextmanager
def _needing(extra: str) -> Iterator[None]:
    """Import what an extra has, or say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'putifabsent[{extra}]'") from error
