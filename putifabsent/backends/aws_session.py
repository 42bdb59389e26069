"""What every aiobotocore client of this package shares: an HTTP session that sends once, and its failures.

Three layers may resend a request whose answer was lost: the library above, botocore's retry handler and,
below both and without a setting, aiohttp's session on a dropped connection. That one follows redirects, too.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from functools import partial
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
from aiobotocore.httpsession import AIOHTTPSession
from botocore import exceptions
from botocore.parsers import ResponseParserError

from putifabsent.backends import base
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

ONCE = {"total_max_attempts": 1, "mode": "standard"}  # botocore's ``retries``, off
_UNREACHED = (
    exceptions.ConnectTimeoutError,
    exceptions.CredentialRetrievalError,
    exceptions.EndpointConnectionError,
    JSONDecodeError,  # of a process that is to print credentials
    exceptions.MetadataRetrievalError,
    exceptions.ProxyConnectionError,
    exceptions.SSLError,
)
"""Nobody took the connection, or gave the credentials to sign with; or it was reset."""

_STILL_EXPIRED = "refreshed credentials are still expired"  # botocore has no type for it

_FOR_CREDENTIALS = {
    "AssumeRole",
    "AssumeRoleWithWebIdentity",
    "CreateSession",
    "CreateToken",
    "GetRoleCredentials",
}
# With a 400, as the store's own throttling has not.
_BUSY = {"IDPCommunicationError", "RequestLimitExceeded", "Throttling", "ThrottlingException"}
_NOT_CONNECTED = (aiohttp.ClientConnectorError, socket.gaierror)

_WRONG = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.SSOError,
    exceptions.TokenRetrievalError,
    FileNotFoundError,  # of this machine: of credentials, or of whom to trust; it is no object's
    PermissionError,  # as well
)
"""The request can't be sent at all, now or later."""

_LOST = (
    exceptions.HTTPClientError,
    exceptions.EndpointConnectionError,
    ResponseParserError,
    aiohttp.ClientError,
    asyncio.TimeoutError,
    OSError,
)
"""The request may have been applied."""


_CONTINUE = 1.0  # seconds for a server's word that it wants the body; as botocore's own client has it

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REGION = "x-amz-bucket-region"

_LONGEST = 2**31 - 1
"""Milliseconds: so many a socket's option can say."""


class _Request(aiohttp.ClientRequest):
    """Sends its body without that word in the end: servers may know none (RFC 9110, 10.1.1).

    aiohttp waits for it for ever, for its time-out for an answer begins after the body.
    """

    def update_expect_continue(self, expect: bool = False) -> None:  # noqa: FBT001, FBT002 - aiohttp's
        super().update_expect_continue(expect)
        wanted = self._continue
        if wanted is not None:
            self.loop.call_later(_CONTINUE, _sends, wanted)


def _sends(wanted: asyncio.Future[bool]) -> None:
    if not wanted.done():
        wanted.set_result(True)


class SingleSend(AIOHTTPSession):
    """aiobotocore's HTTP session without aiohttp's silent second sends.

    Those are of idempotent requests, and where a redirect leads to: there a put may come as a look at some
    page, which seems to say that it was applied. One that names a bucket's region is botocore's to follow.

    Nor does it wait for ever for a server that takes no more of a request: aiohttp's own time-outs are of
    connecting and of reading.
    """

    async def _get_session(self, proxy_url: str | None) -> aiohttp.ClientSession:
        session: aiohttp.ClientSession = await super()._get_session(proxy_url)
        session._retry_connection = False
        if session._request_class is not _Request:  # it is made once for all requests
            session._request_class = _Request
            sending: Any = session
            sending._request = partial(sending._request, allow_redirects=False)
            connector: Any = session.connector
            connector._socket_factory = partial(self._socket, connector._socket_factory)
        return session

    async def send(self, request: Any) -> Any:
        """Send it once; a redirect is an answer that says nothing of it."""
        answer: Any = await super().send(request)
        if answer.status_code in _REDIRECTS and _REGION not in answer.headers:
            answer.raw.close()
            raise ConnectionError(errno.EPROTO, f"the answer is a redirect ({answer.status_code})")
        return answer

    def _socket(self, given: Callable[..., socket.socket] | None, address: tuple[Any, ...]) -> socket.socket:
        made = socket.socket(*address[:3]) if given is None else given(address)
        seconds = self._timeout.sock_read
        if seconds and hasattr(socket, "TCP_USER_TIMEOUT"):
            longest = min(int(seconds * 1000), _LONGEST)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, longest)
        return made


def meaning_of(
    error: Exception, name: str, answered: Callable[[exceptions.ClientError, str], T]
) -> T | base.TryAgain | base.Refused | base.Maybe:
    """Say what one failed request means for a write; ``answered`` says it where the service did answer.

    Anything unforeseen is raised again: a protocol takes that for unknown, too, and shows it.
    """
    if _is_unsent(error):
        return base.TryAgain(error)
    if isinstance(error, exceptions.ClientError):
        return answered(error, name)
    if isinstance(error, ConfigError):
        return base.Refused(error)
    if isinstance(error, exceptions.ParamValidationError):
        return base.Refused(base.caused(ValueError(f"{name}: {error}"), error))
    if isinstance(error, _WRONG):
        return base.refused(errno.EACCES, str(error), name, error)
    if isinstance(error, UnicodeEncodeError):
        return base.refused(errno.EILSEQ, f"not valid Unicode: {error.object!a}", name, error)
    if isinstance(error, _LOST):
        return base.Maybe(error)
    if isinstance(error, exceptions.BotoCoreError):
        # Credentials that expire are renewed before a request is signed: nothing has been sent.
        return base.refused(errno.EINVAL, str(error), name, error)
    raise error


def _is_unsent(error: Exception) -> bool:
    """Whether nobody took the connection, or gave credentials to sign with: no byte of the request has left.

    aiobotocore calls a connection that was reset after that by the same name.
    """
    if isinstance(error, exceptions.ClientError):
        is_down = status_of(error) >= 500 or code_of(error) in _BUSY
        return is_down and error.operation_name in _FOR_CREDENTIALS
    if isinstance(error, exceptions.EndpointConnectionError):
        return isinstance(error.kwargs.get("error"), _NOT_CONNECTED)
    return isinstance(error, _UNREACHED) or (isinstance(error, RuntimeError) and _STILL_EXPIRED in str(error))


def code_of(error: exceptions.ClientError) -> str:
    """Return the error code that the service gave."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: exceptions.ClientError) -> int:
    """Return the HTTP status that the service gave."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
