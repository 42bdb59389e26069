"""The time of a server that says it in whole seconds, as HTTP's ``Date`` does, in milliseconds.

It says which second it is, so that has begun: a bound from below. From there on a steady clock goes on, and
each answer can only show that it is later. After some answers, of which one came soon after a second began,
little is missing.
"""

from __future__ import annotations

import time
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

_SECOND = 1000


def http_date(text: str | None) -> datetime | None:
    """Read HTTP's ``Date``: the second that had begun; None for none."""
    try:
        return parsedate_to_datetime(text or "").astimezone(timezone.utc)
    except (TypeError, ValueError):
        return None


class WholeSeconds:
    """What is known of one server's time by its answers, and a steady clock. For any number of threads."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        # From the steady clock to the server's, in milliseconds. Of two threads one may lose what it learnt.
        self._distance: int | None = None

    def at_date(self, date: str | None) -> int | None:
        """Return the time of an answer that has just come, or a little before, by its ``Date``.

        Milliseconds since 1970, within the second that it says; None: it says none.
        """
        second = http_date(date)
        return None if second is None else self.seen(int(second.timestamp()) * _SECOND)

    def seen(self, second: int) -> int:
        """Return the time in a second that has just been seen, by its first millisecond."""
        steady = int(self._steady() * _SECOND)
        known = second if self._distance is None else steady + self._distance
        # Who answers may be another server, whose clock is not quite the same.
        now = min(max(known, second), second + _SECOND - 1)
        self._distance = now - steady
        return now
