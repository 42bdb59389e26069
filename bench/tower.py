"""Hudi's writers on Spark with the control tower, beside those without it, and beside Hudi's own ways.

    python bench/tower.py [--cells a b c d e] [--drivers 4] [--commits 10] [--how tower mounted ...] [--json]

Each writer is a driver with its own JVM, all write one table through S3A, on a real S3 server that keeps
``If-None-Match``; who reads has never seen the table. Each has written it once before, one after the other;
then all commit at once.

a   Each commit inserts a row into a small copy-on-write table, where it goes into the smallest file.
b   Each driver upserts the new row, and the one before, in a partition of its own; each request is held up
    by 20 ms. First one driver does so alone.
c   Every other commit is to a partition that two drivers share, the others to the driver's own: upserts.
d   A merge-on-read table, and each driver compacts, clusters, cleans and archives it, often.
e   One driver deletes a row of each partition in one commit, by options of a write and by SQL, which reads
    the table, and tries again what is refused; the others upsert rows in partitions of their own meanwhile.

Hudi's own ways are its lock in ZooKeeper; the same, and ten tries of a commit that has met another; its
non-blocking concurrency control, on merge on read; and inserts to new files alone. In vain are data files
that no completed commit names: of commits that were refused or taken back, whether or not they are there yet.

With ``--json`` each row is printed on standard output when it is there, a line each, and the table is
printed on standard error.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Timer
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import fsspec
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.wire import Wire
from putifabsent.inspection.hudi_slices import stats_of
from putifabsent.shim.formats.hudi_files import slice_in
from putifabsent.timeline import HudiTimeline
from tests.child import CallError
from tests.servers import VersityGW, ZooKeeper
from tests.spark.drivers import together, told_on
from tests.spark.races import Raced, race, racing, row_of, rows_of
from tests.spark.writers import CATALOGS, SERVICES_OF_HUDI, SMALL_FILES, locked_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Self

    from putifabsent.inspection.hudi_slices import Stats
    from tests.servers import BucketServer
    from tests.spark.drivers import Driver
    from tests.spark.races import Row

DELAY = 0.02
CONFLICT = "HoodieWriteConflictException"
FEW_FROM = 16
"""So many drivers commit ``FEW`` times each, unless --commits says otherwise."""
FEW, MANY = 2, 10
NIGHTS = 3
TRIES = 5
DOOMED = -10
"""The number of the row of each partition that is deleted in the first night; the next ones are below."""

UPSERTS = {
    **SMALL_FILES,
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.partitionpath.field": "who",
}
DELETES = {"hoodie.datasource.write.operation": "delete"}
MERGED = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
NON_BLOCKING = {
    **MERGED,
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "1",
}


class How(NamedTuple):
    """How drivers are kept apart: what they mount, and options of each write."""

    mount: Mapping[str, Any] | None
    options: Mapping[str, str] = MappingProxyType({})


def ways(zookeeper: str) -> dict[str, How]:
    """Return all, by their names."""
    locked = locked_by(zookeeper)
    to_new_files = {"hoodie.parquet.small.file.limit": "0"}
    return {
        "tower": How({"arbiter": "native", "tower": True}),
        "mounted": How({"arbiter": "native"}),
        "not waiting": How({"arbiter": "native", "tower": False}),
        "zookeeper": How(None, locked),
        "retries": How(None, {**locked, "hoodie.write.num.retries.on.conflict.failures": "10"}),
        "non-blocking": How(None, {**locked, **NON_BLOCKING}),
        "new files": How(None, {**locked, **to_new_files}),
        "mounted, new files": How({"arbiter": "native"}, to_new_files),
    }


class Squad:
    """Drivers of one bucket that are kept apart in one way, started when they are needed first.

    Parameters
    ----------
    endpoint
        Where they find the store; None: straight.
    """

    def __init__(self, store: BucketServer, how: How, writers: int, endpoint: str | None) -> None:
        self.how = how
        self.store = store
        self._writers = writers
        self._more = {
            "spark.sql.catalog.spark_catalog": CATALOGS["hudi"],
            # Hudi leaves streams open.
            "spark.hadoop.fs.s3a.connection.maximum": "20000",
            # Spark takes one that has waited for a core for two minutes for dead.
            "spark.executor.heartbeatInterval": "60s",
            "spark.network.timeout": "600s",
        }
        if endpoint is not None:
            self._more["spark.hadoop.fs.s3a.endpoint"] = endpoint
        self._stack = ExitStack()
        self.drivers: list[Driver] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ready(self) -> None:
        """Start them, if they don't run, and have each write to a table of its own."""
        if self.drivers:
            return
        self.bucket = self.store.new_bucket()
        told = told_on(self.store, self.bucket, guarded=False, **self._more)._replace(mount=self.how.mount)
        reads = told_on(self.store, self.bucket, guarded=False)
        self.drivers, self.reader = self._stack.enter_context(racing(told, self._writers, reads))
        together(partial(self._warm_up, number) for number in range(self._writers))

    def _warm_up(self, number: int) -> None:
        for n in range(2):
            self.save(number, f"warm{number}", row_of(number, n), SMALL_FILES)

    def save(self, number: int, table: str, rows: list[Row], options: Mapping[str, str]) -> None:
        """Have one of them commit."""
        self.drivers[number].call(
            "save", form="hudi", table=table, rows=rows, **{**options, **self.how.options}
        )

    def kill(self) -> None:
        """Kill them: whatever they do fails."""
        for driver in (*self.drivers, *([self.reader] if self.drivers else [])):
            with suppress(ProcessLookupError):
                driver.signal(signal.SIGKILL)

    def end(self) -> None:
        """End them; they can be started again."""
        self.drivers = []
        self._stack.close()


