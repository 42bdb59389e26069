"""Counters in a real PostgreSQL keep what every counter promises, also when it is killed, or says no."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from putifabsent.backends.postgres import TABLE
from putifabsent.backends.registries import Advanced, Maybe, Refused, TryAgain
from putifabsent.backends.registry_urls import open_counter
from putifabsent.testing import CounterTests, LostCounterTests
from tests.fault_proxy import LOST_ANSWER, LOST_REQUEST, FaultProxy
from tests.faults.failover import until
from tests.servers import PostgreSQL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from putifabsent.backends.registries import AdvanceOutcome, Counter

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgreSQL]:
    with PostgreSQL() as running:
        yield running


@pytest.fixture
def counter(postgres: PostgreSQL) -> Counter:
    return open_counter(postgres.endpoint)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"s3://bucket/{request.node.name}"


class TestOnAServer(CounterTests, LostCounterTests):
    @pytest.fixture
    def make_counter(self, postgres: PostgreSQL) -> Callable[[], Counter]:
        return partial(open_counter, postgres.endpoint)

    @pytest.fixture
    def unanswered(self, postgres: PostgreSQL) -> Iterator[Counter]:
        with FaultProxy(postgres.address, LOST_ANSWER, speech="postgres") as proxy:
            yield open_counter(_at(postgres, proxy.address))

    @pytest.fixture
    def unheard(self, postgres: PostgreSQL) -> Iterator[Counter]:
        with FaultProxy(postgres.address, LOST_REQUEST, speech="postgres") as proxy:
            yield open_counter(_at(postgres, proxy.address))


def test_it_tells_the_server_s_own_time(postgres: PostgreSQL, counter: Counter, name: str) -> None:
    begun = _now(postgres)
    moved = counter.advance(name, 0)
    assert isinstance(moved, Advanced)
    assert moved.now is not None
    assert begun <= moved.now <= _now(postgres)


def test_a_session_that_the_server_ends_says_nothing_of_its_step(
    postgres: PostgreSQL, counter: Counter, name: str
) -> None:
    assert counter.advance(name, 0) == Advanced(1)
    told: list[AdvanceOutcome] = []
    with _held(postgres, name):
        asking = threading.Thread(target=lambda: told.append(counter.advance(name, 0)))
        asking.start()
        until(lambda: _waiting(postgres) == 1)
        postgres.tell(f"SELECT pg_terminate_backend(pid) {_WAITING}")
        asking.join()
    assert isinstance(told[0], Maybe)
    assert counter.advance(name, 0) == Advanced(2)


def test_a_step_that_waits_too_long_has_moved_nothing(
    postgres: PostgreSQL, counter: Counter, name: str
) -> None:
    assert counter.advance(name, 0) == Advanced(1)
    impatient = open_counter(f"{postgres.endpoint}?timeout=0.2")
    with _held(postgres, name):
        assert isinstance(impatient.advance(name, 0), TryAgain)
    assert counter.advance(name, 0) == Advanced(2)


def test_a_step_is_on_disk_and_in_time_whatever_its_role_has_set(
    postgres: PostgreSQL, counter: Counter, name: str
) -> None:
    """As through a pooler, whose connections have what others have set."""
    said = "current_setting('synchronous_commit') || ' ' || current_setting('statement_timeout')"
    postgres.tell("ALTER ROLE lab SET synchronous_commit = off")
    postgres.tell(f"ALTER TABLE {TABLE} ADD said text DEFAULT {said}")
    try:
        assert counter.advance(name, 0) == Advanced(1)
        with psycopg.connect(postgres.endpoint) as connection:
            row = connection.execute(f"SELECT said FROM {TABLE} WHERE name = %s", [name])  # noqa: S608 - ours
            assert row.fetchone() == ("on 5s",)
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
    finally:
        postgres.tell(f"ALTER TABLE {TABLE} DROP said")
        postgres.tell("ALTER ROLE lab RESET synchronous_commit")


def test_what_was_acknowledged_survives_the_server_s_death(
    postgres: PostgreSQL, counter: Counter, name: str
) -> None:
    assert counter.advance(name, 1000, 5) == Advanced(1005)
    postgres.kill()
    try:
        # The session that it had, and a new one.
        assert isinstance(counter.advance(name, 0), Maybe)
        assert isinstance(counter.advance(name, 0), TryAgain)
    finally:
        postgres.start_again()
    assert counter.advance(name, 0) == Advanced(1006)


@pytest.mark.parametrize(
    ("url", "error", "says"),
    [
        ("postgresql://lab:wrong@{}/postgres", PermissionError, 'authentication failed for user "lab"'),
        ("postgresql://nobody:wrong@{}/postgres", PermissionError, 'authentication failed for user "nobody"'),
        ("postgresql://lab@{}/postgres", PermissionError, "no password supplied"),
        ("postgresql://lab:lab-secret@{}/nowhere", FileNotFoundError, 'database "nowhere" does not exist'),
        ("postgresql://lab:lab-secret@{}/template1", FileNotFoundError, "CREATE TABLE putifabsent_counters"),
        ("postgresql://poor:poor@{}/postgres", PermissionError, "permission denied for table"),
    ],
)
def test_who_is_refused_is_told_why(
    postgres: PostgreSQL, name: str, url: str, error: type[Exception], says: str
) -> None:
    postgres.tell("DROP ROLE IF EXISTS poor")
    postgres.tell("CREATE ROLE poor LOGIN PASSWORD 'poor'")
    counter = open_counter(url.format(postgres.address))
    refused = counter.advance(name, 0)
    assert isinstance(refused, Refused)
    assert type(refused.error) is error
    assert says in str(refused.error)


def test_a_server_that_only_reads_is_waited_for(postgres: PostgreSQL, name: str) -> None:
    postgres.tell("CREATE ROLE reader LOGIN PASSWORD 'reader'")
    postgres.tell("ALTER ROLE reader SET default_transaction_read_only = on")
    counter = open_counter(f"postgresql://reader:reader@{postgres.address}/postgres")
    outcome = counter.advance(name, 0)
    assert isinstance(outcome, TryAgain)
    assert "read-only" in str(outcome.cause)


_WAITING = "FROM pg_stat_activity WHERE application_name = 'putifabsent' AND wait_event_type = 'Lock'"


def _held(postgres: PostgreSQL, name: str) -> Any:
    """Return a connection that has a counter's row for itself; its end gives it back."""
    connection: Any = psycopg.connect(postgres.endpoint)
    row = connection.execute(f"SELECT last FROM {TABLE} WHERE name = %s FOR UPDATE", [name])  # noqa: S608 - ours
    assert row.fetchone()
    return connection


def _waiting(postgres: PostgreSQL) -> int:
    return _told(postgres, f"SELECT count(*) {_WAITING}")


def _now(postgres: PostgreSQL) -> int:
    return _told(postgres, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")


def _told(postgres: PostgreSQL, statement: str) -> int:
    connection: Any = psycopg.connect(postgres.endpoint)
    with connection:
        return int(connection.execute(statement).fetchone()[0])


def _at(postgres: PostgreSQL, address: str) -> str:
    return postgres.endpoint.replace(postgres.address, address)
