"""An S3 mount knows where its requests go, and which client may send them in which process."""

from __future__ import annotations

import asyncio
import errno
import socket
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from weakref import ref

import certifi
import fsspec
import pytest
from aiobotocore.session import AioSession

from putifabsent.backends.base import Created, Creation, Got, InMemory, Listed, Maybe, Refused, TryAgain
from putifabsent.backends.concurrency import AT_ONCE
from putifabsent.backends.s3 import S3Store
from putifabsent.backends.s3_obstore import FastBucket, place_of
from putifabsent.errors import ConfigError
from putifabsent.shim.requests import Create, Publish, Put, Stage
from putifabsent.testing import Ask
from putifabsent.testing.races import creation_of
from tests.backends.s3_stores import Lane, made_store, maker
from tests.stub import FaultStub, Op
from tests.stub.wire import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("bare_machine")

ELSEWHERE = "http://store.example:9000"
MEANWHILE = 60


# --- where requests go

MANY_REGIONS = "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap/t"


@pytest.mark.parametrize("size", [1, S3Store.largest_put + 1], ids=["small", "large"])
def test_a_multi_region_access_point_decides_nothing(size: int) -> None:
    """The bucket of each region would let its own writer win."""
    ask = Ask(made_store({"key": "k", "secret": "s"}), "sync")
    body, creation = InMemory(bytes(size)), creation_of(f"{MANY_REGIONS}/name")
    creating = Create if size == 1 else Stage
    for request in (
        creating(f"{MANY_REGIONS}/name", body, creation),
        Put(f"{MANY_REGIONS}/name", body, creation),
        Publish(f"{MANY_REGIONS}/source", f"{MANY_REGIONS}/name", creation),
    ):
        outcome = ask(request)
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, ConfigError)
        assert "Region" in str(outcome.error)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    (tmp_path / "config").write_text(f"[profile lab]\nregion = us-east-1\nendpoint_url = {ELSEWHERE}\n")
    return "lab"


def by_an_option(**_: Any) -> dict[str, Any]:
    return {"endpoint_url": ELSEWHERE}


def by_the_clients_options(**_: Any) -> dict[str, Any]:
    return {"client_kwargs": {"endpoint_url": ELSEWHERE}}


def by_fsspecs_configuration(monkeypatch: pytest.MonkeyPatch, **_: Any) -> dict[str, Any]:
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": ELSEWHERE})
    return {}


def by_the_environment(monkeypatch: pytest.MonkeyPatch, **_: Any) -> dict[str, Any]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ELSEWHERE)
    return {}


def by_a_profile(profile: str, **_: Any) -> dict[str, Any]:
    return {"profile": profile}


def by_the_profile_of_the_environment(
    profile: str, monkeypatch: pytest.MonkeyPatch, **_: Any
) -> dict[str, Any]:
    monkeypatch.setenv("AWS_PROFILE", profile)
    return {}


def by_a_session(profile: str, **_: Any) -> dict[str, Any]:
    return {"session": AioSession(profile=profile)}


WAYS: list[Callable[..., dict[str, Any]]] = [
    by_an_option,
    by_the_clients_options,
    by_fsspecs_configuration,
    by_the_environment,
    by_a_profile,
    by_the_profile_of_the_environment,
    by_a_session,
]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
def test_the_endpoint_is_where_requests_go(
    way: Callable[..., dict[str, Any]],
    asynchronous: bool,
    monkeypatch: pytest.MonkeyPatch,
    profile: str,
) -> None:
    options = way(monkeypatch=monkeypatch, profile=profile)
    options |= {"asynchronous": asynchronous, "skip_instance_cache": True}
    assert made_store(options).endpoint() == ELSEWHERE


def test_a_caller_s_session_reads_times_as_before() -> None:
    session = AioSession()
    asyncio.run(client_of(made_store({"session": session, "anon": True, "asynchronous": True})))
    assert session.get_component("response_parser_factory")._defaults == {}


async def client_of(store: S3Store) -> None:
    await store._sender.client()


@pytest.mark.parametrize(
    ("options", "endpoint"),
    [
        ({}, "https://s3.amazonaws.com"),
        ({"client_kwargs": {"region_name": "eu-west-1"}}, "https://s3.eu-west-1.amazonaws.com"),
        ({"client_kwargs": {"region_name": "cn-north-1"}}, "https://s3.cn-north-1.amazonaws.com.cn"),
        ({"cache_regions": True, "use_ssl": False}, "http://s3.amazonaws.com"),
    ],
)
def test_without_another_endpoint_it_is_amazons(options: dict[str, Any], endpoint: str) -> None:
    assert made_store({**options, "skip_instance_cache": True}).endpoint() == endpoint


