"""What lies behind the newest checkpoint goes, the lowest number first.

A number that is free again may be won by somebody who comes too late. What is above tells him so, as long as
the newest checkpoint is there: that one stays, always.
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
    numbers = yield from ledger.numbers()
    newest = ledger.newest(numbers)
    behind = sorted(number for number in numbers if number < newest)
    for number in behind:
        yield from ledger.arbiter.delete(ledger.record(number), creation)
    state = yield from ledger.current(creation)
    beats: Listed = yield from read(List(ledger.beat(0).rpartition("/")[0]))
    held = None if state.turn is None else ledger.beat(state.turn.number)
    for entry in beats.entries:
        if entry.name != held and entry.name <= ledger.beat(state.number):
            yield from removed(entry.name)
    return len(behind)
