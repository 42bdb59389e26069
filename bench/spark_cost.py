"""What the shim costs unmodified writers on Spark: time and requests of a commit, and of plain Parquet files.

    python bench/spark_cost.py [--pairs 5] [--delay 20] [--mebibytes 1024] [--inspect] [--json]

Two drivers, one stock and one guarded, take turns on tables of their own, through S3A, on a real S3 server.
With ``--inspect`` both are guarded, and one has its commits looked at before they are created. Commits go
through a relay that counts each request and holds it up, as a store of the same region would. Parquet files
go straight. Absolute times are this machine's, which runs all of it: read the ratios.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.wire import Wire
from putifabsent.spark.settings import HUDI
from tests.servers import VersityGW
from tests.spark.drivers import driving, told_on
from tests.spark.writers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from typing_extensions import Self

    from tests.servers import BucketServer

WARM_UP = 2
# Hudi alone assumes a single writer. This is what it says itself to those of one process, who then have
# heartbeats and look for conflicts, as guarded ones do.
IN_PROCESS = {
    **HUDI,
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    # So long Hudi waits with each time that it takes, with whatever lock several processes share.
    "hoodie.time.generator.max_expected_clock_skew_ms": "200",
}


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5, help="runs of each, in turns")
    parser.add_argument("--delay", type=float, default=20, help="milliseconds that a request is held up")
    parser.add_argument("--mebibytes", type=int, default=1024, help="of Parquet files; 0: none")
    parser.add_argument("--inspect", action="store_true", help="what it costs to look at commits")
    parser.add_argument("--only", nargs="+", choices=FORMATS, default=list(FORMATS), metavar="FORMAT")
    parser.add_argument("--json", action="store_true", help="print figures for machines, on standard output")
    options = parser.parse_args()
    how = ("guarded", "inspected") if options.inspect else ("stock", "guarded")
    found: dict[str, Any] = {"delay_milliseconds": options.delay, "mebibytes": options.mebibytes, "how": how}
    with VersityGW() as store, Progress(console=Console(stderr=True), transient=True) as progress:
        host = store.endpoint.removeprefix("http://")
        stock: list[tuple[str, dict[str, str]]] = [(form, {}) for form in options.only]
        if not options.inspect:
            stock += [(form, IN_PROCESS) for form in options.only if form.startswith("hudi")]
        total = len(stock) * (WARM_UP + options.pairs) + (options.pairs if options.mebibytes else 0)
        task = progress.add_task("commits", total=total)
        with (
            Wire({"store": (host, "http")}, delay=options.delay / 1000) as wire,
            Pair(store, wire, how) as pair,
        ):
            found["commits"] = [
                pair.commits(form, said, options.pairs, lambda: progress.advance(task))
                for form, said in stock
            ]
        if options.mebibytes:
            progress.update(task, description="Parquet files")
            with Pair(store, None, how) as pair:
                found["files"] = pair.files(options.mebibytes, options.pairs, lambda: progress.advance(task))
    if options.json:
        json.dump(found, sys.stdout, indent=2)
        print()
    else:
        for table in tables(found):
            Console().print(table)


class Pair:
    """Two drivers of one bucket, the one beside which the other is measured first; straight or by a relay."""

    def __init__(self, store: BucketServer, wire: Wire | None, how: tuple[str, str]) -> None:
        self._store = store
        self._wire = wire
        self._how = how
        self._beside, self._measured = how
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        logs = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self._bucket = self._store.new_bucket()
        by = {"spark.hadoop.fs.s3a.endpoint": f"http://{self._wire.at['store']}"} if self._wire else {}
        told = [told_on(self._store, self._bucket, guarded=how != "stock", **by) for how in self._how]
        if self._measured == "inspected":
            told[1] = told[1]._replace(mount={**(told[1].mount or {}), "inspect": "commits"})
        self.drivers = dict(zip(self._how, self._stack.enter_context(driving(told, logs)), strict=True))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def commits(
        self, form: str, stock: Mapping[str, str], pairs: int, done: Callable[[], object]
    ) -> dict[str, Any]:
        """Time and count commits of a format, by turns; stock ones with options of their own."""
        assert self._wire is not None
        seconds: dict[str, list[float]] = {how: [] for how in self._how}
        requests: dict[str, list[Counter[str]]] = {how: [] for how in self._how}
        asked: list[Counter[str]] = []
        told: dict[str, Mapping[str, str]] = {self._beside: stock, self._measured: {}}
        tables = {how: f"{how}_{form}{'_locked' if stock else ''}" for how in self._how}
        for how in self._how:
            self.drivers[how].call("make", form=form, table=tables[how])
        for n in range(WARM_UP + pairs):
            for how in self._how if n % 2 else reversed(self._how):
                before = self._metrics()
                self._wire.counted()
                began = perf_counter()
                self.drivers[how].call("append", form=form, table=tables[how], who=how, n=n, **told[how])
                took = perf_counter() - began
                if n >= WARM_UP:
                    seconds[how].append(took)
                    requests[how].append(self._wire.counted())
                    if how == self._measured:
                        asked.append(self._metrics() - before)
            done()
        calls = median_of(asked)
        return {
            "format": f"{form}, its own lock" if stock else form,
            "seconds": {how: statistics.median(seconds[how]) for how in self._how},
            "ratio": self._ratio(seconds),
            "requests": {how: median_of(requests[how]) for how in self._how},
            "more_requests": statistics.median(each.total() for each in requests[self._measured])
            - statistics.median(each.total() for each in requests[self._beside]),
            "service": {call: number for call, number in calls.items() if not call.startswith("bytes")},
            "service_bytes": calls.get("bytes create", 0),
        }

    def files(self, mebibytes: int, pairs: int, done: Callable[[], object]) -> dict[str, Any]:
        """Time Parquet files that are written, and read, by turns."""
        took: dict[str, dict[str, list[float]]] = {
            what: {how: [] for how in self._how} for what in ("write_random", "read_random")
        }
        for how in self._how:
            self.drivers[how].call("write_random", path=self._path(how), mebibytes=min(64, mebibytes))
        before = self._metrics()
        for n in range(pairs):
            for what, said in (("write_random", {"mebibytes": mebibytes}), ("read_random", {})):
                for how in self._how if n % 2 else reversed(self._how):
                    began = perf_counter()
                    self.drivers[how].call(what, path=self._path(how), **said)
                    took[what][how].append(perf_counter() - began)
            done()
        asked = self._metrics() - before
        return {
            "write_ratio": self._ratio(took["write_random"]),
            "read_ratio": self._ratio(took["read_random"]),
            "seconds": took,
            "service": asked,
            "service_bytes": sum(size for call, size in asked.items() if call.startswith("bytes")),
        }

    def _ratio(self, seconds: Mapping[str, list[float]]) -> float:
        """Return the ratio of the measured one to the other, the median of the pairs."""
        pairs = zip(seconds[self._beside], seconds[self._measured], strict=True)
        return statistics.median(ours / theirs for theirs, ours in pairs)

    def _path(self, how: str) -> str:
        return f"s3a://{self._bucket}/files/{how}"

    def _metrics(self) -> Counter[str]:
        """Return what the service has answered so far: calls, and bytes of bodies."""
        return counted(self.drivers[self._measured].metrics())


def counted(metrics: str) -> Counter[str]:
    """Read a service's metrics: how many calls of each kind it has answered, and their bytes."""
    found: Counter[str] = Counter()
    for call, number in re.findall(r'calls_total\{call="([^"]+)",.*?\} (\d+)', metrics):
        found[call] += int(number)
    for call, number in re.findall(r'call_bytes_total\{call="([^"]+)"\} (\d+)', metrics):
        found[f"bytes {call}"] += int(number)
    return found


