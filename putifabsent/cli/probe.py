"""``putifabsent probe``."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from putifabsent.backends.probe import CREATES, ROUNDS
from putifabsent.backends.probe import probe as race
from putifabsent.backends.verdicts import remember
from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url
from putifabsent.cli.exits import Exit, exits
from putifabsent.cli.mounting import mount
from putifabsent.cli.rendering import Screen

__all__ = ["probe"]


class Operation(str, Enum):
    """What can create a name; and what arbiters beside the store rest on."""

    PUT = "put"
    COMPLETE = "complete"
    COPY = "copy"
    LIST = "list"
    PUBLISH = "publish"


def probe(
    url: Url,
    *,
    operation: Annotated[
        list[Operation] | None,
        typer.Option(help="Only this operation. Repeatable; by default all that create names."),
    ] = None,
    creates: Annotated[int, typer.Option(min=CREATES, help="Simultaneous creates of one name.")] = CREATES,
    rounds: Annotated[int, typer.Option(min=1, help="Names to race, for each operation.")] = ROUNDS,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Race a store, and say what each of its operations really guarantees.

    It writes below .putifabsent/ in a bucket or folder that is there, and removes what it wrote. Mounts of
    the same endpoint use what it finds, for a week; what stops them, for an hour. It exits with 1 if one
    operation is unsafe.
    """
    screen = Screen(as_json=as_json)
    with exits(screen):
        fs, folder = mount(url, option, endpoint_url, connections=creates)
        chosen = [one.value for one in operation] if operation else None
        with screen.progress() as progress:
            verdicts = race(
                fs.backend, folder, operations=chosen, creates=creates, rounds=rounds, progress=progress
            )
        # A shorter race than a mount's own must not vouch for the store.
        kept = {word: one for word, one in verdicts.items() if rounds >= ROUNDS or not one.safe}
        remember(fs.backend.kind, fs.backend.endpoint(), kept)
        screen.verdicts(url, verdicts)
        if not all(verdict.safe for verdict in verdicts.values()):
            raise typer.Exit(Exit.NO)
