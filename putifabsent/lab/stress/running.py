"""A run: writers on one path for some time, faults among them, and what their history says."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from putifabsent.errors import ConfigError
from putifabsent.lab.servers import LossyProxy
from putifabsent.lab.stress.paths import Contender, Guarded, endpoint_of
from putifabsent.lab.stress.pool import Orders, Stress
from putifabsent.lab.stress.results import Result, figures, judge, table_of
from putifabsent.lab.stress.writers import WORKLOADS, Journal, Operation, Writer, host, kept, offered_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self

    from putifabsent.lab.stress.paths import Path as StorePath

_LOST_SHARE = 0.01
_READERS = 16


def run(
    stress: Stress, contender: Contender, progress: Callable[[int, int, str], None] = lambda *_: None
) -> Result:
    """Have the writers, each a process, write by one path; judge the outcomes.

    The tables are new ones, in a folder of their own, and are left there. ``progress`` is called with
    (seconds that are over, seconds in all, what is going on). ``OSError``: the tables could not be made.
    """

    def report(over: float, acknowledged: int) -> None:
        what = f"{contender.label}: {acknowledged:,} commits"
        progress(round(min(over, stress.seconds)), round(stress.seconds), what)

    with Ground(stress, contender) as ground, tempfile.TemporaryDirectory(prefix="putifabsent-stress-") as at:
        return ground.result(list(obeyed(ground.orders(), Path(at), report)))


SETTINGS = {
    # A second attempt would find the names of the first one, and not the outcomes of that.
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.task.maxFailures": "1",
    # Where there are fewer cores than tasks, half a minute says so as well as ten.
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "3s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "10",
}
"""Spark's, of a session in which writers run."""


def stress_on(session: SparkSession, what: Stress, contender: Contender, tasks: int | None = None) -> Result:
    """Run one path in so many tasks, of a session with :data:`SETTINGS`; by default one a core.

    All of them must have a core at the same time: they are one barrier stage. The workers' Python, which
    ``PYSPARK_PYTHON`` says, needs this package, the clients and pyarrow.
    """
    spark = session.sparkContext
    tasks = min(tasks or spark.defaultParallelism, what.writers)
    host = session.conf.get("spark.driver.host") or "127.0.0.1"
    with Ground(what, contender, host) as ground:
        job = partial(_as_tasks, ground.orders(), tasks)
        return ground.result(spark.parallelize(range(tasks), tasks).barrier().mapPartitions(job).collect())


def _as_tasks(orders: Orders, tasks: int, numbers: Iterable[int]) -> Iterator[Operation]:
    for number in numbers:
        own = orders._replace(writers=range(number, orders.stress.writers, tasks))
        with tempfile.TemporaryDirectory(prefix="putifabsent-stress-") as at:
            yield from obeyed(own, Path(at))


