"""Large bodies on Azure: nothing is readable before the end, and no lost answer spoils a byte."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

import pytest
from adlfs.spec import AzureBlobFile
from azure.storage.blob import BlobServiceClient

from putifabsent.backends import azure
from putifabsent.backends.base import (
    Absent,
    Created,
    Exists,
    Found,
    Gone,
    InMemory,
    Maybe,
    Refused,
    Staged,
    TryAgain,
)
from putifabsent.testing.races import creation_of
from tests.backends.azure_stores import (
    BLOCK,
    NAME,
    connection,
    create,
    error,
    stage,
    store_at,
)
from tests.backends.on_stub import Watched
from tests.backends.scripted import Reply, Scripted
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from putifabsent.backends.azure import AzureStore


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure, "_BLOCK", BLOCK)


@pytest.fixture
def store(stub: FaultStub) -> AzureStore:
    return store_at(stub.url("azure"))


def test_a_large_body_is_read_a_block_at_a_time(stub: FaultStub, store: AzureStore) -> None:
    body = Watched(os.urandom(3 * BLOCK + 5))
    staged = store.stage(NAME, body, creation_of(NAME))
    assert sorted(body.sizes) == [5, BLOCK, BLOCK, BLOCK]
    assert isinstance(staged, Staged)
    assert isinstance(store.complete(staged), Created)
    assert len(body.sizes) == 4


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_the_list_alone_creates(stub: FaultStub, store: AzureStore, size: int) -> None:
    data = os.urandom(size)
    staged = stage(store, data)
    assert stub.objects == {}
    assert isinstance(store.complete(staged), Created)
    assert stub.objects["bucket", "t/name"].data == data
    assert stub.requests[-1].headers["if-none-match"] == "*"


def test_no_two_stagings_have_a_block_in_common(stub: FaultStub, store: AzureStore) -> None:
    """Not even of one creation: a late block of the first must not get into the second."""
    creation = creation_of(NAME)
    for _ in range(2):
        store.stage(NAME, InMemory(b"x" * 3 * BLOCK), creation)
    blocks = [base64.b64decode(request.query["blockid"]) for request in stub.requests]
    assert len(set(blocks)) == len(blocks) == 6
    # adlfs' own have the same length: a name takes only blocks whose ids are equally long.
    assert {len(block) for block in blocks} == {len(AzureBlobFile._get_block_id())}


def test_of_two_writers_the_bytes_are_never_mixed(stub: FaultStub, store: AzureStore) -> None:
    first, second = stage(store, b"1" * 3 * BLOCK), stage(store, b"2" * 3 * BLOCK)
    assert isinstance(store.complete(second), Created)
    assert isinstance(store.complete(first), (Exists, Gone))
    assert stub.objects["bucket", "t/name"].data == b"2" * 3 * BLOCK


def test_blocks_that_another_put_has_thrown_away_are_gone(stub: FaultStub, store: AzureStore) -> None:
    staged = stage(store, b"mine")
    create(store, b"another's")
    store.delete(NAME)
    assert store.complete(staged) == Gone()


@pytest.mark.parametrize(
    "fault",
    [Fault.DROP_AFTER_APPLY, Fault.DROP_BEFORE_APPLY, Fault.ERROR_500_AFTER, Fault.ERROR_503_BEFORE],
)
def test_a_block_whose_answer_was_lost_is_sent_again(
    stub: FaultStub, store: AzureStore, fault: Fault
) -> None:
    data = os.urandom(3 * BLOCK)
    stub.script(Op.PART, None, fault)
    assert isinstance(store.complete(stage(store, data)), Created)
    assert stub.objects["bucket", "t/name"].data == data
    assert stub.ops.count(Op.PART) == 4


def test_a_block_is_not_sent_for_ever(stub: FaultStub, store: AzureStore) -> None:
    stub.script(Op.PART, Fault.ERROR_503_BEFORE, forever=True)
    assert isinstance(stage(store, b"mine"), TryAgain)
    assert stub.ops == [Op.PART] * 5


def test_a_refused_block_refuses_the_staging(stub: FaultStub, store: AzureStore) -> None:
    stub.script(Op.PART, None, Fault.FORBIDDEN_403)
    outcome = stage(store, b"x" * 3 * BLOCK)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)


def test_after_a_refused_block_the_others_are_not_sent(
    stub: FaultStub, store: AzureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure, "_BLOCK", 10)
    stub.script(Op.PART, Fault.FORBIDDEN_403, forever=True)
    assert isinstance(stage(store, bytes(10 * 1000)), Refused)
    assert stub.ops.count(Op.PART) < 500


def test_loose_blocks_of_another_program_are_named(stub: FaultStub, store: AzureStore) -> None:
    """The service takes only blocks with ids of one length under a name."""
    client = BlobServiceClient.from_connection_string(connection(stub.url("azure")))
    client.get_blob_client("bucket", "t/name").stage_block("short", b"x")
    outcome = stage(store, b"mine")
    assert isinstance(outcome, Refused)
    assert "another program" in str(outcome.error)
    # A single put replaces all that.
    assert isinstance(create(store), Created)


@pytest.mark.parametrize("fault", [Fault.DROP_AFTER_APPLY, Fault.ERROR_503_AFTER])
def test_a_commit_whose_answer_was_lost_is_one_request(
    stub: FaultStub, store: AzureStore, fault: Fault
) -> None:
    staged = stage(store, b"x" * 2 * BLOCK)
    stub.script(Op.COMPLETE, fault)
    assert isinstance(store.complete(staged), Maybe)
    assert stub.ops.count(Op.COMPLETE) == 1
    assert isinstance(store.complete(staged), (Exists, Gone))
    assert len(stub.history["bucket", "t/name"]) == 1


def test_a_commit_that_never_arrived_can_be_repeated(stub: FaultStub, store: AzureStore) -> None:
    staged = stage(store, b"x" * 2 * BLOCK)
    stub.script(Op.COMPLETE, Fault.DROP_BEFORE_APPLY)
    assert isinstance(store.complete(staged), Maybe)
    assert isinstance(store.complete(staged), Created)


def test_a_commit_without_an_entity_tag_may_be_anything() -> None:
    """Some proxy's answer: the service's own has one."""
    with Scripted(Reply(201), Reply(201)) as server:
        store = store_at(server.url)
        assert isinstance(store.complete(stage(store, b"mine")), Maybe)


def test_a_leased_blob_ends_the_staging() -> None:
    with Scripted(error(412, "LeaseIdMissing")) as server:
        store = store_at(server.url)
        staged = stage(store, b"mine")
        assert isinstance(staged, Staged)
        assert store.complete(staged) == Gone()
        assert len(server.asked) == 1


def test_a_body_that_cannot_be_read_is_refused(stub: FaultStub, store: AzureStore) -> None:
    class Unreadable(Watched):
        def read(self, start: int, stop: int) -> bytes:
            raise OSError("it became shorter")

    body = Unreadable(b"x" * 2 * BLOCK)
    for outcome in (store.create(NAME, body, creation_of(NAME)), store.stage(NAME, body, creation_of(NAME))):
        assert isinstance(outcome, Refused)
        assert "shorter" in str(outcome.error)
    assert stub.ops == []


def test_a_copy_is_of_one_entity_tag(stub: FaultStub, store: AzureStore) -> None:
    data = os.urandom(2 * BLOCK + 7)
    stub.put("bucket", "t/source", data)
    seen = store.head("bucket/t/source")
    assert isinstance(seen, Found)
    staged = store.stage_copy("bucket/t/source", len(data), seen.holder.version, NAME, creation_of(NAME))
    assert isinstance(staged, Staged)
    stub.delete("bucket", "t/source")
    assert isinstance(store.complete(staged), Created)
    assert stub.objects["bucket", "t/name"].data == data
    reads = [request for request in stub.requests if request.op is Op.GET]
    assert [request.headers["if-match"] for request in reads] == [seen.holder.version] * 3


def test_a_copy_whose_source_is_refused_is_refused(stub: FaultStub, store: AzureStore) -> None:
    stub.put("bucket", "t/source", b"x")
    stub.script(Op.GET, Fault.FORBIDDEN_403)
    outcome = store.stage_copy("bucket/t/source", 1, None, NAME, creation_of(NAME))
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)


def test_a_copy_of_a_replaced_source_is_absent(stub: FaultStub, store: AzureStore) -> None:
    stub.put("bucket", "t/source", b"x")
    assert store.stage_copy("bucket/t/source", 1, '"0xOLD"', NAME, creation_of(NAME)) == Absent()
