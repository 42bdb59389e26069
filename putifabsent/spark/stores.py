"""From Hadoop's addresses and its settings of a store to those of its filesystem here.

Keys and their meanings: Hadoop's ``core-default.xml`` and its pages of S3A and ABFS, and the README of the
Cloud Storage connector.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["SCHEMES", "Settings", "Store", "address_of", "store_of"]

_ANONYMOUS = "AnonymousAWSCredentialsProvider"
# Those of which botocore's own chain finds what they find.
_CHAIN = {
    "TemporaryAWSCredentialsProvider", "SimpleAWSCredentialsProvider",
    "EnvironmentVariableCredentialsProvider", "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "EC2ContainerCredentialsProviderWrapper", "ContainerCredentialsProvider",
    "DefaultAWSCredentialsProviderChain", "DefaultCredentialsProvider",
    "ProfileCredentialsProvider", "ProfileAWSCredentialsProvider",
    "WebIdentityTokenCredentialsProvider", "WebIdentityTokenFileCredentialsProvider",
}  # fmt: skip
_ENCRYPTED = {"AES256": "AES256", "SSE-S3": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}
_CREDENTIALS = ("anon", "key", "profile", "token")


class Settings(NamedTuple):
    """Hadoop's settings of one store, without what their keys begin with.

    Attributes
    ----------
    plain
        Its settings.
    password
        Looks up what a credential provider may hold.
    """

    plain: Mapping[str, str]
    password: Callable[[str], str | None]

    def first(self, *keys: str) -> str | None:
        """Return the first of these that says anything."""
        return next((value for key in keys if (value := self.plain.get(key, "").strip())), None)

    def secret(self, *keys: str) -> str | None:
        """Return the first of these that is there, wherever it is kept."""
        return next((value for key in keys if (value := (self.password(key) or "").strip())), None)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a setting that is true or false."""
        said = self.first(key)
        return default if said is None else said.lower() == "true"


class Store(NamedTuple):
    """What is known of a scheme.

    Attributes
    ----------
    protocol
        Its guarded filesystem here.
    wrapped
        The class of filesystem that Hadoop usually has for it.
    before
        What its settings' keys begin with in Hadoop.
    options
        From those settings, and the options that are given here, to the filesystem's options.
    keys
        Settings that it reads, of which a bucket or an account may have its own.
    own
        How those are spelled.
    authority
        How a bucket or an account is spelled in an address that is all of it.
    twins
        Other schemes that lead to the same stores.
    """

    protocol: str
    wrapped: str
    before: str
    options: Callable[[Settings, Mapping[str, Any]], dict[str, Any]]
    keys: tuple[str, ...] = ()
    own: str = "bucket.{name}.{key}"
    authority: str = "{name}"
    twins: tuple[str, ...] = ()

    def named(self, keys: Iterable[str]) -> list[str]:
        """Return the buckets or accounts with settings of their own, sorted; a name may have dots."""
        known = "|".join(map(re.escape, self.keys))
        spelled = self.own.replace(".", r"\.").format(name="(?P<name>.+?)", key=f"(?:{known})")
        found = (re.fullmatch(spelled, key) for key in keys)
        return sorted({each["name"] for each in found if each})


