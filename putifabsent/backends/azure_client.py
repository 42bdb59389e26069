"""A synchronous client like the wrapped adlfs instance's, but one that sends every request once.

adlfs uses the asynchronous client, and below that one's retry settings aiohttp resends a request whose
connection was dropped, without a setting. The synchronous client stands on requests, which does not.

An identity token that the service does not accept (401) is renewed, and that request goes out again: it was
turned away unread.
"""

from __future__ import annotations

import contextlib
import errno
from datetime import datetime, timedelta, timezone
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    DeserializationError,
    HttpResponseError,
    SerializationError,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobSasPermissions, BlobServiceClient, generate_blob_sas
from azure.storage.blob._shared.authentication import SharedKeyCredentialPolicy
from fsspec.asyn import sync

from putifabsent.backends import base
from putifabsent.backends.concurrency import PerProcess
from putifabsent.backends.object_store import NUMBERS, SourceGoneError, by_status
from putifabsent.backends.requests_session import session, unanswered
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adlfs import AzureBlobFileSystem
    from azure.core.credentials import AccessToken
    from azure.storage.blob import BlobClient, ContainerClient

_CONNECT_SECONDS = 10.0
_SCOPE = "https://storage.azure.com/.default"
# No longer than a request of the same key is good for.
_READABLE = timedelta(minutes=15)
_LARGEST_BLOB_PUT = 5000 * 2**20
_ONCE = {
    "retry_total": 0,
    "retry_connect": 0,
    "retry_read": 0,
    "retry_status": 0,
    "permit_redirects": False,
    # Above this size the client would cut a body into blocks, with the same ids in every writer.
    "max_single_put_size": _LARGEST_BLOB_PUT,
}
# Said of a name that is there, by what can't be done with it.
_TAKEN = {
    "BlobAlreadyExists",
    "BlobArchived",
    "BlobBeingRehydrated",
    "BlobImmutableDueToPolicy",
    "InvalidBlobType",
    "PathAlreadyExists",
    "ResourceTypeMismatch",
    "UnauthorizedBlobOverwrite",
}
# Conflicts that last.
_CONFLICTS = {
    "BlockCountExceedsLimit": errno.EFBIG,
    "ContainerBeingDeleted": errno.ENOENT,
    "ContainerDisabled": errno.ENOENT,
    "PathConflict": errno.ENOTDIR,
    "PublicAccessNotPermitted": errno.EACCES,
    "SnapshotsPresent": errno.EBUSY,
}


class Sender:
    """Has the clients of an adlfs instance's account, one set a process.

    The instance knows the account and the credentials, from options and environment.
    """

    def __init__(self, fs: AzureBlobFileSystem, options: Mapping[str, Any], deadline: float) -> None:
        if fs.location_mode != "primary":
            raise ConfigError(f"location_mode {fs.location_mode!r} is read only: guarded puts want 'primary'")
        self._fs = fs
        read = float(options.get("read_timeout") or deadline)
        self._timeouts = {
            "connection_timeout": float(options.get("connection_timeout") or min(_CONNECT_SECONDS, read)),
            "read_timeout": read,
        }
        self._service = PerProcess(self._make_service)

    @property
    def endpoint(self) -> str:
        """Where requests go: scheme, host and, on emulators, the account."""
        service = self._service()
        return f"{service.scheme}://{service.primary_hostname}"

    def blob(self, container: str, key: str) -> BlobClient:
        """Return the client for one blob."""
        return self._service().get_blob_client(container, key)

    def container(self, container: str) -> ContainerClient:
        """Return the client for one container."""
        return self._service().get_container_client(container)

    def readable(self, blob: BlobClient) -> dict[str, Any]:
        """Return where the service itself finds a blob to copy, and by what right, as arguments of the copy.

        What authorises the copy does not authorise its source, even in the same account.
        """
        credential: Any = blob.credential
        if hasattr(credential, "get_token"):
            token = credential.get_token(_SCOPE).token
            return {"source_url": blob.url, "source_authorization": f"Bearer {token}"}
        signature = ""
        if isinstance(credential, SharedKeyCredentialPolicy):
            signature = generate_blob_sas(
                credential.account_name,
                blob.container_name,
                blob.blob_name,
                account_key=credential.account_key,
                permission=BlobSasPermissions(read=True),
                expiry=datetime.now(timezone.utc) + _READABLE,
            )
        elif isinstance(credential, AzureSasCredential):
            signature = credential.signature.lstrip("?")
        # A mount's own signature is in the address already; so is nothing for a public container.
        return {"source_url": f"{blob.url}?{signature}" if signature else blob.url}

    def _make_service(self) -> BlobServiceClient:
        fs = self._fs
        # Given a session, the transport leaves the session's adapters as they are.
        transport = RequestsTransport(session=session(), session_owner=False, **self._timeouts)
        options: dict[str, Any] = {**_ONCE, "transport": transport}
        if fs.connection_string is not None:
            return BlobServiceClient.from_connection_string(fs.connection_string, **options)
        credential = _credential(fs)
        signature = fs.sas_token if credential is None and fs.sas_token else ""
        return BlobServiceClient(fs.account_url + signature, credential=credential, **options)


