"""Claims in DynamoDB keep what every registry of claims promises, and say truly what went wrong."""

from __future__ import annotations

import asyncio
import errno
import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from putifabsent.backends.dynamodb import DynamoDBClaims, key_of
from putifabsent.backends.registries import (
    Absent,
    Claimed,
    ClaimPage,
    FoundClaim,
    Maybe,
    NotAsExpected,
    Refused,
    TryAgain,
)
from putifabsent.errors import ConfigError
from putifabsent.testing import ClaimsTests, LostClaimTests
from putifabsent.testing.asking import first_claim
from tests.backends.dynamodb_servers import (
    REGION,
    OnDynamoDB,
    claims_at,
    new_table,
)
from tests.fault_proxy import FaultProxy
from tests.stub.dynamodb_faults import Trouble, answer, body_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.backends.registries import Claims

NAME = "s3://bucket/table/snapshot/snapshot-1"


pytestmark = pytest.mark.usefixtures("credentials")


class TestOnATable(OnDynamoDB, ClaimsTests, LostClaimTests):
    """On a table of their own, made by ``init``."""

    def at(self, endpoint: str, table: str) -> Claims:
        return claims_at(endpoint, table)

    @pytest.fixture(scope="class")
    def claims(self, endpoint: str, table: str) -> DynamoDBClaims:
        return claims_at(endpoint, table)

    def test_a_long_listing_has_several_pages(self, claims: DynamoDBClaims, place: str) -> None:
        long = "k" * 200_000
        for number in range(7):
            claims.write(f"{place}/{number}", replace(first_claim(place), key=long), None)
        page = claims.list(place)
        assert isinstance(page, ClaimPage)
        assert page.more is not None
        rest = claims.list(place, page.more)
        assert isinstance(rest, ClaimPage)
        assert rest.more is None
        assert len(page.entries) + len(rest.entries) == 7


# --- what goes wrong on the way


@pytest.fixture
def proxy(in_turn: str) -> Iterator[FaultProxy]:
    with FaultProxy(in_turn, speech="dynamodb") as running:
        yield running


@pytest.fixture
def claims(proxy: FaultProxy) -> DynamoDBClaims:
    made = claims_at(proxy.endpoint)
    made.init()
    proxy.requests.clear()
    return made


PASSING = (Trouble.THROUGHPUT, Trouble.THROTTLED, Trouble.LIMITED, Trouble.CONFLICT)
STAYING = (Trouble.DENIED, Trouble.EXPIRED, Trouble.UNKNOWN_KEY)
UNKNOWN = (
    Trouble.DROPPED_BEFORE,
    Trouble.DROPPED_AFTER,
    Trouble.RESET_AFTER,
    Trouble.ERROR_500_BEFORE,
    Trouble.ERROR_500_AFTER,
    Trouble.ERROR_503_BEFORE,
    Trouble.ERROR_503_AFTER,
    Trouble.GATEWAY_AFTER,
    Trouble.NONSENSE_AFTER,
)


@pytest.mark.parametrize("trouble", PASSING, ids=lambda one: one.name)
def test_throttling_passes_and_has_written_nothing(
    proxy: FaultProxy, claims: DynamoDBClaims, trouble: Trouble
) -> None:
    for operation in ("PutItem", "GetItem", "Query", "Scan", "DeleteItem"):
        proxy.script(operation, trouble)
    claim = first_claim(NAME)
    assert isinstance(claims.write(NAME, claim, None), TryAgain)
    assert isinstance(claims.forget(NAME, claim), TryAgain)
    assert isinstance(claims.read(NAME), TryAgain)
    assert isinstance(claims.list("s3://bucket"), TryAgain)
    assert isinstance(claims.sweep("s3://bucket"), TryAgain)
    assert claims.read(NAME) == Absent()
    assert claims.write(NAME, claim, None) == Claimed()


@pytest.mark.parametrize("trouble", STAYING, ids=lambda one: one.name)
def test_a_missing_right_is_refused_as_such(
    proxy: FaultProxy, claims: DynamoDBClaims, trouble: Trouble
) -> None:
    for operation in ("PutItem", "GetItem", "Query", "DeleteItem"):
        proxy.script(operation, trouble)
    claim = first_claim(NAME)
    asked = (claims.write(NAME, claim, None), claims.read(NAME), claims.list("s3://b"))
    for outcome in (*asked, claims.forget(NAME, claim)):
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, PermissionError)
        assert outcome.error.__cause__ is not None
    assert claims.read(NAME) == Absent()


