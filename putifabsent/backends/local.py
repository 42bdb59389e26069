"""Local disk: ``link(2)`` is the condition; what is acknowledged has reached the disk.

The bytes go to a temporary file first, which is complete and durable before it gets the name. So a reader
never sees half a file, and a writer that dies leaves none.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, ClassVar

from putifabsent.backends import base
from putifabsent.errors import UnsafeStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PIECE = 8 * 2**20
_TOKEN = f"user.{base.TOKEN_KEY}"
_WRITER = f"user.{base.WRITER_KEY}"
_NO_ATTRIBUTES = {errno.ENOTSUP, errno.ENOSYS}
# NFS locks for one alone only what is open for writing.
_NO_LOCKS = {errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL, errno.EBADF}

_LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # to look at a file, whatever it turns out to be
_TRIES = 100  # of two steps between which others may remove an empty folder, or replace a file
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
"""What a filesystem without hard links answers."""

_LOST = {
    *(errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EINTR, errno.EAGAIN, errno.ENODEV, errno.EPIPE),
    *(errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN),
    *(errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH),
}
"""What an answer that was lost on its way from a file server looks like: NFS, SMB, GlusterFS, FUSE, ..."""

_SCANS = 100  # a folder that has more changes, in the time of a scan each, is listed another time


class LocalStore(base.WholeStore):
    """A POSIX filesystem with hard links and extended attributes (ext4, xfs, btrfs, NFSv4.2)."""

    kind: ClassVar[str] = "local"
    # What a copy holds in memory; the bytes of larger files pass through it piece by piece.
    largest_put = 16 * 2**20

    def create(self, name: str, body: base.Body, creation: base.Creation) -> base.CreateOutcome:
        """Write and sync a temporary file, link it to the name, sync the folder."""
        if (refused := self._unable(creation)) is not None:
            return refused
        try:
            folder = os.path.dirname(name)
            if (why := obstacle(folder, name)) is not None:
                return base.Refused(why)
            if os.path.lexists(name):
                return _taken(folder)
            if not os.access(folder or ".", os.R_OK, effective_ids=True):
                reason = "its folder may not be read, and so no name in it be made durable"
                return base.refused(errno.EACCES, reason, name)
            with _temporary(body, creation, name) as (path, file):
                return _link(path, file, name, creation.token)
        except UnsafeStore as error:
            return base.Refused(error)
        except UnicodeEncodeError as error:
            return base.refused(errno.EILSEQ, "no file can have such a name", repr(name), error)
        except OSError as error:
            return base.Refused(_about(name, error))

    def head(self, name: str) -> base.HeadOutcome:
        """Read the token from the file's extended attributes; its version is that token."""
        file = _opened(name)
        if isinstance(file, base.Refused) and isinstance(file.error, PermissionError):
            return _anothers(name) or file
        if not isinstance(file, int):
            return file
        try:
            if stat.S_ISDIR(os.fstat(file).st_mode):
                return base.refused(errno.EISDIR, "it is a directory", name)
            return base.Found(_holder_of(file))
        except OSError as error:
            return base.TryAgain(error)
        finally:
            os.close(file)

    def get(self, name: str) -> base.GetOutcome:
        try:
            with open(name, "rb") as file:
                return base.Got(file.read())
        except FileNotFoundError:
            return base.Absent()
        except OSError as error:
            return _unread(error)

    def list(self, folder: str) -> base.ListOutcome:
        """Scan the folder until two scans show the same: one alone shows no single moment (readdir(3))."""
        try:
            for _ in range(_SCANS):
                with os.scandir(folder) as scan:
                    found = list(scan)
                # What only the second one shows came meanwhile, and something else may have before it.
                if {entry.name for entry in found}.issuperset(os.listdir(folder)):
                    return base.Listed(tuple(_files_in(found)))
        except FileNotFoundError:
            return base.Listed(())
        except OSError as error:
            return _unread(error)
        return base.TryAgain(BlockingIOError(errno.EAGAIN, "the folder changes all the time", folder))

    def walk(self, folder: str) -> base.ListOutcome:
        entries: list[base.Entry] = []
        left = [folder]
        while left:
            try:
                with os.scandir(left.pop()) as scan:
                    found = list(scan)
                left += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
                entries += _files_in(found)
            except FileNotFoundError:
                continue
            except OSError as error:
                return _unread(error)
        return base.Listed(tuple(entries))

    def delete(self, name: str, version: str | None = None) -> base.DeleteOutcome:
        """Unlink the name; with ``version``, only while that is its token.

        Whoever deletes through a store locks the file before it looks, and lets nobody wait: another deletion
        at the same time is ``Maybe``. So nothing but a deletion that goes round the store can make room for
        a later file between the look and the unlink; nor on NFS, where what is open for reading has no lock.
        """
        try:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _unlink(name, version)
            # Also what others have unlinked: it must not be back after a power failure.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _sync_folder(os.path.dirname(name))
            _remove_own_empty(os.path.dirname(name))
        except BlockingIOError as error:
            return base.Maybe(error)
        except OSError as error:
            return base.Maybe(error) if error.errno in _LOST else base.Refused(error)
        return base.Deleted()

    def put(self, name: str, body: base.Body, creation: base.Creation) -> base.PutOutcome:
        """Write and sync a temporary file, rename it over the name, sync the folders that may be new."""
        if (refused := self._unable(creation)) is not None:
            return refused
        try:
            make_own_folders(os.path.dirname(name))
            with _temporary(body, creation, name) as (path, file):
                return _rename(path, file, name, creation.token)
        except UnsafeStore as error:
            return base.Refused(error)
        except OSError as error:
            return base.Refused(_about(name, error))

    def publish(self, source: str, name: str, creation: base.Creation) -> base.PublishOutcome:
        """Link the source to the name, sync the folder. A name that is there stays.

        Never by a rename of a link that was made before: a publisher that pauses between the two would
        bring a deleted name back.
        """
        if (refused := self._unable(creation)) is not None:
            return refused
        if (why := obstacle(os.path.dirname(name), name)) is not None:
            return base.Refused(why)
        file = _opened(source)
        if not isinstance(file, int):
            return file
        try:
            return _publish(source, file, name)
        except OSError as error:
            return base.Maybe(error)
        finally:
            os.close(file)

    def stage_copy(
        self, source: str, size: int, version: str | None, name: str, creation: base.Creation
    ) -> base.StageOutcome:
        """Keep where the source is; its bytes are read when they are written."""
        del size
        file = _opened(source)
        if not isinstance(file, int):
            return file
        try:
            if version not in (None, _holder_of(file).version):
                return base.Absent()
            return self.stage(name, _SourceFile(source, os.fstat(file)), creation)
        except OSError as error:
            return base.TryAgain(error)
        finally:
            os.close(file)

    def _unable(self, creation: base.Creation) -> base.Refused | None:
        if sys.platform != "linux":
            return base.Refused(
                UnsafeStore("local disk is guarded on Linux only: it needs extended attributes")
            )
        return base.Refused(base.unsupported(self.kind, creation.extra)) if creation.extra else None


