"""``putifabsent inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url
from putifabsent.cli.exits import Exit, exits
from putifabsent.cli.mounting import mount
from putifabsent.cli.rendering import Screen

if TYPE_CHECKING:
    from putifabsent.inspection import Report

__all__ = ["inspect"]


def inspect(  # noqa: PLR0913 - one an option
    url: Url,
    *,
    format: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(metavar="FORMAT", help="hudi, paimon or delta; by default what the table shows."),
    ] = None,
    no_data: Annotated[
        bool,
        typer.Option(
            "--no-data", help="Don't list data files: find only what the timeline proves by itself."
        ),
    ] = False,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Print the timeline, too, not only what is wrong.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Draw the timeline there, as SVG.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Write an HTML report, the picture inside."),
    ] = None,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a table was hurt: its format, its timeline, and what is wrong with it.

    Nothing is written, and writers may write meanwhile. It exits with 1 if something is damaged; notices
    alone don't prove that.
    """
    screen = Screen(as_json=as_json)
    with exits(screen):
        from putifabsent.inspection import inspect as look

        fs, path = mount(url, option, endpoint_url)
        with screen.progress() as progress:
            found = look(path, fs=fs, format=format, data=not no_data, progress=progress)
        if plot or report:
            _draw(found, plot, report)
        screen.inspected(url, found, timeline=timeline)
        if found.damage:
            raise typer.Exit(Exit.NO)


def _draw(found: Report, plot: Path | None, report: Path | None) -> None:
    from putifabsent.inspection.page import page
    from putifabsent.inspection.picture import svg

    for file, draw in ((plot, svg), (report, page)):
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(draw(found), encoding="utf-8")
