"""The lab's experiments on Spark: tasks work off a simulation's shares, or run a pool of writers each."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from putifabsent.errors import ConfigError
from putifabsent.lab.stress.running import Ground, obeyed

if TYPE_CHECKING:
    from putifabsent.lab.simulate import Cell, Plan
    from putifabsent.lab.stress.paths import Contender
    from putifabsent.lab.stress.pool import Orders, Stress
    from putifabsent.lab.stress.results import Result
    from putifabsent.lab.stress.writers import Operation

_TASKS_A_CORE = 4  # so that the last ones to end are not waited for by all others
SETTINGS = {
    # A second attempt would find the names of the first one, and not the outcomes of that.
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.task.maxFailures": "1",
    # Where there are fewer cores than tasks, half a minute says so as well as ten.
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "3s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "10",
}


@contextmanager
def session_at(
    master: str, name: str, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkSession]:
    """Have a session at a master, as long as the block lasts, with more of Spark's settings."""
    if SparkSession.getActiveSession() is not None:
        raise ConfigError("this process has a Spark session already: use that one, or stop it first")
    if master.startswith("local"):
        # PySpark would take the first python3 on the PATH, which need not have numpy.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.config(map=dict(settings)).master(master).appName(name).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def simulate_on(session: SparkSession, plan: Plan, partitions: int | None = None) -> list[Cell]:
    """Run a plan in so many tasks; by default a few for each core.

    The workers' Python, which ``PYSPARK_PYTHON`` says, needs this package and numpy.
    """
    spark = session.sparkContext
    tasks = partitions or spark.defaultParallelism * _TASKS_A_CORE
    shares = spark.parallelize(range(plan.shares), min(tasks, plan.shares))
    return plan.gather(shares.map(plan.tally).collect())


def stress_on(session: SparkSession, what: Stress, contender: Contender, tasks: int | None = None) -> Result:
    """Run one path in so many tasks, of a session with :data:`SETTINGS`; by default one a core.

    All of them must have a core at the same time: they are one barrier stage. The workers' Python, which
    ``PYSPARK_PYTHON`` says, needs this package, the clients and pyarrow.
    """
    spark = session.sparkContext
    tasks = min(tasks or spark.defaultParallelism, what.writers)
    host = session.conf.get("spark.driver.host") or "127.0.0.1"
    with Ground(what, contender, host) as ground:
        job = partial(_obeyed, ground.orders(), tasks)
        return ground.result(spark.parallelize(range(tasks), tasks).barrier().mapPartitions(job).collect())


def _obeyed(orders: Orders, tasks: int, numbers: Iterable[int]) -> Iterator[Operation]:
    for number in numbers:
        own = orders._replace(writers=range(number, orders.stress.writers, tasks))
        with tempfile.TemporaryDirectory(prefix="putifabsent-stress-") as at:
            yield from obeyed(own, Path(at))
