"""An s3fs instance like the wrapped one, but one that sends every request once.

Three layers resend a PUT whose answer was lost: s3fs's own loop, botocore's retry handler and, below both
and without a setting, aiohttp's session on a dropped connection. Here all three are off.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import aiohttp
from aiobotocore.httpsession import AIOHTTPSession
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError
from s3fs import S3FileSystem
from s3fs.errors import translate_boto_error

from putifabsent.backends.base import Exists, Gone, Maybe, Refused, TryAgain

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Sender", "is_absent", "outcome_of"]

_TOO_MANY_REQUESTS = 429
_SERVER_ERRORS = range(500, 600)
_SERVER_CODES = {"InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout", "500", "503"}
_ABSENT = {"NoSuchKey", "NoSuchVersion", "404"}
_CONFLICTS = {"ConditionalRequestConflict", "OperationAborted", "409"}
_NOT_SENT = (ConnectTimeoutError, EndpointConnectionError)
_WRONG = (NoCredentialsError, PartialCredentialsError, ParamValidationError)
_LOST = (HTTPClientError, ResponseParserError, aiohttp.ClientError, asyncio.TimeoutError, OSError)


class _SingleSend(AIOHTTPSession):
    """aiobotocore's HTTP session without aiohttp's silent second send of idempotent requests."""

    async def _get_session(self, proxy_url: str | None) -> aiohttp.ClientSession:
        session: aiohttp.ClientSession = await super()._get_session(proxy_url)
        session._retry_connection = False
        return session


class Sender:
    """Sends single S3 requests with the wrapped filesystem's options, session and extra parameters.

    Parameters
    ----------
    options
        The options of the wrapped ``s3fs.S3FileSystem``.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        config = dict(options.get("config_kwargs") or {})
        config["retries"] = {"total_max_attempts": 1, "mode": "standard"}
        config["http_session_cls"] = _SingleSend
        self.fs = S3FileSystem(**{**options, "config_kwargs": config, "skip_instance_cache": True})

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one request, with what the mount adds to every request of its kind.

        Raises
        ------
        Exception
            Whatever the client raises: :func:`outcome_of` says what it means.
        """
        await self.fs.set_session()
        client = await self.fs.get_s3(parameters.get("Bucket"))
        send = getattr(client, method)
        # s3fs adds who pays to every request only since 2026.
        with_payer = self.fs._get_s3_method_kwargs(send, self.fs.req_kw, **parameters)
        answer: dict[str, Any] = await send(**with_payer)
        return answer

    async def accepts(self, method: str) -> frozenset[str]:
        """Return the parameters that the API method knows."""
        await self.fs.set_session()
        send = getattr(self.fs._s3, method)
        return frozenset(self.fs._kwargs_helper._get_valid_keys(_model_name(send)))


def _model_name(method: Any) -> str:
    return "".join(word.title() for word in method.__name__.split("_"))


def outcome_of(error: BaseException, name: str) -> Exists | TryAgain | Refused | Maybe | Gone:
    """Say what one failed request means for a creation.

    Anything unforeseen is raised again: a protocol takes that for unknown, too, and shows it.
    """
    if isinstance(error, ClientError):
        return _answer(error, name)
    if isinstance(error, _NOT_SENT):
        return TryAgain(error)
    if isinstance(error, _WRONG):
        kind = ValueError if isinstance(error, ParamValidationError) else PermissionError
        return Refused(_caused(kind(f"{name}: {error}"), error))
    if isinstance(error, UnicodeEncodeError):
        return Refused(_caused(OSError(errno.EILSEQ, f"not valid Unicode: {error.object!a}", name), error))
    if isinstance(error, _LOST):
        return Maybe(error)
    if isinstance(error, BotoCoreError):
        return Refused(_caused(OSError(errno.EINVAL, str(error), name), error))
    raise error


def is_absent(error: BaseException) -> bool:
    """Whether the store says that an object, or the version asked for, is not there."""
    return isinstance(error, ClientError) and _code(error) in _ABSENT


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _answer(error: ClientError, name: str) -> Exists | TryAgain | Refused | Maybe | Gone:
    code = _code(error)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if status == 412 or code == "PreconditionFailed":
        return Exists()
    if code == "NoSuchUpload":
        return Gone()
    if code in _CONFLICTS or status in (409, _TOO_MANY_REQUESTS):
        return TryAgain(error)
    # A 200 may carry an error, too: Complete and Copy send their status before they are done.
    if status in _SERVER_ERRORS or status < 300 or code in _SERVER_CODES:
        return Maybe(error)
    refused = translate_boto_error(error)
    if isinstance(refused, OSError):
        refused = _caused(type(refused)(refused.errno or errno.EIO, str(error), name), error)
    return Refused(refused)


def _caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error
