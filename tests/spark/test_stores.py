"""From Hadoop's settings of a store to the options of its filesystem here: no Spark in it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from putifabsent.errors import ConfigError
from putifabsent.spark.hadoop_settings import Settings
from putifabsent.spark.settings import (
    defaults,
    host_of,
    refuse_catalogs,
    scheme_settings,
    with_one_more,
)
from putifabsent.spark.stores import SCHEMES

PROVIDER = "aws.credentials.provider"


def options(scheme: str, given: dict[str, Any] | None = None, **said: str) -> dict[str, Any]:
    plain = {key.replace("_", "."): value for key, value in said.items()}
    return SCHEMES[scheme].options(Settings(plain, plain.get), given or {})


def s3a(said: dict[str, str], given: dict[str, Any] | None = None) -> dict[str, Any]:
    return SCHEMES["s3a"].options(Settings(said, said.get), given or {})


def gs(said: dict[str, str], given: dict[str, Any] | None = None) -> dict[str, Any]:
    return SCHEMES["gs"].options(Settings(said, said.get), given or {})


def mounts(scheme: str, hadoop: dict[str, str], **kept: str) -> dict[str, dict[str, Any]]:
    """Return the options of each mount, by what it begins with; ``kept`` is where passwords are looked up."""
    held = {**hadoop, **{key.replace("_", "."): value for key, value in kept.items()}}
    found = SCHEMES[scheme].mountings(scheme, {**dict.fromkeys(held, ""), **hadoop}, held.get, {})
    return {each["prefix"]: each["options"] for each in found}


def test_what_is_not_said_is_left_to_the_client() -> None:
    for scheme in SCHEMES:
        assert options(scheme) == {}


def test_an_endpoint_of_s3a_may_go_without_its_scheme() -> None:
    assert s3a({"endpoint": "minio:9000"})["endpoint_url"] == "https://minio:9000"
    plain = {"endpoint": "minio:9000", "connection.ssl.enabled": "false"}
    assert s3a(plain)["endpoint_url"] == "http://minio:9000"
    assert s3a({"endpoint": "http://minio:9000"})["endpoint_url"] == "http://minio:9000"


def test_an_endpoint_that_mount_is_given_for_the_client_takes_its_place() -> None:
    assert s3a({"endpoint": "minio:9000"}, {"client_kwargs": {"endpoint_url": "http://other:9000"}}) == {}


@pytest.mark.parametrize(
    ("scheme", "variable", "said", "given"),
    [
        (
            "s3a",
            "AWS_ENDPOINT_URL_S3",
            {"endpoint": "http://minio:9000"},
            {"endpoint_url": "http://minio:9000"},
        ),
        (
            "s3a",
            "AWS_ENDPOINT_URL",
            {"endpoint": "http://minio:9000"},
            {"client_kwargs": {"endpoint_url": "x"}},
        ),
        ("gs", "STORAGE_EMULATOR_HOST", {"storage.root.url": "http://fake:4443"}, {"endpoint_url": "x"}),
        ("abfss", "AZURE_STORAGE_CONNECTION_STRING", None, {"connection_string": "AccountName=one"}),
    ],
)
def test_no_variable_sends_guarded_names_elsewhere_than_the_jvms_files(
    scheme: str,
    variable: str,
    said: dict[str, str] | None,
    given: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, "http://elsewhere:9000")
    with pytest.raises(ConfigError, match=f"{variable} would send guarded names elsewhere"):
        options(scheme)
    if said is not None:
        assert SCHEMES[scheme].options(Settings(said, said.get), {})["endpoint_url"] in said.values()
    options(scheme, given)


def test_fips_is_never_left_aside_for_an_endpoint() -> None:
    fips = {"config_kwargs": {"use_fips_endpoint": True}}
    assert s3a({"endpoint.fips": "true"}) == fips
    assert s3a({"endpoint.fips": "true", "endpoint": "s3.amazonaws.com"}) == fips
    with pytest.raises(ConfigError, match=r"endpoint\.fips"):
        s3a({"endpoint.fips": "true", "endpoint": "minio:9000"})


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


def test_keys_that_are_left_over_are_not_those_of_the_machine() -> None:
    profile = "com.amazonaws.auth.InstanceProfileCredentialsProvider"
    assert s3a({PROVIDER: profile, "access.key": "K", "secret.key": "S"}) == {}


def test_a_token_is_for_the_provider_that_reads_one() -> None:
    kept = {"access.key": "K", "secret.key": "S", "session.token": "T"}
    simple = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    assert s3a({PROVIDER: simple, **kept}) == {"key": "K", "secret": "S"}
    temporary = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
    assert s3a({PROVIDER: f"{temporary},\n{simple}", **kept}) == {"key": "K", "secret": "S", "token": "T"}


def test_which_of_two_providers_finds_some_is_not_guessed() -> None:
    said = {PROVIDER: "a.EnvironmentVariableCredentialsProvider,a.SimpleAWSCredentialsProvider"}
    with pytest.raises(ConfigError, match="only the JVM knows which"):
        s3a({**said, "access.key": "K", "secret.key": "S"})
    assert s3a(said) == {}


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


SAID = {
    "fs.s3a.path.style.access": "true",
    "fs.s3a.endpoint.fips": "true",
    "fs.s3a.endpoint.region": "eu-west-1",
    "fs.s3a.proxy.host": "proxy",
    "fs.s3a.encryption.algorithm": "SSE-KMS",
    "fs.s3a.encryption.key": "arn:aws:kms:1",
}


def given_to_mount(**given: Any) -> dict[str, Any]:
    [mounting] = SCHEMES["s3a"].mountings("s3a", SAID, SAID.get, given)
    return dict(mounting["options"])


def test_a_dictionary_that_mount_is_given_leaves_the_session_s_other_keys() -> None:
    config = given_to_mount(
        config_kwargs={"max_pool_connections": 50, "s3": {"payload_signing_enabled": True}}
    )
    assert config["config_kwargs"] == {
        "max_pool_connections": 50,
        "s3": {"addressing_style": "path", "payload_signing_enabled": True},
        "proxies": {"http": "http://proxy:443", "https": "http://proxy:443"},
        "use_fips_endpoint": True,
    }
    assert given_to_mount(client_kwargs={"verify": False})["client_kwargs"] == {
        "region_name": "eu-west-1",
        "verify": False,
    }
    assert given_to_mount(client_kwargs={"region_name": "us-east-1"})["client_kwargs"] == {
        "region_name": "us-east-1"
    }
    headers = {"fs.gs.storage.http.headers.x-team": "lake", "fs.gs.proxy.address": "proxy:3128"}
    given = {"session_kwargs": {"headers": {"x-stage": "prod"}}}
    [mounting] = SCHEMES["gs"].mountings("gs", headers, headers.get, given)
    assert mounting["options"]["session_kwargs"] == {
        "headers": {"x-team": "lake", "x-stage": "prod"},
        "proxy": "http://proxy:3128",
    }


def test_what_mount_is_given_for_each_put_is_encrypted_as_the_session_says() -> None:
    kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "arn:aws:kms:1"}
    one = given_to_mount(s3_additional_kwargs={"StorageClass": "STANDARD_IA"})
    assert one["s3_additional_kwargs"] == {**kms, "StorageClass": "STANDARD_IA"}
    for own in ({"ServerSideEncryption": "AES256"}, {"SSECustomerAlgorithm": "AES256"}):
        assert given_to_mount(s3_additional_kwargs=own)["s3_additional_kwargs"] == own


def test_a_context_of_encryption_is_spelled_as_s3_takes_it() -> None:
    said = {"encryption.algorithm": "SSE-KMS", "encryption.context": "team=lake, stage = prod"}
    context = s3a(said)["s3_additional_kwargs"]["SSEKMSEncryptionContext"]
    assert json.loads(base64.b64decode(context)) == {"team": "lake", "stage": "prod"}


def test_a_bucket_that_says_its_encryption_in_the_older_way_has_it() -> None:
    found = mounts(
        "s3a",
        {
            "fs.s3a.encryption.algorithm": "AES256",
            "fs.s3a.bucket.lake.server-side-encryption-algorithm": "SSE-KMS",
            "fs.s3a.bucket.lake.server-side-encryption.key": "arn:aws:kms:1",
        },
    )
    kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "arn:aws:kms:1"}
    assert found == {
        "s3a:": {"s3_additional_kwargs": {"ServerSideEncryption": "AES256"}},
        "s3a://lake/": {"s3_additional_kwargs": kms},
    }


def test_a_bucket_has_what_all_have_where_it_says_nothing() -> None:
    found = mounts(
        "s3a",
        {"fs.s3a.endpoint.region": "eu-west-1", "fs.s3a.bucket.lake.endpoint": "http://minio:9000"},
    )
    region = {"client_kwargs": {"region_name": "eu-west-1"}}
    assert found == {"s3a:": region, "s3a://lake/": {**region, "endpoint_url": "http://minio:9000"}}


def test_a_bucket_whose_keys_a_credential_provider_holds_has_them() -> None:
    found = mounts("s3a", {}, fs_s3a_bucket_lake_access_key="K", fs_s3a_bucket_lake_secret_key="S")
    assert found == {"s3a:": {}, "s3a://lake/": {"key": "K", "secret": "S"}}


def test_a_bucket_s_secrets_may_be_said_by_their_whole_keys_which_come_first() -> None:
    short = {"fs.s3a.bucket.lake.access.key": "K", "fs.s3a.bucket.lake.secret.key": "S"}
    whole = {"fs.s3a.bucket.lake.fs.s3a.access.key": "L", "fs.s3a.bucket.lake.fs.s3a.secret.key": "T"}
    assert mounts("s3a", whole) == {"s3a:": {}, "s3a://lake/": {"key": "L", "secret": "T"}}
    assert mounts("s3a", {**short, **whole})["s3a://lake/"] == {"key": "L", "secret": "T"}
    with pytest.raises(ConfigError, match=r"s3a://lake/ .*CSE-KMS"):
        mounts("s3a", {"fs.s3a.bucket.lake.fs.s3a.encryption.algorithm": "CSE-KMS"})


def test_of_a_bucket_whose_own_setting_is_refused_the_name_is_said() -> None:
    with pytest.raises(ConfigError, match=r"s3a://lake/ .*fs\.s3a\.delegation\.token\.binding"):
        mounts("s3a", {"fs.s3a.bucket.lake.delegation.token.binding": "com.example.Tokens"})


@pytest.mark.parametrize("key", ["signing-algorithm", "s3.signing-algorithm"])
def test_a_signer_that_only_the_jvm_has_is_refused(key: str) -> None:
    assert s3a({key: "AWSS3V4SignerType"}) == {"config_kwargs": {"signature_version": "s3v4"}}
    with pytest.raises(ConfigError, match=r"signing-algorithm=MySigner"):
        s3a({key: "MySigner"})


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
    assert gs(file) == {"project": "p", "token": "/key.json"}
    assert options("gs", auth_type="UNAUTHENTICATED") == {"token": "anon"}


@pytest.mark.parametrize(
    ("how", "token"),
    [("APPLICATION_DEFAULT", "google_default"), ("COMPUTE_ENGINE", "cloud"), ("UNAUTHENTICATED", "anon")],
)
def test_cloud_storages_credentials_are_those_of_its_type(how: str, token: str) -> None:
    assert gs({"auth.type": how}) == {"token": token}


def test_a_user_of_cloud_storages_is_the_clients() -> None:
    who = {"auth.client.id": "me", "auth.client.secret": "hush", "auth.refresh.token": "T"}
    token = {"client_id": "me", "client_secret": "hush", "refresh_token": "T"}
    assert gs({"auth.type": "USER_CREDENTIALS", **who}) == {"token": token}
    assert gs(who) == {"token": token}


@pytest.mark.parametrize(
    "said",
    [
        {"auth.type": "ACCESS_TOKEN_PROVIDER", "auth.access.token.provider": "com.example.Tokens"},
        {"auth.type": "WORKLOAD_IDENTITY_FEDERATION_CREDENTIAL_CONFIG_FILE"},
        {"auth.type": "USER_CREDENTIALS", "auth.client.id": "me"},
        {"auth.type": "COMPUTE_ENGINE", "auth.service.account.json.keyfile": "/key.json"},
        {"auth.impersonation.service.account": "lake@example.iam.gserviceaccount.com"},
        {"auth.impersonation.service.account.for.user.alice": "lake@example.iam.gserviceaccount.com"},
    ],
)
def test_cloud_storages_credentials_that_only_the_jvm_has_are_refused_or_given(said: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"fs\.gs\.auth\."):
        gs(said)
    assert gs(said, {"token": "google_default"}) == {}


def test_a_default_identity_keeps_its_own_project() -> None:
    assert gs({"auth.type": "APPLICATION_DEFAULT", "project.id": "p"}) == {"token": "google_default"}
    assert gs({"auth.type": "COMPUTE_ENGINE", "project.id": "p"}, {"token": "google_default"}) == {}


def test_who_pays_for_cloud_storages_requests_is_one_project() -> None:
    said = {"requester.pays.mode": "ENABLED", "requester.pays.project.id": "payer", "project.id": "p"}
    assert gs(said) == {"project": "p", "requester_pays": "payer"}
    with pytest.raises(ConfigError, match=r"requester\.pays\.mode=AUTO"):
        gs({**said, "requester.pays.mode": "AUTO"})
    assert gs({"requester.pays.mode": "CUSTOM"}, {"requester_pays": "payer"}) == {}


def test_a_proxy_and_headers_of_cloud_storages_are_the_sessions() -> None:
    said = {"proxy.address": "proxy:3128", "proxy.username": "me", "proxy.password": "a/b"}
    session = {"proxy": "http://me:a%2Fb@proxy:3128", "headers": {"x-team": "lake"}}
    assert gs({**said, "storage.http.headers.x-team": "lake"}) == {"session_kwargs": session}


@pytest.mark.parametrize("key", ["encryption.key", "storage.http.headers.x-goog-encryption-key"])
def test_cloud_storages_encryption_with_a_clients_key_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        gs({key: "a2V5"}, {"token": "anon"})


def test_of_a_family_of_settings_too_a_stores_own_come_first() -> None:
    kept: dict[str, str] = {}
    everyones = Settings({"headers.x-a": "0", "headers.x-b": "0"}, kept.get)
    assert Settings({"headers.x-a": "1"}, kept.get, everyones).below("headers.") == {"x-a": "1", "x-b": "0"}


def test_the_connectors_other_prefix_comes_second() -> None:
    said = {"google.cloud.auth.type": "UNAUTHENTICATED", "google.cloud.proxy.address": "proxy:3128"}
    session = {"session_kwargs": {"proxy": "http://proxy:3128"}}
    assert mounts("gs", said) == {"gs:": {"token": "anon", **session}}
    assert mounts("gs", {**said, "fs.gs.auth.type": "COMPUTE_ENGINE"})["gs:"]["token"] == "cloud"


def test_azures_tenant_is_looked_for_where_the_client_does() -> None:
    elsewhere = "https://login.chinacloudapi.cn/tenant-1/oauth2/token"
    with pytest.raises(ConfigError, match="give mount"):
        abfs({**OAUTH, "account.oauth2.client.endpoint": elsewhere})


def test_a_token_of_one_container_is_not_taken_for_its_account() -> None:
    account = "one.z05.dfs.storage.azure.net"
    key = f"fs.azure.sas.fixed.token.{account}"
    sas = {"fs.azure.account.auth.type": "SAS", "fs.azure.sas.fixed.token": "sv=0"}
    assert mounts("abfss", {**sas, key: "sv=1"})[f"abfss://@{account}/"] == {"sas_token": "sv=1"}
    for host in (account, "one.dfs.core.windows.net"):
        with pytest.raises(ConfigError, match="one container alone"):
            mounts("abfss", {**sas, f"fs.azure.sas.fixed.token.lake.{host}": "sv=1"})


def test_the_jar_goes_with_those_that_are_there_and_only_once() -> None:
    assert with_one_more("", "/a.jar") == "/a.jar"
    assert with_one_more(" /b.jar, /a.jar ", "/a.jar") == "/b.jar,/a.jar"


def test_lines_for_spark_defaults_have_no_secret() -> None:
    said = defaults(["s3a"], "http://10.0.0.7:8976", "/a.jar")
    assert said["spark.hadoop.fs.putifabsent.secret"] == "${env.PUTIFABSENT_SERVICE_SECRET}"
    assert said["spark.hadoop.fs.s3a.impl"].startswith("org.putifabsent.")


def test_the_adapter_of_local_files_is_there_before_spark_opens_its_jars() -> None:
    assert defaults(["file"], "http://10.0.0.7:8976", "/a.jar")["spark.driver.extraClassPath"] == "/a.jar"
    # Elsewhere a format in spark.jars would not be seen from there.
    assert "spark.driver.extraClassPath" not in defaults(["s3a"], "http://10.0.0.7:8976", "/a.jar")


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


@pytest.mark.parametrize(
    "key",
    [
        "fs.s3a.impl",
        "fs.s3a.endpoint",
        "fs.s3.endpoint",
        "fs.AbstractFileSystem.s3a.impl",
        "fs.cos.impl",
        "fs.putifabsent.address",
    ],
)
def test_what_a_catalog_alone_would_tell_hadoop_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"catalog\.lake\.hadoop\.{key} .* say spark\.hadoop\.{key}$"):
        refuse_catalogs(["spark.app.name", f"spark.sql.catalog.lake.hadoop.{key}"], ["s3a"])


def test_what_a_catalog_tells_hadoop_of_other_stores_is_not() -> None:
    keys = ["spark.sql.catalog.lake.hadoop.fs.gs.project.id", "spark.sql.catalog.lake.type"]
    refuse_catalogs([*keys, "spark.hadoop.fs.s3a.endpoint"], ["s3a"])


@pytest.mark.parametrize(
    ("listening", "host"),
    [
        ("0.0.0.0", "driver"),  # noqa: S104 - what users may say
        ("", "driver"),
        ("::", "driver"),
        ("[::]", "driver"),
        ("10.0.0.7", "10.0.0.7"),
        ("fd00::7", "[fd00::7]"),
        ("[fd00::7]", "[fd00::7]"),
    ],
)
def test_executors_are_told_a_host_that_they_can_reach(listening: str, host: str) -> None:
    assert host_of(listening, "driver") == host
    assert host_of("::", "fd00::1") == host_of("::", "[fd00::1]") == "[fd00::1]"