def _opened(name: str) -> int | base.Absent | base.TryAgain | base.Refused:
    try:
        return os.open(name, _LOOK)
    except FileNotFoundError:
        return base.Absent()
    except OSError as error:
        return _unread(error)


def _unread(error: OSError) -> base.TryAgain | base.Refused:
    return base.TryAgain(error) if error.errno in _LOST else base.Refused(error)


def _link(path: str, file: int, name: str, token: str) -> base.CreateOutcome:
    folder = os.path.dirname(name)
    try:
        os.link(path, name)
    except OSError as error:
        # NFS may have linked, and lost the answer: then the name is my file, whatever the error is.
        if not _is_file_of(name, file):
            if error.errno == errno.EEXIST:
                return _taken(folder)
            if error.errno in _NO_LINKS:
                return base.Refused(_unsafe(name, "hard links", error))
            return base.Maybe(error) if error.errno in _LOST else base.Refused(_about(name, error))
    try:
        # The file is as old as its name, not as its bytes: expiry is judged by this time.
        os.utime(file)
        _sync_folder(folder)
    except OSError as error:
        return base.Maybe(error)
    return base.Created(token)


def _taken(folder: str) -> base.Exists | base.Maybe:
    # The winner may have died before its name was durable: what I report must be.
    try:
        _sync_folder(folder)
    except OSError as error:
        if error.errno in _LOST:
            return base.Maybe(error)  # nor could it be looked at whose the name is: it may be mine
        raise
    return base.Exists()


