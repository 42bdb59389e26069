"""From Hadoop's settings of a store to the options of its filesystem here: no Spark in it."""

from __future__ import annotations

from typing import Any

import pytest

from putifabsent.errors import ConfigError
from putifabsent.spark.settings import defaults, scheme_settings, with_jar
from putifabsent.spark.stores import SCHEMES, Settings

PROVIDER = "aws.credentials.provider"


def options(scheme: str, given: dict[str, Any] | None = None, **said: str) -> dict[str, Any]:
    plain = {key.replace("_", "."): value for key, value in said.items()}
    return SCHEMES[scheme].options(Settings(plain, plain.get), given or {})


def s3a(said: dict[str, str], given: dict[str, Any] | None = None) -> dict[str, Any]:
    return SCHEMES["s3a"].options(Settings(said, said.get), given or {})


def test_what_is_not_said_is_left_to_the_client() -> None:
    for scheme in SCHEMES:
        assert options(scheme) == {}


def test_an_endpoint_of_s3a_may_go_without_its_scheme() -> None:
    assert s3a({"endpoint": "minio:9000"})["endpoint_url"] == "https://minio:9000"
    plain = {"endpoint": "minio:9000", "connection.ssl.enabled": "false"}
    assert s3a(plain)["endpoint_url"] == "http://minio:9000"
    assert s3a({"endpoint": "http://minio:9000"})["endpoint_url"] == "http://minio:9000"


def test_region_style_and_proxy_are_the_clients() -> None:
    said = {"endpoint.region": "eu-west-1", "path.style.access": "true", "proxy.host": "proxy"}
    assert s3a(said) == {
        "client_kwargs": {"region_name": "eu-west-1"},
        "config_kwargs": {
            "s3": {"addressing_style": "path"},
            "proxies": {"http": "http://proxy:443", "https": "http://proxy:443"},
        },
    }


def test_keys_are_taken_from_wherever_hadoop_keeps_them() -> None:
    kept = {"access.key": "K", "secret.key": "S", "session.token": "T"}
    found = SCHEMES["s3a"].options(Settings({}, kept.get), {})
    assert found == {"key": "K", "secret": "S", "token": "T"}


def test_credentials_that_are_given_here_come_first() -> None:
    said = {"access.key": "K", "secret.key": "S", PROVIDER: "com.example.Vault"}
    assert "key" not in s3a(said, {"profile": "mine"})


def test_a_provider_that_only_the_jvm_has_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"com\.example\.Vault|Vault"):
        s3a({PROVIDER: "com.example.Vault"})


def test_keys_that_such_a_provider_begins_with_are_not_what_it_ends_with() -> None:
    role = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
    with pytest.raises(ConfigError, match="AssumedRole"):
        s3a({PROVIDER: role, "access.key": "K", "secret.key": "S"})


@pytest.mark.parametrize("key", ["accesspoint.arn", "security.credential.provider.path"])
def test_what_would_lead_the_service_elsewhere_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        s3a({key: "arn:aws:s3:eu-west-1:1:accesspoint/mine"})


def test_a_proxys_password_goes_into_its_address() -> None:
    said = {"proxy.host": "proxy", "proxy.port": "3128", "proxy.username": "me", "proxy.password": "a/b"}
    assert s3a(said)["config_kwargs"]["proxies"]["https"] == "http://me:a%2Fb@proxy:3128"


def test_nobody_has_no_credentials() -> None:
    anonymous = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    assert s3a({PROVIDER: anonymous, "access.key": "K", "secret.key": "S"}) == {"anon": True}


def test_what_s3a_adds_to_its_puts_is_added_to_guarded_ones() -> None:
    said = {
        "encryption.algorithm": "SSE-KMS",
        "encryption.key": "arn:aws:kms:1",
        "acl.default": "BucketOwnerFullControl",
        "create.storage.class": "intelligent_tiering",
        "requester.pays.enabled": "true",
    }
    assert s3a(said) == {
        "requester_pays": True,
        "s3_additional_kwargs": {
            "ServerSideEncryption": "aws:kms",
            "SSEKMSKeyId": "arn:aws:kms:1",
            "ACL": "bucket-owner-full-control",
            "StorageClass": "INTELLIGENT_TIERING",
        },
    }


@pytest.mark.parametrize("algorithm", ["SSE-C", "CSE-KMS", "CSE-CUSTOM"])
def test_encryption_whose_keys_are_with_the_client_is_refused(algorithm: str) -> None:
    with pytest.raises(ConfigError, match=algorithm):
        s3a({"encryption.algorithm": algorithm})


