"""Ways to deploy Spark, in each of which two writers insert into one table at once.

A writer is a script of SQL: it inserts rows one by one, and prints each that was acknowledged.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.spark.settings import defaults, jar
from tests.spark.applications import (
    CONNECT,
    HOME,
    THRIFT,
    compiled,
    conf,
    connect_options,
    image,
    submitted,
    thrift_options,
)
from tests.spark.drivers import JARS, ROOT, run_script, together
from tests.spark.writers import statements

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping

    Row = tuple[str, int]

__all__ = ["COMMITS", "DEPLOYMENTS", "Cell", "Heard"]

COMMITS = 4
WRITERS = ("w0", "w1")
_PACKAGES = {
    "delta": "io.delta:delta-spark_2.12:3.3.3",
    "hudi": "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",
    "paimon": "org.apache.paimon:paimon-spark-3.5:0.9.0",
}
_HADOOP = "org.apache.hadoop:hadoop-aws:3.3.4"
_PROGRAMS = Path(sys.executable).parent
_JOB = ROOT / "tests" / "spark" / "statements.py"


class Heard(NamedTuple):
    """What a process of writers left.

    Attributes
    ----------
    acknowledged
        The rows that it was told are committed.
    code
        Of its exit.
    words
        All that it wrote.
    """

    acknowledged: list[Row]
    code: int
    words: str


class Cell(NamedTuple):
    """A table, and two who write it.

    Attributes
    ----------
    form, table
        Its format, and its name.
    settings
        What every Spark is told of the store and the format.
    address
        The service's.
    cluster
        Gives a standalone cluster's master, and the folder of its workers.
    folder
        The cell's own.
    """

    form: str
    table: str
    settings: Mapping[str, str]
    address: str
    cluster: Callable[[], tuple[str, Path]]
    folder: Path

    @property
    def jars(self) -> list[Path]:
        """The format's, Hadoop's, and the adapter."""
        others = [form for form in _PACKAGES if form != self.form]
        formats = (each for each in sorted(JARS.glob("*.jar")) if not each.name.startswith(tuple(others)))
        return [*formats, Path(jar())]

    def script(self, who: str) -> Path:
        """Write down what a writer does."""
        script = self.folder / f"{who}.sql"
        script.write_text("".join(f"{line};\n" for line in self._lines(who)))
        return script

    def _lines(self, who: str) -> Iterator[str]:
        *before, insert = statements(self.form, self.settings["spark.test.warehouse"], self.table)
        yield from before
        for n in range(COMMITS):
            yield insert.format(who=who, n=n)
            yield f"select concat('acknowledged', ' {self.table} {who} {n}')"

    def heard(self, done: subprocess.CompletedProcess[str], printed: str = "") -> Heard:
        found = re.findall(rf"acknowledged {self.table} (w\d) (\d+)", done.stdout + printed)
        return Heard([(who, int(n)) for who, n in found], done.returncode, done.stdout + done.stderr)

    def run(self, *command: str | Path, conf: Path, home: Path = HOME) -> Heard:
        return self.heard(run_script(*command, defaults=conf, folder=self.folder, home=home))

    def conf(self, **more: str) -> Path:
        """Lay out the defaults of a machine, in a new folder."""
        return conf(self.folder / uuid.uuid4().hex, {**self.settings, **more})

    def lines(self, **more: str) -> Path:
        """Lay out the defaults of a machine, with those that ``putifabsent spark-conf`` prints."""
        return self.conf(**{**defaults(["s3a"], self.address, jar()), **more})

    def in_python(self, *options: str, home: Path = HOME, **more: str) -> list[Heard]:
        """Submit two jobs in Python, which mount."""
        at = self.conf(**more)

        def submit(who: str) -> Heard:
            job = (_JOB, "--mount", self.address, self.script(who))
            return self.run(home / "bin" / "spark-submit", *options, *job, conf=at, home=home)

        return together(partial(submit, who) for who in WRITERS)

    def in_sql(self, *options: str, home: Path = HOME, **more: str) -> list[Heard]:
        """Run spark-sql twice, by lines in its defaults."""
        at = self.lines(**more)

        def run(who: str) -> Heard:
            job = (*_own_session(), *options, "-f", self.script(who))
            return self.run(home / "bin" / "spark-sql", *job, conf=at, home=home)

        return together(partial(run, who) for who in WRITERS)

    def at_a_server(
        self, main: str, options: Callable[[int], list[str]], client: Callable[[int, str], list[str | Path]]
    ) -> list[Heard]:
        """Run a server of Spark's by lines in its defaults, and two clients."""
        at = self.lines(**_listed(self.jars))
        with submitted(main, options, HOME, at) as port:
            return together(partial(self.run, *client(port, who), conf=at) for who in WRITERS)


def _own_session() -> tuple[str, ...]:
    return ("--conf", f"spark.hadoop.fs.putifabsent.session={uuid.uuid4()}")


def _listed(jars: list[Path]) -> dict[str, str]:
    return {"spark.jars": ",".join(map(str, jars))}


# --- where jars come from


def _named_in_settings(cell: Cell) -> list[Heard]:
    return cell.in_python(**_listed(cell.jars))


def _on_the_class_path(cell: Cell) -> list[Heard]:
    path = os.pathsep.join(map(str, cell.jars))
    return cell.in_python(**{f"spark.{who}.extraClassPath": path for who in ("driver", "executor")})


