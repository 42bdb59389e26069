"""Large bodies on S3: one object's bytes or none, and no upload that nobody knows of."""

from __future__ import annotations

import asyncio
import socket
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.asyn import sync
from s3fs import S3FileSystem
from s3fs.utils import ParamKwargsHelper

from putifabsent.backends import aws_session, s3_client
from putifabsent.backends.base import Absent, Body, Created, Found, InMemory, Maybe, Refused, Staged, TryAgain
from putifabsent.backends.s3 import S3Store
from putifabsent.backends.streaming_upload import FileBody
from putifabsent.errors import ConfigError
from putifabsent.testing.races import creation_of
from tests.backends.s3_stores import made_store, maker
from tests.backends.scripted import Reply, Scripted
from tests.stub import Fault, FaultStub, Op, Step

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stub import State

NAME = "bucket/t/name"
SOURCE = "bucket/t/source"
PART = 5 * 2**20


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("PART", "_COPIED_PART"):
        monkeypatch.setattr(s3_client, each, PART)


@pytest.fixture(scope="module")
def store(running: FaultStub) -> S3Store:
    return made_store(running.storage_options("s3"))


def stage(store: S3Store, parts: int = 3, *, name: str = NAME) -> Any:
    return store.stage(name, InMemory(b"x" * parts * PART), creation_of(name))


def stage_copy(store: S3Store, version: str | None = None, *, name: str = NAME) -> Any:
    seen = store.head(SOURCE)
    assert isinstance(seen, Found)
    return store.stage_copy(SOURCE, seen.holder.size, version or seen.holder.version, name, creation_of(name))


# --- the source of a copy


def replaced(state: State) -> None:
    state.put("bucket", "t/source", b"2" * 3 * PART)


def test_a_source_that_is_replaced_between_two_parts_is_absent(stub: FaultStub, store: S3Store) -> None:
    stub.put("bucket", "t/source", b"1" * 3 * PART)
    stub.script(Op.PART_COPY, None, Step(before=replaced))
    assert stage_copy(store) == Absent()
    assert stub.uploads == {}


@pytest.mark.parametrize("fault", [Fault.PRECONDITION_412, Fault.PRECONDITION_412_BARE])
def test_a_copy_whose_condition_is_not_met_has_no_source(
    stub: FaultStub, store: S3Store, fault: Fault
) -> None:
    stub.put("bucket", "t/source", b"1" * 3 * PART)
    stub.script(Op.PART_COPY, None, fault)
    assert stage_copy(store) == Absent()
    assert stub.uploads == {}


def test_a_source_of_another_size_than_was_seen_is_absent(stub: FaultStub, store: S3Store) -> None:
    stub.put("bucket", "t/source", b"1" * 3 * PART)
    outcome = store.stage_copy(SOURCE, 3 * PART - 1, None, NAME, creation_of(NAME))
    assert outcome == Absent()
    assert Op.CREATE_UPLOAD not in stub.ops


def test_a_source_without_an_entity_tag_is_refused() -> None:
    size = {"Content-Length": "7", "Last-Modified": "Sat, 21 Nov 2026 10:00:00 GMT", "x-amz-request-id": "1"}
    with Scripted(Reply(200, size)) as server:
        store = made_store({"key": "k", "secret": "s", "endpoint_url": server.url})
        assert isinstance(store.stage_copy(SOURCE, 7, None, NAME, creation_of(NAME)), Refused)


def test_each_part_of_a_copy_says_which_object_it_is_of(stub: FaultStub, store: S3Store) -> None:
    etag = stub.put("bucket", "t/source", b"1" * 3 * PART).etag
    assert isinstance(store.complete(stage_copy(store)), Created)
    said = [r.headers["x-amz-copy-source-if-match"] for r in stub.requests if r.op is Op.PART_COPY]
    assert said == [f'"{etag}"'] * 3


