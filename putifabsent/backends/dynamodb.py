"""Claims and counters in a DynamoDB table.

A claim is decided by one conditional ``PutItem``, a counter moved by one conditional ``UpdateItem``.

No such update takes the larger of two numbers. So there are two: one adds to a counter that is at the floor
or above it, one lifts a counter that is below. Which of them to send is known from the last answer; where
others have moved the counter since, the condition is not met, and the answer says where it is now. The time
is that of the answers' ``Date``, which has whole seconds.

Their items:

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

Source: the DynamoDB API reference (``PutItem``, ``UpdateItem``, ``DeleteItem``,
``ReturnValuesOnConditionCheckFailure``), and its developer guide on read consistency: ``ConsistentRead``
sees every write that was answered.
"""

from __future__ import annotations

import errno
import hashlib
from typing import TYPE_CHECKING, Any, ClassVar

from putifabsent.backends import base
from putifabsent.backends.dynamodb_client import (
    ATTRIBUTES,
    COUNTERS,
    Table,
    checked,
    checked_for_upkeep,
    is_unmet,
    ready,
    silent,
    sound,
)
from putifabsent.backends.interrupt import blocking_twin
from putifabsent.backends.registries import (
    LARGEST,
    Advanced,
    Claim,
    Claimed,
    ClaimEntry,
    ClaimPage,
    Claims,
    Counter,
    Forgotten,
    FoundClaim,
    NotAsExpected,
    WholeSeconds,
    at_its_end,
    bad_identity,
    bad_step,
)
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Mapping

    from typing_extensions import Unpack

    from putifabsent.backends.dynamodb_client import Where
    from putifabsent.backends.registries import (
        AdvanceOutcome,
        ClaimOutcome,
        ForgetOutcome,
        PageOutcome,
        ReadOutcome,
    )


class _InTable:
    """What is in one DynamoDB table."""

    def __init__(self, table: str, **where: Unpack[Where]) -> None:
        self._table = Table(table, **where)

    @property
    def _loop(self) -> AbstractEventLoop:
        return self._table.loop