# --- what is measured


class Cell(NamedTuple):
    """What drivers do at once.

    Attributes
    ----------
    ways
        By whose names it is done.
    options
        Of each write.
    measure
        Does it, in so many commits each, to a table of this name that is there; returns what came of it.
    rows
        What a driver writes in a commit; see ``race``.
    is_far
        Whether the store is.
    """

    ways: Sequence[str]
    options: Mapping[str, str]
    measure: Callable[[Cell, Squad, str, int], dict[str, Any]]
    rows: Callable[[int, int], list[Row]] = row_of
    is_far: bool = False

    def prepare(self, squad: Squad, table: str) -> None:
        """Have each driver write all that it is going to write once, one driver after the other."""
        for number in range(len(squad.drivers)):
            rows = dict.fromkeys(self.rows(number, -2) + self.rows(number, -1))
            squad.save(number, table, list(rows), self.options)

    def race(self, squad: Squad, table: str, writers: int, commits: int, first: int = 0) -> Raced:
        """Have so many of the drivers commit at once, rows from a number on."""
        return race(
            squad.drivers[:writers],
            squad.reader,
            "hudi",
            table,
            commits,
            rows=lambda number, n: self.rows(number, first + n),
            options={**self.options, **squad.how.options},
        )


def at_once(cell: Cell, squad: Squad, table: str, commits: int) -> dict[str, Any]:
    """Have all commit at once."""
    return figures(cell.race(squad, table, len(squad.drivers), commits), squad, table)


def beside_one(cell: Cell, squad: Squad, table: str, commits: int) -> dict[str, Any]:
    """Have one commit alone, then all at once."""
    alone = figures(cell.race(squad, table, 1, commits), squad, table)
    found = figures(cell.race(squad, table, len(squad.drivers), commits, commits), squad, table)
    return found | {"one_alone": alone["rows_per_second"]}


class Nights:
    """One driver deletes a row of each partition, night by night, while the others go on.

    Parameters
    ----------
    by_sql
        Whether it does so by a statement, which reads the table first; else by a write's options.
    """

    def __init__(self, *, by_sql: bool) -> None:
        self._by_sql = by_sql

    def __call__(self, cell: Cell, squad: Squad, table: str, commits: int) -> dict[str, Any]:
        """Do it; how often the others commit is not up to them."""
        del commits
        doomed = [self._rows(squad, night) for night in range(NIGHTS)]
        squad.save(0, table, [row for rows in doomed for row in rows], cell.options)
        if self._by_sql:
            at = f"s3a://{squad.bucket}/{table}"
            squad.drivers[0].call("sql", query=f"create table {table} using hudi location '{at}'")
        over = Event()
        done: list[Row] = []
        refused: list[tuple[Row, CallError]] = []

        def narrow(number: int) -> None:
            n = 0
            with ending(over):
                while not over.is_set():
                    [row] = cell.rows(number, n)
                    try:
                        squad.save(number, table, [row], cell.options)
                        done.append(row)
                    except CallError as error:
                        refused.append((row, error))
                    n += 1

        def wide() -> list[dict[str, Any]]:
            nights = []
            with ending(over):
                for night in range(NIGHTS):
                    day = len(done) + len(refused) + 2 * (len(squad.drivers) - 1)
                    while len(done) + len(refused) < day and not over.is_set():
                        time.sleep(0.05)
                    nights.append(tried(partial(self._delete, cell, squad, table, night), done))
            return nights

        began = time.monotonic()
        nights, *_ = together([wide, *(partial(narrow, number) for number in range(1, len(squad.drivers)))])
        seconds = time.monotonic() - began
        raced = Raced(done, refused, rows_of(squad.reader, "hudi", table), seconds)
        gone = [row for rows, night in zip(doomed, nights, strict=True) if night["committed"] for row in rows]
        back = sum(row in raced.readable for row in gone)
        return figures(raced, squad, table) | {"nights": nights, "back": back}

    def _rows(self, squad: Squad, night: int) -> list[Row]:
        return [(f"w{number}", DOOMED - night) for number in range(len(squad.drivers))]

    def _delete(self, cell: Cell, squad: Squad, table: str, night: int) -> None:
        if self._by_sql:
            query = f"delete from {table} where n = {DOOMED - night}"  # noqa: S608 - a number
            squad.drivers[0].call("sql", query=query)
        else:
            squad.save(0, table, self._rows(squad, night), {**cell.options, **DELETES})


