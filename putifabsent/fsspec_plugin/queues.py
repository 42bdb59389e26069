"""The queue of those who want to write a table: who came first goes first, as far as their write sets meet.

::

    <state>/slots/<number>~<token>     what one waiter wants: whose it is, its write set, whom it came behind

A number is one more than the highest that its waiter has seen; of two with one number the lower token goes
first. A token is of a session and a thread, so each replica of a service knows the entries of the others.
Who has written its first, and sees a later one whose waiter has not seen it, goes behind that: the other may
have gone on. Whoever waits writes its entry anew now and then, as long as it is listed, and removes it when
it has got what it waited for. Whoever has watched one that is not written any more, by its own clock, or sees
one whose time is far from that of its own, just written, passes it over and removes it. Who has stood still
itself gives the others, who may have stood still with it, time to write theirs. All of this is advice, as the
tower's: an entry that is lost costs its waiter a place.
"""

from __future__ import annotations

import json
import logging
import math
import posixpath
import time
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.backends.base import Absent, Creation, Entry, Got, InMemory, Listed, PutOutcome, Refused
from putifabsent.fsspec_plugin.ledgers import MAY_NOT_DELETE
from putifabsent.fsspec_plugin.mount import Cache
from putifabsent.shim.formats.hudi_sets import WriteSet, coarse, decoded, encoded, expected, meet
from putifabsent.shim.requests import Get, List, Pause, Protocol, Put, StoreTime, read, removed

if TYPE_CHECKING:
    from datetime import datetime

LIFELESS = 60.0  # seconds without a new entry after which its waiter is taken for dead

WRITTEN_EACH = 15.0
_BETWEEN_LOOKS = LIFELESS / 4
_DIGITS = 10
_REST = 600.0  # seconds for which nothing is removed where that was refused

_LONGEST_SET = 1000
"""So many partitions and file groups an entry names, which is written anew, and read by all, all the time."""

_MOVES = 8  # so often one who comes takes another place, behind others that have come at the same time

_LONGEST_WAIT = 6
"""Pauses grow up to this attempt's, and stay there. Behind so many others they are as long from the first."""

_LONGEST_WAIT_OF_THE_NEXT = 4
"""The same of who has one before it alone: for the time that it does not look, nobody writes."""

_LOGS_AFTER, _LOGS_EACH = 5.0, 60.0
"""After so many seconds whoever waits says so, and then again and again, as the adapter's writers do."""

_log = logging.getLogger(__name__)


class Watch:
    """Files that somebody writes again and again while he lives, as a watcher sees them by its own clock.

    Who did not look for long may have stood still, and with it those who write by the same service or on the
    same machine. So of a pause between two looks no more than :data:`_BETWEEN_LOOKS` counts.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: Cache[str, tuple[object, float, float]] = Cache()

    def unchanged(self, name: str, mark: object) -> float:
        """Return for how many seconds something has been seen as it is now."""
        now = self._clock()
        was, seconds, looked = self._seen.get(name, (self, 0.0, now))
        seconds = seconds + min(now - looked, _BETWEEN_LOOKS) if was == mark else 0.0
        self._seen.keep(name, (mark, seconds, now))
        return seconds


class Waiter(NamedTuple):
    """Somebody who waits, as its entry says."""

    # session, thread: whose it is; empty: its entry is gone, or says nothing.
    session: str = ""
    thread: str = ""
    # What it is about to write.
    wants: WriteSet = {}  # noqa: RUF012 - nobody changes it
    behind: frozenset[str] = frozenset()  # the entries that it saw before its own
    after: int | None = None  # the number of the ledger's last record when it came; None: it did not look


class Asker(NamedTuple):
    """Who has at most one place in a queue: which queue, whose session, and which of its threads."""

    folder: str
    session: str
    thread: str


class Waited(NamedTuple):
    """What came of a wait."""

    behind: list[str]  # the sessions that are before it still; none: it is its turn
    seconds: float | None  # for how long it has waited for others; None: there were none


class _Place(NamedTuple):
    """A waiter's own place in the queue, since when it has that, and when its entry was written last.

    ``after`` is as its :class:`Waiter` has it.
    """

    path: str
    since: float
    written: float
    after: int | None


class _Waiting:
    """For how long somebody has waited, and when it says so next."""

    def __init__(self, asker: Asker, clock: Callable[[], float]) -> None:
        self._asker = asker
        self._clock = clock
        self._since: float | None = None
        self._logs_at = _LOGS_AFTER

    def is_for(self, before: list[str]) -> float | None:
        """Log for whom it waits, if that is due; return for how long it has; None: not at all."""
        now = self._clock()
        if self._since is None:
            if not before:
                return None
            self._since = now
        seconds = now - self._since
        if before and seconds >= self._logs_at:
            self._logs_at = seconds + _LOGS_EACH
            of = ", ".join(f"session {each}" for each in before)
            _log.warning(
                "%s has waited %d s in %s: for %s", self._asker.session, seconds, self._asker.folder, of
            )
        return seconds


def _now(entries: list[Entry]) -> Protocol[datetime | None]:
    """Return the store's time. Of a store that does not say it, one entry is taken to be of now."""
    if not entries:
        return None
    now: datetime | None = yield StoreTime(entries[0].name)
    return now or max(each.created for each in entries)


