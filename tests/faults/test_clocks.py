"""No decision rests on a wall clock: it may jump by an hour, in any writer, at any time."""

from __future__ import annotations

import ast
import os
import random
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import putifabsent
from putifabsent.testing.races import race
from tests.backends.dynamodb_servers import registry_at
from tests.faults.arbiters import Arbiter, Table, contender

if TYPE_CHECKING:
    from putifabsent.testing.races import Contender
    from tests.fault_proxy import FaultProxy
    from tests.faults.arbiters import Place
    from tests.servers import Valkey

HOUR = 3600.0

# What reads the wall clock, and for what. None of it decides who creates a name.
READERS = {
    "backends/probe_cache.py": "how old a probe's verdict is",
    "backends/azure_client.py": "until when a signed address may be read",
    "backends/s3_obstore.py": "when to ask for fresh credentials",
}
WALL_CLOCKS = {"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime", "ctime", "strftime"}
MODULES = {"time", "datetime", "date"}


def reads_the_wall_clock(source: str) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    named = (func for func in calls if isinstance(func, ast.Attribute) and func.attr in WALL_CLOCKS)
    return any(isinstance(func.value, ast.Name) and func.value.id in MODULES for func in named)


def test_only_what_is_listed_reads_the_wall_clock() -> None:
    root = Path(str(putifabsent.__file__)).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if path.parts[len(root.parts)] in {"shim", "backends"} and reads_the_wall_clock(path.read_text())
    }
    assert found == set(READERS)


@pytest.fixture(params=["redis", "dynamodb"])
def arbiter(request: pytest.FixtureRequest) -> Arbiter:
    if request.param == "redis":
        valkey: Valkey = request.getfixturevalue("valkey")
        return Arbiter("redis", valkey.endpoint)
    moto: FaultProxy = request.getfixturevalue("moto")
    return Arbiter("dynamodb", registry_at(moto.endpoint))


@pytest.mark.parametrize("where", ["disk", "ignoring"])
def test_writers_whose_clocks_jump_by_an_hour_have_one_winner_a_name(
    request: pytest.FixtureRequest, where: str, arbiter: Arbiter
) -> None:
    place: Place = request.getfixturevalue(where)
    names = [place.name(f"{number:03}") for number in range(10)]
    result = race(partial(jumping, arbiter, place), names, threads=3, processes=3)
    table = Table(arbiter, place)
    assert result.problems(table.read) == []
    assert result.problems(table.bytes_at) == []
    assert result.errors == ()


def jumping(arbiter: Arbiter, place: Place) -> Contender:
    """Take part in a race, in a process whose wall clock is an hour off, now behind and now before."""
    chance = random.Random(os.getpid())
    right, right_ns = time.time, time.time_ns
    off = partial(chance.choice, (-HOUR, 0.0, HOUR))
    time.time = lambda: right() + off()
    time.time_ns = lambda: right_ns() + int(off() * 1e9)
    return contender(arbiter, place)