@contextmanager
def ending(over: Event) -> Iterator[None]:
    """Say in the end, and also in a failure, that it is over."""
    try:
        yield
    finally:
        over.set()


def tried(commit: Callable[[], object], others: Sequence[Row]) -> dict[str, Any]:
    """Commit, at the fifth try at last; return what came of it, and how many others' commits went before."""
    began, before = time.monotonic(), len(others)
    errors = []
    for _ in range(TRIES):
        try:
            commit()
            break
        except CallError as error:
            errors.append(error.reason)
    return {
        "committed": len(errors) < TRIES,
        "errors": dict(Counter(errors)),
        "others_before": len(others) - before,
        "seconds": round(time.monotonic() - began, 1),
    }


def figures(raced: Raced, squad: Squad, table: str) -> dict[str, Any]:
    """Return what came of a race, and what was done in vain."""
    fs = fsspec.filesystem("s3", **squad.store.storage_options, use_listings_cache=False)
    root = f"{squad.bucket}/{table}"
    found = fs.find(root, detail=True)
    sizes = {path.rpartition("/")[2]: each["size"] for path, each in found.items() if "/.hoodie/" not in path}
    return {
        **raced.figures(),
        "conflicts": sum(CONFLICT in error.message for _, error in raced.refused),
        "rows_per_second": round(len(raced.acknowledged) / raced.seconds, 3),
        **in_vain(stats_of(HudiTimeline(fs, root), []), sizes),
    }


def in_vain(stats: Iterable[Stats], sizes: Mapping[str, int]) -> dict[str, int]:
    """Count data files that no completed commit names: those that are there, and those taken back."""
    named: set[str] = set()
    taken_back: set[str] = set()
    for each in stats:
        named.update(last for write in each.writes for last in write.lasts)
        named.update(each.logs)
        if each.undone:
            taken_back |= each.removed.lasts
    there = sizes.keys() - named
    slices = {last for last in there | taken_back if slice_in(last) is not None}
    return {"files_in_vain": len(slices), "bytes_in_vain_there": sum(sizes.get(last, 0) for last in slices)}


def with_the_one_before(number: int, n: int) -> list[Row]:
    """Return what an upsert writes: a new row, and the one before."""
    return row_of(number, n) + row_of(number, n - 1)


def by_turns_shared(number: int, n: int) -> list[Row]:
    """Return what a driver writes that shares every other commit's partition with the one beside it."""
    return [(f"shared{number // 2}", 1000 * number + n)] if n % 2 else row_of(number, n)


_LOCKED = ("tower", "mounted", "not waiting", "zookeeper", "retries")
CELLS: Mapping[str, Cell] = {
    "a": Cell((*_LOCKED, "non-blocking", "new files", "mounted, new files"), SMALL_FILES, at_once),
    "b": Cell(_LOCKED[:4], UPSERTS, beside_one, with_the_one_before, is_far=True),
    "c": Cell(_LOCKED, UPSERTS, at_once, by_turns_shared),
    "d": Cell(_LOCKED[:4], {**SMALL_FILES, **MERGED, **SERVICES_OF_HUDI}, at_once),
    "e-options": Cell(_LOCKED, UPSERTS, Nights(by_sql=False)),
    "e-sql": Cell(_LOCKED[:3], UPSERTS, Nights(by_sql=True)),
}


# --- a run


