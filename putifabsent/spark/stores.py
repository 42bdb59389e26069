"""Stores as Hadoop's clients know them, S3A, the Cloud Storage connector and ABFS, and as filesystems here.

Keys and their meanings: Hadoop's ``core-default.xml`` and its pages of S3A and ABFS, and the README of the
Cloud Storage connector. ``tools/hadoop_keys.json`` has every key: what it becomes, or why it is of no matter.
"""

from __future__ import annotations

import base64
import json
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from putifabsent.errors import ConfigError
from putifabsent.spark.hadoop_settings import Refusal, Settings, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ANONYMOUS = "AnonymousAWSCredentialsProvider"
# Those that look for keys among the settings, and which ones they must have.
_KEYED = {
    "TemporaryAWSCredentialsProvider": {
        "key": "access.key",
        "secret": "secret.key",
        "token": "session.token",
    },
    "SimpleAWSCredentialsProvider": {"key": "access.key", "secret": "secret.key"},
}
_PROFILES = {"ProfileCredentialsProvider", "ProfileAWSCredentialsProvider"}
# Those of which botocore's own chain finds what they find.
_CHAIN = {
    *_PROFILES,
    "EnvironmentVariableCredentialsProvider", "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "EC2ContainerCredentialsProviderWrapper", "ContainerCredentialsProvider",
    "DefaultAWSCredentialsProviderChain", "DefaultCredentialsProvider",
    "WebIdentityTokenCredentialsProvider", "WebIdentityTokenFileCredentialsProvider",
}  # fmt: skip
_USUAL = [*_KEYED, "EnvironmentVariableCredentialsProvider", "IAMInstanceCredentialsProvider"]
_ENCRYPTED = {"AES256": "AES256", "SSE-S3": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}
_SIGNERS = {"AWSS3V4SignerType": "s3v4", "AWS4SignerType": "s3v4", "S3SignerType": "s3"}
_CREDENTIALS = ("anon", "key", "profile", "token")
_GIVE_S3 = "give mount() the credentials, as s3fs takes them (key=, secret=, token=, profile=)"


