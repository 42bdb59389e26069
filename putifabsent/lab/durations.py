"""Durations, as people write them."""

from __future__ import annotations

import re
from fractions import Fraction

from putifabsent.errors import ConfigError

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(-?\d+(?:\.\d+)?) ?(ms|s|m|min|h|d)", re.ASCII)


def parse(text: str, what: str) -> int:
    """Return the milliseconds of ``500ms``, ``90s``, ``1m``, ``1.5h`` or ``7d``.

    ``ConfigError``, for anything else and for a part of a millisecond, names ``what`` it is of.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{what} is {text!r}: give a number and its unit, as in 500ms, 90s, 1m, 24h or 7d")
    number, unit = match.groups()
    milliseconds = Fraction(number) * _UNITS["m" if unit == "min" else unit]
    if milliseconds.denominator != 1:
        raise ConfigError(f"{what} is {text!r}: give whole milliseconds")
    return int(milliseconds)


def formatted(milliseconds: int) -> str:
    """Return a span of time in the largest unit of which it is a whole number: ``24 h``, ``7 d``."""
    for unit, size in reversed(_UNITS.items()):
        # A day is better known as 24 hours.
        if milliseconds >= size and milliseconds % size == 0 and (unit, milliseconds) != ("d", size):
            return f"{milliseconds // size} {'min' if unit == 'm' else unit}"
    return "0 ms"
