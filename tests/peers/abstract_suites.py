"""fsspec's abstract suites over its own local and memory filesystems, as its repository has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec.tests import abstract

if TYPE_CHECKING:
    from pathlib import Path


class OnDisk(abstract.AbstractFixtures):
    """A local disk."""

    @pytest.fixture
    def fs(self) -> Any:
        return fsspec.filesystem("file", auto_mkdir=True)

    @pytest.fixture
    def fs_path(self, tmp_path: Path) -> str:
        return str(tmp_path)


class InMemory(abstract.AbstractFixtures):
    """A process's memory."""

    @pytest.fixture
    def fs(self) -> Any:
        fs = fsspec.filesystem("memory")
        fs.store.clear()
        fs.pseudo_dirs[:] = [""]
        return fs

    @pytest.fixture
    def fs_join(self) -> Any:
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def fs_path(self) -> str:
        return ""


def _over(fixtures: type) -> None:
    for name, suite in vars(abstract).items():
        if name.startswith("Abstract") and name.endswith("Tests"):
            made = f"Test{fixtures.__name__}{name.removeprefix('Abstract').removesuffix('Tests')}"
            globals()[made] = type(made, (suite, fixtures), {"__module__": __name__})


_over(OnDisk)
_over(InMemory)
