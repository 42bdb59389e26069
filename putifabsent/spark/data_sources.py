"""What the data sources in Python have in common: PySpark's API of them, and their options."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyspark

from putifabsent.errors import ConfigError

try:
    from pyspark.sql import datasource as api
except ImportError as error:
    raise ImportError(
        'format("putifabsent") needs PySpark 4.0 or newer, whose API of Python data sources it uses, and so '
        f'does format("putifabsent-timeline"); this is PySpark {pyspark.__version__}'
    ) from error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["Place", "api", "arrow_schema", "place_of"]

# What Spark hands on of its own.
_SPARKS = ("checkpointlocation", "queryname")


@dataclass(frozen=True)
class Place:
    """What Spark's processes hand one another of a dataset or a table: its address, its mount's options."""

    url: str
    options: dict[str, Any]


def place_of(options: Mapping[str, str], name: str, known: Sequence[str], how: str) -> Place:
    """Return the place that the options of ``format(name)`` say.

    ``ConfigError``: one is not ``known``, there is no path (``how`` to say it), or ``storage_options`` is no
    JSON.
    """
    for option in options:
        if option not in (*known, *_SPARKS):
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise ConfigError(f'format("{name}") has no option {option!r}: {hint}')
    if "path" not in options:
        raise ConfigError(how)
    try:
        own = json.loads(options.get("storage_options", "{}"))
    except ValueError as error:
        raise ConfigError("storage_options must be JSON") from error
    return Place(options["path"], own)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return what Spark expects of what is read."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # PySpark 4.0 means UTC
        return to_arrow_schema(schema)
