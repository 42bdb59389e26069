"""The simulation as a Spark job: tasks work off its shares. Wants PySpark, and pyarrow beside it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from putifabsent.lab.sessions import session_at
from putifabsent.lab.simulate.running import Plan, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from putifabsent.lab.simulate.experiment import Cell, Experiment

__all__ = ["on", "simulate"]

_TASKS_A_CORE = 4
"""So that the last ones to end are not waited for by all others."""
_COUNTED = "cell long, collisions long, runs long"


def simulate(experiments: Sequence[Experiment], runs: int, seed: int, master: str) -> list[Cell]:
    """Run the simulation in a Spark session of its own; the cells are those of :func:`.running.simulate`.

    Parameters
    ----------
    experiments, runs, seed
        As there.
    master
        Where: ``local[*]``, ``spark://HOST:PORT``. Its workers' Python, which ``PYSPARK_PYTHON`` says, needs
        this package, numpy and pyarrow.

    Raises
    ------
    ConfigError
        For no run, or a negative seed.
    """
    plan = Plan(experiments, runs, seed)
    plan.check()
    with session_at(master, "putifabsent simulate") as session:
        return on(session, plan)


def on(session: SparkSession, plan: Plan, partitions: int | None = None) -> list[Cell]:
    """Run a plan in a session that is there, in so many tasks; by default a few for each core."""
    tasks = partitions or session.sparkContext.defaultParallelism * _TASKS_A_CORE
    shares = session.range(0, plan.shares, 1, min(tasks, plan.shares))
    counted = shares.mapInArrow(_job(plan), _COUNTED).collect()
    return plan.gather(Tally(cell, (0,) * collisions + (runs,)) for cell, collisions, runs in counted)


def _job(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def job(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Added up here: a task sends as little however many shares it has, and nothing need be shuffled.
        counted: Counter[tuple[int, int]] = Counter()
        for batch in batches:
            for place in batch.column("id").to_pylist():
                cell, tally = plan.share(place).tally()
                counted.update({(cell, collisions): runs for collisions, runs in enumerate(tally)})
        rows = [(cell, collisions, runs) for (cell, collisions), runs in counted.items() if runs]
        if rows:
            columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=["cell", "collisions", "runs"])

    return job
