"""What verbs have in common that want a table's writers stopped: they say so, and ask."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from putifabsent.cli.exits import Exit

__all__ = ["Yes", "ask"]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask: the writers are stopped.")]


def ask(question: str, *, yes: bool) -> None:
    """Go on only where the user says that the writers are stopped."""
    if yes:
        return
    # Not by typer's own prompt, a part of which goes to stdout.
    typer.echo(f"{question} All its writers must be stopped. Are they? [y/N] ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Exit(Exit.NO)
