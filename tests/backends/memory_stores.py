"""Memory filesystems of a test's own, and a way round the store to what they hold."""

from __future__ import annotations

from typing import Any

from fsspec.implementations.memory import MemoryFileSystem

from putifabsent.testing import Around


class Dictionary(Around):
    """The dictionary in which fsspec's memory filesystem keeps its files."""

    def __init__(self, fs: MemoryFileSystem) -> None:
        self._fs = fs

    def read(self, name: str) -> bytes | None:
        file = self._fs.store.get(name)
        return None if file is None else bytes(file.getbuffer())

    def write(self, name: str, data: bytes) -> None:
        self._fs.pipe_file(name, data)


class OwnMemory(MemoryFileSystem):
    """A memory filesystem whose files are not the process's."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]


def call(test: Any, available: dict[str, Any]) -> None:
    """Run a suite's test with the fixtures that it names."""
    wanted = test.__code__.co_varnames[1 : test.__code__.co_argcount]
    test(**{name: available[name] for name in wanted})
