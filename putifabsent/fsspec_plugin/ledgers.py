"""The ledgers of a mount's tables: what is known of them, and what they need no more; and tables' turns.

What a mount has read of a ledger is kept for the next call; it is a cache, and a session may have many at
once. Which instants it has begun is kept beside that, for longer: whoever goes on with one when the table is
another takes it for no older one. What the records mean is for a format's rules to say.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from putifabsent.errors import Fenced, OutcomeUnknown, PutIfAbsentError
from putifabsent.fsspec_plugin.mount import MOST_KNOWN, Cache, Mount, new_token
from putifabsent.fsspec_plugin.steps import Call, Decide, Steps
from putifabsent.fsspec_plugin.telemetry import observe_wait
from putifabsent.shim.drive import asleep_too
from putifabsent.shim.formats.hudi_ledger import forget_over, timeline_in
from putifabsent.shim.ledger import turns
from putifabsent.shim.ledger.book import Lane, Ledger, Native, prune
from putifabsent.shim.ledger.facts import EVERY, LONGEST_LEASE, TurnName
from putifabsent.shim.names import Name, Role
from putifabsent.shim.requests import removed

if TYPE_CHECKING:
    from typing_extensions import Self

    from putifabsent.fsspec_plugin.guard import Guard
    from putifabsent.fsspec_plugin.tower import Begins
    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.requests import Protocol

T = TypeVar("T")

_log = logging.getLogger(__name__)

_BEATS_A_LEASE = 3
_PATIENCE = 5.0
"""Seconds in which a turn is released whose holder is gone, or was interrupted: others need not wait."""

_MOST_READ = 1024
"""What was read of so many tables is kept; a busy table's takes some hundred kilobytes."""

_ALONE = 60.0
"""Seconds in which no other session has written to a table, after which none is expected to in the next."""

_GOOD_FOR = 60.0
"""Seconds for which what was read says that an instant is this session's: another may have rolled it back."""

MAY_NOT_DELETE = (
    "this session may not remove all that %s does not need: it stays, and costs each append and look more. "
    "Grant it the right to delete (on S3 s3:DeleteObject; under DynamoDB also dynamodb:DeleteItem), or have "
    "somebody who has it write there, or run `putifabsent fsck --repair`. %s"
)


