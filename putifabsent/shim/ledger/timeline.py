"""What a listing shows of a table that has a ledger.

Plain names, and what is decided and not published yet, without what is undone and not removed yet.

Read the ledger first, then list the plain names. Completions are published in their order, and only the last
one of a state can be unpublished: so who does it in this order sees no completion without those before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import Completion

__all__ = ["View", "shown", "view"]


class View(NamedTuple):
    """What a ledger says of the names in a folder.

    Attributes
    ----------
    late
        Names that are decided, and may not be published yet, with the keys of their bytes.
    undone
        Names that may still be there, and don't count.
    """

    late: Mapping[str, str]
    undone: frozenset[str]


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
    late = ledger.state.unpublished
    return View(
        {path: ledger.path(made.body) for path, made in inside.items() if made == late},
        frozenset(path for path, made in inside.items() if made.undone),
    )


def shown(ledger: Ledger, folder: str, paths: Iterable[str]) -> list[str]:
    """Return the names in a folder, of which the plain ones are ``paths``; parameters as for :func:`view`."""
    known = view(ledger, folder)
    return sorted({*paths, *known.late} - known.undone)
