"""The demo's race, of unmodified pypaimon and by its door."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.lab import demo
from putifabsent.lab.servers import LocalBucket
from tests.doors.paimon_tables import make
from tests.stub import FaultStub
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def raced_before() -> Iterator[LocalBucket]:
    """Run a server whose promises are known; ``make demo`` has one that is raced first."""
    with LocalBucket() as server:
        vouch(server.endpoint, bucket=server.bucket)
        yield server


@pytest.mark.parametrize(("store", "arbiter"), [("s3", None), ("local", "ballot")])
def test_the_race_loses_nothing_through_putifabsent(
    monkeypatch: pytest.MonkeyPatch, store: demo.StoreName, arbiter: str | None
) -> None:
    monkeypatch.setattr(demo, "LocalBucket", raced_before)
    seen: Counter[str] = Counter()

    def progress(done: int, total: int, label: str) -> None:
        seen[label] = max(seen[label], done)
        assert total == 6

    races = demo.run(writers=2, commits=3, stores=[store], progress=progress, arbiter=arbiter)
    assert [(race.path, race.store) for race in races] == [("stock", store), ("putifabsent", store)]
    for race in races:
        assert race.acknowledged == race.readable + race.lost
    ours = races[1]
    assert (ours.acknowledged, ours.readable, ours.lost, ours.errors) == (6, 6, 0, {})
    assert seen == {f"stock on {store}": 6, f"putifabsent on {store}": 6}


def test_each_arbiter_loses_nothing_on_a_server_that_ignores_conditions(
    liar: FaultStub, arbiter: str
) -> None:
    stock = on(liar)
    came = demo.race(stock, {**guarded(stock), "putifabsent.arbiter": arbiter}, 3, 4)
    assert (came["acknowledged"], came["readable"], came["lost"], came["errors"]) == (12, 12, 0, {})


def test_a_server_that_ignores_conditions_is_refused_where_it_would_decide() -> None:
    with (
        FaultStub(conditions="ignored") as stub,
        pytest.raises(RuntimeError, match="can't decide who creates"),
    ):
        make(guarded(on(stub)))


def guarded(stock: dict[str, Any]) -> dict[str, Any]:
    return {**stock, "metastore": "putifabsent", "putifabsent.deadline": "120"}


def on(stub: FaultStub) -> dict[str, Any]:
    """Return pypaimon's own options for a warehouse on a stub."""
    return {
        "warehouse": f"s3://bucket/{uuid.uuid4().hex}",
        "s3.endpoint": stub.url("s3"),
        "s3.access-key": "key",
        "s3.secret-key": "secret",
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
    }


def test_a_race_ends_at_its_time_limit() -> None:
    with pytest.raises(TimeoutError, match="in time"):
        demo.run(writers=2, commits=1, stores=["local"], limit=0)
    assert multiprocessing.active_children() == []


def test_a_race_that_is_interrupted_ends_quietly() -> None:
    """While its writers come up, the terminal's Ctrl-C reaches all of them."""
    command = [
        sys.executable,
        "-c",
        "from putifabsent.cli import main; main()",
        "-q",
        "demo",
        "--store",
        "local",
    ]
    racing = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    # Nothing says that they are there: they are started, and not up yet.
    writers = Path(f"/proc/{racing.pid}/task/{racing.pid}/children")
    while racing.poll() is None and len(writers.read_text().split()) < 9:  # one tracks them
        time.sleep(0.05)
    os.killpg(racing.pid, signal.SIGINT)
    answer, error = racing.communicate(timeout=60)
    assert (racing.returncode, answer, error.strip()) == (130, "", "")
