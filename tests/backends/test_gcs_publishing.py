"""What GCS hears of a put and of a publication, and what its answers mean."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from putifabsent.backends import gcs
from putifabsent.backends.base import Absent, InMemory, Maybe, Refused, TryAgain, Written
from putifabsent.backends.gcs import GCSStore
from putifabsent.testing import PublishTests, StoreTests
from putifabsent.testing.races import creation_of
from tests.backends.answers import each_answer
from tests.backends.gcs_stores import CHUNK, NAME, store_at
from tests.backends.scripted import Reply, Scripted
from tests.servers import FakeGCS
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = "bucket/t/.putifabsent/name~salt"
KEY = SOURCE.partition("/")[2]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs, "_CHUNK", CHUNK)
    monkeypatch.setattr(GCSStore, "largest_put", CHUNK)


@pytest.fixture
def store(stub: FaultStub) -> GCSStore:
    return store_at(stub.url("gcs"))


def put(store: GCSStore, data: bytes = b"mine", name: str = SOURCE, **extra: Any) -> Any:
    return store.put(name, InMemory(data), creation_of(NAME, **extra))


def publish(store: GCSStore, name: str = NAME, **extra: Any) -> Any:
    return store.publish(SOURCE, name, creation_of(NAME, **extra))


@each_answer
def test_each_put_is_one_request_on_the_wire(
    stub: FaultStub, store: GCSStore, fault: Fault, meaning: type
) -> None:
    put(store, name="bucket/t/before")  # so that the connection is one that the server has kept open
    stub.script(Op.PUT, fault)
    assert isinstance(put(store), meaning)
    assert stub.ops == [Op.PUT, Op.PUT]
    assert "ifGenerationMatch" not in stub.requests[-1].query
    assert (("bucket", KEY) in stub.objects) == fault.applies


@each_answer
def test_each_publication_is_one_request_on_the_wire(
    stub: FaultStub, store: GCSStore, fault: Fault, meaning: type
) -> None:
    put(store)
    publish(store, "bucket/t/before")
    stub.script(Op.COPY, fault)
    assert isinstance(publish(store), meaning)
    assert stub.ops == [Op.PUT, Op.COPY, Op.COPY]
    assert "ifGenerationMatch" not in stub.requests[-1].query
    # With no resource, the source's own goes with it.
    assert stub.requests[-1].body == b""
    assert (("bucket", "t/name") in stub.objects) == fault.applies


def test_an_answer_that_does_not_come_in_time_is_lost(stub: FaultStub) -> None:
    store = store_at(stub.url("gcs"), requests_timeout=0.3)
    put(store)
    for op in (Op.PUT, Op.COPY):
        stub.script(op, Fault.TIMEOUT_AFTER_APPLY)
    assert isinstance(put(store), Maybe)
    assert isinstance(publish(store), Maybe)
    stub.release()
    assert stub.ops == [Op.PUT, Op.PUT, Op.COPY]


def test_a_missing_source_is_told_from_a_missing_bucket(stub: FaultStub, store: GCSStore) -> None:
    assert publish(store) == Absent()
    assert stub.ops == [Op.COPY, Op.HEAD]
    put(store)
    outcome = store.publish(SOURCE, "nowhere/name", creation_of(NAME))
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, FileNotFoundError)
    assert ("bucket", "t/name") not in stub.objects


def test_without_a_word_on_the_source_it_is_not_called_absent(stub: FaultStub, store: GCSStore) -> None:
    stub.script(Op.HEAD, Fault.ERROR_503_BEFORE, Fault.FORBIDDEN_403)
    assert isinstance(publish(store), TryAgain)
    outcome = publish(store)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)


def test_what_the_caller_adds_goes_with_the_put_and_with_the_copy(stub: FaultStub, store: GCSStore) -> None:
    extra: dict[str, Any] = {
        "metadata": {"who": "me"},
        "content_type": "text/plain",
        "acl": "bucketownerread",
        "kms_key_name": "projects/p/key",
    }
    creation = creation_of(NAME, **extra)
    assert isinstance(store.put(SOURCE, InMemory(b"mine"), creation), Written)
    assert isinstance(publish(store, **extra), Written)
    sent, copied = (request.query for request in stub.requests)
    assert (sent["predefinedAcl"], copied["destinationPredefinedAcl"]) == ("bucketOwnerRead",) * 2
    assert (sent["kmsKeyName"], copied["destinationKmsKeyName"]) == ("projects/p/key",) * 2
    published = stub.objects["bucket", "t/name"]
    marks = {"putifabsenttoken": creation.token, "putifabsentwriter": creation.writer}
    assert published.metadata == {"who": "me", **marks}
    assert published.content_type == "text/plain"


# --- a rewrite of several calls


def told(**answer: Any) -> Reply:
    return Reply(200, body=json.dumps(answer).encode())


UNDONE = told(done=False, rewriteToken="more")
DONE = told(done=True, resource={"generation": "9"})
SEEN = told(
    kind="storage#object", name="n", generation="7", size="5", timeCreated="2026-01-02T03:04:05Z", metadata={}
)
NOT_FOUND = Reply(404, body=json.dumps({"error": {"code": 404, "message": "Not Found"}}).encode())


def test_a_rewrite_of_several_calls_is_of_one_source(stub: FaultStub) -> None:
    with Scripted(UNDONE, SEEN, UNDONE, UNDONE, DONE) as server:
        assert publish(store_at(server.url)) == Written("9")
        first, look, *pinned = server.asked
    assert "sourceGeneration" not in first.path
    assert look.method == "GET"
    for asked in pinned:
        assert "sourceGeneration=7" in asked.path
        assert "ifSourceGenerationMatch=7" in asked.path
    # The first of them begins anew: its predecessor may have begun with another source.
    assert ["rewriteToken" in asked.path for asked in pinned] == [False, True, True]


@pytest.mark.parametrize(
    ("replies", "meaning"),
    [
        ((UNDONE, NOT_FOUND), Absent),
        ((UNDONE, SEEN, NOT_FOUND, NOT_FOUND), Absent),
        ((UNDONE, SEEN, UNDONE, NOT_FOUND, NOT_FOUND), Absent),
        ((UNDONE, SEEN, UNDONE, Reply(412)), Absent),
        ((UNDONE, SEEN, UNDONE, Reply(503)), Maybe),
        ((UNDONE, Reply(503)), TryAgain),
        ((Reply(412),), Refused),
        ((Reply(200, body=b"<html>welcome</html>"),), Maybe),
    ],
)
def test_a_source_that_goes_meanwhile_is_absent(replies: tuple[Reply, ...], meaning: type) -> None:
    with Scripted(*replies) as server:
        assert isinstance(publish(store_at(server.url)), meaning)
        assert len(server.asked) == len(replies)


# --- large bodies


LARGE = b"x" * (2 * CHUNK + 1)


def test_a_large_body_goes_in_chunks_and_its_last_one_once(stub: FaultStub, store: GCSStore) -> None:
    for data in (LARGE, LARGE[::-1] + b"y"):
        stub.requests.clear()
        assert isinstance(put(store, data), Written)
        assert stub.objects["bucket", KEY].data == data
    assert stub.ops[-4:] == [Op.CREATE_UPLOAD, Op.PART, Op.PART, Op.COMPLETE]
    assert "ifGenerationMatch" not in stub.requests[-4].query


@each_answer
def test_a_completion_that_failed_leaves_nothing_open(
    stub: FaultStub, store: GCSStore, fault: Fault, meaning: type
) -> None:
    stub.script(Op.COMPLETE, fault)
    assert isinstance(put(store, LARGE), meaning)
    assert stub.ops.count(Op.COMPLETE) == 1
    assert stub.uploads == {}
    assert bool(stub.objects) == fault.applies


def test_an_interrupted_put_leaves_nothing_open(stub: FaultStub, store: GCSStore) -> None:
    class Interrupted(InMemory):
        def read(self, start: int, stop: int) -> bytes:
            if start == CHUNK:
                raise KeyboardInterrupt
            return super().read(start, stop)

    with pytest.raises(KeyboardInterrupt):
        store.put(SOURCE, Interrupted(LARGE), creation_of(NAME))
    assert (stub.uploads, stub.objects) == ({}, {})


# --- the real server


@pytest.mark.servers
class TestOnFakeGCS(PublishTests):
    large: ClassVar[int] = 3 * CHUNK + 1

    colour, ask, around = StoreTests.colour, StoreTests.ask, StoreTests.around
    # It goes on to copy what is being deleted; a probe says so of it.
    test_a_slow_publisher_does_not_bring_back_what_was_deleted = None  # type: ignore[assignment]

    @pytest.fixture(scope="class")
    def server(self) -> Iterator[FakeGCS]:
        with FakeGCS() as running:
            yield running

    @pytest.fixture
    def store(self, server: FakeGCS) -> GCSStore:
        return store_at(server.endpoint)

    @pytest.fixture
    def folder(self, server: FakeGCS) -> str:
        return f"{server.new_bucket()}/{uuid.uuid4().hex}"
