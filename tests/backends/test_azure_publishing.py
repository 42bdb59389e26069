"""What Azure hears of a put and of a publication, and what its answers mean."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from azure.core.credentials import AzureSasCredential

from putifabsent.backends import azure
from putifabsent.backends.azure import AzureStore
from putifabsent.backends.base import Absent, InMemory, Maybe, Refused, TryAgain, Written
from putifabsent.testing import PublishTests, StoreTests
from putifabsent.testing.races import creation_of
from tests.backends.answers import each_answer
from tests.backends.azure_stores import BLOCK, NAME, error, store_at, store_of
from tests.backends.scripted import Reply, Scripted
from tests.servers import Azurite
from tests.stub import Fault, FaultStub, Op, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = "bucket/t/.putifabsent/name~salt"
KEY = SOURCE.partition("/")[2]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure, "_BLOCK", BLOCK)
    monkeypatch.setattr(AzureStore, "largest_put", BLOCK)


@pytest.fixture
def store(stub: FaultStub) -> AzureStore:
    return store_at(stub.url("azure"))


def put(store: AzureStore, data: bytes = b"mine", name: str = SOURCE, **extra: Any) -> Any:
    return store.put(name, InMemory(data), creation_of(NAME, **extra))


def publish(store: AzureStore, name: str = NAME, **extra: Any) -> Any:
    return store.publish(SOURCE, name, creation_of(NAME, **extra))


@each_answer
def test_each_put_is_one_request_on_the_wire(
    stub: FaultStub, store: AzureStore, fault: Fault, meaning: type
) -> None:
    put(store, name="bucket/t/before")  # so that the connection is one that the server has kept open
    stub.script(Op.PUT, fault)
    assert isinstance(put(store), meaning)
    assert stub.ops == [Op.PUT, Op.PUT]
    assert "if-none-match" not in stub.requests[-1].headers
    assert (("bucket", KEY) in stub.objects) == fault.applies


@each_answer
def test_each_publication_is_one_request_on_the_wire(
    stub: FaultStub, store: AzureStore, fault: Fault, meaning: type
) -> None:
    put(store)
    publish(store, "bucket/t/before")
    stub.script(Op.COPY, fault)
    assert isinstance(publish(store), meaning)
    assert stub.ops == [Op.PUT, Op.COPY, Op.COPY]
    assert "if-none-match" not in stub.requests[-1].headers
    assert (("bucket", "t/name") in stub.objects) == fault.applies


def test_a_copy_is_over_when_it_is_answered(stub: FaultStub, store: AzureStore) -> None:
    """The asynchronous one leaves an empty blob there until it is done."""
    put(store)
    assert isinstance(publish(store), Written)
    assert stub.requests[-1].headers["x-ms-requires-sync"] == "True"
    pending = {"x-ms-copy-status": "pending", "ETag": '"0x1"'}
    for headers in (pending, {"ETag": '"0x1"'}, {"x-ms-copy-status": "success"}):
        with Scripted(Reply(202, headers)) as server:
            assert isinstance(publish(store_at(server.url)), Maybe)


def test_an_answer_that_does_not_come_in_time_is_lost(stub: FaultStub) -> None:
    store = store_at(stub.url("azure"), read_timeout=0.3)
    put(store)
    for op in (Op.PUT, Op.COPY):
        stub.script(op, Fault.TIMEOUT_AFTER_APPLY)
    assert isinstance(put(store), Maybe)
    assert isinstance(publish(store), Maybe)
    stub.release()
    assert stub.ops == [Op.PUT, Op.PUT, Op.COPY]


def test_a_missing_source_is_told_from_a_missing_container(stub: FaultStub, store: AzureStore) -> None:
    assert publish(store) == Absent()
    assert stub.ops == [Op.COPY, Op.HEAD]
    put(store)
    outcome = publish(store, "nowhere/name")
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, FileNotFoundError)
    assert ("bucket", "t/name") not in stub.objects


SHOWS = {"ETag": '"0x1"', "Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT", "x-ms-blob-type": "BlockBlob"}
FOUND = Reply(200, SHOWS)


@pytest.mark.parametrize(
    ("replies", "meaning", "kind"),
    [
        ((error(404, "CannotVerifyCopySource"), error(404, "BlobNotFound")), Absent, None),
        # The service calls a source missing that it may not read.
        ((error(404, "CannotVerifyCopySource"), FOUND), Refused, PermissionError),
        ((error(404, "CannotVerifyCopySource"), error(503, "ServerBusy")), TryAgain, None),
        ((error(401, "CannotVerifyCopySource"),), Refused, PermissionError),
        ((error(403, "CannotVerifyCopySource"),), Refused, PermissionError),
        ((error(409, "CannotVerifyCopySource"),), TryAgain, None),
        ((error(409, "PendingCopyOperation"),), TryAgain, None),
        ((error(404, "ContainerNotFound"),), Refused, FileNotFoundError),
        ((error(409, "ContainerBeingDeleted"),), Refused, FileNotFoundError),
        ((error(412, "LeaseIdMissing"),), Refused, PermissionError),
        ((error(409, "BlobImmutableDueToPolicy"),), Refused, PermissionError),
        ((error(413, "RequestBodyTooLarge"),), Refused, OSError),
    ],
)
def test_each_refusal_of_a_copy_has_one_meaning(
    replies: tuple[Reply, ...], meaning: type, kind: type[OSError] | None
) -> None:
    with Scripted(*replies) as server:
        outcome = publish(store_at(server.url))
        assert len(server.asked) == len(replies)
    assert isinstance(outcome, meaning)
    if isinstance(outcome, Refused):
        assert type(outcome.error) is kind


# --- what goes with it


def test_what_the_caller_adds_goes_with_the_put_and_with_the_copy(stub: FaultStub, store: AzureStore) -> None:
    extra: dict[str, Any] = {
        "metadata": {"who": "me"},
        "content_settings": {"content_type": "text/plain"},
        "encryption_scope": "scope",
        "tags": {"a": "b"},
    }
    creation = creation_of(NAME, **extra)
    assert isinstance(store.put(SOURCE, InMemory(b"mine"), creation), Written)
    assert isinstance(publish(store, **extra), Written)
    sent, copied = (request.headers for request in stub.requests)
    assert (sent["x-ms-encryption-scope"], copied["x-ms-encryption-scope"]) == ("scope",) * 2
    assert (sent["x-ms-tags"], copied["x-ms-tags"]) == ("a=b",) * 2
    assert not [name for name in copied if name.startswith("x-ms-meta-")]
    published = stub.objects["bucket", "t/name"]
    marks = {"putifabsenttoken": creation.token, "putifabsentwriter": creation.writer}
    assert published.metadata == {"is_directory": "false", "who": "me", **marks}
    assert published.content_type == "text/plain"


def source_of(stub: FaultStub) -> tuple[str, dict[str, list[str]]]:
    address = urlsplit(stub.requests[-1].headers["x-ms-copy-source"])
    return address.path, parse_qs(address.query)


def test_an_account_key_signs_a_right_to_read_the_source_alone(stub: FaultStub, store: AzureStore) -> None:
    put(store)
    assert isinstance(publish(store), Written)
    path, query = source_of(stub)
    assert path.endswith("/bucket/t/.putifabsent/name~salt")
    assert query["sp"] == ["r"]
    assert query["sr"] == ["b"]
    assert query["sig"]


@pytest.mark.parametrize("way", ["option", "credential"])
def test_a_mount_s_own_signature_reads_the_source(stub: FaultStub, way: str) -> None:
    # adlfs builds its address for Azure itself: only a connection string leads to the stub.
    told = f"BlobEndpoint={stub.url('azure')};SharedAccessSignature=sv=2026&sig=mine%3D"
    store = store_of(connection_string=told)
    if way == "credential":
        blob = store._sender.blob("bucket", KEY)
        blob.credential = AzureSasCredential("?sv=2026&sig=theirs")
        given = store._sender.readable(blob)["source_url"]
        assert given.endswith("sv=2026&sig=theirs")
    else:
        put(store)
        assert isinstance(publish(store), Written)
        assert source_of(stub)[1]["sig"] == ["mine="]


def test_an_identity_s_token_reads_the_source(store: AzureStore) -> None:
    class Identity:
        def get_token(self, *scopes: str) -> Any:
            assert scopes == ("https://storage.azure.com/.default",)
            return type("Token", (), {"token": "secret"})

    blob = store._sender.blob("bucket", KEY)
    blob.credential = Identity()
    given = store._sender.readable(blob)
    assert given == {"source_url": blob.url, "source_authorization": "Bearer secret"}


# --- large bodies


LARGE = b"x" * (2 * BLOCK + 1)


def test_a_large_body_goes_in_blocks_and_their_list_once(stub: FaultStub, store: AzureStore) -> None:
    for data in (LARGE, LARGE[::-1] + b"y"):
        assert isinstance(put(store, data), Written)
        assert stub.objects["bucket", KEY].data == data
    assert stub.ops.count(Op.COMPLETE) == 2
    assert "if-none-match" not in stub.requests[-1].headers


@each_answer
def test_a_list_that_failed_is_not_sent_again(
    stub: FaultStub, store: AzureStore, fault: Fault, meaning: type
) -> None:
    stub.script(Op.COMPLETE, fault)
    assert isinstance(put(store, LARGE), meaning)
    assert stub.ops.count(Op.COMPLETE) == 1
    assert bool(stub.objects) == fault.applies


def test_blocks_that_another_put_has_thrown_away_may_have_been_committed(
    stub: FaultStub, store: AzureStore
) -> None:
    stub.script(Op.COMPLETE, Step(before=lambda state: state.uploads.clear()))
    assert isinstance(put(store, LARGE), Maybe)


# --- the real server


@pytest.fixture(scope="module")
def server() -> Iterator[Azurite]:
    with Azurite() as running:
        yield running


@pytest.mark.servers
class TestOnAzurite(PublishTests):
    large: ClassVar[int] = 3 * BLOCK + 1

    colour, ask, around = StoreTests.colour, StoreTests.ask, StoreTests.around

    @pytest.fixture
    def store(self, server: Azurite) -> AzureStore:
        return store_of(connection_string=server.connection_string)

    @pytest.fixture
    def folder(self, server: Azurite) -> str:
        return f"{server.new_bucket()}/{uuid.uuid4().hex}"


@pytest.mark.servers
@pytest.mark.parametrize("odd", ["plain", "with space", "a+b", "%41", "?x=1&y", "é/日"])
def test_the_service_may_read_the_source_by_its_address_alone(server: Azurite, odd: str) -> None:
    store = store_of(connection_string=server.connection_string)
    container = server.new_bucket()
    put(store, name=f"{container}/{odd}")
    address = store._sender.readable(store._sender.blob(container, odd))["source_url"]
    assert requests.get(address, timeout=30).content == b"mine"
    assert requests.get(address.partition("?")[0], timeout=30).status_code >= HTTPStatus.BAD_REQUEST
    assert requests.delete(address, timeout=30).status_code == HTTPStatus.FORBIDDEN
