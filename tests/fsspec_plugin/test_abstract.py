"""fsspec's own suites, inherited: a guarded filesystem is a filesystem, whoever decides."""

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
    from tests.stub import FaultStub


class Suites(AbstractCopyTests, AbstractGetTests, AbstractOpenTests, AbstractPipeTests, AbstractPutTests):
    """All of them."""


class SuitesButPatterns(Suites):
    """All but the spellings of a pattern: neither disks nor arbiters change how it is matched."""

    test_copy_glob_edge_cases = None
    test_get_glob_edge_cases = None
    test_put_glob_edge_cases = None


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


class Bucket(AbstractFixtures):
    """A store without folders."""

    @pytest.fixture
    def fs_join(self) -> Any:
        return lambda *parts: "/".join(parts)

    @pytest.fixture(scope="class")
    @classmethod
    def supports_empty_directories(cls) -> bool:
        return False


class S3(Bucket):
    """Guarded S3, on a real server."""

    @pytest.fixture(scope="class")
    @classmethod
    def fs(cls, localbucket: LocalBucket) -> Any:
        return fsspec.filesystem("pias3", **localbucket.storage_options)

    @pytest.fixture
    def fs_path(self, localbucket: LocalBucket) -> str:
        return f"{localbucket.bucket}/{uuid.uuid4().hex}"


class TestInMemory(Suites, Memory):
    """The store decides."""


class TestOnDisk(SuitesButPatterns, Local):
    """The store decides."""


class TestOnS3(Suites, S3):
    """The store decides. What a copy does with a pattern a get does, too; a put has the disk's expanded."""

    test_get_glob_edge_cases = None
    test_put_glob_edge_cases = None


class TestOnDiskByAnother(SuitesButPatterns, Local):
    """Each other arbiter."""

    @pytest.fixture
    def fs(self, arbiter: str) -> Any:
        return fsspec.filesystem("piafile", auto_mkdir=True, arbiter=arbiter)


@pytest.mark.servers
class TestOnS3ThatIgnoresConditions(SuitesButPatterns, Bucket):
    """Each other arbiter."""

    @pytest.fixture
    def fs(self, arbiter: str, liar: FaultStub) -> Any:
        return fsspec.filesystem("pias3", arbiter=arbiter, **liar.storage_options("s3"))

    @pytest.fixture
    def fs_path(self) -> str:
        return f"bucket/{uuid.uuid4().hex}"