@pytest.mark.parametrize("trouble", UNKNOWN, ids=lambda one: one.name)
def test_each_call_is_one_request_whatever_becomes_of_it(
    proxy: FaultProxy, claims: DynamoDBClaims, trouble: Trouble
) -> None:
    """No layer of the client sends again, and none waits for a better answer."""
    claims.read(NAME)
    proxy.requests.clear()
    for operation in ("PutItem", "GetItem", "Query", "Scan"):
        proxy.script(operation, trouble)
    claim = first_claim(NAME)
    assert isinstance(claims.write(NAME, claim, None), Maybe)
    assert isinstance(claims.read(NAME), TryAgain)
    assert isinstance(claims.list("s3://bucket"), TryAgain)
    assert isinstance(claims.sweep("s3://bucket"), TryAgain)
    assert proxy.sent() == ["PutItem", "GetItem", "Query", "Scan"]
    # So is it resolved.
    found = claims.read(NAME)
    assert found == (FoundClaim(claim) if trouble.applies else Absent())


def test_each_call_that_is_answered_is_one_request(proxy: FaultProxy, claims: DynamoDBClaims) -> None:
    claim = first_claim(NAME)
    claims.write(NAME, claim, None)
    claims.write(NAME, claim, None)
    claims.read(NAME)
    asyncio.run(claims.write_async(NAME, replace(claim, live=False), claim))
    asyncio.run(claims.read_async(NAME))
    claims.list("s3://bucket/table/snapshot")
    claims.sweep("s3://bucket")
    claims.forget(NAME, replace(claim, live=False))
    told = ["PutItem", "PutItem", "GetItem", "PutItem", "GetItem", "Query", "Scan", "DeleteItem"]
    assert proxy.sent() == told


def test_a_forgotten_claim_whose_answer_is_lost_may_be_gone(
    proxy: FaultProxy, claims: DynamoDBClaims
) -> None:
    claim = first_claim(NAME)
    claims.write(NAME, claim, None)
    proxy.script("DeleteItem", Trouble.DROPPED_AFTER)
    assert isinstance(claims.forget(NAME, claim), Maybe)
    assert proxy.sent("DeleteItem") == ["DeleteItem"]
    assert claims.forget(NAME, claim) == NotAsExpected(None)


def test_every_read_is_strongly_consistent(proxy: FaultProxy, claims: DynamoDBClaims) -> None:
    claims.read(NAME)
    claims.list("s3://bucket")
    claims.sweep("s3://bucket")
    assert [body_of(one).get("ConsistentRead") for one in proxy.requests] == [True, True, True]


def test_an_answer_that_does_not_come_in_time_is_lost(proxy: FaultProxy, claims: DynamoDBClaims) -> None:
    impatient = claims_at(proxy.endpoint, table_of(claims), timeout=0.2)
    proxy.script("PutItem", Trouble.LATE)
    proxy.script("GetItem", Trouble.LATE)
    claim = first_claim(NAME)
    assert isinstance(impatient.write(NAME, claim, None), Maybe)
    assert isinstance(impatient.read(NAME), TryAgain)
    assert claims.read(NAME) == FoundClaim(claim)
    assert proxy.sent("PutItem") == ["PutItem"]


def test_a_server_that_nobody_runs_has_written_nothing() -> None:
    with FaultProxy("http://127.0.0.1:1", speech="dynamodb") as gone:
        address = gone.endpoint
    claims = claims_at(address)
    assert isinstance(claims.write(NAME, first_claim(NAME), None), TryAgain)
    assert isinstance(claims.read(NAME), TryAgain)
    with pytest.raises(ConnectionError, match="DynamoDB did not answer"):
        claims.check()
    with pytest.raises(ConnectionError, match="DynamoDB did not answer"):
        claims.init()


def test_a_server_that_does_not_say_what_it_holds_is_refused(
    proxy: FaultProxy, claims: DynamoDBClaims
) -> None:
    """Never taken for "nothing is there"."""
    claims.write(NAME, first_claim(NAME), None)
    proxy.script("PutItem", Trouble.INVALID)
    assert isinstance(claims.write(NAME, first_claim(NAME), None), Refused)


def test_a_claim_of_a_later_format_is_not_guessed_at(proxy: FaultProxy, claims: DynamoDBClaims) -> None:
    claims.write(NAME, first_claim(NAME), None)
    client = _client(proxy)
    key = {"folder": {"S": "s3://bucket/table/snapshot"}, "name": {"S": "snapshot-1"}}
    client.update_item(
        TableName=table_of(claims),
        Key=key,
        UpdateExpression="SET #format = :later",
        ExpressionAttributeNames={"#format": "format"},
        ExpressionAttributeValues={":later": {"N": "2"}},
    )
    outcomes = (
        claims.read(NAME),
        claims.write(NAME, first_claim(NAME), None),
        claims.list("s3://bucket/table/snapshot"),
    )
    for outcome in outcomes:
        assert isinstance(outcome, Refused)
        assert "a later putifabsent" in str(outcome.error)


