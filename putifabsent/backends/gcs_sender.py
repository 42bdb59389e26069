"""Single requests of the GCS JSON API, with the wrapped gcsfs instance's credentials, each sent once.

They are plain HTTP: what must go on the wire takes a few lines, and no client library stands between them
and the promise that nothing is sent again.
"""

from __future__ import annotations

import errno
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import requests
from google.auth.exceptions import GoogleAuthError, TransportError
from urllib3.exceptions import HTTPError

from putifabsent.backends.base import Exists, Maybe, Refused, TryAgain
from putifabsent.backends.per_process import PerProcess
from putifabsent.backends.refusals import caused
from putifabsent.backends.single_send import malformed, never_sent, session
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from gcsfs import GCSFileSystem

__all__ = ["Sender", "outcome_of", "place", "unexpected"]

_CONNECT_SECONDS = 10.0
_SESSION_OPTIONS = {"headers", "proxy", "trust_env"}
_SERVICE = "/storage/v1/"
_NOT_APPLIED = {HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}
_TIMED_OUT = HTTPStatus.REQUEST_TIMEOUT
_BUSY = {"rateLimitExceeded", "userRateLimitExceeded"}
_NUMBERS = {401: errno.EACCES, 403: errno.EACCES, 404: errno.ENOENT}


class _NoCredentialsError(Exception):
    """The credentials could not be renewed, so nothing was sent to the store."""


class Sender:
    """Sends requests to the endpoint of a gcsfs instance.

    Parameters
    ----------
    fs
        The wrapped filesystem: it knows the endpoint, the credentials and who pays.
    deadline
        Seconds; no answer is waited for longer, unless ``requests_timeout`` says so.

    Raises
    ------
    ConfigError
        ``fs`` adds something to its requests that these can't carry.
    """

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
        base: str = self._fs.base
        return base.removesuffix(_SERVICE)

    def url(self, bucket: str, key: str | None = None, *, of: str = "") -> str:
        """Return where a bucket's objects are, or one of them, for an "upload" or a "download" of it."""
        return f"{self.endpoint}{'/' if of else ''}{of}{_SERVICE}{place(bucket, key)}"

    def call(
        self, method: str, url: str, params: dict[str, Any] | None = None, **request: Any
    ) -> requests.Response:
        """Send one request, with what the mount adds to every request.

        Raises
        ------
        Exception
            No answer, or one that is not a success: :func:`outcome_of` says what it means.
        """
        payer = self._fs.requester_pays
        if payer:
            params = {**(params or {}), "userProject": payer if isinstance(payer, str) else self._fs.project}
        answer = self.raw(method, url, params=params, **request)
        if answer.status_code >= HTTPStatus.MULTIPLE_CHOICES:
            raise unexpected(answer)
        return answer

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
        # aiohttp, which gcsfs sends with, leaves the environment's proxies alone unless told otherwise.
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
    message = _told(answer).get("message") or answer.reason
    return requests.HTTPError(f"{answer.status_code} {message}", response=answer)


def outcome_of(error: BaseException, name: str) -> Exists | TryAgain | Refused | Maybe:
    """Say what one failed request means for a creation.

    Anything unforeseen is raised again: a protocol takes that for unknown, too, and shows it.
    """
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return _answered(error, error.response, name)
    if isinstance(error, _NoCredentialsError):
        return _no_credentials(error, name)
    if malformed(error):
        return Refused(caused(OSError(errno.EINVAL, f"it can't be sent: {error}", name), error))
    if isinstance(error, (requests.RequestException, HTTPError)):
        return TryAgain(error) if never_sent(error) else Maybe(error)
    if isinstance(error, OSError):
        # Before anything was sent: no object can have the name, or the body can't be read.
        return Refused(error)
    raise error


def _answered(error: Exception, answer: requests.Response, name: str) -> Exists | TryAgain | Refused | Maybe:
    status = answer.status_code
    if status == HTTPStatus.PRECONDITION_FAILED:
        return Exists()
    # Neither was applied: a 409 met another change of the object, a 429 too many of them.
    if status in _NOT_APPLIED or _reasons(answer) & _BUSY:
        return TryAgain(error)
    # A success without the object it should tell of is some proxy's; a 408 may come after the last byte.
    if not HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.INTERNAL_SERVER_ERROR or status == _TIMED_OUT:
        return Maybe(error)
    # The number makes it a PermissionError, a FileNotFoundError or a plain OSError.
    return Refused(caused(OSError(_NUMBERS.get(status, errno.EINVAL), str(error), name), error))


def _no_credentials(error: _NoCredentialsError, name: str) -> TryAgain | Refused:
    cause = error.__cause__ or error
    # gcsfs raises an error of its own from google-auth's.
    inner = cause.__cause__ or cause
    if isinstance(inner, TransportError) or (isinstance(inner, GoogleAuthError) and inner.retryable):
        return TryAgain(error)
    return Refused(caused(PermissionError(errno.EACCES, f"no credentials: {error}", name), cause))


def _told(answer: requests.Response) -> dict[str, Any]:
    """Return the error that the answer describes, empty where it describes none."""
    try:
        told = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return told if isinstance(told, dict) else {"message": str(told)}


def _reasons(answer: requests.Response) -> set[str]:
    return {str(each.get("reason")) for each in _told(answer).get("errors", ()) if isinstance(each, dict)}
