"""The bytes of a creation: immutable, of known size, readable again.

A creation may have to be sent more than once, so its bytes must be there more than once: in memory,
in a file, or in an object of the store itself.
"""

from __future__ import annotations

import os
import stat
import tempfile
from abc import ABC, abstractmethod
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.backends.ahead import Ahead

__all__ = ["Body", "FileBody", "InMemory", "read_at", "write_all"]


_PIECE = 2**20


class Body(ABC):
    """Bytes that can be read any number of times, by any number of threads.

    Attributes
    ----------
    size
        Bytes in all.
    """

    __slots__ = ("size",)
    size: int

    @abstractmethod
    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes ``[start, stop)``; a body that has changed underneath raises OSError."""

    def ranges(self, length: int) -> Iterator[tuple[int, int]]:
        """Cut the body into ``[start, stop)`` ranges of at most ``length`` bytes, one even if empty."""
        for start in range(0, max(self.size, 1), length):
            yield start, min(start + length, self.size)

    def whole(self) -> bytes:
        """Return all bytes at once."""
        return self.read(0, self.size)


class InMemory(Body):
    """A body in memory."""

    __slots__ = ("data",)

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        # A caller's buffer may change under a second send; bytes can't. And `bytes` takes numbers, too.
        self.data = data if type(data) is bytes else bytes(memoryview(data))
        self.size = len(self.data)

    def read(self, start: int, stop: int) -> bytes:
        """Return ``[start, stop)``."""
        return self.data[start:stop]

    def whole(self) -> bytes:
        """Return the bytes themselves, uncopied."""
        return self.data


class FileBody(Body):
    """A body in an open file, which stays open as long as its creation may need it.

    Parameters
    ----------
    file
        Open for reading in binary mode, with a file descriptor. Its position is left alone. What says no
        size (a pipe, a terminal), or none that is true (``/proc``), is read to its end here and now.
    ahead
        What the store has of it already.
    """

    __slots__ = ("ahead", "file")

    def __init__(self, file: IO[bytes], ahead: Ahead | None = None) -> None:
        seen = os.fstat(file.fileno())
        self.file = file
        self.ahead = ahead
        self.size = seen.st_size
        is_file = stat.S_ISREG(seen.st_mode)
        if not (is_file and self.size):
            self._keep(file.fileno(), is_file=is_file)

    def read(self, start: int, stop: int) -> bytes:
        """Return ``[start, stop)``, without a word to the file about where it is."""
        if start == stop:
            return b""  # of a pipe that gave nothing: it may be closed
        return read_at(self.file.fileno(), start, stop, getattr(self.file, "name", "the body"))

    def _keep(self, file: int, *, is_file: bool) -> None:
        """Take over all that ``file`` gives until it ends."""
        self.size = 0
        while piece := os.pread(file, _PIECE, self.size) if is_file else os.read(file, _PIECE):
            if not self.size:
                # Without a name, it goes with this body.
                self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed with the body
            self.size += len(piece)
            write_all(self.file, memoryview(piece))


def read_at(file: int, start: int, stop: int, name: object) -> bytes:
    """Return ``[start, stop)`` by positioned reads, so that threads don't disturb each other."""
    pieces = []
    while start < stop:
        piece = os.pread(file, stop - start, start)
        if not piece:
            msg = f"{name!s} became shorter while it was being sent"
            raise OSError(msg)
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_all(file: IO[bytes], view: memoryview) -> None:
    """Write all of ``view``: a file without a buffer may take less than it is given."""
    while view:
        view = view[file.write(view) :]