def _token(asker: Asker) -> str:
    """Return how the names of its entries end, whichever replica of a service writes them."""
    whose = f"{asker.session}\n{asker.thread}"
    return f"~{sha256(whose.encode()).hexdigest()[:32]}"


def _entry(path: str) -> str:
    return path.rpartition("/")[2]


def queue_of(state: str) -> str:
    """Return where the entries of those lie who want to write the table of a state folder."""
    return f"{state}/slots"


class Queues:
    """The queues of a mount's tables; ``clock`` tells seconds that only go on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._watch = Watch(clock)
        self._own: Cache[Asker, _Place] = Cache()
        self._waiters: Cache[str, tuple[object, Waiter]] = Cache()  # as of which writing
        self._said: Cache[tuple[str, str], tuple[float, WriteSet]] = Cache()  # when last, and what
        self._refused: Cache[str, float] = Cache()  # where nothing may be removed, and until when none tries
        # When a queue was looked at last; and when it was again, after those who wait here had stood still.
        self._looks: Cache[str, tuple[float, float]] = Cache()

    def listed(self, folder: str, asker: Asker | None = None) -> Protocol[list[Entry]]:
        """Return the entries of those who live, the first first. One request; for no asker two.

        For an asker the others are removed, as are its own but for the last; and its place is what is listed,
        whoever has written that.
        """
        listed: Listed = yield from read(List(folder))
        entries = sorted(listed.entries)
        if self._stood_still(folder):
            now = None
        else:
            now = (yield from _now(entries)) if asker is None else self._written_at(asker, entries)
        alive: list[Entry] = []
        over: list[Entry] = []
        for entry in entries:
            # Who asks now and then may never watch for long.
            is_off = now is not None and abs((entry.created - now).total_seconds()) > 2 * LIFELESS
            lives = not is_off and self._watch.unchanged(entry.name, entry) <= LIFELESS
            (alive if lives else over).append(entry)
        if asker is not None:
            own = [each for each in alive if each.name.endswith(_token(asker))]
            last = own.pop() if own else None
            over += own
            alive = [each for each in alive if each not in own]
            yield from self._remember(asker, last)
            for entry in over:
                yield from self._removed(folder, entry.name)
        return alive

    def _removed(self, folder: str, path: str) -> Protocol[bool]:
        """Remove an entry; return whether it is gone."""
        now = self._clock()
        if now < self._refused.get(folder, now):
            return False
        try:
            yield from removed(path)
        except OSError as error:
            if isinstance(error, PermissionError):
                if folder not in self._refused:
                    _log.warning(MAY_NOT_DELETE, folder, error)
                self._refused.keep(folder, now + _REST)
            return False
        return True

    def _stood_still(self, folder: str) -> bool:
        """Whether those who wait here have just gone on: others, who may have, too, are to write first."""
        now = self._clock()
        looked, went_on = self._looks.get(folder, (now, -math.inf))
        if now - looked > LIFELESS and any(each.folder == folder for each in list(self._own)):
            went_on = now
        self._looks.keep(folder, (now, went_on))
        return now - went_on < WRITTEN_EACH

    def _written_at(self, asker: Asker, entries: list[Entry]) -> datetime | None:
        """Return a time of the store's that is not long past: who waits has written just now."""
        own = self._own.get(asker)
        if own is None or own.written < own.since or self._clock() - own.written > LIFELESS:
            return None
        shown = next((each for each in entries if each.name == own.path), None)
        if shown is None or self._watch.unchanged(shown.name, shown) > LIFELESS:
            return None
        return shown.created

    def _remember(self, asker: Asker, shown: Entry | None) -> Protocol[None]:
        known = self._own.get(asker)
        if known is not None and shown is not None and known.path == shown.name:
            return
        self._own.pop(asker, None)
        if shown is None:
            return
        waiter = yield from self.waiter(shown)
        if waiter.session:  # who may not remove its entry leaves one that says nothing
            now = self._clock()
            self._own.keep(asker, _Place(shown.name, now, now - WRITTEN_EACH, waiter.after))

    def ahead(
        self,
        asker: Asker,
        wants: WriteSet,
        entries: list[Entry],
        most: int | None = None,
        *,
        unseen: bool = False,
        begun: int | None = None,
    ) -> Protocol[list[str]]:
        """Return the sessions of others that came before, and want what a waiter does; at most so many.

        With ``unseen``, of those who came later, and have not seen its entry. With ``begun``, the number of a
        record of the ledger's, only of those who came before that.
        """
        own = self._own.get(asker)
        found: list[str] = []
        for entry in entries:
            if own is not None and (entry.name == own.path or (entry.name > own.path) is not unseen):
                continue
            other = yield from self.waiter(entry)
            if unseen and own is not None and _entry(own.path) in other.behind:
                continue
            if begun is not None and (other.after is None or other.after >= begun):
                continue
            if other.session not in ("", asker.session) and meet(wants, other.wants):
                found.append(other.session)
            if len(found) == most:
                break
        return found

    def wait(
        self,
        asker: Asker,
        wants: WriteSet,
        entries: list[Entry],
        creation: Creation,
        after: int | None = None,
    ) -> Protocol[None]:
        """Take a place behind the entries, or keep the one that is listed. One request, now and then.

        ``after`` is the number of the ledger's last record, of who looks at that.
        """
        now, own = self._clock(), self._own.get(asker)
        if own is not None and now - own.written < WRITTEN_EACH:
            return
        is_new = own is None
        if own is None:
            numbers = [_entry(each.name)[:_DIGITS] for each in entries]
            number = max((int(each) for each in numbers if each.isdecimal()), default=0) + 1
            # Who is interrupted from here on may have an entry.
            place = _Place(f"{asker.folder}/{number:0{_DIGITS}}{_token(asker)}", now, now, after)
            own = self._own.keep(asker, place)
        content = {
            "session": asker.session,
            "thread": asker.thread,
            "wants": encoded(coarse(wants, _LONGEST_SET)),
            "behind": [_entry(each.name) for each in entries if each.name < own.path],
            "after": own.after,
            "at": now,
        }
        outcome: PutOutcome = yield Put(own.path, InMemory(json.dumps(content).encode()), creation)
        if isinstance(outcome, Refused):
            if is_new:
                self._own.pop(asker, None)  # there is no entry, and the next call tries again
            raise outcome.error
        self._own.keep(asker, own._replace(written=now))

    def take(self, asker: Asker, wants: WriteSet, creation: Creation) -> Protocol[Waited]:
        """Wait until nobody is ahead, and keep the place; at the deadline, return who still is."""
        attempt, waiting = 0, _Waiting(asker, self._clock)
        before: list[str] | None = None
        while True:
            entries, now = (yield from self.listed(asker.folder, asker)), self._clock()
            if asker in self._own:
                yield from self.wait(asker, wants, entries, creation)
                if self._clock() - now > LIFELESS:  # others have removed it meanwhile, and passed it
                    yield from self.leave(asker, creation)
            if asker not in self._own:
                entries = yield from self._come(asker, wants, entries, creation)
            waited_for, before = before, (yield from self.ahead(asker, wants, entries, _LONGEST_WAIT))
            # Who has become the next asks often: the holder has just begun, and may soon be done.
            attempt = attempt + 1 if before == waited_for else 1
            longest = _LONGEST_WAIT if len(before) > 1 else _LONGEST_WAIT_OF_THE_NEXT
            seconds = waiting.is_for(before)
            if not before or not (yield Pause(min(max(attempt, len(before)), longest), cut=True)):
                return Waited(before, seconds)

    def _come(
        self, asker: Asker, wants: WriteSet, entries: list[Entry], creation: Creation
    ) -> Protocol[list[Entry]]:
        """Take a place that all who come later see, and return the entries.

        Who is behind may have gone on without seeing it; and an entry may be lost on its way.
        """
        for move in range(_MOVES + 1):
            yield from self.wait(asker, wants, entries, creation)
            entries = yield from self.listed(asker.folder, asker)
            if asker not in self._own:
                continue
            if move == _MOVES or not (yield from self.ahead(asker, wants, entries, 1, unseen=True)):
                break
            yield from self.leave(asker, creation)
        return entries

    def leave(self, asker: Asker, creation: Creation) -> Protocol[float | None]:
        """Give up a place, if there is one, and return for how many seconds it was kept.

        One request; two, where the entry was not removed.
        """
        own = self._own.pop(asker, None)
        if own is None:
            return None
        waited = min(self._clock(), own.written + LIFELESS) - own.since
        if not (yield from self._removed(asker.folder, own.path)):
            yield Put(own.path, InMemory(b"{}"), creation)
        return waited

    def waiter(self, entry: Entry) -> Protocol[Waiter]:
        """Return whose an entry is, and what it wants. One request, if it was written since the last time."""
        mark = entry.tag or entry.created
        known, waiter = self._waiters.get(entry.name, (None, Waiter()))
        if known != mark:
            got: Got | Absent = yield from read(Get(entry.name))
            waiter = Waiter() if isinstance(got, Absent) else _read(got.data)
            self._waiters.keep(entry.name, (mark, waiter))
        self._said.keep((posixpath.dirname(entry.name), waiter.session), (self._clock(), waiter.wants))
        return waiter

    def said(self, folder: str, session: str, habit: WriteSet) -> WriteSet:
        """Return what a session is expected to write, and what it wanted in a queue not long ago.

        Its entry goes when its commit begins, and what that writes is declared only later. It may also have
        been of an earlier commit, which has shown more since.
        """
        seen, wants = self._said.get((folder, session), (-math.inf, None))
        return expected([habit, wants]) if self._clock() - seen <= LIFELESS else habit


def _read(content: bytes) -> Waiter:
    try:
        entry = json.loads(content)
        session, thread = str(entry["session"]), str(entry["thread"])
    except (KeyError, TypeError, ValueError):
        return Waiter()
    behind, after = entry.get("behind"), entry.get("after")
    return Waiter(
        session,
        thread,
        decoded(entry.get("wants")),
        frozenset(map(str, behind if isinstance(behind, list) else ())),
        after if isinstance(after, int) else None,
    )
