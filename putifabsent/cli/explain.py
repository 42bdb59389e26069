"""``putifabsent explain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from putifabsent.cli.arguments import AsJson, Endpoint, Options
from putifabsent.cli.exits import exits
from putifabsent.cli.mounting import guarded_address, mount
from putifabsent.cli.rendering import Explained, Screen
from putifabsent.shim.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["explain"]


def explain(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Addresses, or local paths.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Look for the evidence at the store.")] = False,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="A format that the mount names (formats=[...]). Repeatable."),
    ] = None,
    guard: Annotated[
        list[str] | None, typer.Option(help="A pattern of more names to guard (guard=[...]). Repeatable.")
    ] = None,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Say what names are to their table formats, and what a plain write to them would do.

    Names alone are enough: nothing is asked of a store, unless --check is given.
    """
    screen = Screen(as_json=as_json)
    with exits(screen):
        policy = Policy(formats or "auto", guard or ())
        explained = [Explained(name, policy.classify(_path(name))) for name in names]
        if check:
            explained = [_checked(one, option, endpoint_url) for one in explained]
        screen.explained(explained)


def _path(url: str) -> str:
    protocol, path = guarded_address(url)
    return str(Path(path).absolute()) if protocol == "piafile" else path.rstrip("/")


def _checked(one: Explained, option: Sequence[str] | None, endpoint_url: str | None) -> Explained:
    fs, _ = mount(one.said, option, endpoint_url)
    found, against = (
        next((path for path in paths if fs.exists(path)), None)
        for paths in (one.name.evidence, one.name.unless)
    )
    return Explained(one.said, one.name, checked=True, found=found, against=against)
