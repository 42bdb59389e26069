"""Memory: the objects of fsspec's memory filesystem, created at most once by any number of threads."""

from __future__ import annotations

import errno
import os
import threading
import uuid
from typing import TYPE_CHECKING, ClassVar

from fsspec.implementations.memory import MemoryFile

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
    Refused,
)
from putifabsent.backends.refusals import read_whole, unsupported
from putifabsent.backends.whole import WholeStore

if TYPE_CHECKING:
    from fsspec.implementations.memory import MemoryFileSystem

    from putifabsent.backends.base import (
        CreateOutcome,
        Creation,
        DeleteOutcome,
        GetOutcome,
        HeadOutcome,
        ListOutcome,
    )
    from putifabsent.backends.body import Body

__all__ = ["MemoryStore"]

_VERSION = "putifabsentversion"
_lock = threading.Lock()


def _after_fork() -> None:
    # A thread that held it in the parent is not there to release it.
    global _lock  # noqa: PLW0603 - it is the process that was forked
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class MemoryStore(WholeStore):
    """The store behind ``memory://``: one dictionary, whose ``setdefault`` is the condition.

    Parameters
    ----------
    fs
        The memory filesystem that holds the objects.
    """

    kind: ClassVar[str] = "memory"

    def __init__(self, fs: MemoryFileSystem) -> None:
        self.fs = fs

    def create(self, name: str, body: Body, creation: Creation) -> CreateOutcome:
        """Put a new object into the dictionary, unless one is there."""
        if creation.extra:
            return Refused(unsupported(self.kind, creation.extra))
        if name in self.fs.pseudo_dirs:
            return Refused(IsADirectoryError(errno.EISDIR, "it is a directory", name))
        parent = self.fs._parent(name)
        while len(parent) > 1:
            if parent in self.fs.store:
                return Refused(NotADirectoryError(errno.ENOTDIR, "a parent of the name is a file", name))
            parent = self.fs._parent(parent)
        data = read_whole(body)
        if isinstance(data, Refused):
            return data
        file = MemoryFile(None, name, data)
        version = uuid.uuid4().hex
        for key, value in ((TOKEN_KEY, creation.token), (WRITER_KEY, creation.writer), (_VERSION, version)):
            setattr(file, key, value)
        file.fs = self.fs
        with _lock:
            there = self.fs.store.setdefault(name, file)
        return Created(version) if there is file else Exists(_holder(there))

    def head(self, name: str) -> HeadOutcome:
        """Read the token off the object."""
        file = self.fs.store.get(name)
        return Absent() if file is None else Found(_holder(file))

    def get(self, name: str) -> GetOutcome:
        """Copy the object's bytes."""
        file = self.fs.store.get(name)
        return Absent() if file is None else Got(file.getvalue())

    def list(self, folder: str) -> ListOutcome:
        """Look through the whole dictionary, as its filesystem does."""
        start = folder.rstrip("/") + "/"
        return Listed(
            tuple(
                Entry(name, file.created)
                for name, file in tuple(self.fs.store.items())
                if name.startswith(start) and "/" not in name[len(start) :]
            )
        )

    def delete(self, name: str, version: str | None = None) -> DeleteOutcome:
        """Remove the object, if it is still that version."""
        with _lock:
            file = self.fs.store.get(name)
            if file is not None and version in (None, _holder(file).version):
                del self.fs.store[name]
        return Deleted()

    def put(self, name: str, body: Body) -> None:
        """Replace the object."""
        file = MemoryFile(None, name, body.whole())
        file.fs = self.fs
        with _lock:
            self.fs.store[name] = file


def _holder(file: MemoryFile) -> Holder:
    return Holder(
        getattr(file, TOKEN_KEY, None),
        getattr(file, WRITER_KEY, None),
        file.created,
        file.size,
        getattr(file, _VERSION, None),
    )
