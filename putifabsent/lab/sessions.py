"""A Spark session of an experiment's own."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["session_at"]

_PARTS = 8


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
    builder = SparkSession.builder.config("spark.sql.shuffle.partitions", _PARTS)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.master(master).appName(name).getOrCreate()
    try:
        yield session
    finally:
        session.stop()
