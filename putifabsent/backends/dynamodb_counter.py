"""Counters in a DynamoDB table: each moved by one conditional ``UpdateItem``.

No such update takes the larger of two numbers. So there are two: one adds to a counter that is at the floor
or above it, one lifts a counter that is below. Which of them to send is known from the last answer; where
others have moved the counter since, the condition is not met, and the answer says where it is now.

Its time is that of the answers' ``Date``, which has whole seconds.

Source: the DynamoDB API reference (``UpdateItem``, ``ReturnValuesOnConditionCheckFailure``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from putifabsent.backends.counters import LARGEST, Advanced, Counter, at_its_end, bad_step
from putifabsent.backends.dynamodb_items import counted_on, counter_key, last_of, lifted
from putifabsent.backends.dynamodb_requests import TIMEOUT, Table, silent
from putifabsent.backends.dynamodb_sender import is_unmet
from putifabsent.backends.dynamodb_table import checked_for_counters
from putifabsent.backends.refusals import caused
from putifabsent.backends.registries import Refused, TryAgain
from putifabsent.backends.whole_seconds import WholeSeconds

if TYPE_CHECKING:
    from putifabsent.backends.counters import AdvanceOutcome

__all__ = ["DynamoDBCounter"]


class DynamoDBCounter(Counter):
    """Counters in one DynamoDB table, which may have claims, too.

    Parameters
    ----------
    table, region, endpoint_url, profile, timeout
        As for :class:`putifabsent.backends.dynamodb.DynamoDBClaims`.

    Raises
    ------
    ConfigError
        There is no such profile, or no region is known.
    """

    kind: ClassVar[str] = "dynamodb"
    forgets: ClassVar[bool] = False

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
        # Where each counter was last seen: a hint, which costs a request where it is wrong.
        self._seen: dict[str, int] = {}
        self._time = WholeSeconds()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._table.url}>"

    def advance(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """``UpdateItem``: it adds where the counter was seen at the floor or above, else it lifts."""
        return self._table.run(self._advance, name, floor, count)

    async def advance_async(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """``UpdateItem``: it adds where the counter was seen at the floor or above, else it lifts."""
        return await self._table.on_loop(self._advance, name, floor, count)

    async def _advance(self, name: str, floor: int, count: int) -> AdvanceOutcome:
        if refused := bad_step(name, floor, count):
            return refused
        adds = self._seen.get(name, -1) >= floor
        update = counted_on(floor, count) if adds else lifted(floor, count)
        try:
            answer = await self._table.send("update_item", Key=counter_key(name), **update)
        except Exception as error:  # noqa: BLE001 - what it means is decided in one place
            if is_unmet(error):
                return self._unmet(error, name, count, adds=adds)
            return self._table.no_write(error, name)
        last = self._seen[name] = last_of(answer["Attributes"])
        return Advanced(last, self._time.said(answer["ResponseMetadata"]["HTTPHeaders"].get("date")))

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

    def check(self) -> None:
        """Ask for the table, its keys, its time to live and its copies; then for the right to count."""
        self._table.run(self._table.ask, checked_for_counters)

    async def check_async(self) -> None:
        """Ask for the table, its keys, its time to live and its copies; then for the right to count."""
        await self._table.on_loop(self._table.ask, checked_for_counters)
