"""Redis may die at any moment: creations go on, and one warning says so."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.base import Created
from putifabsent.shim.drive import run
from putifabsent.testing.races import race
from tests.faults.arbiters import DEADLINE, Arbiter, Table, contender
from tests.faults.failover import Forgetful, until
from tests.faults.halted import STEPS
from tests.faults.sizes import size
from tests.servers import Valkey
from tests.stepped import stepped

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.arbiters import Place

SHORT = bool(os.environ.get("SHORT"))
LONG = bool(os.environ.get("LONG"))
SECONDS = 420.0


@pytest.mark.parametrize("step", STEPS)
def test_redis_killed_before_any_step_costs_no_creation(
    disk: Place, step: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "putifabsent")
    token = str(uuid.uuid4())
    with Valkey() as valkey:
        table = Table(Arbiter("redis", valkey.endpoint), disk)

        def kill(at: int) -> None:
            if at == step:
                os.kill(valkey.pids[-1], signal.SIGKILL)

        made = table.arbiter.create(disk.name("name"), token, token.encode())
        assert isinstance(run(stepped(made, kill), table.store, DEADLINE), Created)
    assert (table.holder("name"), table.shown("name")) == (token, token)
    for number in range(3):
        table.create(f"later-{number}", str(uuid.uuid4()))
    assert [record.levelname for record in caplog.records] == ["WARNING"]


BUILT = ["disk", "bucket", "ignoring"] if LONG else ["bucket"]
WHERES = [
    *([] if LONG else ["disk"]),
    *(pytest.param(where, marks=pytest.mark.servers) for where in BUILT),
]


@pytest.mark.timeout(480)
@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize("how", ["killed", "fails over"])
def test_a_race_in_which_redis_is_lost_has_one_winner_a_name(
    request: pytest.FixtureRequest, where: str, how: str
) -> None:
    place: Place = request.getfixturevalue(where)
    processes, threads, count = size(where, is_long=LONG)
    names = [place.name(f"{number:03}") for number in range(count)]
    reader = Table(Arbiter("ballot"), place)
    lose: Callable[[], None]
    with contextlib.ExitStack() as running:
        if how == "killed":
            valkey = running.enter_context(Valkey())
            arbiter = Arbiter("redis", valkey.endpoint)
            lose = partial(os.kill, valkey.pids[-1], signal.SIGKILL)
        else:
            redis = running.enter_context(Forgetful())
            arbiter = Arbiter("redis", redis.url)
            lose = redis.lose
        with ThreadPoolExecutor(1) as others:
            # Without any lock so many writers take seconds a name: what is gone for good goes late.
            at = names[3 if how == "fails over" else -9].rpartition("/")[2]
            lost = others.submit(_once, partial(reader.shown, at), lose)
            make = partial(contender, arbiter, place)
            result = race(make, names, threads=threads, processes=processes, seconds=SECONDS)
            lost.result()
    assert result.problems(reader.read) == []
    assert result.problems(reader.bytes_at) == [], "nor for readers without the shim"
    assert result.errors == ()


def _once(has_come: Callable[[], object], act: Callable[[], None]) -> None:
    until(lambda: bool(has_come()), seconds=SECONDS)
    act()
