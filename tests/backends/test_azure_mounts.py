"""What a mount and its callers add to a put on Azure goes with guarded puts, or refuses them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import (
    ClientAuthenticationError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.storage.blob import ContentSettings

from putifabsent.backends.base import (
    Created,
    InMemory,
    Refused,
    TryAgain,
)
from putifabsent.errors import ConfigError
from putifabsent.testing.asking import forked
from putifabsent.testing.races import creation_of
from tests.backends.azure_stores import (
    CREATED,
    KEY,
    NAME,
    create,
    nowhere,
    stage,
    store_at,
    store_of,
)
from tests.backends.scripted import Reply, Scripted
from tests.stub import FaultStub, Op

if TYPE_CHECKING:
    from typing_extensions import Self

    from putifabsent.backends.azure import AzureStore


@pytest.fixture
def store(stub: FaultStub) -> AzureStore:
    return store_at(stub.url("azure"))


@pytest.mark.parametrize(
    "settings",
    [{"content_type": "text/plain"}, ContentSettings(content_type="text/plain")],
    ids=["dict", "object"],
)
def test_what_the_caller_adds_goes_with_the_put(settings: Any) -> None:
    extra = {
        "metadata": {"who": "me"},
        "content_settings": settings,
        "tags": {"a": "b"},
        "encryption_scope": "scope",
        "max_concurrency": 3,
    }
    with Scripted(CREATED, Reply(201), CREATED) as server:
        store = store_at(server.url)
        assert create(store, **extra) == Created('"0x1"')
        assert store.complete(stage(store, b"mine", **extra)) == Created('"0x1"')
    put, block, commit = server.asked
    for asked in (put, commit):
        assert asked.headers["x-ms-meta-who"] == "me"
        assert asked.headers["x-ms-blob-content-type"] == "text/plain"
        assert asked.headers["x-ms-tags"] == "a=b"
    for asked in (put, block, commit):
        assert asked.headers["x-ms-encryption-scope"] == "scope"


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("no_such", 1), ("lease", 1), ("cpk", 1), ("blob_type", 1), ("metadata", {"a": 1}), ("tags", ["a"])],
)
def test_what_cannot_go_with_a_put_refuses_it(
    stub: FaultStub, store: AzureStore, parameter: str, value: object
) -> None:
    extra: dict[str, Any] = {parameter: value}
    for outcome in (create(store, **extra), stage(store, b"mine", **extra)):
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, ConfigError)
        assert parameter in str(outcome.error)
    assert stub.ops == []


def test_metadata_that_no_header_can_carry_is_refused_unsent(stub: FaultStub, store: AzureStore) -> None:
    for text in ("\N{EURO SIGN}", "two\nlines"):
        outcome = create(store, metadata={"who": text})
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, OSError)
    assert stub.ops == []


def test_the_caller_cannot_take_the_token_s_place(stub: FaultStub, store: AzureStore) -> None:
    creation = creation_of(NAME, metadata={"putifabsenttoken": "forged"})
    store.create(NAME, InMemory(b"mine"), creation)
    assert stub.objects["bucket", "t/name"].metadata["putifabsenttoken"] == creation.token


def test_the_service_s_own_time_out_goes_with_every_request(stub: FaultStub) -> None:
    store = store_at(stub.url("azure"), timeout=7)
    create(store)
    store.head(NAME)
    store.get(NAME)
    store.list("bucket/t")
    store.complete(stage(store, b"mine", "bucket/t/staged"))
    store.put("bucket/t/state", InMemory(b""), creation_of(NAME))
    store.publish("bucket/t/state", "bucket/t/published", creation_of(NAME))
    store.delete(NAME)
    assert [request.query.get("timeout") for request in stub.requests] == ["7"] * 9


def test_a_body_above_the_client_s_own_limit_is_one_put(stub: FaultStub, store: AzureStore) -> None:
    """It would cut it into blocks that another writer's have the ids of."""
    create(store, bytes(65 * 2**20))
    assert stub.ops == [Op.PUT]


def asked_of(store: AzureStore, server: Scripted) -> Any:
    store._sender._fs.account_url = f"{server.url}/account"
    create(store)
    return server.asked[-1]