def _s3(said: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    if said.first("accesspoint.arn"):
        raise ConfigError("fs.s3a.bucket.NAME.accesspoint.arn is not supported: say the access point's alias")
    found: dict[str, Any] = {}
    config: dict[str, Any] = {}
    tls = said.flag("connection.ssl.enabled", default=True)
    if endpoint := said.first("endpoint"):
        found["endpoint_url"] = endpoint if "://" in endpoint else f"http{'s' if tls else ''}://{endpoint}"
    if region := said.first("endpoint.region"):
        found["client_kwargs"] = {"region_name": region}
    if said.flag("path.style.access", default=False):
        config["s3"] = {"addressing_style": "path"}
    if host := said.first("proxy.host"):
        user, password = said.first("proxy.username"), said.secret("proxy.password")
        who = f"{quote(user, '')}:{quote(password or '', '')}@" if user else ""
        proxy = f"http://{who}{host}:{said.first('proxy.port') or (443 if tls else 80)}"
        config["proxies"] = {"http": proxy, "https": proxy}
    if config:
        found["config_kwargs"] = config
    if said.flag("requester.pays.enabled", default=False):
        found["requester_pays"] = True
    found |= _s3_credentials(said, given)
    if more := _s3_of_each_put(said):
        found["s3_additional_kwargs"] = more
    return found


def _s3_credentials(said: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    if any(each in given for each in _CREDENTIALS):
        return {}
    classes = (said.first("aws.credentials.provider") or "").replace(",", " ").split()
    providers = [each.rpartition(".")[2] for each in classes]
    if providers and providers[0] == _ANONYMOUS:
        return {"anon": True}
    strange = [each for each in providers if each not in _CHAIN and each != _ANONYMOUS]
    if strange or said.first("security.credential.provider.path"):
        what = f"aws.credentials.provider={strange[0]}" if strange else "security.credential.provider.path"
        raise ConfigError(
            f"fs.s3a.{what} is known to the JVM alone: "
            "give mount() the credentials, as s3fs takes them (key=, secret=, token=, profile=)"
        )
    keys = {"key": said.secret("access.key"), "secret": said.secret("secret.key")}
    if all(keys.values()):
        token = said.secret("session.token")
        return {**keys, "token": token} if token else keys
    return {}


def _s3_of_each_put(said: Settings) -> dict[str, str]:
    found = {}
    if algorithm := said.first("encryption.algorithm", "server-side-encryption-algorithm"):
        if algorithm not in _ENCRYPTED:
            raise ConfigError(
                f"fs.s3a.encryption.algorithm={algorithm} is not supported: its keys would be needed here"
            )
        found["ServerSideEncryption"] = _ENCRYPTED[algorithm]
        key = said.secret("encryption.key", "server-side-encryption.key")
        if key and algorithm.endswith("KMS"):
            found["SSEKMSKeyId"] = key
    if acl := said.first("acl.default"):
        # S3A says BucketOwnerFullControl, S3 bucket-owner-full-control.
        found["ACL"] = re.sub(r"(?<=.)(?=[A-Z])", "-", acl).lower()
    if storage_class := said.first("create.storage.class"):
        found["StorageClass"] = storage_class.upper()
    return found


def _gs(said: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if project := said.first("project.id"):
        found["project"] = project
    if root := said.first("storage.root.url"):
        found["endpoint_url"] = root.rstrip("/")
    if "token" not in given:
        if said.first("auth.type") == "UNAUTHENTICATED" or said.flag("auth.null.enable", default=False):
            found["token"] = "anon"  # noqa: S105 - gcsfs' word for none
        elif file := said.first("auth.service.account.json.keyfile"):
            found["token"] = file
    return found


def _azure(said: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    if held := next(filter(said.secret, _AZURE_KEYS_OF_CLIENTS), None):
        raise ConfigError(f"fs.azure.{held} is not supported: its keys would be needed here")
    if any(each in given for each in _AZURE_CREDENTIALS):
        return {}
    how = said.first("account.auth.type") or "SharedKey"
    provider = (said.first("account.oauth.provider.type") or "").rpartition(".")[2]
    if how == "SharedKey":
        key = said.secret("account.key")
        return {"account_key": key} if key else {}
    if how == "SAS" and (token := said.secret("sas.fixed.token")):
        return {"sas_token": token}
    if how == "OAuth" and provider == "ClientCredsTokenProvider":
        # https://login.microsoftonline.com/TENANT/oauth2/token
        _, tenant, *_ = f"{urlsplit(said.first('account.oauth2.client.endpoint') or '').path}/".split("/")
        who = {
            "tenant_id": tenant,
            "client_id": said.secret("account.oauth2.client.id"),
            "client_secret": said.secret("account.oauth2.client.secret"),
        }
        if all(who.values()):
            return who
    raise ConfigError(
        f"fs.azure.account.auth.type={how} {provider} is known to the JVM alone, or not all of it is there: "
        "give mount() the credentials, as adlfs takes them (account_key=, sas_token=, client_id= with "
        "client_secret= and tenant_id=; anon=False for this machine's identity)"
    )


def _nothing(said: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    del said, given
    return {}


_S3_KEYS = (
    "endpoint", "endpoint.region", "connection.ssl.enabled", "path.style.access", "proxy.host", "proxy.port",
    "proxy.username", "proxy.password", "accesspoint.arn", "security.credential.provider.path",
    "requester.pays.enabled", "aws.credentials.provider", "access.key", "secret.key", "session.token",
    "encryption.algorithm", "encryption.key",
    "server-side-encryption-algorithm", "server-side-encryption.key",
    "acl.default", "create.storage.class",
)  # fmt: skip

_AZURE_CREDENTIALS = (
    "account_key", "anon", "client_id", "connection_string", "credential", "sas_token",
)  # fmt: skip
_AZURE_KEYS_OF_CLIENTS = ("client-provided-encryption-key", "encryption.encoded.client-provided-key")
_AZURE_KEYS = (
    "account.auth.type", "account.key", "sas.fixed.token", "account.oauth.provider.type",
    "account.oauth2.client.endpoint", "account.oauth2.client.id", "account.oauth2.client.secret",
    *_AZURE_KEYS_OF_CLIENTS,
)  # fmt: skip
_ABFS = "org.apache.hadoop.fs.azurebfs."
_AZURE: dict[str, Any] = {
    "before": "fs.azure.",
    "options": _azure,
    "keys": _AZURE_KEYS,
    "own": "{key}.{name}",
    "authority": "@{name}",
}

_S3A = Store("pias3", "org.apache.hadoop.fs.s3a.S3AFileSystem", "fs.s3a.", _s3, _S3_KEYS)
_S3 = ("s3a", "s3", "s3n")
_BLOBS = ("abfs", "abfss", "wasb", "wasbs")

SCHEMES = {
    **{scheme: _S3A._replace(twins=_S3) for scheme in _S3},
    "gs": Store("piags", "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem", "fs.gs.", _gs),
    "abfs": Store("piaaz", f"{_ABFS}AzureBlobFileSystem", **_AZURE, twins=_BLOBS),
    "abfss": Store("piaaz", f"{_ABFS}SecureAzureBlobFileSystem", **_AZURE, twins=_BLOBS),
    "file": Store("piafile", "org.apache.hadoop.fs.LocalFileSystem", "fs.file.", _nothing),
}
"""Schemes of Hadoop's that can be mounted."""


def store_of(scheme: str) -> Store:
    """Return what is known of a scheme.

    Raises
    ------
    ConfigError
        It can't be mounted.
    """
    if scheme == "hdfs":
        raise ConfigError("hdfs:// needs no mount: its NameNode lets one writer alone create a name")
    if scheme not in SCHEMES:
        raise ConfigError(f"{scheme}:// can't be mounted: use {', '.join(SCHEMES)}")
    return SCHEMES[scheme]


def address_of(url: str) -> str:
    """Return an address as fsspec spells it.

    Parameters
    ----------
    url
        The same, or as Hadoop spells it (``file:/...``), or an absolute path.

    Raises
    ------
    ConfigError
        It is a relative path: each of Spark's processes has a folder of its own that it would be relative to.
    """
    scheme, colon, path = url.partition(":")
    if not colon:
        scheme, path = "file", url
    if scheme in ("file", "local", "piafile") and not path.startswith("/"):
        raise ConfigError(f"the path must be absolute, or an address, not {url!r}")
    return f"{scheme}://{path.removeprefix('//')}"
