"""A table's turn, for Python: a context manager, sync and async, that gives signs of life by a thread."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from putifabsent.errors import Fenced
from putifabsent.fsspec_plugin.steps import Decide
from putifabsent.shim.drive import run
from putifabsent.shim.ledger import turns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Self

    from putifabsent.fsspec_plugin.guard import Guard
    from putifabsent.fsspec_plugin.steps import Steps
    from putifabsent.fsspec_plugin.tower import Begins
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import TurnName
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

__all__ = ["Turn", "taken", "turns_held", "with_turns"]

_BEATS_A_LEASE = 3

_log = logging.getLogger(__name__)
_held: ContextVar[Mapping[str, TurnName]] = ContextVar("_held", default=MappingProxyType({}))


def turns_held() -> Mapping[str, TurnName]:
    """Return the turns that this thread or task has, by the tables' places."""
    return _held.get()


def with_turns(held: Mapping[str, TurnName]) -> None:
    """Go on with the turns of another thread, for which this one works."""
    _held.set(held)


def taken(
    guard: Guard,
    name: Name,
    thread: str,
    lease: float,
    *,
    timeout: float | None = None,
    token: str | None = None,
    begins: Begins | None = None,
) -> Steps[TurnName | None]:
    """Take the turn of a name's table, waiting for it so long; None: somebody else has it, or is in the way.

    Who begins something in it had better do so when no other is under way that writes the same.
    """
    yield from guard.relying(name)
    creation = guard.mount.looker(name)
    if token is not None:
        creation = creation._replace(token=token)

    tower = None if guard.rules is None else guard.rules.tower
    in_the_way = None
    if tower is not None and begins is not None:
        in_the_way = partial(tower.in_the_way, begins, thread=thread, creation=creation)

    def take(ledger: Ledger) -> Protocol[TurnName | None]:
        return turns.take(
            ledger,
            thread,
            lease,
            creation,
            clock=time.monotonic,
            waits=timeout is not None,
            in_the_way=in_the_way,
        )

    turn: TurnName | None = yield Decide(guard.ledgers.using(name, take), deadline=timeout)
    if turn is not None and tower is not None:
        yield Decide(guard.ledgers.using(name, partial(tower.begun, thread=thread, creation=creation)))
    return turn


class Turn:
    """A table's lock, from :meth:`~putifabsent.fsspec_plugin.GuardedFileSystem.turn`.

    Only records in the table's ledger begin and end it, so no clock matters for safety. While it is held, a
    thread gives signs of life; should the process be paused for longer than the lease, others may break it,
    and what is completed in it after that is refused.

    Attributes
    ----------
    table
        Its folder.
    """

    def __init__(self, guard: Guard, table: str, lease: float, timeout: float) -> None:
        if not lease > 0:
            msg = f"lease must be a positive number of seconds, not {lease!r}"
            raise ValueError(msg)
        self.table = table
        self._turn: TurnName | None = None
        self._guard = guard
        self._lease = lease
        self._timeout = timeout
        self._name: Name | None = None
        self._over = threading.Event()
        self._pid = os.getpid()

    @property
    def number(self) -> int | None:
        """Of its record in the life of the table; None before it is entered and after it is left."""
        return self._turn and self._turn.number

    def __repr__(self) -> str:
        return f"<Turn {self.number or 'not held'} of {self.table}>"

    def __enter__(self) -> Self:
        name, turn = self._guard.mount.walk(self._taking())
        try:
            self._begin(name, turn)
        except RuntimeError as error:  # no more threads
            self.__exit__(RuntimeError, error, None)
            raise
        return self

    async def __aenter__(self) -> Self:
        name, turn = await self._guard.mount.walk_async(self._taking())
        try:
            self._begin(name, turn)
        except RuntimeError as error:
            await self.__aexit__(RuntimeError, error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.mount.walk(self._leaving(error))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._guard.mount.walk_async(self._leaving(error))

    def _taking(self) -> Steps[tuple[Name, TurnName]]:
        guard = self._guard
        name = yield from guard.ledgers.table_for_turns(self.table)
        if guard.ledgers.place(name) in turns_held():
            msg = f"this thread has the turn of {self.table} already"
            raise RuntimeError(msg)
        thread = threading.current_thread().name
        turn = yield from taken(guard, name, thread, self._lease, timeout=self._timeout)
        if turn is None:
            whose = guard.ledgers.whose_turn(name)
            reason = f"somebody else has had the turn for {self._timeout:g} s: {whose}"
            raise TimeoutError(errno.ETIMEDOUT, reason, self.table)
        return name, turn

    def _begin(self, name: Name, turn: TurnName) -> None:
        self._name, self._turn = name, turn
        with_turns({**turns_held(), self._guard.ledgers.place(name): turn})
        # One for each time: the thread of the last time may not have seen the end of its own yet.
        self._over, self._pid = threading.Event(), os.getpid()
        beats = threading.Thread(
            target=self._beat, args=(name, turn, self._over), name="putifabsent-turn", daemon=True
        )
        beats.start()

    def _beat(self, name: Name, turn: TurnName, over: threading.Event) -> None:
        creation = self._guard.mount.looker(name)
        while not over.wait(self._lease / _BEATS_A_LEASE):
            beat = partial(turns.beat, turn=turn, creation=creation, clock=time.monotonic)
            try:
                if not run(self._guard.ledgers.using(name, beat), self._guard.mount.store, self._lease):
                    return  # it was broken, or is given back at this moment
            except OSError as error:
                _log.debug("turn %s of %s gave no sign of life: %s", turn.number, self.table, error)

    def _leaving(self, error: BaseException | None) -> Steps[None]:
        name, turn = self._name, self._turn
        if name is None or turn is None:
            return
        self._turn = None
        self._over.set()
        place = self._guard.ledgers.place(name)
        with_turns({each: held for each, held in turns_held().items() if each != place})
        if self._pid != os.getpid():
            return  # a fork that leaves the block: the turn is its parent's
        creation = self._guard.mount.looker(name)
        release = partial(turns.release, turn=turn, creation=creation)
        try:
            was_held = yield Decide(self._guard.ledgers.using(name, release))
        except OSError as failed:
            # What was done in it is done; others get it when they have waited for its lease.
            _log.warning("turn %s of %s could not be given back: %s", turn.number, self.table, failed)
            return
        if was_held:
            return
        reason = f"turn {turn.number} was broken: this process gave no sign of life for {self._lease:g} s"
        if error is None:
            raise Fenced(errno.EPERM, reason, self.table)
        _log.warning("%s: %s", self.table, reason)