def main() -> None:
    """Measure, and print it."""
    options = _options()
    console = Console(stderr=options.json)
    found: list[dict[str, Any]] = []
    try:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("starting", total=len(list(planned(options))))
            for row in measured(options, lambda what: progress.update(task, description=what)):
                found.append(row)
                progress.advance(task)
                if options.json:
                    print(json.dumps(row), flush=True)
    finally:
        console.print(table_of(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cells",
        nargs="+",
        choices=[*"abcde", *CELLS],
        default=[*"abcde"],
        metavar="CELL",
        help="a, e-sql, ...",
    )
    parser.add_argument("--drivers", nargs="+", type=int, default=[4], help="that commit at once")
    parser.add_argument(
        "--commits", type=int, help=f"of each driver; by default {MANY}, of {FEW_FROM} or more drivers {FEW}"
    )
    parser.add_argument("--how", nargs="+", choices=list(ways("")), default=list(ways("")), metavar="HOW")
    parser.add_argument("--patience", type=float, default=30, help="minutes for a row; then it has failed")
    parser.add_argument("--json", action="store_true", help="print figures for machines, on standard output")
    return parser.parse_args()


def planned(options: argparse.Namespace) -> Iterator[tuple[int, str, bool, dict[str, Cell]]]:
    """Return which cells the drivers of a squad do, by how many there are, by their way, and by the store."""
    wanted = {name: cell for name, cell in CELLS.items() if name.startswith(tuple(options.cells))}
    for writers in options.drivers:
        for how in options.how:
            for is_far in (False, True):
                cells = {
                    name: cell for name, cell in wanted.items() if cell.is_far is is_far and how in cell.ways
                }
                if cells:
                    yield writers, how, is_far, cells


def measured(options: argparse.Namespace, begins: Callable[[str], object]) -> Iterator[dict[str, Any]]:
    """Measure all that is wanted, row by row."""
    with (
        VersityGW() as store,
        ZooKeeper() as keeper,
        Wire({"store": (store.endpoint.removeprefix("http://"), "http")}, delay=DELAY) as wire,
    ):
        for writers, way, is_far, cells in planned(options):
            commits = options.commits or (FEW if writers >= FEW_FROM else MANY)
            how = ways(keeper.address)[way]
            endpoint = f"http://{wire.at['store']}" if is_far else None
            with Squad(store, how, writers, endpoint) as squad:
                for name, cell in cells.items():
                    begins(f"{name}: {writers} drivers, {way}")
                    row = {"cell": name, "drivers": writers, "how": way, "commits": commits}
                    yield row | outcome(cell, squad, name, commits, 60 * options.patience)


def outcome(cell: Cell, squad: Squad, name: str, commits: int, seconds: float) -> dict[str, Any]:
    """Return what came of a cell; of one that fails, or takes longer, the error."""
    watch = Timer(seconds, squad.kill)
    watch.daemon = True
    watch.start()
    table = re.sub(r"\W+", "_", name)
    try:
        squad.ready()
        cell.prepare(squad, table)
        return cell.measure(cell, squad, table, commits)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other rows are measured
        squad.end()
        took_longer = watch.finished.is_set()
        return {"error": f"took longer than {seconds / 60:g} minutes" if took_longer else cause_of(error)}
    finally:
        watch.cancel()


def cause_of(error: Exception) -> str:
    """Return what an error says; of a JVM's, what it was raised from at last."""
    text = error.message if isinstance(error, CallError) else str(error)
    lines = text.splitlines() or [""]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return f"{type(error).__name__}: {[*lines[:1], *causes][-1][:500]}"


def table_of(found: Sequence[Mapping[str, Any]]) -> Table:
    """Lay the figures out."""
    table = Table(title="Hudi's writers on Spark, acknowledged")
    words = ("cell", "how", "errors", "")
    for column in (
        *("cell", "drivers", "how", "acknowledged", "conflicts", "lost", "doubled", "rows/s"),
        *("files in vain", "errors", ""),
    ):
        table.add_column(column, justify="left" if column in words else "right", no_wrap=column == "how")
    for row in sorted(found, key=lambda row: (row["cell"], row["drivers"])):
        names = (row["cell"], str(row["drivers"]), row["how"])
        if "error" in row:
            table.add_row(*names, *[""] * 6, "failed", row["error"][:120])
            continue
        errors = ", ".join(f"{times} {kind}" for kind, times in row["errors"].items())
        table.add_row(
            *names,
            f"{row['acknowledged']} of {row['acknowledged'] + row['failed']}",
            *(str(row[figure]) for figure in ("conflicts", "lost", "doubled")),
            f"{row['rows_per_second']:.2f}",
            str(row["files_in_vain"]),
            errors,
            _beside(row),
        )
    return table


def _beside(row: Mapping[str, Any]) -> str:
    """Say what one row alone has."""
    if "one_alone" in row:
        return f"{row['rows_per_second'] / row['one_alone']:.2f} times one driver's {row['one_alone']:.2f}/s"
    if "nights" not in row:
        return ""
    nights = "; ".join(
        f"{'after' if each['committed'] else 'not in'} {each['others_before']} commits of others, "
        f"{sum(each['errors'].values())} times refused"
        for each in row["nights"]
    )
    return f"deleted {nights}" + (f"; {row['back']} rows came back" if row["back"] else "")


if __name__ == "__main__":
    main()
