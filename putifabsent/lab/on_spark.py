"""The lab's experiments on Spark: tasks work off a simulation's shares, or run a pool of writers each.

Wants PySpark, and pyarrow beside it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession

from putifabsent.errors import ConfigError
from putifabsent.lab.simulate import Plan, Tally
from putifabsent.lab.stress.results import SCHEMA, Result, Violation, judge_on_spark, table_of
from putifabsent.lab.stress.running import Ground, obeyed
from putifabsent.lab.stress.writers import Operation

if TYPE_CHECKING:
    from putifabsent.lab.simulate import Cell, Experiment
    from putifabsent.lab.stress.paths import Contender
    from putifabsent.lab.stress.pool import Orders, Stress

_PARTS = 8
_TASKS_A_CORE = 4  # so that the last ones to end are not waited for by all others
_COUNTED = "cell long, collisions long, runs long"
SETTINGS = {
    # A second attempt would find the names of the first one, and not the outcomes of that.
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.task.maxFailures": "1",
    # Where there are fewer cores than tasks, half a minute says so as well as ten.
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "3s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "10",
}

_KINDS = {pa.int64(): "long", pa.bool_(): "boolean", pa.string(): "string"}
_COLUMNS = ", ".join(f"{field.name} {_KINDS[field.type]}" for field in SCHEMA)


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
    # Of what an experiment asks at its end 200 parts, Spark's default, would be nearly all empty.
    builder = SparkSession.builder.config(map={"spark.sql.shuffle.partitions": _PARTS, **settings})
    session = builder.master(master).appName(name).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def simulate(experiments: Sequence[Experiment], runs: int, seed: int, master: str) -> list[Cell]:
    """Do as :func:`.simulate.simulate` does, in a Spark session of its own at ``master``.

    Its workers' Python, which ``PYSPARK_PYTHON`` says, needs this package, numpy and pyarrow.
    """
    plan = Plan(experiments, runs, seed)
    with session_at(master, "putifabsent simulate") as session:
        return simulate_on(session, plan)


def simulate_on(session: SparkSession, plan: Plan, partitions: int | None = None) -> list[Cell]:
    """Run a plan in a session that is there, in so many tasks; by default a few for each core."""
    tasks = partitions or session.sparkContext.defaultParallelism * _TASKS_A_CORE
    shares = session.range(0, plan.shares, 1, min(tasks, plan.shares))
    counted = shares.mapInArrow(_shares(plan), _COUNTED).collect()
    return plan.gather(Tally(cell, (0,) * collisions + (runs,)) for cell, collisions, runs in counted)


def _shares(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def job(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Added up here: a task sends as little however many shares it has, and nothing need be shuffled.
        counted: Counter[tuple[int, int]] = Counter()
        for batch in batches:
            for place in batch.column("id").to_pylist():
                cell, tally = plan.tally(place)
                counted.update({(cell, collisions): runs for collisions, runs in enumerate(tally)})
        rows = [(cell, collisions, runs) for (cell, collisions), runs in counted.items() if runs]
        if rows:
            columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=["cell", "collisions", "runs"])

    return job


@contextmanager
def stressing(what: Stress, master: str) -> Iterator[Callable[[Contender], Result]]:
    """Have what runs one path, in a Spark session that lasts as long as the block.

    Its workers' Python, which ``PYSPARK_PYTHON`` says, needs this package, the clients and pyarrow.
    """
    what.check()
    with session_at(master, "putifabsent stress", SETTINGS) as session:
        yield partial(stress_on, session, what)


def stress_on(session: SparkSession, what: Stress, contender: Contender, tasks: int | None = None) -> Result:
    """Run one path in a session that is there, in so many tasks; by default one a core.

    All of them must have a core at the same time: they are one barrier stage.
    """
    what.check()
    tasks = min(tasks or session.sparkContext.defaultParallelism, what.writers)
    host = session.conf.get("spark.driver.host") or "127.0.0.1"
    with Ground(what, contender, host) as ground:
        job = _writers(ground.orders(), tasks)
        rows = session.range(0, tasks, 1, tasks).mapInArrow(job, _COLUMNS, barrier=True)
        # Collected once: another request for the frame's rows would begin a run of its own.
        operations = [Operation(*row) for row in rows.collect()]
        operations += ground.closing({each.name for each in operations if each.action == "create"})
        return ground.result(table_of(operations), judge_on(session, operations))


def judge_on(session: SparkSession, operations: Sequence[Operation]) -> list[Violation]:
    """Return what breaks a promise in what writers did, as Spark SQL finds it."""
    return judge_on_spark(session.createDataFrame([astuple(each) for each in operations], _COLUMNS))


def _writers(orders: Orders, tasks: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def job(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                own = orders._replace(writers=range(number, orders.stress.writers, tasks))
                with tempfile.TemporaryDirectory(prefix="putifabsent-stress-") as at:
                    yield from table_of(obeyed(own, Path(at))).to_batches()

    return job
