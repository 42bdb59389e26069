"""GCS keeps the promises of a store: what goes on the wire, what the answers mean, what goes with a put."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import google.auth.credentials
import google.auth.exceptions
import pytest
import requests
from gcsfs.core import GCSFileSystem

from putifabsent.backends import gcs_upload
from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Exists,
    Found,
    Gone,
    Listed,
    Maybe,
    Refused,
    Staged,
    TryAgain,
)
from putifabsent.backends.body import Body, InMemory
from putifabsent.backends.gcs import GCSStore
from putifabsent.backends.gcs_sender import outcome_of
from putifabsent.errors import ConfigError
from putifabsent.testing import (
    Around,
    ConditionalCopyTests,
    LostAnswerTests,
    StoreTests,
    race,
    through_made_store,
)
from putifabsent.testing.asking import ThroughTheStore
from putifabsent.testing.races import creation_of
from tests.backends.losing import LosingProxy
from tests.backends.scripted import Reply, Scripted
from tests.servers import FakeGCS
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 2**18
NAME = "bucket/t/name"
MADE = Reply(200, body=b'{"generation": "7"}')


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs_upload, "_CHUNK", CHUNK)


@pytest.fixture(scope="module")
def running() -> Iterator[FaultStub]:
    with FaultStub() as stub:
        yield stub


@pytest.fixture
def stub(running: FaultStub) -> FaultStub:
    running.reset()
    return running


def store_at(url: str, deadline: float = 30.0, **options: Any) -> GCSStore:
    options = {"token": "anon", "endpoint_url": url, **options}
    return GCSStore(GCSFileSystem(skip_instance_cache=True, **options), options, deadline)


@pytest.fixture
def store(stub: FaultStub) -> GCSStore:
    return store_at(stub.url("gcs"))


def create(store: GCSStore, data: bytes = b"mine", name: str = NAME, **extra: Any) -> Any:
    return store.create(name, InMemory(data), creation_of(name, **extra))


def stage(store: GCSStore, data: bytes, name: str = NAME, **extra: Any) -> Any:
    return store.stage(name, InMemory(data), creation_of(name, **extra))


# --- the promises of every store


class Objects(Around):
    """What the stub holds."""

    def __init__(self, stub: FaultStub) -> None:
        self._stub = stub

    def read(self, name: str) -> bytes | None:
        bucket, _, key = name.partition("/")
        there = self._stub.objects.get((bucket, key))
        return None if there is None else there.data

    def write(self, name: str, data: bytes) -> None:
        bucket, _, key = name.partition("/")
        self._stub.put(bucket, key, data)


def through(proxy: LosingProxy, stub: FaultStub) -> GCSStore:
    """A store behind ``proxy``, for the sessions of others too: their addresses are the stub's own."""
    store = store_at(proxy.endpoint)
    raw = store._sender.raw

    def redirected(method: str, url: str, **request: Any) -> requests.Response:
        return raw(method, url.replace(stub.url("gcs"), proxy.endpoint), **request)

    store._sender.raw = redirected  # type: ignore[method-assign]
    return store


class TestGCSStore(ConditionalCopyTests, LostAnswerTests, StoreTests):
    large: ClassVar[int] = 3 * CHUNK + 1

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
        with LosingProxy(stub.url("gcs"), "answers") as proxy:
            yield through(proxy, stub)

    @pytest.fixture
    def unheard(self, stub: FaultStub) -> Iterator[GCSStore]:
        with LosingProxy(stub.url("gcs"), "requests") as proxy:
            yield through(proxy, stub)


# --- one request, one outcome

ANSWERS = {
    Fault.DROP_AFTER_APPLY: Maybe,
    Fault.DROP_BEFORE_APPLY: Maybe,
    Fault.ERROR_500_AFTER: Maybe,
    Fault.ERROR_500_BEFORE: Maybe,
    Fault.ERROR_503_AFTER: Maybe,
    Fault.ERROR_503_BEFORE: Maybe,
    Fault.OK_WITH_ERROR_BODY: Maybe,
    Fault.CONFLICT_409: TryAgain,
    Fault.PRECONDITION_412: Exists,
    Fault.PRECONDITION_412_BARE: Exists,
    Fault.FORBIDDEN_403: Refused,
}


