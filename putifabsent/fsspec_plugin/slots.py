"""The queue of those who wait to write a table: who came first goes first, as far as their write sets meet.

::

    <state>/slots/<number>~<token>     what one waiter wants: whose it is, and its write set, in JSON

A number is one more than the highest that its waiter has seen; of two with one number the lower token goes
first. Whoever waits writes its entry anew now and then, and removes it when it has got what it waited for.
Whoever has watched one that is not written any more, by its own clock, passes it over and removes it. All of
this is advice, as the tower's: an entry that is lost costs its waiter a place.
"""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from putifabsent.backends.base import Absent
from putifabsent.backends.body import InMemory
from putifabsent.fsspec_plugin.mount import Cache
from putifabsent.shim.formats.hudi_sets import Inserts, Part, meet
from putifabsent.shim.reading import read, removed
from putifabsent.shim.requests import Get, List, Put

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Creation, Entry, Got, Listed
    from putifabsent.shim.formats.hudi_sets import WriteSet
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.requests import Protocol

__all__ = ["LIFELESS", "Slots", "Waiter", "Watch", "queue_of"]

LIFELESS = 60.0
"""Seconds without a new entry after which its waiter is taken for dead."""

_WRITTEN_EACH = 15.0
_DIGITS = 10


class Watch:
    """Files that somebody writes again and again while he lives, as a watcher sees them by its own clock.

    Parameters
    ----------
    clock
        Seconds that only go on.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: Cache[str, tuple[object, float]] = Cache()

    def unchanged(self, name: str, mark: object) -> float:
        """Return for how many seconds something has been seen as it is now."""
        now = self._clock()
        was, since = self._seen.get(name, (self, now))
        if was != mark:
            _, since = self._seen.keep(name, (mark, now))
        return now - since


class Waiter(NamedTuple):
    """Somebody who waits, as its entry says.

    Attributes
    ----------
    session, thread
        Whose it is; empty: its entry is gone, or says nothing.
    wants
        What it is about to write.
    """

    session: str = ""
    thread: str = ""
    wants: WriteSet = {}  # noqa: RUF012 - nobody changes it


class _Place(NamedTuple):
    """A waiter's own place in the queue, since when it has that, and when its entry was written last."""

    path: str
    since: float
    written: float


def queue_of(ledger: Ledger) -> str:
    """Return where the entries of those lie who wait to write a table."""
    return f"{ledger.name.state}/slots"


class Slots:
    """The queues of a mount's tables.

    Parameters
    ----------
    clock
        Seconds that only go on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._watch = Watch(clock)
        self._own: Cache[tuple[str, str, str], _Place] = Cache()
        self._said: Cache[tuple[str, object], Waiter] = Cache()

    def listed(self, folder: str) -> Protocol[list[Entry]]:
        """Return the entries of those who live, the first first. One request."""
        listed: Listed = yield from read(List(folder))
        alive = []
        for entry in sorted(listed.entries):
            if self._watch.unchanged(entry.name, entry) <= LIFELESS:
                alive.append(entry)
            else:
                with suppress(OSError):
                    yield from removed(entry.name)
        return alive

    def ahead(
        self, folder: str, session: str, thread: str, wants: WriteSet, entries: list[Entry]
    ) -> Protocol[list[str]]:
        """Return the sessions of the others that came before, and want what a waiter does."""
        own = self._place(folder, session, thread)
        found = []
        for entry in entries:
            if own is not None and entry.name >= own.path:
                break
            other = yield from self.said(entry)
            if other.session not in ("", session) and meet(wants, other.wants):
                found.append(other.session)
        return found

    def wait(
        self,
        folder: str,
        session: str,
        thread: str,
        wants: WriteSet,
        entries: list[Entry],
        creation: Creation,
    ) -> Protocol[None]:
        """Take a place in the queue, or keep it. One request, now and then."""
        now, own = self._clock(), self._place(folder, session, thread)
        if own is not None and now - own.written < _WRITTEN_EACH:
            return
        numbers = [each.name.rpartition("/")[2][:_DIGITS] for each in entries]
        number = max((int(each) for each in numbers if each.isdecimal()), default=0) + 1
        path = f"{folder}/{number:0{_DIGITS}}~{uuid.uuid4()}" if own is None else own.path
        said = {"session": session, "thread": thread, "wants": _written(wants), "at": now}
        yield Put(path, InMemory(json.dumps(said).encode()), creation)
        self._own.keep((folder, session, thread), _Place(path, now if own is None else own.since, now))

    def leave(self, folder: str, session: str, thread: str, creation: Creation) -> Protocol[float | None]:
        """Give up a place, if there is one, and return for how many seconds it was kept.

        One request; another, where the entry may not be removed.
        """
        own = self._own.pop((folder, session, thread), None)
        if own is None:
            return None
        waited = min(self._clock(), own.written + LIFELESS) - own.since
        try:
            yield from removed(own.path)
        except OSError:
            yield Put(own.path, InMemory(b"{}"), creation)
        return waited

    def _place(self, folder: str, session: str, thread: str) -> _Place | None:
        own = self._own.get((folder, session, thread))
        # Who comes back after that has lost it.
        return own if own is not None and self._clock() - own.written <= LIFELESS else None

    def said(self, entry: Entry) -> Protocol[Waiter]:
        """Return whose an entry is, and what it wants. One request, if it was written since the last time."""
        key = (entry.name, entry.tag or entry.created)
        if key not in self._said:
            got: Got | Absent = yield from read(Get(entry.name))
            self._said.keep(key, Waiter() if isinstance(got, Absent) else _read(got.data))
        return self._said[key]


def _written(wants: WriteSet) -> Any:
    if wants is None:
        return None
    return {
        partition: [None if part.groups is None else sorted(part.groups), part.inserts.value]
        for partition, part in wants.items()
    }


def _read(said: bytes) -> Waiter:
    try:
        entry = json.loads(said)
        wants = entry["wants"]
        if wants is not None:
            wants = {
                str(partition): Part(None if groups is None else frozenset(groups), Inserts(inserts))
                for partition, (groups, inserts) in wants.items()
            }
        return Waiter(str(entry["session"]), str(entry["thread"]), wants)
    except (AttributeError, KeyError, TypeError, ValueError):
        return Waiter()