def _by_packages(cell: Cell) -> list[Heard]:
    # Ivy does not keep two that fetch at the same time apart.
    cache = ("--conf", f"spark.jars.ivy={cell.folder / 'ivy'}")
    cell.run(_PROGRAMS / "spark-submit", "--packages", _named(cell), *cache, "--version", conf=cell.conf())
    return cell.in_python("--packages", _named(cell), *cache)


def _named(cell: Cell) -> str:
    return f"{_PACKAGES[cell.form]},{_HADOOP}"


def _by_option(cell: Cell) -> list[Heard]:
    return cell.in_sql("--jars", _listed(cell.jars)["spark.jars"])


def _baked_in(cell: Cell) -> list[Heard]:
    return cell.in_python(home=image(cell.folder / "home", cell.jars))


# --- clusters


def _on(cell: Cell, **more: str) -> dict[str, str]:
    small = {"spark.driver.memory": "768m", "spark.executor.memory": "768m", "spark.cores.max": "1"}
    return {**_listed(cell.jars), "spark.master": cell.cluster()[0], **small, **more}


def _in_client_mode(cell: Cell) -> list[Heard]:
    return cell.in_python(**_on(cell))


def _in_cluster_mode(cell: Cell) -> list[Heard]:
    """Have the cluster run the drivers, which are in Java: it takes none in Python."""
    _, workers = cell.cluster()
    at = cell.lines(**_on(cell, **{"spark.standalone.submit.waitAppCompletion": "true"}))
    job = ("--deploy-mode", "cluster", "--class", "Statements")
    made = compiled("Statements.java", cell.folder / "classes")

    def submit(who: str) -> Heard:
        command = (_PROGRAMS / "spark-submit", *_own_session(), *job, made, cell.script(who))
        done = run_script(*command, defaults=at, folder=cell.folder)
        printed = "".join(each.read_text() for each in workers.glob("*/driver-*/std*"))
        return cell.heard(done, printed)

    # Each has read what both have printed.
    first, second = together(partial(submit, who) for who in WRITERS)
    return [
        Heard([row for row in each.acknowledged if row[0] == who], each.code, each.words)
        for who, each in zip(WRITERS, (first, second), strict=True)
    ]


def _on_executors_that_come_and_go(cell: Cell) -> list[Heard]:
    allocation = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
    }
    return cell.in_python(**_on(cell, **allocation))


def _on_executors_that_are_lost(cell: Cell) -> list[Heard]:
    """Kill the first executor of each application once it has had a task."""
    _, workers = cell.cluster()
    there = set(_executors(workers))
    over = Event()

    def kill() -> int:
        killed: set[Path] = set()
        while not over.is_set() and len(killed) < len(WRITERS):
            for pid, at in _executors(workers).items():
                if pid not in there and at.parent not in killed and _has_had_a_task(at):
                    os.kill(pid, signal.SIGKILL)
                    killed.add(at.parent)
            time.sleep(0.05)
        return len(killed)

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill)
        heard = cell.in_python(**_on(cell, **{"spark.log.level": "INFO"}))
        over.set()
    assert killed.result() == len(WRITERS)
    return heard


def _has_had_a_task(executor: Path) -> bool:
    log = executor / "stderr"
    return log.exists() and "Running task" in log.read_text()


def _executors(workers: Path) -> dict[int, Path]:
    """Return the processes that work in applications' folders, ``WORKER/app-ID/EXECUTOR``."""
    found = {}
    for each in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):  # it has ended meanwhile, or is none of ours
            at = each.readlink()
            if at.is_relative_to(workers) and at.parent.name.startswith("app-"):
                found[int(each.parent.name)] = at
    return found


# --- one process, several sessions


def _in_sessions_of_one_process(cell: Cell) -> list[Heard]:
    job = (_JOB, "--mount", cell.address, *map(cell.script, WRITERS))
    return [cell.run(_PROGRAMS / "spark-submit", *job, conf=cell.conf(**_listed(cell.jars)))]


def _at_a_thrift_server(cell: Cell) -> list[Heard]:
    def client(port: int, who: str) -> list[str | Path]:
        return [_PROGRAMS / "beeline", "-u", f"jdbc:hive2://127.0.0.1:{port}", "-f", cell.script(who)]

    return cell.at_a_server(THRIFT, thrift_options, client)


def _at_a_connect_server(cell: Cell) -> list[Heard]:
    def client(port: int, who: str) -> list[str | Path]:
        return [sys.executable, _JOB, "--remote", f"sc://127.0.0.1:{port}", cell.script(who)]

    return cell.at_a_server(CONNECT, connect_options, client)


def _in_spark_sql(cell: Cell) -> list[Heard]:
    return cell.in_sql(**_listed(cell.jars))


DEPLOYMENTS: dict[str, Callable[[Cell], list[Heard]]] = {
    "jars in the settings": _named_in_settings,
    "jars on the system class path": _on_the_class_path,
    "jars by --packages": _by_packages,
    "jars by --jars, spark-sql": _by_option,
    "jars in an image": _baked_in,
    "standalone, client mode": _in_client_mode,
    "standalone, cluster mode": _in_cluster_mode,
    "dynamic allocation": _on_executors_that_come_and_go,
    "executors killed": _on_executors_that_are_lost,
    "sessions of one process": _in_sessions_of_one_process,
    "Thrift server": _at_a_thrift_server,
    "Spark Connect": _at_a_connect_server,
    "spark-sql": _in_spark_sql,
}
"""Each by what it is called."""
