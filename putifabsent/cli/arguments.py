"""The arguments that several verbs share, and the guarded filesystem that they mean."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import fsspec
import typer

from putifabsent.cli.screen import Exit
from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.stores import GUARDED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from putifabsent.fsspec_plugin import GuardedFileSystem

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
    str | None, typer.Option("--endpoint-url", metavar="ADDRESS", help="Where an S3 or GCS server is.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="An option of the filesystem, as fsspec takes it; its value may be JSON. Repeatable.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask: the writers are stopped.")]


def a_file(text: str) -> Any:
    """Return the option of a file that is to be written."""
    return typer.Option(metavar="FILE", dir_okay=False, help=text)


def a_master(text: str) -> Any:
    """Return the option of a Spark master."""
    return typer.Option(metavar="URL", help=f"{text}, there: local[*], spark://HOST:PORT.")


# They may look like numbers.
_CREDENTIALS = frozenset(
    ("key", "secret", "token", "profile", "username", "password", "account_name", "account_key", "sas_token")
)
_OPTION = re.compile(r"(?P<key>(?:-o|--option=)?\w+)=(?P<value>.*)", re.DOTALL)
_SECRETIVE = re.compile("key|secret|token|pass|sas|cred|connection|profile|user", re.IGNORECASE)
_USER_OR_QUERY = re.compile(r"(?<=://).*(?=@)|(?<=\?).+", re.DOTALL)
PROFILE: ContextVar[Mapping[str, Any]] = ContextVar("profile")
"""The options of the profile that ``putifabsent --profile`` names; those of the verb itself win."""

_WITHOUT_BUCKETS = ("piafile", "piamemory")
_WITH_ENDPOINT_URL = ("pias3", "piags")


@contextmanager
def session_at(
    master: str, name: str, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkSession]:
    """Have a session at a Spark master, as long as the block lasts, with more of Spark's settings."""
    if find_spec("pyspark") is None:
        raise ConfigError("--master wants PySpark, which is not installed: pip install pyspark")
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        raise ConfigError("this process has a Spark session already: use that one, or stop it first")
    if master.startswith("local"):
        # PySpark would take the first python3 on the PATH, which need not have numpy.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.config(map=dict(settings)).master(master).appName(name).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def mount(
    url: str, options: Sequence[str] | None, endpoint_url: str | None, *, connections: int | None = None
) -> tuple[GuardedFileSystem, str]:
    """Return the guarded filesystem of ``url``, and the path in it.

    ``connections`` is how many at once its client must allow; None leaves it at its own limit.
    """
    address, given = mounting(url, options, endpoint_url)
    if connections is not None and address.startswith("pias3:"):
        given["config_kwargs"] = {"max_pool_connections": connections, **given.get("config_kwargs", {})}
    mounted: tuple[GuardedFileSystem, str] = fsspec.core.url_to_fs(address, **given)
    return mounted


@contextmanager
def mounted(
    url: str, options: Sequence[str] | None, endpoint_url: str | None
) -> Iterator[tuple[GuardedFileSystem, str]]:
    """Give a table as :func:`mount` does; of one that is not there, say so if not even its bucket is."""
    from putifabsent.timeline.files import of_a_bucket

    fs, path = mount(url, options, endpoint_url)
    with of_a_bucket(fs, path, url):
        yield fs, path


def mounting(url: str, options: Sequence[str] | None, endpoint_url: str | None) -> tuple[str, dict[str, Any]]:
    """Return the guarded address that ``url`` means, and the options of its mount."""
    protocol, path = guarded_address(url)
    given = parse_options(options or ())
    if endpoint_url is not None:
        if protocol not in _WITH_ENDPOINT_URL:
            raise ConfigError(f"--endpoint-url is for S3 and GCS, not for {url}: see -o")
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
        if colon and scheme in {*GUARDED, *GUARDED.values()}:
            meant = f"{scheme}://{rest.lstrip('/')}"
            raise ConfigError(f"{url} is no address: say {meant}, or ./{address} for a local file")
        guarded, path = "piafile", address
    elif protocol not in {*GUARDED, *GUARDED.values()}:
        raise ConfigError(f"{protocol}:// is not known here: use {', '.join(GUARDED)}, or a local path")
    else:
        guarded = GUARDED.get(protocol, protocol)
    if guarded == "piafile" and not path:
        # A variable that is not set: not even what asks first may take the folder that it is run in.
        raise ConfigError(f"{url!r} names no path: this folder is .")
    return guarded, path


def parse_options(options: Sequence[str]) -> dict[str, Any]:
    """Read ``key=value`` pairs on top of the profile's; JSON is read as such, but for credentials."""
    parsed = dict(PROFILE.get({}))
    for option in options:
        key, found, value = option.partition("=")
        if not (key and found):
            raise ConfigError(f"-o {option}: it must be key=value")
        parsed[key] = value_of(key, value, f"-o {key}")
    return parsed


def value_of(key: str, text: str, where: str) -> Any:
    """Read a value as JSON where it is JSON and no credential, else as text."""
    try:
        return text if key in _CREDENTIALS and text[:1] not in ('"', "{") else json.loads(text)
    except ValueError:
        if text[:1] in ("{", "["):
            raise ConfigError(f"{where}: it begins like JSON, and is none: {text}") from None
        return text


def ask(question: str, *, yes: bool) -> None:
    """Go on only where the user confirms that the table's writers are stopped."""
    if yes:
        return
    # Not by typer's own prompt, a part of which goes to stdout.
    typer.echo(f"{question} All its writers must be stopped. Are they? [y/N] ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Exit(Exit.NO)


def command_line() -> str:
    """Return the command that was given, for a report; what may be a secret is left out."""
    return shlex.join([Path(sys.argv[0]).name, *map(_without_secret, sys.argv[1:])])


def _without_secret(word: str) -> str:
    option = _OPTION.fullmatch(word)
    # A nested option may be one, too.
    if option and (_SECRETIVE.search(option["key"]) or option["value"][:1] in ("{", "[", '"')):
        return f"{option['key']}=***"
    return _USER_OR_QUERY.sub("***", word) if "://" in word else word
