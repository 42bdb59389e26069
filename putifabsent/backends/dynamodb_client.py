"""DynamoDB's client, and one table: requests sent once, what their failures mean, how it is set up."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import weakref
from datetime import timezone
from typing import TYPE_CHECKING, Any, TypedDict

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from fsspec.asyn import get_loop

from putifabsent.backends import base
from putifabsent.backends.aws_session import ONCE, SingleSend, code_of, meaning_of, status_of
from putifabsent.backends.concurrency import PerProcess
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from typing_extensions import Unpack

KEYS = {"folder": "HASH", "name": "RANGE"}  # the table's keys, both strings

ATTRIBUTES = {
    f"#{name}": name for name in ("folder", "name", "whole_folder", "incarnation", "live", "token", "last")
}
"""Names as expressions say them: several are DynamoDB's reserved words."""

NEVER = "attribute_exists(#folder) AND attribute_not_exists(#folder)"
"""A condition that is never met: it asks for the right to write, and writes nothing."""

COUNTERS = {"S": "#counter"}
"""The partition key of all counters."""

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


class Sender:
    """One client of DynamoDB, on fsspec's loop alone."""

    def __init__(
        self,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        profile: str | None = None,
        timeout: float = 10.0,
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
        self.loop: asyncio.AbstractEventLoop = get_loop()
        self._client: Any = None
        self._connecting: asyncio.Lock | None = None

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one request, and raise whatever the client does: :func:`outcome_of` says what that means."""
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
                    client = await made.__aenter__()
                except ValueError as error:
                    raise ConfigError(f"dynamodb: {error}") from error
                if client._request_signer._credentials is None:
                    # It would stay so, and whoever gives a machine's may have been down.
                    await client.close()
                    raise NoCredentialsError
                self._client = client
                weakref.finalize(self, _close, self.loop, self._client, os.getpid())
        return self._client


def outcome_of(error: Exception, name: str) -> base.TryAgain | base.Refused | base.Maybe:
    """Say what one failed request means for a write; ``name`` is the identity, or the table."""
    return meaning_of(error, name, _answer)


def is_unmet(error: BaseException) -> bool:
    """Whether the condition of a write was not met."""
    return _has_code(error, _UNMET)


def _is_missing_table(error: BaseException) -> bool:
    return _has_code(error, "ResourceNotFoundException", "TableNotFoundException")


def _has_code(error: BaseException, *codes: str) -> bool:
    return isinstance(error, ClientError) and code_of(error) in codes


def _answer(error: ClientError, name: str) -> base.TryAgain | base.Refused | base.Maybe:
    code, status = code_of(error), status_of(error)
    if code in _THROTTLED or status == 429:
        return base.TryAgain(error)
    if status >= 500 or status < 400 or status == 408 or code in _SERVER_CODES:
        return base.Maybe(error)
    if code in _FORBIDDEN or status in (401, 403):
        message = f"{error}. `putifabsent init` with the table's address looks for every right that is needed"
        return base.refused(errno.EACCES, message, name, error)
    return base.refused(errno.EINVAL, str(error), name, error)


def _close(loop: asyncio.AbstractEventLoop, client: Any, pid: int) -> None:
    # A forked child closes nothing of its parent's. At the interpreter's end there may be no loop any more.
    if os.getpid() == pid and loop.is_running():
        closing = asyncio.run_coroutine_threadsafe(client.close(), loop)
        if asyncio._get_running_loop() is not loop:
            with contextlib.suppress(Exception):
                closing.result(_CLOSING)


class Where(TypedDict, total=False):
    """Where a table is, as AWS's own tools take it (None leaves it to its settings); a request's seconds."""

    region: str | None
    endpoint_url: str | None
    profile: str | None
    timeout: float


class Table:
    """One table, and the way to it, as :class:`putifabsent.backends.dynamodb.DynamoDBClaims` has them.

    Its ``url`` is the address that ``putifabsent init`` takes.
    """

    def __init__(self, name: str, **where: Unpack[Where]) -> None:
        self.name = name
        options: Mapping[str, object] = where
        query = "&".join(
            f"{key}={options[key]}" for key in ("region", "endpoint_url", "profile") if options.get(key)
        )
        self.url = f"dynamodb://{name}{'?' if query else ''}{query}"
        self._senders = PerProcess(lambda: Sender(**where))
        # Here and now, for a wrong option should be met by who gives it.
        self._senders()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._senders().loop

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one request about the table, by the client's loop; awaited on any."""
        sender = self._senders()
        answer = sender.call(method, TableName=self.name, **parameters)
        if asyncio.get_running_loop() is sender.loop:
            return await answer
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answer, sender.loop))

    def no_write(self, error: Exception, name: str) -> base.TryAgain | base.Refused | base.Maybe:
        """Say what one failed request means for a write about ``name``."""
        if _is_missing_table(error):
            # Not as for a file that is not there: listings would be empty.
            return base.refused(errno.ENXIO, self.missing, name, error)
        return outcome_of(error, name)

    def no_answer(self, error: Exception, name: str) -> base.TryAgain | base.Refused:
        """Say what one failed request means for a read about ``name``."""
        outcome = self.no_write(error, name)
        return base.TryAgain(outcome.cause) if isinstance(outcome, base.Maybe) else outcome

    @property
    def missing(self) -> str:
        """What to say and to do where the table is not there."""
        return f"there is no table {self.name}: run `putifabsent init '{self.url}'`"


