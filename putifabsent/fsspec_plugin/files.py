"""Files that are written whole or not at all.

Bytes are kept here, in memory and then on disk, until the file is closed; then the name is created from them
in one step. An exception on the way, or a handle that nobody holds any more, discards them.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Any, NoReturn

from fsspec.transaction import Transaction

from putifabsent.backends.body import Body, InMemory, write_all
from putifabsent.backends.streaming_upload import Ahead, FileBody

if TYPE_CHECKING:
    from typing_extensions import Buffer

_log = logging.getLogger(__name__)

IN_MEMORY = 16 * 2**20
"""Bytes kept in memory before they go to a temporary file; what is sent in one put needs no disk."""

_MISTAKEN = (FileExistsError, StopIteration, StopAsyncIteration, GeneratorExit, SystemExit)
"""What a refused ``close`` must not raise: the first says that a name is taken, the others end unheard."""


def _end_of_block(file: Any, kind: type[BaseException] | None, *_: object) -> None:
    """Create the name at the end of a ``with`` block, or discard when an exception leaves it."""
    if kind is not None:
        file.discard()
        return
    try:
        if not file.closed:
            file.flush()  # a text layer has its last bytes yet: who is interrupted here has not written all
    except BaseException:
        file.discard()
        raise
    file.finish()
    file.close()


class GuardedFile(io.BufferedIOBase):
    """A guarded name, open for writing in mode ``"wb"``, ``"xb"``, ``"w+b"`` or ``"x+b"``.

    ``create`` creates the name from a body, for certain or with an error: with ``autocommit`` when the file
    is closed, else when :meth:`commit` is called (a transaction). ``ahead`` begins to stage what goes to
    disk, where the store can; what a transaction defers is not begun.

    An exception that leaves its ``with`` block discards, and so does dropping it. ``close`` creates the name,
    wherever it is called from, with one exception. While an exception is being handled that began after the
    file was opened, the bytes may be half a file: ``fsspec.open`` and ``contextlib.closing`` close what an
    exception leaves behind just as a caller does who has caught it and is done. Nothing tells the two apart,
    so the file is discarded, and ``close`` raises. Who wants it created there ends a ``with`` block of it.

    In a forked child the parent's file can only be discarded: they would write to one temporary file.
    """

    def __init__(
        self,
        path: str,
        mode: str,
        create: Callable[[Body], object],
        *,
        autocommit: bool,
        ahead: Callable[[IO[bytes]], Ahead | None] = lambda _: None,
    ) -> None:
        self.path = path
        self.mode = mode
        self.autocommit = autocommit
        self._create = create
        self._begin = ahead
        self._ahead: Ahead | None = None
        self._spool: IO[bytes] = io.BytesIO()
        self._turns = threading.RLock()  # threads that share a handle write one after the other
        self._pending = True
        self._dropped = False
        self._broken: BaseException | None = None
        self._finished = False
        self._outlived = False
        self._process = os.getpid()
        self._handled_before = sys.exc_info()[1:]  # has nothing to do with this file

    @property
    def name(self) -> str:
        return self.path

    def readable(self) -> bool:
        return "+" in self.mode

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        try:
            view = memoryview(data)
            if self._dropped:
                return view.nbytes  # from a layer above that is collected later than this one
            self._check_open()
            if not view.nbytes:
                return 0  # an empty view can't be cast
            with self._turns:
                self._keep(view.cast("B"))
        except (BufferError, TypeError, ValueError):
            raise  # of what was given: nothing of it was kept
        except BaseException as error:
            self._broken = error  # a text layer that flushes as it is closed closes this one all the same
            raise
        return view.nbytes

    def _keep(self, view: memoryview) -> None:
        begins = False
        try:
            if isinstance(self._spool, io.BytesIO) and self._spool.tell() + len(view) > IN_MEMORY:
                begins = self._to_disk(self._spool) and self.autocommit
            write_all(self._spool, view)
        except OSError as error:
            raise self._without_room(error) from error
        if begins:
            # The bytes are kept: whatever is wrong, the end of the file says it.
            with contextlib.suppress(Exception):
                self._ahead = self._begin(self._spool)
        if (ahead := self._ahead_here()) is not None:
            ahead.grown(self._spool.tell())

    def read(self, size: int | None = -1, /) -> bytes:
        if not self.readable():
            raise io.UnsupportedOperation("read")
        self._check_open()
        return self._spool.read(-1 if size is None else size)

    read1 = read  # which a text layer asks for

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._check_open()
        with self._turns:
            before = self._spool.tell()
            after = self._spool.seek(offset, whence)
            if after != before:
                self._give_up_ahead()
        return after

    def tell(self) -> int:
        self._check_open()
        return self._spool.tell()

    def truncate(self, size: int | None = None, /) -> int:
        self._check_open()
        with self._turns:
            self._give_up_ahead()
            end = self._spool.tell() if size is None else size
            if isinstance(self._spool, io.BytesIO) and end > len(self._spool.getbuffer()):
                self._to_disk(self._spool)  # where a file grows by it
            return self._spool.truncate(end)

    def flush(self, force: bool = False) -> None:
        """Do nothing: nobody can see the bytes before the file is complete."""

    def close(self) -> None:
        """Create the name, once; or discard, and raise (see the notes of the class)."""
        if self.closed:
            return
        super().close()
        error = self._handled()
        if self._dropped:
            self.discard()
        elif not self._is_here():
            self.discard()
            raise self._of_the_parent()
        elif self._broken is not None:
            self.discard()
            self._refuse_half(self._broken)
        elif error is not None and not self._finished:
            self.discard()
            self._refuse(error)
        elif self.autocommit:
            self.commit()

    def finish(self) -> None:
        """Say that all has been written: closing creates the name, whatever is being handled.

        ``ValueError``: its transaction has ended before.
        """
        if self._outlived:
            raise ValueError(f"{self.path}: its transaction ended before it was closed: it was discarded")
        self._finished = True

    def outlived(self) -> None:
        """Say that its transaction ends: if it is open, it was never in it."""
        self._outlived = not self.closed

    def commit(self) -> None:
        """Create the name from what was written, or raise as the creation does.

        ``ValueError``: it is still open, and a text layer above may hold its last bytes.
        """
        if not self._pending:
            return
        if not self._is_here():
            self.discard()
            raise self._of_the_parent()
        if not self.closed:
            self.outlived()
            self.discard()
            msg = f"{self.path}: committed before it was closed: it may be half a file, and was discarded"
            raise ValueError(msg)
        self._pending = False
        try:
            if isinstance(self._spool, io.BytesIO):
                self._create(InMemory(self._spool.getvalue()))
            else:
                self._create(FileBody(self._spool, self._ahead_here()))
        finally:
            self._forget()

    def discard(self) -> None:
        """Forget what was written: no name, no trace."""
        self._pending = False
        self._forget()
        super().close()

    __exit__ = _end_of_block

    def __del__(self) -> None:
        """Discard: a handle that nobody holds was never finished."""
        if getattr(self, "_pending", False) and not self.closed:
            self._dropped = True
            self.discard()

    def _dealloc_warn(self, source: object) -> None:
        # CPython's text layer calls this when it is collected, just before it closes what is below.
        del source
        self._dropped = True

    def _handled(self) -> BaseException | None:
        """Return the exception that is being handled, if that began after the file was opened."""
        _, error, traceback = sys.exc_info()
        before, its_traceback = self._handled_before
        # The same object may have been raised again meanwhile, as the result of a failed future is.
        return None if error is before and traceback is its_traceback else error

    def _refuse(self, error: BaseException) -> NoReturn:
        """Let an exception go on that may have cut the file short; whoever had caught it hears why."""
        why = (
            f"{self.path}: closed while {type(error).__name__} was being handled: the bytes may be half a "
            f"file, and were discarded. If they are all there, close it by a `with` block of its own"
        )
        if isinstance(error, _MISTAKEN):
            raise OSError(why) from error
        _log.warning("%s", why)
        raise error

    def _refuse_half(self, error: BaseException) -> NoReturn:
        """Say that a write has failed before; an interruption stays one."""
        why = f"{self.path}: {type(error).__name__} ended a write: it is half a file, and was discarded"
        raise (KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else OSError)(why) from error

    def _is_here(self) -> bool:
        return os.getpid() == self._process

    def _of_the_parent(self) -> OSError:
        why = f"process {self._process} opened it, and this one was forked from that: open a file here"
        return OSError(errno.EBADF, why, self.path)

    def _check_open(self) -> None:
        if not self._is_here():
            raise self._of_the_parent()
        if self.closed:
            raise ValueError(f"{self.path}: I/O operation on a closed file")

    def _without_room(self, error: OSError) -> OSError:
        self.discard()
        folder = tempfile.gettempdir()
        why = f"what is written can't be kept in {folder} until it is complete: {error.strerror}"
        return OSError(error.errno, f"{why}. Set TMPDIR to a folder with room", self.path)

    def _ahead_here(self) -> Ahead | None:
        # In a forked child the file is another creation.
        return self._ahead if self._ahead is not None and self._ahead.is_here else None

    def _give_up_ahead(self) -> None:
        if (ahead := self._ahead_here()) is not None:
            ahead.give_up()
        self._ahead = None

    def _forget(self) -> None:
        self._give_up_ahead()
        with contextlib.suppress(OSError):  # a temporary file, of which nothing is wanted any more
            self._spool.close()

    def _to_disk(self, kept: io.BytesIO) -> bool:
        """Move what is kept to a file; return whether the writer is at its end."""
        place, written = kept.tell(), memoryview(kept.getvalue())
        # Without a buffer: a forked child would flush its copy of it into this file when it exits.
        spool = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by commit or discard
        write_all(spool, written)
        at_end = spool.seek(place) == len(written)
        self._spool = spool  # at last, for an interruption must not lose what is kept
        return at_end


class GuardedText(io.TextIOWrapper):
    """Text over a guarded file; it discards where the file below would."""

    buffer: Any

    def close(self) -> None:
        """Hand down the last bytes, then create the name; what can't be handed down is discarded."""
        if not self.closed:
            try:
                self.flush()
            except BaseException:
                self.discard()  # the layer's own way goes on, and closes the file below
                raise
        super().close()

    def finish(self) -> None:
        self.buffer.finish()

    def discard(self) -> None:
        self.buffer.discard()

    __exit__ = _end_of_block


