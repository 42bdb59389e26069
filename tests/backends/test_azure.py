"""Azure keeps the promises of a store: what goes on the wire, what the answers mean, what goes with a put."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest
from adlfs import AzureBlobFileSystem
from adlfs.spec import AzureBlobFile
from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.storage.blob import BlobServiceClient, ContentSettings

from putifabsent.backends import azure_blocks
from putifabsent.backends.azure import AzureStore
from putifabsent.backends.azure_sender import outcome_of
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
from putifabsent.errors import ConfigError
from putifabsent.testing import Around, LostAnswerTests, StoreTests, race, through_made_store
from putifabsent.testing.asking import ThroughTheStore
from putifabsent.testing.races import creation_of
from putifabsent.testing.stores import forked
from tests.backends.losing import LosingProxy
from tests.backends.scripted import Reply, Scripted
from tests.servers import Azurite
from tests.stub import Fault, FaultStub, Op
from tests.stub.azure_blocks import Blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from tests.stub import Request
    from tests.stub.wire import Answer

BLOCK = 2**18
NAME = "bucket/t/name"
KEY = base64.b64encode(b"key").decode()
CREATED = Reply(201, {"ETag": '"0x1"'})


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_blocks, "_BLOCK", BLOCK)


@pytest.fixture(scope="module")
def running() -> Iterator[FaultStub]:
    """The stub, looking at the condition of a commit before its list, as Azurite does."""
    commit = Blocks._commit

    async def in_order(blocks: Blocks, request: Request) -> Answer:
        return await blocks._objects.refused(request) or await commit(blocks, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Blocks, "_commit", in_order)
        with FaultStub() as stub:
            yield stub


@pytest.fixture
def stub(running: FaultStub) -> FaultStub:
    running.reset()
    return running


def connection(url: str) -> str:
    return f"DefaultEndpointsProtocol=http;AccountName=account;AccountKey={KEY};BlobEndpoint={url};"


def store_of(deadline: float = 30.0, **options: Any) -> AzureStore:
    return AzureStore(AzureBlobFileSystem(skip_instance_cache=True, **options), options, deadline)


def store_at(url: str, **options: Any) -> AzureStore:
    return store_of(connection_string=connection(url), **options)


@pytest.fixture
def store(stub: FaultStub) -> AzureStore:
    return store_at(stub.url("azure"))


def create(store: AzureStore, data: bytes = b"mine", name: str = NAME, **extra: Any) -> Any:
    return store.create(name, InMemory(data), creation_of(name, **extra))


def stage(store: AzureStore, data: bytes, name: str = NAME, **extra: Any) -> Any:
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


class TestAzureStore(LostAnswerTests, StoreTests):
    large: ClassVar[int] = 3 * BLOCK + 1

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
        account = stub.url("azure").rpartition("/")[2]
        with LosingProxy(stub.url("azure"), "answers") as proxy:
            yield store_at(f"{proxy.endpoint}/{account}")

    @pytest.fixture
    def unheard(self, stub: FaultStub) -> Iterator[AzureStore]:
        account = stub.url("azure").rpartition("/")[2]
        with LosingProxy(stub.url("azure"), "requests") as proxy:
            yield store_at(f"{proxy.endpoint}/{account}")


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
    stub: FaultStub, store: AzureStore, fault: Fault, meaning: type
) -> None:
    create(store, name="bucket/t/before")  # so that the connection is one that the server has kept open
    stub.script(Op.PUT, fault)
    assert isinstance(create(store), meaning)
    assert stub.ops == [Op.PUT, Op.PUT]


def test_an_answer_that_does_not_come_in_time_is_lost(stub: FaultStub) -> None:
    stub.script(Op.PUT, Fault.TIMEOUT_AFTER_APPLY)
    assert isinstance(create(store_at(stub.url("azure"), read_timeout=0.3)), Maybe)
    stub.release()
    assert stub.ops == [Op.PUT]


def test_a_create_says_its_condition_and_its_token(stub: FaultStub, store: AzureStore) -> None:
    creation = creation_of(NAME)
    outcome = store.create(NAME, InMemory(b"mine"), creation)
    seen = store.head(NAME)
    assert isinstance(seen, Found)
    assert outcome == Created(seen.holder.version)
    assert stub.requests[0].headers["if-none-match"] == "*"
    marks = {"putifabsenttoken": creation.token, "putifabsentwriter": creation.writer}
    assert stub.objects["bucket", "t/name"].metadata == {"is_directory": "false", **marks}


def error(status: int, code: str) -> Reply:
    return Reply(status, {"x-ms-error-code": code})


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


@pytest.fixture
def nobody() -> str:
    """An address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/account"


