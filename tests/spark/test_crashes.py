"""Drivers killed, standing still or colliding, and services killed, in the middle of commits."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import fsspec
import pytest

from tests.child import CallError
from tests.service.processes import answers
from tests.spark.drivers import JARS, JAVA, LONG, ROOT, SHORT, Driver, told_on
from tests.spark.races import kill_in_a_commit
from tests.spark.writers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Note
    from tests.servers import BucketServer

pytestmark = [pytest.mark.spark, pytest.mark.formats, pytest.mark.timeout(1800)]

FORMS = ("delta",) if SHORT else tuple(FORMATS)
COMMITS = 3 if SHORT else 10
LEASE = {"spark.hadoop.fs.putifabsent.lease": "4s"}
# Of a writer that says nothing Hudi misses two of these before it takes it for dead.
HEARTBEATS = {"hoodie.client.heartbeat.interval_in_ms": "10000"}
EXPIRED = 30
# Has Hudi ask the clock that a test has set.
CLOCK = {"_hoodie.time.generator.reuse.enable": "true"}

Row = tuple[str, int]


@pytest.fixture(scope="module")
def start(
    store: BucketServer, bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Driver]]:
    """Start guarded drivers whose turns are soon broken; they end with the tests."""
    logs, started = tmp_path_factory.mktemp("drivers"), list[Driver]()
    jar = clock(tmp_path_factory.mktemp("clock"))

    def start() -> Driver:
        # Whoever waits for the dead does so for two minutes.
        told = told_on(store, bucket, guarded=True, **LEASE).strictly(tower=not SHORT)
        jars = f"{told.settings['spark.jars']},{jar}"
        told = told._replace(settings={**told.settings, "spark.jars": jars})
        started.append(Driver(told, logs / f"{len(started)}.log"))
        return started[-1]

    yield start
    for each in started:
        each.end()


def clock(folder: Path) -> Path:
    """Compile the clock that can be wrong."""
    source = ROOT / "tests" / "spark" / "java" / "FixedTime.java"
    jars = os.pathsep.join(str(each) for each in JARS.glob("hudi-*.jar"))
    subprocess.run([JAVA / "javac", "-cp", jars, "-d", folder / "classes", source], check=True)
    subprocess.run([JAVA / "jar", "cf", folder / "clock.jar", "-C", folder / "classes", "."], check=True)
    return folder / "clock.jar"


@pytest.fixture(scope="module")
def pair(start: Callable[[], Driver]) -> list[Driver]:
    """Two drivers that outlive their tests."""
    return [each.wait() for each in [start(), start()]]


def check(reader: Driver, form: str, table: str, acknowledged: list[Row]) -> set[Row]:
    """Check that what was acknowledged is readable, and nothing twice; return what else is."""
    readable = Counter((who, n) for who, n in reader.call("rows", form=form, table=table))
    assert [row for row in acknowledged if not readable[row]] == []
    assert [row for row, times in readable.items() if times > 1] == []
    return set(readable) - set(acknowledged)


@pytest.mark.parametrize("form", FORMS)
def test_a_driver_killed_in_a_commit_loses_nothing_and_holds_nobody_up(
    form: str, start: Callable[[], Driver], pair: list[Driver], reader: Driver, note: Note
) -> None:
    table, other = f"killed_{form}", pair[0]
    victim = start().wait()
    victim.call("make", form=form, table=table)
    acknowledged = kill_in_a_commit(victim, form, table, "victim")
    for n in range(COMMITS):
        other.call("append", form=form, table=table, who="other", n=n)
        acknowledged.append(("other", n))
    found = check(reader, form, table, acknowledged)
    assert found <= {("victim", 2)}
    note(f"killed {'after' if ('victim', 2) in acknowledged else 'before'} its answer, readable too: {found}")


class Timeline:
    """What a Hudi table's folders show, to somebody who only lists them.

    Parameters
    ----------
    store, table
        The server, and the table's place in it.
    """

    def __init__(self, store: BucketServer, table: str) -> None:
        self.fs = fsspec.filesystem(store.scheme, **store.storage_options, use_listings_cache=False)
        self.table = table

    def _names(self, folder: str) -> set[str]:
        try:
            return {each.rpartition("/")[2] for each in self.fs.ls(f"{self.table}/{folder}", detail=False)}
        except FileNotFoundError:
            return set()

    def commits(self) -> set[str]:
        """Return the instants that are complete."""
        return {each[:17] for each in self._names(".hoodie/timeline") if each.endswith(".commit")}

    def in_the_middle(self) -> str | None:
        """Return the instant whose commit has begun, in the turn: its metadata's log is being written."""
        beneath = self._names(".hoodie/metadata/.hoodie/timeline")
        begun = {each[:17] for each in beneath if each.endswith(".deltacommit.inflight")}
        here = self._names(".hoodie/timeline")
        done = {each[:17] for each in here if each.endswith(".commit")}
        pending = {each[:17] for each in here if each.endswith(".commit.requested")} - done
        return next(iter(begun & pending), None)


