"""S3 keeps the promises of a store, by either of its clients, on real servers and on the versioned stub."""

from __future__ import annotations

import uuid
from datetime import timezone
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from botocore.exceptions import ClientError
from botocore.utils import parse_timestamp

from putifabsent.backends import s3_client
from putifabsent.backends.base import Created, Deleted, InMemory, Listed, Maybe, Refused, TryAgain
from putifabsent.backends.s3 import S3Store
from putifabsent.shim.requests import Create, Delete, Get, Head, List, Publish, Put, Stage
from putifabsent.testing import (
    Around,
    Ask,
    LostAnswerTests,
    PublishTests,
    SharedStoreTests,
    StoreTests,
)
from putifabsent.testing.asking import held
from putifabsent.testing.races import creation_of
from tests.backends.on_stub import PAGE, Objects
from tests.backends.s3_stores import maker
from tests.fault_proxy import LOST_ANSWER, LOST_REQUEST, FaultProxy
from tests.servers import SERVERS, S3Server, chosen
from tests.stub import Fault, FaultStub, Op, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from putifabsent.backends.base import Creation
    from tests.backends.s3_stores import Lane


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02T03:04:05.678Z",
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.123456789Z",
        "2026-01-02T03:04:05+01:00",
        "Fri, 02 Jan 2026 03:04:05 GMT",
        "1767323045",
    ],
)
def test_a_time_is_what_botocore_reads(text: str) -> None:
    assert s3_client.time_of(text) == parse_timestamp(text)


def chosen_of(*names: str) -> list[Any]:
    marks = {name: [pytest.mark.servers] if SERVERS[name].built else [] for name in names}
    return [pytest.param(name, marks=marks[name]) for name in chosen() if name in names]


HONEST = chosen_of("localbucket", "minio", "versitygw")
"""Servers whose PUT and Complete decide."""

COPYING = chosen_of("localbucket", "minio")
"""Servers that copy an object in one step with what is deleted; versitygw goes on to copy it."""


class Bucket(Around):
    """boto3, which is neither of the clients under test."""

    def __init__(self, server: S3Server) -> None:
        self._client = server.client()

    def read(self, name: str) -> bytes | None:
        bucket, _, key = name.partition("/")
        try:
            answer = self._client.get_object(Bucket=bucket, Key=key)
        except ClientError:
            return None
        data: bytes = answer["Body"].read()
        return data

    def write(self, name: str, data: bytes) -> None:
        bucket, _, key = name.partition("/")
        self._client.put_object(Bucket=bucket, Key=key, Body=data)


@pytest.fixture(scope="module", params=HONEST)
def server(request: pytest.FixtureRequest) -> Iterator[S3Server]:
    with SERVERS[request.param]() as running:
        assert isinstance(running, S3Server)
        yield running


class OnAServer:
    """Where stores of one lane are, and a way round them."""

    lane: ClassVar[Lane]
    large: ClassVar[int] = 17 * 2**20

    @pytest.fixture(scope="class")
    def make_store(self, server: S3Server) -> Callable[[], S3Store]:
        return maker(server.storage_options, self.lane)

    @pytest.fixture(scope="class")
    def store(self, make_store: Callable[[], S3Store]) -> S3Store:
        return make_store()

    @pytest.fixture(scope="class")
    def around(self, server: S3Server) -> Bucket:
        return Bucket(server)

    @pytest.fixture(scope="class")
    def bucket(self, server: S3Server) -> str:
        return server.new_bucket()

    @pytest.fixture
    def folder(self, bucket: str) -> str:
        return f"{bucket}/{uuid.uuid4().hex}"

    @pytest.fixture(scope="class")
    def unanswered(self, server: S3Server) -> Iterator[S3Store]:
        with FaultProxy(server.endpoint, LOST_ANSWER) as proxy:
            yield maker(at(server.storage_options, proxy.endpoint), self.lane)()

    @pytest.fixture(scope="class")
    def unheard(self, server: S3Server) -> Iterator[S3Store]:
        with FaultProxy(server.endpoint, LOST_REQUEST) as proxy:
            yield maker(at(server.storage_options, proxy.endpoint), self.lane)()

    def test_the_lane_is_the_one_that_is_meant(self, store: S3Store, bucket: str) -> None:
        assert (store._fast.bucket(bucket, "key") is not None) == (self.lane == "plain")


