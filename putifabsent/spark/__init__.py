"""Spark's door: every format of a session commits through a guarded filesystem, on the JVM and in Python.

::

    from putifabsent.spark import mount

    spark = mount(SparkSession.builder, "s3a").getOrCreate()
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
