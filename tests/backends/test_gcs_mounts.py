"""What a mount and its callers add to a put on GCS goes with guarded puts, or refuses them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import google.auth.credentials
import google.auth.exceptions
import pytest
from gcsfs.core import GCSFileSystem

from putifabsent.backends import gcs
from putifabsent.backends.base import (
    Created,
    InMemory,
    Refused,
    TryAgain,
)
from putifabsent.backends.gcs import GCSStore
from putifabsent.errors import ConfigError
from putifabsent.testing.races import creation_of
from tests.backends.gcs_stores import CHUNK, MADE, NAME, create, nowhere, stage, store_at
from tests.backends.scripted import Reply, Scripted

if TYPE_CHECKING:
    from tests.stub import FaultStub


@pytest.fixture
def store(stub: FaultStub) -> GCSStore:
    return store_at(stub.url("gcs"))


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
    [
        {"no_such": 1},
        {"fixed_key_metadata": {"no_such": "x"}},
        {"acl": "everybody"},
        {"metadata": {"a": 1}},
        {"metadata": ["a"]},
        {"fixed_key_metadata": {"cache_control": object()}},
    ],
    ids=["parameter", "fixed key", "acl", "number", "list", "object"],
)
def test_what_cannot_go_with_a_put_refuses_it(
    stub: FaultStub, store: GCSStore, extra: dict[str, Any]
) -> None:
    for outcome in (
        create(store, **extra),
        stage(store, b"mine", **extra),
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
    boundary = stub.requests[1].headers["content-type"].partition("boundary=")[2]
    assert boundary.encode() not in frame


@pytest.mark.parametrize(("pays", "who"), [("payer", "payer"), (True, "mine")])
def test_the_payer_is_named_in_every_request(stub: FaultStub, pays: Any, who: str) -> None:
    store = store_at(stub.url("gcs"), project="mine", requester_pays=pays)
    create(store)
    store.head(NAME)
    store.get(NAME)
    store.list("bucket/t")
    stage(store, b"mine", "bucket/t/staged")
    store.put("bucket/t/state", InMemory(b""), creation_of(NAME))
    store.publish("bucket/t/state", "bucket/t/published", creation_of(NAME))
    store.delete(NAME)
    assert [request.query.get("userProject") for request in stub.requests] == [who] * 8


@pytest.mark.parametrize("consistency", ["md5", "crc32c"])
def test_the_mount_s_checksum_goes_with_every_body(consistency: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs, "_CHUNK", CHUNK)
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
def test_a_mount_s_option_that_cannot_be_carried_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options["session_kwargs"]))):
        store_at(nowhere(), **options)


def test_a_client_certificate_that_could_not_be_shown_is_refused() -> None:
    fs = GCSFileSystem(token="anon", endpoint_url=nowhere(), skip_instance_cache=True)
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


def test_a_proxy_that_is_not_there_was_sent_nothing() -> None:
    store = store_at("http://storage.invalid", session_kwargs={"proxy": nowhere()})
    assert isinstance(create(store), TryAgain)


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
