"""The time of a server that says it in whole seconds, as HTTP's ``Date`` does, in milliseconds.

It says which second it is, so that has begun: a bound from below. From there on a steady clock goes on, and
each answer can only show that it is later. After some answers, of which one came soon after a second began,
little is missing.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WholeSeconds"]

_SECOND = 1000


class WholeSeconds:
    """What one server's answers have said of its time. For any number of threads.

    Parameters
    ----------
    steady
        Seconds that only go on.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        # From the steady clock to the server's, in milliseconds. Of two threads one may lose what it learnt.
        self._distance: int | None = None

    def said(self, date: str | None) -> int | None:
        """Return the time of an answer, or a little before: milliseconds since 1970.

        Parameters
        ----------
        date
            What the answer, which has just come, says: ``Sun, 22 Nov 2026 12:00:00 GMT``.

        Returns
        -------
        int or None
            Within the second that the answer says. None: it says none.
        """
        try:
            second = int(parsedate_to_datetime(date or "").timestamp()) * _SECOND
        except (TypeError, ValueError):
            return None
        return self.seen(second)

    def seen(self, second: int) -> int:
        """Return the time in a second that has just been seen, by its first millisecond."""
        steady = int(self._steady() * _SECOND)
        known = second if self._distance is None else steady + self._distance
        # Who answers may be another server, whose clock is not quite the same.
        now = min(max(known, second), second + _SECOND - 1)
        self._distance = now - steady
        return now
