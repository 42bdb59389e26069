"""A large creation that begins while its bytes are still being written: parts go out, nothing is published.

The protocol is the same as ever, in a thread of its own; its body grows, and says so when it is complete.
Whoever writes to the middle of the file again, or forks, gets the creation from the finished file instead.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from typing import IO, TYPE_CHECKING

from putifabsent.backends.body import FileBody
from putifabsent.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from putifabsent.backends.body import Body

__all__ = ["Ahead"]

# Seconds between two looks whether there is more: nobody waits for them but an upload that is ahead.
_BETWEEN_LOOKS = 0.01
_PATIENCE = 10.0


class _Growing(FileBody):
    """A file that is being written at its end, and nowhere else."""

    __slots__ = ("abandoned", "complete")

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.complete = False
        self.abandoned = False

    async def pieces(self, length: int) -> AsyncIterator[tuple[int, int]]:
        """Give each piece as soon as it is there."""
        start = 0
        while True:
            while self.size < start + length and not (self.complete or self.abandoned):  # noqa: ASYNC110 - by a thread
                await asyncio.sleep(_BETWEEN_LOOKS)
            if self.abandoned:
                raise OSError(errno.ECANCELED, "what was being written was discarded")
            yield start, (stop := min(start + length, self.size))
            if self.complete and stop == self.size:
                return
            start = stop


class Ahead:
    """A creation under way.

    Parameters
    ----------
    path, token
        Of the creation, for an interruption while it is waited for.
    create
        Creates the name from a body, for certain or with an error.
    file
        What has been written so far, and where the rest will be.
    """

    def __init__(self, path: str, token: str, create: Callable[[Body], object], file: IO[bytes]) -> None:
        self._path = path
        self._token = token
        self._create = create
        self._body = _Growing(file)
        self._error: BaseException | None = None
        self._process = os.getpid()
        # A daemon: a program that ends with the file open must not wait for bytes that never come.
        self._thread = threading.Thread(target=self._run, name="putifabsent-ahead", daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether its thread is in this process, and not in the one that this was forked from."""
        return os.getpid() == self._process

    def grown(self, size: int) -> None:
        """Say how much there is."""
        self._body.size = size

    def finish(self) -> None:
        """Say that this was all, and wait for the outcome; raises what the creation raises."""
        self._body.complete = True
        try:
            self._thread.join()
        except BaseException as error:
            # It can't be called back from here. A second interruption ends the waiting, too.
            self._thread.join()
            if self._error is None or isinstance(self._error, OutcomeUnknown):
                reason = "it was interrupted after a request had gone out"
                raise error from self._error or OutcomeUnknown(self._path, self._token, reason)
            raise
        if self._error is not None:
            raise self._error

    def abandon(self, *, wait: bool = True) -> None:
        """Discard what was sent."""
        if self.is_here:
            self._body.abandoned = True
            if wait:
                self._thread.join(_PATIENCE)

    def _run(self) -> None:
        try:
            self._create(self._body)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
