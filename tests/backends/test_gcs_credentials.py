"""Guarded names are created with whatever gcsfs is told, or finds, of who one is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.oauth2.credentials import Credentials

from tests.stub import FaultStub
from tests.vouching import vouch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.backends.metadata_servers import FakeMetadata

pytestmark = pytest.mark.usefixtures("bare_machine")

ENTRY = "bucket/t/_delta_log/{:020}.json"


@pytest.fixture(scope="module")
def store() -> Iterator[FaultStub]:
    with FaultStub() as stub:
        vouch(stub.url("gcs"), "gcs", "bucket")
        yield stub


@pytest.fixture(scope="module")
def key() -> str:
    """Return the key of a service account."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return made.private_bytes(*form, serialization.NoEncryption()).decode()


def mounted(store: FaultStub, **options: Any) -> Any:
    store.reset()
    return fsspec.filesystem("piags", endpoint_url=store.url("gcs"), skip_instance_cache=True, **options)


def tokens(store: FaultStub) -> set[str]:
    """Return what the requests have shown."""
    return {each.headers.get("authorization", "") for each in store.requests}


def by_credentials(**_: Any) -> tuple[dict[str, Any], str]:
    return {"token": Credentials("CREDENTIALS")}, "CREDENTIALS"  # type: ignore[no-untyped-call]


def service_account(metadata: FakeMetadata, key: str, folder: Path) -> str:
    said = {
        "type": "service_account",
        "project_id": "project",
        "private_key": key,
        "client_email": "writer@project.iam.gserviceaccount.com",
        "token_uri": f"{metadata.url}/token",
    }
    file = folder / "account.json"
    file.write_text(json.dumps(said))
    return str(file)


def by_the_file_of_a_service_account(
    metadata: FakeMetadata, key: str, tmp_path: Path, **_: Any
) -> tuple[dict[str, Any], str]:
    return {"token": service_account(metadata, key, tmp_path)}, metadata.key


def by_the_environment(
    metadata: FakeMetadata, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **_: Any
) -> tuple[dict[str, Any], str]:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", service_account(metadata, key, tmp_path))
    return {"token": "google_default"}, metadata.key


def by_a_federation(
    metadata: FakeMetadata, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **_: Any
) -> tuple[dict[str, Any], str]:
    (tmp_path / "identity").write_text("a token of the cluster")
    said = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/p",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{metadata.url}/token",
        "credential_source": {"file": str(tmp_path / "identity")},
    }
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "project")
    (tmp_path / "federation.json").write_text(json.dumps(said))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "federation.json"))
    return {"token": "google_default"}, metadata.key


def by_the_machine(
    metadata: FakeMetadata, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **_: Any
) -> tuple[dict[str, Any], str]:
    host = metadata.url.removeprefix("http://")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("GCE_METADATA_IP", host)
    monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", host)
    return {"token": "google_default"}, metadata.key


WAYS = [
    by_credentials,
    by_the_file_of_a_service_account,
    by_the_environment,
    by_a_federation,
    by_the_machine,
]


@pytest.mark.parametrize("way", WAYS)
def test_every_request_shows_what_gcsfs_finds(
    way: Callable[..., tuple[dict[str, Any], str]],
    store: FaultStub,
    metadata: FakeMetadata,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    options, token = way(metadata=metadata, key=key, monkeypatch=monkeypatch, tmp_path=tmp_path)
    fs = mounted(store, **options)
    fs.pipe_file(ENTRY.format(0), b"{}")
    assert fs.cat_file(ENTRY.format(0)) == b"{}"
    with pytest.raises(FileExistsError):
        fs.pipe_file(ENTRY.format(0), b"{}")
    assert tokens(store) == {f"Bearer {token}"}
