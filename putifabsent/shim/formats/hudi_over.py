"""What an arbiter keeps of a Hudi table's instants goes when they are over.

Hudi archives an instant and removes its names. What an arbiter keeps of a removed name (an end mark, a dead
claim, the ballots of a dead writer) says which incarnation comes next. None does once the instant is over:
its table's ledger permits nobody to begin it again. A writer who was paused for so long, and creates the name
all the same, goes no further with it, as where the store itself decides.

The names of the history's files, and of the metadata table, go by the instants in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from putifabsent.backends.base import Absent
from putifabsent.shim.formats.hudi import FORMAT, history_in, instant_in
from putifabsent.shim.ledger.book import Native
from putifabsent.shim.reading import read
from putifabsent.shim.requests import List

if TYPE_CHECKING:
    from putifabsent.backends.base import Creation, Listed
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import State
    from putifabsent.shim.listing_overlay import Sighting
    from putifabsent.shim.names import Name
    from putifabsent.shim.policy import Policy
    from putifabsent.shim.requests import Protocol

__all__ = ["forget_over", "instant_of"]

_META = ("", "/metadata/.hoodie")
_FOLDERS = ("", "/timeline", "/timeline/history")


def forget_over(ledger: Ledger, creation: Creation, policy: Policy) -> Protocol[int]:
    """Have the arbiter forget the names of instants that are over, but for those that are there.

    Nobody waits for it: it goes with :func:`putifabsent.shim.ledger.pruning.prune`.

    Parameters
    ----------
    ledger, creation
        Of whoever prunes.
    policy
        The mount's.

    Returns
    -------
    int
        How many names.
    """
    if isinstance(ledger.arbiter, Native) or ledger.name.format != FORMAT:
        return 0
    sighted = []
    for meta in _META:
        for folder in (f"{ledger.root}{meta}{each}" for each in _FOLDERS):
            place = policy.classify(f"{folder}/_").state
            found = yield from ledger.arbiter.survey(policy.classify, place, [folder])
            sighted += [(folder, meta == "", each) for each in found]
    # After that: whoever has begun one of them through a mount had opened its instant before.
    state = yield from ledger.current(creation)
    over: dict[str, list[Sighting]] = {}
    for folder, is_the_tables, each in sighted:
        if _is_over(state, each, is_the_tables=is_the_tables):
            over.setdefault(folder, []).append(each)
    forgotten = 0
    for folder, sightings in over.items():
        for name in (yield from _left_in(folder, sightings, policy)):
            if isinstance((yield from ledger.arbiter.find(name, creation)), Absent):
                yield from ledger.arbiter.forget(name, creation)
                forgotten += 1
    return forgotten


def _left_in(folder: str, over: list[Sighting], policy: Policy) -> Protocol[list[Name]]:
    """Return those names in a folder that are not shown, or have ended and still are; one an identity."""
    listed: Listed = yield from read(List(folder))
    shown = {policy.classify(entry.name).identity for entry in listed.entries}
    names = {}
    for each in over:
        name = policy.classify(each.name)
        if name.identity not in shown or (each.key is None and not each.open):
            names[name.identity] = name
    return list(names.values())


def _is_over(state: State, sighting: Sighting, *, is_the_tables: bool) -> bool:
    """Whether nobody begins a name's instant any more.

    It is forgotten, or of before this life of the table's ledger. So is each that was decided, and that a
    ledger read later has never heard of, however late its time: a clock was fast. Of the metadata table's own
    instants no ledger hears.
    """
    instant = instant_of(sighting.name)
    if instant is None or state.knows(instant):
        return False
    is_of_another_life = is_the_tables and bool(state.life) and sighting.key is not None
    return state.is_over(instant) or instant < state.first or is_of_another_life


def instant_of(path: str) -> str | None:
    """Return the instant that a name in a timeline or its history dies with; None: it is of none."""
    if "/.hoodie/" not in path:
        return None
    last = path.rpartition("/")[2]
    history = history_in(last)
    if history is not None:
        return history.last
    step = instant_in(last)
    return None if step is None or step.action == "savepoint" else step.instant
