"""What a listing shows of a table that has a ledger.

Plain names, and what is decided and not published yet, without what is undone and not removed yet.

Read the ledger first, then list the plain names. Completions are published in their order, and only the last
one of a state can be unpublished: so who does it in this order sees no completion without those before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from putifabsent.shim.formats.hudi_moves import completed_by

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from collections.abc import Set as AbstractSet

    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import Completion

__all__ = ["View", "shown", "view"]


class View(NamedTuple):
    """What a ledger says of the names in a folder.

    Attributes
    ----------
    folder
        Full, without a slash at its end.
    late
        Names that are decided, and may not be published yet, with the keys of their bytes.
    undone
        Names that may still be there, and don't count.
    instants
        Those that a rollback has undone and is not done with: no completed name of theirs counts, whichever
        the table has given them.
    """

    folder: str
    late: Mapping[str, str]
    undone: frozenset[str]
    instants: frozenset[str]

    def hidden(self, paths: Collection[str]) -> AbstractSet[str]:
        """Return which of these names don't count."""
        if not self.instants:
            return self.undone.intersection(paths)
        inside = [path for path in paths if path.rpartition("/")[0] == self.folder]
        return {path for path in inside if path in self.undone or completed_by(path) in self.instants}


def view(ledger: Ledger, folder: str) -> View:
    """Return what is known of a folder.

    Parameters
    ----------
    ledger
        What was read before the folder is listed.
    folder
        Full, without a slash at its end.
    """
    latest: dict[str, Completion] = {}
    for each in sorted(ledger.state.completions.values(), key=lambda each: each.number):
        latest[ledger.path(each.name)] = each
    inside = {path: made for path, made in latest.items() if path.rpartition("/")[0] == folder}
    state, late = ledger.state, ledger.state.unpublished
    undone = {made.instant for made in state.completions.values() if made.undone}
    return View(
        folder,
        {path: ledger.path(made.body) for path, made in inside.items() if made == late},
        frozenset(path for path, made in inside.items() if made.undone),
        frozenset(
            each.frees
            for each in state.open.values()
            if each.frees in undone and state.completed(each.frees) is None
        ),
    )


def shown(ledger: Ledger, folder: str, paths: Collection[str]) -> list[str]:
    """Return the names in a folder, of which the plain ones are ``paths``; parameters as for :func:`view`."""
    known = view(ledger, folder)
    every = {*paths, *known.late}
    return sorted(every - known.hidden(every))