@pytest.mark.parametrize(("fault", "meaning"), ANSWERS.items(), ids=lambda value: getattr(value, "name", ""))
def test_each_put_is_one_request_on_the_wire(
    stub: FaultStub, store: GCSStore, fault: Fault, meaning: type
) -> None:
    create(store, name="bucket/t/before")  # so that the connection is one that the server has kept open
    stub.script(Op.PUT, fault)
    assert isinstance(create(store), meaning)
    assert stub.ops == [Op.PUT, Op.PUT]


def test_an_answer_that_does_not_come_in_time_is_lost(stub: FaultStub) -> None:
    stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)
    assert isinstance(create(store_at(stub.url("gcs"), requests_timeout=0.3)), Maybe)
    stub.release()
    assert stub.ops == [Op.PUT]


def test_a_create_says_its_condition_and_its_token(stub: FaultStub, store: GCSStore) -> None:
    creation = creation_of(NAME)
    outcome = store.create(NAME, InMemory(b"mine"), creation)
    stored = stub.objects["bucket", "t/name"]
    assert outcome == Created(str(stored.generation))
    assert stub.requests[0].query["ifGenerationMatch"] == "0"
    assert stored.metadata == {"putifabsenttoken": creation.token, "putifabsentwriter": creation.writer}
    assert stored.content_type == "application/octet-stream"