def test_the_account_s_key_signs() -> None:
    for options in (
        {"account_key": KEY},
        {"credential": KEY},
        {"credential": {"account_name": "account", "account_key": KEY}},
        {"credential": AzureNamedKeyCredential("account", KEY)},
    ):
        with Scripted(CREATED) as server:
            asked = asked_of(store_of(account_name="account", **options), server)
            assert asked.headers["Authorization"].startswith("SharedKey account:")


def test_a_signature_goes_into_the_address() -> None:
    signature = "sv=2026-01-01&sig=abc"
    credential = AzureSasCredential(signature)
    for options in ({"sas_token": signature}, {"sas_token": f"?{signature}"}, {"credential": credential}):
        with Scripted(CREATED) as server:
            asked = asked_of(store_of(account_name="account", **options), server)
            assert "sig=abc" in asked.path
            assert "Authorization" not in asked.headers


def test_anonymous_stays_anonymous() -> None:
    with Scripted(CREATED) as server:
        asked = asked_of(store_of(account_name="account", anon=True), server)
        assert "Authorization" not in asked.headers


def test_a_host_of_its_own_is_the_endpoint() -> None:
    store = store_of(
        account_name="account", account_key=KEY, account_host="account.blob.core.chinacloudapi.cn"
    )
    assert store.endpoint() == "https://account.blob.core.chinacloudapi.cn"


def test_a_service_principal_is_the_one_that_adlfs_made() -> None:
    ids: dict[str, Any] = {"client_id": "c", "client_secret": "s", "tenant_id": "t"}
    store = store_of(account_name="account", **ids)
    policy: Any = store._sender._service()._credential_policy
    assert policy._credential._credential is store._sender._fs.sync_credential


class Token:
    """An asynchronous credential, as one passes it to adlfs."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.loops: list[Any] = []

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        self.asked.append(scopes)
        self.loops.append(asyncio.get_running_loop())
        return AccessToken("the token", 2**40)

    async def close(self) -> None:
        """Nothing is open."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Nothing is open."""


def test_an_asynchronous_credential_is_asked_on_the_loop_of_adlfs() -> None:
    token = Token()
    store = store_of(account_name="account", credential=token)
    policy: Any = store._sender._service()._credential_policy
    assert policy._credential.get_token("https://storage.azure.com/.default").token == "the token"
    assert token.asked == [("https://storage.azure.com/.default",)]
    assert token.loops == [store._sender._fs.loop]


@pytest.mark.parametrize("failure", [ServiceRequestError, ServiceResponseError, IncompleteReadError])
def test_where_no_token_came_nothing_was_sent(
    stub: FaultStub, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    """Whatever the connection to who gives tokens broke by: the store has heard of nothing."""
    credential = Mock(spec=["get_token"], get_token=Mock(side_effect=failure("reset by peer")))
    store = store_at(stub.url("azure"))
    fs = store._sender._fs
    monkeypatch.setattr(fs, "connection_string", None)
    monkeypatch.setattr(fs, "account_url", stub.url("azure").replace("http:", "https:"), raising=False)
    monkeypatch.setattr(fs, "sync_credential", credential)
    assert isinstance(create(store), TryAgain)
    assert credential.get_token.called
    assert stub.ops == []


def is_refused(outcome: object) -> bool:
    return (
        isinstance(outcome, Refused)
        and isinstance(outcome.error, PermissionError)
        and isinstance(outcome.error.__cause__, ClientAuthenticationError)
    )


def test_an_asynchronous_credential_is_refused_after_a_fork() -> None:
    store = store_of(account_name="account", credential=Token())
    assert forked(lambda: is_refused(create(store))) == 0


def test_an_asynchronous_credential_of_the_caller_s_loop_is_refused() -> None:
    """No thread knows that loop."""
    store = store_of(account_name="account", credential=Token(), asynchronous=True)
    outcome = asyncio.run(store.create_async(NAME, InMemory(b"mine"), creation_of(NAME)))
    assert is_refused(outcome)
    assert "asynchronous=True" in str(outcome)


def test_a_read_only_location_is_refused() -> None:
    with pytest.raises(ConfigError, match="location_mode"):
        store_of(account_name="account", account_key=KEY, location_mode="secondary")


def test_building_a_store_asks_nobody() -> None:
    address = nowhere()
    assert store_at(address).endpoint() == address
