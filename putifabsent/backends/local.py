"""Local disk: ``link(2)`` is the condition; what is acknowledged has reached the disk.

The bytes go to a temporary file first, which is complete and durable before it gets the name. So a reader
never sees half a file, and a writer that dies leaves none.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, ClassVar

from putifabsent.backends.base import (
    TOKEN_KEY,
    WRITER_KEY,
    Absent,
    Created,
    Deleted,
    Entry,
    Exists,
    Found,
    Got,
    Holder,
    Listed,
    Maybe,
    Refused,
    TryAgain,
)
from putifabsent.backends.refusals import unsupported
from putifabsent.backends.whole import WholeStore
from putifabsent.errors import UnsafeStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.backends.base import (
        CreateOutcome,
        Creation,
        DeleteOutcome,
        GetOutcome,
        HeadOutcome,
        ListOutcome,
    )
    from putifabsent.backends.body import Body

__all__ = ["LocalStore"]

_PIECE = 8 * 2**20
_TOKEN = f"user.{TOKEN_KEY}"
_WRITER = f"user.{WRITER_KEY}"
_NO_ATTRIBUTES = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_LOST = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EINTR}


class LocalStore(WholeStore):
    """A POSIX filesystem with hard links and extended attributes (ext4, xfs, btrfs, NFSv4.2)."""

    kind: ClassVar[str] = "local"

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        """Write and sync a temporary file, link it to the name, sync the folder."""
        if sys.platform != "linux":
            return Refused(UnsafeStore("local disk is guarded on Linux only: it needs extended attributes"))
        if creation.extra:
            return Refused(unsupported(self.kind, creation.extra))
        try:
            folder = os.path.dirname(name)
            obstacle = _obstacle(folder, name)
            if obstacle is not None:
                return Refused(obstacle)
            if os.path.lexists(name):
                return _taken(folder)
            with _temporary(body, creation, name) as (temporary, file):
                return _link(temporary, file, name, creation.token)
        except UnsafeStore as error:
            return Refused(error)
        except OSError as error:
            return Refused(_about(name, error))

    def head(self, name: str) -> HeadOutcome:
        """Read the token from the file's extended attributes; its version is that token."""
        try:
            file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return Absent()
        except PermissionError as error:
            return _anothers(name) or Refused(error)
        except OSError as error:
            return TryAgain(error) if error.errno in _LOST else Refused(error)
        try:
            if stat.S_ISDIR(os.fstat(file).st_mode):
                return Refused(IsADirectoryError(errno.EISDIR, "it is a directory", name))
            return Found(_holder(file))
        except OSError as error:
            return TryAgain(error)
        finally:
            os.close(file)

    def get(self, name: str) -> GetOutcome:
        """Read the file."""
        try:
            with open(name, "rb") as file:
                return Got(file.read())
        except FileNotFoundError:
            return Absent()
        except OSError as error:
            return Refused(error)

    def list(self, folder: str) -> ListOutcome:
        """Scan the folder."""
        try:
            with os.scandir(folder) as scan:
                entries = tuple(_entries(scan))
        except FileNotFoundError:
            return Listed(())
        except OSError as error:
            return Refused(error)
        return Listed(entries)

    def delete(self, name: str, version: str | None = None) -> DeleteOutcome:
        """Unlink the name; the version is compared just before, which is not one step with it."""
        try:
            if version is not None:
                seen = self.head(name)
                if isinstance(seen, Found) and seen.holder.version != version:
                    return Deleted()
            os.unlink(name)
            _sync_folder(os.path.dirname(name))
        except FileNotFoundError:
            pass
        except OSError as error:
            return Maybe(error) if error.errno in _LOST else Refused(error)
        return Deleted()

    def put(self, name: str, body: Body) -> None:
        """Write beside the name, and rename over it."""
        temporary = f"{name}.{uuid.uuid4().hex}"
        try:
            with open(temporary, "xb") as file:
                file.writelines(body.read(start, stop) for start, stop in body.ranges(_PIECE))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, name)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        _sync_folder(os.path.dirname(name))


def _obstacle(folder: str, name: str) -> OSError | None:
    if not os.path.isdir(folder):
        return FileNotFoundError(errno.ENOENT, "its folder is not there", name)
    if os.path.isdir(name):
        return IsADirectoryError(errno.EISDIR, "it is a directory", name)
    if os.path.islink(name) and not os.path.exists(name):
        return OSError(errno.EINVAL, "it is a symbolic link to nothing: remove it", name)
    return None