def _rename(path: str, file: int, name: str, token: str) -> base.PutOutcome:
    folder = os.path.dirname(name)
    for attempt in range(_TRIES):
        try:
            # Not once for all: another's clean-up may have found them empty.
            make_own_folders(folder)
            os.replace(path, name)
            break
        except OSError as error:
            if _is_file_of(name, file):
                break
            if error.errno in _LOST:
                return base.Maybe(error)
            if error.errno != errno.ENOENT or attempt == _TRIES - 1:
                return base.Refused(_about(name, error))
    try:
        _sync_folder(folder)
        for each in _own(folder):  # they may be as new
            _sync_folder(os.path.dirname(each))
    except OSError as error:
        return base.Maybe(error)
    return base.Written(token)


def _publish(source: str, file: int, name: str) -> base.PublishOutcome:
    folder = os.path.dirname(name)
    try:
        os.link(source, name)
        # As for a creation: the file is as old as its name.
        os.utime(file)
    except OSError as error:
        # The same file: published before, or by this request, whose answer was lost.
        if not _is_file_of(name, file):
            if error.errno == errno.EEXIST:
                return _taken(folder)
            if error.errno == errno.ENOENT:
                why = obstacle(folder, name)
                return base.Absent() if why is None else base.Refused(why)
            if error.errno in _NO_LINKS and os.fstat(file).st_uid == os.geteuid():
                return base.Refused(_unsafe(name, "hard links", error))
            return base.Maybe(error) if error.errno in _LOST else base.Refused(_about(name, error))
    _sync_folder(folder)
    return base.Written(_holder_of(file).version)


def _unlink(name: str, version: str | None) -> None:
    try:
        with _opened_alone(name) as file:
            if version in (None, _holder_of(file).version):
                os.unlink(name)
    except FileNotFoundError:
        # A symbolic link to nothing can be unlinked, and not opened.
        if version is None:
            os.unlink(name)
    except PermissionError:
        theirs = _anothers(name)
        if version is not None and theirs is None:
            raise
        if theirs is None or version in (None, theirs.holder.version):
            os.unlink(name)


# --- single files


class _SourceFile(base.Body):
    """A file that is to be copied, by its name: nothing is open between two reads.

    Another file there than was ``seen`` when the copy began, or a change of it, is an OSError.
    """

    __slots__ = ("_path", "_seen")

    def __init__(self, path: str, seen: os.stat_result) -> None:
        self._path = path
        self._seen = _state(seen)
        self.size = seen.st_size

    def read(self, start: int, stop: int) -> bytes:
        file = os.open(self._path, _LOOK)
        try:
            data = base.read_at(file, start, stop, self._path)
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
def _temporary(body: base.Body, creation: base.Creation, name: str) -> Iterator[tuple[str, int]]:
    """Write the body, complete and durable, into the state folder, which goes when it is empty."""
    path = os.path.join(creation.state, f"{creation.token}.{uuid.uuid4().hex}")
    file = _open_new(path, creation.state)
    try:
        for start, stop in body.ranges(_PIECE):
            view = memoryview(body.read(start, stop))
            while view:
                view = view[os.write(file, view) :]
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
        # The name is decided by now, and the bytes are synced: neither what a file server says to a close nor
        # litter must turn a win into an error.
        with contextlib.suppress(OSError):
            os.close(file)
        with contextlib.suppress(OSError):
            os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(creation.state)


