"""What every aiobotocore client of this package shares: an HTTP session that sends once, and its failures.

Three layers may resend a request whose answer was lost: the library above, botocore's retry handler and,
below both and without a setting, aiohttp's session on a dropped connection.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import aiohttp
from aiobotocore.httpsession import AIOHTTPSession
from botocore.exceptions import (
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    MetadataRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError

if TYPE_CHECKING:
    from typing import TypeGuard

    from botocore.exceptions import ClientError

ONCE = {"total_max_attempts": 1, "mode": "standard"}
"""botocore's ``retries``, off."""

UNREACHED = (ConnectTimeoutError, CredentialRetrievalError, EndpointConnectionError, MetadataRetrievalError)
"""Nobody took the connection, or gave the credentials to sign with; or it was reset."""

_NOT_CONNECTED = (aiohttp.ClientConnectorError, socket.gaierror)

WRONG = (NoCredentialsError, PartialCredentialsError, ParamValidationError)
"""The request can't be sent at all, now or later."""

LOST = (
    HTTPClientError,
    EndpointConnectionError,
    ResponseParserError,
    aiohttp.ClientError,
    asyncio.TimeoutError,
    OSError,
)
"""The request may have been applied."""


class SingleSend(AIOHTTPSession):
    """aiobotocore's HTTP session without aiohttp's silent second send of idempotent requests."""

    async def _get_session(self, proxy_url: str | None) -> aiohttp.ClientSession:
        session: aiohttp.ClientSession = await super()._get_session(proxy_url)
        session._retry_connection = False
        return session


def is_unsent(error: BaseException) -> TypeGuard[Exception]:
    """Whether nobody took the connection, or gave credentials to sign with: no byte of the request has left.

    aiobotocore calls a connection that was reset after that by the same name.
    """
    if isinstance(error, EndpointConnectionError):
        return isinstance(error.kwargs.get("error"), _NOT_CONNECTED)
    return isinstance(error, UNREACHED)


def code_of(error: ClientError) -> str:
    """Return the error code that the service gave."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: ClientError) -> int:
    """Return the HTTP status that the service gave."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
