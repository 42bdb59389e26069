"""What is done with PostgreSQL's answers. The server is imagined; a real one: `test_postgres_server.py`."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.backends.postgres import PostgresCounter, parameters_of, postgres_settings
from putifabsent.backends.registries import Advanced, Maybe, Refused, TryAgain
from putifabsent.backends.registry_urls import Servers, open_counter
from putifabsent.errors import ConfigError
from putifabsent.testing import CounterTests, LostCounterTests
from tests.backends.imagined_servers import Fault, Postgres, SqlError
from tests.stub.silent_postgres import silent_postgres

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.registries import Counter
    from tests.backends.imagined_servers import Session

WHERE = Servers("postgresql://host:5432/lab", (("host", 5432),))
LOST = SqlError(None, "server closed the connection unexpectedly\n\tThis probably means ...")


@pytest.fixture
def server() -> Postgres:
    return Postgres()


@pytest.fixture
def counter(server: Postgres) -> Counter:
    return PostgresCounter(WHERE, server.connect)


class TestOnAnImaginedServer(CounterTests, LostCounterTests):
    # Its memory is not shared.
    test_a_forked_child_can_count_and_so_can_its_parent = None  # type: ignore[assignment]

    @pytest.fixture
    def make_counter(self, server: Postgres) -> Callable[[], Counter]:
        return partial(PostgresCounter, WHERE, server.connect)

    @pytest.fixture
    def unanswered(self, server: Postgres) -> Counter:
        losing = Postgres(server.rows)
        losing.always = Fault(LOST, done=True)
        return PostgresCounter(WHERE, losing.connect)

    @pytest.fixture
    def unheard(self, server: Postgres) -> Counter:
        losing = Postgres(server.rows)
        losing.always = Fault(LOST)
        return PostgresCounter(WHERE, losing.connect)


def test_a_server_that_stands_still_is_not_waited_for_without_end() -> None:
    with silent_postgres() as place:
        counter = open_counter(f"postgresql://u:p@{place}/lab?timeout=0.1&sslmode=disable")
        assert isinstance(counter.advance("t", 0), Maybe)


def test_connections_that_a_restart_has_ended_are_thrown_away_together(server: Postgres) -> None:
    counter = PostgresCounter(WHERE, server.connect)
    ended: list[Any] = [server.connect() for _ in range(3)]
    counter._idle().extend(ended)
    server.always = Fault(LOST)
    assert isinstance(counter.advance("t", 0), Maybe)
    assert all(each.closed for each in ended)


def test_few_connections_stay_open_however_many_were_used_at_once(server: Postgres) -> None:
    everybody = Barrier(20)

    def connect() -> Session:
        everybody.wait()
        return server.connect()

    counter = PostgresCounter(WHERE, connect)
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: counter.advance("t", 0), range(20)))
    assert len(server.connections) == 20
    assert 0 < sum(not each.closed for each in server.connections) <= 4


def test_each_call_is_one_statement_on_one_connection(server: Postgres, counter: Counter) -> None:
    for _ in range(3):
        counter.advance("t", 0)
    assert (server.asked, len(server.connections)) == (3, 1)


def test_a_connection_whose_answer_was_lost_is_not_used_again(server: Postgres, counter: Counter) -> None:
    server.faults.append(Fault(LOST, done=True))
    assert isinstance(counter.advance("t", 0), Maybe)
    assert counter.advance("t", 0) == Advanced(2)
    assert [each.closed for each in server.connections] == [True, False]


def test_an_interruption_leaves_no_connection_that_may_be_answered_still(
    server: Postgres, counter: Counter
) -> None:
    server.faults.append(Fault(KeyboardInterrupt()))  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        counter.advance("t", 0)
    assert server.connections[0].closed


@pytest.mark.parametrize("state", [None, "08006", "57P01", "57P02", "40003", "58030", "XX000"])
def test_an_end_of_the_session_says_nothing_of_the_statement(
    server: Postgres, counter: Counter, state: str | None
) -> None:
    server.faults.append(Fault(SqlError(state)))
    assert isinstance(counter.advance("t", 0), Maybe)


@pytest.mark.parametrize("state", ["40001", "40P01", "53300", "55P03", "57014", "57P03"])
def test_what_passes_has_moved_nothing(server: Postgres, counter: Counter, state: str) -> None:
    server.faults.append(Fault(SqlError(state)))
    assert isinstance(counter.advance("t", 0), TryAgain)
    assert counter.advance("t", 0) == Advanced(1)
    assert len(server.connections) == 1


def test_who_hears_that_it_speaks_to_a_standby_connects_anew(server: Postgres, counter: Counter) -> None:
    server.faults.append(Fault(SqlError("25006")))
    assert isinstance(counter.advance("t", 0), TryAgain)
    assert counter.advance("t", 0) == Advanced(1)
    assert [each.closed for each in server.connections] == [True, False]


@pytest.mark.parametrize(
    ("state", "error", "says"),
    [
        ("42501", PermissionError, "PostgreSQL refuses"),
        ("28P01", PermissionError, "PostgreSQL refuses"),
        ("42P01", FileNotFoundError, "CREATE TABLE putifabsent_counters"),
        ("42703", OSError, "PostgreSQL refuses"),
    ],
)
def test_a_refusal_says_what_to_do(
    server: Postgres, counter: Counter, state: str, error: type[Exception], says: str
) -> None:
    server.faults.append(Fault(SqlError(state)))
    refused = counter.advance("t", 0)
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, error)
    assert says in str(refused.error)


def test_who_is_not_connected_has_sent_nothing(server: Postgres, counter: Counter) -> None:
    server.refuses = SqlError(None, "connection refused")
    assert isinstance(counter.advance("t", 0), TryAgain)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ('FATAL:  password authentication failed for user "lab"', PermissionError),
        ("fe_sendauth: no password supplied", PermissionError),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1"', PermissionError),
        ('FATAL:  role "lab" does not exist', PermissionError),
        ('FATAL:  database "lab" does not exist', FileNotFoundError),
    ],
)
def test_who_is_refused_at_the_door_is_told_so_without_a_code(
    server: Postgres, counter: Counter, message: str, error: type[Exception]
) -> None:
    server.refuses = SqlError(None, f"connection failed: {message}")
    refused = counter.advance("t", 0)
    assert isinstance(refused, Refused)
    assert type(refused.error) is error
    assert message in str(refused.error)


def test_the_same_words_in_a_lost_answer_refuse_nothing(server: Postgres, counter: Counter) -> None:
    server.faults.append(Fault(SqlError(None, 'the table of those whose role "x" does not exist')))
    assert isinstance(counter.advance("t", 0), Maybe)


def test_it_tells_the_server_s_own_time(counter: Counter) -> None:
    moved = counter.advance("t", 0)
    assert isinstance(moved, Advanced)
    assert moved.now is not None


def test_a_url_is_libpq_s_parameters() -> None:
    url = "postgresql://us%40er:se%2Fcret@a,[::1]:5433/lab?sslmode=verify-full&timeout=2.5"
    settings = postgres_settings(url)
    assert settings.shown == "postgresql://a:5432,[::1]:5433/lab"
    parameters = parameters_of(settings)
    assert (parameters["host"], parameters["port"], parameters["dbname"]) == ("a,::1", "5432,5433", "lab")
    assert (parameters["user"], parameters["password"]) == ("us@er", "se/cret")
    assert (parameters["sslmode"], parameters["target_session_attrs"]) == ("verify-full", "read-write")
    assert (parameters["connect_timeout"], parameters["tcp_user_timeout"]) == (3, 2500)
    # PgBouncer refuses a connection that begins with settings.
    assert "options" not in parameters
    assert "se/cret" not in f"{settings!r}{PostgresCounter(settings)!r}"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql:///db", "names its host"),
        ("postgresql://a/db/more", "too many steps"),
        ("postgresql://a/db?sslmod=x", "did you mean 'sslmode'"),
        ("postgres://a/db", "did you mean postgresql://"),
    ],
)
def test_what_is_wrong_in_a_url_is_said(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        postgres_settings(url)


def test_a_missing_client_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"pip install 'putifabsent\[postgres\]'"):
        open_counter("postgresql://host/lab")
