"""What happens to writers by chance, in one run or in another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from putifabsent.lab.stress.pool import Stress
    from putifabsent.lab.stress.results import Result

__all__ = ["soon"]

_TIMES = 5


def soon(happens: Callable[[Result], bool], what: Stress, run: Callable[[Stress], Result]) -> bool:
    """Whether it does happen, in one of several runs by other seeds."""
    return any(happens(run(replace(what, seed=seed))) for seed in range(_TIMES))
