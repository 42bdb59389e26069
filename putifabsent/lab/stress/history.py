"""Histories as tables, and the figures in them."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from putifabsent.lab.stress.records import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SCHEMA", "Figures", "acknowledged_commits", "figures", "latencies", "since_begun", "table_of"]

_TYPES = {"writer": pa.int64(), "begun": pa.int64(), "ended": pa.int64(), "closing": pa.bool_()}
SCHEMA = pa.schema([(each.name, _TYPES.get(each.name, pa.string())) for each in fields(Operation)])
"""A column for each attribute of an operation."""

_PERCENTILES = (50, 95, 99)
_IS_COMMIT = (pc.field("action") == "create") & (pc.field("purpose") == "commit")


def table_of(operations: Iterable[Operation]) -> pa.Table:
    """Return operations as a table, in :data:`SCHEMA`."""
    columns = list(zip(*map(astuple, operations), strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


class Figures(NamedTuple):
    """What a history comes to.

    Attributes
    ----------
    commits
        Creations by which a commit is decided, by what was told of them; ``"none"``: their writers died.
    tables
        The acknowledged ones, by their tables.
    rate
        Acknowledged commits a second, of those begun in time.
    milliseconds
        What an acknowledged one took, by percentiles: 50, 95, 99.
    operations
        Creations and reads in all, the closing ones aside.
    faults
        Kills and pauses.
    """

    commits: dict[str, int]
    tables: dict[str, int]
    rate: float
    milliseconds: dict[int, float]
    operations: int
    faults: dict[str, int]

    @property
    def acknowledged(self) -> int:
        """How many commits were."""
        return self.commits.get("created", 0)


def figures(history: pa.Table, seconds: float) -> Figures:
    """Return the figures of a history that took so long."""
    commits = history.filter(_IS_COMMIT)
    told = Counter(outcome or "none" for outcome in commits["outcome"].to_pylist())
    acknowledged = acknowledged_commits(history)
    in_time = int((since_begun(history, acknowledged, "begun") <= seconds).sum())
    took = latencies(history)
    actions: Counter[str] = Counter(history.filter(~pc.field("closing"))["action"].to_pylist())
    return Figures(
        dict(told.most_common()),
        dict(Counter(acknowledged["folder"].to_pylist()).most_common()),
        in_time / seconds,
        {each: float(np.percentile(took, each)) for each in _PERCENTILES} if len(took) else {},
        actions["create"] + actions["read"],
        {each: actions[each] for each in ("kill", "pause") if actions[each]},
    )


def acknowledged_commits(history: pa.Table) -> pa.Table:
    """Return the creations by which a commit was decided, and acknowledged."""
    return history.filter(_IS_COMMIT & (pc.field("outcome") == "created"))


def since_begun(history: pa.Table, of: pa.Table, column: str) -> Any:
    """Return times of some operations, in seconds since the first one of their host, as numpy's array."""
    firsts = history.filter(~pc.field("closing")).group_by("host").aggregate([("begun", "min")])
    first = dict(zip(firsts["host"].to_pylist(), firsts["begun_min"].to_pylist(), strict=True))
    begins = np.array([first[each] for each in of["host"].to_pylist()], np.int64)
    return (of[column].to_numpy() - begins) / 1e9


def latencies(history: pa.Table) -> Any:
    """Return the milliseconds of each acknowledged commit, as an array of numpy's."""
    acknowledged = acknowledged_commits(history)
    return pc.subtract(acknowledged["ended"], acknowledged["begun"]).to_numpy() / 1e6