def test_a_version_is_pinned_by_its_name() -> None:
    with FaultStub(versioned=True) as stub:
        stub.put("bucket", "t/source", b"1" * 3 * PART)
        store = made_store(stub.storage_options("s3"))
        stub.script(Op.PART_COPY, None, Step(before=replaced))
        assert isinstance(store.complete(stage_copy(store)), Created)
        assert stub.objects["bucket", "t/name"].data == b"1" * 3 * PART
        assert stub.ops.count(Op.HEAD) == 1


def test_a_condition_that_an_older_botocore_does_not_know_is_not_left_out(
    stub: FaultStub, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.put("bucket", "t/source", b"mine")
    stub.put("bucket", "t/name", b"another's")
    known = {"Bucket", "Key", "UploadId", "MultipartUpload"}
    monkeypatch.setitem(ParamKwargsHelper._kwarg_cache, "CompleteMultipartUpload", known)
    assert isinstance(store.complete(stage_copy(store)), Refused)
    assert stub.objects["bucket", "t/name"].data == b"another's"


# --- answers that say nothing


def nothing_said(request: str, store_in: Callable[[str], S3Store]) -> Any:
    with Scripted(Reply(200)) as server:
        store = store_in(server.url)
        if request == "publish":
            return store.publish(SOURCE, NAME, creation_of(NAME))
        if request == "put":
            return store.create(NAME, InMemory(b"x"), creation_of(NAME))
        part = {"PartNumber": 1, "ETag": '"e"'}
        return store.complete(Staged(NAME, s3_client.Upload("bucket", "t/name", "upload", [part])))


@pytest.mark.parametrize("request_", ["put", "publish", "complete"])
def test_an_empty_success_may_be_anything(request_: str) -> None:
    def store_in(url: str) -> S3Store:
        return maker({"key": "k", "secret": "s", "endpoint_url": url}, "full")()

    assert isinstance(nothing_said(request_, store_in), Maybe)


# --- what goes with each request of an upload

OWN_KEY = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
CHECKSUM = {"ChecksumAlgorithm": "SHA256"}


@pytest.mark.parametrize(("given", "by_mount"), [(OWN_KEY, True), (CHECKSUM, True), (CHECKSUM, False)])
@pytest.mark.parametrize("of", ["bytes", "copy"])
def test_each_part_has_the_key_and_the_checksum_of_its_upload(
    stub: FaultStub, given: dict[str, str], by_mount: bool, of: str
) -> None:
    added = {"s3_additional_kwargs": given} if by_mount else {}
    store = made_store({**stub.storage_options("s3"), **added})
    creation = creation_of(NAME, **({} if by_mount else given))
    if of == "bytes":
        staged = store.stage(NAME, InMemory(b"x" * 2 * PART), creation)
    else:
        stub.put("bucket", "t/source", b"x" * 2 * PART)
        staged = store.stage_copy(SOURCE, 2 * PART, None, NAME, creation)
    assert isinstance(staged, Staged)
    assert isinstance(store.complete(staged), Created)
    assert stub.objects["bucket", "t/name"].data == b"x" * 2 * PART


def test_a_completion_and_a_removal_say_of_what_was_given_what_they_know(
    stub: FaultStub,
) -> None:
    store = made_store({**stub.storage_options("s3"), "s3_additional_kwargs": OWN_KEY})
    creation = creation_of(NAME, ExpectedBucketOwner="1" * 12, CacheControl="no-store")
    staged = store.stage(NAME, InMemory(b"x" * PART), creation)
    assert isinstance(staged, Staged)
    store.complete(staged)
    store.discard(staged)
    said = [set(request.headers) for request in stub.requests if request.op in (Op.COMPLETE, Op.ABORT)]
    key, owner = "x-amz-server-side-encryption-customer-key", "x-amz-expected-bucket-owner"
    assert [{key, owner, "cache-control"} & each for each in said] == [{key, owner}, {owner}]


def test_a_customer_s_key_of_the_mount_goes_with_each_look(stub: FaultStub) -> None:
    store = made_store({**stub.storage_options("s3"), "s3_additional_kwargs": OWN_KEY})
    assert isinstance(store.create(NAME, InMemory(b"x"), creation_of(NAME, **OWN_KEY)), Created)
    store.head(NAME)
    store.get(NAME)
    store.time(NAME)
    key = "x-amz-server-side-encryption-customer-key"
    assert [key in request.headers for request in stub.requests] == [True] * 4


@pytest.mark.parametrize("of_mount", [{}, {**OWN_KEY, "SSECustomerKey": "o" * 32}], ids=["none", "another"])
def test_a_customer_s_key_of_one_call_is_refused_before_any_request(
    stub: FaultStub, of_mount: dict[str, str]
) -> None:
    store = made_store({**stub.storage_options("s3"), "s3_additional_kwargs": of_mount})
    creation = creation_of(NAME, **OWN_KEY)
    for outcome in (
        store.create(NAME, InMemory(b"x"), creation),
        store.put(NAME, InMemory(b"x"), creation),
        store.stage(NAME, InMemory(b"x" * PART), creation),
    ):
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, ConfigError)
        assert "to the mount, in s3_additional_kwargs" in str(outcome.error)
    assert not stub.requests


