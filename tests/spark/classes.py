"""A session that does a little of everything: its JVM leaves an archive of classes for those of the tests.

https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from pyspark.sql import SparkSession


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark: Any = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        frame = spark.range(10).selectExpr("id", "cast(id as string) word")
        frame.write.parquet(f"{folder}/rows")
        frame.write.json(f"{folder}/lines")
        rows = spark.read.parquet(f"{folder}/rows").groupBy("word").count()
        rows.join(spark.read.json(f"{folder}/lines"), "word").orderBy("word").collect()
        spark.range(2).mapInPandas(lambda parts: parts, "id long").collect()
    process = spark.sparkContext._gateway.proc
    spark.stop()
    # It ends with its input, and writes the archive last of all.
    process.stdin.close()
    process.wait()


if __name__ == "__main__":
    main()
