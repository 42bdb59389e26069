"""What a forked child must not share with its parent: sockets, event loops, locks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Something with sockets and locks: a forked child makes its own.

    Two threads may make one at the same time; either is as good.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: tuple[int, T] | None = None
        self._parents: list[T] = []

    def __call__(self) -> T:
        """Return this process's own."""
        made = self._made
        if made is None or made[0] != os.getpid():
            if made is not None:
                # Dropped here, the parent's would be closed here; and as parent and child share the kernel's
                # list of what an event loop waits for (epoll), the parent would wait for ever.
                self._parents.append(made[1])
            made = self._made = (os.getpid(), self._make())
        return made[1]
