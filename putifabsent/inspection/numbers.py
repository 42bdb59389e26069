"""Gaps among numbers of which expiry takes away the oldest ones alone."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["gaps_in"]


def gaps_in(numbers: Iterable[int]) -> Iterator[range]:
    """Return the runs of numbers that are missing between the lowest one and the highest one."""
    there = sorted(set(numbers))
    for before, after in pairwise(there):
        if after > before + 1:
            yield range(before + 1, after)
