"""How many schedules a proof plays."""

from __future__ import annotations

import pytest

__all__ = ["AT_RANDOM", "MOST", "SEEDS"]

_PARTS = 8

AT_RANDOM = 32_000 // _PARTS
"""So many at random with each seed."""

MOST = 1_000_000
"""So many states of a long scenario, those of short schedules first."""

SEEDS = pytest.mark.parametrize("seed", [1000 * (1 + part) for part in range(_PARTS)])