STATUSES = {
    Refused: (301, 307, 400, 401, 404, 413),
    TryAgain: (409, 429),
    Exists: (412,),
    Maybe: (408, 500, 502, 504),
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


@pytest.fixture
def nobody() -> str:
    """An address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_a_refused_connection_sent_nothing(nobody: str) -> None:
    outcome = create(store_at(nobody))
    assert isinstance(outcome, TryAgain)
    assert "refused" in str(outcome.cause)


def test_an_unknown_host_is_a_connection_that_nobody_took() -> None:
    assert isinstance(create(store_at("http://nowhere.invalid")), TryAgain)


def test_what_was_not_foreseen_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        outcome_of(ZeroDivisionError(), NAME)


@pytest.mark.parametrize(
    "name",
    ["bucket", "bucket/", "bucket/.", "bucket/..", "bucket/\udcff", "bucket/" + "k" * 1025],
    ids=["bucket", "no key", "dot", "dots", "not UTF-8", "too long"],
)
def test_a_name_that_no_object_can_have_is_refused_unsent(
    stub: FaultStub, store: GCSStore, name: str
) -> None:
    for outcome in (
        create(store, name=name),
        stage(store, b"mine", name),
        store.head(name),
        store.delete(name),
    ):
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, OSError)
        assert not isinstance(outcome.error, FileExistsError)
    assert stub.ops == []


def test_a_name_with_a_generation_is_not_a_name_to_create(stub: FaultStub) -> None:
    store = store_at(stub.url("gcs"), version_aware=True)
    assert isinstance(create(store, name=f"{NAME}#123"), Refused)
    assert isinstance(create(store, name=f"{NAME}#of-its-own"), Created)


# --- looking, listing, deleting


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


@pytest.mark.parametrize("fault", [Fault.DROP_BEFORE_APPLY, Fault.ERROR_500_BEFORE, Fault.ERROR_503_BEFORE])
def test_a_look_without_an_answer_says_nothing(stub: FaultStub, store: GCSStore, fault: Fault) -> None:
    stub.script(Op.HEAD, fault)
    stub.script(Op.GET, fault)
    stub.script(Op.LIST, fault)
    assert isinstance(store.head(NAME), TryAgain)
    assert isinstance(store.get(NAME), TryAgain)
    assert isinstance(store.list("bucket/t"), TryAgain)
    assert stub.ops == [Op.HEAD, Op.GET, Op.LIST]


def test_a_refused_look_is_not_an_absent_name(stub: FaultStub, store: GCSStore) -> None:
    stub.script(Op.HEAD, Fault.FORBIDDEN_403)
    stub.script(Op.LIST, Fault.FORBIDDEN_403)
    assert isinstance(store.head(NAME), Refused)
    assert isinstance(store.list("bucket/t"), Refused)


def test_a_listing_of_several_pages_is_whole(stub: FaultStub, store: GCSStore) -> None:
    stub.call(lambda state: [state.put("bucket", f"t/{number:04d}", b"", {}) for number in range(1001)])
    listed = store.list("bucket/t")
    assert isinstance(listed, Listed)
    assert [entry.name for entry in listed.entries] == [f"bucket/t/{number:04d}" for number in range(1001)]
    assert stub.ops == [Op.LIST] * 2


def test_a_deletion_is_conditional_on_the_generation(stub: FaultStub, store: GCSStore) -> None:
    stored = stub.put("bucket", "t/name", b"")
    assert store.delete(NAME, str(stored.generation)) == Deleted()
    assert stub.requests[0].query["ifGenerationMatch"] == str(stored.generation)
    assert stub.objects == {}


# --- what goes with a put


def test_what_the_caller_adds_goes_with_the_put() -> None:
    extra: dict[str, Any] = {
        "metadata": {"who": "me"},
        "content_type": "text/plain",
        "fixed_key_metadata": {"cache_control": "no-store", "custom_time": "2026-01-01T00:00:00Z"},
        "acl": "bucketownerread",
        "kms_key_name": "projects/p/key",
        "consistency": "md5",
        "chunksize": 2**20,
    }
    with Scripted(MADE) as server:
        assert create(store_at(server.url), b"mine", **extra) == Created("7")
        asked = server.asked[0]
    resource = json.loads(asked.body.split(b"\r\n\r\n")[1].split(b"\r\n")[0])
    assert resource["metadata"]["who"] == "me"
    assert resource["contentType"] == "text/plain"
    assert resource["cacheControl"] == "no-store"
    assert resource["customTime"] == "2026-01-01T00:00:00Z"
    assert (
        resource["md5Hash"] == base64.b64encode(hashlib.md5(b"mine", usedforsecurity=False).digest()).decode()
    )
    assert "predefinedAcl=bucketOwnerRead" in asked.path
    assert "kmsKeyName=projects%2Fp%2Fkey" in asked.path


@pytest.mark.parametrize(
    "extra",
    [{"no_such": 1}, {"fixed_key_metadata": {"no_such": "x"}}, {"acl": "everybody"}],
    ids=["parameter", "fixed key", "acl"],
)
def test_what_cannot_go_with_a_put_refuses_it(
    stub: FaultStub, store: GCSStore, extra: dict[str, Any]
) -> None:
    for outcome in (
        create(store, **extra),
        stage(store, b"mine", **extra),
        store.copy("bucket/source", NAME, creation_of(NAME, **extra)),
    ):
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, ConfigError)
    assert stub.ops == []


def test_the_caller_cannot_take_the_token_s_place(stub: FaultStub, store: GCSStore) -> None:
    creation = creation_of(NAME, metadata={"putifabsenttoken": "forged"})
    store.create(NAME, InMemory(b"mine"), creation)
    assert stub.objects["bucket", "t/name"].metadata["putifabsenttoken"] == creation.token


def test_a_body_that_holds_the_frame_s_own_lines_arrives_whole(stub: FaultStub, store: GCSStore) -> None:
    create(store, b"x")
    frame = stub.requests[0].body
    create(store, frame, "bucket/t/other")
    assert stub.objects["bucket", "t/other"].data == frame


@pytest.mark.parametrize(("pays", "who"), [("payer", "payer"), (True, "mine")])
def test_the_payer_is_named_in_every_request(stub: FaultStub, pays: Any, who: str) -> None:
    store = store_at(stub.url("gcs"), project="mine", requester_pays=pays)
    create(store)
    store.head(NAME)
    store.get(NAME)
    store.list("bucket/t")
    store.copy(NAME, "bucket/t/copy", creation_of(NAME))
    stage(store, b"mine", "bucket/t/staged")
    store.put("bucket/t/state", InMemory(b""))
    store.delete(NAME)
    assert [request.query.get("userProject") for request in stub.requests] == [who] * 8


@pytest.mark.parametrize("consistency", ["md5", "crc32c"])
def test_the_mount_s_checksum_goes_with_every_body(consistency: str) -> None:
    session = Reply(200, {"Location": "/session"})
    with Scripted(MADE, session, Reply(308, {"Range": f"bytes=0-{CHUNK - 1}"}), MADE) as server:
        session.headers["Location"] = f"{server.url}/session"  # type: ignore[index]
        store = store_at(server.url, consistency=consistency)
        create(store, b"mine")
        store.complete(stage(store, os.urandom(CHUNK) + b"end"))
    put, _, chunk, last = server.asked
    assert {"md5": b'"md5Hash"', "crc32c": b'"crc32c"'}[consistency] in put.body
    assert "X-Goog-Hash" not in chunk.headers
    assert last.headers["X-Goog-Hash"].startswith(f"{consistency}=")


@pytest.mark.parametrize(
    "options", [{"session_kwargs": {"connector": object()}}, {"session_kwargs": {"timeout": 3}}]
)
def test_a_mount_s_option_that_cannot_be_carried_is_refused(nobody: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options["session_kwargs"]))):
        store_at(nobody, **options)


def test_a_client_certificate_that_could_not_be_shown_is_refused(nobody: str) -> None:
    fs = GCSFileSystem(token="anon", endpoint_url=nobody, skip_instance_cache=True)
    fs._use_client_cert = True
    with pytest.raises(ConfigError, match="certificate"):
        GCSStore(fs, {}, 30)


def test_the_session_s_headers_go_with_every_request(stub: FaultStub) -> None:
    store = store_at(stub.url("gcs"), session_kwargs={"headers": {"X-Mine": "yes"}, "trust_env": False})
    create(store)
    assert stub.requests[0].headers["x-mine"] == "yes"


def test_a_proxy_of_the_session_is_asked() -> None:
    with Scripted(MADE) as proxy:
        create(store_at("http://storage.invalid", session_kwargs={"proxy": proxy.url}))
        assert proxy.asked[0].path.startswith("http://storage.invalid/upload/storage/v1/b/bucket/o?")


# --- credentials


class Tokens(google.auth.credentials.Credentials):
    """Expires at every look, and is renewed with the next number, or not."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.number = 0
        self.error = error

    @property
    def valid(self) -> bool:
        return False

    def refresh(self, request: Any) -> None:
        if self.error:
            raise self.error
        self.number += 1
        self.token = f"number {self.number}"


def test_a_token_is_renewed_when_it_has_expired(stub: FaultStub) -> None:
    store = store_at(stub.url("gcs"), token=Tokens())
    create(store)
    create(store, name="bucket/t/other")
    sent = [request.headers["authorization"] for request in stub.requests]
    assert sent == ["Bearer number 1", "Bearer number 2"]


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (google.auth.exceptions.RefreshError("revoked"), Refused),  # type: ignore[no-untyped-call]
        (google.auth.exceptions.RefreshError("busy", retryable=True), TryAgain),  # type: ignore[no-untyped-call]
        (google.auth.exceptions.TransportError("unreachable"), TryAgain),  # type: ignore[no-untyped-call]
    ],
)
def test_without_a_token_nothing_is_sent(stub: FaultStub, error: Exception, meaning: type) -> None:
    outcome = create(store_at(stub.url("gcs"), token=Tokens(error)))
    assert isinstance(outcome, meaning)
    if isinstance(outcome, Refused):
        assert isinstance(outcome.error, PermissionError)
    assert stub.ops == []


