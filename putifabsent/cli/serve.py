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

__all__ = ["serve"]


def serve(
    settings: Annotated[
        str, typer.Argument(metavar="SETTINGS", help="A JSON file, or - for standard input: see the docs.")
    ],
) -> None:
    """Run the coordination service, for those who can't import this package.

    As soon as it listens it prints its address, as JSON. It ends at SIGTERM, after what it has begun. The
    secret is never an argument: it is in the settings, or in PUTIFABSENT_SERVICE_SECRET.
    """
    screen = Screen(as_json=False)
    with exits(screen, settings):
        from putifabsent import service
        from putifabsent.service.settings import SECRET

        text = sys.stdin.read() if settings == "-" else Path(settings).read_text()
        told = service.Settings.parse(text, os.environ.get(SECRET))
        service.serve(told, lambda address: typer.echo(json.dumps({"address": address})))
