"""``putifabsent drop``."""

from __future__ import annotations

from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url
from putifabsent.cli.exits import exits
from putifabsent.cli.mounting import mount
from putifabsent.cli.rendering import Screen
from putifabsent.cli.stopping import Yes, ask
from putifabsent.upkeep import drop as forget

__all__ = ["drop"]


def drop(
    url: Url,
    *,
    yes: Yes = False,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Remove what an arbiter keeps of a table that was removed, end marks included; and its ledger.

    It refuses where a name lives that another arbiter than the store itself has decided. Where the store
    decides, it ends the ledger of a table that is there, too, whose names stay. The writers must be stopped.
    """
    screen = Screen(as_json=as_json)
    ask(f"What the arbiter keeps of {url} will be removed, and its ledger.", yes=yes)
    with exits(screen):
        fs, path = mount(url, option, endpoint_url)
        with screen.waiting(f"removing what is kept of {url}"):
            removed = forget(fs, path)
        screen.parted(url, "dropped", removed)
