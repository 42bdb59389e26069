"""The lab's verbs: ``putifabsent demo``, ``simulate`` and ``stress``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from putifabsent.cli.arguments import (
    AsJson,
    Endpoint,
    Options,
    Url,
    a_file,
    a_master,
    command_line,
    mounting,
    session_at,
)
from putifabsent.cli.screen import Exit, Screen, answering, check_file, empty_table, write
from putifabsent.errors import ConfigError
from putifabsent.lab.demo import Race
from putifabsent.lab.demo import run as race

if TYPE_CHECKING:
    from putifabsent.lab.simulate import Cell, Experiment, Published
    from putifabsent.lab.stress.paths import Contender
    from putifabsent.lab.stress.pool import Stress
    from putifabsent.lab.stress.results import Result

_WRITERS = re.compile(r"(-?\d+)(?:-(\d+))?", re.ASCII)
_PERCENT = re.compile(r"(-?\d+(?:\.\d+)?) ?%", re.ASCII)
_ERRORS = 3  # kinds of them that are shown of each run, the most frequent ones


class Ground(str, Enum):
    """Where to race."""

    S3 = "s3"
    LOCAL = "local"


def demo(
    *,
    store: Annotated[
        list[Ground], typer.Option(help="Where: an S3 server of its own, the local disk. Repeatable.")
    ] = [Ground.S3, Ground.LOCAL],  # noqa: B006 - typer reads it, and gives each call its own
    writers: Annotated[int, typer.Option(min=1, help="Processes that write at the same time.")] = 8,
    commits: Annotated[int, typer.Option(min=1, help="Commits of each.")] = 10,
    arbiter: Annotated[
        str | None,
        typer.Option(help="Who decides through putifabsent: ballot, or an address. By default the store."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Race writers on a Paimon table, as pypaimon is, and through putifabsent.

    Counts the commits that were acknowledged, and those of them that can be read afterwards. It exits with
    1 if one was lost, or is there twice, through putifabsent; with 4 if none was acknowledged there, or
    writers died or hung.
    """
    with answering(as_json=as_json) as screen:
        with screen.progress() as progress:
            races = race(writers, commits, [ground.value for ground in store], progress, arbiter=arbiter)
        for each in races:
            for error, times in each.errors.items():
                screen.note(f"{each.path} on {each.store}: {times} x {error}")
        columns = ("path", "store", "acknowledged", "readable", "lost", "repeated", "seconds")
        screen.answer(
            [{column: getattr(each, column) for column in columns} for each in races], _race_lines(races)
        )
        unanswered = [each for each in races if each.unanswered]
        for each in unanswered:
            what = f"{each.path} on {each.store}: {each.unanswered} commits have no answer"
            screen.error(f"{what}: a writer died, or hung until the time limit")
        ours = [each for each in races if each.path == "putifabsent"]
        if any(each.lost or each.repeated for each in ours):
            raise typer.Exit(Exit.NO)
        if unanswered or not all(each.acknowledged for each in ours):
            raise typer.Exit(Exit.FAILED)