def median_of(counts: list[Counter[str]]) -> dict[str, float]:
    """Return the median of each kind."""
    kinds = sorted(set().union(*counts))
    medians = {kind: statistics.median(each[kind] for each in counts) for kind in kinds}
    return {kind: number for kind, number in medians.items() if number}


def tables(found: dict[str, Any]) -> Iterable[Table]:
    """Lay the figures out."""
    table = Table(title=f"a commit, each request held up by {found['delay_milliseconds']:g} ms")
    beside, measured = found["how"]
    for column in ("format", beside, measured, "ratio", "requests", measured, "more", "asks the service"):
        table.add_column(column, justify="left" if column in ("format", "asks the service") else "right")
    for row in found["commits"]:
        asked = ", ".join(f"{number:g} {call}" for call, number in row["service"].items())
        table.add_row(
            row["format"],
            f"{row['seconds'][beside]:.2f} s",
            f"{row['seconds'][measured]:.2f} s",
            f"{row['ratio']:.2f}",
            f"{sum(row['requests'][beside].values()):g}",
            f"{sum(row['requests'][measured].values()):g}",
            f"{row['more_requests']:+g}",
            asked,
        )
    yield table
    if "files" in found:
        files = found["files"]
        table = Table(title=f"{found['mebibytes']} MiB of Parquet files, straight to the server")
        for column in ("written", "read", "bytes through the service"):
            table.add_column(column, justify="right")
        table.add_row(
            f"{files['write_ratio']:.3f}", f"{files['read_ratio']:.3f}", str(files["service_bytes"])
        )
        yield table


if __name__ == "__main__":
    main()
