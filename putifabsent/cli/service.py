"""The verbs for writers on the JVM: ``putifabsent serve``, ``spark-conf`` and ``flink-conf``."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from putifabsent.cli.screen import answering
from putifabsent.errors import ConfigError

_ADDRESS = typer.Option(
    "--address", help="Where the coordination service is: http://HOST:PORT; several with commas between."
)


def serve(
    settings: Annotated[
        str, typer.Argument(metavar="SETTINGS", help="A JSON file, or - for standard input: see the docs.")
    ],
    until_eof: Annotated[
        bool,
        typer.Option(
            "--until-eof", help="The settings are one line of standard input; end when that closes."
        ),
    ] = False,
) -> None:
    """Run the coordination service, for those who can't import this package.

    As soon as it listens it prints its address, as JSON. It ends at SIGTERM, after what it has begun. The
    secret is never an argument: it is in the settings, or in PUTIFABSENT_SERVICE_SECRET.
    """
    with answering(settings, as_json=True):
        from putifabsent import service
        from putifabsent.service.settings import SECRET

        if until_eof and settings != "-":
            raise ConfigError("--until-eof is for settings that come by standard input: say -")
        service.serve(
            service.Settings.parse(_read(settings, line=until_eof), os.environ.get(SECRET)),
            partial(_say, goes_on=not until_eof),
            _wait_for_eof if until_eof else None,
        )


def _say(address: str, *, goes_on: bool) -> None:
    typer.echo(json.dumps({"address": address}))
    if not goes_on:
        # Whoever has started it reads no more: what anybody prints later must not wait for a reader.
        sys.stdout.flush()
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def _read(settings: str, *, line: bool) -> str:
    if settings != "-":
        return Path(settings).read_text()
    return sys.stdin.readline() if line else sys.stdin.read()


def _wait_for_eof() -> None:
    # Not by sys.stdin: whoever reads there when Python ends holds a lock that Python then wants.
    while os.read(sys.stdin.fileno(), 4096):
        pass


def spark_conf(
    schemes: Annotated[
        list[str], typer.Argument(metavar="SCHEME...", help="Schemes to guard: s3a, gs, abfss, file.")
    ],
    address: Annotated[str, _ADDRESS],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Print the lines of spark-defaults.conf that guard schemes, for those who don't mount from Python.

    The secret is not among them: Hadoop takes it from the variable PUTIFABSENT_SERVICE_SECRET, which driver
    and executors must have.
    """
    with answering(as_json=as_json) as screen:
        from putifabsent.spark import jar
        from putifabsent.spark.settings import HUDI, defaults

        options = defaults(schemes, address, jar())
        width = max(map(len, options))
        screen.answer(
            {"spark": options, "hudi": HUDI},
            (
                *(f"{key:{width}}  {value}" for key, value in options.items()),
                "\n# For each application that has executors, so that they and its driver are one session:",
                "# --conf spark.hadoop.fs.putifabsent.session=$(uuidgen)",
                "\n# For Hudi, in hudi-defaults.conf on the driver's class path, or in HUDI_CONF_DIR:",
                *(f"# {key}={value}" for key, value in HUDI.items()),
            ),
        )


def flink_conf(
    schemes: Annotated[
        list[str], typer.Argument(metavar="SCHEME...", help="Schemes to guard: s3a, gs, abfss.")
    ],
    address: Annotated[str, _ADDRESS],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Print the core-site.xml by which Flink's writers are guarded, and on stderr what else they need.

    The secret is not in it: Hadoop takes it from the variable PUTIFABSENT_SERVICE_SECRET, which job managers,
    task managers and clients must have.
    """
    with answering(as_json=as_json) as screen:
        from putifabsent.flink import settings
        from putifabsent.spark import jar

        flink, adapter = settings(schemes, address), jar()
        screen.answer(
            {"lib": adapter, "config.yaml": flink.config, "core-site.xml": flink.site}, [flink.site_as_xml()]
        )
        screen.note(f"core-site.xml goes into HADOOP_CONF_DIR; into Flink's lib/ goes {adapter}")
        for key, value in flink.config.items():
            screen.note(f"into config.yaml goes  {key}: {value}")