class DynamoDBClaims(_InTable, Claims):
    """Claims in one DynamoDB table.

    Credentials come from AWS's own chain: its variables, its files, the machine's role. ``ConfigError``:
    there is no such profile, or no region is known.
    """

    kind: ClassVar[str] = "dynamodb"

    def __init__(self, table: str, **where: Unpack[Where]) -> None:
        super().__init__(table, **where)
        self._known: str | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._table.url}>"

    async def read_async(self, identity: str) -> ReadOutcome:
        """``GetItem`` with ``ConsistentRead``."""
        if refused := bad_identity(identity):
            return refused
        try:
            answer = await self._table.send("get_item", Key=key_of(identity), ConsistentRead=True)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return self._table.no_answer(error, identity)
        item = answer.get("Item")
        try:
            return FoundClaim(claim_of(item)) if item else base.Absent()
        except ValueError as error:
            return _unreadable(error, identity)

    read = blocking_twin(read_async)

    async def write_async(self, identity: str, claim: Claim, expected: Claim | None) -> ClaimOutcome:
        """``PutItem`` with a condition; the answer to one that is not met has the item that is there."""
        if refused := bad_identity(identity):
            return refused
        try:
            await self._table.send("put_item", Item=item_of(identity, claim), **only_if(expected))
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            if is_unmet(error):
                return _unmet(error, identity, expected)
            return self._table.no_write(error, identity)
        return Claimed()

    write = blocking_twin(write_async)

    async def forget_async(self, identity: str, expected: Claim) -> ForgetOutcome:
        """``DeleteItem`` with a condition."""
        if refused := bad_identity(identity):
            return refused
        try:
            await self._table.send("delete_item", Key=key_of(identity), **only_if(expected))
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            if is_unmet(error):
                return _unmet(error, identity, expected)
            return self._table.no_write(error, identity)
        return Forgotten()

    forget = blocking_twin(forget_async)

    async def list_async(self, folder: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """``Query`` with ``ConsistentRead``: a page is a MiB."""
        if refused := bad_identity(folder, "folder"):
            return refused
        return await self._page(
            "query",
            folder,
            start,
            KeyConditionExpression="#folder = :folder",
            ExpressionAttributeNames={"#folder": ATTRIBUTES["#folder"]},
            ExpressionAttributeValues={":folder": {"S": folder_key(folder)}},
        )

    list = blocking_twin(list_async)

    async def sweep_async(self, place: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """``Scan`` with ``ConsistentRead``: it reads the whole table, a MiB a page."""
        if refused := bad_identity(place, "folder"):
            return refused
        at, below = "#folder = :place OR #whole_folder = :place", ":below"
        inside = f"begins_with(#folder, {below}) OR begins_with(#whole_folder, {below})"
        names = ("#folder", "#whole_folder", "#token")
        return await self._page(
            "scan",
            place,
            start,
            # A counter is no claim.
            FilterExpression=f"({at} OR {inside}) AND attribute_exists(#token)",
            ExpressionAttributeNames={name: ATTRIBUTES[name] for name in names},
            ExpressionAttributeValues={":place": {"S": place}, below: {"S": f"{place}/"}},
        )

    sweep = blocking_twin(sweep_async)

    def identity(self) -> str:
        """Return the table's id, after one :meth:`check`."""
        if self._known is None:
            self.check()
        return str(self._known)

    async def _check_async(self) -> None:
        """Ask for the table, its keys, its time to live and its copies; then for the rights to use it."""
        self._known = await checked(self._table)

    check = blocking_twin(_check_async)

    async def _init_async(self) -> bool:
        """``CreateTable``, and wait until it is active; then ask for all rights, those for upkeep, too.

        True: made; False: it was there. Calling it again is harmless.
        """
        made = await ready(self._table)
        await self._check_async()
        await checked_for_upkeep(self._table)
        return made

    init = blocking_twin(_init_async)

    async def _page(
        self, method: str, place: str, start: tuple[str, ...] | None, **parameters: Any
    ) -> PageOutcome:
        key = start and {"folder": {"S": start[0]}, "name": {"S": start[1]}}
        after = {"ExclusiveStartKey": key} if key else {}
        try:
            answer = await self._table.send(method, ConsistentRead=True, **parameters, **after)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return self._table.no_answer(error, place)
        try:
            last = answer.get("LastEvaluatedKey")
            more = (last["folder"]["S"], last["name"]["S"]) if last else None
            return ClaimPage(tuple(map(entry_of, answer["Items"])), more)
        except ValueError as error:
            return _unreadable(error, place)


def _unmet(error: Any, identity: str, expected: Claim | None) -> NotAsExpected | base.Refused:
    item: Mapping[str, Any] | None = error.response.get("Item")
    if item:
        try:
            return NotAsExpected(claim_of(item))
        except ValueError as unreadable:
            return _unreadable(unreadable, identity)
    if expected is None:
        return silent(error, identity)
    return NotAsExpected(None)


def _unreadable(error: ValueError, name: str) -> base.Refused:
    return base.refused(errno.EBADMSG, str(error), name, error)


class DynamoDBCounter(_InTable, Counter):
    """Counters in one DynamoDB table, which may have claims, too.

    Parameters and errors are those of :class:`putifabsent.backends.dynamodb.DynamoDBClaims`.
    """

    forgets: ClassVar[bool] = False

    def __init__(self, table: str, **where: Unpack[Where]) -> None:
        super().__init__(table, **where)
        # Where each counter was last seen: a hint, which costs a request where it is wrong.
        self._seen: dict[str, int] = {}
        self._time = WholeSeconds()
        self._is_sound = False

    async def advance_async(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """``UpdateItem``: it adds where the counter was seen at the floor or above, else it lifts.

        Before the first one the table is looked at: two regions of a global table would give the same
        numbers, and a time to live takes the counter away.
        """
        if refused := bad_step(name, floor, count):
            return refused
        if unsound := await self._unsound():
            return unsound
        adds = self._seen.get(name, -1) >= floor
        update = counted_on(floor, count) if adds else lifted(floor, count)
        try:
            answer = await self._table.send(
                "update_item", Key={"folder": COUNTERS, "name": {"S": _key(name, _LONGEST_NAME)}}, **update
            )
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            if is_unmet(error):
                return self._unmet(error, name, count, adds=adds)
            return self._table.no_write(error, name)
        last = self._seen[name] = last_of(answer["Attributes"])
        return Advanced(last, self._time.at_date(answer["ResponseMetadata"]["HTTPHeaders"].get("date")))

    advance = blocking_twin(advance_async)

    async def _unsound(self) -> base.TryAgain | base.Refused | None:
        if not self._is_sound:
            try:
                await sound(self._table)
            except ConnectionError as error:
                return base.TryAgain(error)
            except (ConfigError, OSError) as error:
                return base.Refused(error)
            self._is_sound = True
        return None

    def _unmet(self, error: Any, name: str, count: int, *, adds: bool) -> AdvanceOutcome:
        item = error.response.get("Item")
        if item is None and not adds:
            return silent(error, name)
        last = self._seen[name] = -1 if item is None else last_of(item)
        if last + count > LARGEST:
            return base.Refused(base.caused(at_its_end(name), error))
        return base.TryAgain(error)

    def identity(self) -> str:
        return self._table.url


# --- items: keys, attributes, conditions

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
