"""Memory: the objects of fsspec's memory filesystem, created at most once by any number of threads."""

from __future__ import annotations

import errno
import os
import threading
import uuid
from typing import TYPE_CHECKING, ClassVar

from fsspec.implementations.memory import MemoryFile

from putifabsent.backends import base

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsspec.implementations.memory import MemoryFileSystem


_MARKS = (base.TOKEN_KEY, base.WRITER_KEY)
_VERSION = "putifabsentversion"
_lock = threading.Lock()


def _after_fork() -> None:
    # A thread that held it in the parent is not there to release it.
    global _lock  # noqa: PLW0603 - it is the process that was forked
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class MemoryStore(base.WholeStore):
    """The store behind ``memory://``: one dictionary, whose ``setdefault`` is the condition."""

    kind: ClassVar[str] = "memory"

    def __init__(self, fs: MemoryFileSystem) -> None:
        self.fs = fs

    def create(self, name: str, body: base.Body, creation: base.Creation) -> base.CreateOutcome:
        file = self._file(name, body, creation)
        if isinstance(file, base.Refused):
            return file
        with _lock:
            there = self.fs.store.setdefault(name, file)
        return base.Created(_holder(file).version) if there is file else base.Exists(_holder(there))

    def head(self, name: str) -> base.HeadOutcome:
        file = self.fs.store.get(name)
        return base.Absent() if file is None else base.Found(_holder(file))

    def get(self, name: str) -> base.GetOutcome:
        file = self.fs.store.get(name)
        return base.Absent() if file is None else base.Got(file.getvalue())

    def list(self, folder: str) -> base.ListOutcome:
        """Look through the whole dictionary, as its filesystem does."""
        start = len(folder.rstrip("/")) + 1
        return base.Listed(tuple(each for each in self._below(folder) if "/" not in each.name[start:]))

    def walk(self, folder: str) -> base.ListOutcome:
        return base.Listed(tuple(self._below(folder)))

    def _below(self, folder: str) -> Iterator[base.Entry]:
        now = self.fs.store.copy()  # in one step, whatever other threads do
        for name, file in now.items():
            if name.startswith(folder.rstrip("/") + "/"):
                yield base.Entry(name, file.created, getattr(file, _VERSION, None))

    def delete(self, name: str, version: str | None = None) -> base.DeleteOutcome:
        with _lock:
            file = self.fs.store.get(name)
            if file is not None and version in (None, _holder(file).version):
                del self.fs.store[name]
        return base.Deleted()

    def put(self, name: str, body: base.Body, creation: base.Creation) -> base.PutOutcome:
        file = self._file(name, body, creation)
        if isinstance(file, base.Refused):
            return file
        with _lock:
            self.fs.store[name] = file
        return base.Written(_holder(file).version)

    def publish(self, source: str, name: str, creation: base.Creation) -> base.PublishOutcome:
        if (refused := self._unable(name, creation)) is not None:
            return refused
        with _lock:
            there = self.fs.store.get(source)
            if there is None:
                return base.Absent()
            file = self._made(name, there.getvalue(), *(getattr(there, key, None) for key in _MARKS))
            self.fs.store[name] = file
        return base.Written(_holder(file).version)

    def _file(self, name: str, body: base.Body, creation: base.Creation) -> MemoryFile | base.Refused:
        if (refused := self._unable(name, creation)) is not None:
            return refused
        data = base.read_whole(body)
        return (
            data
            if isinstance(data, base.Refused)
            else self._made(name, data, creation.token, creation.writer)
        )

    def _made(self, name: str, data: bytes, token: str | None, writer: str | None) -> MemoryFile:
        file = MemoryFile(None, name, data)
        for key, value in zip((*_MARKS, _VERSION), (token, writer, uuid.uuid4().hex), strict=True):
            setattr(file, key, value)
        file.fs = self.fs
        return file

    def _unable(self, name: str, creation: base.Creation) -> base.Refused | None:
        if creation.extra:
            return base.Refused(base.unsupported(self.kind, creation.extra))
        if name in self.fs.pseudo_dirs:
            return base.refused(errno.EISDIR, "it is a directory", name)
        parent = self.fs._parent(name)
        while len(parent) > 1:
            if parent in self.fs.store:
                return base.refused(errno.ENOTDIR, "a parent of the name is a file", name)
            parent = self.fs._parent(parent)
        return None


def _holder(file: MemoryFile) -> base.Holder:
    token, writer, version = (getattr(file, key, None) for key in (*_MARKS, _VERSION))
    return base.Holder(token, writer, file.created, file.size, version)
