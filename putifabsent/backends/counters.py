"""What counters must promise: numbers that are given once, and grow.

A registry may have them beside what decides about names (:mod:`putifabsent.backends.registries`). As there,
one call is one request, which nobody sends twice on his own, and every answer is of a closed type:
:class:`Advanced` (the numbers up to this one are the caller's), ``TryAgain``, ``Refused`` or ``Maybe``.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from putifabsent.backends.base import Maybe, Refused, TryAgain
from putifabsent.backends.concurrency import twin
from putifabsent.backends.registries import bad_identity

LARGEST = 2**53 - 1  # the largest number of a counter: the largest that every registry can calculate with


@dataclass(frozen=True, slots=True)
class Advanced:
    """As many numbers as were requested are the caller's, and nobody else's."""

    last: int  # the last of them; the others are those right before it
    now: int | None = field(default=None, compare=False)
    """The registry's own time when it moved the counter, or a little before: milliseconds since 1970, by no
    clock of the caller's. None: it tells none. Of two answers that give the same numbers it may differ."""


AdvanceOutcome: TypeAlias = Advanced | TryAgain | Refused | Maybe


class Counter(ABC):
    """Gives numbers, each once, each higher than all before it.

    Twins, threads and forks as for :class:`~putifabsent.backends.registries.Claims`.
    """

    forgets: ClassVar[bool]
    """Whether numbers that were given can be given again to those who live: its server may lose what it has
    acknowledged. A floor that has passed them keeps them from coming again."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.identity()}>"

    @abstractmethod
    def advance(self, name: str, floor: int, count: int = 1) -> AdvanceOutcome:
        """Move the counter in one atomic step to ``count`` beyond where it is, or beyond ``floor``.

        Parameters
        ----------
        name
            Which counter: valid Unicode without NUL, not empty, of any length. One that nobody has moved is
            at 0.
        floor
            All numbers given are above it, 0 or more: a clock's milliseconds, say.
        count
            How many numbers, 1 or more. ``ValueError``: one of the two is out of range, or they make more
            than :data:`LARGEST` together.

        Returns
        -------
        AdvanceOutcome
            ``Advanced(last)``: the counter is at ``last``, and ``last - count + 1`` up to ``last`` are the
            caller's. No two calls that are answered so share a number, and one that begins after another was
            answered has higher ones. ``TryAgain`` and ``Refused`` promise that this request moved nothing and
            never will. A registry that had to learn first on which side of the floor the counter is says
            ``TryAgain``, too: the next call with this floor knows. ``Maybe``: numbers may have been skipped,
            which harms nobody: call again.
        """

    @abstractmethod
    def identity(self) -> str:
        """Return where it is, for people, without credentials. No network."""

    @abstractmethod
    def check(self) -> None:
        """Ask whether it is there, can be relied on, and may be used; raise as ``Claims.check`` does."""

    advance_async = twin(advance)


def bad_step(name: str, floor: int, count: int) -> Refused | None:
    """Return why no registry can move this counter, or None; ``ValueError``: no counter can be moved so."""
    if floor < 0 or count < 1 or floor + count > LARGEST:
        raise ValueError(
            f"a counter moves by 1 or more, from 0 or more, to 2**53 - 1: not {count} from {floor}"
        )
    return bad_identity(name, "name")


def at_its_end(name: str) -> OSError:
    """Return the error of a counter that has no such numbers left."""
    return OSError(errno.EOVERFLOW, "the counter is at its end", name)
