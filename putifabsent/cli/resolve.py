"""``putifabsent resolve``."""

from __future__ import annotations

from typing import Annotated

import typer

from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url
from putifabsent.cli.exits import Exit, exits
from putifabsent.cli.mounting import mount
from putifabsent.cli.rendering import Screen

__all__ = ["resolve"]


def resolve(
    url: Url,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The creation's token: see OutcomeUnknown.")],
    *,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Answer an unknown outcome later.

    It exits with 0 if the creation with this token holds the name, with 1 if another one does, and with 3
    if the name is not there or the store can't be read: then it is still unknown.
    """
    screen = Screen(as_json=as_json)
    with exits(screen, url):
        fs, path = mount(url, option, endpoint_url)
        holder = fs.resolve(path, token)
        screen.resolved(url, token, holder)
        if holder is None:
            raise typer.Exit(Exit.UNKNOWN)
