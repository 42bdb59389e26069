"""What a store on local disk does with single files: made whole and durable, marked, recognised, locked."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from putifabsent.backends.base import (
    STATE_FOLDER,
    TOKEN_KEY,
    WRITER_KEY,
    Body,
    Entry,
    Found,
    Holder,
    caused,
    read_at,
)
from putifabsent.errors import UnsafeStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from putifabsent.backends.base import Creation

_PIECE = 8 * 2**20
_TOKEN = f"user.{TOKEN_KEY}"
_WRITER = f"user.{WRITER_KEY}"
_NO_ATTRIBUTES = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
# NFS locks for one alone only what is open for writing.
_NO_LOCKS = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL, errno.EBADF}

LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""How a file is opened to look at it, whatever it turns out to be."""

TRIES = 100  # of two steps between which others may remove an empty folder, or replace a file
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
"""What a filesystem without hard links answers."""

LOST = {
    *(errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EINTR, errno.EAGAIN, errno.ENODEV, errno.EPIPE),
    *(errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN),
    *(errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH),
}
"""What an answer that was lost on its way from a file server looks like: NFS, SMB, GlusterFS, FUSE, ..."""


class SourceFile(Body):
    """A file that is to be copied, by its name: nothing is open between two reads.

    Another file there than was ``seen`` when the copy began, or a change of it, is an OSError.
    """

    __slots__ = ("_path", "_seen")

    def __init__(self, path: str, seen: os.stat_result) -> None:
        self._path = path
        self._seen = _state(seen)
        self.size = seen.st_size

    def read(self, start: int, stop: int) -> bytes:
        file = os.open(self._path, LOOK)
        try:
            data = read_at(file, start, stop, self._path)
            if _state(os.fstat(file)) != self._seen:
                raise OSError(errno.EBUSY, "the source was changed while it was being copied", self._path)
            return data
        finally:
            os.close(file)


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def obstacle(folder: str, name: str) -> OSError | None:
    """Return why no file can be made under ``name``, or None."""
    if not os.path.isdir(folder):
        return FileNotFoundError(errno.ENOENT, "its folder is not there", name)
    if os.path.isdir(name):
        return IsADirectoryError(errno.EISDIR, "it is a directory", name)
    if os.path.islink(name) and not os.path.exists(name):
        return OSError(errno.EINVAL, "it is a symbolic link to nothing: remove it", name)
    return None


@contextlib.contextmanager
def temporary(body: Body, creation: Creation, name: str) -> Iterator[tuple[str, int]]:
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
                raise unsafe(name, "extended attributes", error) from error
            raise
        os.fsync(file)
        yield path, file
    finally:
        # The name is decided by now, and the bytes are synced: neither what a file server says to a close nor
        # litter must turn a win into an error.
        with contextlib.suppress(OSError):
            os.close(file)
        with contextlib.suppress(OSError):
            os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(creation.state)


def _open_new(path: str, folder: str) -> int:
    for attempt in range(TRIES + 1):
        with contextlib.suppress(FileNotFoundError):
            _make_each(folder)
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            if attempt == TRIES:
                raise
        except PermissionError:
            with contextlib.suppress(FileNotFoundError):
                if attempt == TRIES or not _missing_rights(folder):
                    raise
            # Another user made it, and was killed before it was open to others, or is about to open it.
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    raise AssertionError


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


# --- folders


def make_own_folders(folder: str) -> None:
    """Make ``folder`` and those above it that are the shim's own: a state folder, and all below one."""
    for attempt in range(TRIES + 1):
        try:
            _make_each(folder)
        except FileNotFoundError:
            if attempt == TRIES:
                raise
        else:
            return


def _make_each(folder: str) -> None:
    for each in reversed(list(_own(folder))):
        _make_own(each)


def _make_own(folder: str) -> None:
    """Make a folder of the shim's own, if it is not there, as open to others as the one that it is in.

    Whoever may create a name there creates it by way of this folder, and may be another user.
    """
    above = os.stat(os.path.dirname(folder))
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, stat.S_IMODE(above.st_mode) | stat.S_IRWXU)
    found = os.lstat(folder)
    if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode):
        return
    missing = _missing_rights(folder)
    if not missing and (found.st_uid, found.st_gid) == (above.st_uid, above.st_gid):
        return
    # Not by its name: others may put a link there.
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for owner in (above.st_uid, -1):  # who is not root can give it to a group alone
            with contextlib.suppress(OSError):
                os.fchown(handle, owner, above.st_gid)
                break
        with contextlib.suppress(PermissionError):  # of a filesystem whose folders all have one mode
            os.fchmod(handle, stat.S_IMODE(found.st_mode) | missing)
    finally:
        os.close(handle)


