"""A claim as an item of a DynamoDB table, and a counter: keys, attributes, conditions.

==============  ====  ===============================================================================
attribute       type  what
==============  ====  ===============================================================================
``folder``      S     partition key: what stands before the last ``/`` of the identity
``name``        S     sort key: what stands after it
``incarnation`` N     from 1
``live``        BOOL  whether that incarnation goes on
``object``      S     the salted object's full name
``token``       S     the creation's token
``writer``      S     the writer's UUID
``format``      N     the version of this table, 1
``whole_folder``, ``whole_name``  S  only beside a key that is hashed: what it stands for
==============  ====  ===============================================================================

So the claims of a folder are one Query, wherever the folder is. A key that is longer than DynamoDB allows
(2048 bytes, 1024 bytes), empty, or begins with ``#`` is ``#`` and its SHA-256: a hash never meets a name.

A counter's item has the partition key ``#counter``, which is no folder and no hash, its name as the sort key,
and its last number as ``last`` (N).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from putifabsent.backends.counters import LARGEST
from putifabsent.backends.registries import Claim, ClaimEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = {"folder": "HASH", "name": "RANGE"}  # the table's keys, both strings

ATTRIBUTES = {
    f"#{name}": name for name in ("folder", "name", "whole_folder", "incarnation", "live", "token", "last")
}
"""Names as expressions say them: several are DynamoDB's reserved words."""

NEVER = "attribute_exists(#folder) AND attribute_not_exists(#folder)"
"""A condition that is never met: it asks for the right to write, and writes nothing."""

COUNTERS = {"S": "#counter"}
"""The partition key of all counters."""

_FORMAT = 1
_LONGEST_FOLDER = 2048
_LONGEST_NAME = 1024
_HASHED = "#"


def key_of(identity: str) -> dict[str, dict[str, str]]:
    """Return the item's key."""
    folder, _, name = identity.rpartition("/")
    return {"folder": {"S": folder_key(folder)}, "name": {"S": _key(name, _LONGEST_NAME)}}


def folder_key(folder: str) -> str:
    """Return the partition key of a folder's claims."""
    return _key(folder, _LONGEST_FOLDER)


def item_of(identity: str, claim: Claim) -> dict[str, dict[str, Any]]:
    """Return the item that says ``claim`` of ``identity``."""
    key = key_of(identity)
    folder, _, name = identity.rpartition("/")
    whole = {"whole_folder": (folder, key["folder"]), "whole_name": (name, key["name"])}
    return {
        **key,
        **{attribute: {"S": text} for attribute, (text, kept) in whole.items() if kept["S"] != text},
        "incarnation": {"N": str(claim.incarnation)},
        "live": {"BOOL": claim.live},
        "object": {"S": claim.key},
        "token": {"S": claim.token},
        "writer": {"S": claim.writer},
        "format": {"N": str(_FORMAT)},
    }


def claim_of(item: Mapping[str, Mapping[str, Any]]) -> Claim:
    """Return the claim that an item says; ValueError: it is of a later format, or no claim's item."""
    try:
        version = int(item["format"]["N"])
        if version > _FORMAT:
            raise ValueError(
                f"the claim is of format {version}: a later putifabsent wrote it. Update this one"
            )
        return Claim(
            int(item["incarnation"]["N"]),
            item["live"]["BOOL"] is True,
            item["object"]["S"],
            item["token"]["S"],
            item["writer"]["S"],
        )
    except KeyError as error:
        raise ValueError(f"an item of the table is no claim: it has no {error.args[0]}") from error


def entry_of(item: Mapping[str, Mapping[str, Any]]) -> ClaimEntry:
    """Return the line of a listing that an item is."""
    folder = item.get("whole_folder", item["folder"])["S"]
    name = item.get("whole_name", item["name"])["S"]
    return ClaimEntry(f"{folder}/{name}", claim_of(item))


def only_if(expected: Claim | None) -> dict[str, Any]:
    """Return the condition "what is there is exactly ``expected``", and what to tell where it isn't."""
    if expected is None:
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(#folder)"}
        names: tuple[str, ...] = ("#folder",)
    else:
        condition = {
            "ConditionExpression": "#incarnation = :incarnation AND #live = :live AND #token = :token",
            "ExpressionAttributeValues": {
                ":incarnation": {"N": str(expected.incarnation)},
                ":live": {"BOOL": expected.live},
                ":token": {"S": expected.token},
            },
        }
        names = ("#incarnation", "#live", "#token")
    return {
        **condition,
        "ExpressionAttributeNames": {name: ATTRIBUTES[name] for name in names},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def counter_key(name: str) -> dict[str, dict[str, str]]:
    """Return the key of a counter's item."""
    return {"folder": COUNTERS, "name": {"S": _key(name, _LONGEST_NAME)}}


def counted_on(floor: int, count: int) -> dict[str, Any]:
    """Return the update "``count`` more", for a counter that is at ``floor`` or above it."""
    return _counting(
        "#last = #last + :count",
        "#last BETWEEN :floor AND :highest",
        {":count": count, ":floor": floor, ":highest": LARGEST - count},
    )


def lifted(floor: int, count: int) -> dict[str, Any]:
    """Return the update "``count`` more than ``floor``", for a counter that is below it, or not there."""
    return _counting(
        "#last = :last",
        "attribute_not_exists(#last) OR #last < :floor",
        {":last": floor + count, ":floor": floor},
    )


def last_of(item: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the last number of a counter, as its item says it."""
    return int(item["last"]["N"])


def start_of(start: tuple[str, ...] | None) -> dict[str, Any]:
    """Return the parameter that has a Query or Scan go on where a page ended."""
    if start is None:
        return {}
    folder, name = start
    return {"ExclusiveStartKey": {"folder": {"S": folder}, "name": {"S": name}}}


def stop_of(answer: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return where a page of a Query or Scan ended; None if it was the last."""
    last = answer.get("LastEvaluatedKey")
    return (last["folder"]["S"], last["name"]["S"]) if last else None


def _counting(update: str, condition: str, numbers: Mapping[str, int]) -> dict[str, Any]:
    return {
        "UpdateExpression": f"SET {update}",
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {"#last": ATTRIBUTES["#last"]},
        "ExpressionAttributeValues": {name: {"N": str(number)} for name, number in numbers.items()},
        "ReturnValues": "UPDATED_NEW",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _key(text: str, longest: int) -> str:
    if text and not text.startswith(_HASHED) and len(text.encode()) <= longest:
        return text
    return _HASHED + hashlib.sha256(text.encode()).hexdigest()