def _open_new(path: str, folder: str) -> int:
    for attempt in range(_TRIES + 1):
        with contextlib.suppress(FileNotFoundError):
            _make_each(folder)
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            if attempt == _TRIES:
                raise
        except PermissionError:
            with contextlib.suppress(FileNotFoundError):
                if attempt == _TRIES or not _missing_rights(folder):
                    raise
            # Another user made it, and was killed before it was open to others, or is about to open it.
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    raise AssertionError


# --- folders


def make_own_folders(folder: str) -> None:
    """Make ``folder`` and those above it that are the shim's own: a state folder, and all below one."""
    for attempt in range(_TRIES + 1):
        try:
            _make_each(folder)
        except FileNotFoundError:
            if attempt == _TRIES:
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


def _remove_own_empty(folder: str) -> None:
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
    while base.STATE_FOLDER in folder.split(os.sep):
        yield folder
        folder = os.path.dirname(folder)


def _sync_folder(folder: str) -> None:
    """Make what was linked or unlinked in ``folder`` durable."""
    handle = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- which file it is


def _is_file_of(name: str, file: int) -> bool:
    """Whether ``name`` is the open file itself, not a link to it by name."""
    try:
        return os.path.samestat(os.stat(name, follow_symlinks=False), os.fstat(file))
    except OSError:
        return False


@contextlib.contextmanager
def _opened_alone(name: str) -> Iterator[int]:
    """Open the file under ``name``, locked, so that of all who ask for this only one has it.

    Where the filesystem has no locks there is none. ``BlockingIOError``: another has it, or takes it away
    again and again.
    """
    for _ in range(_TRIES):
        file = os.open(name, _LOOK)
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


def _holder_of(file: int) -> base.Holder:
    """Say who made an open file, from its extended attributes."""
    found = os.fstat(file)
    token = _attribute(file, _TOKEN)
    return base.Holder(
        token,
        _attribute(file, _WRITER),
        _time(found),
        found.st_size,
        # An inode number is used again; a token never is.
        token or _identity(found),
    )


def _anothers(name: str) -> base.Found | None:
    """Say who holds a name that may not be read, where that is certainly not a creation of this process."""
    try:
        found = os.stat(name)
    except OSError:
        return None
    # What I created is mine, and a token in it that I may not read may be mine, too.
    if found.st_uid == os.geteuid() or not stat.S_ISREG(found.st_mode):
        return None
    return base.Found(base.Holder(None, None, _time(found), found.st_size, _identity(found)))


def _files_in(scan: Iterable[os.DirEntry[str]]) -> Iterator[base.Entry]:
    """Return the files of a scanned folder, but for those that are gone, and links that lead to nothing."""
    for entry in scan:
        try:
            found = entry.stat() if entry.is_file() else None
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            continue
        if found is not None:
            yield base.Entry(entry.path, _time(found), _identity(found))


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


def _about(name: str, error: OSError) -> OSError:
    """Return the same error of ``name``, of which another file says nothing: not even that it is there."""
    if error.filename == name or error.errno is None:
        return error
    number = errno.EIO if error.errno == errno.EEXIST else error.errno
    return base.caused(OSError(number, error.strerror, name), error)


def _unsafe(name: str, what: str, error: OSError) -> UnsafeStore:
    reason = (
        f"the filesystem under {name} has no {what}, so it can't decide who creates a name: "
        f"keep the table on one that has them (ext4, xfs, btrfs), or configure another arbiter"
    )
    if error.errno == errno.EXDEV:
        reason = (
            f"{name} is on another filesystem than the folder {base.STATE_FOLDER} of its table, from which "
            "it would be linked: keep all folders of the table on one filesystem, with no mount or link to "
            "another among them"
        )
    return base.caused(UnsafeStore(reason), error)
