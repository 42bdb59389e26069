"""Single requests of the GCS JSON API, with the wrapped gcsfs instance's credentials, each sent once.

They are plain HTTP: what must go on the wire takes a few lines, and no client library stands between them
and the promise that nothing is sent again.
"""

from __future__ import annotations

import errno
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import requests
from google.auth.exceptions import GoogleAuthError, TransportError
from urllib3.exceptions import HTTPError

from putifabsent.backends import base
from putifabsent.backends.concurrency import PerProcess
from putifabsent.backends.object_store import (
    FOR_FSSPEC,
    NUMBERS,
    are_texts,
    by_status,
    is_unpacked,
    own_metadata,
)
from putifabsent.backends.requests_session import session, unanswered
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gcsfs import GCSFileSystem


_CONNECT_SECONDS = 10.0
_SESSION_OPTIONS = {"headers", "proxy", "trust_env"}
_SERVICE = "/storage/v1/"
_BUSY = {"rateLimitExceeded", "userRateLimitExceeded"}


class _NoCredentialsError(Exception):
    """The credentials could not be renewed, so nothing was sent to the store."""


class Sender:
    """Sends requests to the endpoint of a gcsfs instance, which knows the credentials and who pays, too."""

    def __init__(self, fs: GCSFileSystem, deadline: float) -> None:
        unknown = fs.session_kwargs.keys() - _SESSION_OPTIONS
        if unknown:
            names, known = ", ".join(sorted(unknown)), ", ".join(sorted(_SESSION_OPTIONS))
            raise ConfigError(f"guarded puts can't carry session_kwargs {names}; they can carry {known}")
        if getattr(fs, "_use_client_cert", False):
            raise ConfigError(
                "guarded puts can't present a client certificate: set GOOGLE_API_USE_CLIENT_CERTIFICATE=false"
            )
        self._fs = fs
        total = fs.requests_timeout
        seconds = float(total) if isinstance(total, (int, float)) else deadline
        self._timeout = (min(_CONNECT_SECONDS, seconds), seconds)
        self._session = PerProcess(self._make_session)

    @property
    def endpoint(self) -> str:
        """Where requests go: scheme and host."""
        address: str = self._fs.base
        return address.removesuffix(_SERVICE)

    def url(self, bucket: str, key: str | None = None, *, of: str = "") -> str:
        """Return where a bucket's objects are, or one of them, for an "upload" or a "download" of it."""
        return f"{self.endpoint}{'/' if of else ''}{of}{_SERVICE}{place(bucket, key)}"

    def call(
        self, method: str, url: str, params: dict[str, Any] | None = None, **request: Any
    ) -> requests.Response:
        """Send one request, with what the mount adds to every request.

        No answer, or one that is not a success, is an error: :func:`outcome_of` says what it means.
        """
        payer = self._fs.requester_pays
        if payer:
            params = {**(params or {}), "userProject": payer if isinstance(payer, str) else self._fs.project}
        answer = self.raw(method, url, params=params, **request)
        if answer.status_code >= HTTPStatus.MULTIPLE_CHOICES:
            raise unexpected(answer)
        return answer

    # A success may be some proxy's page, and is an error then.

    def resource(self, url: str, params: dict[str, str], kind: str) -> dict[str, Any]:
        """Get a resource of this ``kind``."""
        answer = self.call("GET", url, {**params, "fields": f"kind,{params['fields']}"})
        try:
            found: dict[str, Any] = answer.json()
            if found["kind"] == f"storage#{kind}":
                return found
        except (ValueError, KeyError, TypeError):
            pass
        raise unexpected(answer)

    def media(self, url: str, params: Mapping[str, str], **request: Any) -> bytes:
        """Get an object's bytes."""
        answer = self.call("GET", url, {"alt": "media", **params}, **request)
        if "x-goog-generation" not in answer.headers:
            raise unexpected(answer)
        return answer.content

    def delete(self, url: str, condition: dict[str, str]) -> None:
        """Delete an object: GCS answers 204 to that, emulators 200 with nothing."""
        answer = self.call("DELETE", url, condition)
        if answer.status_code != HTTPStatus.NO_CONTENT and answer.text.strip() not in ("", "null"):
            raise unexpected(answer)

    def raw(self, method: str, url: str, **request: Any) -> requests.Response:
        """Send one request as it is, and return its answer whatever that is."""
        headers = dict(request.pop("headers", None) or {})
        try:
            # Renews a token that is about to expire; a lock of gcsfs keeps threads from doing so at once.
            self._fs.credentials.apply(headers)
        except Exception as error:
            raise _NoCredentialsError(str(error)) from error
        # A redirect is an answer like any other: nothing goes out again because of one.
        return self._session().request(
            method, url, headers=headers, timeout=self._timeout, allow_redirects=False, **request
        )

    def _make_session(self) -> requests.Session:
        options = self._fs.session_kwargs
        made = session()
        # aiohttp, which gcsfs sends with, leaves the environment's proxies alone by default.
        made.trust_env = bool(options.get("trust_env", False))
        if options.get("proxy"):
            made.proxies = dict.fromkeys(("http", "https"), str(options["proxy"]))
        # Compressed answers have other lengths, and what is stored compressed comes as it is read.
        made.headers["Accept-Encoding"] = "identity"
        made.headers.update(options.get("headers") or {})
        return made


def place(bucket: str, key: str | None = None) -> str:
    """Return a bucket's objects, or one of them, as addresses say it."""
    return f"b/{quote(bucket, safe='')}/o" + ("" if key is None else f"/{quote(key, safe='')}")


