"""Tables that have a ledger: what their formats' calls must ask it, before names alone decide.

Hudi's tables have one. A call on an instant or a slice of theirs is judged by the ledger first; all other
names, and what is older than the shim, go by themselves. What a mount has read of a ledger is kept for the
next call; it is a cache, and a session may have many at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from putifabsent.backends.base import Absent, Holder
from putifabsent.errors import OutcomeUnknown, PutIfAbsentError
from putifabsent.fsspec_plugin.mounted import new_token
from putifabsent.fsspec_plugin.names import Names
from putifabsent.fsspec_plugin.steps import Call, Decide
from putifabsent.fsspec_plugin.stores import place_of
from putifabsent.fsspec_plugin.turns import Turn, turns_held
from putifabsent.shim.formats import hudi_ledger
from putifabsent.shim.formats.hudi_files import rolled_back
from putifabsent.shim.formats.hudi_layout import was_moved
from putifabsent.shim.formats.hudi_over import forget_over
from putifabsent.shim.ledger import calls, completion
from putifabsent.shim.ledger.book import Lane, Ledger, Native
from putifabsent.shim.ledger.facts import EVERY
from putifabsent.shim.ledger.pruning import prune
from putifabsent.shim.names import Name, Role
from putifabsent.shim.reading import Located, read
from putifabsent.shim.requests import Get, Head

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Created, Creation, Got
    from putifabsent.backends.body import Body
    from putifabsent.fsspec_plugin.steps import Steps
    from putifabsent.shim.formats.hudi import Step
    from putifabsent.shim.ledger.facts import TurnName
    from putifabsent.shim.requests import Protocol

__all__ = ["Ledgers"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MAY_NOT_DELETE = (
    "this session may not remove what %s does not need: old records, beats and bodies stay, and each "
    "append lists the records. Grant it the right to delete (on S3 s3:DeleteObject; under DynamoDB also "
    "dynamodb:DeleteItem), or have somebody who has it write, or run `putifabsent fsck --repair`. %s"
)


class Table(NamedTuple):
    """A table that has a ledger.

    Attributes
    ----------
    name
        A name of it, which shows its root.
    version
        Of its layout.
    """

    name: Name
    version: int


class Ledgers(Names):
    """Asks the ledgers of tables.

    Attributes
    ----------
    writer_session
        One process's life of a writer: what is opened in it, no other completes unawares.
    """

    writer_session: str
    _books: dict[str, Ledger]
    _tables: dict[str, Table | None]
    _pruning: set[str]
    _unpruned: set[str]
    _lanes: list[Lane]
    _lanes_of: int

    def _set_up_ledgers(self, session: str) -> None:
        self.writer_session = session
        self._books = {}
        self._tables = {}
        self._pruning = set()
        self._unpruned = set()  # where this session may not, and has said so
        self._lanes, self._lanes_of = [], os.getpid()

    def turn(self, table: str, *, lease: float = 60.0, timeout: float | None = None) -> Turn:
        """Return a table's turn: its lock, to be entered by ``with`` or ``async with``.

        While somebody has it, nobody else completes an instant of the table; a holder that was paused so
        long that others have broken its turn completes nothing any more.

        Parameters
        ----------
        table
            Its folder. Of a Hudi table that is still to be made, its ``.hoodie``: only what is there shows
            that a folder is Hudi's.
        lease
            Seconds without a sign of life after which others may break the turn. A thread gives one three
            times as often.
        timeout
            Seconds to wait for it; by default the mount's ``deadline``.

        Raises
        ------
        TimeoutError
            When entered: somebody else had it all the time.
        Fenced
            When left: it was broken, for the holder had given no sign of life.
        OutcomeUnknown
            When entered: it may have been taken. Then it is broken after the lease.
        """
        return Turn(self, self._full_name(table), lease, self._mount.deadline if timeout is None else timeout)

    def ledger(self, table: str) -> Ledger:
        """Return a table's ledger, of which nothing is read yet, for somebody who looks after the table.

        Parameters
        ----------
        table
            As for :meth:`turn`.
        """
        name = self._walk_steps(self._table_for_turns(self._full_name(table)))
        return Ledger(
            name, self.writer_session, self._arbiter or Native(self.backend.largest_put), Lane(new_token())
        )

    # What is known of them

    def _in_ledger(
        self, name: Name, use: Callable[[Ledger], Protocol[T]], *, writes: bool = True
    ) -> Protocol[T]:
        """Use what this mount knows of a table's ledger; what is learned on the way is kept.

        Readers, who may have no right to, remove nothing that has become needless, and publish nothing.
        """
        lane = self._lane()
        known = self._books.get(name.state)
        if known is None:
            decides = self._arbiter or Native(self.backend.largest_put)
            agrees = partial(self._agreement, name)
            known = self._books.setdefault(
                name.state, Ledger(name, self.writer_session, decides, lane, agrees=agrees)
            )
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
            self._books.pop(name.state, None)  # its folder is gone: somebody has removed the table
            raise
        finally:
            if name.state in self._books and self._books[name.state].age <= ledger.age:
                self._books[name.state] = ledger
                if writes and ledger.behind >= EVERY and name.state not in self._pruning:
                    self._prune(ledger)

    def _lane(self) -> Lane:
        """Return a lane that no other protocol has, in this process or a fork of it."""
        if self._lanes_of != os.getpid():
            self._lanes, self._lanes_of = [], os.getpid()
        try:
            return self._lanes.pop()
        except IndexError:
            return Lane(new_token())

    def _agreement(self, name: Name) -> Protocol[None]:
        """Find out whether all mounts of a table that was made anew let the same arbiter decide."""
        raise NotImplementedError

    def _ledgers_below(self, folder: str) -> list[Ledger]:
        return [book for state, book in self._books.items() if state.startswith(f"{folder}/")]

    def _forget_ledgers(self, folder: str) -> None:
        """Forget the tables in a folder that is removed."""
        for state in [each for each in self._books if each.startswith(f"{folder}/")]:
            del self._books[state]
        for inside in [each for each in self._tables if f"{each}/".startswith(f"{folder}/")]:
            del self._tables[inside]

    def _prune(self, ledger: Ledger) -> None:
        """Remove what a checkpoint has made needless. Nobody waits for it, and who comes next may do it."""
        state = ledger.name.state
        mine = replace(ledger)

        def work() -> None:
            try:
                creation = self._looker(ledger.name)
                self._run(prune(mine, creation))
                self._run(forget_over(mine, creation, self._policy))
            except Exception as error:  # noqa: BLE001 - it is tried again after the next checkpoint
                is_news = isinstance(error, PermissionError) and state not in self._unpruned
                if is_news:
                    self._unpruned.add(state)
                said = _MAY_NOT_DELETE if is_news else "what %s does not need could not be removed: %s"
                _log.log(logging.WARNING if is_news else logging.DEBUG, said, ledger.folder, error)
            finally:
                self._pruning.discard(state)

        self._pruning.add(state)
        ledger.behind = 0
        threading.Thread(target=work, name="putifabsent-prune", daemon=True).start()

    # Creating

    def _by_name(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        """Create a name that no ledger decides about."""
        raise NotImplementedError

    def _creating(self, name: Name, body: Body, creation: Creation) -> Protocol[Created]:
        step = hudi_ledger.step_in(name)
        if step is None or not name.guarded:
            return self._by_name(name, body, creation)
        return self._in_ledger(name, partial(self._creating_instant, name, step, body, creation))

    def _creating_instant(
        self, name: Name, step: Step, body: Body, creation: Creation, ledger: Ledger
    ) -> Protocol[Created]:
        self._forget_none()
        frees = rolled_back(body.whole(), name.path) if hudi_ledger.is_plan(step) else None
        rule = _rule(ledger, name, creation, frees=frees)
        by_name = partial(self._by_name, name, body, creation)
        if rule is None:
            return by_name()
        return calls.create(
            ledger,
            rule,
            name.path,
            step.instant,
            body,
            creation,
            by_name,
            turn=turns_held().get(self._place(name)),
            largest_publish=self.backend.largest_publish,
        )

    def _permitting(self, name: Name, *, explicit: bool) -> Steps[None]:
        """Ask a ledger whether a name that nothing guards may be written: an inflight instant, a slice.

        Who would create what is there takes nothing over: it hears so from its creation.

        Raises
        ------
        Fenced
            It may not.
        """
        table = yield from self._table_of(name)
        if table is None:
            return
        creation = self._looker(table.name)

        def deciding(ledger: Ledger) -> Protocol[None]:
            rule = _rule(ledger, name, creation, version=table.version)
            if rule is not None and not (explicit and not (yield from _is_nothing(name))):
                yield from calls.decide(ledger, rule, creation)

        yield from self._relying(table.name)
        yield Decide(self._in_ledger(table.name, deciding))

    def _is_judged(self, name: Name) -> bool:
        """Whether a table's ledger has a word in what becomes of a name."""
        return hudi_ledger.step_in(name) is not None

    def _refusing(self, name: Name) -> Steps[None]:
        """Let a table's ledger say why a name may not be created, if it does. Nothing is appended.

        Raises
        ------
        Fenced, NameTaken
            What it says.
        """
        table = yield from self._table_of(name)
        if table is None:
            return
        creation = self._looker(table.name)

        def asking(ledger: Ledger) -> Protocol[None]:
            yield from ledger.current(creation)
            rule = _rule(ledger, name, creation, version=table.version)
            if rule is not None:
                rule(ledger.state)

        yield Decide(self._in_ledger(table.name, asking, writes=False))

    def _relying(self, name: Name) -> Steps[None]:
        """Find out, before a record is written, whether the store and the other mounts can be relied on."""
        raise NotImplementedError

    def _resolving_in_ledger(
        self, name: Name, creation: Creation, by_name: Callable[[], Protocol[Holder | None]]
    ) -> Protocol[Holder | None]:
        if not hudi_ledger.is_completed(name):
            return by_name()

        def resolving(ledger: Ledger) -> Protocol[Holder | None]:
            state = yield from ledger.current(creation)
            if state.named(ledger.relative(name.path)) is None:
                return (yield from by_name())
            return (yield from completion.resolve(ledger, name.path, creation))

        return self._in_ledger(name, resolving)

    # Removing

    def _ending(self, name: Name) -> Steps[bool]:
        """Remove what a ledger decides about; False: what is left goes by its name.

        Raises
        ------
        Fenced
            It is not this session's to remove.
        """
        table = yield from self._table_of(name)
        if table is None:
            return False
        creation = self._looker(table.name)

        def deleting(ledger: Ledger) -> Protocol[bool]:
            rule = _rule(ledger, name, creation, deletes=True, version=table.version)
            if rule is None or (hudi_ledger.is_pending(name) and (yield from _is_nothing(name))):
                return False  # nobody's work ends
            return (yield from calls.delete(ledger, rule, name.path, creation))

        yield from self._relying(table.name)
        removed: bool = yield Decide(self._in_ledger(table.name, deleting), name)
        return removed

    # Reading

    def _unpublished(self, name: Name) -> Steps[Located | None]:
        """Return where the bytes of a completed name lie that nobody has published; None: it is not there."""
        if not hudi_ledger.is_completed(name):
            return None
        view = yield from self._timeline(name.path.rpartition("/")[0])
        key = None if view is None else (yield from self._late(view, name.path))
        return None if key is None else Located(Holder(None), key)

    def _late(self, view: calls.View, path: str) -> Steps[str | None]:
        """Return where the bytes lie of a name that is not there; None: nothing is late, or it was moved."""
        key = view.late.get(path)
        if key is None or (yield Decide(was_moved(path, view.undone))):
            return None
        return key

    def _is_timeline(self, folder: str) -> bool:
        return hudi_ledger.timeline_in(self._policy.classify, folder) is not None

    def _timeline(self, folder: str) -> Steps[calls.View | None]:
        """Return what a ledger says of the names in a folder, read before they are listed; None: nothing."""
        name = hudi_ledger.timeline_in(self._policy.classify, folder)
        if name is None:
            return None

        def looking(ledger: Ledger) -> Protocol[calls.View]:
            yield from ledger.current(self._looker(name))
            return calls.view(ledger, folder)

        view: calls.View = yield Decide(self._in_ledger(name, looking, writes=False))
        return view

    def _forget_none(self) -> None:
        """Forget where no table was: whoever writes an instant may just have made one."""
        if None in self._tables.values():
            self._tables = {folder: table for folder, table in self._tables.items() if table is not None}

    # Turns

    def _place(self, name: Name) -> str:
        """Return what all mounts of a table for this session call it."""
        return f"{self.writer_session} {place_of(self.backend)}{name.state}"

    def _whose_turn(self, name: Name) -> str:
        book = self._books.get(name.state)
        turn = None if book is None else book.state.turn
        return "it changed hands" if turn is None else f"turn {turn.number}, session {turn.session}"

    # Which table a name is of

    def _table_of(self, name: Name) -> Steps[Table | None]:
        """Return the table whose ledger a name concerns; None: it concerns none."""
        step = hudi_ledger.step_in(name)
        if step is None:
            return None
        if name.table is not None:
            return Table(name, hudi_ledger.NEWEST)
        folder = name.path.rpartition("/")[0]
        if folder not in self._tables:
            roots = tuple(hudi_ledger.above(folder))
            # Once a table: what is below a known one is a partition of it.
            table = next((known for root in roots if (known := self._tables.get(root))), None)
            for root in () if table is not None else roots:
                table = yield from self._table_at(root)
                if table is not None:
                    self._tables[root] = table
                    break
            self._tables[folder] = table
        return self._tables[folder]

    def _table_at(self, root: str) -> Steps[Table | None]:
        for path in hudi_ledger.properties_of(root):
            got: Got | Absent = Absent()
            with contextlib.suppress(PermissionError):  # above a table others may have rights
                got = yield Decide(read(Get(path)))
            if not isinstance(got, Absent):
                return Table(self._policy.classify(path), hudi_ledger.version_in(got.data))
        return None

    def _table_for_turns(self, folder: str, held: TurnName | None = None) -> Steps[Name]:
        """Return a name whose ledger has a folder's turns; ``held``, of a life that was read, tells which."""
        said = hudi_ledger.timeline_in(self._policy.classify, folder)
        if said is not None:
            return said
        name = hudi_ledger.timeline_in(self._policy.classify, f"{folder}/.hoodie")
        book = None if name is None else self._books.get(name.state)
        is_known = held is not None and book is not None and book.state.life == held.life
        if name is not None and (is_known or (yield Call("isdir", (f"{folder}/.hoodie",)))):
            return name
        return Name(folder, Role.OTHER, None, folder, folder, guarded=True)


def _rule(
    ledger: Ledger,
    name: Name,
    creation: Creation,
    *,
    deletes: bool = False,
    version: int = hudi_ledger.NEWEST,
    frees: str | None = None,
) -> calls.Rule | None:
    """Return the rule of this session's call on a name; None: its ledger has nothing to do with it."""
    relative = ledger.relative(name.path)
    asker = hudi_ledger.Asker(ledger.session, creation.token, ledger.opened, name.path, relative, frees)
    return hudi_ledger.rule_for(asker, deletes=deletes, version=version)


def _is_nothing(name: Name) -> Protocol[bool]:
    return isinstance((yield from read(Head(name.path))), Absent)
