"""DynamoDB throttles, fails, and its answers get lost: each name has one winner, who hears of it."""

from __future__ import annotations

import os
import random
import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends.base import Created
from putifabsent.testing.races import race
from tests.backends.dynamodb_servers import registry_at
from tests.faults.arbiters import Arbiter, Table, contender
from tests.faults.sizes import size
from tests.stub.dynamodb_faults import Trouble

if TYPE_CHECKING:
    from tests.fault_proxy import FaultProxy
    from tests.faults.arbiters import Place

LONG = bool(os.environ.get("LONG"))
SECONDS = 420.0

# What passes, applied or not. A refusal stays: it is an error, and no fault to be survived.
PASSING = (
    Trouble.DROPPED_BEFORE,
    Trouble.DROPPED_AFTER,
    Trouble.RESET_AFTER,
    Trouble.ERROR_500_BEFORE,
    Trouble.ERROR_500_AFTER,
    Trouble.ERROR_503_BEFORE,
    Trouble.ERROR_503_AFTER,
    Trouble.GATEWAY_AFTER,
    Trouble.NONSENSE_AFTER,
    Trouble.THROUGHPUT,
    Trouble.THROTTLED,
    Trouble.LIMITED,
)
OPERATIONS = ("PutItem", "GetItem")


@pytest.fixture(params=["moto", *([pytest.param("dynamodb", marks=pytest.mark.servers)] if LONG else [])])
def proxy(request: pytest.FixtureRequest) -> FaultProxy:
    running: FaultProxy = request.getfixturevalue(request.param)
    return running


@pytest.mark.parametrize("trouble", PASSING, ids=lambda each: each.name)
def test_a_creation_in_trouble_is_acknowledged_and_there(
    proxy: FaultProxy, disk: Place, trouble: Trouble
) -> None:
    table = Table(Arbiter("dynamodb", registry_at(proxy.endpoint)), disk)
    for number in range(3):
        name, token = f"name-{number}", str(uuid.uuid4())
        proxy.requests.clear()
        # Not only once: the answers to what resolves a lost answer are lost as well.
        for operation in OPERATIONS:
            proxy.script(operation, *[trouble] * number)
        assert isinstance(table.create(name, token), Created)
        assert (table.holder(name), table.shown(name)) == (token, token)
        assert len(proxy.sent("PutItem")) > 0


BUILT = [("dynamodb", "disk"), *([("dynamodb", "ignoring")] if LONG else [])]
RACES = [("moto", "disk"), *(pytest.param(each, marks=pytest.mark.servers) for each in BUILT)]


@pytest.mark.timeout(480)
@pytest.mark.parametrize("race_on", RACES, ids="-".join)
def test_a_race_in_trouble_has_one_winner_a_name(
    request: pytest.FixtureRequest, race_on: tuple[str, str]
) -> None:
    registry, where = race_on
    processes, threads, count = size(where, is_long=LONG and registry == "dynamodb")
    proxy: FaultProxy = request.getfixturevalue(registry)
    place: Place = request.getfixturevalue(where)
    table = Table(Arbiter("dynamodb", registry_at(proxy.endpoint)), place)
    names = [place.name(f"{number:03}") for number in range(count)]
    chance = random.Random(5)
    # Every other request is in trouble, and never so many on end that a deadline passes.
    scripted = 20 * len(names)
    for operation in OPERATIONS:
        proxy.script(operation, *chance.choices((*PASSING, *[None] * len(PASSING)), k=scripted))
    make = partial(contender, table.arbiter, place)
    result = race(make, names, threads=threads, processes=processes, seconds=SECONDS)
    spent = scripted * len(OPERATIONS) - proxy.calm()
    assert spent > 2 * len(names), "trouble came"
    assert result.problems(table.read) == []
    assert result.problems(table.bytes_at) == [], "nor for readers without the shim"
    assert result.errors == ()