class TestObstoreLane(OnAServer, LostAnswerTests, SharedStoreTests):
    lane: ClassVar[Lane] = "plain"
    # Listings of either lane are aiobotocore's: the other class lists pages.
    several_pages: ClassVar[int] = 3
    # What sends; the rest only decides what to send.
    steps_in: ClassVar[tuple[str, ...]] = (
        "putifabsent.backends.s3_obstore:_put",
        "putifabsent.backends.s3_client:call",
    )


class TestAiobotocoreLane(OnAServer, LostAnswerTests, StoreTests):
    lane: ClassVar[Lane] = "full"


class Publishing(OnAServer, PublishTests):
    @pytest.fixture(scope="class", params=COPYING)
    def server(self, request: pytest.FixtureRequest) -> Iterator[S3Server]:
        with SERVERS[request.param]() as running:
            assert isinstance(running, S3Server)
            yield running

    @pytest.fixture(params=["sync", "async"])
    def ask(self, request: pytest.FixtureRequest, store: S3Store) -> Ask:
        return Ask(store, request.param)


class TestPublishingByObstore(Publishing):
    lane: ClassVar[Lane] = "plain"
    # Copies and deletions are aiobotocore's, too.
    deletions: ClassVar[int] = 8


class TestPublishingByAiobotocore(Publishing):
    lane: ClassVar[Lane] = "full"
    # In each colour.
    deletions: ClassVar[int] = 50


