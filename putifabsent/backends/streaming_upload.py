"""Parts of a file that go out while it is still being written. Nothing is published here.

Only the staging is early, on the client's loop. What decides, the conditional completion above all, is left
to the protocol, which runs when the file is complete, in the thread that closes it. Whatever goes wrong
before costs time alone: the file is still there, and is staged from its beginning.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import tempfile
import threading
import time
import weakref
from abc import ABC, abstractmethod
from concurrent.futures import TimeoutError as FuturesTimeoutError
from concurrent.futures import thread  # noqa: F401 - its farewell must come after the one registered below
from typing import IO, TYPE_CHECKING

from putifabsent.backends.base import Body, Staged, read_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from concurrent.futures import Future
    from typing import Any

    from putifabsent.backends.base import Creation, StageOutcome

_PATIENCE = 10.0


class _Descriptor:
    """One of a body's own: the file may be closed in the middle of a read, and its number be another's."""

    __slots__ = ("_name", "_number")

    def __init__(self, file: IO[bytes]) -> None:
        self._number = -1
        self._name = getattr(file, "name", "the body")
        self._number = os.dup(file.fileno())

    def __del__(self) -> None:
        """Close it: no thread can be reading any more."""
        if self._number >= 0:
            os.close(self._number)

    def read(self, start: int, stop: int) -> bytes:
        return read_at(self._number, start, stop, self._name)


class Growing(Body):
    """The bytes of a file that is being written at its end, and nowhere else.

    Used in its loop's thread, except for :meth:`read`.
    """

    __slots__ = ("_complete", "_file", "_grew")

    def __init__(self, file: IO[bytes]) -> None:
        self._file = _Descriptor(file)
        self._grew = asyncio.Event()
        self._complete = False
        self.size = 0

    def read(self, start: int, stop: int) -> bytes:
        """Return ``[start, stop)``, which has been written."""
        return self._file.read(start, stop)

    def grow(self, size: int, *, complete: bool = False) -> None:
        """Say how much there is, and whether that is all."""
        self.size, self._complete = size, complete
        self._grew.set()

    async def pieces(self, length: int) -> AsyncIterator[tuple[int, int]]:
        """Give each ``[start, stop)`` of ``length`` bytes as soon as it is there, and at last the rest."""
        start = 0
        while True:
            while self.size - start >= length:
                yield start, start + length
                start += length
            if self._complete:
                break
            self._grew.clear()
            await self._grew.wait()
        if self.size > start:
            yield start, self.size


class Ahead:
    """The staging of one file that is being written: what it has so far goes out at once.

    The ``loop`` must be running in another thread than the writer's. ``stage`` leaves nothing behind if it
    fails or is cancelled; ``drop`` removes what was staged. After ``step`` bytes it is worth saying that
    there are more. The name must be created by the ``creation``, whose token goes out with the first request.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        file: IO[bytes],
        name: str,
        creation: Creation,
        stage: Callable[[Growing], Coroutine[Any, Any, StageOutcome]],
        drop: Callable[[StageOutcome], Awaitable[None]],
        step: int,
    ) -> None:
        self._over = True  # until there is something to end
        self._name = name
        self.creation = creation
        self._loop = loop
        self._stage = stage
        self._drop = drop
        self._step = step
        self._reported = 0
        self._taken = False
        self._task: asyncio.Task[StageOutcome] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._process = os.getpid()
        self._body = Growing(file)
        self._over = False
        _under_way[id(self)] = self
        self._call(self._begin)

    def __del__(self) -> None:
        """Give up: an interruption may have come before anybody held it."""
        self.give_up()

    @property
    def is_here(self) -> bool:
        """Whether it runs in this process, and not in one that this was forked from: there it is not ours."""
        return os.getpid() == self._process

    def is_for(self, name: str, creation: Creation) -> bool:
        """Whether it is of this creation, and not of another one that is given the same bytes."""
        return (self._name, self.creation.token) == (name, creation.token)

    def grown(self, size: int) -> None:
        """Say how much has been written, all of it at the end."""
        if size - self._reported >= self._step:
            self._reported = size
            self._call(self._body.grow, size)

    def give_up(self) -> None:
        """Remove what was sent, some time soon. Never waits, and does nothing where it has been taken."""
        if not self._over and self.is_here:
            self._over = True
            self._call(self._cancel)

    async def staged(self, size: int) -> Staged | None:
        """Say that the file is complete, and wait for the rest of it; on the loop, and once.

        The caller completes or discards what is returned. None: it did not work out.
        """
        if self._over or self._task is None:
            return None
        self._over = True
        self._body.grow(size, complete=True)
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            await self._end()
            raise
        # From here on it is the protocol's: where the outcome is unknown, it must stay.
        self._taken = True
        _under_way.pop(id(self), None)
        if self._task.cancelled() or self._task.exception() is not None:
            return None
        outcome = self._task.result()
        return outcome if isinstance(outcome, Staged) else None

    def end(self) -> Future[None] | None:
        """Begin to remove what was sent, before the process ends; the future is done when that is."""
        self._over = True
        if not (self.is_here and self._loop.is_running()):
            return None
        return asyncio.run_coroutine_threadsafe(self._end(), self._loop)

    def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._stage(self._body))

    def _cancel(self) -> asyncio.Task[None]:
        # Once: a second cancellation would end the removal itself.
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._undo())  # kept here, for a loop keeps no tasks
        return self._ending

    async def _end(self) -> None:
        await asyncio.wait([self._cancel()])

    async def _undo(self) -> None:
        task = self._task
        if task is not None and not self._taken:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                await self._drop(task.result())

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is about to end
            self._loop.call_soon_threadsafe(function, *arguments)


