"""An application that knows of no format: it runs statements of SQL, and prints what they return.

    spark-submit statements.py [--mount ADDRESS] [--remote URL] SCRIPT...

Each script has a session of its own, all of them at once.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(mount_at: str | None, remote: str | None) -> SparkSession:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    if remote is not None:
        builder = builder.remote(remote)
    elif mount_at is not None:
        from putifabsent.spark import mount

        builder = mount(builder, "s3a", service=mount_at)
    made: SparkSession = builder.getOrCreate()
    return made


def run(spark: SparkSession, script: str) -> None:
    for statement in Path(script).read_text().split(";\n"):
        if statement.strip():
            for row in spark.sql(statement).collect():
                sys.stdout.write(" ".join(map(str, row)) + "\n")
                sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mount")
    parser.add_argument("--remote")
    parser.add_argument("scripts", nargs="+")
    told = parser.parse_args()
    spark = session(told.mount, told.remote)
    sessions = [spark, *(spark.newSession() for _ in told.scripts[1:])]
    with ThreadPoolExecutor(len(sessions)) as pool:
        for done in [pool.submit(partial(run, *each)) for each in zip(sessions, told.scripts, strict=True)]:
            done.result()
    spark.stop()


if __name__ == "__main__":
    main()
