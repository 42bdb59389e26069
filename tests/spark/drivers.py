"""Drivers side by side, each with a Python and a JVM of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.child import Child
from tests.servers.s3 import s3a_settings
from tests.service.processes import metrics_of
from tests.spark.writers import IS_NEWER, settings_of

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable, Iterator, Mapping

    from typing_extensions import Self

    from tests.servers import BucketServer

__all__ = [
    "CONNECT_JARS",
    "FORMATS_JARS",
    "JARS",
    "JAVA",
    "LONG",
    "ROOT",
    "SHORT",
    "Driver",
    "Told",
    "driving",
    "run_script",
    "together",
    "told_on",
]

ROOT = Path(__file__).parents[2]
SHORT = bool(os.environ.get("SHORT"))
"""Whether this run asks each thing once, of one format or one way, as CI does."""
LONG = pytest.mark.skipif(SHORT, reason="a longer run asks it")
JARS = ROOT / "tools" / ("spark41" if IS_NEWER else "spark") / "target" / "jars"
CONNECT_JARS = sorted(JARS.glob("spark-connect_*.jar"))
"""Spark Connect's server, where PySpark leaves it out."""
FORMATS_JARS = sorted(set(JARS.glob("*.jar")) - {*CONNECT_JARS})
"""What writers need, and who makes their tables."""
JAVA = (
    Path(os.environ["JAVA_HOME"], "bin")
    if "JAVA_HOME" in os.environ
    else Path(which("java") or "").resolve().parent
)
"""The folder with the JDK's programs."""


class Told(NamedTuple):
    """What a driver is told.

    Attributes
    ----------
    settings
        Spark's.
    scheme, mount
        What it mounts, and with which arguments; None: nothing.
    """

    settings: Mapping[str, str]
    scheme: str = "s3a"
    mount: Mapping[str, Any] | None = None

    def strictly(self, *, tower: bool = True) -> Told:
        """Return the same, where what it mounts refuses, and waits for, all that it can: writers get by."""
        more = {"strict": True, "inspect": "commits", "tower": tower}
        return self if self.mount is None else self._replace(mount={**self.mount, **more})


def told_on(server: BucketServer, bucket: str, *, guarded: bool, **more: str) -> Told:
    """Return what a driver on a server's bucket is told: what its users would say."""
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(map(str, FORMATS_JARS)),
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        **{f"spark.hadoop.{key}": value for key, value in s3a_settings(server).items()},
        **settings_of(f"s3a://{bucket}"),
        **more,
    }
    return Told(settings, mount={"arbiter": "native"} if guarded else None)


class Driver:
    """A driver; it ends with the test that has started it, for that holds its standard input.

    Parameters
    ----------
    told
        Its session.
    log
        Where it writes what it has to say.
    python
        What runs it.
    """

    def __init__(self, told: Told, log: Path, python: str = sys.executable) -> None:
        env = {**_environment(), "PYSPARK_PYTHON": python}
        self._child = Child([python, "-m", "tests.spark.driver"], log, cwd=ROOT, env=env)
        self.log = log
        self._child.say(told._asdict())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def wait(self) -> Self:
        """Return it when its session is there."""
        self._child.heard()
        return self

    def call(self, what: str, /, **said: Any) -> Any:
        """Have it do something, and return its answer.

        Raises
        ------
        CallError
            It has failed.
        """
        return self._child.call({"call": what, **said})["answer"]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its Python, its JVM, and all that they have started, but for the service."""
        self._child.signal(number)

    def service(self) -> int | None:
        """Return its service's process: the system knows it while the driver itself is busy."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended meanwhile
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                if (
                    int(parent) == self._child.process.pid
                    and b"--until-eof" in (process / "cmdline").read_bytes()
                ):
                    return int(process.name)
        return None

    def metrics(self) -> str:
        """Return what its service has counted."""
        address, secret = (self.call("setting", key=f"fs.putifabsent.{key}") for key in ("address", "secret"))
        return metrics_of(address, secret)

    def end(self) -> None:
        """End it, as one whose notebook is closed; whatever does not end so is killed."""
        self._child.end()


@contextmanager
def driving(told: Iterable[Told], logs: Path, python: str = sys.executable) -> Iterator[list[Driver]]:
    """Run drivers, one of each that is told, all of which start at once; their logs go to a folder."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(Driver(each, logs / f"{number}.log", python))
            for number, each in enumerate(told)
        ]
        yield [each.wait() for each in started]


def run_script(
    *command: str | Path,
    defaults: Path,
    folder: Path,
    python: str | Path | None = None,
    home: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run what a user runs, on a machine whose Spark has these defaults.

    Parameters
    ----------
    command
        The program, and its arguments.
    defaults
        The folder of ``spark-defaults.conf``.
    folder
        The working directory.
    python
        The tasks' Python, where the package is installed; else this one, and this checkout.
    home
        The Spark that is run; else this environment's.
    """
    installed = {} if python is None else {"PYSPARK_PYTHON": str(python), "PYTHONPATH": ""}
    spark = {} if home is None else {"SPARK_HOME": str(home)}
    return subprocess.run(
        [str(each) for each in command],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        cwd=folder,
        env={**_environment(), **installed, **spark, "SPARK_CONF_DIR": str(defaults)},
    )


def _environment() -> dict[str, str]:
    """Return what a process of Spark's has: this Python, this checkout, the loopback address."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def together(calls: Iterable[Any]) -> list[Any]:
    """Do these at once, each in a thread of its own, and return what they return."""
    todo = list(calls)
    with ThreadPoolExecutor(len(todo)) as pool:
        return [each.result() for each in [pool.submit(call) for call in todo]]
