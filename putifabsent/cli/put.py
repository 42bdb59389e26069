"""``putifabsent put``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from putifabsent.backends.base import Found
from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url
from putifabsent.cli.exits import exits
from putifabsent.cli.mounting import mount
from putifabsent.cli.rendering import Screen

__all__ = ["put"]


def put(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True, help="A local file."),
    ],
    url: Url,
    *,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Create a name from a file, only if the name is not there; any name, guarded or not.

    It exits with 1 if the name is taken. If it exits with 3, the outcome is unknown: keep the file, and ask
    with `putifabsent resolve`, with the token that it printed.
    """
    screen = Screen(as_json=as_json)
    with exits(screen, url):
        fs, path = mount(url, option, endpoint_url)
        with screen.waiting(f"creating {url}"):
            fs.put_file(file, path, mode="create")
            seen = fs.backend.head(path)
        mine = isinstance(seen, Found) and seen.holder.writer == fs.writer
        screen.created(url, seen.holder if isinstance(seen, Found) and mine else None)
