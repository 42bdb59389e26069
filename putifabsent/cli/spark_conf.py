"""``putifabsent spark-conf``."""

from __future__ import annotations

from typing import Annotated

import typer

from putifabsent.cli.exits import exits
from putifabsent.cli.rendering import Screen

__all__ = ["spark_conf"]


def spark_conf(
    schemes: Annotated[
        list[str], typer.Argument(metavar="SCHEME...", help="Schemes to guard: s3a, gs, file.")
    ],
    address: Annotated[
        str, typer.Option("--address", help="Where the coordination service is: http://HOST:PORT.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Print the lines of spark-defaults.conf that guard schemes, for those who don't mount from Python.

    The secret is not among them: Hadoop takes it from the variable PUTIFABSENT_SERVICE_SECRET, which driver
    and executors must have.
    """
    screen = Screen(as_json=as_json)
    with exits(screen):
        from putifabsent.spark import jar
        from putifabsent.spark.settings import HUDI, defaults

        said = defaults(schemes, address, jar())
        screen.json({"spark": said, "hudi": HUDI})
        if not as_json:
            width = max(map(len, said))
            for key, value in said.items():
                typer.echo(f"{key:{width}}  {value}")
            typer.echo(
                "\n# For each application that has executors, so that they and its driver are one session:"
            )
            typer.echo("# --conf spark.hadoop.fs.putifabsent.session=$(uuidgen)")
            typer.echo("\n# For Hudi, in hudi-defaults.conf on the driver's class path, or in HUDI_CONF_DIR:")
            for key, value in HUDI.items():
                typer.echo(f"# {key}={value}")
