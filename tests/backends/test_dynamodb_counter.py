"""Counters in DynamoDB keep what every counter promises, beside the claims of the same table."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from putifabsent.backends.dynamodb import DynamoDBCounter
from putifabsent.backends.registries import Advanced, Claimed, ClaimEntry, ClaimPage, Maybe, Refused, TryAgain
from putifabsent.backends.registry_urls import open_counter
from putifabsent.errors import ConfigError
from putifabsent.testing import CounterTests, LostCounterTests
from putifabsent.testing.asking import first_claim
from tests.backends.dynamodb_servers import (
    REGION,
    OnDynamoDB,
    claims_at,
    new_table,
)
from tests.fault_proxy import FaultProxy
from tests.stub.dynamodb_faults import Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from putifabsent.backends.registries import Claims, Counter

NOW = 1_800_000_000_000

pytestmark = pytest.mark.usefixtures("credentials")


def counter_at(endpoint: str, table: str) -> Counter:
    return open_counter(f"dynamodb://{table}?region={REGION}&endpoint_url={endpoint}&timeout=30")


class TestOnATable(OnDynamoDB, CounterTests, LostCounterTests):
    def at(self, endpoint: str, table: str) -> Counter:
        return counter_at(endpoint, table)

    @pytest.fixture
    def make_counter(self, endpoint: str, table: str) -> Callable[[], Counter]:
        return partial(counter_at, endpoint, table)


@pytest.fixture
def proxy(in_turn: str) -> Iterator[FaultProxy]:
    with FaultProxy(in_turn, speech="dynamodb") as running:
        yield running


@pytest.fixture
def table(proxy: FaultProxy) -> str:
    table = new_table()
    claims_at(proxy.endpoint, table).init()
    proxy.requests.clear()
    return table


@pytest.fixture
def claims(proxy: FaultProxy, table: str) -> Claims:
    return claims_at(proxy.endpoint, table)


@pytest.fixture
def counter(proxy: FaultProxy, table: str) -> Counter:
    return counter_at(proxy.endpoint, table)


@pytest.fixture
def name() -> str:
    return "s3://bucket/table"


def test_whoever_counts_alone_sends_one_request_a_call(
    proxy: FaultProxy, counter: Counter, name: str
) -> None:
    """A clock that has moved on, one that has not, and one that is behind; a look at the table is first."""
    for floor in (NOW, NOW, NOW + 1, NOW + 1000, 0):
        assert isinstance(counter.advance(name, floor), Advanced)
    asyncio.run(counter.advance_async(name, NOW))
    assert proxy.sent() == ["DescribeTable", "DescribeTimeToLive", *["UpdateItem"] * 6]


def test_whoever_is_behind_others_learns_it_by_one_request(
    proxy: FaultProxy, table: str, counter: Counter, name: str
) -> None:
    counter.advance(name, NOW)
    other = counter_at(proxy.endpoint, table)
    other.advance(f"{name}-2", 0)
    proxy.requests.clear()
    assert isinstance(other.advance(name, 7), TryAgain)
    assert proxy.sent() == ["UpdateItem"]
    assert other.advance(name, 8) == Advanced(NOW + 2)
    assert counter.advance(name, NOW + 1) == Advanced(NOW + 3)


@pytest.mark.parametrize("trouble", [Trouble.DROPPED_BEFORE, Trouble.ERROR_503_AFTER, Trouble.GATEWAY_AFTER])
def test_a_lost_answer_is_not_asked_for_again(
    proxy: FaultProxy, counter: Counter, name: str, trouble: Trouble
) -> None:
    counter.advance(name, 0)
    proxy.requests.clear()
    proxy.script("UpdateItem", trouble)
    assert isinstance(counter.advance(name, 0), Maybe)
    assert proxy.sent() == ["UpdateItem"]
    assert counter.advance(name, 0) == Advanced(3 if trouble.applies else 2)


def test_throttling_passes_and_has_moved_nothing(proxy: FaultProxy, counter: Counter, name: str) -> None:
    proxy.script("UpdateItem", Trouble.THROTTLED, Trouble.CONFLICT)
    for _ in range(2):
        assert isinstance(counter.advance(name, 0), TryAgain)
    assert counter.advance(name, 0) == Advanced(1)


def test_a_missing_right_is_refused_as_such(proxy: FaultProxy, counter: Counter, name: str) -> None:
    proxy.script("UpdateItem", Trouble.DENIED)
    refused = counter.advance(name, 0)
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, PermissionError)
    assert "AccessDenied" in str(refused.error)


def test_a_missing_table_says_what_to_run(proxy: FaultProxy, name: str) -> None:
    counter = counter_at(proxy.endpoint, "no-such-table")
    refused = counter.advance(name, 0)
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, ConfigError)
    assert "putifabsent init 'dynamodb://no-such-table" in str(refused.error)


def test_a_table_that_went_says_what_to_run(
    proxy: FaultProxy, table: str, counter: Counter, name: str
) -> None:
    """Though it was there."""
    counter.advance(name, 0)
    client = _client(proxy)
    client.update_table(TableName=table, DeletionProtectionEnabled=False)
    client.delete_table(TableName=table)
    refused = counter.advance(name, 0)
    assert isinstance(refused, Refused)
    assert "putifabsent init" in str(refused.error)


def test_a_table_that_cannot_be_relied_on_gives_no_number(
    proxy: FaultProxy, table: str, counter: Counter, name: str
) -> None:
    """Two regions of a global table would give the same ones; what expires begins anew."""
    lives = {"Enabled": True, "AttributeName": "last"}
    _client(proxy).update_time_to_live(TableName=table, TimeToLiveSpecification=lives)
    for outcome in (counter.advance(name, 0), asyncio.run(counter.advance_async(name, 0))):
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, ConfigError)
        assert "time to live" in str(outcome.error)
    assert "UpdateItem" not in proxy.sent()


@pytest.mark.parametrize("operation", ["DescribeTable", "DescribeTimeToLive"])
def test_a_table_that_cannot_be_looked_at_now_is_looked_at_again(
    proxy: FaultProxy, counter: Counter, name: str, operation: str
) -> None:
    proxy.script(operation, Trouble.DROPPED_BEFORE)
    assert isinstance(counter.advance(name, 0), TryAgain)
    assert counter.advance(name, 0) == Advanced(1)


def test_an_item_is_what_the_documentation_says(
    proxy: FaultProxy, table: str, counter: Counter, name: str
) -> None:
    counter.advance(name, NOW, 5)
    assert _items(proxy, table) == [
        {"folder": {"S": "#counter"}, "name": {"S": name}, "last": {"N": str(NOW + 5)}}
    ]


def test_no_counter_is_a_claim(claims: Claims, counter: Counter) -> None:
    """Not by its key, and in no listing, whatever a place is called."""
    for place in ("counter", "#counter"):
        claim = first_claim(place)
        counter.advance("name", 0)
        assert claims.write(f"{place}/name", claim, None) == Claimed()
        for page in (claims.list(place), claims.sweep(place)):
            assert page == ClaimPage((ClaimEntry(f"{place}/name", claim),))


def test_numbers_of_a_table_that_was_made_anew_are_above_the_floor(
    proxy: FaultProxy, table: str, counter: Counter, name: str
) -> None:
    """Whatever was known of the old one."""
    counter.advance(name, NOW)
    key = {"folder": {"S": "#counter"}, "name": {"S": name}}
    _client(proxy).update_item(
        TableName=table,
        Key=key,
        UpdateExpression="SET #last = :last",
        ExpressionAttributeNames={"#last": "last"},
        ExpressionAttributeValues={":last": {"N": "3"}},
    )
    assert isinstance(counter.advance(name, NOW), TryAgain)
    assert counter.advance(name, NOW) == Advanced(NOW + 1)
    _client(proxy).delete_item(TableName=table, Key=key)
    assert isinstance(counter.advance(name, NOW), TryAgain)
    assert counter.advance(name, NOW) == Advanced(NOW + 1)


def test_it_tells_the_time_of_its_answers(counter: Counter, name: str) -> None:
    """Within the second that they say."""
    before = time.time_ns() // 10**9
    moved = counter.advance(name, NOW)
    assert isinstance(moved, Advanced)
    assert moved.now is not None
    assert before <= moved.now // 1000 <= time.time_ns() // 10**9


def test_it_never_forgets() -> None:
    assert not DynamoDBCounter.forgets


def _client(proxy: FaultProxy) -> Any:
    return boto3.client("dynamodb", endpoint_url=proxy.endpoint, region_name=REGION)


def _items(proxy: FaultProxy, table: str) -> object:
    return _client(proxy).scan(TableName=table)["Items"]
