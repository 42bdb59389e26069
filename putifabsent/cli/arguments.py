"""The arguments that several verbs share, and the guarded filesystem that they mean."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import fsspec
import typer

from putifabsent.cli.screen import Exit
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.fsspec_plugin import GuardedFileSystem

__all__ = [
    "AsJson",
    "Endpoint",
    "Options",
    "Url",
    "Yes",
    "ask",
    "guarded_address",
    "mount",
    "mounting",
    "parse_options",
]

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="s3://, gs://, az://, memory:// (also pias3:// and the like), or a local path."
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON value on stdout, and all else on stderr.")
]
Endpoint = Annotated[
    str | None,
    typer.Option("--endpoint-url", metavar="ADDRESS", help="Where an S3 or GCS server is."),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="An option of the filesystem, as fsspec takes it; the value may be JSON "
        """(-o client_kwargs='{"region_name": "eu-west-1"}'). Repeatable.""",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask: the writers are stopped.")]

# They may look like numbers.
_CREDENTIALS = frozenset(
    ("key", "secret", "token", "profile", "username", "password", "account_name", "account_key", "sas_token")
)
_GUARDED = {
    "s3": "pias3", "s3a": "pias3",
    "gs": "piags", "gcs": "piags",
    "az": "piaaz", "abfs": "piaaz", "abfss": "piaaz",
    "file": "piafile", "local": "piafile",
    "memory": "piamemory",
}  # fmt: skip
_WITHOUT_BUCKETS = ("piafile", "piamemory")
_WITH_ENDPOINT_URL = ("pias3", "piags")


def mount(
    url: str, options: Sequence[str] | None, endpoint_url: str | None, *, connections: int | None = None
) -> tuple[GuardedFileSystem, str]:
    """Return the guarded filesystem of ``url``, and the path in it.

    Parameters
    ----------
    url
        An address, or a local path.
    options
        ``key=value``, each.
    endpoint_url
        For S3 and GCS.
    connections
        How many connections at once the client must allow; None leaves it at its own limit.

    Raises
    ------
    ConfigError
        The protocol, an option or its value is wrong.
    """
    address, given = mounting(url, options, endpoint_url)
    if connections is not None and address.startswith("pias3:"):
        given["config_kwargs"] = {"max_pool_connections": connections, **given.get("config_kwargs", {})}
    fs, inside = fsspec.core.url_to_fs(address, **given)
    return fs, inside


def mounting(url: str, options: Sequence[str] | None, endpoint_url: str | None) -> tuple[str, dict[str, Any]]:
    """Return the guarded address that ``url`` means, and the options of its mount; :func:`mount` has more."""
    protocol, path = guarded_address(url)
    given = parse_options(options or ())
    if endpoint_url is not None:
        if protocol not in _WITH_ENDPOINT_URL:
            raise ConfigError(f"--endpoint-url is for S3 and GCS, not for {protocol}: see -o")
        given["endpoint_url"] = endpoint_url
    if not path.strip("/") and protocol not in _WITHOUT_BUCKETS:
        raise ConfigError(f"{url} names no bucket")
    return f"{protocol}://{path}", given


def guarded_address(url: str) -> tuple[str, str]:
    """Part an address into its guarded protocol and the path; without a protocol it is a local path."""
    address = url.removeprefix("putifabsent::")
    protocol, found, path = address.partition("://")
    if not found:
        scheme, colon, rest = address.partition(":")
        if colon and scheme in {*_GUARDED, *_GUARDED.values()}:
            meant = f"{scheme}://{rest.lstrip('/')}"
            raise ConfigError(f"{url} is no address: say {meant}, or ./{address} for a local file")
        return "piafile", address
    if protocol in _GUARDED.values():
        return protocol, path
    if protocol not in _GUARDED:
        raise ConfigError(f"{protocol}:// is not known here: use {', '.join(_GUARDED)}, or a local path")
    return _GUARDED[protocol], path


def parse_options(options: Sequence[str]) -> dict[str, Any]:
    """Read ``key=value`` pairs: a value is read as JSON where it is JSON and no credential, else as text."""
    parsed: dict[str, Any] = {}
    for option in options:
        key, found, value = option.partition("=")
        if not (key and found):
            raise ConfigError(f"-o {option}: it must be key=value")
        try:
            parsed[key] = value if key in _CREDENTIALS and value[:1] not in ('"', "{") else json.loads(value)
        except ValueError:
            if value[:1] in ("{", "["):
                raise ConfigError(f"-o {key}: it begins like JSON, and is none: {value}") from None
            parsed[key] = value
    return parsed


def ask(question: str, *, yes: bool) -> None:
    """Go on only where the user confirms that the table's writers are stopped."""
    if yes:
        return
    # Not by typer's own prompt, a part of which goes to stdout.
    typer.echo(f"{question} All its writers must be stopped. Are they? [y/N] ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Exit(Exit.NO)
