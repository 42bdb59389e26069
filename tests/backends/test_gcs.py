"""GCS keeps the promises of a store: what goes on the wire, and what the answers mean."""

from __future__ import annotations

import json
import socket
import ssl
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
import pytest
import requests
import urllib3.exceptions
from gcsfs.core import GCSFileSystem

from putifabsent.backends import gcs
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
from putifabsent.backends.gcs import GCSStore
from putifabsent.backends.gcs_client import outcome_of
from putifabsent.backends.requests_session import session
from putifabsent.shim.requests import Delete, Get, Head, List, Put, Walk
from putifabsent.testing import (
    Ask,
    LostAnswerTests,
    PublishTests,
    StoreTests,
    race,
)
from putifabsent.testing.asking import ThroughTheStore
from putifabsent.testing.races import creation_of
from tests.backends.gcs_stores import CHUNK, NAME, create, nowhere, store_at
from tests.backends.on_stub import PAGE, HttpStoreTests, Objects
from tests.backends.scripted import Reply, Scripted
from tests.certificates import self_signed
from tests.fault_proxy import LOST_ANSWER, LOST_REQUEST, FaultProxy
from tests.servers import FakeGCS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.stub import FaultStub


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs, "_CHUNK", CHUNK)


@pytest.fixture
def store(stub: FaultStub) -> GCSStore:
    return store_at(stub.url("gcs"))


def through(proxy: FaultProxy, stub: FaultStub) -> GCSStore:
    """A store behind ``proxy``, for the sessions of others too: their addresses are the stub's own."""
    store = store_at(proxy.endpoint)
    raw = store._sender.raw

    def redirected(method: str, url: str, **request: Any) -> requests.Response:
        return raw(method, url.replace(stub.url("gcs"), proxy.endpoint), **request)

    store._sender.raw = redirected  # type: ignore[method-assign]
    return store


class TestGCSStore(LostAnswerTests, PublishTests, StoreTests):
    large: ClassVar[int] = 3 * CHUNK + 1
    several_pages: ClassVar[int] = PAGE + 1
    deletions: ClassVar[int] = 24

    @pytest.fixture
    def store(self, stub: FaultStub) -> GCSStore:
        return store_at(stub.url("gcs"))

    @pytest.fixture
    def folder(self) -> str:
        return f"bucket/{uuid.uuid4().hex}"

    @pytest.fixture
    def around(self, stub: FaultStub) -> Objects:
        return Objects(stub)

    @pytest.fixture
    def unanswered(self, stub: FaultStub) -> Iterator[GCSStore]:
        with FaultProxy(stub.url("gcs"), LOST_ANSWER) as proxy:
            yield through(proxy, stub)

    @pytest.fixture
    def unheard(self, stub: FaultStub) -> Iterator[GCSStore]:
        with FaultProxy(stub.url("gcs"), LOST_REQUEST) as proxy:
            yield through(proxy, stub)


class TestRequests(HttpStoreTests):
    store_at = staticmethod(store_at)
    nowhere = staticmethod(nowhere)
    timeout = "requests_timeout"
    outcome_of = staticmethod(outcome_of)
    impossible = ("bucket/.",)


def test_a_create_says_its_condition_and_its_token(stub: FaultStub, store: GCSStore) -> None:
    creation = creation_of(NAME)
    outcome = store.create(NAME, InMemory(b"mine"), creation)
    stored = stub.objects["bucket", "t/name"]
    assert outcome == Created(str(stored.generation))
    assert stub.requests[0].query["ifGenerationMatch"] == "0"
    assert stored.metadata == {"putifabsenttoken": creation.token, "putifabsentwriter": creation.writer}
    assert stored.content_type == "application/octet-stream"


STATUSES = {
    Refused: (301, 307, 400, 401, 413),
    TryAgain: (409, 429),
    Exists: (412,),
    Maybe: (404, 408, 500, 502, 504),
}


