"""Spark's door: every format of a session commits through a guarded filesystem, on the JVM and in Python.

::

    from putifabsent.spark import mount

    spark = mount(SparkSession.builder, "s3a").getOrCreate()

===================  ==================================================================
``mounting``         ``mount``: a session's builder, and what it does before the session
``settings``         Spark's settings, by key; ``spark-conf`` prints the same; the adapter's jar
``stores``           from Hadoop's addresses and settings to those of the filesystem here
``companion``        the coordination service, which ends with its driver
``source``           ``format("putifabsent")``: Parquet files, committed as a set (PySpark 4)
``datasets``         such a dataset as files: what is written, committed, read
``sets``             what its records say, and which may be next
``timelines``        ``format("putifabsent-timeline")``: what has happened to a table (PySpark 4)
``tables``           ``inspect_all``: a job that inspects a folder of tables
``data_sources``     what both of these have in common
===================  ==================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.spark.settings import jar

if TYPE_CHECKING:
    from putifabsent.spark.mounting import mount

__all__ = ["jar", "mount"]


def __getattr__(name: str) -> object:
    if name == "mount":
        from putifabsent.spark.mounting import mount

        return mount
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
