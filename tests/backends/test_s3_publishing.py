"""What S3 hears of a put and of a publication, and what its answers mean: on the stub, by either client."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.asyn import get_loop, sync

from putifabsent.backends import s3_client
from putifabsent.backends.base import (
    Absent,
    Exists,
    Found,
    Got,
    InMemory,
    Maybe,
    Refused,
    Staged,
    TryAgain,
    Written,
)
from putifabsent.backends.s3 import S3Store
from putifabsent.errors import ConfigError
from putifabsent.shim.requests import Create, Delete, Get, Head, List, Publish, Put
from putifabsent.testing import Ask
from putifabsent.testing.races import creation_of
from tests.backends.answers import each_answer
from tests.backends.s3_stores import made_store, maker
from tests.backends.scripted import Reply, Scripted
from tests.stub import Fault, FaultStub, Op

if TYPE_CHECKING:
    from putifabsent.backends.base import Body, Creation
    from tests.backends.s3_stores import Lane

NAME = "bucket/t/name"
SOURCE = "bucket/t/.putifabsent/name~salt"
PART = 5 * 2**20
LARGE = 2 * PART + 1


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_client, "PART", PART)
    monkeypatch.setattr(S3Store, "largest_put", PART)


@pytest.fixture(params=["plain", "full"])
def lane(request: pytest.FixtureRequest) -> Lane:
    lane: Lane = request.param
    return lane


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, store: S3Store) -> Ask:
    """In the lane of a store without options; a large body, and a copy, take the other one always."""
    return Ask(store, request.param)


@pytest.fixture
def ask_lane(ask: Ask, lane: Lane, stub: FaultStub) -> Ask:
    return ask.of(maker(stub.storage_options("s3"), lane)())


@pytest.fixture
def store(stub: FaultStub) -> S3Store:
    return made_store(stub.storage_options("s3"))


def put(data: bytes = b"mine", name: str = SOURCE) -> Put:
    return Put(name, InMemory(data), creation_of(NAME))


def publish(name: str = NAME) -> Publish:
    return Publish(SOURCE, name, creation_of(NAME))


# --- one request each


@each_answer
def test_each_put_is_one_request_on_the_wire(
    ask_lane: Ask, stub: FaultStub, fault: Fault, meaning: type
) -> None:
    ask_lane(put(name="bucket/t/before"))  # so that the connection is one that the server has kept open
    stub.script(Op.PUT, fault)
    assert isinstance(ask_lane(put()), meaning)
    assert stub.ops == [Op.PUT, Op.PUT]
    assert ("bucket", SOURCE.partition("/")[2]) in stub.objects or not fault.applies


@each_answer
def test_each_publication_is_one_request_on_the_wire(
    ask: Ask, stub: FaultStub, fault: Fault, meaning: type
) -> None:
    ask(put())
    ask(publish("bucket/t/before"))
    stub.script(Op.COPY, fault)
    assert isinstance(ask(publish()), meaning)
    assert stub.ops == [Op.PUT, Op.COPY, Op.COPY]
    assert (("bucket", "t/name") in stub.objects) == fault.applies


def test_an_answer_that_does_not_come_in_time_is_lost(stub: FaultStub, lane: Lane) -> None:
    options = {**stub.storage_options("s3"), "config_kwargs": {"read_timeout": 0.5}}
    ask = Ask(maker(options, lane)(), "sync")
    ask(put())
    stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)
    stub.script(Op.COPY, Fault.TIMEOUT_AFTER_APPLY)
    assert isinstance(ask(put()), Maybe)
    assert isinstance(ask(publish()), Maybe)
    stub.release()
    assert stub.ops == [Op.PUT, Op.PUT, Op.COPY]


def test_a_put_and_a_publication_ask_for_no_condition(ask_lane: Ask, stub: FaultStub) -> None:
    ask_lane(put())
    ask_lane(publish())
    for request in stub.requests:
        assert not {"if-match", "if-none-match"} & request.headers.keys()
    copy = stub.requests[1].headers
    assert copy["x-amz-copy-source"].endswith("/.putifabsent/name~salt")
    assert copy["x-amz-metadata-directive"] == "COPY"


# --- what a copy that failed means


def test_a_missing_source_is_absent_and_a_missing_bucket_is_refused(ask: Ask, stub: FaultStub) -> None:
    assert ask(publish()) == Absent()
    outcome = ask(publish("nowhere/t/name"))
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, FileNotFoundError)
    assert stub.objects == {}


NOT_FOUND = {
    "NoSuchKey": Absent,
    "NoSuchBucket": Refused,
    "": Maybe,
}


@pytest.mark.parametrize("code", NOT_FOUND)
def test_only_a_missing_key_is_an_absent_source(code: str) -> None:
    body = f"<Error><Code>{code}</Code></Error>".encode() if code else b""
    with Scripted(Reply(404, {"Content-Type": "application/xml"}, body)) as server:
        outcome = at(server).publish(SOURCE, NAME, creation_of(NAME))
        assert len(server.asked) == 1
    assert isinstance(outcome, NOT_FOUND[code])
    if isinstance(outcome, Refused):
        assert isinstance(outcome.error, FileNotFoundError)


@pytest.mark.parametrize("page", [b"404 page not found", b"<html>Not Found</html>"], ids=["text", "html"])
@pytest.mark.parametrize(
    ("asked", "meaning"),
    [
        (Create(NAME, InMemory(b"x"), creation_of(NAME)), Maybe),
        (put(), Maybe),
        (Delete(NAME), Maybe),
        (Get(NAME), TryAgain),
        (List("bucket/t"), TryAgain),
    ],
    ids=["create", "put", "delete", "get", "list"],
)
def test_a_404_without_a_word_of_s3_s_is_a_proxy_s_that_does_not_find_the_store(
    lane: Lane, asked: Any, meaning: type, page: bytes
) -> None:
    with Scripted(Reply(404, body=page)) as server:
        outcome = Ask(at(server, lane), "sync")(asked)
        assert len(server.asked) == 1
    assert isinstance(outcome, meaning)


TAGS = {"a web server's": '"x"', "an S3's": '"d41d8cd98f00b204e9800998ecf8427e"'}


def leads_to_a_page(status: int = 302, tag: str = '"x"') -> tuple[Reply, Reply]:
    """Return what a proxy answers, and the page: it has all that an object shows, but no token."""
    shows = {"ETag": tag, "Last-Modified": "Sun, 29 Nov 2026 05:00:00 GMT", "Content-Type": "text/html"}
    return Reply(status, {"Location": "/maintenance"}), Reply(200, shows, b"<html>later</html>")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "asked", [put(), Create(NAME, InMemory(b"x"), creation_of(NAME))], ids=["put", "create"]
)
def test_a_put_does_not_follow_a_redirect(asked: Any, status: int) -> None:
    with Scripted(*leads_to_a_page(status)) as server:
        assert isinstance(Ask(at(server, "full"), "sync")(asked), Maybe)
        assert len(server.asked) == 1


@pytest.mark.parametrize("tag", TAGS.values(), ids=TAGS)
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_page_that_a_redirect_leads_to_is_no_creation(colour: Any, tag: str) -> None:
    # obstore makes a look of a put there.
    with Scripted(*leads_to_a_page(303, tag), Reply(404)) as server:
        outcome = Ask(at(server), colour)(Create(NAME, InMemory(b"x"), creation_of(NAME)))
        assert [each.method for each in server.asked] == ["PUT", "GET", "HEAD"]
    assert isinstance(outcome, Maybe)


def test_what_a_gateway_says_of_its_own_connections_is_not_said_of_ours(lane: Lane) -> None:
    with Scripted(Reply(502, body=b"HttpError { kind: Connect, source: the third of 3 replicas }")) as server:
        outcome = Ask(at(server, lane), "sync")(Create(NAME, InMemory(b"x"), creation_of(NAME)))
    assert isinstance(outcome, Maybe)


def test_a_bucket_of_another_region_is_found_there() -> None:
    body = b"<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>"
    there = Reply(301, {"x-amz-bucket-region": "eu-west-1", "Location": "/maintenance"}, body)
    with Scripted(there, Reply(200, {"ETag": '"x"', "x-amz-request-id": "1"})) as server:
        assert isinstance(Ask(at(server, "full"), "sync")(put()), Written)
        assert [each.path for each in server.asked] == [f"/{SOURCE}"] * 2


def test_a_redirect_says_nothing_of_a_put(lane: Lane) -> None:
    # A proxy may lead to a page on its trouble when the store has applied it, and was too slow.
    with Scripted(*leads_to_a_page()) as server:
        assert isinstance(Ask(at(server, lane), "sync")(put()), Maybe)


@pytest.mark.parametrize("tag", TAGS.values(), ids=TAGS)
@pytest.mark.parametrize("asked", [Head(NAME), Get(NAME)], ids=["head", "get"])
def test_a_page_that_a_redirect_leads_to_is_no_object(asked: Any, lane: Lane, tag: str) -> None:
    elsewhere, there = leads_to_a_page(tag=tag)
    followed = [there, elsewhere] if lane == "plain" else []
    with Scripted(elsewhere, *followed) as server:
        assert isinstance(Ask(at(server, lane), "sync")(asked), TryAgain)
        assert len(server.asked) == 1 + len(followed)


@pytest.mark.parametrize(
    ("asked", "meaning"),
    [
        (Create(NAME, InMemory(b"x"), creation_of(NAME)), Maybe),
        (put(), Maybe),
        (Delete(NAME), Maybe),
        (Head(NAME), TryAgain),
        (Get(NAME), TryAgain),
    ],
    ids=["create", "put", "delete", "head", "get"],
)
def test_a_page_in_the_place_of_an_answer_is_a_proxy_s(lane: Lane, asked: Any, meaning: type) -> None:
    _, there = leads_to_a_page()
    with Scripted(there, there) as server:
        assert isinstance(Ask(at(server, lane), "sync")(asked), meaning)


@pytest.mark.parametrize("marks", [{"x-goog-generation": "1"}, {"x-amz-meta-putifabsenttoken": "t"}])
@pytest.mark.parametrize(
    ("asked", "meaning"),
    [(put(), Written), (Head(NAME), Found), (Get(NAME), Got)],
    ids=["put", "head", "get"],
)
def test_an_object_without_an_s3_s_entity_tag_is_known_by_other_marks(
    asked: Any, meaning: type, marks: dict[str, str]
) -> None:
    """Google's XML API tags what is composite otherwise, and gives a request no ID; nor does s3s."""
    shows = {"ETag": '"-CKicn4fknbUCEAE="', "Last-Modified": "Sun, 29 Nov 2026 05:00:00 GMT", **marks}
    with Scripted(Reply(200, shows)) as server:
        assert isinstance(Ask(at(server, "full"), "sync")(asked), meaning)


