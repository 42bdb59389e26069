"""Claims in a DynamoDB table: each decided by one conditional ``PutItem``.

Source: the DynamoDB API reference (``PutItem``, ``DeleteItem``, ``ReturnValuesOnConditionCheckFailure``), and
its developer guide on read consistency: ``ConsistentRead`` sees every write that was answered.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, ClassVar

from putifabsent.backends.dynamodb_items import (
    ATTRIBUTES,
    claim_of,
    entry_of,
    folder_key,
    item_of,
    key_of,
    only_if,
    start_of,
    stop_of,
)
from putifabsent.backends.dynamodb_requests import TIMEOUT, Table, silent
from putifabsent.backends.dynamodb_sender import is_unmet
from putifabsent.backends.dynamodb_table import checked, ready
from putifabsent.backends.identities import bad_identity
from putifabsent.backends.refusals import caused
from putifabsent.backends.registries import (
    Absent,
    Claimed,
    ClaimPage,
    Claims,
    Forgotten,
    FoundClaim,
    NotAsExpected,
    Refused,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from putifabsent.backends.registries import (
        Claim,
        ClaimEntry,
        ClaimOutcome,
        ForgetOutcome,
        PageOutcome,
        ReadOutcome,
    )

__all__ = ["DynamoDBClaims"]


class DynamoDBClaims(Claims):
    """Claims in one DynamoDB table.

    Credentials come from AWS's own chain: its variables, its files, the machine's role.

    Parameters
    ----------
    table
        Its name.
    region, endpoint_url, profile
        As AWS's own tools take them; None leaves it to AWS's settings.
    timeout
        Seconds, for one request.

    Raises
    ------
    ConfigError
        There is no such profile, or no region is known.
    """

    kind: ClassVar[str] = "dynamodb"

    def __init__(
        self,
        table: str,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        profile: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self._table = Table(table, region, endpoint_url, profile, timeout)
        self._known: str | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._table.url}>"

    def read(self, identity: str) -> ReadOutcome:
        """``GetItem`` with ``ConsistentRead``."""
        return self._table.run(self._read, identity)

    async def read_async(self, identity: str) -> ReadOutcome:
        """``GetItem`` with ``ConsistentRead``."""
        return await self._table.on_loop(self._read, identity)

    async def _read(self, identity: str) -> ReadOutcome:
        if refused := bad_identity(identity):
            return refused
        try:
            answer = await self._table.send("get_item", Key=key_of(identity), ConsistentRead=True)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return self._table.no_answer(error, identity)
        item = answer.get("Item")
        try:
            return FoundClaim(claim_of(item)) if item else Absent()
        except ValueError as error:
            return _unreadable(error, identity)

    def write(self, identity: str, claim: Claim, expected: Claim | None) -> ClaimOutcome:
        """``PutItem`` with a condition; the answer to one that is not met has the item that is there."""
        return self._table.run(self._write, identity, claim, expected)

    async def write_async(self, identity: str, claim: Claim, expected: Claim | None) -> ClaimOutcome:
        """``PutItem`` with a condition; the answer to one that is not met has the item that is there."""
        return await self._table.on_loop(self._write, identity, claim, expected)

    async def _write(self, identity: str, claim: Claim, expected: Claim | None) -> ClaimOutcome:
        if refused := bad_identity(identity):
            return refused
        try:
            await self._table.send("put_item", Item=item_of(identity, claim), **only_if(expected))
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            if is_unmet(error):
                return _unmet(error, identity, expected)
            return self._table.no_write(error, identity)
        return Claimed()

    def forget(self, identity: str, expected: Claim) -> ForgetOutcome:
        """``DeleteItem`` with a condition."""
        return self._table.run(self._forget, identity, expected)

    async def forget_async(self, identity: str, expected: Claim) -> ForgetOutcome:
        """``DeleteItem`` with a condition."""
        return await self._table.on_loop(self._forget, identity, expected)

    async def _forget(self, identity: str, expected: Claim) -> ForgetOutcome:
        if refused := bad_identity(identity):
            return refused
        try:
            await self._table.send("delete_item", Key=key_of(identity), **only_if(expected))
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            if is_unmet(error):
                return _unmet(error, identity, expected)
            return self._table.no_write(error, identity)
        return Forgotten()

    def list(self, folder: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """``Query`` with ``ConsistentRead``: a page is a MiB."""
        return self._table.run(self._list, folder, start)

    async def list_async(self, folder: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """``Query`` with ``ConsistentRead``: a page is a MiB."""
        return await self._table.on_loop(self._list, folder, start)

    async def _list(self, folder: str, start: tuple[str, ...] | None) -> PageOutcome:
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

    def sweep(self, place: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """``Scan`` with ``ConsistentRead``: it reads the whole table, a MiB a page."""
        return self._table.run(self._sweep, place, start)

    async def sweep_async(self, place: str, start: tuple[str, ...] | None = None) -> PageOutcome:
        """``Scan`` with ``ConsistentRead``: it reads the whole table, a MiB a page."""
        return await self._table.on_loop(self._sweep, place, start)

    async def _sweep(self, place: str, start: tuple[str, ...] | None) -> PageOutcome:
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

    def identity(self) -> str:
        """Return the table's id, after one :meth:`check`."""
        if self._known is None:
            self.check()
        return str(self._known)

    async def identity_async(self) -> str:
        """Return the table's id, after one :meth:`check`."""
        if self._known is None:
            await self.check_async()
        return str(self._known)

    def check(self) -> None:
        """Ask for the table, its keys, its time to live and its copies; then for the rights to use it."""
        self._known = self._table.run(self._table.ask, checked)

    async def check_async(self) -> None:
        """Ask for the table, its keys, its time to live and its copies; then for the rights to use it."""
        self._known = await self._table.on_loop(self._table.ask, checked)

    def init(self) -> bool:
        """``CreateTable``, and wait until it is active."""
        made: bool = self._table.run(self._table.ask, ready)
        self.check()
        return made

    async def _page(
        self, method: str, place: str, start: tuple[str, ...] | None, **parameters: Any
    ) -> PageOutcome:
        try:
            answer = await self._table.send(method, ConsistentRead=True, **parameters, **start_of(start))
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return self._table.no_answer(error, place)
        entries: list[ClaimEntry] = []
        try:
            entries += map(entry_of, answer["Items"])
        except ValueError as error:
            return _unreadable(error, place)
        return ClaimPage(tuple(entries), stop_of(answer))


def _unmet(error: Any, identity: str, expected: Claim | None) -> NotAsExpected | Refused:
    item: Mapping[str, Any] | None = error.response.get("Item")
    if item:
        try:
            return NotAsExpected(claim_of(item))
        except ValueError as unreadable:
            return _unreadable(unreadable, identity)
    if expected is None:
        return silent(error, identity)
    return NotAsExpected(None)


def _unreadable(error: ValueError, name: str) -> Refused:
    return Refused(caused(OSError(errno.EBADMSG, str(error), name), error))
