"""What a listing shows of a table that has a ledger.

Plain names, and what is decided and not published yet, without what is undone and not removed yet.

Read the ledger first, then list the plain names. Completions are published in their order, and only the last
one of a state can be unpublished: so who does it in this order sees no completion without those before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from putifabsent.shim.ledger.book import Ledger
    from putifabsent.shim.ledger.facts import Completion

__all__ = ["find", "shown"]


def shown(ledger: Ledger, folder: str, paths: Iterable[str]) -> list[str]:
    """Return the names in a folder.

    Parameters
    ----------
    ledger
        What was read before the folder was listed.
    folder
        Full, without a slash at its end.
    paths
        The plain names that are directly in it, in full.
    """
    made = ledger.state.unpublished
    late = [] if made is None else [ledger.path(made.name)]
    late = [path for path in late if path.rpartition("/")[0] == folder]
    there = [path for path in paths if not _is_undone(ledger, path)]
    return sorted({*there, *late})


def find(ledger: Ledger, path: str) -> Completion | None:
    """Return the completion whose body is what a name says, published or not; None: the plain name says it.

    Raises
    ------
    FileNotFoundError
        It was undone.
    """
    if _is_undone(ledger, path):
        raise FileNotFoundError(path)
    made = ledger.state.unpublished
    return made if made is not None and ledger.path(made.name) == path else None


def _is_undone(ledger: Ledger, path: str) -> bool:
    made = ledger.state.named(ledger.relative(path))
    return made is not None and made.undone
