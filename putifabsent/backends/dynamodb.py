"""Claims and counters in a DynamoDB table.

A claim is decided by one conditional ``PutItem``, a counter moved by one conditional ``UpdateItem``.

No such update takes the larger of two numbers. So there are two: one adds to a counter that is at the floor
or above it, one lifts a counter that is below. Which of them to send is known from the last answer; where
others have moved the counter since, the condition is not met, and the answer says where it is now. The time
is that of the answers' ``Date``, which has whole seconds.

Source: the DynamoDB API reference (``PutItem``, ``UpdateItem``, ``DeleteItem``,
``ReturnValuesOnConditionCheckFailure``), and its developer guide on read consistency: ``ConsistentRead``
sees every write that was answered.
"""

from __future__ import annotations

import asyncio
import errno
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar

from putifabsent.backends.base import caused
from putifabsent.backends.counters import LARGEST, Advanced, Counter, at_its_end, bad_step
from putifabsent.backends.dynamodb_client import (
    Table,
    checked,
    checked_for_counters,
    checked_for_upkeep,
    is_unmet,
    ready,
    silent,
    sound,
)
from putifabsent.backends.dynamodb_items import (
    ATTRIBUTES,
    claim_of,
    counted_on,
    counter_key,
    entry_of,
    folder_key,
    item_of,
    key_of,
    last_of,
    lifted,
    only_if,
    start_of,
    stop_of,
)
from putifabsent.backends.interrupt import blocking_twin
from putifabsent.backends.registries import (
    Absent,
    Claimed,
    ClaimPage,
    Claims,
    Forgotten,
    FoundClaim,
    NotAsExpected,
    Refused,
    TryAgain,
    bad_identity,
)
from putifabsent.backends.server_time import WholeSeconds
from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Coroutine, Mapping

    from typing_extensions import Unpack

    from putifabsent.backends.counters import AdvanceOutcome
    from putifabsent.backends.dynamodb_client import Where
    from putifabsent.backends.registries import (
        Claim,
        ClaimOutcome,
        ForgetOutcome,
        PageOutcome,
        ReadOutcome,
    )

P = ParamSpec("P")
S = TypeVar("S", bound="DynamoDBClaims | DynamoDBCounter")
T = TypeVar("T")


def on_loop(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Have a method of what has a table run on the loop of the table's client, awaited from any."""

    @wraps(method)
    async def run(self: S, /, *arguments: P.args, **options: P.kwargs) -> T:
        loop = self._loop
        work = method(self, *arguments, **options)
        if asyncio.get_running_loop() is loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    return run


class DynamoDBClaims(Claims):
    """Claims in one DynamoDB table.

    Credentials come from AWS's own chain: its variables, its files, the machine's role. ``ConfigError``:
    there is no such profile, or no region is known.
    """

    kind: ClassVar[str] = "dynamodb"

    def __init__(self, table: str, **where: Unpack[Where]) -> None:
        self._table = Table(table, **where)
        self._known: str | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._table.url}>"

    @property
    def _loop(self) -> AbstractEventLoop:
        return self._table.loop

    @on_loop
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
            return FoundClaim(claim_of(item)) if item else Absent()
        except ValueError as error:
            return _unreadable(error, identity)

    read = blocking_twin(read_async)

    @on_loop
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

    @on_loop
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

    @on_loop
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

    @on_loop
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

    async def identity_async(self) -> str:
        """:meth:`identity`, asynchronously."""
        if self._known is None:
            await self.check_async()
        return str(self._known)

    @on_loop
    async def check_async(self) -> None:
        """Ask for the table, its keys, its time to live and its copies; then for the rights to use it."""
        self._known = await checked(self._table)

    check = blocking_twin(check_async)

    async def _init_async(self) -> bool:
        """``CreateTable``, and wait until it is active; then ask for all rights, those for upkeep, too."""
        made = await ready(self._table)
        await self.check_async()
        await checked_for_upkeep(self._table)
        return made

    init = blocking_twin(_init_async)

    async def _page(
        self, method: str, place: str, start: tuple[str, ...] | None, **parameters: Any
    ) -> PageOutcome:
        try:
            answer = await self._table.send(method, ConsistentRead=True, **parameters, **start_of(start))
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            return self._table.no_answer(error, place)
        try:
            return ClaimPage(tuple(map(entry_of, answer["Items"])), stop_of(answer))
        except ValueError as error:
            return _unreadable(error, place)


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


class DynamoDBCounter(Counter):
    """Counters in one DynamoDB table, which may have claims, too.

    Parameters and errors are those of :class:`putifabsent.backends.dynamodb.DynamoDBClaims`.
    """

    kind: ClassVar[str] = "dynamodb"
    forgets: ClassVar[bool] = False

    def __init__(self, table: str, **where: Unpack[Where]) -> None:
        self._table = Table(table, **where)
        # Where each counter was last seen: a hint, which costs a request where it is wrong.
        self._seen: dict[str, int] = {}
        self._time = WholeSeconds()
        self._is_sound = False

    @property
    def _loop(self) -> AbstractEventLoop:
        return self._table.loop

    @on_loop
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
            answer = await self._table.send("update_item", Key=counter_key(name), **update)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            if is_unmet(error):
                return self._unmet(error, name, count, adds=adds)
            return self._table.no_write(error, name)
        last = self._seen[name] = last_of(answer["Attributes"])
        return Advanced(last, self._time.at_date(answer["ResponseMetadata"]["HTTPHeaders"].get("date")))

    advance = blocking_twin(advance_async)

    async def _unsound(self) -> TryAgain | Refused | None:
        if not self._is_sound:
            try:
                await sound(self._table)
            except ConnectionError as error:
                return TryAgain(error)
            except (ConfigError, OSError) as error:
                return Refused(error)
            self._is_sound = True
        return None

    def _unmet(self, error: Any, name: str, count: int, *, adds: bool) -> AdvanceOutcome:
        item = error.response.get("Item")
        if item is None and not adds:
            return silent(error, name)
        last = self._seen[name] = -1 if item is None else last_of(item)
        if last + count > LARGEST:
            return Refused(caused(at_its_end(name), error))
        return TryAgain(error)

    def identity(self) -> str:
        """Return the table's address."""
        return self._table.url

    @on_loop
    async def check_async(self) -> None:
        """Ask for the table, its keys, its time to live and its copies; then for the right to count."""
        await checked_for_counters(self._table)
        self._is_sound = True

    check = blocking_twin(check_async)
