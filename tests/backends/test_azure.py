"""Azure keeps the promises of a store: what goes on the wire, and what the answers mean."""

from __future__ import annotations

import errno
import os
import uuid
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import Mock

import fsspec
import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError

from putifabsent.backends import azure
from putifabsent.backends.azure_client import outcome_of
from putifabsent.backends.base import (
    Created,
    Deleted,
    Exists,
    Found,
    InMemory,
    Maybe,
    Refused,
    TryAgain,
)
from putifabsent.shim.requests import Create, Delete, Get, Head, List, Put, Walk
from putifabsent.testing import Ask, LostAnswerTests, PublishTests, StoreTests, race
from putifabsent.testing.asking import ThroughTheStore
from putifabsent.testing.races import creation_of
from tests.backends.azure_stores import (
    BLOCK,
    NAME,
    create,
    error,
    nowhere,
    store_at,
)
from tests.backends.on_stub import PAGE, HttpStoreTests, Objects
from tests.backends.scripted import Reply, Scripted
from tests.fault_proxy import LOST_ANSWER, LOST_REQUEST, FaultProxy
from tests.servers import Azurite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.backends.azure import AzureStore
    from tests.stub import FaultStub

SHORT = bool(os.environ.get("SHORT"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure, "_BLOCK", BLOCK)


@pytest.fixture
def store(stub: FaultStub) -> AzureStore:
    return store_at(stub.url("azure"))


class TestAzureStore(LostAnswerTests, PublishTests, StoreTests):
    large: ClassVar[int] = 3 * BLOCK + 1
    several_pages: ClassVar[int] = PAGE + 1
    deletions: ClassVar[int] = 24

    @pytest.fixture
    def store(self, stub: FaultStub) -> AzureStore:
        return store_at(stub.url("azure"))

    @pytest.fixture
    def folder(self) -> str:
        return f"bucket/{uuid.uuid4().hex}"

    @pytest.fixture
    def around(self, stub: FaultStub) -> Objects:
        return Objects(stub)

    @pytest.fixture
    def unanswered(self, stub: FaultStub) -> Iterator[AzureStore]:
        with FaultProxy(stub.url("azure"), LOST_ANSWER) as proxy:
            yield store_at(proxy.endpoint)

    @pytest.fixture
    def unheard(self, stub: FaultStub) -> Iterator[AzureStore]:
        with FaultProxy(stub.url("azure"), LOST_REQUEST) as proxy:
            yield store_at(proxy.endpoint)


class TestRequests(HttpStoreTests):
    store_at = staticmethod(store_at)
    nowhere = staticmethod(nowhere)
    timeout = "read_timeout"
    outcome_of = staticmethod(outcome_of)
    impossible = ("bucket/a/../b", "bucket/./a")


def test_a_create_says_its_condition_and_its_token(stub: FaultStub, store: AzureStore) -> None:
    creation = creation_of(NAME)
    outcome = store.create(NAME, InMemory(b"mine"), creation)
    seen = store.head(NAME)
    assert isinstance(seen, Found)
    assert outcome == Created(seen.holder.version)
    assert stub.requests[0].headers["if-none-match"] == "*"
    marks = {"putifabsenttoken": creation.token, "putifabsentwriter": creation.writer}
    assert stub.objects["bucket", "t/name"].metadata == {"is_directory": "false", **marks}


CODES = {
    Exists: (
        error(403, "UnauthorizedBlobOverwrite"),
        error(409, "BlobAlreadyExists"),
        error(409, "BlobArchived"),
        error(409, "BlobImmutableDueToPolicy"),
        error(409, "InvalidBlobType"),
        error(412, "ConditionNotMet"),
        error(412, "LeaseIdMissing"),
    ),
    TryAgain: (error(409, "PendingCopyOperation"), error(409, "Unheard"), error(429, "TooManyRequests")),
    Refused: (
        error(301, ""),
        error(307, ""),
        error(400, "InvalidMetadata"),
        error(401, "NoAuthenticationInformation"),
        error(403, "AuthenticationFailed"),
        error(404, "ContainerNotFound"),
        error(409, "ContainerBeingDeleted"),
        error(409, "PathConflict"),
        error(413, "RequestBodyTooLarge"),
    ),
    Maybe: (
        Reply(200),
        Reply(201),
        error(408, ""),
        error(500, "InternalError"),
        error(500, "OperationTimedOut"),
        error(503, "ServerBusy"),
    ),
}


@pytest.mark.parametrize(
    ("reply", "meaning"),
    [(reply, meaning) for meaning in CODES for reply in CODES[meaning]],
    ids=lambda value: (
        f"{value.status} {value.headers.get('x-ms-error-code', '')}" if isinstance(value, Reply) else ""
    ),
)
def test_every_answer_has_one_meaning(reply: Reply, meaning: type) -> None:
    with Scripted(Reply(reply.status, {**reply.headers, "Location": "/elsewhere"})) as server:
        assert isinstance(create(store_at(server.url)), meaning)
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (error(401, "NoAuthenticationInformation"), PermissionError),
        (error(403, "AuthorizationFailure"), PermissionError),
        (error(404, "ContainerNotFound"), FileNotFoundError),
        (error(409, "ContainerBeingDeleted"), FileNotFoundError),
        (error(409, "PathConflict"), NotADirectoryError),
        (error(409, "PublicAccessNotPermitted"), PermissionError),
    ],
)
def test_a_refusal_says_why(reply: Reply, kind: type[OSError]) -> None:
    with Scripted(reply) as server:
        outcome = create(store_at(server.url))
    assert isinstance(outcome, Refused)
    assert type(outcome.error) is kind
    assert outcome.error.filename == NAME
    assert reply.headers["x-ms-error-code"] in str(outcome.error)
    assert isinstance(outcome.error.__cause__, HttpResponseError)