def silent(error: Exception, name: str) -> base.Refused:
    """Return the refusal of a server that says that a condition is not met, and not what it holds."""
    why = "the server does not say which item it holds: it is too old"
    return base.refused(errno.ENOTSUP, why, name, error)


_POLLS = 240
_BETWEEN_POLLS = 0.5
_USABLE = ("ACTIVE", "UPDATING")
_NOBODY = {"folder": {"S": "#check"}, "name": {"S": "#check"}}
_FOLDER = {"#folder": ATTRIBUTES["#folder"]}
_UNMET = "ConditionalCheckFailedException"
_NEVER: dict[str, Any] = {"ConditionExpression": NEVER, "ExpressionAttributeNames": _FOLDER}


async def ready(table: Table) -> bool:
    """Make the table, unless it is there, and wait until it can be used. True: this call made it.

    Nobody pays for it while it is idle (on-demand billing); nothing expires in it (no TTL); nobody removes
    it by mistake (deletion protection).
    """
    made = await _send(
        table,
        "create_table",
        "ResourceInUseException",
        BillingMode="PAY_PER_REQUEST",
        DeletionProtectionEnabled=True,
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in KEYS.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in KEYS],
    )
    for _ in range(_POLLS):
        if (await _send(table, "describe_table"))["Table"]["TableStatus"] in _USABLE:
            return bool(made)
        await asyncio.sleep(_BETWEEN_POLLS)
    waited = int(_POLLS * _BETWEEN_POLLS)
    raise OSError(errno.EBUSY, f"the table is not usable after {waited} s: ask again later", table.name)


async def checked(table: Table) -> str:
    """Return what tells the table from any other, if it can be relied on, and be read and written."""
    described = await sound(table)
    await _send(table, "get_item", Key=_NOBODY, ConsistentRead=True)
    await _send(
        table,
        "query",
        KeyConditionExpression="#folder = :folder",
        ExpressionAttributeNames=_FOLDER,
        ExpressionAttributeValues={":folder": _NOBODY["folder"]},
    )
    await _send(table, "put_item", _UNMET, Item=_NOBODY, **_NEVER)
    # DynamoDB Local gives its tables no id, and the same ARN everywhere.
    known = described.get("TableId")
    made: datetime | None = described.get("CreationDateTime")
    if not known and made is not None:
        known = made.astimezone(timezone.utc).isoformat()
    return f"dynamodb:{described['TableName']}#{known}"


async def checked_for_upkeep(table: Table) -> None:
    """Pass if its dead claims may be removed, and all of it may be read: a writer can do without."""
    await _send(table, "scan", Limit=1)
    await _send(table, "delete_item", _UNMET, Key=_NOBODY, **_NEVER)


async def sound(table: Table) -> Mapping[str, Any]:
    """Return what the table is, if what it decides counts everywhere, and stays."""
    described: Mapping[str, Any] = (await _send(table, "describe_table"))["Table"]
    keys = {key["AttributeName"]: key["KeyType"] for key in described["KeySchema"]}
    types = {each["AttributeName"]: each["AttributeType"] for each in described["AttributeDefinitions"]}
    if keys != KEYS or any(types.get(name) != "S" for name in KEYS):
        raise ConfigError(
            f"{table.url}: the table has other keys than folder (HASH, S) and name (RANGE, S), so it was "
            f"made for something else: choose another name, and run `putifabsent init`"
        )
    # A condition is checked in one region: two regions of such a table can each decide, differently.
    copied = described.get("Replicas") or described.get("GlobalTableVersion")
    if copied and described.get("MultiRegionConsistency") != "STRONG":
        raise ConfigError(
            f"{table.url}: the table is a global table that copies its claims with eventual consistency, so "
            f"two regions could decide differently: use a table of one region, or strong multi-region "
            f"consistency"
        )
    answer = await _send(table, "describe_time_to_live")
    if answer["TimeToLiveDescription"].get("TimeToLiveStatus") in ("ENABLED", "ENABLING"):
        raise ConfigError(
            f"{table.url}: the table has a time to live, and a claim that expires lets a name be created "
            f"twice: turn it off"
        )
    return described


async def _send(table: Table, method: str, expected: str | None = None, **parameters: Any) -> dict[str, Any]:
    """Send a request of a check, and raise what that is to raise; empty: the ``expected`` code came."""
    try:
        return await table.send(method, **parameters)
    except ConfigError:
        raise
    except Exception as error:
        if expected is not None and _has_code(error, expected):
            return {}
        if _is_missing_table(error):
            raise ConfigError(table.missing) from error
        outcome = outcome_of(error, table.url)
        if isinstance(outcome, base.Refused):
            raise outcome.error from error
        why = f"DynamoDB did not answer, or not now: {error}"
        raise ConnectionError(errno.EIO, why, table.url) from error
