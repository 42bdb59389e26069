"""Applications of Spark that ask one service, and how they are submitted.

The service guards ``_SUCCESS``, which every job of Spark's writes at its end, overwriting: of all that append
to one folder the first alone is told that it did.
"""

from __future__ import annotations

import importlib.util
import socket
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.child import CallError
from tests.servers.process import Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.spark.drivers import Driver

__all__ = ["GUARD", "HOME", "SETTINGS", "TAKEN", "appended", "conf", "submitted"]

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