class _OnLoop:
    """An asynchronous credential, for a synchronous client: it runs on the loop on which adlfs runs it."""

    def __init__(self, fs: AzureBlobFileSystem) -> None:
        self._fs = fs

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        loop = None
        with contextlib.suppress(RuntimeError):  # it is the parent's
            loop = self._fs.loop
        if loop is None:
            raise ClientAuthenticationError(
                message="an asynchronous credential has no loop in a forked process, nor with "
                "asynchronous=True: pass account_key, sas_token, or client_id with client_secret and "
                "tenant_id; with none of them adlfs has DefaultAzureCredential by itself"
            )
        token: AccessToken = sync(loop, self._fs.credential.get_token, *scopes, **options)
        return token


class NoTokenError(AzureError):
    """No token came from who gives them, so nothing was sent to the store."""


class _Identity:
    """A credential whose failures are not taken for those of a request to the store."""

    def __init__(self, credential: Any) -> None:
        self._credential = credential

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        try:
            token: AccessToken = self._credential.get_token(*scopes, **options)
        except ClientAuthenticationError:
            raise
        except AzureError as error:
            raise NoTokenError(str(error)) from error
        return token


def _credential(fs: AzureBlobFileSystem) -> Any:
    # adlfs makes both kinds of a credential, where it makes one.
    found = fs.sync_credential or fs.credential or fs.account_key
    if not hasattr(found, "get_token"):
        return found
    return _Identity(_OnLoop(fs) if hasattr(found, "__aexit__") else found)


def code_of(error: BaseException) -> str:
    """Return the service's own word for what went wrong, or nothing."""
    answer = getattr(error, "response", None)
    code = answer.headers.get("x-ms-error-code") if answer is not None else None
    code = code or getattr(error, "error_code", None) or ""
    return str(getattr(code, "value", code))


def outcome_of(error: BaseException, name: str) -> base.Exists | base.TryAgain | base.Refused | base.Maybe:
    """Say what one failed request means for a creation."""
    if isinstance(error, HttpResponseError) and error.status_code is not None:
        return _answered(error, error.status_code, name)
    is_missing = isinstance(error, FileNotFoundError) and not isinstance(error, SourceGoneError)
    if isinstance(error, ClientAuthenticationError) or is_missing:
        # Without an answer: there was no credential to send anything with, or no file of one.
        return base.refused(errno.EACCES, f"no credentials: {error}", name, error)
    if isinstance(error, SerializationError):
        return base.refused(errno.EINVAL, f"it can't be sent: {error}", name, error)
    outcome = unanswered(error, name, (AzureError, DeserializationError))
    if isinstance(error, NoTokenError) and isinstance(outcome, base.Maybe):
        return base.TryAgain(error)  # without a token nothing was sent
    return outcome


def _answered(
    error: Exception, status: int, name: str
) -> base.Exists | base.TryAgain | base.Refused | base.Maybe:
    code = code_of(error)
    outcome = by_status(
        error, status, "taken" if code in _TAKEN else "refused" if code in _CONFLICTS else None
    )
    if isinstance(error, ClientAuthenticationError) and isinstance(outcome, base.Maybe):
        return base.TryAgain(error)  # from who gives tokens: without one nothing was sent
    if status == HTTPStatus.NOT_FOUND and not code and not isinstance(error, ClientAuthenticationError):
        return base.Maybe(error)  # some proxy's, which does not find the store: Azure says what it misses
    if outcome is not None:
        return outcome
    number = _CONFLICTS.get(code) or NUMBERS.get(status, errno.EINVAL)
    if isinstance(error, ClientAuthenticationError):
        number = errno.EACCES  # whoever gives tokens may answer 404, too: of an identity, not of a blob
    lines = str(error).splitlines()
    return base.refused(number, f"{code}: {lines[0]}" if lines else code, name, error)
