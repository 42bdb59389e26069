"""What the shim costs unmodified jobs of Flink's: time and requests of a checkpoint and its commit.

    python -m bench.flink [--pairs 15] [--delay 20] [--inspect] [--json]

Two jobs of a format, one stock and one guarded, write rows on one cluster of Flink 1.20 to tables of their
own, through S3A, on a real S3 server. By turns each is told to make a checkpoint. Its time is that until the
rows are in the table: until the commit's name is in the store. All requests of jobs and service go through a
relay that counts each one and holds it up, as a store of the same region would; whether the name is there is
asked straight. Absolute times are this machine's, which runs all of it: read the ratios.

HUDI_FLINK_BUNDLE=/path/hudi-flink1.20-bundle-1.2.0.jar: of Hudi 1.x, on the Flink that the jar names, beside
the lock that Hudi has for one process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.spark_cost import counted, median_of
from bench.wire import Wire
from putifabsent.flink import FlinkSettings, settings
from tests.flink import hudi
from tests.flink.cluster import STOCK, Cluster, Release
from tests.flink.programs import FORMATS, Program
from tests.servers import VersityGW
from tests.servers.s3 import s3a_settings
from tests.service.callers import SECRET
from tests.service.processes import metrics_of, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

GUARDED = "s3a"
HOW = {"stock": hudi.STOCK if hudi.BUNDLE else STOCK, "guarded": GUARDED}
WARM_UP = 3
ALONE = 65
"""Seconds after which a service knows that nobody else writes to a table, so that its turn may be kept."""
SOURCE = "'connector'='datagen', 'rows-per-second'='100'"
COMMITS = {
    "iceberg": ("metadata/v", ""),
    "paimon": ("snapshot/snapshot-", ""),
    "hudi": (".hoodie/timeline/", ".commit"),
}
"""What a commit's name begins and ends with."""
_LOCKS = {
    # With each time that it takes Hudi waits so long, with whatever lock several processes share.
    "stock": "'hoodie.write.lock.provider'='org.apache.hudi.client.transaction.lock.InProcessLockProvider', "
    "'hoodie.time.generator.max_expected_clock_skew_ms'='200'",
    "guarded": hudi.LOCK,
}
FORMS = (
    {"hudi": {how: hudi.told_to(hudi.INSERTS, lock) for how, lock in _LOCKS.items()}}
    if hudi.BUNDLE
    else {name: dict.fromkeys(HOW, form) for name, form in FORMATS.items()}
)
_PATIENCE = 300
_BETWEEN_LOOKS = 0.005
_QUIET = 0.5


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=15, help="checkpoints of each, in turns")
    parser.add_argument("--delay", type=float, default=20, help="milliseconds that a request is held up")
    parser.add_argument("--inspect", action="store_true", help="have commits looked at")
    parser.add_argument("--json", action="store_true", help="print figures for machines, on standard output")
    options = parser.parse_args()
    found: dict[str, Any] = {"delay_milliseconds": options.delay, "inspect": options.inspect}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("checkpoints", total=len(FORMS) * (WARM_UP + options.pairs))
        with Jobs(options.delay / 1000, inspects=options.inspect) as jobs:
            found["checkpoints"] = [
                jobs.checkpoints(name, options.pairs, lambda: progress.advance(task)) for name in FORMS
            ]
    if options.json:
        json.dump(found, sys.stdout, indent=2)
        print()
    else:
        Console().print(table(found))


