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
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from putifabsent.backends.base import Absent
from putifabsent.backends.body import InMemory
from putifabsent.shim.formats.hudi_sets import Inserts, Part, meet
from putifabsent.shim.reading import read, removed
from putifabsent.shim.requests import Get, List, Put

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.backends.base import Creation, Entry, Got, Listed
    from putifabsent.shim.formats.hudi_sets import WriteSet
    from putifabsent.shim.requests import Protocol

__all__ = ["LIFELESS", "Cache", "Slots", "Watch"]

K = TypeVar("K")
V = TypeVar("V")

LIFELESS = 60.0
"""Seconds without a new entry after which its waiter is taken for dead."""

_WRITTEN_EACH = 15.0
_DIGITS = 10
_REMEMBERED = 1024


class Cache(OrderedDict[K, V]):
    """What is known by name, up to so many: the oldest is forgotten."""

    def keep(self, key: K, value: V) -> V:
        """Remember a value, and return it."""
        self[key] = value
        if len(self) > _REMEMBERED:
            self.popitem(last=False)
        return value


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


class _Place(NamedTuple):
    """A waiter's own place in the queue, and when its entry was written last."""

    path: str
    written: float


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
        self._wants: Cache[tuple[str, object], tuple[str, WriteSet]] = Cache()

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
            whose, wanted = yield from self._said(entry)
            if whose not in ("", session) and meet(wants, wanted):
                found.append(whose)
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
        self._own.keep((folder, session, thread), _Place(path, now))

    def leave(self, folder: str, session: str, thread: str, creation: Creation) -> Protocol[None]:
        """Give up a place, if there is one. One request; another, where the entry may not be removed."""
        own = self._own.pop((folder, session, thread), None)
        if own is None:
            return
        try:
            yield from removed(own.path)
        except OSError:
            yield Put(own.path, InMemory(b"{}"), creation)

    def _place(self, folder: str, session: str, thread: str) -> _Place | None:
        own = self._own.get((folder, session, thread))
        # Who comes back after that has lost it.
        return own if own is not None and self._clock() - own.written <= LIFELESS else None

    def _said(self, entry: Entry) -> Protocol[tuple[str, WriteSet]]:
        """Return whose an entry is, and what it wants; of one that is gone, or can't be read: nobody's."""
        key = (entry.name, entry.tag or entry.created)
        if key not in self._wants:
            got: Got | Absent = yield from read(Get(entry.name))
            self._wants.keep(key, ("", {}) if isinstance(got, Absent) else _read(got.data))
        return self._wants[key]


def _written(wants: WriteSet) -> Any:
    if wants is None:
        return None
    return {
        partition: [None if part.groups is None else sorted(part.groups), part.inserts.value]
        for partition, part in wants.items()
    }


def _read(said: bytes) -> tuple[str, WriteSet]:
    try:
        entry = json.loads(said)
        wants = entry["wants"]
        if wants is not None:
            wants = {
                str(partition): Part(None if groups is None else frozenset(groups), Inserts(inserts))
                for partition, (groups, inserts) in wants.items()
            }
        return str(entry["session"]), wants
    except (AttributeError, KeyError, TypeError, ValueError):
        return "", {}