@pytest.mark.parametrize("asked", [Head(NAME), Get(NAME)], ids=["head", "get"])
def test_what_has_a_token_is_looked_at_once_whatever_its_entity_tag(asked: Any, lane: Lane) -> None:
    shows = {"Last-Modified": "Sun, 29 Nov 2026 05:00:00 GMT", "x-amz-meta-putifabsenttoken": "t"}
    with Scripted(Reply(200, {"ETag": '"0x8DC"', **shows}, b"mine")) as server:
        assert isinstance(Ask(at(server, lane), "sync")(asked), (Found, Got))
        assert len(server.asked) == 1


UPLOAD = b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"


@pytest.mark.parametrize("answers", [(), (Reply(200, body=UPLOAD),)], ids=["of the upload", "of a part"])
def test_a_page_in_the_place_of_an_upload_stages_nothing(answers: tuple[Reply, ...]) -> None:
    with Scripted(*answers, *[Reply(200, body=b"<html/>")] * 9) as server:
        assert isinstance(at(server).stage(NAME, InMemory(b"mine"), creation_of(NAME)), TryAgain)


def page(more: str) -> Reply:
    contents = "<Contents><Key>t/a</Key><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
    return Reply(200, body=f"<ListBucketResult>{contents}{more}</ListBucketResult>".encode())