class OnTheStub(PublishTests, StoreTests):
    """The stub takes every key as it comes, and keeps versions: servers that do both are not on PyPI."""

    lane: ClassVar[Lane]
    large: ClassVar[int] = 2**20 + 1
    several_pages: ClassVar[int] = PAGE + 1
    # A short race: the servers' own are long, and the stub does one request after the other.
    deletions: ClassVar[int] = 24

    @pytest.fixture(autouse=True)
    def small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have large bodies be small ones, for servers get the large ones."""
        monkeypatch.setattr(s3_client, "PART", 2**18)
        monkeypatch.setattr(S3Store, "largest_put", 2**19)

    @pytest.fixture(scope="class")
    def stub(self) -> Iterator[FaultStub]:
        with FaultStub(versioned=True, smallest_part=1, largest_page=PAGE) as running:
            yield running

    @pytest.fixture(scope="class")
    def store(self, stub: FaultStub) -> S3Store:
        return maker(stub.storage_options("s3"), self.lane)()

    @pytest.fixture
    def around(self, stub: FaultStub) -> Objects:
        return Objects(stub)

    @pytest.fixture
    def folder(self) -> str:
        return f"bucket/{uuid.uuid4().hex}"

    def test_a_deletion_whose_answer_was_lost_removes_each_copy(
        self, ask: Ask, stub: FaultStub, around: Around, folder: str
    ) -> None:
        source, name = f"{folder}/source", f"{folder}/name"
        creation = creation_of(source)
        ask(Put(source, InMemory(b"x"), creation))
        for _ in range(2):
            ask(Publish(source, name, creation))
        version = held(ask, name).version
        stub.script(Op.DELETE, Fault.DROP_AFTER_APPLY)
        while isinstance(ask(Delete(name, version)), Maybe):
            pass  # who was told nothing asks again
        assert around.read(name) is None

    def test_a_version_that_may_not_be_removed_is_hidden(
        self, ask: Ask, stub: FaultStub, around: Around, folder: str
    ) -> None:
        ask(creating(f"{folder}/name"))
        version = held(ask, f"{folder}/name").version
        for _ in range(2):  # the answer of the first one may have been lost
            stub.script(Op.DELETE, Fault.FORBIDDEN_403)
            assert isinstance(ask(Delete(f"{folder}/name", version)), Deleted)
            assert around.read(f"{folder}/name") is None

    def test_what_comes_as_it_would_be_hidden_is_not(self, ask: Ask, stub: FaultStub, folder: str) -> None:
        name = f"{folder}/name"
        bucket, _, key = name.partition("/")
        ask(creating(name))
        later = Step(before=lambda state: state.put(bucket, key, b"later"))
        stub.script(Op.DELETE, Fault.FORBIDDEN_403, later)
        assert isinstance(ask(Delete(name, held(ask, name).version)), Refused)
        assert stub.objects[bucket, key].data == b"later"

    def test_nothing_is_hidden_by_who_may_not_or_that_came_since(
        self, ask: Ask, stub: FaultStub, around: Around, folder: str
    ) -> None:
        ask(creating(f"{folder}/name"))
        version = held(ask, f"{folder}/name").version
        stub.script(Op.DELETE, Fault.FORBIDDEN_403, Fault.FORBIDDEN_403)
        assert isinstance(ask(Delete(f"{folder}/name", version)), Refused)
        around.write(f"{folder}/name", b"later")
        stub.script(Op.DELETE, Fault.FORBIDDEN_403)
        assert isinstance(ask(Delete(f"{folder}/name", version)), Refused)
        assert around.read(f"{folder}/name") == b"later"

    @pytest.mark.parametrize(
        "key", ["/lead", "trail/", "two//slashes", "/", "//", "./a", "a/../b", "..", "ü/日"]
    )
    def test_an_odd_key_is_sent_as_it_is(self, ask: Ask, stub: FaultStub, key: str) -> None:
        stub.reset()
        creation = creation_of("bucket/key")
        assert isinstance(ask(creating(f"bucket/{key}", creation)), Created)
        assert set(stub.objects) == {("bucket", key)}
        assert held(ask, f"bucket/{key}").token == creation.token

    @pytest.mark.parametrize("odd", ["//x", "/../x", "/a\tb", "/x", "/", "/deeper/x", "/50%#?"])
    def test_a_folder_is_listed_whatever_lies_in_it(
        self, ask: Ask, stub: FaultStub, folder: str, odd: str
    ) -> None:
        for name in (f"{folder}/plain", f"{folder}{odd}", f"{folder} beside"):
            assert isinstance(ask(creating(name)), Created)
        listed = ask(List(folder))
        directly = {"/a\tb", "/x", "/50%#?"} & {odd}
        names = {each.name.removeprefix(folder) for each in listed.entries} - {"/"}
        assert names == {"/plain", *directly}

    @pytest.mark.parametrize(
        "fault",
        [Fault.OK_WITH_ERROR_BODY, Fault.ERROR_500_BEFORE, Fault.DROP_BEFORE_APPLY, Fault.FORBIDDEN_403],
    )
    @pytest.mark.parametrize("times", [1, 2, 20])
    def test_a_folder_that_is_not_listed_is_not_empty(
        self, ask: Ask, stub: FaultStub, folder: str, fault: Fault, times: int
    ) -> None:
        ask(creating(f"{folder}/x"))
        stub.script(Op.LIST, *[fault] * times)
        listed = ask(List(folder))
        stub.calm()
        if isinstance(listed, Listed):
            assert [each.name for each in listed.entries] == [f"{folder}/x"]
        else:
            assert isinstance(listed, (Refused, TryAgain))

    def test_times_of_a_listing_are_read_by_their_one_form(
        self, ask: Ask, folder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ask(creating(f"{folder}/x"))
        monkeypatch.setattr(s3_client, "parse_timestamp", None)
        assert [each.created.tzinfo for each in ask(List(folder)).entries] == [timezone.utc]

    def test_a_folder_of_two_pages_is_listed_whole(self, ask: Ask, stub: FaultStub, folder: str) -> None:
        names = [f"{folder}/{number:04}" for number in range(PAGE + 1)]
        for name in names:
            stub.put("bucket", name.partition("/")[2], b"")
        assert [each.name for each in ask(List(folder)).entries] == names

    def test_a_key_of_1025_bytes_is_refused_before_it_is_sent(self, ask: Ask, stub: FaultStub) -> None:
        stub.reset()
        longest = "ü" * 512
        assert isinstance(ask(creating(f"bucket/{longest}")), Created)
        assert isinstance(ask(creating(f"bucket/{longest}x")), Refused)
        assert stub.ops.count(Op.PUT) == 1
        assert set(stub.objects) == {("bucket", longest)}

    def test_a_key_that_is_no_unicode_is_refused_by_every_request(self, ask: Ask) -> None:
        name = "bucket/\udcff"
        creation = creation_of(name)
        requests = (
            creating(name, creation),
            Stage(name, InMemory(b"x"), creation),
            *(Head(name), Get(name), Delete(name), List(name)),
        )
        for request in requests:
            outcome = ask(request)
            assert isinstance(outcome, Refused), request
            assert isinstance(outcome.error, OSError)


class TestObstoreLaneOnTheStub(OnTheStub):
    lane: ClassVar[Lane] = "plain"


class TestAiobotocoreLaneOnTheStub(OnTheStub):
    lane: ClassVar[Lane] = "full"


def at(options: dict[str, Any], endpoint: str) -> dict[str, Any]:
    return {**options, "client_kwargs": {**options["client_kwargs"], "endpoint_url": endpoint}}


def creating(name: str, creation: Creation | None = None) -> Create:
    return Create(name, InMemory(b"x"), creation or creation_of(name))
