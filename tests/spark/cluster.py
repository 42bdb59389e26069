"""A standalone cluster: a master, and workers of one core each, as processes of this machine."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.process import Process, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["WORKER", "cluster"]

WORKER = "PIA_WORKER"
"""What tells workers apart, in the environment of their tasks."""


@contextmanager
def cluster(workers: int, folder: Path) -> Iterator[str]:
    """Run one, with a folder for what its workers leave; give the master's address."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    start = [str(home / "bin" / "spark-class")]
    master = f"spark://127.0.0.1:{free_port()}"
    environment = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    with ExitStack() as stack:

        def begin(name: str, what: str, *more: str, **variables: str) -> None:
            process = Process(name, stack)
            process.start(
                lambda port: [*start, what, "--host", "127.0.0.1", "--webui-port", str(port), *more],
                environment={**environment, **variables},
            )

        port = master.rpartition(":")[2]
        begin("spark-master", "org.apache.spark.deploy.master.Master", "--port", port)
        for number in map(str, range(workers)):
            begin(
                f"spark-worker-{number}",
                "org.apache.spark.deploy.worker.Worker",
                *("--cores", "1", "--memory", "1g", "--work-dir", str(folder / number), master),
                **{WORKER: number},
            )
        yield master
