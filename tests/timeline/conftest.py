"""Where the tables of these tests lie: on disk and in memory; and real ones, as their formats wrote them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Place:
    """A filesystem, and a folder in it."""

    def __init__(self, fs: Any, root: str) -> None:
        self.fs = fs
        self.root = root


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    fs = fsspec.filesystem(request.param)
    root = str(tmp_path / "t") if request.param == "file" else f"/{uuid.uuid4().hex}/t"
    fs.makedirs(root.rpartition("/")[0], exist_ok=True)
    yield Place(fs, root)
    if request.param == "memory":
        fs.rm(root.rpartition("/")[0], recursive=True)


@pytest.fixture
def memory() -> Iterator[Place]:
    fs = fsspec.filesystem("memory")
    root = f"/{uuid.uuid4().hex}"
    fs.makedirs(root)
    yield Place(fs, f"{root}/t")
    fs.rm(root, recursive=True)
