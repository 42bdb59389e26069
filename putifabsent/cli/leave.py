"""``putifabsent leave``."""

from __future__ import annotations

from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url
from putifabsent.cli.exits import exits
from putifabsent.cli.mounting import mount
from putifabsent.cli.rendering import Screen
from putifabsent.cli.stopping import Yes, ask
from putifabsent.upkeep import leave as take_leave

__all__ = ["leave"]


def leave(
    url: Url,
    *,
    yes: Yes = False,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Publish all that is decided in a table, and remove what its arbiter keeps there.

    From then on the table's plain names are all there is of it. Its writers must be stopped.
    """
    screen = Screen(as_json=as_json)
    ask(f"{url} will have no arbiter beside its store.", yes=yes)
    with exits(screen):
        fs, path = mount(url, option, endpoint_url)
        with screen.progress() as progress:
            removed = take_leave(fs, path, progress=progress)
        screen.parted(url, "left", removed)
