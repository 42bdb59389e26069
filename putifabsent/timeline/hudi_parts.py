"""A Hudi timeline in parts: stretches of time, which need not know one another. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from putifabsent.timeline.parts import starts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from putifabsent.timeline.files import Listed
    from putifabsent.timeline.hudi_history import Span

__all__ = ["Stretch", "stretches"]

# What it takes to open a file, in bytes; and how many bytes, those included, are soon read.
_OPENING = 2**20
_ENOUGH = 2**26

Identity = tuple[str, str, str, "str | None"]


class Stretch(NamedTuple):
    """What was archived of the instants between two times; and in one part of all, what is active.

    Attributes
    ----------
    since, until
        From this T on, and before that one; None: to the end.
    spans
        The files of the history that may have such instants. A file may be of several stretches; an instant,
        wherever it was archived twice, is of one.
    known
        Instants that are active: archived or not, they are not read here.
    active
        The files in the timeline's folder.
    """

    since: str
    until: str | None
    spans: tuple[Span, ...]
    known: frozenset[Identity]
    active: tuple[Listed, ...] = ()

    def has(self, time: str) -> bool:
        """Whether what was requested then is of this stretch."""
        return self.since <= time and (self.until is None or time < self.until)


def stretches(
    spans: Sequence[Span], most: int | None, active: Sequence[Listed], known: frozenset[Identity]
) -> list[Stretch]:
    """Return stretches that have about as many bytes to read, the oldest one first; at least one.

    Parameters
    ----------
    spans
        The files of the history.
    most
        So many stretches there may be; None: as many as it takes.
    active
        The files in the timeline's folder.
    known
        Instants that are active.
    """
    by_time = sorted(spans, key=lambda span: span.first)
    begins = starts([span.file.size + _OPENING for span in by_time], most, _ENOUGH)
    # Two files may begin with one T: its instants are one stretch's.
    edges = sorted({by_time[place].first for place in begins})
    found = []
    for since, until in zip(["", *edges[1:]], [*edges[1:], None], strict=True):
        empty = Stretch(since, until, (), frozenset())
        # In the order of the manifest, as all of them are read in one go.
        inside = tuple(s for s in spans if s.last >= since and (until is None or s.first < until))
        own = frozenset(each for each in known if empty.has(each[0]))
        found.append(empty._replace(spans=inside, known=own))
    found[0] = found[0]._replace(active=tuple(active))
    return found
