"""Sends single DynamoDB requests, each exactly once, and says what their failures mean."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore.exceptions import BotoCoreError, ClientError
from fsspec.asyn import get_loop, sync

from putifabsent.backends.aws_session import LOST, NOT_SENT, ONCE, WRONG, SingleSend, code_of, status_of
from putifabsent.backends.base import Maybe, Refused, TryAgain
from putifabsent.backends.refusals import caused
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["Sender", "is_missing_table", "is_there", "is_unmet", "outcome_of", "reading_of"]

T = TypeVar("T")

_CONNECTIONS = 256
_CONNECT = 5.0
_CLOSING = 0.2

_THROTTLED = {
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ReplicatedWriteConflictException",
    "ThrottlingException",
    "Throttling",
    "TransactionConflictException",
    "TransactionInProgressException",
}
_FORBIDDEN = {
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "OptInRequired",
    "UnrecognizedClientException",
}
_SERVER_CODES = {
    "InternalFailure",
    "InternalServerError",
    "ServiceUnavailable",
    "ServiceUnavailableException",
}
_REQUEST_TIMEOUT = 408
_TOO_MANY_REQUESTS = 429


class Sender:
    """One client of DynamoDB, on fsspec's loop; callers on other loops and in threads wait for that one.

    Parameters
    ----------
    region, endpoint_url, profile
        As AWS's own tools take them; None leaves it to AWS's settings.
    timeout
        Seconds, for one request.
    """

    def __init__(
        self, region: str | None, endpoint_url: str | None, profile: str | None, timeout: float
    ) -> None:
        try:
            self._session = AioSession(profile=profile)
            self._session.get_scoped_config()
            known = region or self._session.get_config_variable("region") or os.environ.get("AWS_REGION")
        except BotoCoreError as error:
            raise ConfigError(str(error)) from error
        if not known:
            raise ConfigError(
                "no AWS region is known: say dynamodb://TABLE?region=..., or set AWS_DEFAULT_REGION"
            )
        self._where = {"region_name": known, "endpoint_url": endpoint_url}
        self._config = AioConfig(
            connect_timeout=min(timeout, _CONNECT),
            read_timeout=timeout,
            retries=dict(ONCE),
            max_pool_connections=_CONNECTIONS,
            # A sixth of what a call costs, for parameters that are always the same.
            parameter_validation=False,
            # It would ask for addresses first, and again with another one.
            endpoint_discovery_enabled=False,
            http_session_cls=SingleSend,
        )
        self.loop = get_loop()
        self._client: Any = None
        self._connecting: asyncio.Lock | None = None

    def run(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Run ``work(*arguments)`` on the client's loop, and wait for it."""
        answer: T = sync(self.loop, work, *arguments)
        return answer

    async def on_loop(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Run ``work(*arguments)`` on the client's loop, and await it from this one."""
        if asyncio.get_running_loop() is self.loop:
            return await work(*arguments)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(*arguments), self.loop))

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one request; on the client's loop only.

        Raises
        ------
        Exception
            Whatever the client raises: :func:`outcome_of` says what it means.
        """
        client = self._client or await self._connect()
        answer: dict[str, Any] = await getattr(client, method)(**parameters)
        # botocore takes what is no JSON for an empty answer, which would mean "absent", or "written".
        if not answer["ResponseMetadata"].get("RequestId"):
            raise ConnectionError(errno.EPROTO, "what answered is not DynamoDB: it gives no request id")
        return answer

    async def _connect(self) -> Any:
        if self._connecting is None:
            self._connecting = asyncio.Lock()
        async with self._connecting:
            if self._client is None:
                try:
                    made = self._session.create_client("dynamodb", config=self._config, **self._where)
                    self._client = await made.__aenter__()
                except ValueError as error:
                    raise ConfigError(f"dynamodb: {error}") from error
                weakref.finalize(self, _close, self.loop, self._client, os.getpid())
        return self._client


def outcome_of(error: BaseException, name: str) -> TryAgain | Refused | Maybe:
    """Say what one failed request means for a write; ``name`` is the identity, or the table.

    Anything unforeseen is raised again: a protocol takes that for unknown, too, and shows it.
    """
    if isinstance(error, ClientError):
        return _answer(error, name)
    if isinstance(error, NOT_SENT):
        return TryAgain(error)
    if isinstance(error, ConfigError):
        return Refused(error)
    if isinstance(error, WRONG):
        return Refused(caused(PermissionError(errno.EACCES, str(error), name), error))
    if isinstance(error, LOST):
        return Maybe(error)
    if isinstance(error, BotoCoreError):
        # Credentials that expire are renewed before a request is signed: nothing has been sent.
        return Refused(caused(OSError(errno.EINVAL, str(error), name), error))
    raise error


def reading_of(error: BaseException, name: str) -> TryAgain | Refused:
    """Say what one failed request means for a read."""
    outcome = outcome_of(error, name)
    return TryAgain(outcome.cause) if isinstance(outcome, Maybe) else outcome


def is_unmet(error: BaseException) -> bool:
    """Whether the condition of a write was not met."""
    return isinstance(error, ClientError) and code_of(error) == "ConditionalCheckFailedException"


def is_missing_table(error: BaseException) -> bool:
    """Whether DynamoDB says that the table is not there, or not yet."""
    return isinstance(error, ClientError) and code_of(error) in (
        "ResourceNotFoundException",
        "TableNotFoundException",
    )


def is_there(error: BaseException) -> bool:
    """Whether the table can't be made because it is there, or is being made."""
    return isinstance(error, ClientError) and code_of(error) == "ResourceInUseException"


def _answer(error: ClientError, name: str) -> TryAgain | Refused | Maybe:
    code, status = code_of(error), status_of(error)
    if code in _THROTTLED or status == _TOO_MANY_REQUESTS:
        return TryAgain(error)
    if status >= 500 or status < 400 or status == _REQUEST_TIMEOUT or code in _SERVER_CODES:
        return Maybe(error)
    if code in _FORBIDDEN or status in (401, 403):
        said = f"{error}. `putifabsent init` with the table's address looks for every right that is needed"
        return Refused(caused(PermissionError(errno.EACCES, said, name), error))
    return Refused(caused(OSError(errno.EINVAL, str(error), name), error))


def _close(loop: asyncio.AbstractEventLoop, client: Any, pid: int) -> None:
    # A forked child closes nothing of its parent's. At the interpreter's end there may be no loop any more.
    if os.getpid() == pid and loop.is_running():
        closing = asyncio.run_coroutine_threadsafe(client.close(), loop)
        if asyncio._get_running_loop() is not loop:
            with contextlib.suppress(Exception):
                closing.result(_CLOSING)
