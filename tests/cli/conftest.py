"""What the command line's tests share: a file to put, and memory of their own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from fsspec.implementations.memory import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def own_memory() -> Iterator[None]:
    """Give a memory that is empty, and afterwards back what was there before."""
    kept, folders = dict(MemoryFileSystem.store), list(MemoryFileSystem.pseudo_dirs)
    MemoryFileSystem.store.clear()
    try:
        yield
    finally:
        MemoryFileSystem.store.clear()
        MemoryFileSystem.store.update(kept)
        MemoryFileSystem.pseudo_dirs[:] = folders


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Write a file to put."""
    path = tmp_path / "bytes"
    path.write_bytes(b"mine")
    return str(path)