# --- bodies that can't be read


class Unreadable(Body):
    def __init__(self, size: int) -> None:
        self.size = size

    def read(self, start: int, stop: int) -> bytes:
        raise OSError("it became shorter")


@pytest.mark.parametrize("lane", ["plain", "full"])
def test_a_body_that_cannot_be_read_is_refused(stub: FaultStub, lane: Any) -> None:
    store = maker(stub.storage_options("s3"), lane)()
    body, creation = Unreadable(3 * PART), creation_of(NAME)
    outcomes = [
        store.create(NAME, body, creation),
        asyncio.run(make_async(stub).create_async(NAME, body, creation)),
        store.stage(NAME, body, creation),
    ]
    for outcome in outcomes:
        assert isinstance(outcome, Refused)
        assert "shorter" in str(outcome.error)
    # No part was tried again, for what can't be read now can't be read then.
    assert stub.ops == [Op.CREATE_UPLOAD, Op.ABORT]
    assert stub.uploads == {}


def test_a_part_whose_answer_was_lost_is_sent_again(stub: FaultStub, store: S3Store) -> None:
    stub.script(Op.PART, None, Fault.DROP_AFTER_APPLY, Fault.ERROR_503_BEFORE)
    assert isinstance(store.complete(stage(store)), Created)
    assert stub.objects["bucket", "t/name"].data == b"x" * 3 * PART


def test_a_part_is_not_sent_for_ever(stub: FaultStub, store: S3Store) -> None:
    stub.script(Op.PART, Fault.ERROR_503_BEFORE, forever=True)
    assert isinstance(stage(store, parts=1), TryAgain)
    assert stub.ops == [Op.CREATE_UPLOAD, *[Op.PART] * 5, Op.ABORT]


# --- bodies for which 10,000 small parts are too few


def test_a_larger_body_has_larger_parts(
    stub: FaultStub, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_client, "_MOST_PARTS", 2)
    assert isinstance(store.complete(stage(store, parts=3)), Created)
    assert stub.objects["bucket", "t/name"].data == b"x" * 3 * PART
    sizes = [len(request.body) for request in stub.requests if request.op is Op.PART]
    assert sizes == [3 * PART / 2] * 2


