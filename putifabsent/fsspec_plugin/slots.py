"""Who waits in a table's queue, whatever its format: writers for a slot, and who has lost its next state."""

from __future__ import annotations

import errno
import logging
import os
import posixpath
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.errors import NameTaken
from putifabsent.fsspec_plugin import queues
from putifabsent.fsspec_plugin.queues import Asker, Queues, Waited, queue_of
from putifabsent.fsspec_plugin.steps import Aside, Decide, Steps
from putifabsent.fsspec_plugin.telemetry import observe_wait
from putifabsent.shim.formats.hudi_sets import Part, WriteSet
from putifabsent.shim.names import Role

if TYPE_CHECKING:
    from typing_extensions import Self

    from putifabsent.backends.base import Creation
    from putifabsent.fsspec_plugin.guard import Guard
    from putifabsent.fsspec_plugin.mount import Mount
    from putifabsent.shim.names import Name
    from putifabsent.shim.requests import Protocol

_log = logging.getLogger(__name__)


class Losers:
    """Those who have lost a table's next state to another, and come back for the one after it: in line.

    Iceberg and Paimon do the last part of a commit anew for each try, and give up after some. So who has lost
    takes a place in the table's queue, hears of its loss when nobody is before it, and keeps the place until
    it has won: who tries meanwhile waits, behind it. Who is alone looks at the queue, by one request. Nobody
    waits for longer than half the mount's ``deadline``. It is advice, as all queues are.
    """

    def __init__(self, mount: Mount, at: Queues) -> None:
        self._mount = mount
        self._queues = at

    @contextmanager
    def in_line(self, name: Name, waiters: threading.Semaphore | None = None) -> Iterator[None]:
        """What is created inside comes after what those create who have lost before.

        ``waiters`` counts those who may still wait; None: everybody may.
        """
        if self._mount.options.tower is False or name.role is not Role.SNAPSHOT or name.series is None:
            yield
            return
        # A session has one place, whichever of its threads has lost.
        asker = Asker(queue_of(name.state), self._mount.session, "")
        has_waited = bool(self._ask(self._queues.listed(asker.folder)))
        if has_waited:
            self._wait(asker, name, waiters)
        try:
            yield
        except NameTaken:
            if not has_waited:
                self._wait(asker, name, waiters)
            raise
        except BaseException:
            self._leave(asker, name)
            raise
        self._leave(asker, name)

    def _leave(self, asker: Asker, name: Name) -> None:
        self._ask(self._queues.leave(asker, self._mount.looker(name)))

    def _wait(self, asker: Asker, name: Name, waiters: threading.Semaphore | None) -> None:
        if waiters is not None and not waiters.acquire(blocking=False):
            return
        try:
            self._ask(self._queues.take(asker, None, self._mount.looker(name)))
        finally:
            if waiters is not None:
                waiters.release()

    def _ask(self, protocol: Protocol[object]) -> object:
        try:
            return self._mount.run(protocol, deadline=self._mount.options.deadline / 2)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with advice, the name is decided without
            _log.debug("nobody is waited for: %s", error)
            return None


