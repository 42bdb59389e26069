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
from typing import TYPE_CHECKING, ClassVar

from putifabsent.backends.base import (
    Absent,
    Created,
    Deleted,
    Exists,
    Found,
    Got,
    Listed,
    Maybe,
    Refused,
    TryAgain,
    WholeStore,
    Written,
    caused,
    unsupported,
)
from putifabsent.backends.local_files import (
    LOOK,
    LOST,
    NO_LINKS,
    TRIES,
    SourceFile,
    about,
    anothers,
    files_in,
    holder_of,
    is_file_of,
    make_own_folders,
    obstacle,
    opened_alone,
    remove_own_empty,
    sync_folder,
    sync_own_folders,
    temporary,
    unsafe,
)
from putifabsent.errors import UnsafeStore

if TYPE_CHECKING:
    from putifabsent.backends import base
    from putifabsent.backends.base import Body, Creation, Entry

# A folder that has more than this many changes in the time of a scan each is scanned another time.
_SCANS = 100


class LocalStore(WholeStore):
    """A POSIX filesystem with hard links and extended attributes (ext4, xfs, btrfs, NFSv4.2)."""

    kind: ClassVar[str] = "local"
    # What a copy holds in memory; the bytes of larger files pass through it piece by piece.
    largest_put = 16 * 2**20

    def create(self, name: str, body: Body, creation: Creation) -> base.CreateOutcome:
        """Write and sync a temporary file, link it to the name, sync the folder."""
        if (refused := self._unable(creation)) is not None:
            return refused
        try:
            folder = os.path.dirname(name)
            if (why := obstacle(folder, name)) is not None:
                return Refused(why)
            if os.path.lexists(name):
                return _taken(folder)
            if not os.access(folder or ".", os.R_OK, effective_ids=True):
                reason = "its folder may not be read, and so no name in it be made durable"
                return Refused(PermissionError(errno.EACCES, reason, name))
            with temporary(body, creation, name) as (path, file):
                return _link(path, file, name, creation.token)
        except UnsafeStore as error:
            return Refused(error)
        except UnicodeEncodeError as error:
            return Refused(caused(OSError(errno.EILSEQ, "no file can have such a name", repr(name)), error))
        except OSError as error:
            return Refused(about(name, error))

    def head(self, name: str) -> base.HeadOutcome:
        """Read the token from the file's extended attributes; its version is that token."""
        file = _opened(name)
        if isinstance(file, Refused) and isinstance(file.error, PermissionError):
            return anothers(name) or file
        if not isinstance(file, int):
            return file
        try:
            if stat.S_ISDIR(os.fstat(file).st_mode):
                return Refused(IsADirectoryError(errno.EISDIR, "it is a directory", name))
            return Found(holder_of(file))
        except OSError as error:
            return TryAgain(error)
        finally:
            os.close(file)

    def get(self, name: str) -> base.GetOutcome:
        try:
            with open(name, "rb") as file:
                return Got(file.read())
        except FileNotFoundError:
            return Absent()
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
                    return Listed(tuple(files_in(found)))
        except FileNotFoundError:
            return Listed(())
        except OSError as error:
            return _unread(error)
        return TryAgain(BlockingIOError(errno.EAGAIN, "the folder changes all the time", folder))

    def walk(self, folder: str) -> base.ListOutcome:
        entries: list[Entry] = []
        left = [folder]
        while left:
            try:
                with os.scandir(left.pop()) as scan:
                    found = list(scan)
                left += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
                entries += files_in(found)
            except FileNotFoundError:
                continue
            except OSError as error:
                return _unread(error)
        return Listed(tuple(entries))

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
                sync_folder(os.path.dirname(name))
            remove_own_empty(os.path.dirname(name))
        except BlockingIOError as error:
            return Maybe(error)
        except OSError as error:
            return Maybe(error) if error.errno in LOST else Refused(error)
        return Deleted()

    def put(self, name: str, body: Body, creation: Creation) -> base.PutOutcome:
        """Write and sync a temporary file, rename it over the name, sync the folders that may be new."""
        if (refused := self._unable(creation)) is not None:
            return refused
        try:
            make_own_folders(os.path.dirname(name))
            with temporary(body, creation, name) as (path, file):
                return _rename(path, file, name, creation.token)
        except UnsafeStore as error:
            return Refused(error)
        except OSError as error:
            return Refused(about(name, error))

    def publish(self, source: str, name: str, creation: Creation) -> base.PublishOutcome:
        """Link the source to the name, sync the folder. A name that is there stays.

        Never by a rename of a link that was made before: a publisher that pauses between the two would
        bring a deleted name back.
        """
        if (refused := self._unable(creation)) is not None:
            return refused
        if (why := obstacle(os.path.dirname(name), name)) is not None:
            return Refused(why)
        file = _opened(source)
        if not isinstance(file, int):
            return file
        try:
            return _publish(source, file, name)
        except OSError as error:
            return Maybe(error)
        finally:
            os.close(file)

    def stage_copy(
        self, source: str, size: int, version: str | None, name: str, creation: Creation
    ) -> base.StageOutcome:
        """Keep where the source is; its bytes are read when they are written."""
        del size
        file = _opened(source)
        if not isinstance(file, int):
            return file
        try:
            if version not in (None, holder_of(file).version):
                return Absent()
            return self.stage(name, SourceFile(source, os.fstat(file)), creation)
        except OSError as error:
            return TryAgain(error)
        finally:
            os.close(file)

    def _unable(self, creation: Creation) -> Refused | None:
        if sys.platform != "linux":
            return Refused(UnsafeStore("local disk is guarded on Linux only: it needs extended attributes"))
        return Refused(unsupported(self.kind, creation.extra)) if creation.extra else None


