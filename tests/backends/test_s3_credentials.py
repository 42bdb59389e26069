"""Guarded names are created with the credentials of AWS's own chain, whichever of the two clients sends."""

from __future__ import annotations

import errno
import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock, Mock

import fsspec
import pytest
from aiobotocore.credentials import AioCredentials
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, UnauthorizedSSOTokenError

from putifabsent.backends import dynamodb_client, s3_client
from putifabsent.backends.base import Maybe, Refused, TryAgain
from putifabsent.errors import OutcomeUnknown
from putifabsent.shim.requests import Head, read
from tests.stub import FaultStub
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.backends.metadata_servers import FakeMetadata
    from tests.servers import Moto

pytestmark = pytest.mark.usefixtures("bare_machine")

ENTRY = "bucket/t/_delta_log/{:020}.json"
ROLE = "arn:aws:iam::123456789012:role/writer"


@pytest.fixture(scope="module")
def store() -> Iterator[FaultStub]:
    with FaultStub() as stub:
        vouch(stub.url("s3"), bucket="bucket")
        yield stub


@pytest.fixture
def sts(moto: Moto) -> str:
    return moto.endpoint


def mounted(store: FaultStub, **options: Any) -> Any:
    store.reset()
    client = {"endpoint_url": store.url("s3"), "region_name": "us-east-1"}
    return fsspec.filesystem("pias3", client_kwargs=client, skip_instance_cache=True, **options)


def keys(store: FaultStub) -> set[str]:
    """Return the access keys that have signed the requests."""
    signed = (each.headers.get("authorization", "") for each in store.requests)
    return {each.partition("Credential=")[2].partition("/")[0] for each in signed}


def by_options(**_: Any) -> tuple[dict[str, Any], str]:
    return {"key": "OPTION", "secret": "secret"}, "OPTION"


def by_a_session_token(**_: Any) -> tuple[dict[str, Any], str]:
    return {"key": "TEMPORARY", "secret": "secret", "token": "token"}, "TEMPORARY"


def by_the_environment(monkeypatch: pytest.MonkeyPatch, **_: Any) -> tuple[dict[str, Any], str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return {}, "ENVIRONMENT"


def by_a_profile(tmp_path: Path, **_: Any) -> tuple[dict[str, Any], str]:
    lines = ["[lake]", "aws_access_key_id = PROFILE", "aws_secret_access_key = secret"]
    (tmp_path / "credentials").write_text("\n".join(lines))
    return {"profile": "lake"}, "PROFILE"


def by_a_process(tmp_path: Path, **_: Any) -> tuple[dict[str, Any], str]:
    said = '{"Version": 1, "AccessKeyId": "PROCESS", "SecretAccessKey": "secret"}'
    (tmp_path / "said.json").write_text(said)
    command = f"cat {tmp_path / 'said.json'}"
    (tmp_path / "config").write_text(f"[profile lake]\ncredential_process = {command}\n")
    return {"profile": "lake"}, "PROCESS"


def by_the_container(
    monkeypatch: pytest.MonkeyPatch, metadata: FakeMetadata, **_: Any
) -> tuple[dict[str, Any], str]:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{metadata.url}/container")
    return {}, metadata.key


def by_the_instance(
    monkeypatch: pytest.MonkeyPatch, metadata: FakeMetadata, **_: Any
) -> tuple[dict[str, Any], str]:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url)
    return {}, metadata.key


def by_an_assumed_role(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sts: str, **_: Any
) -> tuple[dict[str, Any], str]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts)
    lines = ["[people]", "aws_access_key_id = PERSON", "aws_secret_access_key = secret"]
    (tmp_path / "credentials").write_text("\n".join(lines))
    (tmp_path / "config").write_text(
        f"[profile lake]\nrole_arn = {ROLE}\nsource_profile = people\nregion = us-east-1\n"
    )
    return {"profile": "lake"}, "ASIA"


def by_a_web_identity(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sts: str, **_: Any
) -> tuple[dict[str, Any], str]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    (tmp_path / "identity").write_text("a token of the cluster")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "identity"))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    return {}, "ASIA"


