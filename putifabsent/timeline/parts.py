"""A timeline in parts, which can be read anywhere and side by side, each by itself.

A part says by itself which records are its own: so however many there are, no two of them give the same one.
What is here is pure.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from putifabsent.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.timeline.hudi_parts import Stretch

__all__ = ["Numbered", "Part", "Whole", "numbered_parts", "starts"]

# Small files, of which each is a request: so many are soon read.
_ENOUGH = 512


class Whole(NamedTuple):
    """A timeline in one part.

    Attributes
    ----------
    active, history
        Whether it is all that is active, all that is archived, or both.
    """

    active: bool
    history: bool


class Numbered(NamedTuple):
    """The files of some numbers: Paimon's snapshots, Delta's commits.

    Attributes
    ----------
    active
        Paths and their numbers.
    archived
        The same of changelogs, which outlive their snapshots.
    follows
        Whether an active one that has gone meanwhile is looked for among what is archived.
    """

    active: tuple[tuple[str, int], ...]
    archived: tuple[tuple[str, int], ...] = ()
    follows: bool = False


Part: TypeAlias = "Whole | Numbered | Stretch"
"""One of :meth:`putifabsent.timeline.Timeline.parts`; it can be pickled."""


def starts(costs: Sequence[int], most: int | None, enough: int) -> list[int]:
    """Return where groups of neighbours begin that cost about the same.

    Parameters
    ----------
    costs
        Of each, above 0.
    most
        So many groups there may be; None: as many as there are with ``enough`` in each.
    enough
        What one group should cost.

    Raises
    ------
    ConfigError
        There may be no group at all.
    """
    if most is not None and most < 1:
        raise ConfigError(f"a timeline has 1 part or more, not {most}")
    total = sum(costs)
    groups = max(1, -(-total // enough)) if most is None else most
    found: list[int] = []
    newest, before = -1, 0
    for place, cost in enumerate(costs):
        # By its middle, so that what is a little larger than its share is no two groups'.
        group = (2 * before + cost) * groups // (2 * total)
        if group != newest:
            found.append(place)
        newest, before = group, before + cost
    return found


def numbered_parts(
    active: dict[str, int], archived: dict[str, int], most: int | None, *, follows: bool = False
) -> list[Numbered]:
    """Return files in parts; whatever is of one number is in one part.

    Parameters
    ----------
    active, archived
        The numbers of files, by their paths.
    most
        So many parts there may be; None: as many as it takes.
    follows
        As of :class:`Numbered`.
    """
    numbers = sorted({*active.values(), *archived.values()})
    first = [numbers[place] for place in starts([1] * len(numbers), most, _ENOUGH)]
    here: list[tuple[list[tuple[str, int]], ...]] = [([], []) for _ in first]
    for kind, files in enumerate((active, archived)):
        for path, number in files.items():
            here[bisect_right(first, number) - 1][kind].append((path, number))
    return [Numbered(tuple(there), tuple(gone), follows) for there, gone in here]
