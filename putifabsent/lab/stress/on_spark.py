"""The stress bench on Spark: a pool of writers a task, and the history judged by Spark SQL.

Wants PySpark, and pyarrow beside it.
"""

from __future__ import annotations

import tempfile
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from putifabsent.lab.sessions import session_at
from putifabsent.lab.stress.journal import Operation
from putifabsent.lab.stress.results import SCHEMA, table_of
from putifabsent.lab.stress.rules import judge_on_spark
from putifabsent.lab.stress.running import Ground, Stress, obeyed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from putifabsent.lab.stress.paths import Contender
    from putifabsent.lab.stress.results import Result
    from putifabsent.lab.stress.rules import Violation

__all__ = ["SETTINGS", "judge", "on", "run"]

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


def run(stress: Stress, contenders: Sequence[Contender], master: str) -> list[Result]:
    """Run each path in turn, in one Spark session of its own.

    Parameters
    ----------
    stress, contenders
        As for :func:`.running.run`.
    master
        Where: ``local[*]``, ``spark://HOST:PORT``. Its workers' Python, which ``PYSPARK_PYTHON`` says, needs
        this package, the clients and pyarrow.
    """
    stress.check()
    with session_at(master, "putifabsent stress", SETTINGS) as session:
        return [on(session, stress, contender) for contender in contenders]


def on(session: SparkSession, stress: Stress, contender: Contender, tasks: int | None = None) -> Result:
    """Run one path in a session that is there, in so many tasks; by default one a core.

    All of them must have a core at the same time: they are one barrier stage.
    """
    stress.check()
    tasks = min(tasks or session.sparkContext.defaultParallelism, stress.writers)
    host = session.conf.get("spark.driver.host") or "127.0.0.1"
    with Ground(stress, contender, host) as ground:
        job = _job(stress, ground.contender, ground.root, tasks)
        rows = session.range(0, tasks, 1, tasks).mapInArrow(job, _COLUMNS, barrier=True)
        # Collected once: whatever asked the frame for its rows again would begin a run of its own.
        operations = [Operation(*row) for row in rows.collect()]
        operations += ground.closing({each.name for each in operations if each.action == "create"})
        return ground.result(table_of(operations), judge(session, operations))


def judge(session: SparkSession, operations: Sequence[Operation]) -> list[Violation]:
    """Return what breaks a promise in what writers did, as Spark SQL finds it."""
    return judge_on_spark(session.createDataFrame([astuple(each) for each in operations], _COLUMNS))


def _job(
    stress: Stress, contender: Contender, root: str, tasks: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def job(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                orders = stress.orders(contender, root, range(number, stress.writers, tasks))
                with tempfile.TemporaryDirectory(prefix="putifabsent-stress-") as at:
                    yield from table_of(obeyed(orders, Path(at))).to_batches()

    return job
