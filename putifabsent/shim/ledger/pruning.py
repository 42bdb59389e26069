"""What lies behind the newest checkpoint goes, lowest number first; so do records of lives that are over.

A number that is free again may be won by somebody who comes too late. What is above tells him so, as long as
the newest checkpoint is there: that one stays, always.

The records of version 0.1.0 stay, too: behind them a session of that version would begin anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.shim.ledger.book import removed
from putifabsent.shim.reading import read
from putifabsent.shim.requests import List

if TYPE_CHECKING:
    from putifabsent.backends.base import Creation, Listed
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.requests import Protocol

__all__ = ["prune"]


def prune(ledger: Ledger, creation: Creation) -> Protocol[int]:
    """Remove the records that the newest checkpoint has made needless, and the beats of turns that are over.

    Nobody waits for it: a writer may do it in the background, whenever it has passed a checkpoint.

    Returns
    -------
    int
        How many records.
    """
    numbers = yield from ledger.numbers(creation)
    newest = ledger.newest(numbers) if ledger.state.life else 0
    behind = [ledger.record(number) for number in sorted(numbers) if number < newest]
    behind += yield from ledger.over()
    for name in behind:
        yield from ledger.arbiter.forget(name, creation)
    state = yield from ledger.current(creation)
    beats: Listed = yield from read(List(ledger.beat(0).rpartition("/")[0]))
    held = None if state.turn is None else ledger.beat(state.turn.number)
    for entry in beats.entries:
        if entry.name != held and entry.name <= ledger.beat(state.number):
            yield from removed(entry.name)
    return len(behind)