class Ground:
    """A new folder of a store, ``root``, with its tables, and a proxy, through which ``contender`` is a path.

    ``host`` is the address at which other machines reach this one.
    """

    def __init__(self, stress: Stress, contender: Contender, host: str = "127.0.0.1") -> None:
        self._contender = contender
        self._host = host
        self._running = ExitStack()
        self._proxy: LossyProxy | None = None
        self._before = self._after = 0
        self.contender = contender
        self.root = f"{stress.root.rstrip('/')}/stress-{uuid.uuid4().hex[:8]}"
        self._stress = replace(stress, root=self.root)
        self._tables = {folder: form for form in stress.formats for folder in self._stress.folders(form)}

    def __enter__(self) -> Self:
        endpoint = endpoint_of(self._contender.options)
        with ExitStack() as running:
            if endpoint is not None and endpoint.startswith("http:"):
                proxy = LossyProxy(endpoint, share=0, seed=self._stress.seed, host=self._host)
                self._proxy = running.enter_context(proxy)
                self.contender = self._contender.at(proxy.endpoint)
            elif "lost" in self._stress.faults:
                raise ConfigError(
                    "answers can be lost on the way from a plain http:// endpoint alone: leave that fault "
                    "out (--without lost)"
                )
            path = self.contender.path()
            for folder, form in self._tables.items():
                WORKLOADS[form](folder).lay(path)
            self._warm_up(path)
            if self._proxy:
                self._before = self._proxy.received
                self._proxy.share = _LOST_SHARE if "lost" in self._stress.faults else 0
            self._running = running.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def _warm_up(self, path: StorePath) -> None:
        """Commit once to tables of nobody's, for requests that a store gets once and for all."""
        with tempfile.TemporaryDirectory() as at, Journal(Path(at), "warm-up") as journal:
            for form in self._stress.formats:
                table = WORKLOADS[form](f"{self.root}/warm-up/{form}")
                table.lay(path)
                table.commit(Writer(path, journal, -1))

    def orders(self) -> Orders:
        """Return the orders of a pool of all writers."""
        return Orders(self._stress, self.contender, range(self._stress.writers))

    def closing(self, names: Iterable[str]) -> list[Operation]:
        """Read each of some names, when all writers have ended and nothing is lost any more.

        And list their folders then, and look for their plain bytes: readers do both.
        """
        if self._proxy:
            self._after, self._proxy.share = self._proxy.received, 0
        path, names = self.contender.path(), sorted(names)
        with tempfile.TemporaryDirectory() as at, ThreadPoolExecutor(_READERS) as readers:
            with Journal(Path(at), "closing") as journal:
                reader = Writer(path, journal, -1, closing=True)
                read = readers.map(lambda name: reader.read("commit", self.root, name), names)
                seen = {name: found for name, found in zip(names, read, strict=True) if found is not None}
            return [*kept(Path(at)), *_beside(path, seen, readers)]

    def result(self, operations: list[Operation]) -> Result:
        """Return what has come of what the writers did; the promises are judged on this machine."""
        closing = self.closing({each.name for each in operations if each.action == "create"})
        history = table_of([*operations, *closing])
        requests = self._after - self._before if self._proxy else None
        lost = self._proxy.lost if self._proxy else 0
        found = figures(history, self._stress.seconds)
        idle = [folder for folder in self._tables if folder not in found.tables]
        return Result(self._contender, self.root, history, found, judge(history), requests, lost, idle)


def _beside(path: StorePath, seen: Mapping[str, str], readers: ThreadPoolExecutor) -> Iterator[Operation]:
    """Give what contradicts reads: names that listings leave out, and other plain bytes."""
    folders = {name: name.rpartition("/")[0] for name in seen}
    listed = sorted(set(folders.values()))
    shown = {
        f"{folder}/{name.rpartition('/')[2]}"
        for folder, names in zip(listed, readers.map(path.names, listed), strict=True)
        for name in names
    }
    for name, folder in folders.items():
        if name not in shown:
            yield Operation("list", host(), -1, "commit", folder, name, name, closing=True)
    if isinstance(path, Guarded):
        for name, data in zip(seen, readers.map(path.plain, seen), strict=True):
            offered = None if data is None else offered_in(data)
            if offered not in (None, seen[name]):
                at = folders[name]
                yield Operation("plain", host(), -1, "commit", at, name, name, seen=offered, closing=True)


def obeyed(
    orders: Orders, journals: Path, report: Callable[[float, int], None] = lambda *_: None
) -> Iterator[Operation]:
    """Have a pool on this machine obey its orders, and give what its writers did.

    Each half second ``report`` is called with the seconds that are over and the commits acknowledged.
    """
    command = [sys.executable, "-m", "putifabsent.lab.stress.pool", str(journals)]
    began = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pool:  # noqa: S603
        assert pool.stdin is not None  # noqa: S101 - for the type alone
        assert pool.stdout is not None  # noqa: S101
        pool.stdin.write(pickle.dumps(orders))
        pool.stdin.flush()
        why = "what it printed says why"
        for line in pool.stdout:
            answer = json.loads(line)
            if "failed" in answer:
                why = answer["failed"]
            else:
                report(time.monotonic() - began, answer["acknowledged"])
    if pool.returncode:
        raise RuntimeError(f"a pool of writers ended with {pool.returncode}: {why}")
    yield from kept(journals)
