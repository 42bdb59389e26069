"""How many schedules at random a proof plays: all, or with ``SHORT``, what a run of minutes has time for."""

from __future__ import annotations

import os

import pytest

__all__ = ["AT_RANDOM", "SEEDS"]

_PARTS = 8

AT_RANDOM = (800 if os.environ.get("SHORT") else 100_000) // _PARTS
"""So many with each seed."""

SEEDS = pytest.mark.parametrize("seed", [1000 * (1 + part) for part in range(_PARTS)])