def test_an_item_is_what_the_documentation_says(proxy: FaultProxy, claims: DynamoDBClaims) -> None:
    """Other implementations read it."""
    claim = first_claim(NAME)
    claims.write(NAME, claim, None)
    assert body_of(proxy.requests[-1])["Item"] == {
        "folder": {"S": "s3://bucket/table/snapshot"},
        "name": {"S": "snapshot-1"},
        "incarnation": {"N": "1"},
        "live": {"BOOL": True},
        "object": {"S": claim.key},
        "token": {"S": claim.token},
        "writer": {"S": claim.writer},
        "format": {"N": "1"},
    }


def test_a_hash_never_meets_a_name(claims: DynamoDBClaims) -> None:
    """The key that a long name becomes is no key of a short one."""
    long, folder = "n" * 2000, "s3://bucket/folder"
    hashed = key_of(f"{folder}/{long}")["name"]["S"]
    mine, other = first_claim(long), first_claim(hashed)
    assert claims.write(f"{folder}/{long}", mine, None) == Claimed()
    assert claims.write(f"{folder}/{hashed}", other, None) == Claimed()
    assert claims.read(f"{folder}/{long}") == FoundClaim(mine)


# --- the table


def test_init_makes_a_table_that_costs_nothing_idle_and_forgets_nothing(proxy: FaultProxy) -> None:
    claims = claims_at(proxy.endpoint)
    assert claims.init() is True
    asked = next(body_of(one) for one in proxy.requests if one.kind == "CreateTable")
    assert asked["BillingMode"] == "PAY_PER_REQUEST"
    assert asked["DeletionProtectionEnabled"] is True
    assert "UpdateTimeToLive" not in proxy.sent()
    claims.check()
    assert claims.init() is False


def test_making_it_again_is_harmless(claims: DynamoDBClaims) -> None:
    claim = first_claim("s3://bucket/folder/name")
    claims.write("s3://bucket/folder/name", claim, None)
    assert claims.init() is False
    assert claims.read("s3://bucket/folder/name") == FoundClaim(claim)


def test_init_waits_until_the_table_can_be_used(
    proxy: FaultProxy, claims: DynamoDBClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("putifabsent.backends.dynamodb_client._BETWEEN_POLLS", 0)
    creating = {"Table": {"TableName": table_of(claims), "TableStatus": "CREATING"}}
    proxy.script("DescribeTable", answer(creating), answer(creating))
    assert claims.init() is False
    assert len(proxy.sent("DescribeTable")) == 4  # not yet, not yet, now; and the check's own


def test_a_table_that_never_becomes_active_is_said(
    proxy: FaultProxy, claims: DynamoDBClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("putifabsent.backends.dynamodb_client._BETWEEN_POLLS", 0)
    monkeypatch.setattr("putifabsent.backends.dynamodb_client._POLLS", 2)
    creating = {"Table": {"TableName": table_of(claims), "TableStatus": "CREATING"}}
    proxy.script("DescribeTable", answer(creating), answer(creating))
    with pytest.raises(OSError, match="not usable"):
        claims.init()


def test_a_missing_table_says_what_to_run(proxy: FaultProxy) -> None:
    claims = claims_at(proxy.endpoint, "no-such-table")
    with pytest.raises(ConfigError, match=r"putifabsent init 'dynamodb://no-such-table\?region=eu-west-1&"):
        claims.check()
    for outcome in (claims.read(NAME), claims.write(NAME, first_claim(NAME), None), claims.list("s3://b")):
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, OSError)
        assert outcome.error.errno == errno.ENXIO
        assert "putifabsent init 'dynamodb://no-such-table" in str(outcome.error)


def test_a_table_made_for_something_else_is_refused(proxy: FaultProxy) -> None:
    table = new_table()
    _client(proxy).create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    with pytest.raises(ConfigError, match="other keys than folder"):
        claims_at(proxy.endpoint, table).check()
    with pytest.raises(ConfigError, match="other keys than folder"):
        claims_at(proxy.endpoint, table).init()


def test_a_table_whose_items_expire_is_refused(proxy: FaultProxy, claims: DynamoDBClaims) -> None:
    """A claim that is forgotten lets a name be created twice."""
    _client(proxy).update_time_to_live(
        TableName=table_of(claims), TimeToLiveSpecification={"Enabled": True, "AttributeName": "incarnation"}
    )
    with pytest.raises(ConfigError, match="time to live"):
        claims.check()


@pytest.mark.parametrize(
    ("described", "refused"),
    [
        ({"Replicas": [{"RegionName": "eu-west-2"}], "GlobalTableVersion": "2019.11.21"}, True),
        ({"Replicas": [{"RegionName": "eu-west-2"}], "MultiRegionConsistency": "EVENTUAL"}, True),
        ({"Replicas": [{"RegionName": "eu-west-2"}], "MultiRegionConsistency": "STRONG"}, False),
    ],
)
def test_a_table_copied_with_eventual_consistency_is_refused(
    proxy: FaultProxy, claims: DynamoDBClaims, described: dict[str, Any], *, refused: bool
) -> None:
    table = _described(proxy, claims)
    proxy.script("DescribeTable", answer({"Table": {**table, **described}}))
    if refused:
        with pytest.raises(ConfigError, match="global table"):
            claims.check()
    else:
        claims.check()


@pytest.mark.parametrize("operation", ["DescribeTable", "DescribeTimeToLive", "GetItem", "Query", "PutItem"])
def test_a_right_that_is_lacking_is_found_by_the_check(
    proxy: FaultProxy, claims: DynamoDBClaims, operation: str
) -> None:
    proxy.script(operation, Trouble.DENIED)
    with pytest.raises(PermissionError, match="AccessDenied"):
        claims.check()


@pytest.mark.parametrize("operation", ["DeleteItem", "Scan"])
def test_a_right_that_writers_do_without_is_looked_for_by_init_alone(
    proxy: FaultProxy, claims: DynamoDBClaims, operation: str
) -> None:
    proxy.script(operation, Trouble.DENIED)
    claims.check()
    with pytest.raises(PermissionError, match="AccessDenied"):
        claims.init()


def test_init_removes_nothing(proxy: FaultProxy, claims: DynamoDBClaims) -> None:
    item = {"folder": {"S": "#check"}, "name": {"S": "#check"}}
    _client(proxy).put_item(TableName=table_of(claims), Item=item)
    claims.init()
    assert _client(proxy).get_item(TableName=table_of(claims), Key=item)["Item"] == item


def test_a_table_made_anew_is_another_registry(proxy: FaultProxy, claims: DynamoDBClaims) -> None:
    """It has forgotten what was decided: mounts that agreed on the old one must not go on with it."""
    client, table = _client(proxy), table_of(claims)
    before = claims.identity()
    assert before == claims_at(proxy.endpoint, table).identity()
    client.update_table(TableName=table, DeletionProtectionEnabled=False)
    client.delete_table(TableName=table)
    again = claims_at(proxy.endpoint, table)
    again.init()
    assert again.identity() != before


def test_no_credentials_are_shown(
    proxy: FaultProxy,
    claims: DynamoDBClaims,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret-indeed")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-secret")
    fresh = claims_at(proxy.endpoint, table_of(claims))
    proxy.script("PutItem", Trouble.DENIED)
    refused = fresh.write(NAME, first_claim(NAME), None)
    shown = f"{fresh!r} {fresh.identity()} {refused!r} {capsys.readouterr()}"
    assert "secret" not in shown


def test_an_unknown_region_is_said_when_it_is_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match="no AWS region is known"):
        DynamoDBClaims("table")
    monkeypatch.setenv("AWS_REGION", REGION)
    DynamoDBClaims("table")