def _link(temporary: str, file: int, name: str, token: str) -> CreateOutcome:
    folder = os.path.dirname(name)
    try:
        os.link(temporary, name)
    except OSError as error:
        # NFS may have linked, and lost the answer: then the name is my file, whatever it said.
        if not _is(name, file):
            if error.errno == errno.EEXIST:
                return _taken(folder)
            if error.errno in _NO_LINKS:
                return Refused(_unsafe(name, "hard links", error))
            return Maybe(error) if error.errno in _LOST else Refused(_about(name, error))
    try:
        # The file is as old as its name, not as its bytes: expiry is judged by this time.
        os.utime(file)
        _sync_folder(folder)
    except OSError as error:
        return Maybe(error)
    return Created(token)


def _taken(folder: str) -> Exists:
    # The winner may have died before its name was durable: what I report must be.
    _sync_folder(folder)
    return Exists()


@contextlib.contextmanager
def _temporary(body: Body, creation: Creation, name: str) -> Iterator[tuple[str, int]]:
    """Write the body, complete and durable, into the state folder, which goes when it is empty."""
    path = os.path.join(creation.state, f"{creation.token}.{uuid.uuid4().hex}")
    file = _open_new(path, creation.state)
    try:
        for start, stop in body.ranges(_PIECE):
            _write(file, body.read(start, stop))
        try:
            os.setxattr(file, _TOKEN, creation.token.encode())
            os.setxattr(file, _WRITER, creation.writer.encode())
        except OSError as error:
            if error.errno in _NO_ATTRIBUTES:
                raise _unsafe(name, "extended attributes", error) from error
            raise
        os.fsync(file)
        yield path, file
    finally:
        os.close(file)
        # The name is decided by now; litter must not turn a win into an error.
        with contextlib.suppress(OSError):
            os.unlink(path)
            os.rmdir(creation.state)


def _open_new(path: str, folder: str) -> int:
    # Another creation may remove the empty folder between my mkdir and my open.
    for _ in range(100):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _is(name: str, file: int) -> bool:
    try:
        found = os.stat(name, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(file))


def _sync_folder(folder: str) -> None:
    handle = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _attribute(file: int, key: str) -> str | None:
    try:
        return os.getxattr(file, key).decode()
    except OSError as error:
        if error.errno in {errno.ENODATA, *_NO_ATTRIBUTES}:
            return None
        raise


def _holder(file: int) -> Holder:
    found = os.fstat(file)
    token = _attribute(file, _TOKEN)
    return Holder(
        token,
        _attribute(file, _WRITER),
        _time(found),
        found.st_size,
        # An inode number is used again; a token never is.
        token or _identity(found),
    )


def _identity(found: os.stat_result) -> str:
    return f"{found.st_dev:x}:{found.st_ino:x}:{found.st_mtime_ns:x}"


def _anothers(name: str) -> Found | None:
    """Say who holds a name that may not be read, where that is certainly not a creation of this process."""
    try:
        found = os.stat(name)
    except OSError:
        return None
    # What I created is mine, and a token in it that I may not read may be mine, too.
    if found.st_uid == os.geteuid() or not stat.S_ISREG(found.st_mode):
        return None
    return Found(Holder(None, None, _time(found), found.st_size, _identity(found)))


def _time(found: os.stat_result) -> datetime:
    return datetime.fromtimestamp(found.st_mtime_ns / 1e9, timezone.utc)


def _entries(scan: Iterator[os.DirEntry[str]]) -> Iterator[Entry]:
    for entry in scan:
        with contextlib.suppress(FileNotFoundError):
            if entry.is_file():
                yield Entry(entry.path, _time(entry.stat()))


def _about(name: str, error: OSError) -> OSError:
    # It came from the temporary file, of which the writer knows nothing.
    if error.filename == name or error.errno is None:
        return error
    named = OSError(error.errno, error.strerror, name)
    named.__cause__ = error
    return named


def _unsafe(name: str, what: str, error: OSError) -> UnsafeStore:
    unsafe = UnsafeStore(
        f"the filesystem under {name} has no {what}, so it can't decide who creates a name: "
        f"keep the table on one that has them (ext4, xfs, btrfs), or configure another arbiter"
    )
    unsafe.__cause__ = error
    return unsafe
