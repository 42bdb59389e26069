"""What can't be read: reported beside what can, or raised where nobody asked for a report."""

from __future__ import annotations

import errno
from enum import Enum
from typing import NamedTuple

__all__ = ["Problem", "Problems", "Trouble", "report"]


class Trouble(str, Enum):
    """Why something can't be read.

    ==============  ==========================================================================
    ``missing``     another file names it, and it is not there
    ``empty``       it has no bytes, where its format always writes some
    ``unreadable``  it is torn, or not what its name says
    ``unknown``     it is of a version that is not known
    ==============  ==========================================================================
    """

    MISSING = "missing"
    EMPTY = "empty"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"


class Problem(NamedTuple):
    """One file, or one record of it, that can't be read. Nothing is guessed in its place.

    Attributes
    ----------
    path
        Which.
    trouble
        Why.
    reason
        The same, for people.
    """

    path: str
    trouble: Trouble
    reason: str

    def error(self) -> OSError:
        """Return the error that says so."""
        number = errno.ENOENT if self.trouble is Trouble.MISSING else errno.EINVAL
        return OSError(number, self.reason, self.path)


Problems = list[Problem]
"""Takes what can't be read. A reader that is given none raises the first problem: an :class:`OSError`."""


def report(problems: Problems | None, problem: Problem, cause: Exception | None = None) -> None:
    """Add a problem to those reported, or raise it."""
    if problems is None:
        raise problem.error() from cause
    if problem not in problems:
        problems.append(problem)
