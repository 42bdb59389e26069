"""What each arbiter costs, in one run: requests, as the wire counts them, and what many writers get done.

    python bench/arbiters.py [--json] [--quick]

The store is the tests' stub, where nothing goes wrong; DynamoDB is DynamoDB Local, Redis is Valkey. Requests
are the protocol's, and the same on every machine. Creations a second are this machine's, which runs writers
and servers side by side: read the ratios. Delta's log store is its published protocol, not its code.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

# A script has its own folder on the path, not its project's.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.arbiter_servers import ARBITERS, far
from bench.arbiter_tables import tables
from bench.contention import CONTESTANTS, DELTA, contend
from bench.counts import calls, crowded, delta_calls, round_trips
from tests.servers import DynamoDBLocal

# As far as a store of the same region, roughly: the fewer round trips, the faster.
DELAY = 0.025


def main() -> None:
    """Run everything, and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print figures for machines, on standard output")
    parser.add_argument("--quick", action="store_true", help="fewer writers and names, for less time")
    options = parser.parse_args()
    names, crowds, rounds, seconds = (
        (10_000, (2, 8), 1, 2.0) if options.quick else (100_000, (2, 4, 8, 16, 32, 64), 3, 4.0)
    )
    console = Console(stderr=True)
    with DynamoDBLocal() as dynamodb, Progress(console=console, transient=True) as progress:
        task = progress.add_task("counting", total=2 + rounds * len(crowds) * len(CONTESTANTS))
        found: dict[str, Any] = {}
        with far(dynamodb.endpoint) as near:
            found["requests"] = {arbiter: calls(near, arbiter) for arbiter in ARBITERS}
            found["requests"][DELTA] = delta_calls(near)
            found["round_trips"] = {arbiter: round_trips(near, arbiter) for arbiter in ARBITERS}
            progress.advance(task)
            found["names_in_the_folder"] = names
            found["pages_listed"] = crowded(near, names)
            progress.advance(task)
        progress.update(task, description="writing")
        found["delay_milliseconds"] = DELAY * 1000
        runs: dict[int, dict[str, list[Any]]] = {
            writers: {name: [] for name in CONTESTANTS} for writers in crowds
        }
        with far(dynamodb.endpoint, delay=DELAY) as away:
            for _ in range(rounds):
                for writers, of in runs.items():
                    for name, each in of.items():
                        each.append(asdict(contend(away, name, writers, seconds)))
                        progress.advance(task)
        found["contention"] = runs
    if options.json:
        print(json.dumps(found, indent=2))
    for table in tables(found):
        console.print(table)


if __name__ == "__main__":
    main()