def _missing_rights(folder: str) -> int:
    """Return what the mode of a folder lacks of that of the folder which it is in."""
    above = stat.S_IMODE(os.stat(os.path.dirname(folder)).st_mode) & ~stat.S_ISUID
    return above & ~stat.S_IMODE(os.lstat(folder).st_mode)


def sync_own_folders(folder: str) -> None:
    """Make what was put into ``folder`` durable, with those folders above it that may be as new."""
    sync_folder(folder)
    for each in _own(folder):
        sync_folder(os.path.dirname(each))


def remove_own_empty(folder: str) -> None:
    """Remove ``folder`` and those above it that are empty, of those that one name alone is kept in.

    What is directly in a state folder stays: there are few of these, and creations count on them.
    """
    for each in list(_own(folder))[:-2]:
        try:
            os.rmdir(each)
        except FileNotFoundError:
            continue
        except OSError:
            return


def _own(folder: str) -> Iterator[str]:
    """Go upwards from ``folder`` to the state folder that it is in, if it is in one."""
    while STATE_FOLDER in folder.split(os.sep):
        yield folder
        folder = os.path.dirname(folder)


def sync_folder(folder: str) -> None:
    """Make what was linked or unlinked in ``folder`` durable."""
    handle = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- which file it is


def is_file_of(name: str, file: int) -> bool:
    """Whether ``name`` is the open file itself, not a link to it by name."""
    try:
        return os.path.samestat(os.stat(name, follow_symlinks=False), os.fstat(file))
    except OSError:
        return False


@contextlib.contextmanager
def opened_alone(name: str) -> Iterator[int]:
    """Open the file under ``name``, locked, so that of all who ask for this only one has it.

    Where the filesystem has no locks there is none. ``BlockingIOError``: another has it, or takes it away
    again and again.
    """
    for _ in range(TRIES):
        file = os.open(name, LOOK)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            # Whoever had it before may have removed it from the name.
            if os.path.samestat(os.stat(name), os.fstat(file)):
                yield file
                return
        finally:
            os.close(file)
    raise BlockingIOError(errno.EAGAIN, "it is replaced again and again", name)


def holder_of(file: int) -> Holder:
    """Say who made an open file, from its extended attributes."""
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


def anothers(name: str) -> Found | None:
    """Say who holds a name that may not be read, where that is certainly not a creation of this process."""
    try:
        found = os.stat(name)
    except OSError:
        return None
    # What I created is mine, and a token in it that I may not read may be mine, too.
    if found.st_uid == os.geteuid() or not stat.S_ISREG(found.st_mode):
        return None
    return Found(Holder(None, None, _time(found), found.st_size, _identity(found)))


def files_in(scan: Iterable[os.DirEntry[str]]) -> Iterator[Entry]:
    """Return the files of a scanned folder, but for those that are gone."""
    for entry in scan:
        with contextlib.suppress(FileNotFoundError):
            if entry.is_file():
                found = entry.stat()
                yield Entry(entry.path, _time(found), _identity(found))


def _attribute(file: int, key: str) -> str | None:
    try:
        return os.getxattr(file, key).decode()
    except OSError as error:
        if error.errno in {errno.ENODATA, *_NO_ATTRIBUTES}:
            return None
        raise


def _identity(found: os.stat_result) -> str:
    return f"{found.st_dev:x}:{found.st_ino:x}:{found.st_mtime_ns:x}"


def _time(found: os.stat_result) -> datetime:
    return datetime.fromtimestamp(found.st_mtime_ns / 1e9, timezone.utc)


# --- errors


def about(name: str, error: OSError) -> OSError:
    """Return the same error of ``name``: it came from another file, of which the writer knows nothing."""
    if error.filename == name or error.errno is None:
        return error
    return caused(OSError(error.errno, error.strerror, name), error)


def unsafe(name: str, what: str, error: OSError) -> UnsafeStore:
    """Return the error for a filesystem that has no ``what``."""
    reason = (
        f"the filesystem under {name} has no {what}, so it can't decide who creates a name: "
        f"keep the table on one that has them (ext4, xfs, btrfs), or configure another arbiter"
    )
    if error.errno == errno.EXDEV:
        reason = (
            f"{name} is on another filesystem than the folder {STATE_FOLDER} of its table, from which it "
            "would be linked: keep all folders of the table on one filesystem, with no mount or link to "
            "another among them"
        )
    return caused(UnsafeStore(reason), error)
