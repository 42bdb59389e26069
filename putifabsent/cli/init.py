"""``putifabsent init``."""

from __future__ import annotations

from typing import Annotated

import typer

from putifabsent.backends.registry_urls import ARBITER, ask_environment, is_claims, open_claims, open_lock
from putifabsent.cli.arguments import AsJson
from putifabsent.cli.exits import exits
from putifabsent.cli.rendering import Screen

__all__ = ["init"]


def init(
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="URL",
            help=f"dynamodb://TABLE?region=..., or where a Redis is; by default what {ARBITER} says.",
            show_default=False,
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Make the registry that an arbiter needs, and check that it can be relied on.

    A DynamoDB table is made once, with on-demand billing, deletion protection and no time to live; one that
    is there is checked, and left as it is. For Redis there is nothing to make: it is asked for a lock.
    """
    screen = Screen(as_json=as_json)
    with exits(screen):
        said = ask_environment(url)
        if not is_claims(said):
            lock = open_lock(said)
            with screen.waiting(f"asking {lock.identity()}"):
                lock.check()
            return screen.initialised(lock.identity(), lock.identity(), outcome="nothing to make")
        claims = open_claims(said)
        with screen.waiting(f"making {said}"):
            made = claims.init()
        screen.initialised(said, claims.identity(), outcome="made" if made else "there")
    return None
