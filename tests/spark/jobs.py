"""Jobs of drivers: ``python -m tests.spark.jobs WHAT PATH ...`` runs one in a process of its own."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from putifabsent.spark.source import SetSource, SetWriter, register

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from putifabsent.spark.source import Written

__all__ = ["HALTED", "append", "session"]

HALTED = "halted"
"""The file that says that a job has written everything, and committed nothing."""


def session() -> SparkSession:
    """Return a session of this process, with the data source."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.log.level": "ERROR",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    register(spark)
    return spark


def append(frame: DataFrame, path: str, **options: str) -> None:
    frame.write.format("putifabsent").mode("append").options(**options).save(path)


class HaltingWriter(SetWriter):
    """One that never gets to its commit."""

    def commit(self, messages: Sequence[Written | None]) -> None:
        Path(self._place.url).with_name(HALTED).touch()
        time.sleep(600)


class HaltingSource(SetSource):
    """The data source, but for the commit."""

    def writer(self, schema: StructType, overwrite: bool) -> SetWriter:
        whole = super().writer(schema, overwrite)
        return HaltingWriter(whole._place, whole._offer, whole._seen)


def main(what: str, path: str, *ids: str) -> None:
    spark = session()
    if what == "halt":
        spark.dataSource.register(HaltingSource)
    for one in map(int, ids):
        append(spark.range(one, one + 10, 1, 2), path)


if __name__ == "__main__":
    main(*sys.argv[1:])
