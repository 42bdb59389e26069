"""Tells whether a file is being closed because its writer is done, or because something went wrong.

Many callers close a handle in ``__exit__``, ``finally`` or ``__del__`` without saying why
(``fsspec.core.OpenFile``, pandas, pyarrow). Python's own state tells it for certain in the first and the last
case, and that it may be so in the second.
"""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

__all__ = ["Leaving", "Opening"]


class Leaving(Enum):
    """How the code that closes a file came to do so."""

    NORMALLY = "no exception that began after the file was opened is being handled"
    BY_A_BLOCK = "an exception is leaving a `with` block"
    BY_A_DESTRUCTOR = "nobody holds the object any more that was to close the file"
    BY_A_HANDLER = "an exception is being handled: by `finally`, `except`, or a block of another language"


class Opening:
    """Where a file was opened: what was going on then has nothing to do with the file."""

    __slots__ = ("_error", "_in_destructor", "_traceback")

    def __init__(self) -> None:
        self._error: BaseException | None = sys.exc_info()[1]
        self._traceback: TracebackType | None = sys.exc_info()[2]
        self._in_destructor = any(frame.f_code.co_name == "__del__" for frame in _callers())

    def leaving(self) -> Leaving:
        """Tell how the caller came to close the file."""
        _, error, traceback = sys.exc_info()
        # The same object may have been raised again meanwhile, as the result of a failed future is.
        if error is self._error and traceback is self._traceback:
            error = None
        for frame in _callers():
            name = frame.f_code.co_name
            if name == "__del__" and not self._in_destructor:
                return Leaving.BY_A_DESTRUCTOR
            if error is not None and name in ("__exit__", "__aexit__") and _is_told(frame, error):
                return Leaving.BY_A_BLOCK
        return Leaving.NORMALLY if error is None else Leaving.BY_A_HANDLER


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_told(frame: FrameType, error: BaseException) -> bool:
    return any(
        value is error or (isinstance(value, tuple) and any(item is error for item in value))
        for value in frame.f_locals.values()
    )
