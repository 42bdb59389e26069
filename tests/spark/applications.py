"""Applications of Spark that ask one service, and how they are submitted.

The service guards ``_SUCCESS``, which every job of Spark's writes at its end, overwriting: of all that append
to one folder the first alone is told that it did.
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.child import CallError
from tests.servers.process import Process
from tests.spark.drivers import JAVA, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tests.spark.drivers import Driver

__all__ = [
    "CONNECT",
    "GUARD",
    "HOME",
    "SETTINGS",
    "TAKEN",
    "THRIFT",
    "appended",
    "compiled",
    "conf",
    "connect_options",
    "image",
    "submitted",
    "thrift_options",
]

THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
GUARD = {"guard": ["**/_SUCCESS"]}
TAKEN = "_SUCCESS: the name is taken"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.catalogImplementation": "in-memory",
}
_spec = importlib.util.find_spec("pyspark")
HOME = Path("" if _spec is None else str(_spec.origin)).parent


def conf(folder: Path, settings: Mapping[str, str]) -> Path:
    """Lay out the ``spark-defaults.conf`` of a machine in a new folder, and return that."""
    folder.mkdir()
    lines = (f"{key} {value}" for key, value in {**SETTINGS, **settings}.items())
    (folder / "spark-defaults.conf").write_text("\n".join(lines))
    return folder


@contextmanager
def submitted(
    main: str, options: Callable[[int], Sequence[str]], home: Path, defaults: Path
) -> Iterator[int]:
    """Run a server of Spark's own, and give its port.

    Parameters
    ----------
    main
        Its class.
    options
        What tells it to listen at a port of the loopback address.
    home, defaults
        The Spark that it is of, and the folder of ``spark-defaults.conf``.
    """
    with ExitStack() as stack:
        server = Process("spark-server", stack)
        submit = [str(home / "bin" / "spark-submit"), "--class", main]
        server.start(
            lambda port: [*submit, *options(port)],
            answers=_listens,
            environment={
                "SPARK_HOME": str(home),
                "SPARK_CONF_DIR": str(defaults),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )
        yield server.port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def appended(driver: Driver, folder: Path) -> bool:
    """Have a driver append files to a folder; return whether it was the first."""
    try:
        driver.call("parquet", path=folder.as_uri(), rows=4)
    except CallError as error:
        if TAKEN not in error.message:
            raise
        return False
    return True


def image(folder: Path, jars: Iterable[Path]) -> Path:
    """Lay out a Spark that has these among its own jars."""
    (folder / "jars").mkdir(parents=True)
    for each in HOME.iterdir():
        if each.name != "jars":
            (folder / each.name).symlink_to(each)
    for each in (*(HOME / "jars").iterdir(), *jars):
        (folder / "jars" / each.name).symlink_to(each)
    return folder


def thrift_options(port: int) -> list[str]:
    options = (f"hive.server2.thrift.port={port}", "hive.server2.thrift.bind.host=127.0.0.1")
    return ["spark-internal", *(each for option in options for each in ("--hiveconf", option))]


def connect_options(port: int) -> list[str]:
    options = (f"spark.connect.grpc.binding.port={port}", "spark.connect.grpc.binding.address=127.0.0.1")
    return [*(each for option in options for each in ("--conf", option)), "spark-internal"]


def compiled(source: str, folder: Path) -> Path:
    """Compile an application of ``tests/spark/java``, in Java or Scala, into a folder; return its jar."""
    jars = f"{HOME / 'jars'}/*"
    folder.mkdir()
    # Spark brings a compiler of Scala along, for its shell.
    scala = ("java", "-cp", jars, "scala.tools.nsc.Main", "-usejavacp")
    program, *options = ("javac", "-cp", jars) if source.endswith(".java") else scala
    subprocess.run(
        [JAVA / program, *options, "-d", folder, ROOT / "tests" / "spark" / "java" / source],
        check=True,
        timeout=200,
    )
    made = folder.with_suffix(".jar")
    subprocess.run([JAVA / "jar", "cf", made, "-C", folder, "."], check=True, timeout=60)
    return made
