"""What the readers of all formats have in common."""

from __future__ import annotations

import copy
import heapq
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from putifabsent.timeline.files import arrow
from putifabsent.timeline.parts import Whole, starts
from putifabsent.timeline.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from typing_extensions import Self

    from putifabsent.timeline.files import Problems
    from putifabsent.timeline.parts import Part
    from putifabsent.timeline.records import Details, Order


R = TypeVar("R", bound=Record)


class Timeline(ABC, Generic[R]):
    """What has happened to a table. It is read anew by every call, and never written to.

    Where a file can't be read, or a record of it, nothing is guessed: a call that is given a list adds it to
    ``problems``, and goes on with what can be; one that is given none raises it as an :class:`OSError`.
    """

    format: ClassVar[str]
    COLUMNS: ClassVar[tuple[tuple[str, str], ...]]
    """What :meth:`table` has: names, and pyarrow's names of types; ``utc``: a time, in milliseconds."""

    def __init__(self, fs: Any, root: str) -> None:
        self.fs = fs
        self.root = root

    @abstractmethod
    def active(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[R]:
        """Return what the table's own readers look at first: all that is not archived.

        Parameters
        ----------
        order
            By when they were requested (those of one time by their salt), or by when they were completed.
        problems
            Takes what can't be read.

        Raises
        ------
        OSError
            Something can't be read, and there are no ``problems`` to add it to; or the store refuses.
        """

    def history(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[R]:
        """Return what is archived, in formats that keep it; arguments and errors as for :meth:`active`."""
        return iter(())

    @abstractmethod
    def details(self, record: R, problems: Problems | None = None) -> Details:
        """Return all that is written about a record; arguments and errors as for :meth:`active`."""

    def records(self, *, order: Order = "requested", problems: Problems | None = None) -> Iterator[R]:
        """Return all, in one order; what is archived and still active once; as for :meth:`active`."""
        # In this order: what is archived in between is in both.
        active = list(self.active(order=order, problems=problems))
        there = {each.identity for each in active}
        archived = (
            each for each in self.history(order=order, problems=problems) if each.identity not in there
        )
        yield from heapq.merge(archived, active, key=lambda each: each.key(order))

    def parts(
        self,
        most: int | None = None,
        *,
        active: bool = True,
        history: bool = True,
        problems: Problems | None = None,
    ) -> Sequence[Part]:
        """Cut it into parts, for who reads many of them side by side: together they have each record once.

        What is active is looked up now, as is which files the history consists of; most of these are read
        with their part. There may be ``most`` parts, 1 or more (``ConfigError``); None: as many as it takes
        for none to take long. ``active``, ``history``: whether to read what is active, and what is archived.
        """
        starts([], most, 1)
        return self._cut(Whole(active, history), most, problems)

    def _cut(self, whole: Whole, most: int | None, problems: Problems | None) -> Sequence[Part]:
        """Cut what is wanted into parts, where the format can be cut."""
        del most, problems
        return [whole]

    def records_in(self, part: Part, *, problems: Problems | None = None) -> Iterator[R]:
        """Return the records of a part, in no order; arguments and errors as for :meth:`active`."""
        if not isinstance(part, Whole):
            raise TypeError(f"{type(part).__name__} is no part of a timeline of {self.format}")
        read = self.records if part.active and part.history else self.active if part.active else self.history
        return read(problems=problems)

    def through(self, fs: Any) -> Self:
        """Return the same timeline, read through another filesystem of the same store."""
        other = copy.copy(self)
        other.fs = fs
        return other

    def table(
        self, *, history: bool = True, order: Order = "requested", problems: Problems | None = None
    ) -> pa.Table:
        """Return the same as a pyarrow table: :meth:`records`, or without ``history`` :meth:`active`."""
        read = self.records if history else self.active
        return self.table_of(read(order=order, problems=problems))

    def table_of(self, records: Iterable[R]) -> pa.Table:
        """Return records as a pyarrow table."""
        pa = arrow()
        utc = pa.timestamp("ms", "UTC")
        kinds = {name: utc if kind == "utc" else pa.type_for_alias(kind) for name, kind in self.COLUMNS}
        schema = pa.schema(list(kinds.items()))
        return pa.Table.from_pylist([each.row() for each in records], schema)
