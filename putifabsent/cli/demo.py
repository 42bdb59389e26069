"""``putifabsent demo``."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from putifabsent.cli.arguments import AsJson
from putifabsent.cli.exits import Exit, exits
from putifabsent.cli.lab_rendering import LabScreen
from putifabsent.lab.demo import run

__all__ = ["demo"]


class Ground(str, Enum):
    """Where to race."""

    S3 = "s3"
    LOCAL = "local"


def demo(
    *,
    store: Annotated[
        list[Ground], typer.Option(help="Where: an S3 server of its own, the local disk. Repeatable.")
    ] = [Ground.S3, Ground.LOCAL],  # noqa: B006 - typer reads it, and gives each call its own
    writers: Annotated[int, typer.Option(min=1, help="Processes that write at the same time.")] = 8,
    commits: Annotated[int, typer.Option(min=1, help="Commits of each.")] = 10,
    arbiter: Annotated[
        str | None,
        typer.Option(help="Who decides through putifabsent: ballot, or an address. By default the store."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Race writers on a Paimon table, as pypaimon is, and through putifabsent.

    Counts the commits that were acknowledged, and those of them that can be read afterwards. It exits with
    1 if one was lost through putifabsent.
    """
    screen = LabScreen(as_json=as_json)
    with exits(screen):
        with screen.progress() as progress:
            races = run(writers, commits, [ground.value for ground in store], progress, arbiter=arbiter)
        screen.races(races)
        if any(race.lost for race in races if race.path == "putifabsent"):
            raise typer.Exit(Exit.NO)
