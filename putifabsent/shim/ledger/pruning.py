"""What no writer and no reader needs any more goes.

Records behind the newest checkpoint, lowest number first, and records of lives that are over. Also those of
which only an arbiter knows: their writers died before anything was shown of them, or they went with a table
that was removed round the shim. A number that is free again may be won by somebody who comes too late: the
newest checkpoint, which tells him so, stays always. So do the records of version 0.1.0: behind them a session
of that version would begin anew.

Bodies of instants that are over. Their key tells the instant, for nothing else about a body tells whether its
writer was killed or is paused, for however long, before its COMPLETE. An instant that is over is never opened
again, so nobody completes it; and if it was completed, that was published before the next completion was
appended, and nobody publishes it any more. The bodies are listed before the state is read: a body that is put
later may be of another life, in which its instant is not over; and a COMPLETE says in which life its body was
put. So no clock is read. What a killed writer has left stays as long as the ledger remembers its instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.shim.ledger.book import Ledger, by_life
from putifabsent.shim.reading import read, removed
from putifabsent.shim.requests import List, Protocol

if TYPE_CHECKING:
    from putifabsent.backends.base import Creation, Entry, Listed
    from putifabsent.shim.names import Name


def prune(ledger: Ledger, creation: Creation) -> Protocol[int]:
    """Remove the records that the newest checkpoint has made needless, and bodies and beats of what is over.

    Nobody waits for it: a writer may do it in the background, whenever it has passed a checkpoint. Returns
    how many records.
    """
    # As for bodies: listed before the state is read, so that no turn is taken later of which one was listed.
    beats: Listed = yield from read(List(ledger.beats))
    behind = yield from _behind(ledger, creation)
    for name in behind:
        yield from ledger.arbiter.forget(name, creation)
    bodies = yield from needless(ledger, creation)
    while bodies:
        yield from removed(bodies.pop(0).name)
    turn = ledger.state.turn_name
    held = None if turn is None else ledger.beat(turn)
    for entry in beats.entries:
        if entry.name != held:
            yield from removed(entry.name)
    return len(behind)


def _behind(ledger: Ledger, creation: Creation) -> Protocol[list[Name]]:
    """Return the records that nobody needs any more, seen or not, the lowest number first."""
    known = by_life(each.name for each in (yield from ledger.sighted()))
    numbers = yield from ledger.numbers(creation)
    life = ledger.state.life
    newest = ledger.newest(numbers) if life else 0
    numbers |= known.pop(life, set())
    ended = yield from ledger.over(known)
    return [*(ledger.record(number, life) for number in sorted(numbers) if number < newest), *ended]


def needless(ledger: Ledger, creation: Creation) -> Protocol[list[Entry]]:
    """Return the bodies that nobody needs any more. Two requests, where nothing is new."""
    listed: Listed = yield from read(List(ledger.bodies))
    state = yield from ledger.current(creation)
    # Version 0.1.0's keys tell of no instant.
    instants = [(each, each.name.rpartition("/")[2].rpartition("~")[0]) for each in listed.entries]
    return [each for each, instant in instants if instant and state.is_over(instant)]