def test_a_buckets_name_may_have_dots() -> None:
    keys = ["bucket.my.own.bucket.endpoint.region", "bucket.other.access.key", "endpoint", "bucket.x.unknown"]
    assert SCHEMES["s3a"].named(keys) == ["my.own.bucket", "other"]


def test_azures_accounts_are_known_by_their_settings() -> None:
    keys = [
        "account.key.one.dfs.core.windows.net",
        "account.auth.type.two.dfs.core.windows.net",
        "account.oauth2.client.secret.two.dfs.core.windows.net",
        "account.auth.type",
        "account.hns.enabled.three.dfs.core.windows.net",
    ]
    assert SCHEMES["abfss"].named(keys) == ["one.dfs.core.windows.net", "two.dfs.core.windows.net"]


def abfs(said: dict[str, str], given: dict[str, Any] | None = None) -> dict[str, Any]:
    return SCHEMES["abfs"].options(Settings(said, said.get), given or {})


OAUTH = {
    "account.auth.type": "OAuth",
    "account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
    "account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant-1/oauth2/token",
    "account.oauth2.client.id": "me",
    "account.oauth2.client.secret": "hush",
}


def test_azures_credentials_are_the_clients() -> None:
    assert abfs({"account.key": "a2V5"}) == {"account_key": "a2V5"}
    assert abfs({"account.auth.type": "SAS", "sas.fixed.token": "sv=1"}) == {"sas_token": "sv=1"}
    assert abfs(OAUTH) == {"tenant_id": "tenant-1", "client_id": "me", "client_secret": "hush"}


@pytest.mark.parametrize(
    "said",
    [
        {**OAUTH, "account.oauth.provider.type": "org.example.MyTokenProvider"},
        {**OAUTH, "account.oauth2.client.secret": ""},
        {"account.auth.type": "SAS", "sas.token.provider.type": "org.example.MyTokens"},
        {"account.auth.type": "Custom"},
    ],
)
def test_credentials_of_azures_that_only_the_jvm_has_are_refused_or_given(said: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="give mount"):
        abfs(said)
    assert abfs(said, {"sas_token": "sv=1"}) == {}


def test_azures_encryption_with_a_clients_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="encryption"):
        abfs({"client-provided-encryption-key": "a2V5"}, {"account_key": "a2V5"})


def test_cloud_storage_takes_a_key_file_or_nobody() -> None:
    file = {"project.id": "p", "auth.service.account.json.keyfile": "/key.json"}
    gs = SCHEMES["gs"].options
    assert gs(Settings(file, file.get), {}) == {"project": "p", "token": "/key.json"}
    assert options("gs", auth_type="UNAUTHENTICATED") == {"token": "anon"}


def test_the_jar_goes_with_those_that_are_there_and_only_once() -> None:
    assert with_jar("", "/a.jar") == "/a.jar"
    assert with_jar(" /b.jar, /a.jar ", "/a.jar") == "/b.jar,/a.jar"


def test_lines_for_spark_defaults_have_no_secret() -> None:
    said = defaults(["s3a"], "http://10.0.0.7:8976", "/a.jar")
    assert said["spark.hadoop.fs.putifabsent.secret"] == "${env.PUTIFABSENT_SERVICE_SECRET}"
    assert said["spark.hadoop.fs.s3a.impl"].startswith("org.putifabsent.")


def test_a_scheme_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"oss:// can't be mounted: use s3a, "):
        scheme_settings("oss", "org.apache.hadoop.fs.aliyun.oss.AliyunOSSFileSystem")


def test_a_scheme_that_decides_itself_needs_no_mount() -> None:
    with pytest.raises(ConfigError, match="NameNode"):
        scheme_settings("hdfs", "org.apache.hadoop.hdfs.DistributedFileSystem")


def test_other_schemes_of_an_azure_account_are_refused_where_one_is_guarded() -> None:
    guarded = "org.putifabsent.hadoop.GuardedFileSystem"
    said = defaults(["abfss"], "http://127.0.0.1:8976", "jar")
    for scheme in ("abfs", "abfss", "wasb", "wasbs"):
        assert said[f"spark.hadoop.fs.{scheme}.impl"] == guarded
        assert (f"spark.hadoop.fs.putifabsent.wrapped.{scheme}" in said) is (scheme == "abfss")
    both = defaults(["abfss", "abfs"], "http://127.0.0.1:8976", "jar")
    assert both["spark.hadoop.fs.putifabsent.wrapped.abfs"].endswith(".AzureBlobFileSystem")