def test_a_refused_connection_sent_nothing(nobody: str) -> None:
    outcome = create(store_at(nobody))
    assert isinstance(outcome, TryAgain)
    assert "refused" in str(outcome.cause)


def test_an_answer_that_breaks_off_is_lost() -> None:
    """The client itself takes it for a request that was never sent."""
    with Scripted(Reply(201, {"Content-Length": "100", "ETag": '"0x1"'}, b"<Err")) as server:
        assert isinstance(create(store_at(server.url, read_timeout=0.3)), Maybe)
        assert len(server.asked) == 1


def test_what_was_not_foreseen_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        outcome_of(ZeroDivisionError(), NAME)


@pytest.mark.parametrize(
    "name",
    [
        "bucket",
        "bucket/",
        "bucket/a/../b",
        "bucket/./a",
        "bucket/..",
        "bucket/\udcff",
        "bucket/" + "k" * 1025,
    ],
    ids=["bucket", "no key", "dots within", "dot within", "dots", "not UTF-8", "too long"],
)
def test_a_name_that_no_blob_can_have_is_refused_unsent(
    stub: FaultStub, store: AzureStore, name: str
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


# --- looking, listing, deleting


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


@pytest.mark.parametrize("fault", [Fault.DROP_BEFORE_APPLY, Fault.ERROR_500_BEFORE, Fault.ERROR_503_BEFORE])
def test_a_look_without_an_answer_says_nothing(stub: FaultStub, store: AzureStore, fault: Fault) -> None:
    stub.script(Op.HEAD, fault)
    stub.script(Op.GET, fault)
    stub.script(Op.LIST, fault)
    assert isinstance(store.head(NAME), TryAgain)
    assert isinstance(store.get(NAME), TryAgain)
    assert isinstance(store.list("bucket/t"), TryAgain)
    assert stub.ops == [Op.HEAD, Op.GET, Op.LIST]


def test_a_refused_look_is_not_an_absent_name(stub: FaultStub, store: AzureStore) -> None:
    stub.script(Op.HEAD, Fault.FORBIDDEN_403)
    stub.script(Op.LIST, Fault.FORBIDDEN_403)
    assert isinstance(store.head(NAME), Refused)
    assert isinstance(store.list("bucket/t"), Refused)


def test_a_listing_of_several_pages_is_whole(stub: FaultStub, store: AzureStore) -> None:
    stub.call(lambda state: [state.put("bucket", f"t/{number:04d}", b"", {}) for number in range(1001)])
    listed = store.list("bucket/t")
    assert isinstance(listed, Listed)
    assert [entry.name for entry in listed.entries] == [f"bucket/t/{number:04d}" for number in range(1001)]
    assert stub.ops == [Op.LIST] * 2


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


# --- what goes with a put


@pytest.mark.parametrize(
    "settings",
    [{"content_type": "text/plain"}, ContentSettings(content_type="text/plain")],
    ids=["dict", "object"],
)
def test_what_the_caller_adds_goes_with_the_put(settings: Any) -> None:
    extra = {
        "metadata": {"who": "me"},
        "content_settings": settings,
        "tags": {"a": "b"},
        "encryption_scope": "scope",
        "max_concurrency": 3,
    }
    with Scripted(CREATED, Reply(201), CREATED) as server:
        store = store_at(server.url)
        assert create(store, **extra) == Created('"0x1"')
        assert store.complete(stage(store, b"mine", **extra)) == Created('"0x1"')
    put, block, commit = server.asked
    for asked in (put, commit):
        assert asked.headers["x-ms-meta-who"] == "me"
        assert asked.headers["x-ms-blob-content-type"] == "text/plain"
        assert asked.headers["x-ms-tags"] == "a=b"
    for asked in (put, block, commit):
        assert asked.headers["x-ms-encryption-scope"] == "scope"


@pytest.mark.parametrize("parameter", ["no_such", "lease", "cpk", "blob_type"])
def test_what_cannot_go_with_a_put_refuses_it(stub: FaultStub, store: AzureStore, parameter: str) -> None:
    extra: dict[str, Any] = {parameter: 1}
    for outcome in (create(store, **extra), stage(store, b"mine", **extra)):
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, ConfigError)
        assert parameter in str(outcome.error)
    assert stub.ops == []


def test_metadata_that_no_header_can_carry_is_refused_unsent(stub: FaultStub, store: AzureStore) -> None:
    for text in ("\N{EURO SIGN}", "two\nlines"):
        outcome = create(store, metadata={"who": text})
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, OSError)
    assert stub.ops == []


def test_the_caller_cannot_take_the_token_s_place(stub: FaultStub, store: AzureStore) -> None:
    creation = creation_of(NAME, metadata={"putifabsenttoken": "forged"})
    store.create(NAME, InMemory(b"mine"), creation)
    assert stub.objects["bucket", "t/name"].metadata["putifabsenttoken"] == creation.token


