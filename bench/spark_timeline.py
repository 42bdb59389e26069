"""How long Spark takes to read a long history, cut into few or many parts.

    python bench/spark_timeline.py [--instants 10000] [--partitions 1,2,4] [--times 5] [--json]

The table is that of bench/timeline.py, on local disk. Each figure is the median of several jobs that take
turns, each from ``load`` to its last row, in one session with a thread for each partition; the first jobs are
not counted. Beside them is what one process takes that needs no Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.timeline import BATCH, make
from putifabsent.timeline import read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

WARM_UP = 2


def session(threads: int) -> SparkSession:
    """Return a session with the data source, and with nothing that isn't needed."""
    from pyspark.sql import SparkSession

    from putifabsent.spark.timelines import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    spark = SparkSession.builder.master(f"local[{threads}]").config(map=settings).getOrCreate()
    register(spark)
    return spark


def job(spark: SparkSession, folder: str, partitions: int) -> None:
    """Read all rows, and do nothing with them."""
    reader = spark.read.format("putifabsent-timeline").option("partitions", partitions)
    reader.load(folder).write.format("noop").mode("overwrite").save()


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    begun = perf_counter()
    call()
    return perf_counter() - begun


def measured(folder: str, counts: Sequence[int], times: int) -> dict[int, float]:
    """Return the median seconds of a job, by how many partitions it has."""
    spark = session(max(counts))
    taken: dict[int, list[float]] = {each: [] for each in counts}
    try:
        for turn in track(range(-WARM_UP, times), "reading", transient=True, console=Console(stderr=True)):
            for each in counts:
                spent = seconds(partial(job, spark, folder, each))
                if turn >= 0:
                    taken[each].append(spent)
    finally:
        spark.stop()
    return {each: statistics.median(spent) for each, spent in taken.items()}


def main() -> None:
    """Make a table, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instants", type=int, default=10_000)
    parser.add_argument("--partitions", default="1,2,4", help="numbers, with commas between them")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    counts = [int(each) for each in said.partitions.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), said.instants)
        alone = statistics.median(seconds(lambda: read(folder).table()) for _ in range(said.times))
        found = measured(folder, counts, said.times)
    instants = said.instants // BATCH * BATCH
    if said.json:
        print(json.dumps({"instants": instants, "one process": alone, "partitions": found}))
        return
    table = Table(
        title=f"{instants} archived instants on local disk, {os.cpu_count()} cores", title_justify="left"
    )
    for column in ("read by", "seconds", "instants a second"):
        table.add_column(column, justify="right")
    rows = {"one process": alone} | {f"Spark, {each} partitions": spent for each, spent in found.items()}
    for name, spent in rows.items():
        table.add_row(name, f"{spent:.3f}", f"{instants / spent:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
