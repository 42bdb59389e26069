"""The bytes of a creation: immutable, of known size, readable again; and a store that takes them whole.

A creation may have to be sent more than once, so its bytes must be there more than once: in memory,
in a file, or in an object of the store itself.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from typing import IO, TYPE_CHECKING

from putifabsent.backends.base import Absent, Created, Found, Gone, Got, Refused, Staged, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.backends.base import CompleteOutcome, Creation, StageOutcome


class Body(ABC):
    """Bytes that can be read any number of times, by any number of threads."""

    __slots__ = ("size",)
    size: int  # bytes in all

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
        return self.data[start:stop]

    def whole(self) -> bytes:
        """Return the bytes themselves, uncopied."""
        return self.data


def read_at(file: int, start: int, stop: int, name: object) -> bytes:
    """Return ``[start, stop)`` by positioned reads, so that threads don't disturb each other."""
    pieces = []
    while start < stop:
        piece = os.pread(file, stop - start, start)
        if not piece:
            raise OSError(f"{name!s} became shorter while it was being sent")
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_all(file: IO[bytes], view: memoryview) -> None:
    """Write all of ``view``: a file without a buffer may take less than it is given."""
    while view:
        view = view[file.write(view) :]


def read_whole(body: Body) -> bytes | Refused:
    """Return all bytes of ``body``, or why they can't be read.

    Apart from the request that sends them: an OSError of the one is a lost answer, of the other it is not.
    """
    try:
        return body.whole()
    except OSError as error:
        return Refused(error)


class WholeStore(Store):
    """A store whose :meth:`create` takes a body of any size."""

    largest_put = sys.maxsize

    def stage(self, name: str, body: Body, creation: Creation) -> StageOutcome:
        """Keep the body; nothing reaches the store yet."""
        # A list, for it can be emptied: what was published or discarded can't be published any more.
        return Staged(name, [(body, creation)])

    def stage_copy(
        self, source: str, size: int, version: str | None, name: str, creation: Creation
    ) -> StageOutcome:
        """Read the source, and keep its bytes."""
        del size
        seen = self.head(source)
        if not isinstance(seen, Found):
            return seen
        if version is not None and seen.holder.version != version:
            return Absent()
        got = self.get(source)
        return self.stage(name, InMemory(got.data), creation) if isinstance(got, Got) else got

    def complete(self, staged: Staged) -> CompleteOutcome:
        """Create the name from the kept body."""
        kept = tuple(staged.upload)
        if not kept:
            return Gone()
        outcome = self.create(staged.name, *kept[0])
        if isinstance(outcome, Created):
            staged.upload.clear()
        return outcome

    def discard(self, staged: Staged) -> None:
        """Forget the body; nothing was sent."""
        staged.upload.clear()
