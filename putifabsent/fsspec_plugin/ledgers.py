"""The ledgers of a mount's tables: what is known of them, their turns, and what they need no more.

What a mount has read of a ledger is kept for the next call; it is a cache, and a session may have many at
once. Which instants it has begun is kept beside that, for longer: whoever goes on with one when the table is
another takes it for no older one. What the records mean is for a format's rules to say.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from putifabsent.errors import OutcomeUnknown, PutIfAbsentError
from putifabsent.fsspec_plugin.mount import MOST_KNOWN, Cache, Mount, new_token
from putifabsent.fsspec_plugin.steps import Call, Decide, Steps
from putifabsent.shim.drive import asleep_too
from putifabsent.shim.formats.hudi_ledger import forget_over, timeline_in
from putifabsent.shim.ledger import turns
from putifabsent.shim.ledger.book import Lane, Ledger, Native, prune
from putifabsent.shim.ledger.facts import EVERY, TurnName
from putifabsent.shim.names import Name, Role
from putifabsent.shim.requests import removed

if TYPE_CHECKING:
    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.requests import Protocol

T = TypeVar("T")

_log = logging.getLogger(__name__)

_PATIENCE = 5.0  # seconds in which a turn is released whose holder is gone

_MOST_READ = 1024
"""What was read of so many tables is kept; a busy table's takes some hundred kilobytes."""

_ALONE = 60.0
"""Seconds in which no other session has written to a table, after which none is expected to in the next."""

_GOOD_FOR = 60.0
"""Seconds for which what was read says that an instant is this session's: another may have rolled it back."""

_MAY_NOT_DELETE = (
    "this session may not remove all that %s does not need (old records, beats and bodies, and what an "
    "arbiter keeps of archived instants): it stays, and costs each append and listing more. Grant it the "
    "right to delete (on S3 s3:DeleteObject; under DynamoDB also dynamodb:DeleteItem), or have somebody who "
    "has it write, or run `putifabsent fsck --repair`. %s"
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
        with contextlib.suppress(KeyError):  # by another thread
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
                message = _MAY_NOT_DELETE if is_news else "what %s does not need could not be removed: %s"
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
