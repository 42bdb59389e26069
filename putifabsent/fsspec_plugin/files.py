"""How a file is opened: for reading as the wrapped filesystem does, for writing whole or not at all.

The functions are methods of a guarded filesystem's class. What is written to a guarded name is kept here, in
memory and then on disk, until the file is closed; then the name is created from it in one step. An exception
on the way, or a handle that nobody holds any more, discards it.
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
from collections.abc import Callable, Iterable
from functools import partial
from typing import IO, TYPE_CHECKING, Any, NoReturn

from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.spec import AbstractFileSystem

from putifabsent.backends.base import Body, InMemory, write_all
from putifabsent.backends.streaming_upload import Ahead, FileBody
from putifabsent.fsspec_plugin.queries import read_by

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from putifabsent.fsspec_plugin.filesystem import GuardedFileSystem
    from putifabsent.shim.names import Name

_log = logging.getLogger(__name__)

IN_MEMORY = 16 * 2**20
"""Bytes kept in memory before they go to a temporary file; what is sent in one put needs no disk."""

_MISTAKEN = (FileExistsError, StopIteration, StopAsyncIteration, GeneratorExit, SystemExit)
"""What a refused ``close`` must not raise: the first says that a name is taken, the others end unheard."""

_HOW_IT_IS_READ = ("block_size", "cache_type", "cache_options")
"""Options of fsspec's that mean nothing to who writes."""


def open(  # noqa: A001 - fsspec's name for it
    fs: GuardedFileSystem,
    path: Any,
    mode: str = "rb",
    block_size: int | None = None,
    cache_options: dict[str, Any] | None = None,
    compression: str | None = None,
    **kwargs: Any,
) -> Any:
    """Open a file; for writing, a guarded name is created, complete, when it is closed.

    ``NameTaken``: at once, where the name is seen to be taken, and for certain when the file is closed.
    ``io.UnsupportedOperation``: to append to a guarded name, or to change it, for its bytes don't change.
    """
    common = {"block_size": block_size, "cache_options": cache_options, **kwargs}
    name = _name_to_write(fs, path, mode)
    if name is not None:
        return _opened(partial(_begun, fs, name), name.path, mode, compression, common)
    if _would_give_itself(fs, path, mode):
        return AbstractFileSystem.open(fs, path, mode, compression=compression, **common)
    if "r" in mode:
        return read_by(fs, "open", path, mode, compression=compression, **common)
    return fs.fs.open(fs.guard.written_as(path), mode, compression=compression, **common)


def open_binary(fs: GuardedFileSystem, path: str, mode: str = "rb", **kwargs: Any) -> Any:
    """Open in binary mode; other wrapping filesystems call this one."""
    name = _name_to_write(fs, path, mode)
    if name is not None:
        return _begun(fs, name, mode, **kwargs)
    if "r" not in mode:
        return fs.fs._open(fs.guard.written_as(path), mode, **kwargs)
    file = read_by(fs, "_open", path, mode, **kwargs)
    return ReadOnlyBytes(file.path, file.getvalue()) if _would_give_itself(fs, path, mode) else file


async def open_async(fs: GuardedFileSystem, path: str, mode: str = "rb", **kwargs: Any) -> Any:
    """Open asynchronously; guarded names are written with ``_pipe_file`` or ``_put_file`` instead."""
    if "r" not in mode or "+" in mode:
        name = await fs.mount.walk_async(fs.guard.promoting(path, explicit="x" in mode))
        if name is not None:
            msg = f"{name.path} is guarded: write it whole, by _pipe_file or _put_file"
            raise io.UnsupportedOperation(msg)
        path = fs.guard.written_as(path)
    elif not fs.guard.reads.plainly(path):
        located = await fs.mount.walk_async(fs.guard.reads.seek(path, helps=True))
        path = path if located is None else located.path
    return await fs.fs.open_async(fs._own(path), mode, **kwargs)


def _would_give_itself(fs: GuardedFileSystem, path: Any, mode: str) -> bool:
    # What memory hands out for reading is the object itself, and can be written.
    return fs.mount.kind == "memory" and "r" in mode and "+" not in mode and fs.explain(path).guarded


def _name_to_write(fs: GuardedFileSystem, path: Any, mode: str) -> Name | None:
    if "r" in mode and "+" not in mode:
        return None
    name: Name | None = fs.mount.walk(fs.guard.promoting(path, explicit="x" in mode))
    if name is not None:
        _check_mode(name.path, mode)
    return name


def _begun(
    fs: GuardedFileSystem, name: Name, mode: str, autocommit: bool | None = None, **options: Any
) -> GuardedFile:
    extra = {key: value for key, value in options.items() if key not in _HOW_IT_IS_READ}
    fs.guard.look_early(name)
    fs.guard.refuse_orphan(name)
    under_way = fs.mount.transaction if fs._intrans else None
    commits = under_way is None if autocommit is None else autocommit
    file = GuardedFile(
        name.path,
        mode,
        lambda body: fs.mount.walk(fs.guard.creating(name, body, extra)),
        autocommit=commits,
        ahead=lambda file: fs.guard.stage_ahead(name, file, extra),
    )
    if not commits and under_way is not None:
        under_way.files.append(file)
    return file


def _check_mode(path: str, mode: str) -> None:
    """Refuse a mode in which nobody can open a guarded name to write it.

    ``ValueError``: it is none; ``io.UnsupportedOperation``: it appends, or changes what is there.
    """
    letters = {*mode}
    is_known = len(letters) == len(mode) and letters <= {*"rwxabt+"}
    if not is_known or len(letters & {*"rwxa"}) != 1 or letters >= {*"bt"}:
        raise ValueError(f"invalid mode: {mode!r}")
    if "a" in mode or "r" in mode:
        msg = f"{path} is guarded: its bytes don't change, so it can't be opened with mode {mode!r}"
        raise io.UnsupportedOperation(msg)


def _opened(
    begin: Callable[..., GuardedFile], path: str, mode: str, compression: str | None, options: dict[str, Any]
) -> Any:
    """Return a file as ``open`` gives it: of text, or compressed, if that is requested."""
    text = {key: options.pop(key) for key in ("encoding", "errors", "newline") if key in options}
    file: Any = begin(mode.replace("t", "").replace("b", "") + "b", **options)
    if compression is not None:
        file = CompressedFile(compr[get_compression(path, compression)](file, mode="w"), file)
    return file if "b" in mode else GuardedText(file, **text)


# --- open for writing


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
        """Say that a write has failed before; an interruption stays one, and so does what says the name."""
        if isinstance(error, OSError) and error.filename == self.path:
            raise error
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
        if self._broken is not None and self._spool.closed:
            raise self._broken

    def _without_room(self, error: OSError) -> OSError:
        # It stays open, for who has not heard of it hears it when it is closed.
        self._pending = False
        self._forget()
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