@pytest.mark.parametrize(
    ("more", "pages"),
    [
        ("<IsTruncated>true</IsTruncated><NextMarker>t/a</NextMarker>", 1),
        ("<IsTruncated>true</IsTruncated><NextContinuationToken>1</NextContinuationToken>", 2),
    ],
    ids=["as ListObjects has it", "the same page again"],
)
def test_a_listing_that_does_not_say_where_it_goes_on_comes_to_an_end(more: str, pages: int) -> None:
    with Scripted(*[page(more)] * pages) as server:
        outcome = at(server).list("bucket/t")
        assert len(server.asked) == pages
    assert isinstance(outcome, Refused)
    assert "ListObjectsV2" in str(outcome.error)


@pytest.mark.parametrize("reply", [Reply(200), page("")], ids=["nothing", "no word of more"])
def test_what_is_no_listing_is_asked_for_again(reply: Reply) -> None:
    with Scripted(reply) as server:
        assert isinstance(at(server).list("bucket/t"), TryAgain)


def test_an_error_after_the_first_200_is_no_success() -> None:
    body = b"<Error><Code>NoSuchKey</Code><Message>gone meanwhile</Message></Error>"
    with Scripted(Reply(200, {"Content-Type": "application/xml"}, body)) as server:
        assert isinstance(at(server).publish(SOURCE, NAME, creation_of(NAME)), Maybe)