def _pairs(text: str | None) -> dict[str, str]:
    pairs = (each.partition("=") for each in (text or "").split(",") if each.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _proxy(address: str, user: str | None, password: str | None) -> str:
    scheme, _, host = address.rpartition("://")
    who = f"{quote(user, '')}:{quote(password or '', '')}@" if user else ""
    return f"{scheme or 'http'}://{who}{host}"


def _refuse_environment(key: str, *variables: str) -> None:
    """Refuse what sends the clients here elsewhere than the JVM's, which may go by its own settings alone."""
    if found := next(filter(os.environ.get, variables), None):
        raise ConfigError(
            f"{found} would send guarded names elsewhere than the JVM's other files: set {key}, or remove it"
        )


def _s3(conf: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    tls = conf.flag("connection.ssl.enabled", default=True)
    fips = conf.flag("endpoint.fips", default=False)
    endpoint = conf.first("endpoint")
    if endpoint and fips:
        # botocore would go there, and leave FIPS aside; Spark sets the endpoint of all regions by itself.
        if endpoint.rpartition("://")[2] != "s3.amazonaws.com":
            raise ConfigError(
                "fs.s3a.endpoint.fips is for AWS's own endpoints: remove it, or fs.s3a.endpoint"
            )
    elif "endpoint_url" not in {**given, **(given.get("client_kwargs") or {})}:
        if endpoint:
            found["endpoint_url"] = (
                endpoint if "://" in endpoint else f"http{'s' if tls else ''}://{endpoint}"
            )
        else:
            _refuse_environment("fs.s3a.endpoint", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    if region := conf.first("endpoint.region"):
        found["client_kwargs"] = {"region_name": region}
    config = _s3_config(conf, 443 if tls else 80)
    if config or fips:
        found["config_kwargs"] = {**config, **({"use_fips_endpoint": True} if fips else {})}
    if conf.flag("requester.pays.enabled", default=False):
        found["requester_pays"] = True
    if not any(each in given for each in _CREDENTIALS):
        found |= _s3_credentials(conf)
    if more := _s3_of_each_put(conf, given.get("s3_additional_kwargs") or {}):
        found["s3_additional_kwargs"] = more
    return found


def _s3_config(conf: Settings, port: int) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if conf.flag("path.style.access", default=False):
        config["s3"] = {"addressing_style": "path"}
    if signer := conf.first("s3.signing-algorithm") or conf.first("signing-algorithm"):
        if signer not in _SIGNERS:
            raise ConfigError(
                f"fs.s3a.signing-algorithm={signer} is known to the JVM alone: "
                f"use one of {', '.join(_SIGNERS)}, or none"
            )
        config["signature_version"] = _SIGNERS[signer]
    if host := conf.first("proxy.host"):
        scheme = "https" if conf.flag("proxy.ssl.enabled", default=False) else "http"
        address = f"{scheme}://{host}:{conf.first('proxy.port') or port}"
        proxy = _proxy(address, conf.first("proxy.username"), conf.secret("proxy.password"))
        config["proxies"] = {"http": proxy, "https": proxy}
    return config


def _s3_credentials(conf: Settings) -> dict[str, Any]:
    """Return what the first provider that finds some would find."""
    others = _pairs(conf.first("aws.credentials.provider.mapping"))
    classes = (conf.first("aws.credentials.provider") or " ".join(_USUAL)).replace(",", " ").split()
    chain: dict[str, Any] | None = None
    for provider in (others.get(each, each).rpartition(".")[2] for each in classes):
        if provider in _KEYED:
            keys = {option: conf.secret(key) for option, key in _KEYED[provider].items()}
            if all(keys.values()) and chain is not None:
                raise ConfigError(
                    f"fs.s3a.aws.credentials.provider has {provider} behind one that asks the machine, and "
                    f"only the JVM knows which of them finds some: name one, or {_GIVE_S3}"
                )
            if all(keys.values()):
                return keys
        elif provider in _CHAIN:
            profile = conf.first("auth.profile.name") if provider in _PROFILES else None
            chain = chain or ({"profile": profile} if profile else {})
        elif provider != _ANONYMOUS:
            raise ConfigError(
                f"fs.s3a.aws.credentials.provider={provider} is known to the JVM alone: {_GIVE_S3}"
            )
        elif chain is None:
            return {"anon": True}
    return chain or {}


def _s3_of_each_put(conf: Settings, given: Mapping[str, str]) -> dict[str, str]:
    found = {}
    algorithm = conf.secret("encryption.algorithm", "server-side-encryption-algorithm")
    # Who gives another one has no use for its keys: the store would refuse both.
    own = given.get("ServerSideEncryption", given.get("SSECustomerAlgorithm"))
    if algorithm and own in (None, _ENCRYPTED.get(algorithm)):
        if algorithm not in _ENCRYPTED:
            raise ConfigError(
                f"fs.s3a.encryption.algorithm={algorithm} is not supported: its keys would be needed here, "
                f"so use one of {', '.join(_ENCRYPTED)}"
            )
        found["ServerSideEncryption"] = _ENCRYPTED[algorithm]
        if algorithm.endswith("KMS"):
            if key := conf.secret("encryption.key", "server-side-encryption.key"):
                found["SSEKMSKeyId"] = key
            if context := _pairs(conf.secret("encryption.context")):
                found["SSEKMSEncryptionContext"] = base64.b64encode(json.dumps(context).encode()).decode()
    if acl := conf.first("acl.default"):
        # S3A says BucketOwnerFullControl, S3 bucket-owner-full-control.
        found["ACL"] = re.sub(r"(?<=.)(?=[A-Z])", "-", acl).lower()
    if storage_class := conf.first("create.storage.class"):
        found["StorageClass"] = storage_class.upper()
    if encoding := conf.first("object.content.encoding"):
        found["ContentEncoding"] = encoding
    return found


_MAPPED_S3 = (
    "endpoint", "endpoint.region", "endpoint.fips", "connection.ssl.enabled", "path.style.access",
    "signing-algorithm", "s3.signing-algorithm", "proxy.host", "proxy.port", "proxy.ssl.enabled",
    "proxy.username", "proxy.password", "requester.pays.enabled", "aws.credentials.provider",
    "aws.credentials.provider.mapping", "auth.profile.name", "access.key", "secret.key", "session.token",
    "encryption.algorithm", "encryption.key", "encryption.context", "server-side-encryption-algorithm",
    "server-side-encryption.key", "acl.default", "create.storage.class", "object.content.encoding",
)  # fmt: skip
_OF_REQUESTS = "changes the requests of the JVM alone, and guarded names go without it: remove it"
_NTLM = "is for proxies that want NTLM: use one that takes a user and a password, or none of both"
_REFUSED_S3 = {
    "accesspoint.arn": Refusal("is not supported: say the access point's alias, in place of the bucket"),
    "access.grants.enabled": Refusal(
        f"gets credentials that the JVM alone has: {_GIVE_S3}", ("false",), _CREDENTIALS
    ),
    "auth.profile.file": Refusal(
        "is not read here: name the file in AWS_SHARED_CREDENTIALS_FILE instead, where the driver starts",
        unless=_CREDENTIALS,
    ),
    "audit.execution.interceptors": Refusal(_OF_REQUESTS),
    "audit.request.handlers": Refusal(_OF_REQUESTS),
    "client.s3.custom.headers": Refusal(_OF_REQUESTS),
    "custom.signers": Refusal(_OF_REQUESTS),
    "delegation.token.binding": Refusal(
        f"gets credentials that the JVM alone has: {_GIVE_S3}", unless=_CREDENTIALS
    ),
    "http.signer.enabled": Refusal(_OF_REQUESTS, ("false",)),
    "metadatastore.impl": Refusal(
        "keeps lists of files that no guarded name would be in: remove it, for S3 is consistent",
        ("org.apache.hadoop.fs.s3a.s3guard.NullMetadataStore",),
    ),
    "proxy.domain": Refusal(_NTLM),
    "proxy.workstation": Refusal(_NTLM),
    "s3.client.factory.impl": Refusal(_OF_REQUESTS, ("org.apache.hadoop.fs.s3a.DefaultS3ClientFactory",)),
    "security.credential.provider.path": Refusal(
        f"is known to the JVM alone: {_GIVE_S3}", unless=_CREDENTIALS
    ),
}

_GIVE_GS = "give mount() a token=, as gcsfs takes it"
_BY_DEFAULT = (
    "name its file in GOOGLE_APPLICATION_CREDENTIALS, where the driver starts, and give mount() "
    "token='google_default'"
)
_OF_CLIENTS_GS = (
    "has a key of the client's, which not every request here would carry: "
    "give the bucket a default key of Cloud KMS instead"
)
_USER = ("auth.client.id", "auth.client.secret", "auth.refresh.token")
_KEY_FILE = "auth.service.account.json.keyfile"
_SERVICE_ACCOUNT = ("auth.service.account.enable", "enable.service.account.auth")


def _gs(conf: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if project := conf.first("project.id"):
        found["project"] = project
    if root := conf.first("storage.root.url"):
        found["endpoint_url"] = root.rstrip("/")
    elif "endpoint_url" not in given:
        _refuse_environment("fs.gs.storage.root.url", "STORAGE_EMULATOR_HOST")
    if "token" not in given and (token := _gs_token(conf)):
        found["token"] = token
    if {**found, **given}.get("token") == "google_default":
        # gcsfs then insists on these credentials' own project, which guarded names have no need of.
        found.pop("project", None)
    if "requester_pays" not in given and (payer := _gs_payer(conf)):
        found["requester_pays"] = payer
    if session := _gs_session(conf):
        found["session_kwargs"] = session
    return found


def _gs_payer(conf: Settings) -> str | None:
    mode = conf.first("requester.pays.mode") or "DISABLED"
    if mode == "DISABLED":
        return None
    payer = conf.first("requester.pays.project.id", "project.id")
    if mode != "ENABLED" or not payer:
        raise ConfigError(
            f"fs.gs.requester.pays.mode={mode} is not supported without one project for all buckets: "
            "give mount() requester_pays=, the project that pays, or False"
        )
    return payer


def _gs_session(conf: Settings) -> dict[str, Any]:
    session: dict[str, Any] = {}
    if address := conf.first("proxy.address"):
        session["proxy"] = _proxy(address, conf.secret("proxy.username"), conf.secret("proxy.password"))
    if headers := conf.below("storage.http.headers."):
        if key := next((each for each in headers if each.lower().startswith("x-goog-encryption-")), None):
            raise ConfigError(f"fs.gs.storage.http.headers.{key} {_OF_CLIENTS_GS}")
        session["headers"] = headers
    return session


def _gs_token(conf: Settings) -> str | dict[str, Any] | None:
    file = conf.first(_KEY_FILE)
    user = {key.rpartition("auth.")[2].replace(".", "_"): conf.secret(key) for key in _USER}
    how = conf.first("auth.type")
    if how is None:
        # Before version 3 of the connector, what is there says which it is.
        if conf.first(*_SERVICE_ACCOUNT) == "false":
            file = None
        if conf.flag("auth.null.enable", default=False):
            return "anon"
        how = "SERVICE_ACCOUNT_JSON_KEYFILE" if file else "USER_CREDENTIALS" if all(user.values()) else None
    if how == "COMPUTE_ENGINE" and file:
        raise ConfigError(
            f"fs.gs.auth.type=COMPUTE_ENGINE, which may be the default, leaves fs.gs.{_KEY_FILE} unread: "
            "set fs.gs.auth.type=SERVICE_ACCOUNT_JSON_KEYFILE, or no file"
        )
    simple = {
        None: None,
        "APPLICATION_DEFAULT": "google_default",
        "COMPUTE_ENGINE": "cloud",
        "UNAUTHENTICATED": "anon",
    }
    if how in simple:
        return simple[how]
    if how == "SERVICE_ACCOUNT_JSON_KEYFILE" and file:
        return file
    if how == "USER_CREDENTIALS" and all(user.values()):
        return user
    if how == "WORKLOAD_IDENTITY_FEDERATION_CREDENTIAL_CONFIG_FILE":
        raise ConfigError(f"fs.gs.auth.type={how} is not gcsfs' to read: {_BY_DEFAULT}")
    raise ConfigError(
        f"fs.gs.auth.type={how} is known to the JVM alone, or not all of it is there: {_GIVE_GS}"
    )


_MAPPED_GS = (
    "project.id", "storage.root.url", "storage.http.headers.", "proxy.address", "proxy.username",
    "proxy.password", "requester.pays.mode", "requester.pays.project.id", "auth.type", _KEY_FILE,
    "auth.client.id", "auth.client.secret", "auth.refresh.token", "auth.null.enable", *_SERVICE_ACCOUNT,
)  # fmt: skip
_IMPERSONATED = Refusal(
    f"is not gcsfs' to do: make a credential file that impersonates, {_BY_DEFAULT}", unless=["token"]
)
_KEY_IN_PARTS = Refusal(
    f"is not read here: put the service account's key into a JSON file, fs.gs.{_KEY_FILE}", unless=["token"]
)
_REFUSED_GS = {
    "auth.access.token.provider.impl": Refusal(f"is known to the JVM alone: {_GIVE_GS}", unless=["token"]),
    "auth.impersonation.service.account": _IMPERSONATED,
    "auth.impersonation.service.account.for.group.": _IMPERSONATED,
    "auth.impersonation.service.account.for.user.": _IMPERSONATED,
    "auth.service.account.email": _KEY_IN_PARTS,
    "auth.service.account.keyfile": _KEY_IN_PARTS,
    "auth.service.account.private.key": _KEY_IN_PARTS,
    "auth.service.account.private.key.id": _KEY_IN_PARTS,
    "service.account.auth.email": _KEY_IN_PARTS,
    "service.account.auth.keyfile": _KEY_IN_PARTS,
    "authorization.handler.impl": Refusal(
        "allows or forbids in the JVM alone: remove it, and let the bucket's own policy decide"
    ),
    "delegation.token.binding": Refusal(
        f"gets credentials that the JVM alone has: {_GIVE_GS}", unless=["token"]
    ),
    "encryption.algorithm": Refusal(_OF_CLIENTS_GS),
    "encryption.key": Refusal(_OF_CLIENTS_GS),
    "encryption.key.hash": Refusal(_OF_CLIENTS_GS),
    "storage.service.path": Refusal("is not supported: the JSON API's own is storage/v1/", ("storage/v1/",)),
    "token.server.url": Refusal(
        f"is called by the JVM alone: {_GIVE_GS}", ("https://oauth2.googleapis.com/token",), ["token"]
    ),
}

_AZURE_CREDENTIALS = (
    "account_key", "anon", "client_id", "connection_string", "credential", "sas_token",
)  # fmt: skip
_GIVE_AZURE = (
    "give mount() the credentials, as adlfs takes them (account_key=, sas_token=, client_id= with "
    "client_secret= and tenant_id=; anon=False for this machine's identity)"
)


def _azure(conf: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    if "connection_string" not in given:
        _refuse_environment("connection_string= of mount()", "AZURE_STORAGE_CONNECTION_STRING")
    if any(each in given for each in _AZURE_CREDENTIALS):
        return {}
    how = conf.first("account.auth.type") or "SharedKey"
    provider = (conf.first("account.oauth.provider.type") or "").rpartition(".")[2]
    if how == "SharedKey":
        key = conf.secret("account.key")
        return {"account_key": key} if key else {}
    if how == "SAS":
        token, provider = conf.secret("sas.fixed.token"), conf.first("sas.token.provider.type") or ""
        if token and not provider:
            return {"sas_token": token}
    if how == "OAuth" and provider == "ClientCredsTokenProvider":
        # https://login.microsoftonline.com/TENANT/oauth2/token
        endpoint = urlsplit(conf.secret("account.oauth2.client.endpoint") or "")
        _, tenant, *_ = f"{endpoint.path}/".split("/")
        who = {
            "tenant_id": tenant,
            "client_id": conf.secret("account.oauth2.client.id"),
            "client_secret": conf.secret("account.oauth2.client.secret"),
        }
        if all(who.values()) and endpoint.hostname == "login.microsoftonline.com":
            return who
    raise ConfigError(
        f"fs.azure.account.auth.type={how} {provider} is known to the JVM alone, or not all of it is there: "
        f"{_GIVE_AZURE}"
    )


_MAPPED_AZURE = (
    "account.auth.type", "account.key", "sas.fixed.token", "account.oauth.provider.type",
    "account.oauth2.client.endpoint", "account.oauth2.client.id", "account.oauth2.client.secret",
    "sas.token.provider.type",
)  # fmt: skip
_OF_CLIENTS_AZURE = Refusal(
    "is not supported, for its keys would be needed here: give the account a key of Key Vault instead"
)
_REFUSED_AZURE = {
    "abfs.endpoint": Refusal(
        "is not where adlfs would go: give mount() account_host= or connection_string=",
        unless=("account_host", "connection_string"),
    ),
    "always.use.https": Refusal(
        "is the scheme of an endpoint of one's own: give mount() connection_string=",
        ("true",),
        ("connection_string",),
    ),
    "account.keyprovider": Refusal(
        f"gets a key that the JVM alone has: {_GIVE_AZURE}",
        ("org.apache.hadoop.fs.azurebfs.services.SimpleKeyProvider",),
        _AZURE_CREDENTIALS,
    ),
    "client-provided-encryption-key": _OF_CLIENTS_AZURE,
    "encryption.context.provider.type": _OF_CLIENTS_AZURE,
    "encryption.encoded.client-provided-key": _OF_CLIENTS_AZURE,
    "encryption.encoded.client-provided-key-sha": _OF_CLIENTS_AZURE,
}


_ABFS = "org.apache.hadoop.fs.azurebfs."
_S3 = ("s3a", "s3", "s3n")
_BLOBS = ("abfs", "abfss", "wasb", "wasbs")
_S3A = Store(
    "pias3", "org.apache.hadoop.fs.s3a.S3AFileSystem", ["fs.s3a."], _s3, _MAPPED_S3, _REFUSED_S3, twins=_S3
)
_AZURE = Store(
    "piaaz",
    f"{_ABFS}AzureBlobFileSystem",
    ["fs.azure."],
    _azure,
    _MAPPED_AZURE,
    _REFUSED_AZURE,
    own="{key}.{name}",
    authority="@{name}",
    # A container, before its account; some accounts have a zone behind their name.
    narrower=r"[^.]+\.(?!z\d\d\.)[^.]+\.(?:z\d\d\.)?(?:dfs|blob)\.",
    twins=_BLOBS,
)

SCHEMES = {
    **dict.fromkeys(_S3, _S3A),
    "gs": Store(
        "piags",
        "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        ["fs.gs.", "google.cloud."],
        _gs,
        _MAPPED_GS,
        _REFUSED_GS,
    ),
    "abfs": _AZURE,
    "abfss": _AZURE._replace(wrapped=f"{_ABFS}SecureAzureBlobFileSystem"),
    "file": Store("piafile", "org.apache.hadoop.fs.LocalFileSystem", ["fs.file."], lambda *_: {}, (), {}),
}
"""Schemes of Hadoop's that can be mounted."""


def store_of(scheme: str) -> Store:
    """Return what is known of a scheme; ``ConfigError``: it can't be mounted."""
    if scheme == "hdfs":
        raise ConfigError("hdfs:// needs no mount: its NameNode lets one writer alone create a name")
    if scheme not in SCHEMES:
        raise ConfigError(f"{scheme}:// can't be mounted: use {', '.join(SCHEMES)}")
    return SCHEMES[scheme]


def twins_of(schemes: Iterable[str]) -> dict[str, str]:
    """Return the other schemes that lead to the same stores, each with one of ``schemes``."""
    named = set(schemes)
    found = {twin: scheme for scheme in named for twin in store_of(scheme).twins}
    return {twin: found[twin] for twin in sorted(found.keys() - named)}


def address_of(url: str) -> str:
    """Return an address as fsspec spells it, given that, or as Hadoop does (``file:/...``), or a path.

    ``ConfigError``: it is a relative path: each of Spark's processes has a folder of its own that it would be
    relative to.
    """
    scheme, colon, path = url.partition(":")
    if not colon:
        scheme, path = "file", f"//{url}"
    path = path.removeprefix("//")
    if scheme in ("file", "local", "piafile"):
        if not path.startswith("/"):
            raise ConfigError(f"the path must be absolute, or an address, not {url!r}")
        path = "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
    return f"{scheme}://{path}"