def unexpected(answer: requests.Response) -> requests.HTTPError:
    """Return the error that an unwelcome answer stands for, with what the store says of it."""
    message = _error_of(answer).get("message") or answer.reason
    return requests.HTTPError(f"{answer.status_code} {message}", response=answer)


def outcome_of(error: BaseException, name: str) -> base.Exists | base.TryAgain | base.Refused | base.Maybe:
    """Say what one failed request means for a creation."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return _answered(error, error.response, name)
    if isinstance(error, _NoCredentialsError):
        return _no_credentials(error, name)
    return unanswered(error, name, (requests.RequestException, HTTPError))


def _answered(
    error: Exception, answer: requests.Response, name: str
) -> base.Exists | base.TryAgain | base.Refused | base.Maybe:
    status, fields = answer.status_code, _error_of(answer)
    if status == HTTPStatus.NOT_FOUND and not fields and "alt=media" not in str(answer.url):
        # Only a download is answered without GCS's own word: some proxy does not find the store.
        return base.Maybe(error)
    errors = [each for each in fields.get("errors", ()) if isinstance(each, dict)]
    is_busy = any(str(each.get("reason")) in _BUSY for each in errors)
    outcome = by_status(error, status, "passes" if is_busy else None)
    if outcome is not None:
        return outcome
    return base.refused(NUMBERS.get(status, errno.EINVAL), str(error), name, error)


def _no_credentials(error: _NoCredentialsError, name: str) -> base.TryAgain | base.Refused:
    cause = error.__cause__ or error
    # gcsfs raises an error of its own from google-auth's.
    inner = cause.__cause__ or cause
    if isinstance(inner, TransportError) or (isinstance(inner, GoogleAuthError) and inner.retryable):
        return base.TryAgain(error)
    return base.refused(errno.EACCES, f"no credentials: {error}", name, cause)


def _error_of(answer: requests.Response) -> dict[str, Any]:
    """Return the error that the answer describes, empty where it describes none."""
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {"message": str(error)}


_TYPE = "application/octet-stream"
_FIXED_KEYS = {
    "cache_control": "cacheControl",
    "content_disposition": "contentDisposition",
    "content_encoding": "contentEncoding",
    "content_language": "contentLanguage",
    "custom_time": "customTime",
}
PROPERTIES = ("contentType", *_FIXED_KEYS.values())  # fields of a resource that go with it when it is copied
# gcsfs writes them in small letters.
_ACLS = {
    acl.lower(): acl
    for acl in (
        "authenticatedRead",
        "bucketOwnerFullControl",
        "bucketOwnerRead",
        "private",
        "projectPrivate",
        "publicRead",
    )
}
_CARRIED = {"acl", "consistency", "content_type", "fixed_key_metadata", "kms_key_name", "metadata"}
_FOR_THE_CLIENT = FOR_FSSPEC | {"chunksize", "concurrency", "finalize_on_close", "timeout"}


class Params(NamedTuple):
    """What a creation says beside its bytes: of the object, in the address, and the checksum to send."""

    resource: dict[str, Any]
    query: dict[str, str]
    checksum: str

    @property
    def copy_query(self) -> dict[str, str]:
        """What goes into the address of a copy."""
        changed = {"predefinedAcl": "destinationPredefinedAcl", "kmsKeyName": "destinationKmsKeyName"}
        return {changed[key]: value for key, value in self.query.items()}


def params_of(creation: base.Creation, consistency: str) -> Params:
    """Return what goes with the bytes of ``creation``, or raise ConfigError; ``consistency``: the mount's."""
    extra = {key: value for key, value in creation.extra.items() if key not in _FOR_THE_CLIENT}
    unknown = extra.keys() - _CARRIED
    if unknown:
        raise base.unsupported("gcs", unknown)
    metadata, fixed = (extra.get(key) or {} for key in ("metadata", "fixed_key_metadata"))
    if not (are_texts(metadata) and are_texts(fixed)):
        raise ConfigError("metadata and fixed_key_metadata must map strings to strings")
    unknown = fixed.keys() - _FIXED_KEYS.keys()
    if unknown:
        raise base.unsupported("gcs", (f"fixed_key_metadata[{key!r}]" for key in unknown))
    query = {}
    if extra.get("acl"):
        acl = _ACLS.get(str(extra["acl"]).lower())
        if acl is None:
            known = ", ".join(_ACLS.values())
            raise ConfigError(f"there is no acl {extra['acl']!r}: there are {known}")
        query["predefinedAcl"] = acl
    if extra.get("kms_key_name"):
        query["kmsKeyName"] = str(extra["kms_key_name"])
    marks = {base.TOKEN_KEY: creation.token, base.WRITER_KEY: creation.writer}
    resource = {
        "contentType": str(extra.get("content_type") or _TYPE),
        "metadata": {**metadata, **marks},
        **{_FIXED_KEYS[key]: value for key, value in fixed.items()},
    }
    wanted = extra.get("consistency") or consistency
    return Params(resource, query, wanted if wanted in {"md5", "crc32c"} else "")


def properties_of(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a resource says of itself, as parameters of a put of the bytes that are read."""
    fixed = {key: resource[field] for key, field in _FIXED_KEYS.items() if field in resource}
    if is_unpacked(fixed.get("content_encoding")):
        del fixed["content_encoding"]
    found = {
        "content_type": resource.get("contentType"),
        "metadata": own_metadata(resource.get("metadata") or {}),
        "fixed_key_metadata": fixed,
    }
    return {key: value for key, value in found.items() if value}