def test_an_answer_without_an_entity_tag_is_some_proxy_s() -> None:
    with Scripted(Reply(200, body=b"<CopyObjectResult></CopyObjectResult>")) as server:
        assert isinstance(at(server).publish(SOURCE, NAME, creation_of(NAME)), Maybe)


def test_a_source_that_is_too_large_to_copy_is_refused_in_s3_s_own_words() -> None:
    limit = (
        "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120"
    )
    body = f"<Error><Code>InvalidRequest</Code><Message>{limit}</Message></Error>".encode()
    with Scripted(Reply(400, {"Content-Type": "application/xml"}, body)) as server:
        store = at(server)
        outcome = store.publish(SOURCE, NAME, creation_of(NAME))
    assert isinstance(outcome, Refused)
    assert limit in str(outcome.error)
    assert store.largest_publish == 5368709120


def test_a_refused_look_at_the_source_is_not_an_absent_one(ask: Ask, stub: FaultStub) -> None:
    stub.script(Op.COPY, Fault.FORBIDDEN_403)
    outcome = ask(publish())
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)


@pytest.mark.parametrize("name", ["bucket", "bucket/", "bucket/\udcff", "bucket/" + "k" * 1025])
def test_a_name_that_no_object_can_have_is_refused_unsent(ask_lane: Ask, stub: FaultStub, name: str) -> None:
    for request in (put(name=name), publish(name), Publish(name, NAME, creation_of(NAME))):
        assert isinstance(ask_lane(request), Refused)
    assert stub.ops == []


# --- what goes with it


