"""What a creation through the coordination service costs, beside the same one in this process.

    python bench/service.py [--delay 20] [--json] [--quick]

The service is a process of its own, the store a stub that keeps no rules (``stub_server.py``), and all three
share this machine's cores. The store holds each answer up, as one of the same region does: without
(``--delay 0``) the cores are what is measured. Read the ratios, of runs that took turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.stub_server import BODY, StubServer
from tests.service.callers import SECRET, Caller
from tests.service.processes import serving

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Create = Callable[[str], Awaitable[str]]

CROWDS = (1, 32, 200)
THREADS = 32  # as many as the service has, unless it is told otherwise
GUARDED = "**/manifest-*"
HERE, SERVICE = "in this process", "through the service"


def told_of(stub: StubServer) -> dict[str, Any]:
    """Return what a service over the stub is told."""
    options = {**stub.storage_options, "arbiter": "native", "guard": [GUARDED]}
    return {"secret": SECRET, "mounts": [{"prefix": "s3a://", "options": options}]}


def here(stub: StubServer) -> Create:
    """Return what creates a name by a filesystem of this process; it says what came of it."""
    fs = fsspec.filesystem("pias3", arbiter="native", guard=[GUARDED], **stub.storage_options)
    fs.pipe_file(f"bench/t/manifest-{uuid.uuid4()}", BODY)  # or each thread would open a client
    pool = ThreadPoolExecutor(THREADS)

    async def create(name: str) -> str:
        await asyncio.get_running_loop().run_in_executor(pool, fs.pipe_file, name, BODY)
        return "won"

    return create


def there(caller: Caller) -> Create:
    """Return what has the service create a name."""

    async def create(name: str) -> str:
        said = {"path": f"s3a://{name}", "token": str(uuid.uuid4())}
        answer = await caller.post("create", params=said, data=BODY)
        return "won" if answer.body == {"guarded": True} else f"status {answer.status}"

    return create


async def crowd(create: Create, callers: int, count: int) -> tuple[list[float], Counter[str], float]:
    """Return how long each creation took, what came of them, and all their seconds together."""
    taken: list[float] = []
    told: Counter[str] = Counter()
    numbers = iter(range(count))

    async def caller() -> None:
        for _ in numbers:
            start = time.perf_counter()
            told[await create(f"bench/t/manifest-{uuid.uuid4()}")] += 1
            taken.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return taken, told, time.perf_counter() - start


async def measure(
    inside: Create, address: str, count: int, runs: int, tick: Callable[[], None]
) -> dict[str, Any]:
    """Return what each way has cost, by the number of callers."""
    found: dict[str, Any] = {}
    async with Caller.at(address) as caller:
        ways = {HERE: inside, SERVICE: there(caller)}
        for create in ways.values():
            await crowd(create, 8, 64)
        for callers in CROWDS:
            of: dict[str, list[Any]] = {name: [] for name in ways}
            for _ in range(runs):
                for name, create in ways.items():
                    of[name].append(await crowd(create, callers, max(count, 2 * callers)))
                    tick()
            found[str(callers)] = {name: _summary(each) for name, each in of.items()}
    return found


def _summary(runs: list[tuple[list[float], Counter[str], float]]) -> dict[str, Any]:
    taken = sorted(each for times, _, _ in runs for each in times)
    told: Counter[str] = Counter()
    for _, outcomes, _ in runs:
        told += outcomes
    return {
        "creates_per_second": statistics.median(len(times) / seconds for times, _, seconds in runs),
        "median_milliseconds": statistics.median(taken) * 1e3,
        "p99_milliseconds": taken[int(len(taken) * 0.99)] * 1e3,
        "told": dict(told),
    }


def show(found: dict[str, Any], console: Console) -> None:
    """Print the table."""
    table = Table(title="1 KiB creations: median and 99th percentile, and how many a second")
    for column in ("callers", "", "median ms", "p99 ms", "creates/s", "of this process", "told"):
        table.add_column(column, justify="left" if column in ("", "told") else "right")
    for callers, ways in found.items():
        for name, each in ways.items():
            table.add_row(
                callers,
                name,
                f"{each['median_milliseconds']:.2f}",
                f"{each['p99_milliseconds']:.2f}",
                f"{each['creates_per_second']:.0f}",
                f"{each['creates_per_second'] / ways[HERE]['creates_per_second']:.2f}x",
                ", ".join(f"{count} {told}" for told, count in each["told"].items()),
            )
    console.print(table)


def main() -> None:
    """Run everything, and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print figures for machines, on standard output")
    parser.add_argument("--quick", action="store_true", help="a tenth of the creations")
    parser.add_argument("--delay", type=float, default=20, help="milliseconds that an answer is held up")
    options = parser.parse_args()
    count, runs = (200, 3) if options.quick else (2000, 5)
    console = Console(stderr=True)
    with (
        StubServer(options.delay / 1000) as stub,
        serving(told_of(stub)) as (_, address),
        Progress(console=console, transient=True) as progress,
    ):
        task = progress.add_task("creating", total=len(CROWDS) * runs * 2)
        inside = here(stub)
        found = asyncio.run(measure(inside, address, count, runs, lambda: progress.advance(task)))
    if options.json:
        print(json.dumps(found, indent=2))
    show(found, console)


if __name__ == "__main__":
    main()
