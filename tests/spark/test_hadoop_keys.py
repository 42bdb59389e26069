"""Each setting of Hadoop's clients is mapped, refused or of no matter to guarded names: none is dropped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from putifabsent.errors import ConfigError
from putifabsent.spark.hadoop_settings import Refusal, Settings
from putifabsent.spark.stores import SCHEMES
from tests.spark.drivers import SHORT
from tools.hadoop_keys import FILE, jar_of, keys_in

if TYPE_CHECKING:
    from pathlib import Path

STORES: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
OF_NO_MATTER = {scheme: store["of no matter"] for scheme, store in STORES.items()}
# In a short run each client's newest.
_RELEASES = slice(-1, None) if SHORT else slice(None)
RELEASES = [(scheme, release) for scheme, store in STORES.items() for release in store["releases"][_RELEASES]]
REFUSED = [(scheme, key, why) for scheme in STORES for key, why in SCHEMES[scheme].refused.items()]
MAPPED = [(scheme, key) for scheme in STORES for key in SCHEMES[scheme].mapped]

_KEYS = {"access.key": "K", "secret.key": "S"}
_TOKEN = {**_KEYS, "session.token": "T"}
_PROXY = {"proxy.host": "proxy", "proxy.username": "me", "proxy.password": "hush"}
_KMS = {"encryption.algorithm": "SSE-KMS"}
_USER = {"auth.client.id": "me", "auth.client.secret": "hush", "auth.refresh.token": "T"}
_FILE = {"auth.service.account.json.keyfile": "/key.json"}
_GS_PROXY = {"proxy.address": "proxy:3128", "proxy.username": "me", "proxy.password": "hush"}
_SAS = {"account.auth.type": "SAS", "sas.fixed.token": "sv=1"}
_PROFILE = "com.amazonaws.auth.profile.ProfileCredentialsProvider"
_OAUTH = {
    "account.auth.type": "OAuth",
    "account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
    "account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant-1/oauth2/token",
    "account.oauth2.client.id": "me",
    "account.oauth2.client.secret": "hush",
}
# Settings in which a key counts: without it, other options are made, or it is said what lacks.
EXAMPLES: dict[str, dict[str, dict[str, str]]] = {
    "s3a": {
        "endpoint": {"endpoint": "minio:9000"},
        "endpoint.region": {"endpoint.region": "eu-west-1"},
        "endpoint.fips": {"endpoint.fips": "true"},
        "connection.ssl.enabled": {"connection.ssl.enabled": "false", "endpoint": "minio:9000"},
        "path.style.access": {"path.style.access": "true"},
        "signing-algorithm": {"signing-algorithm": "S3SignerType"},
        "s3.signing-algorithm": {
            "s3.signing-algorithm": "S3SignerType",
            "signing-algorithm": "AWSS3V4SignerType",
        },
        "proxy.host": _PROXY,
        "proxy.port": {**_PROXY, "proxy.port": "3128"},
        "proxy.ssl.enabled": {**_PROXY, "proxy.ssl.enabled": "true"},
        "proxy.username": _PROXY,
        "proxy.password": _PROXY,
        "requester.pays.enabled": {"requester.pays.enabled": "true"},
        "aws.credentials.provider": {"aws.credentials.provider": "a.AnonymousAWSCredentialsProvider"},
        "aws.credentials.provider.mapping": {
            "aws.credentials.provider": "com.example.Nobody",
            "aws.credentials.provider.mapping": "com.example.Nobody=a.AnonymousAWSCredentialsProvider",
        },
        "auth.profile.name": {"auth.profile.name": "lake", "aws.credentials.provider": _PROFILE},
        "access.key": _KEYS,
        "secret.key": _KEYS,
        "session.token": _TOKEN,
        "encryption.algorithm": _KMS,
        "encryption.key": {**_KMS, "encryption.key": "arn:aws:kms:1"},
        "encryption.context": {**_KMS, "encryption.context": "team=lake"},
        "server-side-encryption-algorithm": {"server-side-encryption-algorithm": "AES256"},
        "server-side-encryption.key": {**_KMS, "server-side-encryption.key": "arn:aws:kms:1"},
        "acl.default": {"acl.default": "BucketOwnerFullControl"},
        "create.storage.class": {"create.storage.class": "standard_ia"},
        "object.content.encoding": {"object.content.encoding": "gzip"},
    },
    "gs": {
        "project.id": {"project.id": "p"},
        "storage.root.url": {"storage.root.url": "https://storage.example"},
        "storage.http.headers.": {"storage.http.headers.x-team": "lake"},
        "proxy.address": _GS_PROXY,
        "proxy.username": _GS_PROXY,
        "proxy.password": _GS_PROXY,
        "requester.pays.mode": {"requester.pays.mode": "ENABLED", "project.id": "p"},
        "requester.pays.project.id": {"requester.pays.mode": "ENABLED", "requester.pays.project.id": "p"},
        "auth.type": {"auth.type": "UNAUTHENTICATED"},
        "auth.service.account.json.keyfile": _FILE,
        "auth.service.account.enable": {**_FILE, "auth.service.account.enable": "false"},
        "enable.service.account.auth": {**_FILE, "enable.service.account.auth": "false"},
        "auth.client.id": _USER,
        "auth.client.secret": _USER,
        "auth.refresh.token": _USER,
        "auth.null.enable": {"auth.null.enable": "true"},
    },
    "abfs": {
        "account.auth.type": _OAUTH,
        "account.key": {"account.key": "a2V5"},
        "sas.fixed.token": _SAS,
        "sas.token.provider.type": {**_SAS, "sas.token.provider.type": "com.example.Tokens"},
        **dict.fromkeys([key for key in _OAUTH if "oauth" in key], _OAUTH),
    },
}


def made(scheme: str, said: dict[str, str], given: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Return the options, None where the settings are refused."""
    try:
        return SCHEMES[scheme].options(Settings(said, said.get), given or {})
    except ConfigError:
        return None


