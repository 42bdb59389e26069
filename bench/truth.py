"""What each client tells a writer when an answer is lost, against what is true.

One matrix for all of them, on the fault stub: each fault, in each of five worlds. ``python bench/truth.py``
prints the table, ``--json`` every case, ``--markdown FILE`` writes the page for the docs, and a table of all
cases beside it. Clients are stock; "no retries" is what their own settings allow. Back-off is shortened where
a client has a setting for it.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import os
import sys
import warnings
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

# A script has its own folder on the path, not its project's.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# gcsfs would ask for every bucket's layout by gRPC, which the stub does not speak.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.truth_cases import MINE, NAME, WORLDS, Outcome, cases, judge, truth
from tests.stub import FaultStub, Op
from tests.stub.clients import boto3_client, filesystem, obstore_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.truth_cases import Case, Told
    from tests.stub import Cloud

# Long enough that a loaded machine is not taken for a lost answer.
SECONDS = 5
DEADLINE = 6
SEATS = 6
CLOUDS: tuple[Cloud, ...] = ("s3", "gcs", "azure")
GUARDED = {"s3": "pias3", "gcs": "piags", "azure": "piaaz"}
GUARD = "putifabsent"


@dataclass(frozen=True)
class Column:
    """One client, as one would use it; ``make`` returns what creates the name once."""

    cloud: Cloud
    client: str
    make: Callable[[FaultStub], Callable[[], object]]


# --- the clients --------------------------------------------------------------------------------------------

OFF: dict[str, Any] = {"max_retries": 0, "retry_timeout": timedelta(0)}
QUICK: dict[str, Any] = {
    "backoff": {"init_backoff": timedelta(milliseconds=5), "max_backoff": timedelta(milliseconds=50)}
}


def columns() -> Iterator[Column]:
    """Every client, on every cloud it speaks to."""
    for cloud, client in zip(CLOUDS, ("s3fs", "gcsfs", "adlfs"), strict=True):
        yield Column(cloud, client, _fsspec(cloud))
    yield Column("s3", "boto3", _boto3())
    yield Column("s3", "boto3, no retries", _boto3(retries={"total_max_attempts": 1}))
    for cloud in CLOUDS:
        yield Column(cloud, "obstore", _obstore(cloud, QUICK))
        yield Column(cloud, "obstore, no retries", _obstore(cloud, OFF))
    for cloud in CLOUDS:
        yield Column(cloud, GUARD, _guarded(cloud))


def _timeouts(cloud: Cloud) -> dict[str, Any]:
    if cloud == "s3":
        return {"config_kwargs": {"read_timeout": SECONDS}}
    return {"requests_timeout": SECONDS} if cloud == "gcs" else {"read_timeout": SECONDS}


def _fsspec(cloud: Cloud) -> Callable[[FaultStub], Callable[[], object]]:
    def make(stub: FaultStub) -> Callable[[], object]:
        fs = filesystem(stub, cloud, **_timeouts(cloud))
        return lambda: fs.pipe_file("/".join(NAME), MINE, mode="create")

    return make


def _guarded(cloud: Cloud) -> Callable[[FaultStub], Callable[[], object]]:
    def make(stub: FaultStub) -> Callable[[], object]:
        import fsspec

        options = {**stub.storage_options(cloud), **_timeouts(cloud), "skip_instance_cache": True}
        fs = fsspec.filesystem(GUARDED[cloud], arbiter="native", deadline=DEADLINE, **options)
        return lambda: fs.pipe_file("/".join(NAME), MINE, mode="create")

    return make


def _boto3(**config: Any) -> Callable[[FaultStub], Callable[[], object]]:
    def make(stub: FaultStub) -> Callable[[], object]:
        client = boto3_client(stub, read_timeout=SECONDS, **config)
        return lambda: client.put_object(Bucket=NAME[0], Key=NAME[1], Body=MINE, IfNoneMatch="*")

    return make


def _obstore(cloud: Cloud, retries: dict[str, Any]) -> Callable[[FaultStub], Callable[[], object]]:
    def make(stub: FaultStub) -> Callable[[], object]:
        import obstore

        waits = {"timeout": timedelta(seconds=SECONDS)}
        store = obstore_bucket(stub, cloud, retry_config=retries, client_options=waits)
        return lambda: obstore.put(store, NAME[1], MINE, mode="create")

    return make


def _understood(error: Exception) -> Told:
    """What a writer who knows this client's exceptions takes one for."""
    from azure.core.exceptions import HttpResponseError
    from botocore.exceptions import ClientError
    from obstore.exceptions import AlreadyExistsError, PermissionDeniedError, PreconditionError

    status = 0
    if isinstance(error, ClientError):
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    elif isinstance(error, HttpResponseError):
        status = error.status_code or 0
    # gcsfs has no kind of its own for a 403.
    forbidden = str(error).startswith("Forbidden")
    if isinstance(error, (FileExistsError, AlreadyExistsError, PreconditionError)) or status == 412:
        return "exists"
    if isinstance(error, (PermissionError, PermissionDeniedError)) or status == 403 or forbidden:
        return "refused"
    return "error"


