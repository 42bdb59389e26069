"""A DynamoDB table for claims and counters: how it is made, and what it must be."""

from __future__ import annotations

import asyncio
import errno
from datetime import timezone
from typing import TYPE_CHECKING, Any

from putifabsent.backends.base import Refused
from putifabsent.backends.dynamodb_items import ATTRIBUTES, COUNTERS, KEYS, NEVER
from putifabsent.backends.dynamodb_sender import is_missing_table, is_there, is_unmet, outcome_of
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import NoReturn

    from putifabsent.backends.dynamodb_sender import Sender

__all__ = ["checked", "checked_for_counters", "missing", "ready"]

_POLLS = 240
_BETWEEN_POLLS = 0.5
_USABLE = ("ACTIVE", "UPDATING")
_NOBODY = {"folder": {"S": "#check"}, "name": {"S": "#check"}}


async def ready(sender: Sender, table: str, url: str) -> bool:
    """Make the table, unless it is there, and wait until it can be used. True: this call made it.

    Nobody pays for it while it is idle (on-demand billing); nothing expires in it (no TTL); nobody removes
    it by mistake (deletion protection).
    """
    made = True
    try:
        await sender.call(
            "create_table",
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            DeletionProtectionEnabled=True,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in KEYS.items()],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in KEYS],
        )
    except Exception as error:  # noqa: BLE001 - what it means is decided in one place
        if not is_there(error):
            _fail(error, table, url)
        made = False
    for _ in range(_POLLS):
        if (await _described(sender, table, url))["TableStatus"] in _USABLE:
            return made
        await asyncio.sleep(_BETWEEN_POLLS)
    waited = int(_POLLS * _BETWEEN_POLLS)
    raise OSError(errno.EBUSY, f"the table is not usable after {waited} s: ask again later", table)


async def checked(sender: Sender, table: str, url: str) -> str:
    """Return what tells the table from any other, if it can be relied on, and be read and written."""
    described = await _sound(sender, table, url)
    await _refuse_no_rights(sender, table, url)
    return _identity(described)


async def checked_for_counters(sender: Sender, table: str, url: str) -> None:
    """Pass if the table can be relied on, and counters in it may be advanced."""
    await _sound(sender, table, url)
    try:
        await sender.call(
            "update_item",
            TableName=table,
            Key={**_NOBODY, "folder": COUNTERS},
            UpdateExpression="SET #last = :last",
            ConditionExpression=NEVER,
            ExpressionAttributeNames={name: ATTRIBUTES[name] for name in ("#folder", "#last")},
            ExpressionAttributeValues={":last": {"N": "0"}},
        )
    except Exception as error:  # noqa: BLE001 - what it means is decided in one place
        if not is_unmet(error):
            _fail(error, table, url)


def missing(table: str, url: str) -> str:
    """Return the sentence for a table that is not there."""
    return f"there is no table {table}: run `putifabsent init '{url}'`"


async def _sound(sender: Sender, table: str, url: str) -> Mapping[str, Any]:
    described = await _described(sender, table, url)
    _refuse_other_keys(described, url)
    _refuse_copies(described, url)
    await _refuse_expiry(sender, table, url)
    return described


async def _described(sender: Sender, table: str, url: str) -> Mapping[str, Any]:
    try:
        answer = await sender.call("describe_table", TableName=table)
    except Exception as error:  # noqa: BLE001 - what it means is decided in one place
        _fail(error, table, url)
    described: Mapping[str, Any] = answer["Table"]
    return described


def _refuse_other_keys(described: Mapping[str, Any], url: str) -> None:
    keys = {key["AttributeName"]: key["KeyType"] for key in described["KeySchema"]}
    types = {each["AttributeName"]: each["AttributeType"] for each in described["AttributeDefinitions"]}
    if keys != KEYS or any(types.get(name) != "S" for name in KEYS):
        raise ConfigError(
            f"{url}: the table has other keys than folder (HASH, S) and name (RANGE, S), so it was made for "
            f"something else: choose another name, and run `putifabsent init`"
        )


def _refuse_copies(described: Mapping[str, Any], url: str) -> None:
    # A condition is checked in one region: two regions of such a table can each decide, differently.
    copied = described.get("Replicas") or described.get("GlobalTableVersion")
    if copied and described.get("MultiRegionConsistency") != "STRONG":
        raise ConfigError(
            f"{url}: the table is a global table that copies its claims with eventual consistency, so two "
            f"regions could decide differently: use a table of one region, or strong multi-region consistency"
        )


async def _refuse_expiry(sender: Sender, table: str, url: str) -> None:
    try:
        answer = await sender.call("describe_time_to_live", TableName=table)
    except Exception as error:  # noqa: BLE001 - what it means is decided in one place
        _fail(error, table, url)
    if answer["TimeToLiveDescription"].get("TimeToLiveStatus") in ("ENABLED", "ENABLING"):
        raise ConfigError(
            f"{url}: the table has a time to live, and a claim that expires lets a name be created twice: "
            f"turn it off"
        )


async def _refuse_no_rights(sender: Sender, table: str, url: str) -> None:
    names = {"#folder": ATTRIBUTES["#folder"]}
    nobody = {":folder": _NOBODY["folder"]}
    try:
        await sender.call("get_item", TableName=table, Key=_NOBODY, ConsistentRead=True)
        await sender.call(
            "query",
            TableName=table,
            KeyConditionExpression="#folder = :folder",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=nobody,
        )
        await sender.call(
            "put_item",
            TableName=table,
            Item=_NOBODY,
            ConditionExpression=NEVER,
            ExpressionAttributeNames=names,
        )
    except Exception as error:  # noqa: BLE001 - what it means is decided in one place
        if not is_unmet(error):
            _fail(error, table, url)


def _identity(described: Mapping[str, Any]) -> str:
    # DynamoDB Local gives its tables no id, and the same ARN everywhere.
    known = described.get("TableId")
    made: datetime | None = described.get("CreationDateTime")
    if not known and made is not None:
        known = made.astimezone(timezone.utc).isoformat()
    return f"dynamodb:{described['TableName']}#{known}"


def _fail(error: Exception, table: str, url: str) -> NoReturn:
    if isinstance(error, ConfigError):
        raise error
    if is_missing_table(error):
        raise ConfigError(missing(table, url)) from error
    outcome = outcome_of(error, url)
    if isinstance(outcome, Refused):
        raise outcome.error from error
    raise ConnectionError(errno.EIO, f"DynamoDB did not answer, or not now: {error}", url) from error