@pytest.mark.parametrize("scheme", STORES)
def test_every_setting_of_hadoops_clients_is_mapped_refused_or_of_no_matter(scheme: str) -> None:
    store = SCHEMES[scheme]
    ignored = [key for keys in OF_NO_MATTER[scheme].values() for key in keys]
    known = [*store.mapped, *store.refused, *ignored, *STORES[scheme]["prefixes"]]
    assert sorted(store.mapped) == sorted(STORES[scheme]["mapped"])
    families = [key for key in known if key.endswith(".")]
    found = {
        key: [key] if key in known else [each for each in families if key.startswith(each)]
        for key in STORES[scheme]["keys"]
    }
    assert [key for key, by in found.items() if not by] == []
    assert len(known) == len(set(known)), "one is there twice"
    assert set(known) - {max(by, key=len) for by in found.values()} == set(), "these no release has"


@pytest.mark.parametrize(("scheme", "key"), MAPPED)
def test_a_mapped_setting_changes_what_is_made(scheme: str, key: str) -> None:
    said = EXAMPLES[scheme][key]
    without = {
        each: value for each, value in said.items() if not f"{each}.".startswith(f"{key.rstrip('.')}.")
    }
    assert without != said
    assert made(scheme, said) != made(scheme, without)


@pytest.mark.parametrize(("scheme", "key", "refusal"), REFUSED)
def test_a_refused_setting_is_named_and_what_to_do_is_said(scheme: str, key: str, refusal: Refusal) -> None:
    store = SCHEMES[scheme]
    spelled = f"{key}alice" if key.endswith(".") else key
    said = {spelled: "com.example.Mine"}
    with pytest.raises(ConfigError) as raised:
        store.options(Settings(said, said.get), {})
    assert str(raised.value).startswith(f"{store.prefixes[0]}{spelled} ")
    assert any(each in refusal.why for each in (": ", ", so "))


@pytest.mark.parametrize(("scheme", "key", "refusal"), REFUSED)
def test_a_refused_setting_may_have_values_that_change_nothing(
    scheme: str, key: str, refusal: Refusal
) -> None:
    for value in ("", *refusal.harmless):
        assert made(scheme, {key: value}) == {}
    for option in refusal.unless:
        assert made(scheme, {key: "com.example.Mine"}, {option: "given"}) is not None


@pytest.mark.parametrize("scheme", STORES)
def test_a_bucket_whose_own_setting_is_refused_is_known(scheme: str) -> None:
    store = SCHEMES[scheme]
    for key in store.refused:
        spelled = store.own.format(name="lake", key=f"{key}alice" if key.endswith(".") else key)
        assert store.named([spelled]) == ["lake"]


@pytest.mark.spark
@pytest.mark.formats  # in one of both environments: it asks neither's PySpark
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("scheme", "release"), RELEASES, ids=[release for _, release in RELEASES])
def test_no_release_has_a_setting_that_is_not_known(scheme: str, release: str, tmp_path: Path) -> None:
    assert keys_in(scheme, jar_of(release, tmp_path)) - set(STORES[scheme]["keys"]) == set()
