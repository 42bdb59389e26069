"""Large bodies on GCS: nothing is readable before the end, and no lost answer spoils a byte."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from putifabsent.backends import gcs
from putifabsent.backends.base import (
    Absent,
    Created,
    Exists,
    Gone,
    Maybe,
    Refused,
    Staged,
    TryAgain,
)
from putifabsent.testing.races import creation_of
from tests.backends.gcs_stores import CHUNK, MADE, NAME, stage, store_at
from tests.backends.on_stub import Watched
from tests.backends.scripted import Reply, Scripted
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from putifabsent.backends.gcs import GCSStore


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs, "_CHUNK", CHUNK)


@pytest.fixture
def store(stub: FaultStub) -> GCSStore:
    return store_at(stub.url("gcs"))


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
    assert bool(stub.requests[-1].body) == bool(size)


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