@pytest.mark.parametrize(
    ("status", "meaning"), [(status, meaning) for meaning in STATUSES for status in STATUSES[meaning]]
)
def test_every_answer_has_one_meaning(status: int, meaning: type) -> None:
    with Scripted(Reply(status, {"Location": "/elsewhere"})) as server:
        outcome = create(store_at(server.url))
        assert isinstance(outcome, meaning)
        assert len(server.asked) == 1


def test_a_rate_limit_passes() -> None:
    body = json.dumps({"error": {"code": 403, "errors": [{"reason": "rateLimitExceeded"}]}}).encode()
    with Scripted(Reply(403, body=body)) as server:
        assert isinstance(create(store_at(server.url)), TryAgain)


@pytest.mark.parametrize(
    ("status", "kind"), [(401, PermissionError), (403, PermissionError), (404, FileNotFoundError)]
)
def test_a_refusal_says_why(status: int, kind: type[OSError]) -> None:
    body = json.dumps({"error": {"code": status, "message": "the reason"}}).encode()
    with Scripted(Reply(status, body=body)) as server:
        outcome = create(store_at(server.url))
    assert isinstance(outcome, Refused)
    assert type(outcome.error) is kind
    assert outcome.error.filename == NAME
    assert "the reason" in str(outcome.error)
    assert isinstance(outcome.error.__cause__, requests.HTTPError)


def test_a_success_that_tells_of_no_object_may_be_a_proxy_s() -> None:
    with Scripted(Reply(200, body=b"<html>welcome</html>"), Reply(200, body=b"{}"), Reply(204)) as server:
        store = store_at(server.url)
        assert [type(create(store)) for _ in range(3)] == [Maybe, Maybe, Maybe]


@pytest.mark.parametrize(
    ("asked", "meaning"),
    [
        (Delete(NAME), Maybe),
        (Head(NAME), TryAgain),
        (List("bucket/t"), TryAgain),
        (Put(NAME, InMemory(b"x"), creation_of(NAME)), Maybe),
    ],
    ids=["delete", "head", "list", "put"],
)
def test_a_404_without_a_word_of_gcs_s_is_a_proxy_s_that_does_not_find_the_store(
    asked: Any, meaning: type
) -> None:
    with Scripted(Reply(404, body=b"404 page not found")) as server:
        assert isinstance(Ask(store_at(server.url), "sync")(asked), meaning)
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("asked", "meaning"),
    [
        (Delete(NAME), Maybe),
        (Head(NAME), TryAgain),
        (Get(NAME), TryAgain),
        (List("bucket/t"), TryAgain),
    ],
    ids=["delete", "head", "get", "list"],
)
@pytest.mark.parametrize("page", [b"<html>later</html>", b"{}", b"[]"], ids=["html", "json", "a list"])
def test_a_page_in_the_place_of_an_answer_is_a_proxy_s(asked: Any, meaning: type, page: bytes) -> None:
    with Scripted(Reply(200, body=page)) as server:
        assert isinstance(Ask(store_at(server.url), "sync")(asked), meaning)


@pytest.mark.parametrize("asked", [List("bucket/t"), Walk("bucket/t")], ids=["list", "walk"])
def test_a_listing_that_goes_on_where_it_is_comes_to_an_end(asked: Any) -> None:
    page = b'{"kind": "storage#objects", "nextPageToken": "1"}'
    with Scripted(*[Reply(200, body=page)] * 2) as server:
        assert isinstance(Ask(store_at(server.url), "sync")(asked), Refused)
        assert len(server.asked) == 2


def test_an_unknown_host_is_a_connection_that_nobody_took() -> None:
    assert isinstance(create(store_at("http://nowhere.invalid")), TryAgain)