class CompressedFile(io.BufferedIOBase):
    """A compressor over a guarded file: closing completes both, an exception discards both."""

    def __init__(self, compressor: Any, below: GuardedFile) -> None:
        self._compressor = compressor
        self._below = below

    def writable(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return self._below.path

    def tell(self) -> int:
        return int(self._compressor.tell())

    def write(self, data: Buffer, /) -> int:
        self._compressor.write(data)
        return memoryview(data).nbytes

    def close(self) -> None:
        if not self.closed:
            super().close()
            try:
                self._compressor.close()
            except BaseException:
                self.discard()
                raise
            self._below.close()

    def finish(self) -> None:
        self._below.finish()

    def discard(self) -> None:
        self._below._dealloc_warn(self)
        with contextlib.suppress(Exception):
            self._compressor.close()  # now, for its destructor would complain that the file is closed
        self._below.discard()
        super().close()

    __exit__ = _end_of_block

    def __del__(self) -> None:
        if not self.closed:
            self.discard()

    def _dealloc_warn(self, source: object) -> None:
        self._below._dealloc_warn(source)


class ReadOnlyBytes(io.BytesIO):
    """The bytes of a name, open for reading, where the store would hand out the object itself."""

    mode = "rb"

    def __init__(self, path: str, data: bytes) -> None:
        super().__init__(data)
        self.path = path
        self.size = len(data)

    def writable(self) -> bool:
        return False

    def write(self, data: Buffer, /) -> int:
        raise io.UnsupportedOperation("write")

    def writelines(self, lines: Iterable[Buffer], /) -> None:
        raise io.UnsupportedOperation("writelines")

    def truncate(self, size: int | None = None, /) -> int:
        raise io.UnsupportedOperation("truncate")


_begun: ContextVar[tuple[JointTransaction, ...]] = ContextVar("_begun", default=())


class JointTransaction(Transaction):
    """One transaction of the guarded and the wrapped filesystem, which ends whatever its files do.

    It is of the thread, or the task, that has begun it, and of what those begin: fsspec keeps filesystems for
    all of a process, and nobody else knows that what they write is deferred.

    fsspec 2025 leaves a transaction open where a commit fails, and a name that is taken is such a
    failure: every later write would be deferred, and never be committed.
    """

    fs: Any
    files: deque[Any]
    deferring: Any = None

    @property
    def is_here(self) -> bool:
        """Whether who asks has begun it."""
        return self in _begun.get()

    def start(self) -> None:
        """Defer what either filesystem opens here from now on, and nothing that others open.

        ``ValueError``: another is under way, and what that has deferred would be forgotten.
        """
        if (fs := self.fs) is None:
            raise ValueError("this transaction has ended: begin another, by `with fs.transaction`")
        mount = fs.mount
        with mount.beginning:
            if mount.transaction is not None or self.fs is None:
                fs._transaction = mount.transaction
                msg = (
                    "a transaction of this filesystem is under way: before the next one call "
                    "end_transaction(), which commits it, or transaction.complete(commit=False)"
                )
                raise ValueError(msg)
            super().start()
            shared = mount.fs
            self.deferring = object.__new__(type(shared))
            self.deferring.__dict__.update(shared.__dict__, _intrans=True, _transaction=self)
            _begun.set((*_begun.get(), self))
            mount.transaction = self

    def complete(self, commit: bool = True) -> None:
        """Commit all files in order, or discard them; after one that fails, discard the rest."""
        try:
            while self.files:
                file: Any = self.files[0]
                file.commit() if commit else _discard(file)
                self.files.popleft()
        finally:
            try:
                for file in self.files:
                    with contextlib.suppress(Exception):
                        _discard(file)
            finally:  # a second interrupt, too, leaves nobody deferring
                self._end()

    def _end(self) -> None:
        self.files.clear()
        fs = self.fs
        with fs.mount.beginning:
            if fs.mount.transaction in (self, None):  # of one that has not begun, another may be under way
                fs._transaction = fs.mount.transaction = None
            self.fs = None
        if self.deferring is not None:  # somebody may have kept it, as `fs.fs`
            self.deferring._intrans, self.deferring._transaction = False, None
            self.deferring = None
        _begun.set(tuple(each for each in _begun.get() if each is not self))

    def leave_to_parent(self) -> None:
        """In a forked child: who has begun it ends it, with its files; what is written here is not of it."""
        self.files, self.deferring = deque(), None
        self.fs._transaction = self.fs.mount.transaction = None


def _discard(file: Any) -> None:
    if isinstance(file, GuardedFile):
        file.outlived()
    file.discard()
