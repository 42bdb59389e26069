"""A writer may be killed (kill -9) at any step of its protocol: nobody hears anything untrue by that."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest

from putifabsent.errors import NameTaken
from putifabsent.testing.deaths import doomed
from tests.backends.dynamodb_servers import registry_at
from tests.faults.arbiters import DEADLINE, Arbiter, Table
from tests.faults.halted import heard_by
from tests.stepped import Course

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.shim.requests import Protocol
    from tests.fault_proxy import FaultProxy
    from tests.faults.arbiters import Place
    from tests.servers import Valkey

pytestmark = pytest.mark.timeout(300)

# The next one waits for as long as this for a holder that died.
LEASE = 0.1


SHORT = bool(os.environ.get("SHORT"))
LONG = bool(os.environ.get("LONG"))
# Every step, or with SHORT every fifth: sent or not, answered or not.
STRIDE = 5 if SHORT else 1

DEFAULT = [("ballot", "disk"), ("redis", "disk"), ("moto", "disk")]
BUILT = [("ballot", "bucket"), ("redis", "ignoring"), ("dynamodb", "bucket")]
MORE = [("ballot", "ignoring"), ("redis", "bucket"), ("dynamodb", "disk"), ("dynamodb", "ignoring")]
ALL = [*DEFAULT, *(pytest.param(each, marks=pytest.mark.servers) for each in BUILT + (MORE if LONG else []))]


@pytest.fixture(params=ALL, ids="-".join)
def table(request: pytest.FixtureRequest) -> Table:
    kind, where = request.param
    place: Place = request.getfixturevalue(where)
    return Table(request.getfixturevalue(f"by_{kind}"), place)


@pytest.fixture
def by_ballot() -> Arbiter:
    return Arbiter("ballot")


@pytest.fixture
def by_redis(valkey: Valkey) -> Arbiter:
    return Arbiter("redis", valkey.endpoint, LEASE)


@pytest.fixture
def by_moto(moto: FaultProxy) -> Arbiter:
    return Arbiter("dynamodb", registry_at(moto.endpoint))


@pytest.fixture
def by_dynamodb(dynamodb: FaultProxy) -> Arbiter:
    return Arbiter("dynamodb", registry_at(dynamodb.endpoint))


def course(make: Callable[..., Protocol[object]], *arguments: object) -> Course:
    return Course(partial(make, *arguments), DEADLINE)


def each_death(table: Table, what: Callable[[str], Course], before: Callable[[str], object]) -> list[str]:
    """Have a writer die at each of its steps, each time with a name of its own; return the names."""
    names = []
    with doomed(table.place.store) as writers:
        before("alive")
        for step in range(1, 1 + writers.steps(what("alive")), STRIDE):
            name = f"step-{step}"
            before(name)
            code = writers.die(what(name), step)
            assert code == -signal.SIGKILL, f"step {step}: it was not killed, but ended with {code}"
            names.append(name)
    assert len(names) >= (2 if SHORT else 6)
    return names


def created_by_another(table: Table, name: str) -> str | None:
    return heard_by(table, name, str(uuid.uuid4()))


def test_a_creator_killed_at_any_step_has_created_the_name_or_not(table: Table) -> None:
    token = {}

    def creating(name: str) -> Course:
        token[name] = str(uuid.uuid4())
        data = token[name].encode()
        return course(table.arbiter.create, table.place.name(name), token[name], data)

    ends = set()
    for name in each_death(table, creating, before=str):
        first = table.holder(name)
        heard = created_by_another(table, name)
        assert first in {None, token[name]}
        assert heard == first or first is None, "what a reader has seen stays"
        later = {table.holder(name), Table(table.arbiter, table.place).holder(name), table.shown(name)}
        assert later == {heard}
        ends.add(heard == token[name])
    assert ends == {True, False}, "a kill that always comes too early, or too late, tests nothing"
    assert table.holder("alive") == token["alive"]


def test_a_loser_killed_at_any_step_takes_nothing_from_the_winner(table: Table) -> None:
    winners = {}

    # Of two ballots in one round the one with the higher token counts for more: this loser goes the long way.
    def losing(name: str) -> Course:
        return course(_creates, table.arbiter, table.place.name(name), f"f{uuid.uuid4()}")

    def won(name: str) -> None:
        winners[name] = f"0{uuid.uuid4()}"
        table.create(name, winners[name])

    for name in each_death(table, losing, before=won):
        assert {table.holder(name), table.shown(name), created_by_another(table, name)} == {winners[name]}


def test_a_deleter_killed_at_any_step_has_deleted_the_name_or_not(table: Table) -> None:
    created = {}

    def creating(name: str) -> None:
        created[name] = str(uuid.uuid4())
        table.create(name, created[name])

    def deleting(name: str) -> Course:
        return course(table.arbiter.delete, table.place.name(name))

    ends = set()
    for name in each_death(table, deleting, before=creating):
        first = table.holder(name)
        assert first in {None, created[name]}
        heard = created_by_another(table, name)
        assert (heard == created[name]) == (first is not None)
        assert {table.holder(name), table.shown(name)} == {heard}
        table.delete(name)
        assert (table.holder(name), table.shown(name)) == (None, None)
        ends.add(first is None)
    assert ends == {True, False}


def _creates(arbiter: Arbiter, name: str, token: str) -> Protocol[None]:
    with contextlib.suppress(NameTaken):
        yield from arbiter.create(name, token, token.encode())