def test_what_the_caller_adds_goes_with_the_put_and_with_the_copy(stub: FaultStub, store: S3Store) -> None:
    extra: dict[str, Any] = {
        "acl": "bucket-owner-full-control",
        "StorageClass": "STANDARD_IA",
        "ServerSideEncryption": "aws:kms",
        "SSEKMSKeyId": "key",
        "metadata": {"who": "me"},
        "ContentType": "text/plain",
        "Tagging": "a=b",
        "chunksize": 5,
    }
    creation = creation_of(NAME, **extra)
    assert isinstance(store.put(SOURCE, InMemory(b"mine"), creation), Written)
    assert isinstance(store.publish(SOURCE, NAME, creation_of(NAME, **extra)), Written)
    sent, copied = (request.headers for request in stub.requests)
    for header, value in {
        "x-amz-acl": "bucket-owner-full-control",
        "x-amz-storage-class": "STANDARD_IA",
        "x-amz-server-side-encryption": "aws:kms",
        "x-amz-server-side-encryption-aws-kms-key-id": "key",
    }.items():
        assert (sent[header], copied[header]) == (value, value)
    # The source has these, and S3 copies them.
    assert sent["content-type"] == "text/plain"
    assert sent["x-amz-tagging"] == "a=b"
    assert not [name for name in copied if name.startswith("x-amz-meta-") or name == "x-amz-tagging"]
    published = stub.objects["bucket", "t/name"]
    assert published.metadata == {
        "who": "me",
        "putifabsenttoken": creation.token,
        "putifabsentwriter": creation.writer,
    }
    assert published.content_type == "text/plain"


def test_what_the_mount_adds_goes_with_the_put_and_with_the_copy(stub: FaultStub) -> None:
    added = {"ACL": "private", "Metadata": {"from": "the mount"}, "ContentType": "text/plain"}
    store = made_store({**stub.storage_options("s3"), "s3_additional_kwargs": added})
    creation = creation_of(NAME)
    store.put(SOURCE, InMemory(b"mine"), creation)
    assert isinstance(store.publish(SOURCE, NAME, creation_of(NAME)), Written)
    sent, copied = (request.headers for request in stub.requests)
    assert (sent["x-amz-acl"], copied["x-amz-acl"]) == ("private", "private")
    assert sent["x-amz-meta-from"] == "the mount"
    assert "x-amz-meta-from" not in copied
    assert stub.objects["bucket", "t/name"].metadata["putifabsenttoken"] == creation.token
    assert stub.objects["bucket", "t/name"].content_type == "text/plain"


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_key_of_the_customer_s_own_reads_the_source_as_well(stub: FaultStub, in_parts: bool) -> None:
    added = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
    store = made_store({**stub.storage_options("s3"), "s3_additional_kwargs": added})
    store.put(SOURCE, InMemory(b"mine"), creation_of(NAME))
    if in_parts:
        assert isinstance(store.stage_copy(SOURCE, 4, None, NAME, creation_of(NAME)), Staged)
    else:
        assert isinstance(store.publish(SOURCE, NAME, creation_of(NAME)), Written)
    copied = stub.requests[-1].headers
    own = {name: value for name, value in copied.items() if name.startswith("x-amz-server-side-enc")}
    theirs = "x-amz-copy-source-server-side-encryption"
    assert len(own) == 3
    for name, value in own.items():
        assert copied[name.replace("x-amz-server-side-encryption", theirs)] == value


def test_who_pays_is_said_in_both(stub: FaultStub) -> None:
    store = made_store({**stub.storage_options("s3"), "requester_pays": True})
    store.put(SOURCE, InMemory(b"mine"), creation_of(NAME))
    store.publish(SOURCE, NAME, creation_of(NAME))
    assert [request.headers["x-amz-request-payer"] for request in stub.requests] == ["requester"] * 2


def test_what_only_a_put_can_say_is_not_said_in_a_copy(stub: FaultStub, store: S3Store) -> None:
    creation = creation_of(NAME, ContentMD5="UnR2sOSe/QUGqB0pPz2Jgg==")
    assert isinstance(store.put(SOURCE, InMemory(b"mine"), creation_of(NAME)), Written)
    assert isinstance(store.publish(SOURCE, NAME, creation), Written)
    refused = store.publish(SOURCE, NAME, creation_of(NAME, NoSuch="x"))
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, ConfigError)


# --- large bodies