# --- the run ------------------------------------------------------------------------------------------------


def run(stub: FaultStub, column: Column, create: Callable[[], object], case: Case) -> Outcome:
    """Have one client create the name once while the case goes wrong, and judge what it says."""
    stub.reset()
    stub.script(Op.PUT, *case.puts, forever=case.forever)
    if case.heads is not None:
        stub.script(Op.HEAD, case.heads, forever=True)
    error = ""
    try:
        create()
        told: Told = "won"
    except Exception as raised:  # noqa: BLE001 - each client has its own
        told, error = _understood(raised), f"{type(raised).__name__}: {raised}".split("\n", 1)[0][:200]
    requests = len(stub.requests)
    if case.world == "deleted meanwhile":
        stub.delete(*NAME)
    past = [held.data if held else None for held in stub.history.get(NAME, [])]
    verdict = judge(told, past)
    return Outcome(
        column.cloud, column.client, case.fault, case.world, told, truth(past), verdict, requests, error
    )


def measure(chosen: Sequence[Column], ran: Callable[[], None]) -> tuple[list[Outcome], dict[str, str]]:
    """Run every case of every column; a column that can't be made is left out, with the reason."""
    outcomes: list[Outcome] = []
    missing: dict[str, str] = {}

    def sit(column: Column, queue: SimpleQueue[Case]) -> list[Outcome]:
        done = []
        with FaultStub() as stub:
            create = column.make(stub)
            # What a client does once, before its first request, is no part of any case.
            create()
            try:
                while True:
                    done.append(run(stub, column, create, queue.get_nowait()))
                    ran()
            except Empty:
                return done

    with ThreadPoolExecutor(len(chosen) * SEATS) as pool:
        seats: dict[Future[list[Outcome]], Column] = {}
        for column in chosen:
            queue: SimpleQueue[Case] = SimpleQueue()
            # The long ones first.
            for case in sorted(cases(column.cloud), key=lambda case: not case.forever):
                queue.put(case)
            seats |= {pool.submit(sit, column, queue): column for _ in range(SEATS)}
        for seat in as_completed(seats):
            try:
                outcomes += seat.result()
            except (ImportError, ValueError) as error:
                missing[f"{seats[seat].client} on {seats[seat].cloud}"] = str(error)
    return outcomes, missing


# --- what is printed ----------------------------------------------------------------------------------------

COUNTED = ("ok", "unknown", "FALSE EXISTS", "FALSE WON", "requests")
ROLES = ("fsspec's own", "boto3", "boto3, no retries", "obstore", "obstore, no retries", GUARD)


def _role(client: str) -> str:
    return client if client in ROLES else ROLES[0]


def rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[Cloud, str, str, list[str]]]:
    """The table: cloud, fault, world, and a cell for each role."""
    found = {(o.cloud, o.fault, o.world, _role(o.client)): o for o in outcomes}
    for cloud in CLOUDS:
        for case in cases(cloud):
            cells = [found.get((cloud, case.fault, case.world, role)) for role in ROLES]
            if any(cells):
                texts = [f"{cell.verdict} ({cell.requests})" if cell else "" for cell in cells]
                yield cloud, case.fault, case.world, texts