WAYS = [
    by_options,
    by_a_session_token,
    by_the_environment,
    by_a_profile,
    by_a_process,
    by_the_container,
    by_the_instance,
    by_an_assumed_role,
    by_a_web_identity,
]


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "s3fs"])
@pytest.mark.parametrize("way", WAYS)
def test_every_request_is_signed_by_what_the_chain_finds(
    way: Callable[..., tuple[dict[str, Any], str]],
    fast: bool,
    store: FaultStub,
    metadata: FakeMetadata,
    sts: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    options, begins = way(monkeypatch=monkeypatch, tmp_path=tmp_path, metadata=metadata, sts=sts)
    # Who pays is an option that only s3fs's client understands.
    fs = mounted(store, **options, **({} if fast else {"requester_pays": True}))
    fs.pipe_file(ENTRY.format(0), b"{}")
    assert fs.cat_file(ENTRY.format(0)) == b"{}"
    with pytest.raises(FileExistsError):
        fs.pipe_file(ENTRY.format(0), b"{}")
    # Two clients may each have assumed the role.
    assert {each[: len(begins)] for each in keys(store)} == {begins}


def test_what_is_near_its_end_is_renewed(
    store: FaultStub, metadata: FakeMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("putifabsent.backends.s3_obstore._REFRESH", timedelta(0))
    metadata.lifetime = timedelta(minutes=1)
    by_the_container(monkeypatch, metadata)
    fs = mounted(store)
    fs.pipe_file(ENTRY.format(0), b"{}")
    metadata.key = "KEY2"
    store.reset()
    fs.pipe_file(ENTRY.format(1), b"{}")
    assert keys(store) == {"KEY2"}


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "s3fs"])
@pytest.mark.parametrize("created_before", [False, True])
@pytest.mark.parametrize(
    ("trouble", "says"),
    [({"is_down": True}, "retrieving credentials"), ({"lifetime": timedelta(minutes=-5)}, "still expired")],
    ids=["down", "hands out old ones"],
)
def test_where_nobody_says_who_one_is_nothing_is_sent_until_somebody_does(
    trouble: dict[str, Any],
    says: str,
    created_before: bool,
    fast: bool,
    store: FaultStub,
    metadata: FakeMetadata,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("putifabsent.backends.s3_obstore._REFRESH", timedelta(0))
    metadata.lifetime = timedelta(minutes=1)
    by_the_container(monkeypatch, metadata)
    fs = mounted(store, deadline=0.5, **({} if fast else {"requester_pays": True}))
    if created_before:
        fs.pipe_file(ENTRY.format(0), b"{}")
        store.reset()
    well = {name: getattr(metadata, name) for name in trouble}
    vars(metadata).update(trouble)
    with pytest.raises(OSError) as raised:  # noqa: PT011 - its cause says what
        fs.pipe_file(ENTRY.format(1), b"{}")
    assert not isinstance(raised.value, OutcomeUnknown)
    assert says in f"{raised.value} {raised.value.__cause__}"
    assert store.requests == []
    vars(metadata).update(well)
    fs.pipe_file(ENTRY.format(1), b"{}")
    assert fs.cat_file(ENTRY.format(1)) == b"{}"


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "s3fs"])
def test_a_machine_that_does_not_know_its_role_at_first_writes_when_it_does(
    fast: bool, store: FaultStub, metadata: FakeMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_the_instance(monkeypatch, metadata)
    metadata.is_down = True
    fs = mounted(store, **({} if fast else {"requester_pays": True}))
    for _ in range(2):
        with pytest.raises(PermissionError, match="credentials"):
            fs.pipe_file(ENTRY.format(0), b"{}")
    assert store.requests == []
    metadata.is_down = False
    fs.pipe_file(ENTRY.format(0), b"{}")
    assert keys(store) == {metadata.key}


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "s3fs"])
def test_who_has_not_logged_in_is_refused(fast: bool, store: FaultStub, tmp_path: Path) -> None:
    role = ["sso_account_id = 123456789012", "sso_role_name = writer", "sso_region = us-east-1"]
    lines = ["[profile lake]", "sso_start_url = https://example.invalid/start", *role]
    (tmp_path / "config").write_text("\n".join(lines))
    fs = mounted(store, profile="lake", **({} if fast else {"requester_pays": True}))
    with pytest.raises(PermissionError, match="SSO"):
        fs.pipe_file(ENTRY.format(0), b"{}")
    assert store.requests == []


def test_whose_login_has_ended_is_refused(store: FaultStub, monkeypatch: pytest.MonkeyPatch) -> None:
    by_the_environment(monkeypatch)
    fs = mounted(store)
    # As that of a profile which had a login when the client was made.
    monkeypatch.setattr(Credentials, "get_frozen_credentials", Mock(side_effect=UnauthorizedSSOTokenError()))
    with pytest.raises(PermissionError, match="aws sso login"):
        fs.pipe_file(ENTRY.format(0), b"{}")
    assert store.requests == []


@pytest.mark.parametrize(
    ("fast", "asked"),
    [(True, Credentials), (True, AioCredentials), (False, AioCredentials)],
    ids=["fast", "before it is fast", "s3fs"],
)
def test_a_file_of_credentials_that_is_missing_is_not_the_name(
    fast: bool, asked: type, store: FaultStub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    by_the_environment(monkeypatch)
    fs = mounted(store, deadline=0.1, **({} if fast else {"requester_pays": True}))
    # As of a web identity, which a cluster renews; or what runs to get them.
    gone = FileNotFoundError(errno.ENOENT, "No such file or directory", str(tmp_path / "identity"))
    fails = AsyncMock if asked is AioCredentials else Mock
    monkeypatch.setattr(asked, "get_frozen_credentials", fails(side_effect=gone))
    with pytest.raises(OSError, match="identity") as raised:
        fs.perform(read(Head(ENTRY.format(0))))
    assert not isinstance(raised.value, FileNotFoundError)
    assert store.requests == []


@pytest.mark.parametrize("outcome_of", [s3_client.outcome_of, dynamodb_client.outcome_of])
def test_without_credentials_nothing_was_sent(outcome_of: Callable[..., object]) -> None:
    answer: Any = {"Error": {"Code": "InternalFailure"}, "ResponseMetadata": {"HTTPStatusCode": 500}}
    assert isinstance(outcome_of(ClientError(answer, "AssumeRole"), "bucket/name"), TryAgain)
    assert isinstance(outcome_of(ClientError(answer, "PutObject"), "bucket/name"), Maybe)
    busy: Any = {"Error": {"Code": "Throttling"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    assert isinstance(outcome_of(ClientError(busy, "AssumeRoleWithWebIdentity"), "bucket/name"), TryAgain)
    assert isinstance(outcome_of(json.JSONDecodeError("no value", "login", 0), "bucket/name"), TryAgain)
    for number in (errno.ENOENT, errno.EACCES):  # of a token's file
        refused = outcome_of(OSError(number, os.strerror(number), "/var/run/identity"), "bucket/name")
        assert isinstance(refused, Refused)
        assert isinstance(refused.error, PermissionError)
