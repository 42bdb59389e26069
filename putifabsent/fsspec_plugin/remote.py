"""What another process asks of a mount, through the coordination service.

Who asks writes most of its files itself. So a plain write is not done here: it is *admitted*, and only what
is guarded is created here. And who asks may not hear the answer: it names the creation beforehand, and can
have the outcome resolved by that token.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.backends.base import Absent, Creation, Found, InMemory
from putifabsent.errors import Holder, NameTaken, OutcomeUnknown, PutIfAbsentError
from putifabsent.fsspec_plugin.ledgers import taken, turns_held
from putifabsent.fsspec_plugin.paths import refuse_pattern
from putifabsent.shim.create import age_of
from putifabsent.shim.formats.hudi import FORMAT, slices_of
from putifabsent.shim.formats.hudi_layout import refuse_move
from putifabsent.shim.formats.hudi_ledger import NEWEST, step_in
from putifabsent.shim.ledger import completion, turns
from putifabsent.shim.ledger.facts import TurnName
from putifabsent.shim.names import Name, Role
from putifabsent.shim.requests import Head, Protocol, read
from putifabsent.shim.whole import check_whole

if TYPE_CHECKING:
    from threading import Semaphore

    from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
    from putifabsent.fsspec_plugin.steps import Steps
    from putifabsent.fsspec_plugin.tower import Begins
    from putifabsent.shim.ledger.book import Ledger


class Admission(NamedTuple):
    """What a plain write is, for who does it by itself."""

    guarded: bool  # it is a create, and nobody is known to hold the name: :meth:`Remote.create_as` decides
    # Where it is to be written instead, under a salt of the session's; None: under its name, or not at all.
    at: str | None = None
    # A regular expression, for all of a path. What it matches is admitted just so: the slices in the same
    # folder of an instant that is this session's. None: nothing else is.
    also: str | None = None


class Taken(NamedTuple):
    """What became of asking for a turn."""

    turn: str | None  # what it is called; None: it was not taken
    behind: str | None = None  # who is to be waited for, in words
    # Nobody else has written to the table for long: who keeps it a moment longer keeps nobody waiting.
    alone: bool = False


class Remote:
    """Answers other processes for a filesystem's mount.

    ``waiters`` counts the calls, of all mounts, that may still wait for other writers; None: all may.
    """

    def __init__(self, fs: GuardedFileSystem, waiters: Semaphore | None = None) -> None:
        self._fs = fs
        self._waiters = waiters
        self._mount = fs.mount
        self._guard = fs.guard

    def admit(self, path: str, *, overwrite: bool = False) -> Admission:
        """Say what a plain write to ``path`` is; of an instant with a ledger, it is this session's then.

        Where ``overwrite`` means something, :meth:`create_as` says. ``NameTaken``: it is guarded, and another
        creation holds it. ``Fenced``: it belongs to an instant of another session. ``ConfigError``: a Hudi
        table would be upgraded by it, or downgraded.
        """
        if overwrite:
            self._refuse_move(path)
        name = self._promoted(path)
        if name is not None:
            # Another arbiter publishes for a dead winner when the creation itself loses.
            if self._mount.arbiter is None and not (overwrite and name.replaced):
                self._guard.look_early(name)
            return Admission(guarded=True)
        own, at = self._mount.paths.own(path), self._guard.written_as(path)
        if at != own:
            return Admission(guarded=False, at=at)
        return Admission(guarded=False, also=self._mount.walk(self._slices_like(self._guard.explain(path))))

    def _refuse_move(self, path: str) -> None:
        """Refuse what only an upgrade or a downgrade of a Hudi table renames, or overwrites."""
        name = self._guard.explain(path)
        if name.format == FORMAT:
            self._mount.run(refuse_move(name.path))

    def _slices_like(self, name: Name) -> Steps[str | None]:
        step = step_in(name) if name.role is Role.SLICE else None
        rules = self._guard.rules_for(name)
        table = None if step is None or rules is None else (yield from rules.table_of(name))
        # Others may go elsewhere, or be guarded by a pattern; and older tables judge their kinds differently.
        goes_elsewhere = self._guard.salts is not None or self._mount.policy.guard
        if step is None or table is None or table.version < NEWEST or goes_elsewhere:
            return None
        book = self._guard.ledgers.known(table.name.state)
        held = None if book is None else book.state.open.get(step.instant)
        if held is None or held.session != self._mount.session:
            return None
        return slices_of(name.path.rpartition("/")[0], step.instant)

    def create_as(self, path: str, value: bytes, creation_token: str, *, overwrite: bool = False) -> bool:
        """Create a guarded name under a token of the caller's; False, and nothing is written: it is not one.

        The token is a UUID of this call alone: whoever hears no answer asks by it, and never calls with it
        again.

        A name that commands of its format overwrite on purpose is removed first, if ``overwrite`` says that
        this is one, and the bytes differ. Between the two requests the name is missing: if another creates it
        then, this fails as every creation does. It means nothing where no command of the name's format
        overwrites: by default Hadoop's creates ask for it all.
        """
        name = self._promoted(path)
        if name is None:
            return False
        if name.replaced:
            if overwrite:
                check_whole(name, InMemory(value))
                self._mount.walk(self._guard.relying(name))
                if self._holds(name.path, value):
                    return True
            # Only a commit can come too late for its number, and only a command overwrites.
            name = name._replace(series=None, replaced=overwrite)
        self._mount.walk(self._guard.creating(name, InMemory(value), {}, creation_token))
        return True

    def _holds(self, path: str, value: bytes) -> bool:
        """Whether a name has these bytes; if it has others, it is removed."""
        try:
            if self._fs.cat_file(path) == value:
                return True
            self._fs.rm_file(path)
        except FileNotFoundError:
            pass
        return False

    def rename_as(self, source: str, path: str, creation_token: str) -> bool:
        """Create a guarded name from ``source``, which goes after a win; else as :meth:`create_as`.

        A guarded source that somebody must hear of, an arbiter or a ledger, is moved here to any name. A call
        that comes twice, through a proxy that repeats it, is answered both times that it is done. Who loses a
        table's next state to another hears so when its try for the one after that is the next, or after half
        the mount's ``deadline``: see :class:`~putifabsent.fsspec_plugin.slots.Losers`.

        ``FileNotFoundError``: the source is not there, and this creation does not hold the name.
        ``FileExistsError``, ``IsADirectoryError``: nothing guards the name, and there is one.
        """
        self._refuse_move(path)
        name = self._promoted(path)
        if name is not None:
            whence = self._fs._source(source, name)
            try:
                with self._guard.losers.in_line(name, self._waiters):
                    creating = self._guard.creating_from(whence, name, {}, keep=False, token=creation_token)
                    self._mount.walk(creating)
            except FileNotFoundError:
                # The same call may have come before, and have taken the source along.
                with suppress(NameTaken):
                    if self.resolve_as(path, creation_token) is not None:
                        return True
                raise
            return True
        moved = self._guard.explain(source)
        if not (self._guard.is_judged(moved) or (moved.guarded and self._mount.arbiter is not None)):
            return False
        if self._fs.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if self._fs.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        # Not `mv`, to which a name may be a pattern.
        self._fs.cp_file(source, path)
        self._fs.rm_file(source)
        return True

    def resolve_as(self, path: str, creation_token: str) -> Holder | None:
        """Answer an unknown outcome later, as ``resolve``; a commit that has won is shown to readers then.

        A name that nothing guards has no creation: of a file that was moved there nobody can tell.

        ``NameTaken``: another creation holds the name. Its ``age`` is known where the store can tell it: only
        a holder that is older than the caller's creation proves that this one lost; else it may have won, and
        its name have been read, deleted and created again.
        """
        if self._promoted(path) is None:
            return None
        name = self._guard.explain(path)
        try:
            holder: Holder | None = self._fs.resolve(path, creation_token)
        except (NameTaken, OutcomeUnknown) as error:
            # That it may have been another's before is a matter of age, too.
            taken = error if isinstance(error, NameTaken) else error.__cause__
            if not isinstance(taken, NameTaken) or taken.holder is None:
                raise
            holder = self._mount.run(_aged(taken.holder, name.path))
            raise NameTaken(taken.name, holder) from taken
        if holder is not None and self._guard.is_judged(name):
            # It has won. Readers who can't be shown it now are shown it by the table's next commit.
            settle = partial(completion.settle, creation=self._mount.looker(name))
            with suppress(OSError, PutIfAbsentError):
                self._mount.run(self._guard.ledgers.using(name, settle))
        return holder

    def is_shown(self, path: str) -> bool:
        """Whether the store shows all that is completed in a name's table, as far as this mount has read.

        What it does not show is published by whoever takes the next turn, and looks for conflicts then.
        """
        book = self._guard.ledgers.known(self._guard.explain(path).state)
        return book is None or book.unshown(book.state) is None

    def removed(self, path: str, *, recursive: bool) -> bool:
        """Remove what an arbiter or a ledger must hear of; False, and nothing is done: nobody need.

        ``FileNotFoundError``: it is not there, and the store is one that says so. ``Fenced``: a ledger says
        that it is another session's. ``ValueError``: all below a name that could be a pattern as well.
        """
        if self._guard.removals.plainly(path, recursive=recursive):
            self._mount.walk(self._guard.removals.before_plainly(path, recursive=recursive))
            return False
        if recursive:
            refuse_pattern(path)
            self._fs.rm(path, recursive=True)
        else:
            self._fs.rm_file(path)
        return True

    # Turns whose holder is another process: it keeps their name, and gives the signs of life

    def take_turn(
        self, table: str, creation_token: str, *, thread: str, lease: float, begins: Begins | None = None
    ) -> Taken:
        """Try to take a table's turn; the caller keeps what it is called.

        Nobody waits here: a holder whose signs of life had to wait behind that would be broken by it. What
        ``begins`` in it does not begin while others are under way that write the same.

        The same call again, with the same UUID, is answered with the same turn, while that is held. After
        ``lease`` seconds without a sign of life others may break it. ``OutcomeUnknown``: it may be taken.
        """
        name = self._of_turns(table)
        turn = self._mount.walk(taken(self._guard, name, thread, lease, token=creation_token, begins=begins))
        if turn is None:
            return Taken(None, self._guard.ledgers.whose_turn(name))
        return Taken(str(turn), alone=self._guard.ledgers.is_alone(name))

    def beat_turn(self, table: str, turn: str) -> bool:
        """Give a sign of life for the holder of a turn; return whether it holds it still."""
        return self._of_a_turn(table, turn, partial(turns.beat, clock=time.monotonic))

    def release_turn(self, table: str, turn: str) -> bool:
        """Give a turn back; return whether it was held until then, and not broken."""
        tower = self._guard.tower

        def release(ledger: Ledger, turn: TurnName, creation: Creation) -> Protocol[bool]:
            was_held = yield from turns.release(ledger, turn, creation)
            if tower is not None:
                yield from tower.learn(ledger, turn.number)
            return was_held

        return self._of_a_turn(table, turn, release)

    def _of_a_turn(self, table: str, turn: str, call: Callable[..., Protocol[bool]]) -> bool:
        held = _turn_called(turn)
        name = self._of_turns(table, held)
        using = partial(call, turn=held, creation=self._mount.looker(name))
        return bool(self._mount.run(self._guard.ledgers.using(name, using)))

    @contextmanager
    def in_turn(self, path: str, turn: str) -> Iterator[None]:
        """What is completed inside is completed in this turn of the table of ``path``, or ``Fenced``."""
        before = turns_held.get()
        turns_held.set({**before, self._guard.ledgers.place(self._guard.explain(path)): _turn_called(turn)})
        try:
            yield
        finally:
            turns_held.set(before)

    def _promoted(self, path: str) -> Name | None:
        return self._mount.walk(self._guard.promoting(path))

    def _of_turns(self, table: str, held: TurnName | None = None) -> Name:
        return self._mount.walk(self._guard.ledgers.table_for_turns(self._mount.paths.full(table), held))


def _aged(holder: Holder, path: str) -> Protocol[Holder]:
    """Return a holder with its age, for which an arbiter that knows no times has to look at the name."""
    if holder.created is None:
        seen: Found | Absent = yield from read(Head(path))
        if isinstance(seen, Found) and seen.holder.token == holder.token:
            holder = replace(holder, created=seen.holder.created)
    return replace(holder, age=(yield from age_of(holder, path)))


def _turn_called(name: str) -> TurnName:
    life, _, number = name.rpartition(".")
    return TurnName(life, int(number))
