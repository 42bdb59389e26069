"""Inspects a folder of tables as a Spark job: each task looks at some of them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from putifabsent.errors import sentence_of
from putifabsent.inspection.inspecting import Failed, Folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from putifabsent.inspection import Report

_A_CORE = 4  # tasks, so that the tables that take longest are not waited for by all others


def inspect_all(
    session: SparkSession, url: str, *, fs: Any = None, data: bool = True, **options: Any
) -> list[Report | Failed]:
    """Say what is wrong with the tables below a folder; parameters and errors as for inspection's own.

    The session's workers get the filesystem with its options; their Python needs this package, with what the
    filesystem and the formats want.
    """
    folder = Folder(url, fs, options)
    tables = folder.tables()
    context = session.sparkContext
    tasks = min(len(tables), context.defaultParallelism * _A_CORE)
    found = context.parallelize(tables, tasks).mapPartitions(partial(_inspected, folder, data)).collect()
    return [
        each if isinstance(each, Failed) else replace(each, timeline=each.timeline.through(folder.fs))
        for each in found
    ]


def _inspected(folder: Folder, data: bool, tables: Iterable[str]) -> Iterator[Report | Failed]:  # noqa: FBT001
    for each in folder.inspected(list(tables), data=data):
        if isinstance(each, Failed):
            yield replace(each, error=_handed_on(each.error))
        else:
            yield replace(each, timeline=each.timeline.through(None))  # the driver has the filesystem


def _handed_on(error: Exception) -> Exception:
    """Return an error that the driver can have: some clients' hold a connection, Azure's for one."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - its own
    except Exception:  # noqa: BLE001 - whatever a client's error makes of it
        return OSError(sentence_of(error))
    return error
