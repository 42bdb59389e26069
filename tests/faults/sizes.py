"""How large a race is: 64 writers and 200 names are for `make test-servers`, on a disk."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Size", "size"]


class Size(NamedTuple):
    """Writers and names of a race."""

    processes: int
    threads: int
    names: int


def size(where: str, *, is_long: bool) -> Size:
    """Return the size of a race in a place."""
    if not is_long:
        return Size(2, 4, 12)
    # A bucket server in Python answers some hundred requests a second, all writers together.
    return Size(8, 8, 200) if where == "disk" else Size(2, 4, 30)
