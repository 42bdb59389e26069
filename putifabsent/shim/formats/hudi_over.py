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
    from putifabsent.shim.arbiter import Arbiter
    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import State
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
    state = yield from ledger.current(creation)
    over: list[Name] = []
    for meta in _META:
        for folder in _FOLDERS:
            over += yield from _over_in(f"{ledger.root}{meta}{folder}", ledger.arbiter, state, policy)
    forgotten = 0
    for name in over:
        if isinstance((yield from ledger.arbiter.find(name, creation)), Absent):
            yield from ledger.arbiter.forget(name, creation)
            forgotten += 1
    return forgotten


def _over_in(folder: str, arbiter: Arbiter, state: State, policy: Policy) -> Protocol[list[Name]]:
    """Return the names in a folder that are over and not shown, one of each identity."""
    place = policy.classify(f"{folder}/_").state
    sighted = yield from arbiter.survey(policy.classify, place, [folder])
    instants = {each.name: instant_of(each.name) for each in sighted}
    over = [name for name, instant in instants.items() if instant is not None and _is_over(state, instant)]
    if not over:
        return []
    listed: Listed = yield from read(List(folder))
    shown = {policy.classify(entry.name).identity for entry in listed.entries}
    names = {name.identity: name for name in map(policy.classify, over) if name.identity not in shown}
    return list(names.values())


def _is_over(state: State, instant: str) -> bool:
    """Whether nobody begins it any more: it is forgotten, or of before this life of the table's ledger."""
    return state.is_over(instant) or (instant < state.first and not state.knows(instant))


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
