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

    from putifabsent.timeline.files import Listed

# Small files, of which each is a request: so many are soon read.
_ENOUGH_FILES = 512
# What it takes to open a file, in bytes; and how many bytes, those included, are soon read.
_OPENING = 2**20
_ENOUGH_BYTES = 2**26

Identity: TypeAlias = "tuple[str, str, str, str | None]"


class Whole(NamedTuple):
    """A timeline in one part: all that is active, all that is archived, or both."""

    active: bool
    history: bool


class Numbered(NamedTuple):
    """The files of some numbers: Paimon's snapshots and changelogs, which outlive these; Delta's commits.

    ``follows``: an active one that has gone meanwhile is looked for among what is archived.
    """

    active: tuple[tuple[str, int], ...]
    archived: tuple[tuple[str, int], ...] = ()
    follows: bool = False


class HistoryFile(NamedTuple):
    """A file of the history."""

    path: str
    size: int
    # first, last: as its name says. A table that was upgraded may have files whose names say too little
    # (:class:`Span`).
    first: str
    last: str
    level: int  # 0: as they were archived; each level above: of that many files of the level below made one


class Span(NamedTuple):
    """A file of the history, and the times of the instants in it, both included."""

    file: HistoryFile
    first: str
    last: str


class Stretch(NamedTuple):
    """What was archived of the instants between two times; and in one part of all, what is active.

    ``spans`` are the files of the history that may have instants from one T on, and before the other, or to
    the end; one may be of several stretches. Instants that are ``known`` are active, and not read here.
    """

    since: str
    until: str | None
    spans: tuple[Span, ...]
    known: frozenset[Identity]
    active: tuple[Listed, ...] = ()

    def has(self, time: str) -> bool:
        """Whether what was requested then is of this stretch."""
        return self.since <= time and (self.until is None or time < self.until)


Part: TypeAlias = "Whole | Numbered | Stretch"
"""One of :meth:`putifabsent.timeline.Timeline.parts`; it can be pickled."""


def starts(costs: Sequence[int], most: int | None, enough: int) -> list[int]:
    """Return where groups of neighbours begin that cost about the same.

    There may be ``most`` of them; None: as many as there are with ``enough`` in each. No group is a
    ``ConfigError``.
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
    """Return files, which come with their numbers, in parts; whatever is of one number is in one part."""
    numbers = sorted({*active.values(), *archived.values()})
    first = [numbers[place] for place in starts([1] * len(numbers), most, _ENOUGH_FILES)]
    here: list[tuple[list[tuple[str, int]], ...]] = [([], []) for _ in first]
    for kind, files in enumerate((active, archived)):
        for path, number in files.items():
            here[bisect_right(first, number) - 1][kind].append((path, number))
    return [Numbered(tuple(there), tuple(gone), follows) for there, gone in here]


def stretches(
    spans: Sequence[Span], most: int | None, active: Sequence[Listed], known: frozenset[Identity]
) -> list[Stretch]:
    """Return stretches that have about as many bytes to read, the oldest one first; at least one."""
    by_time = sorted(spans, key=lambda span: span.first)
    begins = starts([span.file.size + _OPENING for span in by_time], most, _ENOUGH_BYTES)
    # Two files may begin with one T: its instants are one stretch's.
    edges = sorted({by_time[place].first for place in begins})
    found: list[Stretch] = []
    for since, until in zip(["", *edges[1:]], [*edges[1:], None], strict=True):
        empty = Stretch(since, until, (), frozenset(), () if found else tuple(active))
        # In the order of the manifest, as all of them are read in one go.
        inside = tuple(s for s in spans if s.last >= since and (until is None or s.first < until))
        own = frozenset(each for each in known if empty.has(each[0]))
        found.append(empty._replace(spans=inside, known=own))
    return found