def test_a_driver_that_stood_still_while_its_turn_was_broken_fails_and_loses_nothing(
    start: Callable[[], Driver],
    pair: list[Driver],
    reader: Driver,
    store: BucketServer,
    bucket: str,
    note: Note,
) -> None:
    table, timeline, other = "stood", Timeline(store, f"{bucket}/stood"), pair[0]
    victim = start().wait()
    acknowledged = []

    def append(driver: Driver, who: str, n: int) -> None:
        driver.call("append", form="hudi", table=table, who=who, n=n, **HEARTBEATS)
        acknowledged.append((who, n))

    append(victim, "victim", 0)
    with ThreadPoolExecutor(1) as pool:
        for n in range(1, 20):
            stopped = pool.submit(append, victim, "victim", n)
            while not stopped.done() and not (instant := timeline.in_the_middle()):
                time.sleep(0.005)
            victim.signal(signal.SIGSTOP)
            # Its service does not stand still: what it has been asked to do is done first.
            time.sleep(1)
            if not stopped.done() and instant not in timeline.commits():
                break
            victim.signal(signal.SIGCONT)
            stopped.result()
        else:
            pytest.fail("it was never stopped in the middle of a commit")
        try:
            began = time.monotonic()
            for m in range(2):
                append(other, "other", m)
            note(f"the others' commits took {time.monotonic() - began:.0f} s")
            # Then it is taken for dead, and its instant is rolled back.
            time.sleep(EXPIRED)
            append(other, "other", 2)
        finally:
            victim.signal(signal.SIGCONT)
        with pytest.raises(CallError) as caught:
            stopped.result()
    note(caught.value.reason)
    assert check(reader, "hudi", table, acknowledged) == set()
    append(victim, "victim", n + 1)
    append(other, "other", 3)
    assert check(reader, "hudi", table, acknowledged) == set()


@pytest.mark.parametrize("form", FORMS)
def test_a_service_killed_in_the_middle_of_commits_loses_nothing(
    form: str, pair: list[Driver], reader: Driver, note: Note
) -> None:
    table, driver = f"served_{form}", pair[1]
    driver.call("make", form=form, table=table)
    address = driver.call("setting", key="fs.putifabsent.address")
    over, killed = threading.Event(), 0
    acknowledged: list[Row] = []
    errors: list[CallError] = []

    def append() -> None:
        try:
            for n in range(COMMITS):
                try:
                    driver.call("append", form=form, table=table, who="w", n=n)
                    acknowledged.append(("w", n))
                except CallError as error:
                    errors.append(error)
        finally:
            over.set()

    appending = threading.Thread(target=append)
    appending.start()
    while not over.wait(random.uniform(1, 4)):
        # Not more often: whoever ends again and again is started again after longer and longer pauses.
        if killed < 3 and answers(address) and (pid := driver.service()):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    appending.join()
    kinds = Counter(each.reason for each in errors)
    note(f"{len(acknowledged)} of {COMMITS} acknowledged, the service killed {killed} times, {dict(kinds)}")
    assert killed
    assert acknowledged
    assert check(reader, form, table, acknowledged) <= {("w", n) for n in range(COMMITS)}
    driver.call("append", form=form, table=table, who="w", n=COMMITS)


@pytest.mark.parametrize("operation", ["insert", pytest.param("insert_overwrite_table", marks=LONG)])
def test_of_two_drivers_that_begin_one_instant_one_is_refused(
    operation: str, pair: list[Driver], reader: Driver, note: Note
) -> None:
    table = f"same_{operation}"
    pair[0].call("append", form="hudi", table=table, who="w0", n=0)
    pair[1].call("append", form="hudi", table=table, who="w1", n=0)
    acknowledged = [("w0", 0), ("w1", 0)]
    refused = []
    now = int(time.time() * 1000)
    for driver in pair:
        driver.call("begin_at", table=table, millis=now)
    options = [CLOCK, {**CLOCK, "hoodie.datasource.write.operation": operation}]
    with ThreadPoolExecutor(2) as pool:
        raced = [
            pool.submit(
                driver.call, "append", form="hudi", table=table, who=f"w{number}", n=1, **options[number]
            )
            for number, driver in enumerate(pair)
        ]
    for number, each in enumerate(raced):
        error = each.exception()
        if isinstance(error, CallError):
            refused.append(error)
        else:
            each.result()
            acknowledged.append((f"w{number}", 1))
    note([each.reason for each in refused])
    assert len(refused) == 1
    taken = rf"{table}/\.hoodie/timeline/\d{{17}}\.\w+\.requested: the name is taken"
    assert re.search(taken, refused[0].message)
    if operation != "insert" and ("w1", 1) in acknowledged:
        acknowledged = [("w1", 1)]
    assert check(reader, "hudi", table, acknowledged) == set()
    for number, driver in enumerate(pair):
        driver.call("append", form="hudi", table=table, who=f"w{number}", n=2)
        acknowledged.append((f"w{number}", 2))
    assert check(reader, "hudi", table, acknowledged) == set()
