"""The collision race: many writers commit to one Paimon table, as pypaimon does it and through putifabsent.

It counts what a user has: the commits that pypaimon acknowledged, and those of them whose rows an
unmodified pypaimon finds afterwards. What was acknowledged and can't be read is lost.
"""

from __future__ import annotations

import importlib.util
import logging
import multiprocessing
import re
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Literal, TypeAlias

from putifabsent.errors import ConfigError
from putifabsent.lab.servers import LocalBucket

StoreName: TypeAlias = Literal["s3", "local"]
Commit: TypeAlias = "tuple[int, int]"
Options: TypeAlias = "dict[str, Any]"

_DATABASE = "race"
_TABLE = f"{_DATABASE}.commits"
_ROWS = 5
_TABLE_OPTIONS = {
    "bucket": "-1",
    # By default pypaimon waits up to 10 s and gives up after 10 tries, which is much of the race.
    "commit.max-retries": "100",
    "commit.max-retry-wait": "300ms",
}


@dataclass(frozen=True)
class Race:
    """What came of one race."""

    path: Literal["stock", "putifabsent"]
    store: StoreName
    acknowledged: int  # commits that returned to their writer without an error
    readable: int  # those of them that an unmodified pypaimon reads back, every row
    lost: int  # the others
    seconds: float  # from the start signal to the last writer's end
    errors: dict[str, int] = field(default_factory=dict)  # what else happened, and how often
    repeated: int = 0  # commits, acknowledged or not, of which a row is there more than once
    unanswered: int = 0  # commits whose writer died, or that the time limit ended


def run(
    writers: int = 8,
    commits: int = 10,
    stores: Sequence[StoreName] = ("s3", "local"),
    progress: Callable[[int, int, str], None] = lambda *_: None,
    limit: float = 300,
    arbiter: str | None = None,
) -> list[Race]:
    """Race on both paths, on each store.

    So many writers are processes, started together; each makes its commits one after the other. ``progress``
    is called with (commits done, commits in all, what is raced). After ``limit`` seconds a race is ended: its
    writers are killed, and what they owe counts as unanswered. Through putifabsent ``arbiter`` decides; by
    default the mount's.
    """
    if importlib.util.find_spec("pypaimon") is None:
        raise ConfigError("pypaimon is not installed: pip install 'putifabsent[demo]'")
    if writers < 1 or commits < 1:
        raise ConfigError("a race needs at least one writer and one commit")
    guarded = {"metastore": "putifabsent", **({"putifabsent.arbiter": arbiter} if arbiter else {})}
    races: list[Race] = []
    for store in stores:
        for path in ("stock", "putifabsent"):
            done = partial(_done, progress, writers * commits, f"{path} on {store}")
            with _ground(store) as stock:
                options = stock if path == "stock" else {**stock, **guarded}
                came = race(stock, options, writers, commits, done, limit)
            races.append(Race(path, store, **came))
    return races


def _done(progress: Callable[[int, int, str], None], total: int, what: str, done: int) -> None:
    progress(done, total, what)


@contextmanager
def _ground(store: StoreName) -> Iterator[Options]:
    """Give pypaimon's options for an empty warehouse: each race has its own, since litter slows the next."""
    if store == "local":
        with tempfile.TemporaryDirectory(prefix="putifabsent-demo-") as folder:
            yield {"warehouse": f"{folder}/warehouse"}
        return
    with LocalBucket() as server:
        storage = server.storage_options
        yield {
            "warehouse": f"s3://{server.bucket}/warehouse",
            "s3.endpoint": server.endpoint,
            "s3.access-key": storage["key"],
            "s3.secret-key": storage["secret"],
            "s3.region": storage["client_kwargs"]["region_name"],
            "s3.path-style-access": "true",
        }


def race(
    stock: Options,
    options: Options,
    writers: int,
    commits: int,
    progress: Callable[[int], None] = lambda _: None,
    limit: float = 300,
) -> dict[str, Any]:
    """Race writers on a new table, and count; for :func:`run`, and for tests on other grounds.

    They write by ``options``; by ``stock``, pypaimon's own for the warehouse, the rows are read afterwards.
    ``progress`` is called with the commits done. It returns a :class:`Race`'s attributes, without its place.
    """
    progress(0)
    # On its own path: a guarded mount's probe of an unknown server is then over before the race begins.
    _make_table(options)
    acknowledged: set[Commit] = set()
    errors: Counter[str] = Counter()
    done, total = 0, writers * commits
    with _started(options, writers, commits) as racing:
        deadline = time.monotonic() + limit
        _start_together(racing, deadline)
        began = time.monotonic()
        for done, (commit, error) in enumerate(_reports(racing, deadline), 1):
            if error is None:
                acknowledged.add(commit)
            else:
                errors[error] += 1
            progress(done)
        seconds = time.monotonic() - began
    found = _read(stock, errors)
    if unreported := len(found.keys() - acknowledged):
        errors["readable, though reported as failed"] = unreported
    readable = {commit for commit in acknowledged if found[commit] >= _ROWS}
    return {
        "acknowledged": len(acknowledged),
        "readable": len(readable),
        "lost": len(acknowledged - readable),
        "repeated": sum(rows > _ROWS for rows in found.values()),
        "unanswered": total - done,
        "seconds": round(seconds, 1),
        "errors": dict(errors),
    }


