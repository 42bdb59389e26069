"""``putifabsent stress``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url
from putifabsent.cli.exits import Exit, exits
from putifabsent.cli.lab_rendering import LabScreen
from putifabsent.cli.mounting import guarded_address, parse_options
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.lab.stress.paths import Contender
    from putifabsent.lab.stress.running import Ran, Stress

__all__ = ["stress"]


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
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Run the writers as Spark tasks, there: local[*], spark://HOST:PORT."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write an HTML report, charts inside.")
    ] = None,
    endpoint_url: Endpoint = None,
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """Set many writers at tables, with faults, and judge what each of them was told.

    Each run makes new tables below URL, in a folder of its own, and leaves them there. It exits with 1 if a
    promise was broken through putifabsent; what the other clients break is counted beside it.
    """
    screen = LabScreen(as_json=as_json)
    with exits(screen, url):
        from putifabsent.lab.durations import parse
        from putifabsent.lab.stress.running import FAULTS, Stress
        from putifabsent.lab.stress.workloads import WORKLOADS

        unknown = sorted(set(without or ()) - set(FAULTS))
        if unknown:
            raise ConfigError(f"--without {unknown[0]}: the faults are {', '.join(FAULTS)}")
        root, contenders = _contenders(url, option, endpoint_url, arbiter or ["auto"], stock=stock)
        what = Stress(
            root,
            tuple(form or WORKLOADS),
            writers,
            tables,
            parse(duration, "--duration") / 1000,
            tuple(fault for fault in FAULTS if fault not in (without or ())),
            seed,
        )
        runs = _run(screen, what, contenders, master)
        if report:
            from putifabsent.lab.stress.report import page

            report.parent.mkdir(parents=True, exist_ok=True)
            report.write_text(page(what, runs), encoding="utf-8")
        screen.stressed(runs)
        if any(ran.violations for ran in runs if ran.contender.is_ours):
            raise typer.Exit(Exit.NO)
        if any(ran.idle for ran in runs if ran.contender.is_ours):
            raise typer.Exit(Exit.FAILED)


def _contenders(
    url: str,
    option: Sequence[str] | None,
    endpoint_url: str | None,
    arbiters: Sequence[str],
    *,
    stock: bool,
) -> tuple[str, list[Contender]]:
    """Return the folder of all runs, and the paths to it."""
    from putifabsent.lab.stress.paths import guarded, stock_of

    protocol, root = guarded_address(url)
    if protocol == "piamemory":
        raise ConfigError("memory:// is one process's own: its writers can't be others")
    options = parse_options(option or ())
    if endpoint_url is not None:
        options["endpoint_url"] = endpoint_url
    if protocol == "piafile":
        root = str(Path(root).resolve())
    ours = [
        guarded(protocol, f"putifabsent, {each.partition(':')[0]}", {**options, "arbiter": each})
        for each in arbiters
    ]
    return root, [*ours, *(stock_of(protocol, options) if stock else [])]


def _run(screen: LabScreen, what: Stress, contenders: Sequence[Contender], master: str | None) -> list[Ran]:
    if master is None:
        from putifabsent.lab.stress.running import run as here

        with screen.progress() as progress:
            return [here(what, contender, progress) for contender in contenders]
    if find_spec("pyspark") is None:
        raise ConfigError("--master wants PySpark, which is not installed: pip install pyspark")
    from putifabsent.lab.stress.on_spark import run as on_spark

    with screen.waiting(f"{len(contenders)} Spark jobs at {master}, of {what.seconds:g} s each"):
        return on_spark(what, contenders, master)