def test_the_service_s_own_time_out_goes_with_every_request(stub: FaultStub) -> None:
    store = store_at(stub.url("azure"), timeout=7)
    create(store)
    store.head(NAME)
    store.get(NAME)
    store.list("bucket/t")
    store.complete(stage(store, b"mine", "bucket/t/staged"))
    store.put("bucket/t/state", InMemory(b""))
    store.delete(NAME)
    assert [request.query.get("timeout") for request in stub.requests] == ["7"] * 8


def test_a_body_above_the_client_s_own_limit_is_one_put(stub: FaultStub, store: AzureStore) -> None:
    """It would cut it into blocks that another writer's have the ids of."""
    create(store, bytes(65 * 2**20))
    assert stub.ops == [Op.PUT]


# --- accounts and credentials


def asked_of(store: AzureStore, server: Scripted) -> Any:
    store._sender._fs.account_url = f"{server.url}/account"
    create(store)
    return server.asked[-1]


def test_the_account_s_key_signs() -> None:
    for options in (
        {"account_key": KEY},
        {"credential": KEY},
        {"credential": {"account_name": "account", "account_key": KEY}},
        {"credential": AzureNamedKeyCredential("account", KEY)},
    ):
        with Scripted(CREATED) as server:
            asked = asked_of(store_of(account_name="account", **options), server)
            assert asked.headers["Authorization"].startswith("SharedKey account:")


def test_a_signature_goes_into_the_address() -> None:
    signature = "sv=2026-01-01&sig=abc"
    credential = AzureSasCredential(signature)
    for options in ({"sas_token": signature}, {"sas_token": f"?{signature}"}, {"credential": credential}):
        with Scripted(CREATED) as server:
            asked = asked_of(store_of(account_name="account", **options), server)
            assert "sig=abc" in asked.path
            assert "Authorization" not in asked.headers


def test_anonymous_stays_anonymous() -> None:
    with Scripted(CREATED) as server:
        asked = asked_of(store_of(account_name="account", anon=True), server)
        assert "Authorization" not in asked.headers


def test_a_host_of_its_own_is_the_endpoint() -> None:
    store = store_of(
        account_name="account", account_key=KEY, account_host="account.blob.core.chinacloudapi.cn"
    )
    assert store.endpoint() == "https://account.blob.core.chinacloudapi.cn"


def test_a_service_principal_is_the_one_that_adlfs_made() -> None:
    ids: dict[str, Any] = {"client_id": "c", "client_secret": "s", "tenant_id": "t"}
    store = store_of(account_name="account", **ids)
    policy: Any = store._sender._service()._credential_policy
    assert policy._credential is store._sender._fs.sync_credential


class Token:
    """An asynchronous credential, as one passes it to adlfs."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.loops: list[Any] = []

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        self.asked.append(scopes)
        self.loops.append(asyncio.get_running_loop())
        return AccessToken("the token", 2**40)

    async def close(self) -> None:
        """Nothing is open."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Nothing is open."""


def test_an_asynchronous_credential_is_asked_on_the_loop_of_adlfs() -> None:
    token = Token()
    store = store_of(account_name="account", credential=token)
    policy: Any = store._sender._service()._credential_policy
    assert policy._credential.get_token("https://storage.azure.com/.default").token == "the token"
    assert token.asked == [("https://storage.azure.com/.default",)]
    assert token.loops == [store._sender._fs.loop]


def test_an_asynchronous_credential_is_refused_after_a_fork() -> None:
    store = store_of(account_name="account", credential=Token())

    def refused() -> bool:
        outcome = create(store)
        return (
            isinstance(outcome, Refused)
            and isinstance(outcome.error, PermissionError)
            and isinstance(outcome.error.__cause__, ClientAuthenticationError)
        )

    assert forked(refused) == 0


def test_a_read_only_location_is_refused() -> None:
    with pytest.raises(ConfigError, match="location_mode"):
        store_of(account_name="account", account_key=KEY, location_mode="secondary")


def test_building_a_store_asks_nobody(nobody: str) -> None:
    assert store_at(nobody).endpoint() == nobody


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


# --- a real server


@pytest.mark.servers
@pytest.mark.parametrize("how", ["create", "complete"])
def test_of_64_threads_one_creates_each_name(how: Literal["create", "complete"]) -> None:
    with Azurite() as server:
        bucket = server.new_bucket()
        store = store_of(**server.storage_options)
        size = 100 if how == "create" else 2 * BLOCK + 100
        names = [f"{bucket}/{number}" for number in range(20)]
        done = race(lambda: through_made_store(lambda: store, how), names, threads=64, size=size)
        assert done.problems(ThroughTheStore(store).read) == []
        assert done.errors == ()