def _opened(name: str) -> int | Absent | TryAgain | Refused:
    """Open a file to look at it."""
    try:
        return os.open(name, LOOK)
    except FileNotFoundError:
        return Absent()
    except OSError as error:
        return _unread(error)


def _unread(error: OSError) -> TryAgain | Refused:
    return TryAgain(error) if error.errno in LOST else Refused(error)


def _link(temporary: str, file: int, name: str, token: str) -> base.CreateOutcome:
    folder = os.path.dirname(name)
    try:
        os.link(temporary, name)
    except OSError as error:
        # NFS may have linked, and lost the answer: then the name is my file, whatever the error is.
        if not is_file_of(name, file):
            if error.errno == errno.EEXIST:
                return _taken(folder)
            if error.errno in NO_LINKS:
                return Refused(unsafe(name, "hard links", error))
            return Maybe(error) if error.errno in LOST else Refused(about(name, error))
    try:
        # The file is as old as its name, not as its bytes: expiry is judged by this time.
        os.utime(file)
        sync_folder(folder)
    except OSError as error:
        return Maybe(error)
    return Created(token)


def _taken(folder: str) -> Exists | Maybe:
    # The winner may have died before its name was durable: what I report must be.
    try:
        sync_folder(folder)
    except OSError as error:
        if error.errno in LOST:
            return Maybe(error)  # nor could it be looked at whose the name is: it may be mine
        raise
    return Exists()


def _rename(temporary: str, file: int, name: str, token: str) -> base.PutOutcome:
    folder = os.path.dirname(name)
    for attempt in range(TRIES):
        try:
            # Not once for all: another's clean-up may have found them empty.
            make_own_folders(folder)
            os.replace(temporary, name)
            break
        except OSError as error:
            if is_file_of(name, file):
                break
            if error.errno in LOST:
                return Maybe(error)
            if error.errno != errno.ENOENT or attempt == TRIES - 1:
                return Refused(about(name, error))
    try:
        sync_own_folders(folder)
    except OSError as error:
        return Maybe(error)
    return Written(token)


def _publish(source: str, file: int, name: str) -> base.PublishOutcome:
    folder = os.path.dirname(name)
    try:
        os.link(source, name)
        # As for a creation: the file is as old as its name.
        os.utime(file)
    except OSError as error:
        # The same file: published before, or by this request, whose answer was lost.
        if not is_file_of(name, file):
            if error.errno == errno.EEXIST:
                return _taken(folder)
            if error.errno == errno.ENOENT:
                why = obstacle(folder, name)
                return Absent() if why is None else Refused(why)
            if error.errno in NO_LINKS and os.fstat(file).st_uid == os.geteuid():
                return Refused(unsafe(name, "hard links", error))
            return Maybe(error) if error.errno in LOST else Refused(about(name, error))
    sync_folder(folder)
    return Written(holder_of(file).version)


def _unlink(name: str, version: str | None) -> None:
    try:
        with opened_alone(name) as file:
            if version in (None, holder_of(file).version):
                os.unlink(name)
    except FileNotFoundError:
        # A symbolic link to nothing can be unlinked, and not opened.
        if version is None:
            os.unlink(name)
    except PermissionError:
        theirs = anothers(name)
        if version is not None and theirs is None:
            raise
        if theirs is None or version in (None, theirs.holder.version):
            os.unlink(name)