class Fails(InMemory):
    """Can't be read to its end."""

    def read(self, start: int, stop: int) -> bytes:
        if stop == self.size:
            raise OSError("it became shorter")
        return super().read(start, stop)


def large(body: Body, creation: Creation | None = None) -> Put:
    return Put(SOURCE, body, creation or creation_of(NAME))


def test_a_large_body_goes_in_parts_and_its_completion_once(ask: Ask, stub: FaultStub) -> None:
    creation = creation_of(NAME)
    assert isinstance(ask(large(InMemory(b"x" * LARGE), creation)), Written)
    assert sorted(op.value for op in stub.ops) == ["complete", "create upload", "part", "part", "part"]
    complete = next(request for request in stub.requests if request.op is Op.COMPLETE)
    assert "if-none-match" not in complete.headers
    assert stub.objects["bucket", SOURCE.partition("/")[2]].metadata["putifabsenttoken"] == creation.token
    # It overwrites like any put.
    assert isinstance(ask(large(InMemory(b"y" * LARGE))), Written)
    assert stub.objects["bucket", SOURCE.partition("/")[2]].data == b"y" * LARGE


@each_answer
def test_a_completion_that_failed_leaves_nothing_open(
    ask: Ask, stub: FaultStub, fault: Fault, meaning: type
) -> None:
    stub.script(Op.COMPLETE, fault)
    assert isinstance(ask(large(InMemory(b"x" * LARGE))), meaning)
    assert stub.ops.count(Op.COMPLETE) == 1
    assert stub.uploads == {}
    assert bool(stub.objects) == fault.applies


def test_an_upload_that_is_gone_at_its_completion_may_have_been_completed(ask: Ask, stub: FaultStub) -> None:
    stub.script(Op.COMPLETE, Fault.NO_SUCH_UPLOAD)
    assert isinstance(ask(large(InMemory(b"x" * LARGE))), Maybe)


def test_a_body_that_cannot_be_read_leaves_nothing_open(ask: Ask, stub: FaultStub) -> None:
    outcome = ask(large(Fails(b"x" * LARGE)))
    assert isinstance(outcome, Refused)
    assert "shorter" in str(outcome.error)
    assert (stub.uploads, stub.objects) == ({}, {})


def test_a_lost_part_is_sent_again(ask: Ask, stub: FaultStub) -> None:
    stub.script(Op.PART, Fault.DROP_AFTER_APPLY)
    assert isinstance(ask(large(InMemory(b"x" * LARGE))), Written)
    assert stub.ops.count(Op.PART) == 4


def test_an_interrupted_put_of_a_large_body_leaves_nothing_open(stub: FaultStub, store: S3Store) -> None:
    class Interrupted(InMemory):
        """Is not read on until its put is over."""

        going, over = threading.Event(), threading.Event()

        def read(self, start: int, stop: int) -> bytes:
            self.going.set()
            self.over.wait(30)
            return super().read(start, stop)

    body = Interrupted(b"x" * LARGE)

    async def cancelled() -> None:
        task = asyncio.ensure_future(store.put_async(SOURCE, body, creation_of(NAME)))
        await asyncio.to_thread(body.going.wait, 30)
        task.cancel()
        body.over.set()
        await asyncio.wait([task])
        assert task.cancelled()

    sync(get_loop(), cancelled)
    assert (stub.uploads, stub.objects) == ({}, {})


def at(server: Scripted, lane: Lane = "plain") -> S3Store:
    options = {
        "key": "key",
        "secret": "secret",
        "endpoint_url": server.url,
        "client_kwargs": {"region_name": "us-east-1"},
    }
    return maker(options, lane)()


def test_a_name_that_others_keep_is_never_said_to_exist(ask: Ask, stub: FaultStub) -> None:
    """A condition that nobody asked for is a refusal of the store's own, and says so."""
    stub.script(Op.COPY, Fault.PRECONDITION_412)
    ask(put())
    outcome = ask(publish())
    assert not isinstance(outcome, Exists)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, PermissionError)