def summary(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """How often each client said what."""
    counts: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        at = counts.setdefault(f"{outcome.client} on {outcome.cloud}", dict.fromkeys(COUNTED, 0))
        at[outcome.verdict] += 1
        at["requests"] += outcome.requests
    return counts


def versions() -> dict[str, str]:
    """What was measured."""
    names = ("s3fs", "gcsfs", "adlfs", "boto3", "aiobotocore", "aiohttp", "obstore", "azure-storage-blob")
    return {name: version(name) for name in names}


def show(outcomes: Sequence[Outcome], missing: Mapping[str, str]) -> None:
    """Print one table, and the sums under it."""
    console = Console(width=max(Console().width, 160))
    table = Table("cloud", "fault", "world", *ROLES, title="What a writer is told, and whether it is true")
    before = ""
    for cloud, fault, world, cells in rows(outcomes):
        table.add_row(cloud, fault, world, *(_coloured(cell) for cell in cells))
        if before not in {"", fault}:
            table.rows[-2].end_section = True
        before = fault
    console.print(table)
    sums = Table("client", *COUNTED)
    for client, counts in summary(outcomes).items():
        sums.add_row(client, *map(str, counts.values()))
    console.print(sums)
    for client, reason in missing.items():
        console.print(f"not measured: {client}: {reason}", markup=False)


def _coloured(cell: str) -> str:
    if cell.startswith("FALSE"):
        return f"[red]{cell}[/red]"
    return f"[yellow]{cell}[/yellow]" if cell.startswith("unknown") else cell


def markdown(outcomes: Sequence[Outcome], missing: Mapping[str, str], table: str) -> str:
    """The page for the docs: sums, and how often each fault made a client report what is false.

    Parameters
    ----------
    table
        The file beside the page that has each case.
    """
    measured = ", ".join(f"{name} {number}" for name, number in versions().items())
    own = [o for o in outcomes if o.client == GUARD]
    sums: dict[tuple[str, ...], list[str]] = {}
    for client, counts in sorted(summary(outcomes).items()):
        sums.setdefault(tuple(map(str, counts.values())), []).append(client)
    found = dict.fromkeys((o.cloud, o.client) for o in outcomes)
    clients = [each for each in found if "no retries" not in each[1] and each[1] != GUARD]
    faults: dict[tuple[str, ...], list[str]] = {}
    for fault in dict.fromkeys(o.fault for o in outcomes):
        cells = [[o for o in outcomes if (o.cloud, o.client, o.fault) == (*key, fault)] for key in clients]
        if any(map(_false, cells)):
            alike = faults.setdefault(tuple(map(_share, cells)), [])
            alike.append(fault.replace("<Condition>", "`<Condition>`"))
    shares = [["; ".join(alike), *shares] for shares, alike in faults.items()]
    return f"""# What do clients report when a response is lost?

putifabsent reported something false in {_false(own)} of {len(own)} cases. On each store, a stock client that
retries reports "exists" to the very writer that created the name; one that does not leaves open who won.

Measured by `bench/truth.py` in one run: {measured}.
{WORLDS}
## All cases

{_table(["client", *COUNTED], [["; ".join(alike), *counts] for counts, alike in sums.items()])}

## False reports by fault

False reports of all, by other clients with their usual retries, where there are any. [Each case]({table}),
with its verdict and requests.

{_table(["fault", *(f"{client} on {cloud}" for cloud, client in clients)], shares)}
""" + "".join(f"\nNot measured: {client}: {reason}\n" for client, reason in missing.items())


def _share(cell: Sequence[Outcome]) -> str:
    many = _false(cell)
    return f"**{many}**/{len(cell)}" if many else "0" if cell else ""


def _false(outcomes: Sequence[Outcome]) -> int:
    return sum(o.verdict.startswith("FALSE") for o in outcomes)


def cases_written(outcomes: Sequence[Outcome]) -> str:
    """Each case, as comma-separated values."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["store", "fault", "situation", "client", "verdict", "requests"])
    writer.writerows((o.cloud, o.fault, o.world, o.client, o.verdict, o.requests) for o in outcomes)
    return text.getvalue()


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))


def main() -> int:
    """Measure, print, and fail if putifabsent told an untruth."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print every case as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page for the docs")
    parser.add_argument("--client", action="append", help="only this one, by name; may be given again")
    arguments = parser.parse_args()
    # The clients' own words about each lost answer; what they tell the writer is in the table.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    chosen = [column for column in columns() if not arguments.client or column.client in arguments.client]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("cases", total=sum(len(list(cases(column.cloud))) for column in chosen))
        outcomes, missing = measure(chosen, lambda: progress.advance(task))
    order = [(case.fault, case.world) for case in cases("s3")]
    outcomes.sort(
        key=lambda o: (CLOUDS.index(o.cloud), _role(o.client), o.client, order.index((o.fault, o.world)))
    )
    if arguments.json:
        told = {"versions": versions(), "cases": [asdict(o) for o in outcomes], "summary": summary(outcomes)}
        print(json.dumps({**told, "not measured": missing}, indent=1))
    else:
        show(outcomes, missing)
    if arguments.markdown:
        table = arguments.markdown.with_suffix(".csv")
        arguments.markdown.write_text(markdown(outcomes, missing, table.name), encoding="utf-8")
        table.write_text(cases_written(outcomes), encoding="utf-8")
    return int(any(o.client == GUARD and o.verdict.startswith("FALSE") for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
