"""The verbs, put together."""

from __future__ import annotations

import logging
import os
from configparser import ConfigParser
from configparser import Error as Malformed
from pathlib import Path
from typing import Annotated, Any

import typer

from putifabsent import __version__
from putifabsent.cli.arguments import PROFILE, value_of
from putifabsent.cli.lab import demo, simulate, stress
from putifabsent.cli.names import explain, put, resolve
from putifabsent.cli.screen import QUIET, VERBOSE, answering
from putifabsent.cli.stores import doctor, flink_conf, init, policy, probe, serve, spark_conf
from putifabsent.cli.tables import drop, fsck, inspect, leave, ledger, migrate, turns
from putifabsent.errors import ConfigError, sentence_of

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

for _verb, _example in (
    (demo, "demo --store s3"),
    (doctor, "doctor s3://bucket/table"),
    (probe, "probe s3://bucket/scratch --endpoint-url http://localhost:9000"),
    (explain, "explain s3://bucket/table/snapshot/snapshot-7"),
    (inspect, "inspect s3://bucket/table --report report.html"),
    (put, "put snapshot-7 s3://bucket/table/snapshot/snapshot-7"),
    (resolve, "resolve s3://bucket/table/snapshot/snapshot-7 2f1e9a7c-5d0b-4c44-9a35-6d1f0c1c7a10"),
    (init, "init 'dynamodb://claims?region=eu-west-1'"),
    (policy, "policy s3://bucket/warehouse --format delta"),
    (fsck, "fsck s3://bucket/table -o arbiter=ballot --repair"),
    (ledger, "ledger s3://bucket/table"),
    (turns, "turns s3://bucket/table"),
    (migrate, "migrate s3://bucket/table -o arbiter=ballot --to native"),
    (leave, "leave s3://bucket/table -o arbiter=ballot"),
    (drop, "drop s3://bucket/table -o arbiter=ballot"),
    (serve, "serve settings.json"),
    (spark_conf, "spark-conf s3a --address http://10.0.0.7:8976"),
    (flink_conf, "flink-conf s3a --address http://10.0.0.7:8976"),
    (simulate, "simulate --writers 2-20 --interval 1m --plots charts"),
    (stress, "stress s3://bucket/scratch --stock --report report.html"),
):
    app.command(epilog=f"Example: putifabsent {_example}")(_verb)


def _profile(name: str) -> dict[str, Any]:
    """Return the options in a section of the user's ``profiles.ini``, with values as ``-o`` takes them."""
    file = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "putifabsent", "profiles.ini")
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # an option's name is as it is written
    try:
        parser.read_string(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeError, Malformed) as error:
        why = getattr(error, "strerror", None) or sentence_of(error)
        raise ConfigError(f"--profile {name}: {file} can't be read: {why}") from error
    if name not in parser:
        there = ", ".join(parser.sections()) or "none"
        raise ConfigError(f"--profile {name}: {file} has no section [{name}]; it has {there}")
    return {key: value_of(key, text, f"{file}, {key}") for key, text in parser[name].items()}


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
    with answering(as_json=False):
        if quiet and verbose:
            raise ConfigError("--quiet and --verbose exclude each other")
        QUIET.set(quiet)
        VERBOSE.set(verbose)
        PROFILE.set(_profile(profile) if profile else {})
    if verbose:
        log, lines = logging.getLogger("putifabsent"), logging.StreamHandler()
        lines.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        log.addHandler(lines)
        log.setLevel(logging.DEBUG)
        context.call_on_close(lambda: log.removeHandler(lines))
