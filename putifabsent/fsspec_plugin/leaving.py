"""Tells whether a file is being closed because an exception is on its way.

Many callers close a handle in ``__exit__`` or ``finally`` without saying why (``fsspec.core.OpenFile``,
pandas, pyarrow). Python's own state tells it for certain in the first case, and that it may be so in the
second.
"""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Leaving", "leaving"]


class Leaving(Enum):
    """How the code that closes a file came to do so."""

    NORMALLY = "no exception that began after the file was opened is being handled"
    BY_A_BLOCK = "an exception is leaving a `with` block"
    BY_A_HANDLER = "an exception is being handled: by `finally`, `except`, or a block of another language"


def leaving(exception_at_open: BaseException | None) -> Leaving:
    """Tell how the caller came to close a file.

    Parameters
    ----------
    exception_at_open
        ``sys.exc_info()[1]`` when the file was opened: that one has nothing to do with the file.
    """
    error = sys.exc_info()[1]
    if error is None or error is exception_at_open:
        return Leaving.NORMALLY
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in ("__exit__", "__aexit__"):
            for value in frame.f_locals.values():
                if value is error or (isinstance(value, tuple) and any(item is error for item in value)):
                    return Leaving.BY_A_BLOCK
        frame = frame.f_back
    return Leaving.BY_A_HANDLER