# --- large bodies


class Watched(Body):
    """Keeps the sizes of what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.sizes: list[int] = []
        self._data = data

    def read(self, start: int, stop: int) -> bytes:
        self.sizes.append(stop - start)
        return self._data[start:stop]


def test_a_large_body_is_read_a_chunk_at_a_time(stub: FaultStub, store: GCSStore) -> None:
    body = Watched(os.urandom(3 * CHUNK + 5))
    staged = store.stage(NAME, body, creation_of(NAME))
    assert isinstance(staged, Staged)
    assert body.sizes == [CHUNK, CHUNK, CHUNK, 5]
    assert stub.ops == [Op.CREATE_UPLOAD, Op.PART, Op.PART, Op.PART]
    assert isinstance(store.complete(staged), Created)
    assert len(body.sizes) == 4


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK])
def test_the_last_chunk_alone_creates(stub: FaultStub, store: GCSStore, size: int) -> None:
    data = os.urandom(size)
    staged = stage(store, data)
    assert stub.objects == {}
    assert isinstance(store.complete(staged), Created)
    assert stub.objects["bucket", "t/name"].data == data
    assert stub.ops.count(Op.COMPLETE) == 1


@pytest.mark.parametrize(
    "fault",
    [Fault.DROP_AFTER_APPLY, Fault.DROP_BEFORE_APPLY, Fault.ERROR_500_AFTER, Fault.ERROR_503_BEFORE],
)
def test_a_chunk_whose_answer_was_lost_is_sent_again(stub: FaultStub, store: GCSStore, fault: Fault) -> None:
    data = os.urandom(3 * CHUNK)
    stub.script(Op.PART, None, fault)
    assert isinstance(store.complete(stage(store, data)), Created)
    assert stub.objects["bucket", "t/name"].data == data


def test_a_chunk_is_not_sent_for_ever(stub: FaultStub, store: GCSStore) -> None:
    stub.script(Op.PART, Fault.ERROR_503_BEFORE, forever=True)
    assert isinstance(stage(store, b"x" * 2 * CHUNK), TryAgain)
    assert stub.ops == [Op.CREATE_UPLOAD, *[Op.PART] * 5, Op.ABORT]
    assert stub.uploads == {}


def taken(upto: int) -> Reply:
    return Reply(308, {"Range": f"bytes=0-{upto}"})


def test_what_a_session_did_not_take_is_sent_again() -> None:
    data = os.urandom(CHUNK + 100)
    opened = Reply(200, {"Location": ""})
    replies = [opened, Reply(308), taken(99), taken(CHUNK - 1), taken(CHUNK + 9), MADE]
    with Scripted(*replies) as server:
        opened.headers["Location"] = f"{server.url}/session"  # type: ignore[index]
        store = store_at(server.url)
        assert store.complete(stage(store, data)) == Created("7")
    sent = [(asked.headers.get("Content-Range"), asked.body) for asked in server.asked[1:]]
    assert sent == [
        (f"bytes 0-{CHUNK - 1}/*", data[:CHUNK]),
        (f"bytes 0-{CHUNK - 1}/*", data[:CHUNK]),
        (f"bytes 100-{CHUNK - 1}/*", data[100:CHUNK]),
        (f"bytes {CHUNK}-{CHUNK + 99}/{CHUNK + 100}", data[CHUNK:]),
        (f"bytes {CHUNK + 10}-{CHUNK + 99}/{CHUNK + 100}", data[CHUNK + 10 :]),
    ]


@pytest.mark.parametrize("had", [Reply(308), taken(CHUNK - 1)], ids=["nothing", "no more than before"])
def test_a_session_that_has_lost_its_bytes_is_gone(had: Reply) -> None:
    opened = Reply(200, {"Location": ""})
    with Scripted(opened, taken(CHUNK - 1), had) as server:
        opened.headers["Location"] = f"{server.url}/session"  # type: ignore[index]
        store = store_at(server.url)
        assert store.complete(stage(store, b"x" * (CHUNK + 100))) == Gone()


@pytest.mark.parametrize("fault", [Fault.DROP_AFTER_APPLY, Fault.ERROR_503_AFTER])
def test_a_completion_whose_answer_was_lost_can_be_repeated(
    stub: FaultStub, store: GCSStore, fault: Fault
) -> None:
    staged = stage(store, b"x" * 2 * CHUNK)
    stub.script(Op.COMPLETE, fault)
    assert isinstance(store.complete(staged), Maybe)
    assert stub.ops.count(Op.COMPLETE) == 1
    assert isinstance(store.complete(staged), Created)
    assert len(stub.history["bucket", "t/name"]) == 1


def test_a_completion_that_found_the_name_taken_is_over(stub: FaultStub, store: GCSStore) -> None:
    staged = stage(store, b"mine")
    stub.put("bucket", "t/name", b"another's")
    assert store.complete(staged) == Exists()
    stub.delete("bucket", "t/name")
    # Whatever the session would say now: it is staged anew.
    assert store.complete(staged) == Gone()
    assert stub.ops.count(Op.COMPLETE) == 1


@pytest.mark.parametrize("op", [Op.CREATE_UPLOAD, Op.PART])
def test_a_name_that_is_taken_before_the_end_ends_the_staging(
    stub: FaultStub, store: GCSStore, op: Op
) -> None:
    stub.script(op, Fault.PRECONDITION_412)
    staged = stage(store, b"x" * 2 * CHUNK)
    assert isinstance(staged, Staged)
    assert store.complete(staged) == Gone()
    store.discard(staged)
    assert stub.uploads == {}


@pytest.mark.parametrize("op", [Op.PART, Op.COMPLETE])
def test_a_session_that_is_gone_is_begun_anew(stub: FaultStub, store: GCSStore, op: Op) -> None:
    stub.script(op, Fault.NO_SUCH_UPLOAD)
    staged = stage(store, b"x" * 2 * CHUNK)
    if op is Op.PART:
        assert isinstance(staged, TryAgain)
    else:
        assert store.complete(staged) == Gone()


@pytest.mark.parametrize("op", [Op.CREATE_UPLOAD, Op.PART])
def test_a_refused_staging_leaves_no_session(stub: FaultStub, store: GCSStore, op: Op) -> None:
    stub.script(op, Fault.FORBIDDEN_403)
    outcome = stage(store, b"x" * 2 * CHUNK)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)
    assert stub.uploads == {}


def test_an_interrupted_staging_leaves_no_session(stub: FaultStub, store: GCSStore) -> None:
    class Interrupted(Watched):
        def read(self, start: int, stop: int) -> bytes:
            if start:
                raise KeyboardInterrupt
            return super().read(start, stop)

    with pytest.raises(KeyboardInterrupt):
        store.stage(NAME, Interrupted(b"x" * 2 * CHUNK), creation_of(NAME))
    assert stub.uploads == {}


def test_a_body_that_cannot_be_read_is_refused(stub: FaultStub, store: GCSStore) -> None:
    class Unreadable(Watched):
        def read(self, start: int, stop: int) -> bytes:
            raise OSError("it became shorter")

    body = Unreadable(b"x" * 2 * CHUNK)
    for outcome in (store.create(NAME, body, creation_of(NAME)), store.stage(NAME, body, creation_of(NAME))):
        assert isinstance(outcome, Refused)
        assert "shorter" in str(outcome.error)
    assert stub.uploads == {}


def test_a_copy_is_of_one_generation(stub: FaultStub, store: GCSStore) -> None:
    data = os.urandom(2 * CHUNK + 7)
    source = stub.put("bucket", "t/source", data)
    staged = store.stage_copy("bucket/t/source", len(data), str(source.generation), NAME, creation_of(NAME))
    assert isinstance(staged, Staged)
    # What was read stays read.
    stub.delete("bucket", "t/source")
    assert isinstance(store.complete(staged), Created)
    assert stub.objects["bucket", "t/name"].data == data
    reads = [request for request in stub.requests if request.op is Op.GET]
    assert [request.query["generation"] for request in reads] == [str(source.generation)] * 3


def test_a_copy_whose_source_goes_meanwhile_leaves_no_session(stub: FaultStub, store: GCSStore) -> None:
    source = stub.put("bucket", "t/source", b"x" * 2 * CHUNK)
    stub.delete("bucket", "t/source")
    outcome = store.stage_copy("bucket/t/source", 2 * CHUNK, str(source.generation), NAME, creation_of(NAME))
    assert outcome == Absent()
    assert stub.uploads == {}


def test_a_copy_in_several_steps_is_one_creation() -> None:
    step = {"done": False, "rewriteToken": "further"}
    last = {"done": True, "resource": {"generation": "9"}}
    with Scripted(*(Reply(200, body=json.dumps(told).encode()) for told in (step, last))) as server:
        creation = creation_of(NAME, acl="private")
        assert store_at(server.url).copy("bucket/a b", NAME, creation) == Created("9")
    first, second = server.asked
    assert first.path.startswith("/storage/v1/b/bucket/o/a%20b/rewriteTo/b/bucket/o/t%2Fname?")
    assert "rewriteToken" not in first.path
    assert "rewriteToken=further" in second.path
    for asked in (first, second):
        assert "ifGenerationMatch=0" in asked.path
        assert "destinationPredefinedAcl=private" in asked.path
        assert json.loads(asked.body)["metadata"]["putifabsenttoken"] == creation.token


# --- building it


def test_building_a_store_asks_nobody(nobody: str) -> None:
    assert store_at(nobody).endpoint() == nobody


def test_google_s_own_endpoint_is_the_default() -> None:
    store = GCSStore(GCSFileSystem(token="anon", skip_instance_cache=True), {}, 30)
    assert store.endpoint() == "https://storage.googleapis.com"


# --- a real server


@pytest.mark.servers
@pytest.mark.parametrize("how", ["create", "complete"])
def test_of_64_threads_one_creates_each_name(how: Literal["create", "complete"]) -> None:
    with FakeGCS() as server:
        bucket = server.new_bucket()
        store = store_at(server.endpoint)
        size = 100 if how == "create" else 2 * CHUNK + 100
        names = [f"{bucket}/{number}" for number in range(20)]
        done = race(lambda: through_made_store(lambda: store, how), names, threads=64, size=size)
        assert done.problems(ThroughTheStore(store).read) == []
        assert done.errors == ()
