"""The verbs, put together."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from putifabsent import __version__
from putifabsent.cli.arguments import PROFILE, read_profile
from putifabsent.cli.lab import demo, simulate, stress
from putifabsent.cli.names import explain, put, resolve
from putifabsent.cli.screen import VERBOSITY, Screen, Verbosity, exits
from putifabsent.cli.service import flink_conf, serve, spark_conf
from putifabsent.cli.stores import doctor, init, policy, probe
from putifabsent.cli.tables import drop, fsck, inspect, leave, ledger, migrate, turns
from putifabsent.errors import ConfigError

__all__ = ["app"]

_EXITS = (
    "Exit codes: 0 done; 1 the answer is no (a taken name, a lost commit, a broken promise, leftovers, "
    "something wrong); 2 usage; 3 the outcome is unknown; 4 it could not be done, and nothing was written; "
    "5 the store is unsafe; 6 the table is damaged."
)

app = typer.Typer(
    name="putifabsent",
    help="Atomic create-if-absent on any store, for writers that don't know they need it.",
    epilog=_EXITS,
    no_args_is_help=True,
    rich_markup_mode="markdown",  # a paragraph of a docstring is one, whatever its lines
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(epilog="Example: putifabsent demo --store s3")(demo)
app.command(epilog="Example: putifabsent doctor s3://bucket/table")(doctor)
app.command(epilog="Example: putifabsent probe s3://bucket/scratch --endpoint-url http://localhost:9000")(
    probe
)
app.command(epilog="Example: putifabsent explain s3://bucket/table/snapshot/snapshot-7")(explain)
app.command(epilog="Example: putifabsent inspect s3://bucket/table --report report.html")(inspect)
app.command(epilog="Example: putifabsent put snapshot-7 s3://bucket/table/snapshot/snapshot-7")(put)
app.command(
    epilog="Example: putifabsent resolve s3://bucket/table/snapshot/snapshot-7 "
    "2f1e9a7c-5d0b-4c44-9a35-6d1f0c1c7a10",
)(resolve)

app.command(epilog="Example: putifabsent init 'dynamodb://claims?region=eu-west-1'")(init)
app.command(epilog="Example: putifabsent policy s3://bucket/warehouse --format delta")(policy)
app.command(epilog="Example: putifabsent fsck s3://bucket/table -o arbiter=ballot --repair")(fsck)
app.command(epilog="Example: putifabsent ledger s3://bucket/table")(ledger)
app.command(epilog="Example: putifabsent turns s3://bucket/table")(turns)
app.command(epilog="Example: putifabsent migrate s3://bucket/table -o arbiter=ballot --to native")(migrate)
app.command(epilog="Example: putifabsent leave s3://bucket/table -o arbiter=ballot")(leave)
app.command(epilog="Example: putifabsent drop s3://bucket/table -o arbiter=ballot")(drop)

app.command(epilog="Example: putifabsent serve settings.json")(serve)
app.command(epilog="Example: putifabsent spark-conf s3a --address http://10.0.0.7:8976")(spark_conf)
app.command(epilog="Example: putifabsent flink-conf s3a --address http://10.0.0.7:8976")(flink_conf)

app.command(epilog="Example: putifabsent simulate --writers 2-20 --interval 1m --plots charts")(simulate)
app.command(epilog="Example: putifabsent stress s3://bucket/scratch --stock --report report.html")(stress)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"putifabsent {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    *,
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Take the filesystem's options from this section of profiles.ini."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print answers and errors only.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print what has led to an error, and log lines.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version
    with exits(Screen(as_json=False)):
        if quiet and verbose:
            raise ConfigError("--quiet and --verbose exclude each other")
        VERBOSITY.set(Verbosity.QUIET if quiet else Verbosity.VERBOSE if verbose else Verbosity.USUAL)
        PROFILE.set(read_profile(profile) if profile else {})
    if verbose:
        log, lines = logging.getLogger("putifabsent"), logging.StreamHandler()
        lines.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        log.addHandler(lines)
        log.setLevel(logging.DEBUG)
        context.call_on_close(lambda: log.removeHandler(lines))
