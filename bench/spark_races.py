"""Unmodified writers on Spark, stock beside guarded: what was acknowledged, and what of it can be read.

    python bench/spark_races.py [--writers 4] [--commits 10] [--only delta ...] [--zookeeper] [--json]

Each writer is a driver with its own JVM, all of them append to one table through S3A, on a real S3 server
that keeps ``If-None-Match``; who reads has never seen the table, and nothing of the shim. Then queries run on
one streaming checkpoint. Without the shim what is lost is chance: run it twice. With --zookeeper Hudi runs
once more without the shim, by its own lock.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.servers import VersityGW, ZooKeeper
from tests.spark.drivers import told_on
from tests.spark.races import race, racing, stream
from tests.spark.writers import FORMATS, locked_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from typing_extensions import Self

    from tests.servers import BucketServer

QUERIES = (2, 4)
HUDI = {"hudi", "hudi_mor"}
NAMES = {
    "delta": "Delta",
    "iceberg": "Iceberg",
    "paimon": "Paimon",
    "hudi": "Hudi, copy on write",
    "hudi_mor": "Hudi, merge on read",
}


def main() -> None:
    """Race them, and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--commits", type=int, default=10, help="of each writer")
    parser.add_argument("--only", nargs="+", choices=FORMATS, default=list(FORMATS), metavar="FORMAT")
    parser.add_argument("--zookeeper", action="store_true", help="Hudi by its own lock, too")
    parser.add_argument("--json", action="store_true", help="print figures for machines, on standard output")
    options = parser.parse_args()
    console = Console(stderr=True)
    found: dict[str, Any] = {
        "writers": options.writers,
        "commits": options.commits,
        "tables": [],
        "queries": [],
    }
    with VersityGW() as store, Progress(console=console, transient=True) as progress:
        each = options.writers * options.commits
        task = progress.add_task("starting", total=2 * len(options.only) * each)
        for guarded in (False, True):
            run = Run(store, guarded=guarded, writers=max(options.writers, *QUERIES))
            progress.update(task, description=run.how)
            with run:
                for form in options.only:
                    row = run.table(form, options, lambda: progress.advance(task))
                    found["tables"].append(row)
                for queries in QUERIES:
                    found["queries"].append(run.queries(queries, options.commits))
        if options.zookeeper:
            with ZooKeeper() as keeper, Run(store, guarded=False, writers=options.writers) as run:
                run.how = "ZooKeeper's lock"
                progress.update(task, description=run.how, total=None)
                for form in HUDI & set(options.only):
                    found["tables"].append(run.table(form, options, more=locked_by(keeper.address)))
    if options.json:
        json.dump(found, sys.stdout, indent=2)
        print()
    else:
        for table in tables(found):
            Console().print(table)


class Run:
    """Drivers of one bucket, all guarded or none, and one that reads."""

    def __init__(self, store: BucketServer, *, guarded: bool, writers: int) -> None:
        self.how = "guarded" if guarded else "stock"
        self._guarded = guarded
        self._store = store
        self._writers = writers
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        bucket = self._store.new_bucket()
        told, reads = (told_on(self._store, bucket, guarded=guarded) for guarded in (self._guarded, False))
        self.drivers, self.reader = self._stack.enter_context(racing(told, self._writers, reads))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def table(
        self,
        form: str,
        options: argparse.Namespace,
        done: Callable[[], object] = lambda: None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Race the writers of one format, with more options of each append."""
        drivers = self.drivers[: options.writers]
        raced = race(drivers, self.reader, form, form, options.commits, done, options=more)
        return {"format": NAMES[form], "how": self.how, **raced.figures()}

    def queries(self, number: int, batches: int) -> dict[str, Any]:
        """Have so many queries run on one checkpoint."""
        checkpoint = f"stream{number}"
        self.drivers[0].call("stream", checkpoint=checkpoint, batches=1)
        streamed = stream(self.drivers[:number], checkpoint, batches)
        return {
            "queries": number,
            "how": self.how,
            "batches": len(streamed.batches),
            "processed_twice": len(streamed.doubled),
            "refused": len(streamed.failed) - len(streamed.unclear),
            "other_errors": dict(Counter(each.splitlines()[0] for each in streamed.unclear)),
        }


def tables(found: dict[str, Any]) -> Iterable[Table]:
    """Lay the figures out."""
    table = Table(title=f"{found['writers']} drivers, {found['commits']} commits each, on one table")
    for column in ("format", "", "acknowledged", "lost", "doubled", "failed", "of these readable", "errors"):
        table.add_column(column, justify="left" if column in ("format", "", "errors") else "right")
    for row in sorted(found["tables"], key=lambda row: list(NAMES.values()).index(row["format"])):
        errors = ", ".join(f"{times} {kind}" for kind, times in row["errors"].items())
        figures = ("acknowledged", "lost", "doubled", "failed", "failed_and_readable")
        table.add_row(row["format"], row["how"], *(str(row[figure]) for figure in figures), errors)
    yield table
    table = Table(title="queries on one streaming checkpoint")
    for column in ("queries", "", "batches", "processed twice", "refused", "other errors"):
        table.add_column(column, justify="left" if column in ("", "other errors") else "right")
    for row in sorted(found["queries"], key=lambda row: (row["queries"], row["how"] == "guarded")):
        others = ", ".join(f"{times} {kind}" for kind, times in row["other_errors"].items())
        numbers = (str(row[figure]) for figure in ("batches", "processed_twice", "refused"))
        table.add_row(str(row["queries"]), row["how"], *numbers, others)
    yield table


if __name__ == "__main__":
    main()