@contextmanager
def _deaf() -> Iterator[None]:
    """Start processes that don't hear Ctrl-C: who has started them ends them, and they would print why.

    One that comes meanwhile comes afterwards: a process that is started half would print that, too.
    """
    resource_tracker.ensure_running()  # else it comes with the first of them, and unblocks the signal
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    came: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    # Blocked here, it may still reach another thread, and Python then interrupts the main one.
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if is_main else None
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if came:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def _started(options: Options, writers: int, commits: int) -> Iterator[list[Connection]]:
    """Give connections to the writers of a race, each a fresh process; none outlives the ``with``."""
    context = multiprocessing.get_context("spawn")
    connections: list[Connection] = []
    with ExitStack() as ending:
        with _deaf():
            for writer in range(writers):
                ours, theirs = context.Pipe()
                process = context.Process(target=_write, args=(options, writer, commits, theirs), daemon=True)
                process.start()
                ending.callback(process.join)
                ending.callback(process.kill)
                theirs.close()
                connections.append(ours)
        yield connections


def _start_together(writing: Sequence[Connection], deadline: float) -> None:
    """Wait until every writer has the table open, then let all of them go."""
    for connection in writing:
        if not connection.poll(max(0.0, deadline - time.monotonic())):
            raise TimeoutError("a writer did not open the table in time")
        try:
            connection.recv()
        except EOFError as error:
            raise RuntimeError("a writer could not open the table; what it printed says why") from error
    for connection in writing:
        connection.send(None)


def _reports(writing: list[Connection], deadline: float) -> Iterator[tuple[Commit, str | None]]:
    """Give each commit's outcome as it comes, until all writers are through or time is up."""
    while writing and (heard := wait(writing, max(0.0, deadline - time.monotonic()))):
        for connection in [connection for connection in writing if connection in heard]:
            try:
                yield connection.recv()
            except (EOFError, OSError):
                writing.remove(connection)


def _write(options: Options, writer: int, commits: int, reports: Connection) -> None:
    """Commit, and report each outcome: what a writer's process runs."""
    # A lost turn is pypaimon's daily business; it warns of each.
    logging.getLogger("pypaimon").setLevel(logging.CRITICAL)
    table = _catalog(options).get_table(_TABLE)
    reports.send(None)
    reports.recv()
    for commit in range(commits):
        kind = None
        try:
            _commit(table, writer, commit)
        except Exception as error:  # noqa: BLE001 - a race reports whatever its writers meet
            kind = re.sub(r"\d+", "N", f"{type(error).__name__}: {error}")
        reports.send(((writer, commit), kind))


def _commit(table: Any, writer: int, commit: int) -> None:
    import pyarrow as pa

    # A builder for each: pypaimon takes commits of one builder that meet for one and the same commit.
    builder = table.new_batch_write_builder()
    write = builder.new_write()
    try:
        columns = {"writer": [writer] * _ROWS, "commit": [commit] * _ROWS, "row": range(_ROWS)}
        write.write_arrow(pa.table(columns, schema=_schema()))
        builder.new_commit().commit(write.prepare_commit())
    finally:
        write.close()


def _make_table(options: Options) -> None:
    from pypaimon import Schema

    catalog = _catalog(options)
    catalog.create_database(_DATABASE, ignore_if_exists=True)
    schema = Schema.from_pyarrow_schema(_schema(), options=_TABLE_OPTIONS)
    catalog.create_table(_TABLE, schema, ignore_if_exists=False)


def _read(stock: Options, errors: Counter[str]) -> Counter[Commit]:
    """Count the rows of each commit, as a fresh, unmodified reader finds them."""
    try:
        builder = _catalog(stock).get_table(_TABLE).new_read_builder()
        rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    except Exception as error:  # noqa: BLE001 - a table that can't be read is a finding
        errors[f"the table can't be read: {type(error).__name__}: {error}"] += 1
        return Counter()
    found = [] if rows is None else rows.to_pylist()
    return Counter((row["writer"], row["commit"]) for row in found)


def _catalog(options: Mapping[str, Any]) -> Any:
    from pypaimon import CatalogFactory

    if "metastore" in options:
        import putifabsent.paimon  # noqa: F401 - it puts itself into pypaimon's registry
    return CatalogFactory.create(dict(options))


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("writer", pa.int32()), ("commit", pa.int32()), ("row", pa.int32())])