@pytest.mark.parametrize(
    ("asked", "meaning"),
    [
        (Delete(NAME), Maybe),
        (Get(NAME), TryAgain),
        (Head(NAME), TryAgain),
        (List("bucket/t"), TryAgain),
        (Put(NAME, InMemory(b"x"), creation_of(NAME)), Maybe),
    ],
    ids=["delete", "get", "head", "list", "put"],
)
def test_a_404_without_a_word_of_azure_s_is_a_proxy_s_that_does_not_find_the_store(
    asked: Any, meaning: type
) -> None:
    with Scripted(Reply(404, body=b"404 page not found")) as server:
        assert isinstance(Ask(store_at(server.url), "sync")(asked), meaning)
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("asked", "meaning"),
    [
        (Create(NAME, InMemory(b"x"), creation_of(NAME)), Maybe),
        (Put(NAME, InMemory(b"x"), creation_of(NAME)), Maybe),
        (Delete(NAME), Maybe),
        (Head(NAME), TryAgain),
        (Get(NAME), TryAgain),
        (List("bucket/t"), TryAgain),
    ],
    ids=["create", "put", "delete", "head", "get", "list"],
)
@pytest.mark.parametrize("page", [b"<html>later", b"<html/>", b""], ids=["html", "xml", "empty"])
def test_a_page_in_the_place_of_an_answer_is_a_proxy_s(asked: Any, meaning: type, page: bytes) -> None:
    shows = {"ETag": '"x"', "Last-Modified": "Sun, 29 Nov 2026 05:00:00 GMT", "Content-Type": "text/html"}
    with Scripted(Reply(200, shows, page)) as server:
        assert isinstance(Ask(store_at(server.url), "sync")(asked), meaning)


@pytest.mark.parametrize("asked", [List("bucket/t"), Walk("bucket/t")], ids=["list", "walk"])
def test_a_listing_that_goes_on_where_it_is_comes_to_an_end(asked: Any) -> None:
    page = b"<EnumerationResults><Blobs></Blobs><NextMarker>1</NextMarker></EnumerationResults>"
    with Scripted(*[Reply(200, {"Content-Type": "application/xml"}, page)] * 2) as server:
        assert isinstance(Ask(store_at(server.url), "sync")(asked), Refused)
        assert len(server.asked) == 2


def test_without_a_token_nothing_was_sent() -> None:
    answer = Mock(status_code=503, headers={}, content_type=None)
    failure = ClientAuthenticationError("the identity service is down", response=answer)
    assert isinstance(outcome_of(failure, NAME), TryAgain)


def test_an_identity_that_is_not_there_is_no_blob() -> None:
    answer = Mock(status_code=404, headers={}, content_type=None)
    outcome = outcome_of(ClientAuthenticationError("identity not found", response=answer), NAME)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)


def test_a_file_of_credentials_that_is_missing_is_no_blob() -> None:
    """As a workload's identity, which a cluster renews."""
    outcome = outcome_of(FileNotFoundError(errno.ENOENT, "No such file", "/var/run/identity"), NAME)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)


def test_an_answer_that_breaks_off_is_lost() -> None:
    """The client itself takes it for a request that was never sent."""
    with Scripted(Reply(201, {"Content-Length": "100", "ETag": '"0x1"'}, b"<Err")) as server:
        assert isinstance(create(store_at(server.url, read_timeout=0.3)), Maybe)
        assert len(server.asked) == 1


def test_a_look_does_not_mind_the_case_of_metadata() -> None:
    headers = {
        "X-Ms-Meta-Putifabsenttoken": "t",
        "X-Ms-Meta-Putifabsentwriter": "w",
        "Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT",
        "ETag": '"0x1"',
        "x-ms-blob-type": "BlockBlob",
    }
    with Scripted(Reply(200, headers)) as server:
        seen = store_at(server.url).head(NAME)
    assert isinstance(seen, Found)
    assert (seen.holder.token, seen.holder.writer, seen.holder.version) == ("t", "w", '"0x1"')
    assert seen.holder.created is not None
    assert seen.holder.created.isoformat() == "2026-01-02T03:04:05+00:00"


def test_a_deletion_is_conditional_on_the_entity_tag(stub: FaultStub, store: AzureStore) -> None:
    stub.put("bucket", "t/name", b"")
    seen = store.head(NAME)
    assert isinstance(seen, Found)
    assert store.delete(NAME, seen.holder.version) == Deleted()
    assert stub.requests[-1].headers["if-match"] == seen.holder.version
    assert stub.objects == {}


def test_a_blob_that_is_kept_by_a_lease_is_not_called_deleted() -> None:
    with Scripted(error(412, "LeaseIdMissing"), error(409, "BlobImmutableDueToPolicy")) as server:
        store = store_at(server.url)
        for _ in range(2):
            outcome = store.delete(NAME, '"0x1"')
            assert isinstance(outcome, Refused)
            assert isinstance(outcome.error, PermissionError)


@pytest.mark.servers
@pytest.mark.parametrize(
    ("largest_put", "names"), [(2**20, 6 if SHORT else 20), (1000, 2 if SHORT else 5)], ids=["small", "large"]
)
def test_of_64_threads_one_creates_each_name(largest_put: int, names: int) -> None:
    with Azurite() as server:
        bucket = server.new_bucket()
        fs = fsspec.filesystem("piaaz", arbiter="native", deadline=60, **server.storage_options)
        fs.backend.largest_put = largest_put
        paths = [f"{bucket}/{number}" for number in range(names)]
        done = race(lambda: fs, paths, threads=64, size=2 * BLOCK + 100)
        assert done.problems(ThroughTheStore(fs.backend).read) == []
        assert done.errors == ()
