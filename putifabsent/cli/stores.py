"""The verbs about a store and what stands beside it: what is ready, its arbiter's registry, the service."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from putifabsent import __version__
from putifabsent.backends.base import Verdict
from putifabsent.backends.probe import CREATES, ROUNDS
from putifabsent.backends.probe import probe as race
from putifabsent.backends.probe_cache import NEEDED, remember
from putifabsent.backends.registry_urls import ARBITER, ask_environment, is_claims, open_claims, open_lock
from putifabsent.cli.arguments import AsJson, Endpoint, Options, Url, a_file, guarded_address, mount, mounting
from putifabsent.cli.screen import Exit, answering, check_file, empty_table, write
from putifabsent.doctor import Check, examine
from putifabsent.doctor import Verdict as Health
from putifabsent.errors import ConfigError
from putifabsent.shim.policy import ENFORCED, Policy, bucket_policy

_OF_ANY_POLICY = (
    "Names that the mount alone guards (guard=[...]), and deletions, are not covered.",
    "Arbiters beside the store publish by a plain copy, which this policy refuses: not for their tables.",
    "Other stores that speak S3 may ignore it: try a put without the condition.",
    "`aws s3api put-bucket-policy` replaces the bucket's policy: add this statement to those that are there.",
)

_COLOURS = {Health.OK: "green", Health.WARNING: "yellow", Health.WRONG: "red"}


def doctor(
    url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="Where a table is, or is going to be.", show_default=False),
    ] = None,
    *,
    address: Annotated[
        str | None,
        typer.Option(
            "--address", help="Where the coordination service is; by default where spark-defaults.conf says."
        ),
    ] = None,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Say whether this machine and a store are ready: packages, credentials, clock, Spark, the service.

    It looks, and writes nothing. No credential is printed: only of which kind it is. It exits with 1 if
    something is wrong.
    """
    with answering(as_json=as_json) as screen:
        _, options = ("", {}) if url is None else mounting(url, option, endpoint_url)
        place = url and url.removeprefix("putifabsent::")
        with screen.waiting("looking"):
            checks = list(examine(place, address=address, **options))
        screen.answer([asdict(one) for one in checks], _examined(checks))
        if any(one.verdict is Health.WRONG for one in checks):
            raise typer.Exit(Exit.NO)


def _examined(checks: Sequence[Check]) -> Iterator[Table | str]:
    table = empty_table("", "what", "found")
    for one in checks:
        found = Text.assemble(one.found, (f"\n{one.do}" if one.do else "", "bold"))
        table.add_row(Text(one.verdict.value, _COLOURS[one.verdict]), one.subject, found)
    yield table
    wrong, warnings = (sum(one.verdict is each for one in checks) for each in (Health.WRONG, Health.WARNING))
    yield f"{wrong} wrong, {warnings} to look at" if wrong or warnings else "All is well."


class Operation(str, Enum):
    """What can create a name; and what arbiters beside the store rest on."""

    PUT = "put"
    COMPLETE = "complete"
    LIST = "list"
    PUBLISH = "publish"


def probe(
    url: Url,
    *,
    operation: Annotated[
        list[Operation] | None,
        typer.Option(help="Only this operation. Repeatable; by default all that create names."),
    ] = None,
    creates: Annotated[int, typer.Option(min=CREATES, help="Simultaneous creates of one name.")] = CREATES,
    rounds: Annotated[int, typer.Option(min=1, help="Names to race, for each operation.")] = ROUNDS,
    report: Annotated[Path | None, a_file("Write what was found there, as Markdown, too.")] = None,
    option: Options = None,
    endpoint_url: Endpoint = None,
    as_json: AsJson = False,
) -> None:
    """Race a store, and say what each of its operations really guarantees.

    It writes below .putifabsent/ in a bucket or folder that is there, and removes what it wrote. Mounts of
    the same bucket use what it finds, for a week; what stops them, for an hour. It exits with 5 if one
    operation is unsafe.
    """
    with answering(as_json=as_json) as screen:
        check_file("--report", report, ".md")
        fs, folder = mount(url, option, endpoint_url, connections=creates)
        chosen = [one.value for one in operation] if operation else None
        with screen.progress() as progress:
            verdicts = race(
                fs.backend, folder, operations=chosen, creates=creates, rounds=rounds, progress=progress
            )
        # A shorter race than a mount's own must not vouch for the store.
        kept = {word: one for word, one in verdicts.items() if rounds >= ROUNDS or not one.safe}
        remember(fs.backend.kind, fs.backend.endpoint(), folder, kept)
        if report:
            write(report, _markdown(fs.backend.endpoint() or url, verdicts, creates=creates, rounds=rounds))
        screen.answer(
            {word: {"safe": one.safe, "evidence": one.evidence} for word, one in verdicts.items()},
            _shown(url, verdicts),
        )
        if not all(verdict.safe for verdict in verdicts.values()):
            raise typer.Exit(Exit.UNSAFE)


