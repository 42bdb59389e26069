"""``putifabsent fsck``."""

from __future__ import annotations

from typing import Annotated

import typer

from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url
from putifabsent.cli.exits import Exit, exits
from putifabsent.cli.mounting import mount
from putifabsent.cli.rendering import Screen
from putifabsent.upkeep import GRACE
from putifabsent.upkeep import fsck as check

__all__ = ["fsck"]


def fsck(
    url: Url,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Repair what is found.")] = False,
    free_lost: Annotated[
        bool, typer.Option("--free-lost", help="With --repair: free names whose bytes are gone, too.")
    ] = False,
    grace: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="What is younger is left to its writers, who may be at it."
        ),
    ] = GRACE,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Find what writers that died have left in a table, and what other tools have broken.

    It can be run while writers write, and mounts as they do (-o arbiter=...). It exits with 1 if something
    is left at its end.
    """
    screen = Screen(as_json=as_json)
    with exits(screen):
        fs, path = mount(url, option, endpoint_url)
        with screen.progress() as progress:
            found = check(
                fs, path, repair=repair, free_lost=repair and free_lost, grace=grace, progress=progress
            )
        screen.checked(url, found, repaired=repair)
        if found.after:
            raise typer.Exit(Exit.NO)
