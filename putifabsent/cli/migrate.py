"""``putifabsent migrate``."""

from __future__ import annotations

from typing import Annotated

import typer

from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url
from putifabsent.cli.exits import exits
from putifabsent.cli.mounting import mount
from putifabsent.cli.rendering import Screen
from putifabsent.cli.stopping import Yes, ask
from putifabsent.upkeep import migrate as move

__all__ = ["migrate"]


def migrate(
    url: Url,
    *,
    to: Annotated[str, typer.Option(metavar="ARBITER", help="The new one: native, ballot, or an address.")],
    yes: Yes = False,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Have another arbiter decide of a table.

    All that the old one has decided is published, and what it keeps is removed. The writers must be stopped,
    and mount the table with the new arbiter afterwards.
    """
    screen = Screen(as_json=as_json)
    ask(f"Another arbiter will decide of {url}.", yes=yes)
    with exits(screen):
        fs, path = mount(url, option, endpoint_url)
        others = [each for each in option or () if not each.startswith("arbiter=")]
        new, _ = mount(url, [*others, f"arbiter={to}"], endpoint_url)
        with screen.progress() as progress:
            removed = move(fs, new, path, progress=progress)
        screen.parted(url, "moved", removed)