def test_a_file_that_outgrows_its_parts_meanwhile_is_staged_anew(
    stub: FaultStub, store: S3Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In parts of one size again: R2 takes no others."""
    monkeypatch.setattr(s3_client, "_MOST_PARTS", 2)
    creation = creation_of(NAME)
    with (tmp_path / "file").open("w+b") as file:
        ahead = store.ahead(NAME, file, creation)
        assert ahead is not None
        file.write(b"x" * 3 * PART)
        file.flush()
        ahead.grown(3 * PART)
        staged: Any = store.stage(NAME, FileBody(file, ahead), creation)
        assert isinstance(store.complete(staged), Created)
    assert stub.objects["bucket", "t/name"].data == b"x" * 3 * PART
    assert stub.ops.count(Op.ABORT) == 1
    sizes = [len(request.body) for request in stub.requests if request.op is Op.PART]
    assert sizes[-2:] == [3 * PART / 2] * 2
    assert stub.uploads == {}


# --- interruptions


def make_async(stub: FaultStub) -> S3Store:
    options = {**stub.storage_options("s3"), "asynchronous": True, "skip_instance_cache": True}
    return made_store(options)


@pytest.fixture
def interrupted(
    stub: FaultStub, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Op, Callable[[str], Any]], None]:
    """Do something with a name, and raise what Ctrl-C raises once a request for that name has arrived.

    The name is of this test alone: a request that an earlier one gave up may still be on its way.
    """
    key = f"t/{uuid.uuid4()}"

    def run(op: Op, work: Callable[[str], Any]) -> None:
        calls = []

        def interrupting(loop: asyncio.AbstractEventLoop, *arguments: Any, **options: Any) -> Any:
            calls.append(arguments)
            if len(calls) > 1:
                return sync(loop, *arguments, **options)
            asyncio.run_coroutine_threadsafe(arguments[0](), loop)
            stub.wait_for(op, key=key)
            raise KeyboardInterrupt

        monkeypatch.setattr("putifabsent.backends.interrupt.sync", interrupting)
        with pytest.raises(KeyboardInterrupt):
            work(f"bucket/{key}")

    return run


def test_an_interrupted_staging_leaves_no_upload(
    stub: FaultStub, store: S3Store, interrupted: Callable[..., None]
) -> None:
    stub.script(Op.PART, Fault.TIMEOUT_AFTER_APPLY, forever=True)
    interrupted(Op.PART, lambda name: stage(store, name=name))
    assert stub.ops.count(Op.ABORT) == 1
    assert stub.uploads == {}


def test_an_interruption_does_not_wait_for_a_store_that_never_answers(
    stub: FaultStub, store: S3Store, interrupted: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("putifabsent.backends.s3._PATIENCE", 0.1)
    for op in (Op.PART, Op.ABORT):
        stub.script(op, Fault.TIMEOUT_AFTER_APPLY, forever=True)
    interrupted(Op.PART, lambda name: stage(store, name=name))
    # It was asked to once, and has not answered: the first wait for an answer is 30 seconds long.
    stub.wait_for(Op.ABORT)
    assert stub.ops.count(Op.ABORT) == 1


def test_an_interrupted_staging_of_a_copy_leaves_no_upload(
    stub: FaultStub, store: S3Store, interrupted: Callable[..., None]
) -> None:
    stub.put("bucket", "t/source", b"x" * 3 * PART)
    stub.script(Op.PART_COPY, Fault.TIMEOUT_AFTER_APPLY, forever=True)
    interrupted(Op.PART_COPY, lambda name: stage_copy(store, name=name))
    assert stub.uploads == {}


def test_an_upload_that_is_just_being_opened_is_not_left_open(
    stub: FaultStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled() -> None:
        store = make_async(stub)
        staging = asyncio.ensure_future(store.stage_async(NAME, InMemory(b"x" * PART), creation_of(NAME)))
        await asyncio.to_thread(stub.wait_for, Op.CREATE_UPLOAD)
        staging.cancel()
        await asyncio.sleep(0)
        stub.release()
        with pytest.raises(asyncio.CancelledError):
            await staging

    monkeypatch.setattr(s3_client, "_PATIENCE", None)
    stub.script(Op.CREATE_UPLOAD, Fault.TIMEOUT_AFTER_APPLY)
    asyncio.run(cancelled())
    assert stub.ops == [Op.CREATE_UPLOAD, Op.ABORT]
    assert stub.uploads == {}


def test_what_was_staged_when_the_interruption_came_is_discarded(
    stub: FaultStub, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when all parts have been sent, and nobody has heard of it yet."""
    calls = []

    def interrupted_at_the_end(*arguments: Any, **options: Any) -> Any:
        outcome = sync(*arguments, **options)
        calls.append(outcome)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return outcome

    monkeypatch.setattr("putifabsent.backends.interrupt.sync", interrupted_at_the_end)
    with pytest.raises(KeyboardInterrupt):
        stage(store)
    assert isinstance(calls[0], Staged)
    assert stub.uploads == {}
    assert stub.ops[-1] is Op.ABORT


# --- time


def waited(store: S3Store) -> tuple[float, float]:
    """What the second client's requests wait for, in seconds: to connect, and for each answer."""
    fs: S3FileSystem = store._sender.fs
    fs.connect()
    config = fs.s3.meta.config
    return config.connect_timeout, config.read_timeout


def test_no_request_is_waited_for_longer_than_the_deadline(stub: FaultStub) -> None:
    options = stub.storage_options("s3")
    assert waited(S3Store(S3FileSystem(**options), options, deadline=2)) == (2, 2)
    assert waited(S3Store(S3FileSystem(**options), options, deadline=60)) == (5, 60)


def test_the_user_has_the_last_word_on_the_time_outs(stub: FaultStub) -> None:
    said = {"connect_timeout": 7, "read_timeout": 9}
    options = {**stub.storage_options("s3"), "config_kwargs": said}
    assert waited(S3Store(S3FileSystem(**options), options, deadline=2)) == (7, 9)


def test_a_deadline_of_months_is_waited_for(stub: FaultStub) -> None:
    options = {**stub.storage_options("s3"), "requester_pays": True}  # which only the second client knows
    store = S3Store(S3FileSystem(**options), options, deadline=1e7)
    assert isinstance(store.create(NAME, InMemory(b"x"), creation_of(NAME)), Created)


def test_the_user_s_sockets_are_taken(stub: FaultStub) -> None:
    """As some are made to be kept alive."""
    made: list[object] = []

    def make(address: tuple[Any, ...]) -> socket.socket:
        made.append(address)
        return socket.socket(*address[:3])

    own = {"requester_pays": True, "config_kwargs": {"connector_args": {"socket_factory": make}}}
    options = {**stub.storage_options("s3"), **own}
    store = S3Store(S3FileSystem(**options), options, deadline=2)
    for number in range(2):
        store.create(f"{NAME}{number}", InMemory(b"x"), creation_of(NAME))
    assert len(made) == 1


def test_a_slow_line_is_no_time_out(stub: FaultStub) -> None:
    """Of the client for small bodies, a limit for all of a request would be one."""
    options = stub.storage_options("s3")
    store = S3Store(S3FileSystem(**options), options, deadline=2)
    fast = store._fast.bucket("bucket", "key")
    assert fast is not None
    limits = fast._bucket.client_options
    assert limits is not None
    assert (limits["read_timeout"], limits["timeout"]) == ("2s", "1day")
    store.create(NAME, InMemory(bytes(2**21 + 1)), creation_of(NAME))
    assert "aiobotocore" in stub.requests[-1].headers["user-agent"]


@pytest.mark.parametrize("size", [1, 12 * 2**20], ids=["at the body", "in the body"])
def test_a_server_that_takes_no_more_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(aws_session, "_CONTINUE", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        said = {"key": "k", "secret": "s", "endpoint_url": address, "requester_pays": True}
        store = S3Store(S3FileSystem(**said), said, deadline=0.3)
        assert isinstance(store.create(NAME, InMemory(bytes(size)), creation_of(NAME)), Maybe)