def test_a_client_that_is_connected_is_asked_itself(stub: FaultStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", stub.url("s3"))
    options = {"key": "key", "secret": "secret", "skip_instance_cache": True}
    store = made_store(options)
    store.list("bucket/t")
    monkeypatch.setenv("AWS_ENDPOINT_URL", ELSEWHERE)
    assert store.endpoint() == stub.url("s3")


def test_the_endpoint_wants_no_loop_and_no_thread_of_the_callers(profile: str) -> None:
    """All threads of the loop ask at the same time, and so does the loop itself."""

    async def ask(store: S3Store) -> list[str]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        asking = [asyncio.to_thread(store.endpoint) for _ in range(4)]
        return [store.endpoint(), *await asyncio.gather(*asking)]

    options = {"profile": profile, "asynchronous": True, "skip_instance_cache": True}
    told = asyncio.run(asyncio.wait_for(ask(made_store(options)), MEANWHILE))
    assert told == [ELSEWHERE] * 5


# --- to which address the two clients send


@pytest.mark.parametrize(
    ("bucket", "endpoint", "presigned", "place"),
    [
        ("b", "http://h:1", "http://h:1/b/key?X-Amz-Expires=1", ("http://h:1", False)),
        ("data", "https://data.lake", "https://data.lake/data/key", ("https://data.lake", False)),
        ("b", "https://h/storage/v1/s3", "https://h/storage/v1/s3/b/key", ("https://h/storage/v1/s3", False)),
        (
            "b",
            "https://s3.eu-west-1.amazonaws.com",
            "https://b.s3.amazonaws.com/key",
            ("https://b.s3.eu-west-1.amazonaws.com", True),
        ),
        ("b", "https://h", "https://b.h/key", ("https://b.h", True)),
        ("b", "https://h", "https://b.h/b.h/key", None),
        ("b", "https://h", "https://ap-1.h/key", None),
    ],
)
def test_both_clients_mean_one_object(
    bucket: str, endpoint: str, presigned: str, place: tuple[str, bool] | None
) -> None:
    assert place_of(bucket, endpoint, presigned) == place


def sends_by(store: S3Store, bucket: str) -> str:
    return "obstore" if store._fast.bucket(bucket, "key") is not None else "aiobotocore"


def test_a_bucket_that_is_called_as_the_host_begins_is_that_bucket() -> None:
    with FaultStub(buckets=("127", "raw")) as stub:
        store = made_store({**stub.storage_options("s3"), "skip_instance_cache": True})
        assert sends_by(store, "127") == "obstore"
        assert isinstance(store.create("127/raw/key", InMemory(b"mine"), Creation("t", "w", "")), Created)
        assert list(stub.objects) == [("127", "raw/key")]


@pytest.mark.parametrize(
    ("name", "value", "client"),
    [
        ("AWS_CONDITIONAL_PUT", "disabled", "obstore"),
        ("AWS_S3_EXPRESS", "true", "obstore"),
        ("AWS_SKIP_SIGNATURE", "true", "obstore"),
        ("AWS_SERVER_SIDE_ENCRYPTION", "AES256", "aiobotocore"),
        ("AWS_CA_BUNDLE", "/etc/ssl/certs/ca-certificates.crt", "obstore"),  # which http needs not
        ("ALL_PROXY", "http://127.0.0.1:1", "aiobotocore"),
    ],
)
def test_what_only_one_of_them_reads_in_the_environment_changes_nothing(
    stub: FaultStub, monkeypatch: pytest.MonkeyPatch, name: str, value: str, client: str
) -> None:
    monkeypatch.setenv(name, value)
    store = made_store({**stub.storage_options("s3"), "skip_instance_cache": True})
    assert sends_by(store, "bucket") == client
    for _ in range(2):
        store.create("bucket/key", InMemory(b"mine"), Creation("t", "w", ""))
    assert [each.headers.get("if-none-match") for each in stub.requests if each.op is Op.PUT] == ["*", "*"]
    assert all("authorization" in each.headers for each in stub.requests)
    assert "x-amz-server-side-encryption" not in stub.requests[0].headers


def test_whom_a_proxy_is_not_for_is_only_the_other_client_s_to_know(
    stub: FaultStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", stub.url("s3").removeprefix("http://"))  # with its port
    store = made_store({**stub.storage_options("s3"), "skip_instance_cache": True})
    assert isinstance(store.create("bucket/key", InMemory(b"mine"), Creation("t", "w", "")), Created)


@pytest.mark.parametrize("setting", [None, "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_who_is_trusted_is_only_the_other_client_s_to_know(
    monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    if setting is not None:
        monkeypatch.setenv(setting, certifi.where())
    options = {"endpoint_url": "https://store.example", "key": "k", "secret": "s"}
    store = made_store(
        {**options, "client_kwargs": {"region_name": "us-east-1"}, "skip_instance_cache": True}
    )
    assert sends_by(store, "bucket") == ("obstore" if setting is None else "aiobotocore")


@contextmanager
def full() -> Iterator[str]:
    """An address that takes no connection, and does not say so, like one behind a firewall."""
    with ExitStack() as held:
        server = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("options", [{}, {"requester_pays": True}], ids=["obstore", "aiobotocore"])
@pytest.mark.parametrize("way", ["nobody takes it", "no TLS there", "no proxy there"])
def test_where_no_connection_came_about_nothing_was_sent(
    stub: FaultStub, way: str, options: dict[str, Any]
) -> None:
    config: dict[str, Any] = {"connect_timeout": 0.2}
    with full() as nowhere:
        endpoint = {
            "nobody takes it": nowhere,
            "no TLS there": stub.url("s3").replace("http:", "https:"),
            "no proxy there": stub.url("s3"),
        }[way]
        if way == "no proxy there":
            config["proxies"] = {"http": "http://127.0.0.1:1"}
        options = {**stub.storage_options("s3"), **options, "endpoint_url": endpoint, "config_kwargs": config}
        store = made_store({**options, "skip_instance_cache": True})
        outcome = store.create("bucket/key", InMemory(b"mine"), Creation("t", "w", ""))
    assert isinstance(outcome, TryAgain)
    assert stub.requests == []


def test_a_system_without_certificates_has_the_other_client_alone(
    stub: FaultStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an image without ca-certificates: botocore brings its own."""
    for where in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(where, "/nowhere")
    store = made_store({**stub.storage_options("s3"), "skip_instance_cache": True})
    assert isinstance(store.create("bucket/key", InMemory(b"mine"), Creation("t", "w", "")), Created)
    assert sends_by(store, "bucket") == "aiobotocore"


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (
            b"<Error><Code>InvalidToken</Code><Token-0>SECRET</Token-0></Error>",
            PermissionError,
            "(InvalidToken) when calling the PutObject operation: Unknown",
        ),
        (
            b"<Error><Code>ExpiredToken</Code><Message>old</Message></Error>",
            PermissionError,
            "(ExpiredToken) when calling the PutObject operation: old",
        ),
        (
            b"<?xml version='1.0'?>\n<Error><Code>Odd</Code><Message>m</Message></Error>",
            OSError,
            "(Odd) when calling the PutObject operation: m",
        ),
        (b"<Error><Code>RequestTimeout</Code><Message>late</Message></Error>", None, ""),
    ],
)
def test_a_refusal_says_what_the_service_says_and_no_token(
    answer: bytes, kind: type[OSError] | None, says: str
) -> None:
    async def refuse(_: Any, __: Any) -> Answer:
        return Answer(400, {}, b"<?xml version='1.0'?><Error>" + answer + b"</Error>")

    with FaultStub(serve=refuse) as stub:
        store = made_store({**stub.storage_options("s3"), "skip_instance_cache": True})
        assert sends_by(store, "bucket") == "obstore"
        outcome = store.create("bucket/key", InMemory(b"mine"), Creation("t", "w", ""))
    assert isinstance(outcome, Maybe if kind is None else Refused)
    if isinstance(outcome, Refused) and kind is not None:
        assert type(outcome.error) is kind
        assert outcome.error.strerror == f"An error occurred {says}"


@pytest.mark.parametrize("lane", ["plain", "full"])
def test_that_a_bucket_is_not_there_has_the_number_of_what_is_not_there(stub: FaultStub, lane: Lane) -> None:
    ask = Ask(maker({**stub.storage_options("s3"), "skip_instance_cache": True}, lane)(), "sync")
    creation = Creation("t", "w", "")
    for request in (
        Create("nowhere/key", InMemory(b"x"), creation),
        Put("nowhere/key", InMemory(b"x"), creation),
    ):
        outcome = ask(request)
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, FileNotFoundError)
        assert outcome.error.errno == errno.ENOENT


def test_a_create_waits_for_no_slow_reads(stub: FaultStub, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**stub.storage_options("s3"), "asynchronous": True, "skip_instance_cache": True}
    over = threading.Event()

    def slowly(*_: Any) -> Got:
        over.wait()
        return Got(b"large")

    async def create() -> object:
        store = made_store(options)
        await store.head_async("bucket/key")  # the bucket is known from now on
        reads = [asyncio.ensure_future(store.get_async("bucket/large")) for _ in range(4 * AT_ONCE)]
        try:
            await asyncio.sleep(0.1)
            creating = store.create_async("bucket/key", InMemory(b"mine"), Creation("t", "w", ""))
            return await asyncio.wait_for(creating, 10)
        finally:
            over.set()
            await asyncio.gather(*reads)

    monkeypatch.setattr(FastBucket, "get", slowly)
    assert isinstance(asyncio.run(create()), Created)


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"IfNoneMatch": "*"}, None),
        ({"IfMatch": "x"}, "IfMatch"),
        ({"Key": "other"}, "Key"),
        ({"Metadata": {"a": 1}}, "Metadata"),
        ({"Metadata": 5}, "Metadata"),
    ],
)
def test_what_a_creation_says_itself_is_not_said_twice(
    stub: FaultStub, extra: dict[str, Any], told: str | None
) -> None:
    store = made_store({**stub.storage_options("s3"), "skip_instance_cache": True})
    outcome = store.create("bucket/key", InMemory(b"mine"), Creation("t", "w", "", extra))
    if told is None:
        assert isinstance(outcome, Created)
        return
    assert isinstance(outcome, Refused)
    assert told in str(outcome.error)
    assert stub.objects == {}


@pytest.mark.parametrize("version", ["s3v4", "s3"])
def test_a_signature_that_obstore_does_not_know_is_the_other_clients(stub: FaultStub, version: str) -> None:
    options = {**stub.storage_options("s3"), "config_kwargs": {"signature_version": version}}
    store = made_store({**options, "skip_instance_cache": True})
    assert sends_by(store, "bucket") == ("obstore" if version == "s3v4" else "aiobotocore")


# --- the ends of clients


def test_a_client_on_a_caller_s_loop_is_closed_with_the_loop(
    stub: FaultStub, collect: Callable[[], int]
) -> None:
    store = made_store({**stub.storage_options("s3"), "asynchronous": True, "skip_instance_cache": True})
    collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        # The next loop has a client of its own.
        for _ in range(2):
            assert isinstance(asyncio.run(store.list_async("bucket")), Listed)
        del store
        collect()
    assert [str(each.message) for each in told if "nclosed" in str(each.message)] == []


def test_of_a_caller_s_loop_that_is_over_nothing_is_kept(stub: FaultStub, collect: Callable[[], int]) -> None:
    store = made_store({**stub.storage_options("s3"), "asynchronous": True, "skip_instance_cache": True})
    loops: list[ref[asyncio.AbstractEventLoop]] = []

    async def lists() -> None:
        loops.append(ref(asyncio.get_running_loop()))
        await store.list_async("bucket")

    collect()
    for _ in range(3):
        asyncio.run(lists())
    collect()
    assert [loop() for loop in loops] == [None] * 3


# --- forks


def in_a_forked_child(stub: FaultStub, *, imports_before: bool, uses_before: bool = True) -> str:
    """Have a program use obstore on its own, and then create and read in a forked child of its."""
    program = f"""
import os, signal, sys
import obstore
from obstore.store import S3Store as Bucket

sys.path[:0] = {sys.path!r}
url = sys.argv[1]
bucket = Bucket(
    "bucket", endpoint=url, access_key_id="key", secret_access_key="secret", region="us-east-1",
    client_options={{"allow_http": True}},
)
if {uses_before}:
    obstore.put(bucket, "mine", b"x")
if {imports_before}:
    from tests.backends import s3_stores
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm({MEANWHILE})  # obstore hangs where no signal of Python's is heard
from putifabsent.backends.base import InMemory
from putifabsent.testing.races import creation_of
from tests.backends import s3_stores

store = s3_stores.made_store({{
    "key": "key", "secret": "secret", "endpoint_url": url, "client_kwargs": {{"region_name": "us-east-1"}},
}})
print(store.create("bucket/t/name", InMemory(b"x"), creation_of("bucket/t/name")), flush=True)
print(store.get("bucket/t/name"), s3_stores.S3Store.answers_for(store, "bucket/t/name"), flush=True)
os._exit(0)
"""
    command = [sys.executable, "-c", program, stub.url("s3")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=2 * MEANWHILE, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("imports_before", [True, False])
def test_a_child_of_a_program_that_uses_obstore_itself_creates(stub: FaultStub, imports_before: bool) -> None:
    assert in_a_forked_child(stub, imports_before=imports_before).startswith("Created")
    assert ("bucket", "t/name") in stub.objects
    assert stub.ops.count(Op.PUT) == 2


def test_a_child_of_a_program_that_has_only_imported_obstore_uses_it(stub: FaultStub) -> None:
    told = in_a_forked_child(stub, imports_before=True, uses_before=False).splitlines()
    assert told[0].startswith("Created")
    assert told[1] == "Got(data=b'x') True"
    agents = {request.headers["user-agent"].partition("/")[0] for request in stub.requests}
    assert agents == {"object_store"}


@pytest.mark.parametrize("imports_before", [True, False])
def test_a_child_of_a_program_that_uses_obstore_itself_reads_by_the_other_client(
    stub: FaultStub, imports_before: bool
) -> None:
    told = in_a_forked_child(stub, imports_before=imports_before).splitlines()
    assert told[1] == "Got(data=b'x') False"