def _markdown(endpoint: str, verdicts: Mapping[str, Verdict], *, creates: int, rounds: int) -> str:
    rows = "\n".join(
        f"| `{word}` | {'safe' if one.safe else '**unsafe**'} | {one.evidence} |"
        for word, one in verdicts.items()
    )
    return f"""# {endpoint}

Raced on {datetime.now(timezone.utc):%Y-%m-%d} by putifabsent {__version__}.
Of each operation {rounds} names, with {creates} simultaneous creates of each.

- Server and version:
- Versioning of the bucket:

| operation | verdict | evidence |
|---|---|---|
{rows}
"""


def _shown(url: str, verdicts: Mapping[str, Verdict]) -> Iterator[Table | str]:
    table = empty_table("operation", "verdict", "evidence")
    for word, one in verdicts.items():
        verdict = Text("safe", "green") if one.safe else Text("unsafe", "red")
        table.add_row(word, verdict, Text(one.evidence))
    yield table
    unsafe = [one.operation for one in verdicts.values() if not one.safe]
    stopping = ", ".join(word for word in unsafe if word in NEEDED)
    if stopping:
        yield f"Unsafe: a mount of {url} raises UnsafeStore, for {stopping} can't decide who creates a name."
    elif unsafe:
        beside = ", ".join(unsafe)
        yield f"Unsafe for an arbiter beside the store: it rests on {beside}. The store's own does not."
    else:
        yield "No fault was found. That is no proof: a probe can prove a store unsafe, never safe."


def init(
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="URL",
            help=f"dynamodb://TABLE?region=..., or where a Redis is; by default what {ARBITER} says.",
            show_default=False,
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Make the registry that an arbiter needs, and check that it can be relied on.

    A DynamoDB table is made once, with on-demand billing, deletion protection and no time to live; one that
    is there is checked, and left as it is. For Redis there is nothing to make: a lock is taken on trial.
    """
    with answering(as_json=as_json) as screen:
        address = ask_environment(url)
        if is_claims(address):
            claims = open_claims(address)
            with screen.waiting(f"making {address}"):
                made = claims.init()
            identity = claims.identity()
            did = "made" if made else "there already, and can be relied on:"
            row = {"outcome": "made" if made else "there", "registry": address, "identity": identity}
            screen.answer(row, (f"{did} {address}", f"  identity  {identity}"))
        else:
            lock = open_lock(address)
            identity = lock.identity()
            with screen.waiting(f"asking {identity}"):
                lock.check()
            row = {"outcome": "nothing to make", "registry": identity, "identity": identity}
            screen.answer(row, (f"{identity} gives locks: there is nothing to make",))


def policy(
    url: Annotated[str, typer.Argument(metavar="URL", help="s3://, and a table or a folder of tables.")],
    *,
    formats: Annotated[
        list[str], typer.Option("--format", help="A format that the tables there have. Repeatable.")
    ],
) -> None:
    """Print the bucket policy by which S3 itself refuses to write over guarded names, whoever asks.

    It is JSON, on stdout; what it can't cover goes to stderr. Nothing is sent to the store.
    """
    with answering(url, as_json=False) as screen:
        protocol, place = guarded_address(url)
        if protocol != "pias3":
            raise ConfigError(
                f"{url}: only S3 has a policy that demands a condition of every put. What comes nearest "
                "elsewhere is in the documentation, under S3 bucket policy"
            )
        if not place.strip("/"):
            raise ConfigError(f"{url} names no bucket")
        chosen = Policy(formats).formats
        made = bucket_policy(place, chosen)
        screen.answer(made, (json.dumps(made, indent=2),))
        for line in (*(ENFORCED[each].beyond for each in chosen), *_OF_ANY_POLICY):
            screen.note(line)


# --- for writers on the JVM


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
