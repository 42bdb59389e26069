"""fsspec's own suites, inherited: a guarded filesystem is a filesystem."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from putifabsent.lab.servers import LocalBucket


class Memory(AbstractFixtures):
    """Guarded memory."""

    @pytest.fixture(scope="class")
    @classmethod
    def fs(cls) -> Iterator[Any]:
        fs = fsspec.filesystem("piamemory")
        fs.fs.store.clear()
        fs.fs.pseudo_dirs[:] = [""]
        yield fs
        fs.fs.store.clear()
        fs.fs.pseudo_dirs[:] = [""]

    @pytest.fixture
    def fs_join(self) -> Any:
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def fs_path(self) -> str:
        return ""


class Local(AbstractFixtures):
    """Guarded local disk."""

    @pytest.fixture(scope="class")
    @classmethod
    def fs(cls) -> Any:
        return fsspec.filesystem("piafile", auto_mkdir=True)

    @pytest.fixture
    def fs_path(self, tmpdir: Any) -> str:
        return str(tmpdir)

    @pytest.fixture
    def fs_join(self) -> Any:
        return os.path.join


class S3(AbstractFixtures):
    """Guarded S3, on a real server."""

    @pytest.fixture(scope="class")
    @classmethod
    def fs(cls, localbucket: LocalBucket) -> Any:
        return fsspec.filesystem("pias3", **localbucket.storage_options)

    @pytest.fixture
    def fs_path(self, localbucket: LocalBucket) -> str:
        return f"{localbucket.bucket}/{uuid.uuid4().hex}"

    @pytest.fixture
    def fs_join(self) -> Any:
        return lambda *parts: "/".join(parts)

    @pytest.fixture(scope="class")
    @classmethod
    def supports_empty_directories(cls) -> bool:
        return False


class TestCopyInMemory(AbstractCopyTests, Memory):
    """``copy``."""


class TestGetInMemory(AbstractGetTests, Memory):
    """``get``."""


class TestPutInMemory(AbstractPutTests, Memory):
    """``put``."""


class TestOpenInMemory(AbstractOpenTests, Memory):
    """``open``."""


class TestPipeInMemory(AbstractPipeTests, Memory):
    """``pipe``."""


class TestCopyOnDisk(AbstractCopyTests, Local):
    """``copy``."""


class TestGetOnDisk(AbstractGetTests, Local):
    """``get``."""


class TestPutOnDisk(AbstractPutTests, Local):
    """``put``."""


class TestOpenOnDisk(AbstractOpenTests, Local):
    """``open``."""


class TestPipeOnDisk(AbstractPipeTests, Local):
    """``pipe``."""


class TestCopyOnS3(AbstractCopyTests, S3):
    """``copy``."""


class TestGetOnS3(AbstractGetTests, S3):
    """``get``."""


class TestPutOnS3(AbstractPutTests, S3):
    """``put``."""


class TestOpenOnS3(AbstractOpenTests, S3):
    """``open``."""


class TestPipeOnS3(AbstractPipeTests, S3):
    """``pipe``."""
