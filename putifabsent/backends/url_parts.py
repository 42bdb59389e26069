"""A registry's URL in its parts, and the servers that it names.

What is wrong in one is reported without its credentials.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# What is not understood may be a part of a password: it is not repeated.
_ESCAPED = "; in a user's name or password write : / @ ? as %3A %2F %40 %3F"


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
        raise ConfigError(
            f"the {what} in the URL is no number; in a password write : / @ ? as %3A %2F %40 %3F"
        )
    return int(text)