def test_an_unknown_profile_is_said_when_it_is_mounted() -> None:
    with pytest.raises(ConfigError, match="no-such-profile"):
        DynamoDBClaims("table", region=REGION, profile="no-such-profile")


def test_absent_credentials_are_said_until_they_are_there(
    proxy: FaultProxy, claims: DynamoDBClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    nobody = claims_at(proxy.endpoint, table_of(claims))
    outcome = nobody.write(NAME, first_claim(NAME), None)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)
    assert proxy.sent() == []
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "k")
    assert nobody.write(NAME, first_claim(NAME), None) == Claimed()


_USER = """
import sys
from putifabsent.backends.registry_urls import open_claims
print(open_claims(sys.argv[1]).read("s3://bucket/name"))
"""


def test_a_process_that_used_it_ends_in_silence(proxy: FaultProxy, claims: DynamoDBClaims) -> None:
    url = f"dynamodb://{table_of(claims)}?region={REGION}&endpoint_url={proxy.endpoint}"
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", _USER, url],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "Absent()\n", "")


def test_a_loser_learns_the_winner_by_the_same_answer(proxy: FaultProxy, claims: DynamoDBClaims) -> None:
    winner = first_claim(NAME)
    claims.write(NAME, winner, None)
    proxy.requests.clear()
    assert claims.write(NAME, first_claim(NAME), None) == NotAsExpected(winner)
    assert proxy.sent() == ["PutItem"]


def table_of(claims: DynamoDBClaims) -> str:
    return repr(claims).partition("dynamodb://")[2].partition("?")[0]


def _client(proxy: FaultProxy) -> Any:
    return boto3.client("dynamodb", endpoint_url=proxy.endpoint, region_name=REGION)


def _described(proxy: FaultProxy, claims: DynamoDBClaims) -> dict[str, Any]:
    told = _client(proxy).describe_table(TableName=table_of(claims))["Table"]
    described: dict[str, Any] = json.loads(json.dumps(told, default=lambda moment: moment.timestamp()))
    return described
