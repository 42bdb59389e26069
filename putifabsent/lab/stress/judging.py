"""Judges a history by the rules: on this machine with DuckDB, or on a cluster with Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.lab.stress.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["Violation", "count", "judge", "judge_on_spark"]


class Violation(NamedTuple):
    """A promise that was broken.

    Attributes
    ----------
    promise
        Its letter: U, B, K, T; L where no order explains what was told.
    breach
        What has happened, in a few words.
    name
        To which name.
    said
        The particulars.
    """

    promise: str
    breach: str
    name: str
    said: str


def judge(history: pa.Table) -> list[Violation]:
    """Return what broke a promise; an empty list is what one hopes for.

    The history has the columns of :data:`.history.SCHEMA`.
    """
    import duckdb

    with duckdb.connect() as connection:
        connection.register("history", history)
        return _asked(lambda sql: connection.execute(sql).fetchall())


def judge_on_spark(history: DataFrame) -> list[Violation]:
    """Return the same of a history that is a DataFrame."""
    session = history.sparkSession
    history.createOrReplaceTempView("history")
    try:
        return _asked(lambda sql: map(tuple, session.sql(sql).collect()))
    finally:
        session.catalog.dropTempView("history")


def _asked(ask: Callable[[str], Iterable[tuple[str, str]]]) -> list[Violation]:
    return [
        Violation(rule.promise, rule.breach, name, said)
        for rule in RULES
        for name, said in sorted(ask(rule.sql))
    ]


def count(violations: Iterable[Violation]) -> Counter[str]:
    """Return how often each promise was broken, by its letter."""
    return Counter(each.promise for each in violations)