class Jobs:
    """A cluster, and a service, whose store is behind a relay."""

    def __init__(self, delay: float, *, inspects: bool) -> None:
        self._delay = delay
        self._inspects = inspects
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        enter = self._stack.enter_context
        store = enter(VersityGW())
        self._bucket = store.new_bucket()
        self._client = store.client()
        host = store.endpoint.removeprefix("http://")
        self._wire = enter(Wire({"store": (host, "http")}, delay=self._delay))
        endpoint = f"http://{self._wire.at['store']}"
        options = {**store.storage_options, "arbiter": "native"}
        options["client_kwargs"] = {**options["client_kwargs"], "endpoint_url": endpoint}
        options |= {"inspect": "commits"} if self._inspects else {}
        folder = Path(enter(tempfile.TemporaryDirectory()))
        log = enter((folder / "service.log").open("wb"))
        mounts = [{"prefix": f"{GUARDED}:", "options": options}]
        _, self._service = enter(serving({"secret": SECRET, "mounts": mounts}, log=log))
        guarding = settings([GUARDED], self._service)
        site = {
            **guarding.site,
            **s3a_settings(store),
            "fs.s3a.endpoint": endpoint,
            f"fs.{HOW['stock']}.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        }
        config = {**guarding.config, "fs.allowed-fallback-filesystems": ";".join(HOW.values())}
        release = Release.of_hudi(hudi.BUNDLE) if hudi.BUNDLE else Release.of("flink120")
        config |= hudi.PATIENCE if hudi.BUNDLE else {}
        self._cluster = enter(Cluster(release, folder, FlinkSettings(site, config)))
        self._program = enter(Program(self._cluster, folder / "program.log"))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def checkpoints(self, name: str, pairs: int, done: Callable[[], object]) -> dict[str, Any]:
        """Time and count checkpoints of a format's jobs, by turns."""
        seconds: dict[str, list[float]] = {how: [] for how in HOW}
        requests: dict[str, list[Counter[str]]] = {how: [] for how in HOW}
        asked: list[Counter[str]] = []
        jobs = {how: self._job(name, how) for how in HOW}
        began = perf_counter()
        for n in range(WARM_UP + pairs):
            if n == WARM_UP:
                sleep(max(0.0, ALONE - (perf_counter() - began)))
            for how in HOW if n % 2 else reversed(HOW):
                before = self._metrics()
                self._wire.counted()
                took = self._checkpoint(name, how, jobs[how])
                # What a commit leaves behind goes after it.
                counts = self._until_quiet()
                if n >= WARM_UP:
                    seconds[how].append(took)
                    requests[how].append(counts)
                    if how == "guarded":
                        asked.append(self._metrics() - before)
            done()
        for job in jobs.values():
            self._cluster.cancel(job)
        calls = median_of(asked)
        return {
            "format": name,
            "seconds": {how: statistics.median(seconds[how]) for how in HOW},
            "ratio": statistics.median(
                ours / theirs for theirs, ours in zip(seconds["stock"], seconds["guarded"], strict=True)
            ),
            "requests": {how: median_of(requests[how]) for how in HOW},
            "service": {call: number for call, number in calls.items() if not call.startswith("bytes")},
            "service_bytes": sum(each["bytes create"] for each in asked),
        }

    def _job(self, name: str, how: str) -> str:
        """Start a job that makes no checkpoint unless it is told to."""
        form, warehouse = FORMS[name][how], f"{HOW[how]}://{self._bucket}/{how}/{name}"
        form.made(self._program, warehouse)
        job = form.streamed(self._program, warehouse, how, SOURCE, execution__checkpointing__interval="24 h")
        self._cluster.wait_for_tasks(job)
        return job

    def _checkpoint(self, name: str, how: str, job: str) -> float:
        """Have a job make a checkpoint; return the seconds until its commit is there."""
        before = self._commits(name, how)
        began = perf_counter()
        self._cluster.ask(f"/jobs/{job}/checkpoints", "POST", checkpointType="CONFIGURED")
        while self._commits(name, how) == before:
            if perf_counter() - began > _PATIENCE:
                raise TimeoutError(f"job {job} commits nothing")
            sleep(_BETWEEN_LOOKS)
        return perf_counter() - began

    def _commits(self, name: str, how: str) -> int:
        begins, ends = COMMITS[name]
        prefix = f"{how}/{name}/{FORMS[name][how].folder}/{begins}"
        answer = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix)
        return sum(each["Key"].endswith(ends) for each in answer.get("Contents", ()))

    def _until_quiet(self) -> Counter[str]:
        """Return what has been requested when nothing is any more."""
        counts: Counter[str] = Counter()
        while True:
            sleep(_QUIET)
            more = self._wire.counted()
            if not more:
                return counts
            counts += more

    def _metrics(self) -> Counter[str]:
        """Return what the service has answered so far: calls, and bytes of bodies."""
        return counted(metrics_of(self._service, SECRET))


def table(found: Mapping[str, Any]) -> Table:
    """Lay the figures out."""
    table = Table(title=f"a checkpoint, each request held up by {found['delay_milliseconds']:g} ms")
    columns = ("format", *HOW, "ratio", "requests", "guarded", "asks the service", "data through it")
    for column in columns:
        table.add_column(column, justify="left" if column in ("format", "asks the service") else "right")
    for row in found["checkpoints"]:
        table.add_row(
            row["format"],
            *(f"{row['seconds'][how]:.2f} s" for how in HOW),
            f"{row['ratio']:.2f}",
            *(f"{sum(row['requests'][how].values()):g}" for how in HOW),
            ", ".join(f"{number:g} {call}" for call, number in row["service"].items()),
            f"{row['service_bytes']} bytes",
        )
    return table


if __name__ == "__main__":
    main()