def _race_lines(races: Sequence[Race]) -> Iterator[Table | str]:
    table = empty_table("store", "path", "acknowledged", "readable", "lost", "repeated", "seconds", right=5)
    for each in races:
        row = (each.store, each.path, str(each.acknowledged), str(each.readable))
        wrong = (Text(str(number), "red" if number else "green") for number in (each.lost, each.repeated))
        table.add_row(*row, *wrong, f"{each.seconds:.1f}")
    yield table
    ours, stock = ([each for each in races if each.path == path] for path in ("putifabsent", "stock"))
    lost, commits = sum(each.lost for each in stock), sum(each.acknowledged for each in stock)
    first = (
        f"pypaimon as it is acknowledged {commits} commits and lost {lost} of them in this run"
        if lost
        else f"pypaimon as it is lost none of {commits} commits in this run; another run may"
    )
    lost, commits = sum(each.lost for each in ours), sum(each.acknowledged for each in ours)
    repeated = sum(each.repeated for each in ours)
    idle = [each.store for each in ours if not each.acknowledged]
    if lost or repeated:
        twice = f", and {repeated} are there twice" if repeated else ""
        found = f"{lost} of {commits} were lost{twice}: that is a bug, please report it"
    elif idle:
        found = f"none was acknowledged on {' and '.join(idle)}: nothing was tried there"
    else:
        found = f"it acknowledged {commits}, and lost none"
    yield f"{first}. Through putifabsent {found}."


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
    master: Annotated[str | None, a_master("Run it as a Spark job")] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", file_okay=False, help="Draw charts there, PNG and SVG.")
    ] = None,
    report: Annotated[Path | None, a_file("Write an HTML report, charts inside.")] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate how often writers take the same timestamp from their own clocks.

    Without a file, there is a cell for each number of writers and interval. With --published it exits with
    1 if a cell differs from the published one by more than noise.
    """
    with answering(as_json=as_json) as screen:
        from putifabsent.lab.simulate import published as published_cells
        from putifabsent.lab.simulate import read
        from putifabsent.lab.simulate_report import differing

        check_file("--report", report, ".html")
        theirs: Sequence[Published] = published_cells() if published else ()
        if published + (file is not None) + bool(writers or interval) != 1:
            raise ConfigError("say what to simulate: --writers and --interval, or --file, or --published")
        if published:
            experiments = [each.experiment for each in theirs]
        else:
            experiments = read(file) if file else _grid(writers or [], interval or [], jitter, duration)
        if plots and not published:
            _check_that_something_is_drawn(experiments)
        cells = _simulated(screen, experiments, runs, seed, processes, master)
        if plots or report:
            _draw(cells, theirs, seed, plots, report)
        numbers = [{"experiment": each.number} for each in theirs] or [{} for _ in cells]
        screen.answer(
            [{**number, **cell.row()} for number, cell in zip(numbers, cells, strict=True)],
            _cell_lines(cells, theirs),
        )
        if published and differing(cells, theirs):
            raise typer.Exit(Exit.NO)


def _simulated(
    screen: Screen,
    experiments: Sequence[Experiment],
    runs: int,
    seed: int,
    processes: int | None,
    master: str | None,
) -> list[Cell]:
    if master is not None:
        if processes is not None:
            raise ConfigError("--processes is for runs without Spark: leave it or --master out")
        from putifabsent.lab.simulate import Plan, simulate_on

        plan = Plan(experiments, runs, seed)
        with screen.waiting(f"a Spark job at {master}"), session_at(master, "putifabsent simulate") as spark:
            return simulate_on(spark, plan)
    from putifabsent.lab.simulate import simulate as here

    processes = len(os.sched_getaffinity(0)) if processes is None else processes
    with screen.progress() as progress:
        return here(experiments, runs, seed, processes, progress)


def _grid(writers: Sequence[str], intervals: Sequence[str], jitter: str, duration: str) -> list[Experiment]:
    from putifabsent.lab.simulate import Experiment, parse_duration

    if not writers or not intervals:
        raise ConfigError("--writers and --interval go together: --writers 2-20 --interval 1m")
    spans = [parse_duration(text, "--interval") for text in intervals]
    percent = _PERCENT.fullmatch(jitter.strip())
    return [
        Experiment(
            number,
            span,
            round(span * float(percent[1]) / 100) if percent else parse_duration(jitter, "--jitter"),
            parse_duration(duration, "--duration"),
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
    from putifabsent.lab.simulate_report import charts

    if not charts([Cell(experiment, (1,)) for experiment in experiments]):
        several = "several numbers of writers, or several intervals"
        raise ConfigError(f"--plots has nothing to draw: give {several}")


def _draw(
    cells: Sequence[Cell], published: Sequence[Published], seed: int, plots: Path | None, report: Path | None
) -> None:
    from putifabsent.lab.simulate_report import charts, page, published_charts, save

    drawn = published_charts(cells, published) if published else charts(cells)
    if plots:
        save(drawn, plots)
    if report:
        write(report, page(cells, drawn, seed, published, command=command_line()))


def _cell_lines(cells: Sequence[Cell], published: Sequence[Published]) -> Iterator[Table | str]:
    from putifabsent.lab.simulate import formatted
    from putifabsent.lab.simulate_report import verdict

    given = ("writers", "interval", "jitter", "duration")
    columns = (*given, "mean", *(() if published else ("min",)), "max", "runs with one")
    table = empty_table(*[""] * bool(published), *columns, right=len(columns))
    for number, cell in enumerate(cells):
        what = cell.experiment
        spans = (formatted(each) for each in (what.interval, what.jitter, what.duration))
        mean, *more = _found(cell)
        if published:
            table.add_row("ours", str(what.writers), *spans, mean, *more)
            table.add_row("published", *[""] * len(given), *_found(published[number]))
        else:
            table.add_row(str(what.writers), *spans, mean, str(cell.fewest), *more)
    yield table
    if published:
        yield verdict(cells, published)


def _found(cell: Cell | Published) -> tuple[str, str, str]:
    return f"{cell.mean:.3f}", str(cell.most), f"{cell.percent:.1f} %"


def stress(  # noqa: PLR0913 - one an option
    url: Url,
    *,
    arbiter: Annotated[
        list[str] | None,
        typer.Option(help="Who decides: auto, native, ballot, or an address. Repeatable: one run each."),
    ] = None,
    stock: Annotated[
        bool, typer.Option("--stock", help="Run the store's other clients, too, as writers have them.")
    ] = False,
    writers: Annotated[int, typer.Option(help="Processes that write at the same time.")] = 32,
    duration: Annotated[str, typer.Option(metavar="TIME", help="Of each run: 30s, 2m, 20m.")] = "2m",
    form: Annotated[
        list[str] | None,
        typer.Option(
            "--format", help="What they write: hudi, paimon, delta. Repeatable; by default all, by turns."
        ),
    ] = None,
    tables: Annotated[int, typer.Option(help="Tables of each format: more are less contended.")] = 1,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="FAULT", help="Leave that out: kill, pause, lost (answers). Repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of which writers and answers are hit.")] = 1,
    master: Annotated[str | None, a_master("Run the writers as Spark tasks")] = None,
    report: Annotated[Path | None, a_file("Write an HTML report, charts inside.")] = None,
    endpoint_url: Endpoint = None,
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """Set many writers at tables, with faults, and judge the responses that each of them got.

    Each run makes new tables below URL, in a folder of its own, and leaves them there. It exits with 1 if a
    promise was broken through putifabsent; what the other clients break is counted beside it.
    """
    with answering(url, as_json=as_json) as screen:
        from putifabsent.lab.simulate import parse_duration
        from putifabsent.lab.stress import results
        from putifabsent.lab.stress.pool import FAULTS, Stress
        from putifabsent.lab.stress.writers import WORKLOADS

        check_file("--report", report, ".html")
        unknown = sorted(set(without or ()) - set(FAULTS))
        if unknown:
            raise ConfigError(f"--without {unknown[0]}: the faults are {', '.join(FAULTS)}")
        root, contenders = _contenders(url, option, endpoint_url, arbiter or ["auto"], stock=stock)
        faults = tuple(fault for fault in FAULTS if fault not in (without or ()))
        seconds = parse_duration(duration, "--duration") / 1000
        what = Stress(root, tuple(form or WORKLOADS), writers, tables, seconds, faults, seed)
        runs, failed = _stressed(screen, what, contenders, master)
        if report:
            from putifabsent.lab.stress.results import page

            write(report, page(what, runs, command=command_line()))
        for result in runs:
            for error, times in results.errors(result)[:_ERRORS]:
                screen.note(f"{result.contender.label}: {times} x {error}")
        screen.answer([results.row(result) for result in runs], _stress_lines(runs))
        for contender, why in failed:
            screen.error(f"{contender.label} is left out, for it failed: {type(why).__name__}: {why}")
        if any(result.violations for result in runs if result.contender.is_ours):
            raise typer.Exit(Exit.NO)
        idle = any(result.idle for result in runs if result.contender.is_ours)
        if idle or any(contender.is_ours for contender, _ in failed):
            raise typer.Exit(Exit.FAILED)


def _contenders(
    url: str, option: Sequence[str] | None, endpoint_url: str | None, arbiters: Sequence[str], *, stock: bool
) -> tuple[str, list[Contender]]:
    """Return the folder of all runs, and the paths to it."""
    from putifabsent.lab.stress.paths import guarded, stock_of

    address, options = mounting(url, option, endpoint_url)
    protocol, _, root = address.partition("://")
    if protocol == "piamemory":
        raise ConfigError("memory:// is one process's own: its writers can't be others")
    if protocol == "piafile":
        root = str(Path(root).resolve())
    ours = [
        guarded(protocol, f"putifabsent, {each.partition(':')[0]}", {**options, "arbiter": each})
        for each in arbiters
    ]
    return root, [*ours, *(stock_of(protocol, options) if stock else [])]


def _stressed(
    screen: Screen, what: Stress, contenders: Sequence[Contender], master: str | None
) -> tuple[list[Result], list[tuple[Contender, Exception]]]:
    """Return what came of the runs, and which failed; one of ours that is the first one fails at once."""
    runs: list[Result] = []
    failed: list[tuple[Contender, Exception]] = []
    run: Callable[[Contender], Result]
    with ExitStack() as running:
        if master is None:
            from putifabsent.lab.stress.running import run as here

            run = partial(here, what, progress=running.enter_context(screen.progress()))
        else:
            from putifabsent.lab.stress.running import SETTINGS, stress_on

            jobs = f"{len(contenders)} Spark jobs at {master}, of {what.seconds:g} s each"
            running.enter_context(screen.waiting(jobs))
            session = running.enter_context(session_at(master, "putifabsent stress", SETTINGS))
            run = partial(stress_on, session, what)
        for contender in contenders:
            try:
                runs.append(run(contender))
            except Exception as error:
                if contender.is_ours and not runs:
                    raise
                failed.append((contender, error))
    return runs, failed


def _stress_lines(runs: Sequence[Result]) -> Iterator[Table | str]:
    from putifabsent.lab.stress.results import COLUMNS, PROMISES, cells, verdict

    # Two tables, for a line has no room for what was done and for what was broken.
    done = len(COLUMNS) - len(PROMISES)
    for shown in (range(done), (0, *range(done, len(COLUMNS)))):
        table = empty_table(*(COLUMNS[at] for at in shown), right=len(shown) - 1)
        for result in runs:
            row = cells(result)
            table.add_row(*(row[at] for at in shown), style="red" if result.violations else None)
        yield table
    yield verdict(runs)
