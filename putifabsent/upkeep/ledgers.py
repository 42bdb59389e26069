"""What a table's ledger has come to, for people: who writes what, who has the turn, what is remembered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from putifabsent.backends.base import Found, Listed
from putifabsent.errors import ConfigError
from putifabsent.fsspec_plugin.queues import Queues, queue_of
from putifabsent.shim.arbiter_choice import look_for_others
from putifabsent.shim.formats.hudi_sets import Inserts, Part
from putifabsent.shim.ledger.book import HalfRemoved, Ledger, by_life, is_marker
from putifabsent.shim.ledger.facts import Held, State, TurnName
from putifabsent.shim.requests import Head, List, Protocol, read
from putifabsent.upkeep.checking import refuse_a_part, terms_with

if TYPE_CHECKING:
    from putifabsent.fsspec_plugin import GuardedFileSystem

_SECONDS = 14
"""Digits of an instant to the second; others have milliseconds, too."""


@dataclass(frozen=True, slots=True)
class Begun:
    """An instant that is open."""

    instant: str
    session: str  # whose it is
    action: str  # what it is in its format's words
    since: int | None  # the number of the record that opened it; None: of one that is not remembered


@dataclass(frozen=True, slots=True)
class TableLedger:
    """What the records of a table's ledger come to."""

    folder: str  # where they lie
    life: str  # the name of the table's present life; empty for records of version 0.1.0
    number: int  # of the last record
    checkpoint: int  # the number of the newest checkpoint that is listed; 0: there is none
    listed: int  # how many records of this life a listing shows
    ended: int  # how many it shows of lives that are over, which go with the next pruning
    # When the newest object in the folder was written, by the store's clock; None: no listing shows one.
    written: datetime | None
    # Up to which instant none can be begun any more, whatever else is remembered; empty: there is none.
    horizon: str = ""
    whole: int = 0  # how many instants are remembered with all that became of them
    by_name: int = 0  # of how many more that are over only the name is
    # The instants that the ledger knows, the horizon among them, that are later than ``written`` in UTC.
    ahead: tuple[str, ...] = ()
    open: tuple[Begun, ...] = ()  # what is being written
    turn: Held | None = None  # the one that is held
    half_removed: str | None = None  # why the records can't be read; None: they can


@dataclass(frozen=True, slots=True)
class Waiting:
    """Somebody in the queue of those who wait before they begin a commit."""

    # session, thread: whose place it is.
    session: str
    thread: str
    # How many file groups of each partition it is about to write; None: any of them. None altogether: any of
    # the whole table.
    groups: dict[str, int | None] | None
    written: datetime  # when it said last that it still waits, by the store's clock


@dataclass(frozen=True, slots=True)
class TableTurns:
    """Who writes a table now, and who waits."""

    turn: Held | None  # the one that is held
    beat: datetime | None  # when its holder gave its last sign of life, by the store's clock; None: none yet
    open: tuple[Begun, ...]  # instants that are being written
    waiting: tuple[Waiting, ...]  # the queue, the first first. Those who died in it leave it after a minute.
    half_removed: str | None = None  # why nobody can tell who has the turn, or what is open; None: it is told


def turns_of(fs: GuardedFileSystem, path: str) -> TableTurns | None:
    """Say who writes a table now, and who waits; all else is as for :func:`ledger_of`.

    Those who take slots in a table that has no ledger have a queue as well.
    """
    found = ledger_of(fs, path)
    ledger, beat = fs.ledger(path), None
    waiting = tuple(fs.perform(_queue(ledger)))
    if found is None:
        return TableTurns(None, None, (), waiting) if waiting else None
    if found.turn is not None:
        seen = fs.perform(read(Head(ledger.beat(TurnName(found.life, found.turn.number)))))
        beat = seen.holder.created if isinstance(seen, Found) else None
    return TableTurns(found.turn, beat, found.open, waiting, found.half_removed)


def _queue(ledger: Ledger) -> Protocol[list[Waiting]]:
    queues, found = Queues(), []
    for entry in (yield from queues.listed(queue_of(ledger.name.state))):
        who = yield from queues.waiter(entry)
        if who.session:
            wants = who.wants
            groups = None if wants is None else {key: _count(part) for key, part in wants.items()}
            found.append(Waiting(who.session, who.thread, groups, entry.created))
    return found


def _count(part: Part) -> int | None:
    return None if part.groups is None or part.inserts is Inserts.ANY else len(part.groups)


def ledger_of(fs: GuardedFileSystem, path: str) -> TableLedger | None:
    """Read a table's ledger by a mount as the writers' are, while they write or not; None: it has none.

    Nothing is written. ``ConfigError``: there is nothing at ``path``, or it is a part of a table; or another
    arbiter decides than the mount says. ``OSError``: the store refuses, or does not answer in time.
    """
    root = fs.explain(path).path
    fs.invalidate_cache()
    if not fs.fs.exists(root):
        raise ConfigError(f"there is no table at {root!r}: nothing is there")
    refuse_a_part(fs, root)
    ledger = fs.ledger(path)
    fs.perform(look_for_others(ledger.name.state, terms_with(fs, ledger.name.state)))
    creation = fs.mount.looker(ledger.name)
    half_removed = None
    try:
        fs.perform(ledger.current(creation))
    except HalfRemoved as error:
        half_removed = error.strerror
    listed: Listed = fs.perform(read(List(ledger.folder)))
    marker = next((each for each in listed.entries if is_marker(each.name)), None)
    found = by_life(each.name for each in listed.entries)
    state = ledger.state
    if marker is None and not found and not state.number:
        return None
    numbers = found.get(state.life, set())
    written = max((entry.created for entry in listed.entries), default=None)
    return TableLedger(
        folder=ledger.folder,
        life=state.life,
        number=max(state.number, *numbers, 0),
        checkpoint=ledger.newest(numbers),
        listed=len(numbers),
        ended=sum(len(others) for life, others in found.items() if life not in ("", state.life)),
        written=written,
        horizon=state.horizon,
        whole=len(_remembered(state)),
        by_name=len(state.past),
        ahead=() if written is None else _ahead(state, written),
        open=tuple(
            Begun(instant, each.session, each.action, state.tokens.get(each.token))
            for instant, each in sorted(state.open.items())
        ),
        turn=state.turn,
        half_removed=half_removed,
    )


def _remembered(state: State) -> set[str]:
    """Return the instants that are over, and of which more than the name is known."""
    return {*state.freed, *(each.instant for each in state.completions.values())}


def _ahead(state: State, written: datetime) -> tuple[str, ...]:
    """Return the instants that no right clock had shown when the newest object was written.

    Some stores date objects by whole seconds.
    """
    last = (written + timedelta(seconds=1)).astimezone(timezone.utc).strftime("%Y%m%d%H%M%S%f")
    known = _remembered(state) | state.past | state.open.keys() | {state.horizon}
    times = (each for each in known if each.isdecimal() and len(each) >= _SECONDS)
    return tuple(sorted(each for each in times if each > last))
