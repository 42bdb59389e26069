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
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.spark.settings import HUDI, defaults, jar
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
from tests.spark.drivers import CONNECT_JARS, FORMATS_JARS, ROOT, run_script, together
from tests.spark.writers import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Row = tuple[str, int]

__all__ = ["COMMITS", "DEPLOYMENTS", "Cell", "Heard"]

COMMITS = 3
WRITERS = ("w0", "w1")
_PACKAGES = {
    "delta": "io.delta:delta-spark_2.12:3.3.3",
    "hudi": "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",
    "paimon": "org.apache.paimon:paimon-spark-3.5:0.9.0",
}
_HADOOP = "org.apache.hadoop:hadoop-aws:3.3.4"
# Spark has these. Of a version that Maven did not choose it keeps no jar, and Ivy takes it to be there.
_BROUGHT = (
    "com.google.code.findbugs:jsr305",
    "org.lz4:lz4-java",
    "org.scala-lang.modules:scala-xml_2.12",
    "org.scala-lang:scala-compiler",
    "org.scala-lang:scala-reflect",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
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
        return [*(each for each in FORMATS_JARS if not each.name.startswith(tuple(others))), Path(jar())]

    def script(self, who: str) -> Path:
        """Write down what a writer does."""
        script = self.folder / f"{who}.sql"
        script.write_text("".join(f"{line};\n" for line in self._lines(who)))
        return script

    def _lines(self, who: str) -> Iterator[str]:
        *before, insert = statements(self.form, self.settings["spark.test.warehouse"], self.table)
        yield from (each.format(who=who) for each in before)
        for n in range(COMMITS):
            yield insert.format(who=who, n=n)
            yield f"select concat('acknowledged', ' {self.table} {who} {n}')"

    def heard(self, words: str, code: int) -> Heard:
        found = re.findall(rf"acknowledged {self.table} (w\d) (\d+)", words)
        return Heard([(who, int(n)) for who, n in found], code, words)

    def run(self, *command: str | Path, conf: Path, home: Path = HOME) -> Heard:
        done = run_script(*command, defaults=conf, folder=self.folder, home=home)
        return self.heard(done.stdout + done.stderr, done.returncode)

    def conf(self, more: Mapping[str, str]) -> Path:
        """Lay out the defaults of a machine, in a new folder."""
        return conf(self.folder / uuid.uuid4().hex, {**self.settings, **more})

    def lines(self, more: Mapping[str, str], *on_the_path: Path) -> Path:
        """Lay out the defaults of a machine, with all that ``putifabsent spark-conf`` prints.

        Hudi's own are on the class path of drivers, before what else is told to be there.
        """
        (self.folder / "hudi-defaults.conf").write_text("".join(f"{key}={HUDI[key]}\n" for key in HUDI))
        path = {"spark.driver.extraClassPath": os.pathsep.join(map(str, [self.folder, *on_the_path]))}
        return self.conf({**defaults(["s3a"], self.address, jar()), **path, **more})

    def in_python(self, more: Mapping[str, str], *options: str, home: Path = HOME) -> list[Heard]:
        """Submit two jobs in Python, which mount."""
        at = self.conf(more)

        def submit(who: str) -> Heard:
            job = (_JOB, "--mount", self.address, self.script(who))
            return self.run(home / "bin" / "spark-submit", *options, *job, conf=at, home=home)

        return together(partial(submit, who) for who in WRITERS)

    def in_sql(self, more: Mapping[str, str], *options: str) -> list[Heard]:
        """Run spark-sql twice, by lines in its defaults."""
        at = self.lines(more)

        def run(who: str) -> Heard:
            job: list[str | Path] = [*_own_session(), *options, "-f", self.script(who)]
            return self.run(_PROGRAMS / "spark-sql", *job, conf=at)

        return together(partial(run, who) for who in WRITERS)

    def at_a_server(
        self,
        main: str,
        options: Callable[[int], list[str]],
        client: Callable[[int, str], list[str | Path]],
        at: Path,
    ) -> list[Heard]:
        """Run a server of Spark's by lines in its defaults, and two clients."""
        with submitted(main, options, HOME, at) as port:
            return together(partial(self.run, *client(port, who), conf=at) for who in WRITERS)


def _own_session() -> tuple[str, ...]:
    return ("--conf", f"spark.hadoop.fs.putifabsent.session={uuid.uuid4()}")


def _listed(jars: list[Path]) -> dict[str, str]:
    return {"spark.jars": ",".join(map(str, jars))}


# --- where jars come from


def _named_in_settings(cell: Cell) -> list[Heard]:
    return cell.in_python(_listed(cell.jars))


def _on_the_class_path(cell: Cell) -> list[Heard]:
    path = os.pathsep.join(map(str, cell.jars))
    return cell.in_python({f"spark.{who}.extraClassPath": path for who in ("driver", "executor")})


def _by_packages(cell: Cell) -> list[Heard]:
    named = f"{_PACKAGES[cell.form]},{_HADOOP}"
    ivy = f"spark.jars.ivy={cell.folder / 'ivy'}"
    options = ("--packages", named, "--exclude-packages", ",".join(_BROUGHT), "--conf", ivy)
    # Ivy does not keep two that fetch at the same time apart: what they need is there before.
    (empty := cell.folder / "empty.py").touch()
    cell.run(_PROGRAMS / "spark-submit", *options, empty, conf=cell.conf({}))
    return cell.in_python({}, *options)


def _by_option(cell: Cell) -> list[Heard]:
    return cell.in_sql({}, "--jars", _listed(cell.jars)["spark.jars"])


def _baked_in(cell: Cell) -> list[Heard]:
    return cell.in_python({}, home=image(cell.folder / "home", cell.jars))


# --- clusters


def _on(cell: Cell, more: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    small = {"spark.driver.memory": "768m", "spark.executor.memory": "768m", "spark.cores.max": "1"}
    return {**_listed(cell.jars), "spark.master": cell.cluster()[0], **small, **more}


def _in_client_mode(cell: Cell) -> list[Heard]:
    return cell.in_python(_on(cell))


def _in_cluster_mode(cell: Cell) -> list[Heard]:
    """Have the cluster run the drivers, which are in Java: it takes none in Python."""
    _, workers = cell.cluster()
    told = {"spark.standalone.submit.waitAppCompletion": "true", "spark.driver.extraJavaOptions": _OPENED}
    at = cell.lines(_on(cell, told))
    job = ("--deploy-mode", "cluster", "--class", "Statements")
    made = compiled("Statements.java", cell.folder / "classes")

    def submit(who: str) -> Heard:
        command: list[str | Path] = [*_own_session(), *job, made, cell.script(who)]
        done = run_script(_PROGRAMS / "spark-submit", *command, defaults=at, folder=cell.folder)
        state = re.search(r"State of driver (driver-[\d-]+) is (\w+)", done.stderr)
        assert state, done.stderr
        printed = "".join(each.read_text() for each in workers.glob(f"*/{state[1]}/std*"))
        # The program itself ends well whatever became of the driver.
        return cell.heard(printed, 0 if state[2] == "FINISHED" else 1)

    return together(partial(submit, who) for who in WRITERS)


# What Spark tells Java 17 of all its drivers but those.
_OPENED = " ".join(
    f"--add-opens=java.base/{each}=ALL-UNNAMED"
    for each in [
        "java.lang",
        "java.lang.invoke",
        "java.lang.reflect",
        "java.io",
        "java.net",
        "java.nio",
        "java.util",
        "java.util.concurrent",
        "java.util.concurrent.atomic",
        "jdk.internal.ref",
        "sun.nio.ch",
        "sun.nio.cs",
        "sun.security.action",
        "sun.util.calendar",
    ]
)


def _on_executors_that_come_and_go(cell: Cell) -> list[Heard]:
    allocation = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
    }
    return cell.in_python(_on(cell, allocation))


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
        try:
            heard = cell.in_python(_on(cell))
        finally:
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
    job: list[str | Path] = ["--mount", cell.address, *map(cell.script, WRITERS)]
    return [cell.run(_PROGRAMS / "spark-submit", _JOB, *job, conf=cell.conf(_listed(cell.jars)))]


def _at_a_thrift_server(cell: Cell) -> list[Heard]:
    def client(port: int, who: str) -> list[str | Path]:
        return [_PROGRAMS / "beeline", "-u", f"jdbc:hive2://127.0.0.1:{port}", "-f", cell.script(who)]

    # Its sessions find no catalog that is among `spark.jars`.
    at = cell.lines({"spark.jars": ""}, *cell.jars)
    return cell.at_a_server(THRIFT, thrift_options, client, at)


def _at_a_connect_server(cell: Cell) -> list[Heard]:
    def client(port: int, who: str) -> list[str | Path]:
        return [sys.executable, _JOB, "--remote", f"sc://127.0.0.1:{port}", cell.script(who)]

    at = cell.lines(_listed([*cell.jars, *CONNECT_JARS]))
    return cell.at_a_server(CONNECT, connect_options, client, at)


def _in_spark_sql(cell: Cell) -> list[Heard]:
    return cell.in_sql(_listed(cell.jars))


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
