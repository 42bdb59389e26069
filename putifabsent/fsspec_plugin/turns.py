"""A table's turn, for Python: a context manager, sync and async, that gives signs of life by a thread."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.errors import Fenced
from putifabsent.fsspec_plugin.steps import Decide, Steps
from putifabsent.fsspec_plugin.telemetry import observe_wait
from putifabsent.shim.ledger import turns
from putifabsent.shim.ledger.facts import LONGEST_LEASE, TurnName

if TYPE_CHECKING:
    from typing_extensions import Self

    from putifabsent.fsspec_plugin.guard import Guard
    from putifabsent.fsspec_plugin.tower import Begins
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

_BEATS_A_LEASE = 3
_PATIENCE = 5.0  # seconds that somebody waits at most who is interrupted, so that others need not

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
    creation = guard.mount.looker(name) if token is None else guard.mount.under(token, name)

    tower = guard.tower
    in_the_way = None
    if tower is not None and begins is not None:
        if tower.rests(name.state, guard.mount.session, thread):
            return None
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
    if tower is not None and (turn is not None or begins is None):
        # Who asks for nothing but the turn waits for nobody's commit any more.
        leave = partial(tower.leave, thread=thread, creation=creation)
        observe_wait(guard.mount.arbiter, (yield Decide(guard.ledgers.using(name, leave))))
    return turn


class _Taken(NamedTuple):
    """A turn that was taken: for which name, what ends its signs of life, and in which process."""

    name: Name
    over: threading.Event
    pid: int


def _beside(work: Callable[[TurnName, _Taken], None], turn: TurnName, taken: _Taken) -> threading.Thread:
    thread = threading.Thread(target=work, args=(turn, taken), name="putifabsent-turn", daemon=True)
    thread.start()
    return thread


class Turn:
    """A table's lock, from :meth:`~putifabsent.fsspec_plugin.GuardedFileSystem.turn`.

    While somebody has it, nobody else completes an instant of the table. Only records in the table's ledger
    begin and end it, so no clock matters for safety. A thread gives signs of life meanwhile; should the
    process be paused for longer than the lease, others may break it, and what is completed in it after that
    is refused.

    The table is a folder; of a Hudi table that is still to be made, its ``.hoodie``: only what is there shows
    that a folder is Hudi's. The ``lease`` is seconds without a sign of life, 3600 at most; three are given in
    that time. ``timeout`` is in seconds, too; by default the mount's ``deadline``.

    When it is entered, ``TimeoutError``: somebody else had it all the time; ``OutcomeUnknown``: it may have
    been taken, and then is broken after the lease. When it is left, ``Fenced``: it was broken, for the holder
    had given no sign of life; or another mount has removed the table.
    """

    def __init__(self, guard: Guard, table: str, lease: float, timeout: float | None) -> None:
        if not 0 < lease <= LONGEST_LEASE:
            msg = f"lease must be a positive number of seconds, {LONGEST_LEASE:g} at most, not {lease!r}"
            raise ValueError(msg)
        self.table = table
        self._guard = guard
        self._lease = lease
        self._timeout = guard.mount.options.deadline if timeout is None else timeout
        # By thread or task that has entered it and not left it: one lock may be many threads'.
        self._taken: dict[TurnName, _Taken] = {}

    @property
    def number(self) -> int | None:
        """Of its record in the life of the table; None before it is entered and after it is left."""
        mine = self._mine()
        return mine and mine.number

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

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._guard.mount.walk(self._leaving(error))

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        await self._guard.mount.walk_async(self._leaving(error))

    def _taking(self) -> Steps[tuple[Name, TurnName]]:
        guard = self._guard
        name = yield from guard.ledgers.table_for_turns(self.table)
        if guard.ledgers.place(name) in turns_held():
            raise RuntimeError(f"this thread has the turn of {self.table} already")
        thread, token = threading.current_thread().name, guard.mount.looker(name).token
        try:
            turn = yield from taken(guard, name, thread, self._lease, timeout=self._timeout, token=token)
        except GeneratorExit:
            raise
        except BaseException:
            # It may have been taken before the interruption; else others wait for the whole lease.
            with suppress(Exception):
                give_up = partial(turns.give_up, token=token, creation=guard.mount.looker(name))
                yield Decide(guard.ledgers.using(name, give_up), deadline=_PATIENCE)
            raise
        if turn is None:
            whose = guard.ledgers.whose_turn(name)
            reason = f"somebody else has had the turn for {self._timeout:g} s: {whose}"
            raise TimeoutError(errno.ETIMEDOUT, reason, self.table)
        return name, turn

    def _mine(self) -> TurnName | None:
        """Return the turn of this thread or task; of one that another has entered for it, the only one."""
        held = frozenset(turns_held().values())
        return next((turn for turn in self._taken if turn in held or len(self._taken) == 1), None)

    def _begin(self, name: Name, turn: TurnName) -> None:
        taken = self._taken[turn] = _Taken(name, threading.Event(), os.getpid())
        with_turns({**turns_held(), self._guard.ledgers.place(name): turn})
        _beside(self._beats, turn, taken)

    def _beats(self, turn: TurnName, taken: _Taken) -> None:
        sent: list[threading.Thread] = []
        while not taken.over.wait(self._lease / _BEATS_A_LEASE):
            # A request that hangs may hang for longer than the lease, and must not keep the next ones back.
            sent = [each for each in sent if each.is_alive()]
            if len(sent) < _BEATS_A_LEASE:
                with suppress(RuntimeError):  # no more threads
                    sent.append(_beside(self._beat, turn, taken))

    def _beat(self, turn: TurnName, taken: _Taken) -> None:
        creation = self._guard.mount.looker(taken.name)
        beat = partial(turns.beat, turn=turn, creation=creation, clock=time.monotonic)
        try:
            ledgers, mount = self._guard.ledgers, self._guard.mount
            if not mount.run(ledgers.using(taken.name, beat), deadline=self._lease):
                taken.over.set()  # it was broken, or is given back at this moment
        except Exception as error:  # noqa: BLE001 - the next one may be given
            _log.warning("turn %s of %s gave no sign of life: %s", turn.number, self.table, error)

    def _leaving(self, error: BaseException | None) -> Steps[None]:
        turn = self._mine()
        if turn is None:
            return
        taken, ledgers = self._taken.pop(turn), self._guard.ledgers
        taken.over.set()
        name = taken.name
        place = ledgers.place(name)
        with_turns({each: held for each, held in turns_held().items() if each != place})
        if taken.pid != os.getpid():
            return  # a fork that leaves the block: the turn is its parent's
        is_forgotten = ledgers.known(name.state) is None  # removed here, or one of very many tables
        release = partial(turns.release, turn=turn, creation=self._guard.mount.looker(name))
        try:
            was_held = yield Decide(ledgers.using(name, release))
        except OSError as failed:
            # What was done in it is done; others get it when they have waited for its lease.
            _log.warning("turn %s of %s could not be given back: %s", turn.number, self.table, failed)
            return
        known = ledgers.known(name.state)
        is_another = known is None or known.state.life != turn.life
        if was_held or (is_forgotten and is_another):
            return
        if is_another:
            reason = f"the table was removed since turn {turn.number} was taken"
        else:
            reason = f"turn {turn.number} was broken: this process gave no sign of life for {self._lease:g} s"
        if error is None:
            raise Fenced(errno.EPERM, reason, self.table)
        _log.warning("%s: %s", self.table, reason)
