"""What verbs have in common that want a table's writers stopped: they say so, and ask."""

from __future__ import annotations

from typing import Annotated

import typer

from putifabsent.cli.exits import Exit

__all__ = ["Yes", "ask"]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask: the writers are stopped.")]


def ask(question: str, *, yes: bool) -> None:
    """Go on only where the user says that the writers are stopped."""
    if not yes and not typer.confirm(f"{question} All its writers must be stopped. Are they?", err=True):
        raise typer.Exit(Exit.NO)