class Slot:
    """A writer's slot, from :meth:`~putifabsent.fsspec_plugin.GuardedFileSystem.slot`.

    Those who would write the same do so one after the other, in the order in which they came, instead of
    doing work that is refused when it is done; so do Hudi's writers on Spark that wait (``tower``), but
    for those whose commits have begun. It is advice: it keeps nobody from writing.

    The table is a folder, of any format. ``partitions`` are those in it that are written, with all in them,
    such as ``["day=2026-01-01"]``; None: any of them. ``timeout`` is in seconds; by default the mount's
    ``deadline``.

    When it is entered, ``FileNotFoundError``: the folder is not there, and the store has folders;
    ``TimeoutError``: others wanted to write the same all the time.
    """

    def __init__(
        self, guard: Guard, table: str, partitions: Iterable[str] | None, timeout: float | None
    ) -> None:
        self.table = table
        self._guard = guard
        self._timeout = guard.mount.options.deadline if timeout is None else timeout
        self._wants = _set_of(table, partitions)
        self._queues = guard.queues
        self._is_entered = False
        self._held: _Held | None = None

    def __repr__(self) -> str:
        return f"<Slot {'' if self._held else 'not '}held in {self.table}>"

    def __enter__(self) -> Self:
        self._enter()
        try:
            self._guard.mount.walk(self._taking())
        except BaseException:  # it may be that it was taken, and then there was an interruption
            self.__exit__()
            raise
        return self

    async def __aenter__(self) -> Self:
        self._enter()
        try:
            await self._guard.mount.walk_async(self._taking())
        except BaseException:
            await self.__aexit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.mount.walk(self._leaving())

    async def __aexit__(self, *_: object) -> None:
        await self._guard.mount.walk_async(self._leaving())

    def _enter(self) -> None:
        if self._is_entered:
            raise RuntimeError(f"this slot of {self.table} is held already: ask fs.slot for another one")
        self._is_entered = True

    def _taking(self) -> Steps[None]:
        name = yield from self._guard.ledgers.table_for_turns(self.table)
        creation = self._guard.mount.looker(name)
        # One session each: the threads of one process wait for each other, too.
        asker = Asker(queue_of(name.state), f"{creation.writer}/{creation.token}", "")
        over = threading.Event()
        beats = threading.Thread(
            target=self._beats, args=(asker, creation, over), name="putifabsent-slot", daemon=True
        )
        self._held = _Held(asker, creation, over, beats, os.getpid())
        take = self._queues.take(asker, self._wants, creation)
        try:
            waited: Waited = yield Decide(take, deadline=self._timeout)
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "there is no folder for its queue", self.table) from error
        if waited.behind:
            reason = (
                f"others have wanted to write the same for {self._timeout:g} s: session {waited.behind[0]}"
            )
            raise TimeoutError(errno.ETIMEDOUT, reason, self.table)
        observe_wait(self._guard.mount.arbiter, waited.seconds)
        beats.start()

    def _beats(self, asker: Asker, creation: Creation, over: threading.Event) -> None:
        while not over.wait(queues.WRITTEN_EACH):
            # Who holds it is the first: a new place, should it have lost its own, is before all others.
            beat = self._queues.wait(asker, self._wants, [], creation)
            try:
                self._guard.mount.run(beat, deadline=queues.LIFELESS)
            except Exception as error:  # noqa: BLE001 - the next one may be given
                _log.warning("the slot in %s gave no sign of life: %s", self.table, error)

    def _leaving(self) -> Steps[None]:
        held, self._held, self._is_entered = self._held, None, False
        if held is None:
            return
        held.over.set()
        if held.pid != os.getpid():
            return  # a fork that leaves the block: the slot is its parent's
        if held.beats.is_alive():  # one that is under way would write the entry after it was removed
            yield Aside(partial(held.beats.join, queues.LIFELESS))
        try:
            yield Decide(self._queues.leave(held.asker, held.creation))
        except OSError as error:
            # What was done in it is done; others go on when they have watched its entry for long.
            _log.warning("the slot in %s could not be given back: %s", self.table, error)


class _Held(NamedTuple):
    """A slot that was asked for: by whom; what ends its signs of life, and the thread that gives them."""

    asker: Asker
    creation: Creation
    over: threading.Event
    beats: threading.Thread
    pid: int


def _set_of(table: str, partitions: Iterable[str] | None) -> WriteSet:
    if partitions is None:
        return None
    if isinstance(partitions, (str, bytes, Mapping)):
        raise TypeError(f"partitions is {partitions!r}: give a list of names, such as ['day=1']")
    found = {_folder_in(table, each): Part(None) for each in partitions}
    if not found:
        raise ValueError("partitions is empty: leave it out for a slot of the whole table")
    return None if "" in found else found


def _folder_in(table: str, partition: str) -> str:
    """Return a folder as :mod:`hudi_sets` has it; empty: it is the whole table."""
    if not isinstance(partition, str):
        raise TypeError(f"partitions has {partition!r}: give names, such as 'day=1'")
    inside = posixpath.normpath(f"{partition}/".removeprefix(f"{table}/").strip("/"))
    if inside.split("/")[0] == ".." or "://" in partition:
        raise ValueError(f"{partition!r} is not in {table}: give its name from there, such as 'day=1'")
    return "" if inside == "." else f"{inside}/"
