"""``putifabsent serve``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from putifabsent.cli.exits import exits
from putifabsent.cli.rendering import Screen
from putifabsent.errors import ConfigError

__all__ = ["serve"]


def serve(
    settings: Annotated[
        str, typer.Argument(metavar="SETTINGS", help="A JSON file, or - for standard input: see the docs.")
    ],
    until_eof: Annotated[
        bool,
        typer.Option(
            "--until-eof", help="The settings are one line of standard input; end when that closes."
        ),
    ] = False,
) -> None:
    """Run the coordination service, for those who can't import this package.

    As soon as it listens it prints its address, as JSON. It ends at SIGTERM, after what it has begun. The
    secret is never an argument: it is in the settings, or in PUTIFABSENT_SERVICE_SECRET.
    """
    screen = Screen(as_json=True)
    with exits(screen, settings):
        from putifabsent import service
        from putifabsent.service.settings import SECRET

        if until_eof and settings != "-":
            raise ConfigError("--until-eof is for settings that come by standard input: say -")
        told = service.Settings.parse(_read(settings, line=until_eof), os.environ.get(SECRET))
        service.serve(
            told,
            lambda address: typer.echo(json.dumps({"address": address})),
            _wait_for_eof if until_eof else None,
        )


def _read(settings: str, *, line: bool) -> str:
    if settings != "-":
        return Path(settings).read_text()
    return sys.stdin.readline() if line else sys.stdin.read()


def _wait_for_eof() -> None:
    # Not by sys.stdin: whoever reads there when Python ends holds a lock that Python then wants.
    while os.read(sys.stdin.fileno(), 4096):
        pass