class Ledgers:
    """Knows the ledgers of a mount's tables."""

    def __init__(self, mount: Mount) -> None:
        self._mount = mount
        self._books: OrderedDict[str, Ledger] = OrderedDict()  # the one that was used last is the last
        self._listed: Cache[str, float] = Cache(_MOST_READ)  # when they were listed last
        self._opened: Cache[str, set[str]] = Cache(MOST_KNOWN)  # as their ledgers have it
        self.pruning: set[str] = set()  # the state folders of ledgers that are being pruned
        self._unpruned: set[str] = set()  # where this session may not, and has logged it
        self._alone: Cache[str, tuple[int, float]] = Cache(_MOST_READ)  # after which record, and since when
        self._lanes: list[Lane] = []
        self._lanes_of = os.getpid()

    def new(self, name: Name) -> Ledger:
        """Return the ledger of a name's table, of which nothing is read yet."""
        return Ledger(name, self._mount.session, self._decides(), Lane(new_token()))

    def known(self, state: str) -> Ledger | None:
        """Return what this mount knows of the ledger in a state folder."""
        return self._books.get(state)

    def using(self, name: Name, use: Callable[[Ledger], Protocol[T]], *, writes: bool = True) -> Protocol[T]:
        """Use what this mount knows of a table's ledger; what is learned on the way is kept.

        Readers, who may have no right to, remove nothing that has become needless, and publish nothing.
        """
        lane = self._lane()
        known = self._books.get(name.state)
        if known is None:
            agrees, opened = partial(self._mount.agreement, name), self._opened.get(name.state)
            if opened is None:
                opened = self._opened.keep(name.state, set())
            made = Ledger(name, self._mount.session, self._decides(), lane, agrees=agrees, opened=opened)
            known = self._books.setdefault(name.state, made)
        # Its own, for one protocol; what was opened is shared.
        ledger = replace(known, lane=lane, publishes=writes)
        try:
            found = yield from use(ledger)
            self._lanes.append(lane)
            return found
        except PutIfAbsentError as error:
            # After any other error a request of this lane may still be under way.
            if not isinstance(error, OutcomeUnknown):
                self._lanes.append(lane)
            raise
        except FileNotFoundError:
            self._forget(name.state)  # its folder is gone: somebody has removed the table
            raise
        finally:
            if ledger.shown is not known.shown:
                self._listed.keep(name.state, asleep_too())
            kept = self._books.get(name.state)
            if kept is not None and kept.age <= ledger.age:
                self._keep(name.state, ledger)
                most = EVERY if ledger.prunes else 2 * EVERY
                if writes and ledger.behind >= most and name.state not in self.pruning:
                    self._prune(ledger)

    def is_old(self, state: str) -> bool:
        """Whether what was read of a ledger is so old that others must be heard once more: by who asks.

        Whether or not the store answers, nobody else asks for as long.
        """
        now = asleep_too()
        if now - self._listed.get(state, -_GOOD_FOR) < _GOOD_FOR:
            return False
        self._listed.keep(state, now)
        return True

    def _keep(self, state: str, ledger: Ledger) -> None:
        self._books[state] = ledger
        with suppress(KeyError):  # by another thread
            self._books.move_to_end(state)
            if len(self._books) > _MOST_READ:
                self._remember(*self._books.popitem(last=False))

    def _forget(self, state: str) -> None:
        book = self._books.pop(state, None)
        if book is not None:
            self._remember(state, book)

    def rest(self) -> None:
        """Forget what was read; which instants were begun stays known."""
        for state in list(self._books):
            self._forget(state)

    def _remember(self, state: str, book: Ledger) -> None:
        book.remember(book.state.open)
        self._opened.keep(state, book.opened)

    def _decides(self) -> Native | Arbiter:
        return self._mount.arbiter or Native(self._mount.store.largest_put)

    def _lane(self) -> Lane:
        """Return a lane that no other protocol has, in this process or a fork of it."""
        if self._lanes_of != os.getpid():
            self._lanes, self._lanes_of = [], os.getpid()
            self.pruning.clear()  # the threads that do it are the parent's
        try:
            return self._lanes.pop()
        except IndexError:
            return Lane(new_token())

    def _prune(self, ledger: Ledger) -> None:
        """Remove what a checkpoint has made needless. Nobody waits for it, and who comes next may do it."""
        state = ledger.name.state
        mine = replace(ledger)

        def work() -> None:
            try:
                creation = self._mount.looker(ledger.name)
                self._mount.run(prune(mine, creation))
                self._mount.run(forget_over(mine, creation, self._mount.policy))
            except Exception as error:  # noqa: BLE001 - it is tried again after the next checkpoint
                is_news = isinstance(error, PermissionError) and state not in self._unpruned
                if is_news:
                    self._unpruned.add(state)
                message = MAY_NOT_DELETE if is_news else "what %s does not need could not be removed: %s"
                _log.log(logging.WARNING if is_news else logging.DEBUG, message, ledger.folder, error)
            finally:
                self.pruning.discard(state)

        self.pruning.add(state)
        ledger.behind, ledger.prunes = 0, False
        try:
            threading.Thread(target=work, name="putifabsent-prune", daemon=True).start()
        except RuntimeError as error:  # no more threads, or the interpreter is about to end
            _log.debug("what %s does not need is not removed: %s", ledger.folder, error)
            self.pruning.discard(state)

    # Tables that go

    def ending_lives(self, folder: str, maxdepth: int | None = None) -> Steps[None]:
        """End the ledgers that this mount knows of, in a folder that is removed, before all else in it.

        Of others their markers are the first of their folders to go. What lies deeper than ``maxdepth``
        levels stays.
        """
        for state, book in list(self._books.items()):
            marker = book.marker_path
            depth = marker.count("/") - folder.count("/")
            if state.startswith(f"{folder}/") and (maxdepth is None or depth <= maxdepth):
                yield Decide(removed(marker))

    def forget_below(self, folder: str) -> None:
        for state in list(self._books):
            if state.startswith(f"{folder}/"):
                self._forget(state)

    # Turns

    def place(self, name: Name) -> str:
        """Return what all mounts of a table for this session call it."""
        return f"{self._mount.session} {self._mount.place}{name.state}"

    def whose_turn(self, name: Name) -> str:
        """Say who has the turn of a table, or is in the way of one, as far as this mount has read."""
        book = self._books.get(name.state)
        turn = None if book is None else book.state.turn
        if turn is not None:
            return f"turn {turn.number}, session {turn.session}"
        waited_for = () if book is None else book.waited_for
        return ", ".join(waited_for) or "it changed hands"

    def is_alone(self, name: Name) -> bool:
        """Whether nobody else has written to a table for long, or begun to, as far as this mount has read."""
        book, now = self._books.get(name.state), asleep_too()
        if book is None:
            return False
        others, since = self._alone.get(name.state, (-1, now))
        if others != book.others:
            _, since = self._alone.keep(name.state, (book.others, now))
        is_ours = all(each.session == self._mount.session for each in book.state.open.values())
        return is_ours and now - since > _ALONE

    def give_turns_back(self) -> None:
        """Release the turns that this session has: whoever had them is gone."""
        for book in list(self._books.values()):
            turn, held = book.state.turn_name, book.state.turn
            if turn is None or held is None or held.session != self._mount.session:
                continue
            release = partial(turns.release, turn=turn, creation=self._mount.looker(book.name))
            try:
                self._mount.run(self.using(book.name, release), deadline=_PATIENCE)
            except Exception as error:  # noqa: BLE001 - others get it after its lease
                _log.debug("turn %s of %s is not released: %s", turn.number, book.root, error)

    def table_for_turns(self, folder: str, held: TurnName | None = None) -> Steps[Name]:
        """Return a name whose ledger has a folder's turns; ``held``, of a life that was read, tells which."""
        classify = self._mount.policy.classify
        timeline = timeline_in(classify, folder)
        if timeline is not None:
            return timeline
        name = timeline_in(classify, f"{folder}/.hoodie")
        book = None if name is None else self._books.get(name.state)
        is_known = held is not None and book is not None and book.state.life == held.life
        if name is not None and (is_known or (yield from self._is_there(f"{folder}/.hoodie"))):
            return name
        return Name(folder, Role.OTHER, None, folder, folder, guarded=True)

    def _is_there(self, folder: str) -> Steps[bool]:
        # One request where it is; an old listing, and any error, say that it is not.
        return (yield Call("isdir", (folder,))) or (yield from self._mount.is_there(folder))


# --- turns, for Python

turns_held: ContextVar[Mapping[str, TurnName]] = ContextVar("turns_held", default=MappingProxyType({}))
"""The turns that a thread or task has, by the tables' places."""


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
        if guard.ledgers.place(name) in turns_held.get():
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
        held = frozenset(turns_held.get().values())
        return next((turn for turn in self._taken if turn in held or len(self._taken) == 1), None)

    def _begin(self, name: Name, turn: TurnName) -> None:
        taken = self._taken[turn] = _Taken(name, threading.Event(), os.getpid())
        turns_held.set({**turns_held.get(), self._guard.ledgers.place(name): turn})
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
        turns_held.set({each: held for each, held in turns_held.get().items() if each != place})
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
