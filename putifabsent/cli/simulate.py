"""``putifabsent simulate``."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from putifabsent.cli.arguments import AsJson
from putifabsent.cli.exits import Exit, exits
from putifabsent.cli.lab_rendering import LabScreen
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.lab.simulate import Cell, Experiment
    from putifabsent.lab.simulate.published import Published

__all__ = ["simulate"]

_WRITERS = re.compile(r"(-?\d+)(?:-(\d+))?", re.ASCII)
_PERCENT = re.compile(r"(-?\d+(?:\.\d+)?) ?%", re.ASCII)


def simulate(  # noqa: PLR0913 - one an option
    *,
    writers: Annotated[
        list[str] | None, typer.Option(metavar="N", help="Writers: 5, or 2-20. Repeatable.")
    ] = None,
    interval: Annotated[
        list[str] | None, typer.Option(metavar="TIME", help="From a write to the next: 90s, 1m. Repeatable.")
    ] = None,
    jitter: Annotated[
        str, typer.Option(metavar="TIME", help="By how much that differs at most, either way: 3s, or 5%.")
    ] = "5%",
    duration: Annotated[str, typer.Option(metavar="TIME", help="For how long they write: 24h, 7d.")] = "24h",
    file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A JSON or CSV file of cells, instead.")
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="The 78 published cells, instead, compared with ours.")
    ] = False,
    runs: Annotated[int, typer.Option(help="Runs of each cell.")] = 1_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 1,
    processes: Annotated[
        int | None, typer.Option(help="Processes that share the work; by default one a core.")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Run it as a Spark job, there: local[*], spark://HOST:PORT."),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", file_okay=False, help="Draw charts there, PNG and SVG.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write an HTML report, charts inside.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate how often writers take the same timestamp from their own clocks.

    Without a file, there is a cell for each number of writers and interval. With --published it exits with
    1 if a cell differs from the published one by more than noise.
    """
    screen = LabScreen(as_json=as_json)
    with exits(screen):
        from putifabsent.lab.simulate import published as publication

        theirs: Sequence[Published] = publication.published() if published else ()
        if published + (file is not None) + bool(writers or interval) != 1:
            raise ConfigError("say what to simulate: --writers and --interval, or --file, or --published")
        experiments = (
            [each.experiment for each in theirs]
            if published
            else _listed(file)
            if file
            else _told(writers or [], interval or [], jitter, duration)
        )
        if plots and not published:
            _check_that_something_is_drawn(experiments)
        cells = _run(screen, experiments, runs, seed, processes, master)
        if plots or report:
            _draw(cells, theirs, seed, plots, report)
        screen.simulated(cells, theirs)
        if published and publication.differing(cells, theirs):
            raise typer.Exit(Exit.NO)


def _run(
    screen: LabScreen,
    experiments: Sequence[Experiment],
    runs: int,
    seed: int,
    processes: int | None,
    master: str | None,
) -> list[Cell]:
    if master is not None:
        if processes is not None:
            raise ConfigError("--processes is for runs without Spark: leave it or --master out")
        if find_spec("pyspark") is None:
            raise ConfigError("--master wants PySpark, which is not installed: pip install pyspark")
        from putifabsent.lab.simulate.on_spark import simulate as on_spark

        with screen.waiting(f"a Spark job at {master}"):
            return on_spark(experiments, runs, seed, master)
    from putifabsent.lab.simulate import simulate as here

    processes = len(os.sched_getaffinity(0)) if processes is None else processes
    with screen.progress() as progress:
        return here(experiments, runs, seed, processes, progress)


def _listed(file: Path) -> list[Experiment]:
    from putifabsent.lab.simulate.cells import read

    return read(file)


def _told(writers: Sequence[str], intervals: Sequence[str], jitter: str, duration: str) -> list[Experiment]:
    from putifabsent.lab.durations import parse
    from putifabsent.lab.simulate import Experiment

    if not writers or not intervals:
        raise ConfigError("--writers and --interval go together: --writers 2-20 --interval 1m")
    spans = [parse(text, "--interval") for text in intervals]
    percent = _PERCENT.fullmatch(jitter.strip())
    return [
        Experiment(
            number,
            span,
            round(span * float(percent[1]) / 100) if percent else parse(jitter, "--jitter"),
            parse(duration, "--duration"),
        )
        for text in writers
        for number in _numbers(text)
        for span in spans
    ]


def _numbers(text: str) -> range:
    match = _WRITERS.fullmatch(text.strip())
    if match is None or (match[2] and int(match[2]) < int(match[1])):
        raise ConfigError(f"--writers is {text!r}: give a number, or the lowest and the highest, as in 2-20")
    return range(int(match[1]), int(match[2] or match[1]) + 1)


def _check_that_something_is_drawn(experiments: Sequence[Experiment]) -> None:
    from putifabsent.lab.simulate import Cell
    from putifabsent.lab.simulate.charts import charts

    if not charts([Cell(experiment, (1,)) for experiment in experiments]):
        raise ConfigError(
            "--plots has nothing to draw: give several numbers of writers, or several intervals"
        )


def _draw(
    cells: Sequence[Cell], published: Sequence[Published], seed: int, plots: Path | None, report: Path | None
) -> None:
    from putifabsent.lab.simulate.charts import charts, published_charts, save
    from putifabsent.lab.simulate.report import page

    drawn = published_charts(cells, published) if published else charts(cells)
    if plots:
        save(drawn, plots)
    if report:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(page(cells, drawn, seed, published), encoding="utf-8")
