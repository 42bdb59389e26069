"""What came of a table's life, and whether that keeps the promises."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from putifabsent.shim.ledger.facts import KEPT

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OUTCOMES", "History", "Sample", "judged", "near"]

OUTCOMES = ("acknowledged", "refused", "needless", "unknown", "failed")
"""What an action was answered; ``needless``: refused for certain, and nothing stood in its way."""

_EACH = 4
"""So many objects, or items, at most, are kept of each name that is there."""

_REMEMBERED = _EACH * KEPT
"""So many at most are kept of instants that are over, and that the ledger remembers."""

_LEFT = 1.5
"""So many a commit are left of what is archived or undone, until the ledger forgets as much as it learns."""

_EVERY = 64
"""The ledger's records come and go in waves of so many."""

_RECORDS = 8 * _EVERY
"""So many objects, at most, keep the records of a ledger that is pruned: three a record by ballot."""

_OLD = 100
"""After fewer commits nothing has settled, and nothing can be seen to grow."""

# A fifth of a life each: where it has settled, and where it ends.
_SETTLED, _END = (0.4, 0.6), (0.8, 1.0)


class Sample(NamedTuple):
    """What was measured after so many commits.

    Attributes
    ----------
    commits
        That were tried until then.
    state, records, items, live
        Objects that the shim keeps of the table, and those of them that keep the ledger's records; items in
        the registry; all other objects of the table.
    a_commit, ls, start_up
        Requests: of a commit, on average since the last sample; of a listing of the timeline by a mount that
        has read it before; and by one that is new.
    seconds, ls_seconds, start_up_seconds
        Of the processor's, in this process, for the same three: on a busy machine no other time compares.
    """

    commits: int
    state: int
    records: int
    items: int
    live: int
    a_commit: float
    ls: int
    start_up: int
    seconds: float
    ls_seconds: float = 0.0
    start_up_seconds: float = 0.0

    @property
    def others(self) -> int:
        """The shim's objects beside the ledger's records, which come and go from checkpoint to checkpoint."""
        return self.state - self.records


@dataclass
class History:
    """What came of a life.

    Attributes
    ----------
    outcomes
        How often each kind of action had each outcome.
    reasons
        What was raised, and how often, but where it was refused with reason.
    lost, ghosts, changed
        Completed names: acknowledged and not listed; listed, though refused, or nobody's; with other bytes
        than were acknowledged.
    wedged
        How often nobody could commit any more.
    samples
        In the order of time.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    ghosts: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    wedged: int = 0
    samples: list[Sample] = field(default_factory=list)

    @property
    def broken(self) -> int:
        """How many promises about names were broken, and how often nobody could commit any more."""
        return len(self.lost) + len(self.ghosts) + len(self.changed) + self.wedged

    def came(self, outcome: str, kind: str | None = None) -> int:
        """Return how many actions, or those of a kind, had an outcome."""
        return sum(many for (of, had), many in self.outcomes.items() if had == outcome and kind in (None, of))


def judged(history: History) -> list[str]:
    """Return which promises were not kept; none: the table may live on."""
    problems = [
        f"{many} {what}"
        for what, many in (
            ("outcomes are unknown, and nothing was lost on the way", history.came("unknown")),
            ("actions failed", history.came("failed")),
            ("actions were refused needlessly", history.came("needless")),
            ("acknowledged names are lost", len(history.lost)),
            ("names are there that nobody was promised", len(history.ghosts)),
            ("names have other bytes than were acknowledged", len(history.changed)),
            ("times nobody could commit any more", history.wedged),
        )
        if many
    ]
    if not history.came("acknowledged", "commit"):
        problems.append("no commit was acknowledged")
    return problems + _grown(history.samples)


def near(samples: Sequence[Sample], commits: int) -> Sample:
    """Return what is usual about so many commits: the least state, and means of the rest."""
    usual = [each for each in samples if 0.8 * commits <= each.commits <= commits] or [samples[-1]]
    return Sample(
        usual[-1].commits,
        min(each.state for each in usual),
        min(each.records for each in usual),
        min(each.items for each in usual),
        min(each.live for each in usual),
        mean(each.a_commit for each in usual),
        round(mean(each.ls for each in usual)),
        round(mean(each.start_up for each in usual)),
        mean(each.seconds for each in usual),
        mean(each.ls_seconds for each in usual),
        mean(each.start_up_seconds for each in usual),
    )


def _grown(samples: Sequence[Sample]) -> list[str]:
    """Return what a table's age has made larger."""
    before, after = (_within(samples, share) for share in (_SETTLED, _END))
    if not before or not after or after[-1].commits < _OLD:
        return []
    # A table that has more names than before may have more kept. What is kept beside the ledger's records
    # comes in waves, up to the next archival: their troughs are compared.
    live = max(0, min(each.live for each in after) - min(each.live for each in before))
    kept = _EACH * live + 48
    found = []
    if (most := max(each.records for each in after)) > _RECORDS:
        found.append(
            f"records of the ledger are not pruned: {most:,} objects at {after[-1].commits:,} commits"
        )
    left = min(_LEFT * (after[-1].commits - before[-1].commits), _REMEMBERED)
    for what, of, over, share, more in (
        ("objects of the shim's", "others", min, 1.25, kept + left),
        ("items in the registry", "items", min, 1.25, kept + _EVERY + left),
        ("requests a commit", "a_commit", mean, 1.5, 8),
        ("requests of a listing", "ls", mean, 1.25, 8 + live),
        # Of each record since the newest checkpoint a new mount asks the arbiter, and the store.
        ("requests of a first listing", "start_up", mean, 1.25, 2 * _EVERY + live),
    ):
        was, now = (float(over(getattr(each, of) for each in window)) for window in (before, after))
        if now > share * was + more:
            commits = f"{before[-1].commits:,} and {after[-1].commits:,} commits"
            found.append(f"{what} grow: {was:,.0f} and {now:,.0f}, at {commits}")
    return found


def _within(samples: Sequence[Sample], share: tuple[float, float]) -> list[Sample]:
    last = samples[-1].commits if samples else 0
    return [each for each in samples if share[0] * last < each.commits <= share[1] * last]