@pytest.mark.parametrize("behind_a_proxy", [False, True])
def test_idle_connections_are_kept_alive(behind_a_proxy: bool) -> None:
    """On GCS and on Azure: who is not heard of for some minutes is forgotten by networks, without a word."""
    with Scripted(Reply(200)) as server, session() as sending:
        sending.proxies = {"http": server.url} if behind_a_proxy else {}
        where = "http://store.invalid" if behind_a_proxy else server.url
        raw: Any = sending.get(where, stream=True).raw
        connection = raw._connection.sock
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < 60
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("by", ["the system", "requests"])
def test_whom_the_system_trusts_is_trusted_as_well(
    by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As by aiohttp, which gcsfs and adlfs use."""
    certificate, key = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    if by == "requests":
        monkeypatch.setattr("requests.utils.DEFAULT_CA_BUNDLE_PATH", str(certificate))
    else:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with Scripted(Reply(200)) as server, session() as sending:
        server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
        assert sending.get(server.url.replace("http:", "https:")).status_code == 200


def test_a_server_that_proves_to_be_another_is_refused() -> None:
    inner = urllib3.exceptions.SSLError(ssl.SSLCertVerificationError("self-signed certificate"))
    outcome = outcome_of(requests.exceptions.SSLError(inner), NAME)
    assert isinstance(outcome, Refused)
    assert "self-signed" in str(outcome.error)
    # Any other trouble with the channel may come after the last byte.
    broken = requests.exceptions.SSLError(urllib3.exceptions.SSLError("decryption failed"))
    assert isinstance(outcome_of(broken, NAME), Maybe)


def test_a_name_with_a_generation_is_not_a_name_to_create(stub: FaultStub) -> None:
    store = store_at(stub.url("gcs"), version_aware=True)
    assert isinstance(create(store, name=f"{NAME}#123"), Refused)
    assert isinstance(create(store, name=f"{NAME}#of-its-own"), Created)


def test_a_look_finds_who_when_and_which(stub: FaultStub, store: GCSStore) -> None:
    made = datetime(2026, 1, 2, 3, 4, 5, 678000, timezone.utc)
    stored = stub.put(
        "bucket", "t/name", b"12345", {"putifabsenttoken": "t", "putifabsentwriter": "w"}, last_modified=made
    )
    seen = store.head(NAME)
    assert isinstance(seen, Found)
    holder = seen.holder
    assert (holder.token, holder.writer, holder.created, holder.size) == ("t", "w", made, 5)
    assert holder.version == str(stored.generation)


def test_an_object_that_breaks_off_is_to_be_read_again() -> None:
    with Scripted(Reply(200, {"Content-Length": "100", "Connection": "close"}, b"half")) as server:
        assert isinstance(store_at(server.url, 0.3).get(NAME), TryAgain)


def test_a_deletion_is_conditional_on_the_generation(stub: FaultStub, store: GCSStore) -> None:
    stored = stub.put("bucket", "t/name", b"")
    assert store.delete(NAME, str(stored.generation)) == Deleted()
    assert stub.requests[0].query["ifGenerationMatch"] == str(stored.generation)
    assert stub.objects == {}


def test_building_a_store_asks_nobody() -> None:
    address = nowhere()
    assert store_at(address).endpoint() == address


def test_google_s_own_endpoint_is_the_default() -> None:
    store = GCSStore(GCSFileSystem(token="anon", skip_instance_cache=True), {}, 30)
    assert store.endpoint() == "https://storage.googleapis.com"


@pytest.mark.servers
@pytest.mark.parametrize(("largest_put", "names"), [(2**20, 20), (1000, 5)], ids=["small", "large"])
def test_of_64_threads_one_creates_each_name(largest_put: int, names: int) -> None:
    with FakeGCS() as server:
        bucket = server.new_bucket()
        fs = fsspec.filesystem("piags", arbiter="native", deadline=60, **server.storage_options)
        fs.backend.largest_put = largest_put
        paths = [f"{bucket}/{number}" for number in range(names)]
        done = race(lambda: fs, paths, threads=64, size=2 * CHUNK + 100)
        assert done.problems(ThroughTheStore(fs.backend).read) == []
        assert done.errors == ()
