"""``putifabsent ledger``."""

from __future__ import annotations

import typer

from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url
from putifabsent.cli.exits import Exit, exits
from putifabsent.cli.mounting import mount
from putifabsent.cli.rendering import Screen
from putifabsent.upkeep import ledger_of

__all__ = ["ledger"]


def ledger(
    url: Url,
    *,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Show a table's ledger: who writes what, who has the turn, and which instants are remembered.

    Nothing is written, and writers may write meanwhile. It exits with 1 if the ledger was removed half.
    """
    screen = Screen(as_json=as_json)
    with exits(screen):
        fs, path = mount(url, option, endpoint_url)
        with screen.waiting(f"reading the ledger of {url}"):
            found = ledger_of(fs, path)
        screen.ledger(url, found)
        if found is not None and found.half_removed is not None:
            raise typer.Exit(Exit.NO)