_under_way: weakref.WeakValueDictionary[int, Ahead] = weakref.WeakValueDictionary()


def _leave_nothing() -> None:
    # Its references, for other threads may begin one meanwhile.
    here = [ahead for each in _under_way.valuerefs() if (ahead := each()) is not None]
    ends = time.monotonic() + _PATIENCE
    for ending in [ahead.end() for ahead in here]:
        if ending is not None:
            with contextlib.suppress(FuturesTimeoutError):
                ending.result(max(0.0, ends - time.monotonic()))


# By the time of `atexit`, no executor takes any more work, and the client's requests need one.
threading._register_atexit(_leave_nothing)  # type: ignore[attr-defined] # it has no public name


class StagesAhead(ABC):
    """A store that can also be given a large file while it is still being written."""

    @abstractmethod
    def ahead(self, name: str, file: IO[bytes], creation: Creation) -> Ahead | None:
        """Begin to stage what is written at the end of ``file``.

        The body of the finished file takes it along (:class:`~putifabsent.backends.base.FileBody`), and
        :meth:`Store.stage` makes use of it. Returns None where nobody could run it meanwhile.
        """


class FileBody(Body):
    """A body in an open file, which may be closed before its creation is over.

    It is open for reading in binary mode, with a file descriptor; where it stands does not matter. But what
    says no size (a pipe, a terminal), or none that is true (``/proc``), is read from there to its end here
    and now. ``ahead`` is what the store has of it already.
    """

    __slots__ = ("_file", "ahead")

    def __init__(self, file: IO[bytes], ahead: Ahead | None = None) -> None:
        seen = os.fstat(file.fileno())
        self.ahead = ahead
        self.size = seen.st_size
        if stat.S_ISREG(seen.st_mode) and self.size:
            self._file = _Descriptor(file)
            return
        with tempfile.TemporaryFile() as kept:
            shutil.copyfileobj(file, kept)
            kept.flush()
            self.size = kept.tell()
            self._file = _Descriptor(kept)

    def read(self, start: int, stop: int) -> bytes:
        """Return ``[start, stop)``, without a word to the file about where it is."""
        return self._file.read(start, stop)
